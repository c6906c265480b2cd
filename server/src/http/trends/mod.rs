//! Plain pages that follow numbers from run to run: the history of a branch, and the pushes to a
//! pull request.

mod chart;
mod history;
mod pulls;

pub use history::history;
pub use pulls::pull_requests;

use crate::access::Entry;
use crate::problems::Error;
use api::leaks::Verdict;
use api::people::Scope;

/// Whether a run leaks, for a table.
fn leaks(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        None => "not judged yet",
        Some(Verdict::Leak) => "leaks",
        Some(Verdict::Clean) => "no leak",
        Some(Verdict::CannotTell) => "cannot tell",
    }
}

/// These pages show runs.
fn may_read(entry: &Entry) -> Result<(), Error> {
    match entry.may(Scope::Read) {
        true => Ok(()),
        false => Err(Error::Scope {
            needed: Scope::Read,
            has: entry.scopes,
        }),
    }
}
