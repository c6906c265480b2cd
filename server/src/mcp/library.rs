//! The recordings that can be asked about.

use api::bench::RowOfRun;
use api::ids::RunId;
use api::projects::{ProjectName, in_project};
use api::routes;
use api::runs::RunSummary;
use api::view_state::ViewState;
use std::ops::Deref;
use trace::trace::Trace;

/// Where a recording is on a dashboard.
pub struct Place {
    /// The beginning of the dashboard's addresses.
    pub server: String,
    /// The project, where it has several.
    pub project: Option<ProjectName>,
    /// The run.
    pub run: RunId,
}

/// A recording for questions.
pub struct Recording {
    /// The name of the file or of the run.
    pub name: String,
    held: Box<dyn Deref<Target = Trace>>,
    /// Where it is on a dashboard.
    pub place: Option<Place>,
    /// What a bench of that dashboard knows of it.
    pub bench_row: Option<RowOfRun>,
}

impl Recording {
    /// A recording, and its place on a dashboard.
    pub fn new(
        name: String,
        held: impl Deref<Target = Trace> + 'static,
        place: Option<Place>,
    ) -> Recording {
        Recording {
            name,
            held: Box::new(held),
            place,
            bench_row: None,
        }
    }

    /// The same, of which a bench may know more.
    pub fn beside(self, bench_row: Option<RowOfRun>) -> Recording {
        Recording { bench_row, ..self }
    }

    /// Its trace.
    pub fn trace(&self) -> &Trace {
        &self.held
    }

    /// The address of a view of it, if it is on a known dashboard.
    pub fn link(&self, view: &ViewState) -> Option<String> {
        let Place {
            server,
            project,
            run,
        } = self.place.as_ref()?;
        let page = format!("{server}{}?{view}", routes::run_page(run));
        Some(match project {
            // Another project may have the same run.
            Some(project) => in_project(&page, project),
            None => page,
        })
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
