//! Answers to questions about decoded traces, with the names that people read. No IO, no clock, no
//! threads: the server and the page without a server give the same answers.
//!
//! Read it in this order. `decoded` is a trace in memory with its indexes. `names`, `places` and
//! `contents` are the parts of answers, `facts` are small facts of a trace. `pictures` draws tiles
//! and marks, `questions` answers questions about a run, `curves` draws runs over one axis, `ranks`
//! shows those of a job. `elsewhere` are the verdicts of the other devices. `identity` makes the id
//! of a run from its content, `run_names` says what a run may be called, `malformed` says in plain
//! words why a request cannot be read, `texts` gives the texts of a trace with or without names,
//! and `redaction` shows what a link without names would hide. `cards` are what stands for a run in
//! other places, `benched` lays what a bench knows over a comparison, and `explain` puts a
//! recording into words.

pub mod benched;
pub mod cards;
pub mod contents;
pub mod curves;
pub mod decoded;
pub mod elsewhere;
pub mod explain;
pub mod facts;
pub mod identity;
pub mod malformed;
pub mod names;
pub mod pictures;
mod places;
pub mod questions;
pub mod ranks;
pub mod redaction;
pub mod run_names;
pub mod texts;
