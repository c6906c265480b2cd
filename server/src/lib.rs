//! The Tidemark server and its command line.
//!
//! Read it in the order of the data. `http` takes an upload, `ingest` runs the pure core (`trace`)
//! on its bytes, and `blobs` and `store` keep the results. `pictures` draws and serves tiles,
//! `questions` answers questions about a run, `comparisons` compares runs, and `jobs` handles the
//! ranks of one program. `explain` puts a run into words, `mcp` answers language models. `bench`
//! runs the engine, one row after the other, each in a process of its own. `app` opens all of this;
//! `cli` is the command line.

mod access;
mod answers;
pub mod app;
mod backup;
pub mod bench;
mod blobs;
mod budget;
mod cards;
pub mod cli;
mod clients;
mod clock;
mod comparisons;
mod compression;
pub mod config;
mod disk;
mod doctor;
mod explain;
mod export;
mod facts;
mod forge;
mod history;
mod http;
mod identity;
mod ingest;
mod inspection;
mod jobs;
mod judgements;
mod live;
mod machine;
mod mcp;
mod names;
mod oidc;
mod own_categories;
mod people;
mod pictures;
pub mod plain;
mod private;
mod problems;
mod processor_time;
mod questions;
mod recent;
mod requests;
mod samples;
mod sessions;
pub mod site;
pub mod store;
mod table;
mod tensors;
mod texts;
mod turns;
mod webhook;
mod work;
