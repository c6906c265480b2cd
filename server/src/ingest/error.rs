//! Why bytes did not become a run. Independent of HTTP.

use super::decompress::DecompressError;
use crate::blobs::BlobError;
use crate::budget::NoMemory;
use crate::clients::Refusal;
use crate::clients::pace::TooSlow;
use crate::store::StoreError;
use std::time::Duration;
use trace::reader::ReadError;
use trace::units::Bytes;
use trace::watch::Stopped;

/// Why bytes did not become a run.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The file is not a snapshot, or it is damaged or hostile.
    #[error("{detail}")]
    BadSnapshot {
        /// What is wrong and where, as a sentence.
        detail: String,
        /// Byte offset in the unpacked file, or in the packed one when unpacking failed.
        offset: Option<u64>,
    },
    /// More bytes than accepted.
    #[error("the file is larger than {limit}, the limit of this server (--upload-limit)")]
    TooLarge {
        /// The limit.
        limit: Bytes,
    },
    /// The memory for it is not available.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// It takes more work than any snapshot of its size should.
    #[error(
        "refused after {} s of work: no snapshot of this size takes so long; if it is one, open an \
         issue",
        .limit.as_secs()
    )]
    TooMuchWork {
        /// Processor time that it may take.
        limit: Duration,
    },
    /// The disk would be too full.
    #[error("the disk has {free} free; this upload needs {needed}")]
    NoSpace {
        /// Bytes free.
        free: Bytes,
        /// Bytes wanted.
        needed: Bytes,
    },
    /// The project would take more than it may.
    #[error(
        "the project takes {used} of its {quota} on disk, and this takes {more}; delete runs, or \
         let an admin of the server give it more"
    )]
    OverQuota {
        /// What it takes.
        used: Bytes,
        /// What it may take.
        quota: Bytes,
        /// What the upload takes, as far as that is known.
        more: Bytes,
    },
    /// The body ended early.
    #[error("the connection ended after {received} bytes{}; send the file again", of(*.announced))]
    Interrupted {
        /// Bytes that came.
        received: u64,
        /// Bytes that were announced.
        announced: Option<u64>,
    },
    /// The client was too slow.
    #[error(
        "the file came {0}, the least that this server accepts (--min-rate); send it again over \
         a faster line"
    )]
    TooSlow(TooSlow),
    /// Too many uploads at a time.
    #[error(transparent)]
    Busy(#[from] Refusal),
    /// The server was stopped or died in the middle.
    #[error("the server stopped before all bytes had arrived; send the file again")]
    ServerStopped,
    /// Servers died again and again while they read it.
    #[error(
        "the server stopped {attempts} times while it read this file, most likely for want of \
         memory. The file is kept: `tidemark doctor --adopt` tries once more"
    )]
    GivenUp {
        /// How often.
        attempts: u32,
    },
    /// The user cancelled it.
    #[error("the upload was cancelled")]
    Cancelled,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The blob store failed.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// A defect: a thread panicked.
    #[error("the {0} thread panicked")]
    Panicked(&'static str),
}

impl IngestError {
    /// Whether only writing failed, while everything stored can still be read.
    pub fn refuses_writes(&self) -> bool {
        match self {
            IngestError::Store(error) => error.refuses_writes(),
            IngestError::NoSpace { .. } | IngestError::Blob(BlobError::Full) => true,
            _ => false,
        }
    }
}

fn of(announced: Option<u64>) -> String {
    announced.map_or(String::new(), |total| format!(" of {total}"))
}

/// While a trace is stored, the watch stops only if the upload is cancelled.
impl From<Stopped> for IngestError {
    fn from(_: Stopped) -> IngestError {
        IngestError::Cancelled
    }
}

impl From<ReadError> for IngestError {
    fn from(error: ReadError) -> IngestError {
        IngestError::BadSnapshot {
            detail: error.to_string(),
            offset: Some(error.offset),
        }
    }
}

impl From<DecompressError> for IngestError {
    fn from(error: DecompressError) -> IngestError {
        IngestError::BadSnapshot {
            detail: error.to_string(),
            offset: error.offset(),
        }
    }
}
