//! What every request passes, from the connection to its handler.
//!
//! `serve` takes connections, which `connections` counts and `socket` watches. The layers
//! themselves are put together in `http/mod.rs`: `measure` and `log` note the request, `guard`
//! finds out who asks and refuses what browsers must not do, `cors` lets named pages of other sites
//! ask, `problem_page` shows a refusal as a page, `parameters` refuses a query that an operation
//! does not take, and `hang_up` ends the work of a client that has gone.

pub mod connections;
pub mod cors;
pub mod guard;
pub mod hang_up;
pub mod log;
pub mod measure;
pub mod parameters;
pub mod problem_page;
pub mod serve;
pub mod socket;
