//! The server in the browser: the same addresses, the same answers, and no server.
//!
//! The page without a server (`docs/local.md`) sends its requests to a web worker, which runs this
//! crate. [`Local`] holds the recordings that are open in the tab and answers like the server does,
//! with the crate `answers`. It has no clock, and keeps nothing when the tab is closed.
//!
//! In reading order: `message` is what is asked and answered; `problems` are refusals; `unpack` and
//! `opening` turn the bytes of a file into a trace; `runs` are the open recordings; `questions`,
//! `compare`, `jobs` and `uploads` answer; `routes` says who answers what; `worker` is what the
//! script of the worker calls.

mod compare;
mod jobs;
mod message;
mod opening;
mod problems;
mod questions;
mod routes;
mod runs;
mod unpack;
mod uploads;
#[cfg(target_arch = "wasm32")]
mod worker;

pub use message::{Request, Response};
pub use routes::Local;
