//! Which of the blocks that are held leak.

use super::Look;
use trace::leaks::{LeakGroup, Pattern, Verdict};
use trace::site::OfSites;
use trace::trace::{BlockIdx, DeviceTrace};

/// Tells the blocks that leak from the others.
pub struct Leaking<'a> {
    device: &'a DeviceTrace,
    /// How each kind of block grows.
    kinds: Vec<Option<Pattern>>,
    /// Blocks of the same places that do not leak, in order.
    spared: Vec<BlockIdx>,
}

impl<'a> Leaking<'a> {
    /// Of a device; without a verdict nothing leaks.
    pub fn of(look: &Look<'a>) -> Leaking<'a> {
        let groups: &[LeakGroup] = match look.report.verdict {
            Verdict::Leak => &look.report.groups,
            _ => &[],
        };
        let patterns: OfSites<Pattern> = groups
            .iter()
            .map(|group| (group.site, group.pattern))
            .collect();
        let spared = groups.iter().flat_map(|group| &group.workspaces);
        let mut spared: Vec<BlockIdx> = spared.copied().collect();
        spared.sort_unstable();
        Leaking {
            device: look.device,
            kinds: patterns.of_kinds(&look.device.blocks, look.stacks()),
            spared,
        }
    }

    /// Whether a block that is held leaks. What its step gives back does not, except where memory
    /// piles up within steps.
    pub fn has(&self, block: BlockIdx) -> bool {
        let DeviceTrace { blocks, steps, .. } = self.device;
        let kind = blocks.kind[block.index()].index();
        let Some(pattern) = self.kinds[kind] else {
            return false;
        };
        let outlives = || {
            let made = blocks.alloc[block.index()];
            let step = steps.partition_point(|step| step.events.end().0 <= made);
            let step = steps.get(step);
            step.is_some_and(|step| blocks.free_requested[block.index()] > step.events.end().0)
        };
        let is_within = matches!(pattern, Pattern::WithinStep | Pattern::Enlarged);
        block.0 >= blocks.n_preexisting
            && self.spared.binary_search(&block).is_err()
            && (is_within || outlives())
    }
}
