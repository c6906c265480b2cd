//! Answers in words.
//!
//! ```text
//! sentence    what would happen
//! trust       how far that can be trusted
//! sizes       sizes and ranges of them
//! ```

mod sentence;
mod sizes;
mod trust;

pub use sentence::{place, sentence};
pub use trust::trust;
