//! Uploads: a queue of files, one at a time, with the server's own progress.
//!
//! [`presentation::upload::queue`] holds the state of each file and all its changes; [`driver`]
//! sends the files and updates the queue. [`archive`] finds the files in archives.

mod archive;
pub mod driver;
mod transfer;
