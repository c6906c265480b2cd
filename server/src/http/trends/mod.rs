//! Plain pages that hold many runs side by side: the history of a branch, the pushes to a pull
//! request, and jobs with their ranks.

mod chart;
mod history;
mod jobs;
mod pulls;

pub use history::history;
pub use jobs::jobs;
pub use pulls::pull_requests;

use super::page::PageQuery;
use crate::store::Slice;
use api::history::{HistoryRun, Measure};
use api::leaks::Verdict;
use api::quality::{cautions, is_least};
use chart::Known;
use maud::{Markup, html};

/// Rows of a list on a page.
const ON_PAGE: usize = 100;

/// The rows of a page, and one more, which tells whether there is another page.
fn on_page(offset: u32) -> Slice {
    let mut slice = PageQuery::new(offset, ON_PAGE).slice();
    slice.limit += 1;
    slice
}

/// The rows that are shown, and whether there are more.
fn shown<T>(mut rows: Vec<T>) -> (Vec<T>, bool) {
    let more = rows.len() > ON_PAGE;
    rows.truncate(ON_PAGE);
    (rows, more)
}

/// Links to the pages before and after. `list` is the address of the list, up to its offset.
fn pages(list: &str, offset: u32, more: bool) -> Markup {
    let at = |offset: u32| format!("{list}offset={offset}");
    let on_page = ON_PAGE as u32;
    html! {
        @if more || offset > 0 {
            nav class="account-row" aria-label="Pages of the list" {
                @if offset > 0 { a href=(at(offset.saturating_sub(on_page))) { "Newer" } }
                @if more { a href=(at(offset.saturating_add(on_page))) { "Older" } }
            }
        }
    }
}

/// What is known of a number of a run.
fn known(run: &HistoryRun, measure: Measure) -> Known {
    match run.measured(measure) {
        Some(peak) if measure == Measure::Peak && is_least(&run.quality) => Known::AtLeast(peak),
        Some(bytes) => Known::Exactly(bytes),
        None => Known::Not,
    }
}

/// What went wrong in a run, as its recording and its bench know it.
fn wrong(run: &HistoryRun) -> Markup {
    html! {
        @for fault in run.went_wrong() {
            " " span class="badge bad" { (fault.label()) }
        }
    }
}

/// What the numbers of a run leave out, because its recording is not whole.
fn marks(run: &HistoryRun) -> Markup {
    html! {
        @for (word, about) in cautions(&run.quality) {
            " " span class="badge caution" title=(about) { (word) }
        }
    }
}

/// Whether a run leaks, for a table.
fn leaks(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        None => "not judged yet",
        Some(Verdict::Leak) => "leaks",
        Some(Verdict::Clean) => "no leak",
        Some(Verdict::CannotTell) => "cannot tell",
    }
}
