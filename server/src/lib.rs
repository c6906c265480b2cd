//! The Tidemark server and its command line.
//!
//! Walk through it in the order of the data: `http` takes an upload, `ingest` drives the pure core
//! (`trace`) over its bytes, `blobs` and `store` keep what came of it, `pictures` draws and serves
//! tiles, `questions` answers what is asked of a run, `comparisons` holds runs against one another.
//! `bench` runs the engine, one row after the other, each in a process of its own. `app` opens all
//! of it; `cli` is what a person types.

pub mod access;
mod answers;
pub mod app;
pub mod bench;
pub mod blobs;
pub mod budget;
pub mod cards;
pub mod cli;
pub mod clients;
mod clock;
pub mod comparisons;
mod compression;
pub mod config;
pub mod doctor;
pub mod export;
pub mod facts;
pub mod http;
mod identity;
pub mod ingest;
mod machine;
pub mod names;
pub mod pictures;
pub mod plain;
mod private;
pub mod problems;
mod processor_time;
pub mod questions;
mod samples;
pub mod sessions;
pub mod store;
pub mod tensors;
pub mod texts;
pub mod work;
