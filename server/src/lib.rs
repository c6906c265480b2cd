//! The Tidemark server and its command line.
//!
//! Read it in the order of the data. `http` takes an upload, `ingest` runs the pure core (`trace`)
//! on its bytes, and `blobs` and `store` keep the results. `pictures` draws and serves tiles,
//! `comparisons` compares runs, and `jobs` handles the ranks of one program. The answers themselves
//! come from the crate `answers`. `mcp` answers language models. `bench` runs the engine, one row
//! after the other, each in a process of its own. `app` opens all of this; `cli` is the command
//! line.

// The modules that answer without a server, under the names that the rest of this crate uses.
use answers::{cards, explain, facts, questions, texts};

mod access;
pub mod app;
mod asking;
mod backup;
pub mod bench;
mod blobs;
mod budget;
pub mod cli;
mod clients;
mod clock;
mod comparisons;
mod compression;
pub mod config;
mod data_folder;
mod disk;
mod doctor;
mod explaining;
mod export;
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
mod opening;
mod own_categories;
mod people;
mod pictures;
pub mod plain;
mod private;
mod problems;
mod processor_time;
mod projects;
mod recent;
mod requests;
mod samples;
mod sessions;
mod shelf;
pub mod site;
pub mod store;
mod table;
mod tensors;
mod turns;
mod webhook;
mod work;
