//! Why memory ran out and what would have helped, and what a peak's step is like: the first few
//! sentences that a person needs.
//! Places in them are marked as code, in Markdown.
//!
//! * `why`: who asked, what refused it, and the cause
//! * `helped`: the changes that get past it, and what ends the cause
//! * `peak`: where nothing failed, how the step of the peak differs from the others
//! * `leaking`, `limit`: what leaks, and how well the limit is known, for both

mod helped;
mod leaking;
mod limit;
mod peak;
#[cfg(test)]
mod tests;
mod why;

pub use helped::{Replays, helped};
pub use leaking::{called_by, made_in};
pub use limit::ABOUT;
pub use peak::{Outside, differs, outside, still_held};
pub use why::{Request, went_on, why};
