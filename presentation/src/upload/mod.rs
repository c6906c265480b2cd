//! Files on their way to the server: the queue, and what is in archives.

pub mod archive;
pub mod queue;
