//! The Tidemark server and its command line.
//!
//! Read it in the order of the data. `http` takes an upload, `ingest` runs the pure core (`trace`)
//! on its bytes, and `blobs` and `store` keep the results. `pictures` draws and serves tiles,
//! `comparisons` compares runs, and `jobs` handles the ranks of one program. The answers themselves
//! come from the crate `answers`. `mcp` answers language models. `bench` runs the engine, one row
//! after the other, each in a process of its own. `app` opens all of this; `cli` is the command
//! line.
//!
//! Modules, in reading order:
//!
//! * `cli`, `config`, `app`: the commands; what `serve` is told; what every request needs
//! * `http`, `problems`: routes, one file a subject; `layers` (what every request passes), `here`
//!   (which project), `addresses` (links that keep it), `audience` and `permits` (who sees and may
//!   what), `audited` (what was done), `account`, `trends`, `labels`, `categories`, `live`,
//!   `views`, `usage` and `help` (pages without a program); all error statuses
//! * `who`: who comes in, and as whom (`SECURITY.md`, `docs/people.md`)
//! * `limits`: memory permits, threads, turns, quotas, and the time of an answer
//! * `system`: the data folder, the disk, the clock, and texts for terminals
//! * `ingest`, `blobs`: from a body to a stored run; files
//! * `store`: SQLite, the only place with SQL; `migrations/` has the schema
//! * `pictures`, `comparisons`, `jobs`: tiles and decoded traces, kept; several runs; many ranks
//! * `shelf`, `run_lists`, `recent`: drawn cards and pages of the list of runs, kept; values that
//!   are made once
//! * `judgements`: verdicts and words that are found once, when a run arrives, and kept
//! * `live`: what to look at in a training that reports while it runs, and its processes as one row
//!   (`docs/recording.md`)
//! * `history`: runs with the same labels one after the other, and what changed for good
//!   (`docs/labels.md`)
//! * `own_categories`: which rules for the team's own categories hold (`docs/categories.md`)
//! * `inspection`: what `inspect` says of a recording, as a document and as text
//! * `mcp`: the same questions as tools for a language model, over stdio and HTTP (`docs/mcp.md`)
//! * `export`: a run for other tools (files: crate `render`)
//! * `backup`, `doctor`: a second copy of a data folder, and the way back; damage, and what can
//!   be done about it
//! * `forge`: the comment and the status on a pull request, at GitHub and GitLab
//! * `webhook`: messages to a chat: of the gate, and of trainings that report
//!   (`docs/recording.md`)
//! * `bench`: the queue of rows, and the child process that runs one
//! * `opening`, `projects`: a server with its projects, each an `App` of its own; who may enter
//!   which, and which runs stay (`docs/projects.md`)
//! * `usage`: what takes the disk (`docs/deploy.md`)
//! * `page_files`, `samples`: the front end's files, in the binary or in a folder; small recordings
//!   to try
//! * `identity`, `tensors`: ids; what the engine knows of tensors

pub mod app;
mod backup;
pub mod bench;
mod blobs;
pub mod cli;
mod comparisons;
pub mod config;
mod doctor;
mod export;
mod forge;
mod history;
mod http;
mod identity;
mod ingest;
mod inspection;
mod jobs;
mod judgements;
mod limits;
mod live;
mod mcp;
mod opening;
mod own_categories;
pub mod page_files;
mod pictures;
mod problems;
mod projects;
mod recent;
mod run_lists;
mod samples;
mod shelf;
pub mod store;
pub mod system;
mod tensors;
mod usage;
mod webhook;
mod who;
