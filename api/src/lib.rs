//! What crosses a process boundary: ids, routes, requests, responses, problems.
//!
//! Rules: changes only add; one file per resource; no IO here. The server, the web front end, the
//! command line and the tests all use these types and these paths.
//!
//! Which types are here:
//!
//! * A type of `trace` that holds words, quantities and positions is sent as it is: it derives
//!   serde (and, with the feature `openapi`, its schema) in `trace`, and is not repeated here. Its
//!   module is then part of the protocol, and changes there only add, as in this crate.
//! * Where `trace` has an index (of a stack, a site, a name), the answer has the name itself,
//!   perhaps redacted. Such types are here, and the crate `answers` makes them.
//! * Values that the database keeps in columns are flat here too: [`leaks::Pattern`] has its
//!   `every` beside it.
//!
//! Modules, in reading order:
//!
//! * `ids`, `routes`, `problem`, `page`, `progress`: names of things, every path, what went wrong,
//!   long lists, long work
//! * `runs`, `contents`, `quality`, `labels`, `inspect`: a run, what it holds and lacks
//! * `timeline`, `frames`, `memory_map`, `alive`, `leaks`, `categories`: questions about it
//! * `explain`, `what_if`, `replayed`: why memory ran out, and what would have helped
//! * `compare`, `history`, `jobs`, `bench`: several runs
//! * `view_state`, `compare_view`, `shares`, `views`, `query`: what a link holds
//! * `people`, `projects`, `project_name`: who may see what
//! * `usage`: what takes the disk
//! * `live`, `recipes`: trainings that report, and how to record
//! * `lacks`, `decimal`: how values that are several things in one object are read, and floats

pub mod alive;
pub mod bench;
pub mod categories;
pub mod compare;
pub mod compare_view;
pub mod contents;
pub mod decimal;
pub mod explain;
pub mod frames;
pub mod history;
pub mod ids;
pub mod inspect;
pub mod jobs;
pub mod labels;
mod lacks;
pub mod leaks;
pub mod live;
pub mod memory_map;
pub mod page;
pub mod people;
pub mod problem;
pub mod progress;
mod project_name;
pub mod projects;
pub mod quality;
pub mod query;
pub mod recipes;
mod replayed;
pub mod routes;
pub mod runs;
pub mod shares;
pub mod timeline;
pub mod usage;
pub mod view_state;
pub mod views;
pub mod what_if;
