//! Why bytes did not become a run. Independent of HTTP.

use super::decompress::DecompressError;
use crate::blobs::BlobError;
use crate::limits::budget::NoMemory;
use crate::limits::clients::Refusal;
use crate::limits::clients::pace::TooSlow;
use crate::store::StoreError;
use std::time::Duration;
use trace::reader::ReadError;
use trace::units::Bytes;
use trace::watch::Stopped;

/// What an upload wants of the quota of its project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// So many bytes of a packed file.
    Packed(Bytes),
    /// A file of this size, as it is sent; how small it can be packed is not known before it is
    /// here. Zero if the size is not known either.
    Sent(Bytes),
    /// A report of a training.
    Report,
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wanted::Packed(size) => write!(f, ", and this file takes {size} more, packed"),
            Wanted::Report => f.write_str(", so there is no room for reports of trainings"),
            Wanted::Sent(Bytes::ZERO) => f.write_str(", so there is no room for another file"),
            Wanted::Sent(size) => write!(f, ", so there is no room for this file of {size}"),
        }
    }
}

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
    #[error(
        "the disk has {free} free; {needed} are needed: for files, and for what must stay free \
         (--keep-free)"
    )]
    NoSpace {
        /// Bytes free.
        free: Bytes,
        /// Bytes wanted.
        needed: Bytes,
    },
    /// The project would take more than it may.
    #[error(
        "the project takes {used} on disk ({in_database} of it in its database, with the reports \
         of trainings) of the {quota} that it may take{}{wanted}; {}",
        under_way(*.reserved), remedy(*.used, *.quota, *.wanted)
    )]
    OverQuota {
        /// What it takes.
        used: Bytes,
        /// How much of that is in its database.
        in_database: Bytes,
        /// What it may take.
        quota: Bytes,
        /// What uploads that are under way take besides.
        reserved: Bytes,
        /// What the upload takes, as far as that is known.
        wanted: Wanted,
    },
    /// The body goes on after the bytes that were announced.
    #[error("{announced} bytes were announced, and more came; announce the size of the file")]
    Longer {
        /// Bytes that were announced.
        announced: u64,
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
    /// Whoever sent it may not any more.
    #[error("your access ended while the file came, so nothing of it was kept: sign in again")]
    AccessEnded,
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
    /// A body that is not packed as its `Content-Encoding` says.
    pub fn of_body(error: &DecompressError) -> IngestError {
        IngestError::BadSnapshot {
            detail: format!("the body is not whole, as its Content-Encoding packs it: {error}"),
            offset: error.offset(),
        }
    }

    /// Whether only writing failed, while everything stored can still be read.
    pub fn refuses_writes(&self) -> bool {
        match self {
            IngestError::Store(error) => error.refuses_writes(),
            IngestError::NoSpace { .. } | IngestError::Blob(BlobError::Full) => true,
            _ => false,
        }
    }
}

fn under_way(reserved: Bytes) -> String {
    match reserved {
        Bytes::ZERO => String::new(),
        reserved => format!(", uploads that are under way take {reserved}"),
    }
}

/// What helps when this much is taken of a quota, and this is wanted.
fn remedy(used: Bytes, quota: Bytes, wanted: Wanted) -> &'static str {
    let least = match wanted {
        Wanted::Packed(size) => size,
        // However small it can be packed.
        Wanted::Sent(_) | Wanted::Report => Bytes(1),
    };
    match used.get().saturating_add(least.get()) <= quota.get() {
        true => "send it again when they have ended",
        false => {
            "delete runs, which makes room ten minutes later, or trainings on the page Live, which \
             makes room at once, or ask an admin of the server to give it more"
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
