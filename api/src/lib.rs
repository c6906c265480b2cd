//! What crosses a process boundary: ids, routes, requests, responses, problems.
//!
//! Rules: changes are additive; one file per resource; nothing here does IO. The server, the web
//! front end, the command line and the tests all use these types and these paths.
//!
//! Which type is here, and which is not:
//!
//! * What `trace` knows as words, quantities and positions crosses as it is: the type derives serde
//!   (and, with the feature `openapi`, its schema) in `trace`, and nobody repeats it. Its module is
//!   part of the wire then, and additive like this crate.
//! * What `trace` knows by index (a stack, a site, a name) crosses with the names put in, perhaps
//!   redacted: that type is here, and `server/src/questions` and `answers` make it.
//! * What the database keeps in columns is flat here too: [`leaks::Pattern`] beside its `every`.

pub mod alive;
pub mod bench;
pub mod compare;
pub mod compare_view;
pub mod contents;
mod decimal;
pub mod explain;
pub mod frames;
pub mod history;
pub mod ids;
pub mod inspect;
pub mod jobs;
pub mod labels;
pub mod leaks;
pub mod memory_map;
pub mod page;
pub mod people;
pub mod problem;
pub mod progress;
pub mod query;
pub mod routes;
pub mod runs;
pub mod shares;
pub mod timeline;
pub mod view_state;
pub mod what_if;
