//! What a GPU memory trace *is*, and the maths on it. No IO, no clock, no threads; native and wasm.
//!
//! ```text
//! bytes -> reader (pickle | json) -> snapshot (columns, as the file has them)
//!       -> replay (allocator rules) -> trace (blocks, four series, steps)
//!       -> tiles (what a picture of a window needs) and stored (what a database keeps)
//! ```

pub mod address;
pub mod alive;
pub mod allocator;
pub mod categories;
pub mod clip;
pub mod code;
pub mod compare;
pub(crate) mod fingerprint;
mod footprint;
pub mod forward;
pub mod growth;
pub mod history;
pub mod intervals;
pub mod layout;
pub mod leaks;
pub mod levels;
pub mod naming;
pub mod oom;
pub mod optimizer;
pub mod phases;
pub mod plain;
pub mod pyramid;
pub mod ranks;
pub mod reader;
pub mod redact;
pub mod replay;
pub mod series;
pub mod site;
pub mod snapshot;
pub mod span;
pub mod stacks;
pub mod stays;
pub mod steps;
pub mod stored;
pub mod tally;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tiles;
pub mod time;
pub mod trace;
pub mod units;
pub mod varint;
pub mod watch;
pub mod what_if;
mod workspaces;
