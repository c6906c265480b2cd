//! Blocks given back earlier than they were.

use super::step_at;
use crate::leaks::{LeakReport, Pattern};
use crate::site::{self, SiteKey};
use crate::stacks::Stacks;
use crate::trace::{BlockIdx, DeviceTrace};
use crate::units::{Bytes, EventIdx};

/// Blocks, and the events before which each is given back, in order of the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Early(pub(super) Vec<(EventIdx, BlockIdx)>);

impl Early {
    /// What leaks, given back at the end of the step that made it. Growth within a step, and a
    /// buffer that is replaced by larger ones, stay as they are: no end of a step would end them.
    pub fn leaks(device: &DeviceTrace, stacks: &Stacks, report: &LeakReport) -> Early {
        let ends_with_steps =
            |pattern: Pattern| matches!(pattern, Pattern::EveryStep | Pattern::EveryNth(_));
        let groups = report
            .groups
            .iter()
            .filter(|group| ends_with_steps(group.pattern));
        let sites: Vec<SiteKey> = groups.map(|group| group.site).collect();
        let blocks = &device.blocks;
        let leaks = |kind| {
            let key = site::key(stacks, kind);
            sites.iter().any(|site| site.covers(key))
        };
        let leaking: Vec<bool> = blocks.kinds.iter().map(leaks).collect();
        let allocated = blocks.n_preexisting..blocks.len() as u32;
        let early = allocated.filter_map(|block| {
            let at = block as usize;
            let step = step_at(device, EventIdx(blocks.alloc[at])) as usize;
            let end = device.steps.get(step)?.events.end();
            let outlives = blocks.free_requested[at] > end.0;
            (outlives && leaking[blocks.kind[at].index()]).then_some((end, BlockIdx(block)))
        });
        let mut early: Vec<(EventIdx, BlockIdx)> = early.collect();
        early.sort_unstable_by_key(|(event, block)| (*event, block.0));
        Early(early)
    }

    /// Bytes of those that are still allocated at an event although they were to be given back
    /// before it.
    pub fn overdue(&self, device: &DeviceTrace, at: EventIdx) -> Bytes {
        let blocks = &device.blocks;
        let due = self.0.iter().take_while(|(event, _)| *event <= at);
        let overdue = due.filter(|(_, block)| at.0 < blocks.free_requested[block.index()]);
        let sizes = overdue.map(|(_, block)| blocks.kind(*block).size.0);
        Bytes(sizes.sum())
    }

    /// How many blocks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
