//! Cards: one picture, or one block of Markdown, that stands for a run or a comparison where there
//! is no page.
//!
//! The picture in a card is the page's: the same model, scenes and painting (crate `timeline`).
//! Equal inputs give equal bytes: there is no clock and no system font in it. `shelf` keeps those
//! that were drawn.

mod comparison;
pub mod markdown;
mod png;
mod run;
mod shelf;
mod svg;

pub use comparison::{ComparisonCard, curves_of, place, word};
pub use png::png;
pub use run::RunCard;
pub use shelf::CardShelf;
pub use svg::svg;

/// Version of what cards look like; part of their ETag.
pub const VERSION: u32 = 2;

/// With a capital letter.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let text = capital(text);
    match text.ends_with('.') || text.is_empty() {
        true => text,
        false => text + ".",
    }
}
