//! What one event does to the four levels.
//!
//! This is the only definition. The replay builds the pyramid with it, and a level between two
//! bucket borders is found by applying the same effects again.
//!
//! | event | requested | allocated | active | reserved |
//! |---|---|---|---|---|
//! | `alloc` | + requested | + size | + size | |
//! | `free_requested` | | − size | | |
//! | `free_completed` | − requested | | − size | |
//! | `free_completed` alone (no `free_requested` was recorded) | − requested | − size | − size | |
//! | `segment_alloc`, `segment_map` | | | | + size |
//! | `segment_free`, `segment_unmap` | | | | − size |
//! | anything else, or no target | | | | |
//!
//! Blocks that existed before the first event count in the start levels: in requested and active,
//! and in allocated too unless they were pending already (`free_requested == 0` although event 0
//! is not that free).

use crate::series::Way;
use crate::trace::{Action, BlockIdx, BlockKind, DeviceTrace, Levels, NO_TARGET, Series};
use crate::units::{Bytes, EventIdx};

/// When the program gave a block back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenBack {
    /// Before the first event, while other streams still used it.
    Before,
    /// At this event.
    At(EventIdx),
    /// Not in this trace.
    Never,
}

impl GivenBack {
    /// The event, if it is one of the trace.
    pub fn event(self) -> Option<EventIdx> {
        match self {
            GivenBack::At(event) => Some(event),
            GivenBack::Before | GivenBack::Never => None,
        }
    }
}

/// What one event does to the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: a snapshot, an annotation, a free of unknown memory …
    None,
    /// A block is handed out.
    Alloc {
        /// Bytes the program asked for.
        requested: Bytes,
        /// Bytes of the block.
        size: Bytes,
    },
    /// The program gives a block back.
    FreeRequested {
        /// Bytes of the block.
        size: Bytes,
    },
    /// A block that was given back at an earlier event (or before the trace) becomes reusable.
    FreeCompleted {
        /// Bytes the program asked for.
        requested: Bytes,
        /// Bytes of the block.
        size: Bytes,
    },
    /// A block becomes reusable, and its `free_requested` was not recorded: this event does both.
    Free {
        /// Bytes the program asked for.
        requested: Bytes,
        /// Bytes of the block.
        size: Bytes,
    },
    /// The allocator gets memory from the driver.
    Reserve {
        /// Bytes of the segment.
        size: Bytes,
    },
    /// The allocator gives memory back to the driver.
    Release {
        /// Bytes of the segment.
        size: Bytes,
    },
}

impl Effect {
    /// Which way it moves the levels.
    #[inline]
    pub fn way(&self) -> Way {
        match self {
            Effect::None => Way::Level,
            Effect::Alloc { .. } | Effect::Reserve { .. } => Way::Up,
            Effect::FreeRequested { .. }
            | Effect::FreeCompleted { .. }
            | Effect::Free { .. }
            | Effect::Release { .. } => Way::Down,
        }
    }

    /// The effect of an event on a block. `requested_at` is the block's `free_requested` column and
    /// `event` the event itself. A `free_completed` that is its own `free_requested` does both. At
    /// event 0 this is not possible: there the request came before the trace.
    #[inline]
    pub fn on_block(action: Action, event: u32, requested_at: u32, kind: &BlockKind) -> Effect {
        let (requested, size) = (kind.requested, kind.size);
        match action {
            Action::Alloc => Effect::Alloc { requested, size },
            Action::FreeRequested => Effect::FreeRequested { size },
            Action::FreeCompleted if requested_at == event && event > 0 => {
                Effect::Free { requested, size }
            }
            Action::FreeCompleted => Effect::FreeCompleted { requested, size },
            _ => Effect::None,
        }
    }

    /// The effect of an event on a segment of `size` bytes.
    pub fn on_segment(action: Action, size: Bytes) -> Effect {
        match action {
            Action::SegmentAlloc | Action::SegmentMap => Effect::Reserve { size },
            Action::SegmentFree | Action::SegmentUnmap => Effect::Release { size },
            _ => Effect::None,
        }
    }
}

impl Levels {
    /// Moves the levels from before an event to after it. It saturates, so that a damaged trace
    /// gives wrong levels instead of a panic; in a sound trace this never happens.
    #[inline]
    pub fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::Alloc { requested, size } => {
                self.add(Series::Requested, requested);
                self.add(Series::Allocated, size);
                self.add(Series::Active, size);
            }
            Effect::FreeRequested { size } => self.sub(Series::Allocated, size),
            Effect::FreeCompleted { requested, size } => {
                self.sub(Series::Requested, requested);
                self.sub(Series::Active, size);
            }
            Effect::Free { requested, size } => {
                self.sub(Series::Requested, requested);
                self.sub(Series::Allocated, size);
                self.sub(Series::Active, size);
            }
            Effect::Reserve { size } => self.add(Series::Reserved, size),
            Effect::Release { size } => self.sub(Series::Reserved, size),
        }
    }

    fn add(&mut self, series: Series, bytes: Bytes) {
        let level = self.get_mut(series);
        *level = Bytes(level.0.saturating_add(bytes.0));
    }

    fn sub(&mut self, series: Series, bytes: Bytes) {
        let level = self.get_mut(series);
        *level = level.saturating_sub(bytes);
    }
}

impl DeviceTrace {
    /// When the program gave a block back. The column says 0 for event 0 and for "before it".
    #[inline]
    pub fn given_back(&self, block: BlockIdx) -> GivenBack {
        let event = self.blocks.free_requested[block.index()];
        if self.events.is_empty() {
            return match event {
                0 => GivenBack::Before,
                _ => GivenBack::Never,
            };
        }
        if event >= self.events.len() {
            return GivenBack::Never;
        }
        let first = (self.events.action[0], self.events.target[0]);
        match event == 0 && first != (Action::FreeRequested, block.0) {
            true => GivenBack::Before,
            false => GivenBack::At(EventIdx(event)),
        }
    }

    /// What an event did.
    ///
    /// # Panics
    /// When there is no such event.
    #[inline]
    pub fn effect(&self, event: EventIdx) -> Effect {
        let row = event.index();
        let (action, target) = (self.events.action[row], self.events.target[row]);
        if target == NO_TARGET {
            return Effect::None;
        }
        let target = target as usize;
        match action {
            Action::Alloc | Action::FreeRequested | Action::FreeCompleted => {
                let kind = &self.blocks.kinds[self.blocks.kind[target].index()];
                Effect::on_block(action, event.0, self.blocks.free_requested[target], kind)
            }
            Action::SegmentAlloc
            | Action::SegmentMap
            | Action::SegmentFree
            | Action::SegmentUnmap => Effect::on_segment(action, self.events.segments[target].size),
            _ => Effect::None,
        }
    }
}
