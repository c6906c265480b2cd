//! Plain pages that hold many runs side by side: the history of a branch, the pushes to a pull
//! request, and jobs with their ranks.

mod chart;
mod history;
mod jobs;
mod pulls;

pub use history::history;
pub use jobs::jobs;
pub use pulls::pull_requests;

use api::leaks::Verdict;

/// Whether a run leaks, for a table.
fn leaks(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        None => "not judged yet",
        Some(Verdict::Leak) => "leaks",
        Some(Verdict::Clean) => "no leak",
        Some(Verdict::CannotTell) => "cannot tell",
    }
}
