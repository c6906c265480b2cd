//! The recordings that can be asked about.

use api::ids::RunId;
use api::routes;
use api::runs::RunSummary;
use api::view_state::ViewState;
use std::ops::Deref;
use trace::trace::Trace;

/// A recording for questions.
pub struct Recording {
    /// The name of the file or of the run.
    pub name: String,
    held: Box<dyn Deref<Target = Trace>>,
    /// The dashboard that has it, and its run there.
    pub run: Option<(String, RunId)>,
}

impl Recording {
    /// A recording, and its place on a dashboard.
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

    /// Its trace.
    pub fn trace(&self) -> &Trace {
        &self.held
    }

    /// The address of a view of it, if it is on a known dashboard.
    pub fn link(&self, view: &ViewState) -> Option<String> {
        let (server, run) = self.run.as_ref()?;
        Some(format!("{server}{}?{view}", routes::run_page(run)))
    }
}

/// Finds recordings. Must be called on a thread that may block.
pub trait Library {
    /// The recording of this name.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    fn recording(&self, name: &str) -> Result<Recording, String>;

    /// The runs of the dashboard, newest first, at most [`MOST_RUNS`].
    ///
    /// # Errors
    /// Why there are none, and what to do.
    fn runs(&self) -> Result<Vec<RunSummary>, String>;
}

/// How many runs are searched for a list.
pub const MOST_RUNS: u32 = 500;
