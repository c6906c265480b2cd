//! What is alive at a moment, what came and went between two, and how it grew step by step.
//!
//! A moment is an event. A block is alive *at* event `e` when it was allocated by then and the
//! program has not given it back (`alloc <= e < free_requested`). So what is alive sums to
//! *allocated* after that event. The time of a question depends on how much it finds: [`LiveIndex`]
//! skips the blocks that are gone, and blocks are summed up by [`Cell`] (a run has a few thousand
//! kinds) before anything looks at their stacks. Only growth and filters walk over the columns,
//! once.

mod cells;
mod filter;
mod grouping;
mod growth;
#[cfg(test)]
mod tests;
mod tree;

pub use crate::tally::Tally;
pub use cells::{Cell, alive, came, passed, went};
pub use filter::{BadFilter, Filter, Order, Page, Place, Wanted, age, select};
pub use grouping::{Dimension, Grouping, Label, UnknownDimension};
pub use growth::{Band, Growth, MAX_MOMENTS, growth, moments};
pub use tree::{MAX_NODES, Node, Tree};

use crate::categories::Categories;
use crate::intervals::LiveIndex;
use crate::stacks::Stacks;
use crate::trace::DeviceTrace;

/// One device and what it takes to ask about it.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The device.
    pub device: &'a DeviceTrace,
    /// The stacks of its trace.
    pub stacks: &'a Stacks,
    /// The index of its blocks.
    pub live: &'a LiveIndex,
    /// What its blocks are for. Needed only for [`Dimension::Category`]; if given, cells are split
    /// by category.
    pub categories: Option<&'a Categories>,
}
