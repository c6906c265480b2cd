//! The Tidemark server and its command line.
//!
//! Walk through it in the order of the data: `http` takes an upload, `ingest` drives the pure core
//! (`trace`) over its bytes, `blobs` and `store` keep what came of it, `pictures` serves tiles.

pub mod blobs;
mod clock;
pub mod facts;
mod identity;
pub mod ingest;
pub mod pictures;
pub mod store;
