//! From bytes to a stored run: runs the pure core.
//!
//! `uploads` is the service. `admission` limits how many may come in, and `allowance` what each may
//! use. `coding` unpacks a body that was packed for the way only. `receive` takes a body and feeds
//! two threads; `parse` is the one that unpacks and reads.
//! `keep` writes rows, chunks and overviews. `recover` cleans up after a server that died. `adopt`
//! makes runs from blobs that the database does not know.

mod admission;
mod adopt;
mod allowance;
mod coding;
pub mod decompress;
mod disk_share;
mod error;
mod keep;
mod parse;
mod progress;
mod receive;
mod recover;
mod repack;
mod sender;
mod tally;
mod upload;
mod uploads;

pub use admission::Admission;
pub use coding::{Broken, unpacked};
pub use error::IngestError;
pub use parse::parse;
pub use receive::UploadLimits;
pub use sender::{Lasts, Sender};
pub use upload::{Arrived, Upload};
pub use uploads::Uploads;
