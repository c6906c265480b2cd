//! Benches: rows of the engine, one after the other, each in a process of its own.
//!
//! `catalog` has what can be run and `card` whether there is a GPU. `request` checks a request, and
//! `queue` runs its rows one after the other. `process` runs one row in a child and watches it;
//! `child` is the program in there. `keep` makes a run from its recording, and `ending` writes down
//! how it ended. `verdicts` compares the rows of a bench with their baseline, `behind` the tensors
//! that two rows leave alive.
//!
//! The child is this program again, with a command that is not for people. So a fault of a driver,
//! or running out of memory, ends one row and never the dashboard.

mod behind;
mod card;
pub mod catalog;
mod child;
mod ending;
mod error;
#[cfg(feature = "faults")]
mod fault;
mod keep;
mod process;
mod queue;
mod request;
mod verdicts;

pub use card::probe_card;
pub use child::{ChildSpec, run_child};
pub use error::BenchError;
#[cfg(feature = "faults")]
pub use fault::Fault;
pub use queue::Benches;

use std::path::PathBuf;
use std::time::Duration;
use trace::units::Bytes;

/// The settings of the service.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchSettings {
    /// The program that runs rows; `None` for this one.
    pub program: Option<PathBuf>,
    /// How long a row may take.
    pub time: Duration,
    /// How much memory the process of a row may take. On a GPU it may take
    /// [`BenchSettings::CUDA_FACTOR`] times as much, because pinned host memory counts too.
    pub memory: Bytes,
    /// Faults to inject into rows of a configuration, by its id.
    #[cfg(feature = "faults")]
    pub faults: Vec<(String, Fault)>,
}

impl BenchSettings {
    /// How many times more memory a row on a GPU may take than another row.
    pub const CUDA_FACTOR: u64 = 16;

    /// The program to run rows with.
    ///
    /// # Errors
    /// When the system does not say what this program is.
    pub fn program(&self) -> std::io::Result<PathBuf> {
        match &self.program {
            Some(program) => Ok(program.clone()),
            None => std::env::current_exe(),
        }
    }
}

impl Default for BenchSettings {
    fn default() -> BenchSettings {
        BenchSettings {
            program: None,
            time: Duration::from_secs(600),
            memory: Bytes::gib(4),
            #[cfg(feature = "faults")]
            faults: Vec::new(),
        }
    }
}
