//! Why a bench was not accepted, or a row not run. Independent of HTTP.

use crate::limits::clients::Refusal;
use crate::store::StoreError;

/// Why a bench was not taken.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The request makes no sense; the sentence says what would.
    #[error("{0}")]
    Refused(String),
    /// The queue is full.
    #[error(transparent)]
    Busy(#[from] Refusal),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
