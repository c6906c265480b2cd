//! The answers about a run below its picture: does it leak, what is alive, which allocations, where
//! memory lies, what if.
//!
//! ```text
//! api::{leaks, alive, …} -> areas, boxes, levels, room, strips (geometry), words, markdown (texts)
//! ```

pub mod alive_tab;
pub mod allocation_list;
pub mod areas;
pub mod band_colours;
pub mod band_table;
pub mod box_chart;
pub mod boxes;
pub mod filter_box;
pub mod group_table;
pub mod growth_chart;
pub mod leaks_tab;
pub mod levels;
pub mod map_tab;
pub mod markdown;
pub mod picture;
pub mod reveal;
pub mod room;
pub mod sizes;
pub mod step_numbers;
pub mod strips;
pub mod tabs;
pub mod what_if_chart;
pub mod what_if_tab;
pub mod words;
