//! Uploads: a queue of files, one at a time, with the server's own progress.
//!
//! [`queue`] holds what is known of each file and how that changes (pure); [`driver`] sends the
//! files and feeds the queue.

pub mod driver;
pub mod queue;
mod transfer;
