//! Cards: a picture or a block of Markdown that stands for a run or a comparison in places without
//! the page.
//!
//! The picture in a card is made like the one on the page: by the same model, scenes and painting
//! (crate `timeline`). The crate `render` makes a file of it. Equal inputs give equal bytes,
//! because there is no clock and no system font.

mod comparison;
pub mod markdown;
mod run;

pub use comparison::{ComparisonCard, categories, curves_of, place_among, word};
pub use run::{Head, Look, NoCard, RunCard, Watches};

use trace::categories::Named;

/// Version of the looks of cards; part of their ETag.
pub const VERSION: u32 = 28;

/// How many categories are listed, the largest ones.
const CATEGORIES: usize = 4;

/// When memory is highest.
const AT_PEAK: &str = "At the peak";

/// What memory consists of then, in a line: `activations 996 MiB · parameters 324 MiB`. It is empty
/// if nothing is known.
fn held_then(when: &str, parts: impl Iterator<Item = (Named, String)>) -> String {
    let parts = parts.take(CATEGORIES);
    let parts: Vec<String> = parts
        .map(|(category, amount)| format!("{} {amount}", category.label()))
        .collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("{when}: {}", parts.join(" · ")),
    }
}

/// The text with a capital first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// The text with a capital first letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let text = capital(text);
    match text.ends_with('.') || text.is_empty() {
        true => text,
        false => text + ".",
    }
}
