//! Blocks given back earlier than they were, or never asked for.

use crate::footprint::of_vec;
use crate::forward::Forwards;
use crate::leaks::{LeakReport, Leaking, Pattern};
use crate::stacks::{FxHashSet, StackIdx, Stacks};
use crate::trace::{BlockIdx, BlockKind, DeviceTrace};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};

/// Nothing is given back early.
pub(super) static NOTHING: Early = Early {
    given_back: Vec::new(),
    gone: Vec::new(),
};

/// What the program does differently than in the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Early {
    /// Blocks that are given back early, each with the event before which that happens, in order of
    /// events.
    pub(super) given_back: Vec<(EventIdx, BlockIdx)>,
    /// Blocks that are never requested, in order. Those from before the recording are given back
    /// before it begins.
    pub(super) gone: Vec<BlockIdx>,
}

impl Early {
    /// Gives back what leaks at the end of the step that made it. Growth within a step stays as it
    /// is, and so does a buffer that is replaced by larger ones: giving them back at the end of a
    /// step would not help.
    pub fn leaks(device: &DeviceTrace, stacks: &Stacks, report: &LeakReport) -> Early {
        let ends_with_steps =
            |pattern: Pattern| matches!(pattern, Pattern::EveryStep | Pattern::EveryNth(_));
        let groups = report
            .groups
            .iter()
            .filter(|group| ends_with_steps(group.pattern));
        let leaking = Leaking::of(device, stacks, groups);
        let blocks = &device.blocks;
        let allocated = (blocks.n_preexisting..blocks.len() as u32).map(BlockIdx);
        let early = allocated.filter_map(|block| Some((leaking.due(block)?, block)));
        let mut early: Vec<(EventIdx, BlockIdx)> = early.collect();
        early.sort_unstable_by_key(|(event, block)| (*event, block.0));
        Early {
            given_back: early,
            ..Early::default()
        }
    }

    /// The same, and without blocks of the kinds for which `is_gone` holds.
    pub fn without(
        mut self,
        device: &DeviceTrace,
        is_gone: impl FnMut(&BlockKind) -> bool,
    ) -> Early {
        let blocks = &device.blocks;
        let gone: Vec<bool> = blocks.kinds.iter().map(is_gone).collect();
        let all = (0..blocks.len() as u32).map(BlockIdx);
        let is_gone = |block: &BlockIdx| gone[blocks.kind[block.index()].index()];
        self.gone = all.filter(is_gone).collect();
        self
    }

    /// The same, and without what the backward pass of the missing operations asks for; `None` if
    /// it asks for nothing. Which operation a block of a backward pass belongs to is inferred
    /// ([`crate::forward`]).
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn without_their_backward(
        mut self,
        device: &DeviceTrace,
        stacks: &Stacks,
        watch: Watch<'_>,
    ) -> Result<Option<Early>, Stopped> {
        let blocks = &device.blocks;
        let stacks_gone: FxHashSet<StackIdx> = self
            .gone
            .iter()
            .map(|&block| blocks.kind(block).alloc_stack)
            .collect();
        if stacks_gone.is_empty() {
            return Ok(None);
        }
        let mut forwards = Forwards::new(device, stacks);
        let mut backward = Vec::new();
        for block in blocks.made().map(BlockIdx) {
            watch.at_row(block.index(), || of_vec(&backward))?;
            if let Some(forward) = forwards.of(block)
                && stacks_gone.contains(&forward.stack)
                && forwards.has_python(forward.stack)
            {
                backward.push(block);
            }
        }
        let asked = self.gone.len();
        self.gone.append(&mut backward);
        self.gone.sort_unstable_by_key(|block| block.0);
        self.gone.dedup();
        Ok((self.gone.len() > asked).then_some(self))
    }

    /// Bytes of blocks that are still allocated at an event in the recording, but should have been
    /// given back before it.
    pub fn overdue(&self, device: &DeviceTrace, at: EventIdx) -> Bytes {
        let blocks = &device.blocks;
        let due = self.given_back.iter().take_while(|(event, _)| *event <= at);
        let overdue = due.filter(|(_, block)| at.0 < blocks.free_requested[block.index()]);
        let sizes = overdue.map(|(_, block)| blocks.kind(*block).size.0);
        Bytes(sizes.sum())
    }

    /// How many blocks are given back early.
    pub fn len(&self) -> usize {
        self.given_back.len()
    }

    /// How many blocks are never requested.
    pub fn n_gone(&self) -> usize {
        self.gone.len()
    }

    /// Whether the program does the same as in the recording.
    pub fn is_empty(&self) -> bool {
        self.given_back.is_empty() && self.gone.is_empty()
    }
}
