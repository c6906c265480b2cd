//! Uploads: a queue of files, one at a time, with the server's own progress.
//!
//! [`queue`] holds the state of each file and all its changes (pure); [`driver`] sends the files
//! and updates the queue.

pub mod driver;
pub mod queue;
mod transfer;
