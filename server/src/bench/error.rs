//! Why a bench was not taken, or a row not run. Knows no HTTP.

use crate::clients::Refusal;
use crate::store::StoreError;

/// Why a bench was not taken.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// What is asked for makes no sense; the sentence says what would.
    #[error("{0}")]
    Refused(String),
    /// The queue is full.
    #[error(transparent)]
    Busy(#[from] Refusal),
    /// The database says no.
    #[error(transparent)]
    Store(#[from] StoreError),
}
