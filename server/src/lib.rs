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
//! * `cli`, `config`, `app`, `data_folder`, `data_lock`: the commands; what `serve` is told; what
//!   every request needs; what lies in a data folder; who works in it
//! * `http`, `problems`: routes, one file a subject; `here` (which project), `addresses` (links
//!   that keep it), `problem_page`, `guard`, `cors`, `audience` and `permits` (who sees and may
//!   what), `audited` (what was done), `account`, `trends`, `labels`, `categories`, `live`,
//!   `views` and `help` (pages without a program); all error statuses
//! * `ingest`, `blobs`, `budget`, `work`, `turns`, `asking`, `processor_time`: from a body to a
//!   stored run; files; memory permits; threads; queues; turns at questions, apart for strangers;
//!   limits
//! * `requests`, `disk`: what `/metrics` counts and looks at, beside what the others count
//!   themselves
//! * `store`: SQLite, the only place with SQL; `migrations/` has the schema
//! * `pictures`, `comparisons`, `jobs`: tiles and decoded traces, kept; several runs; many ranks
//! * `answering`, `shelf`: work that somebody waits for, within the limits of an answer; drawn
//!   cards, kept
//! * `judgements`: verdicts and words that are found once, when a run arrives, and kept
//! * `live`: what to look at in a training that reports while it runs (`docs/recording.md`)
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
//! * `clients`, `access`, `people`, `oidc`, `sessions`, `names`: quotas, who gets in, people and
//!   their tokens, who signs them in, sessions, host names (`SECURITY.md`, `docs/people.md`)
//! * `opening`, `projects`: a server with its projects, each an `App` of its own; who may enter
//!   which, and which runs stay (`docs/projects.md`)
//! * `site`, `samples`: the front end's files, in the binary or in a folder; small recordings to
//!   try
//! * `identity`, `plain`, `tensors`, `table`: ids; characters that a name may have; what the engine
//!   knows of tensors; tables in plain text
//! * `clock`, `machine`, `compression`, `private`, `recent`: the time; the machine's memory; how to
//!   recognise compressed files; files of their owner alone; values that are made once

mod access;
mod answering;
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
mod data_lock;
mod disk;
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
