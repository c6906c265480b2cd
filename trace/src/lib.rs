//! What a GPU memory trace *is*, and the maths on it. No IO, no clock, no threads; native and wasm.
//!
//! ```text
//! bytes -> reader (pickle | json) -> snapshot (columns, as the file has them)
//!       -> replay (allocator rules) -> trace (blocks, four series, steps)
//!       -> tiles (what a picture of a window needs) and stored (what a database keeps)
//! ```
//!
//! Modules, in reading order:
//!
//! * `units`, `span`, `device`, `trace`, `stacks`, `naming`: read first: quantities, intervals,
//!   which device, the columns of a trace, interned names, what blocks are called
//! * `reader` ─► `snapshot`: bytes to columns, while they arrive: pickle and JSON
//!   (`docs/snapshot-format.md`)
//! * `allocator`, `replay`, `levels`, `pyramid`: the allocator's rules (`docs/allocator.md`);
//!   lifetimes, sizes, series
//! * `site`, `steps`, `phases`, `optimizer`, `categories`, `code`: call shapes; inferred: loops
//!   (`docs/steps.md`), passes, kinds (`docs/categories.md`)
//! * `leaks`, `growth`, `alive`, `forward`, `oom`, `layout`: questions to one trace
//!   (`docs/verdicts.md`)
//! * `failing`: what a program was in the middle of when memory ran out: what that pass would have
//!   needed in all, what waited for a backward pass, what an optimizer was making
//! * `peaking`: the same of a peak: whether the other steps peak as high, what it still held of the
//!   step before, what waits for a backward pass that does not come
//! * `main_device`: which device is told about where none is named
//! * `quality_code`, `known`: what is found about the data itself; which levels of the series a
//!   recording does not show
//! * `workspaces`: memory of cuBLAS, which lies at lines that have nothing to do with it
//! * `stays`: when pinned memory of the host was taken and given back, beside a device
//! * `what_if`: the recorded requests under other allocator settings or another limit
//!   (`docs/what-if.md`)
//! * `compare`: questions to two: changes, and the gate of continuous integration
//! * `history`: a number over many recordings: where its level changed
//! * `ranks`: questions to many: which rank of a job is odd, and why (`docs/ranks.md`)
//! * `tiles`, `stored`, `redact`, `plain`, `testing`: windows for pictures; stored columns; links
//!   without names; names that are safe to show; traces by hand
//! * `series`, `intervals`, `tally`, `median`: what the questions share: levels, what is alive at a
//!   moment, blocks counted and summed, the value in the middle
//! * `watch`, `footprint`, `clip`, `fingerprint`: who may stop long work; bytes that a table takes;
//!   texts that are too long; keys that are kept
//! * `address`, `time`, `varint`: addresses, times and numbers in few bytes

pub mod address;
pub mod alive;
pub mod allocator;
pub mod categories;
pub mod clip;
pub mod code;
pub mod compare;
pub mod device;
pub mod failing;
pub(crate) mod fingerprint;
mod footprint;
pub mod forward;
pub mod growth;
pub mod history;
pub mod intervals;
pub mod known;
pub mod layout;
pub mod leaks;
pub mod levels;
pub mod main_device;
pub mod median;
pub mod naming;
pub mod oom;
pub mod optimizer;
pub mod peaking;
pub mod phases;
pub mod plain;
pub mod pyramid;
pub mod quality_code;
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
