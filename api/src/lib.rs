//! What crosses a process boundary: ids, routes, requests, responses, problems.
//!
//! Rules: changes are additive; one file per resource; nothing here does IO. The server, the web
//! front end, the command line and the tests all use these types and these paths.

pub mod alive;
pub mod bench;
pub mod compare;
pub mod compare_view;
pub mod contents;
pub mod explain;
pub mod frames;
pub mod ids;
pub mod inspect;
pub mod leaks;
pub mod page;
pub mod problem;
pub mod progress;
pub mod query;
pub mod routes;
pub mod runs;
pub mod shares;
pub mod timeline;
pub mod view_state;
pub mod what_if;
