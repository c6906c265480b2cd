//! Answers in words.
//!
//! ```text
//! sentence    what would happen
//! trust       how far that can be trusted
//! sizes       sizes and ranges of them
//! testing     for tests
//! ```

mod sentence;
mod sizes;
#[cfg(test)]
mod testing;
mod trust;

pub use sentence::{Certainty, certainty, place, sentence};
pub use trust::trust;
