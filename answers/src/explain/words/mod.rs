//! Why memory ran out and what would have helped: the first few sentences that a person needs.
//! Places in them are marked as code, in Markdown.
//!
//! * `why`: who asked, what refused it, and the cause
//! * `helped`: the changes that get past it, and what ends the cause
//! * `leaking`, `limit`: what leaks, and whether the limit is known, for both

mod helped;
mod leaking;
mod limit;
#[cfg(test)]
mod tests;
mod why;

pub use helped::{Replays, helped};
pub use leaking::{called_by, made_in};
pub use why::{Request, went_on, why};
