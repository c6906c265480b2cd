//! Questions about a run from pages and programs: does it leak, what is alive, what was allocated
//! and freed, which allocations are there, where they lie, what if. `trace` answers them; this
//! module adds names to the answers.

mod alive;
mod allocations;
pub mod asked;
mod leaks;
mod memory_map;
pub mod what_if;

use std::time::Duration;

/// Processor time that judging a trace may take, all of its devices together.
pub const JUDGING: Duration = Duration::from_secs(20);

pub use alive::{alive, changes, groups, growth};
pub use allocations::{beside, page};
pub use leaks::{MAX_LEAKS, judged, named, report};
pub use memory_map::{memory_map, pool_name, room_over_time};
