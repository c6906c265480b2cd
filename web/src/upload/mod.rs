//! Uploads: a queue of files, one at a time, with the server's own progress.
//!
//! [`presentation::upload::item`] holds the state of a file and all its changes, and
//! [`presentation::upload::queue`] says whose turn it is; [`driver`] sends the files and updates
//! their states. [`archive`] finds the files in archives.

mod archive;
pub mod driver;
mod transfer;
