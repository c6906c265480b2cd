//! What can be asked about.

use api::ids::RunId;
use api::routes;
use api::runs::RunSummary;
use api::view_state::ViewState;
use std::ops::Deref;
use trace::trace::Trace;

/// A recording to ask.
pub struct Recording {
    /// The file's name, or the run's id.
    pub name: String,
    held: Box<dyn Deref<Target = Trace>>,
    /// The dashboard that has it, and its run there.
    pub run: Option<(String, RunId)>,
}

impl Recording {
    /// A recording, and where a dashboard has it.
    pub fn new(
        name: String,
        held: impl Deref<Target = Trace> + 'static,
        run: Option<(String, RunId)>,
    ) -> Recording {
        Recording {
            name,
            held: Box::new(held),
            run,
        }
    }

    /// What it holds.
    pub fn trace(&self) -> &Trace {
        &self.held
    }

    /// The address of a view of it, where a dashboard is known that has it.
    pub fn link(&self, view: &ViewState) -> Option<String> {
        let (server, run) = self.run.as_ref()?;
        Some(format!("{server}{}?{view}", routes::run_page(run)))
    }
}

/// Where recordings are found. For a thread that may block.
pub trait Library {
    /// The recording of this name.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    fn recording(&self, name: &str) -> Result<Recording, String>;

    /// The runs of the dashboard, newest first, [`MOST_RUNS`] at most.
    ///
    /// # Errors
    /// Why there are none, and what to do.
    fn runs(&self) -> Result<Vec<RunSummary>, String>;
}

/// Runs that are looked through for a list.
pub const MOST_RUNS: u32 = 500;
