//! Which blocks leak, of all those that the sites of a report make.

use super::report::{LeakGroup, Pattern};
use crate::site::{OfSites, SiteKey};
use crate::stacks::Stacks;
use crate::trace::{BlockIdx, BlockKind, DeviceTrace};
use crate::units::EventIdx;

/// Tells the blocks that leak from the others.
pub struct Leaking<'a> {
    device: &'a DeviceTrace,
    /// How each kind of block grows.
    kinds: Vec<Option<Pattern>>,
    /// Blocks of the same sites that do not leak, in order.
    spared: Vec<BlockIdx>,
}

impl<'a> Leaking<'a> {
    /// Of a device, by what accumulates there.
    pub fn of<'g>(
        device: &'a DeviceTrace,
        stacks: &Stacks,
        groups: impl IntoIterator<Item = &'g LeakGroup>,
    ) -> Leaking<'a> {
        let groups: Vec<&LeakGroup> = groups.into_iter().collect();
        let sites: OfSites<SiteKey> = groups.iter().map(|g| (g.site, g.site)).collect();
        let of_kind = |(kind, site): (&BlockKind, Option<SiteKey>)| {
            let mut own = groups.iter().filter(|group| Some(group.site) == site);
            let group = own.find(|group| group.has_line(kind.alloc_stack));
            group.map(|group| group.pattern)
        };
        let sites = sites.of_kinds(&device.blocks, stacks);
        let kinds = device.blocks.kinds.iter().zip(sites);
        let mut spared: Vec<BlockIdx> = groups
            .iter()
            .flat_map(|group| &group.spared)
            .copied()
            .collect();
        spared.sort_unstable();
        Leaking {
            device,
            kinds: kinds.map(of_kind).collect(),
            spared,
        }
    }

    /// The end of the step that made a block, if the block leaks and outlives that step.
    pub fn due(&self, block: BlockIdx) -> Option<EventIdx> {
        self.grows(block)?;
        let DeviceTrace { blocks, steps, .. } = self.device;
        let made = blocks.alloc[block.index()];
        let given_back = blocks.free_requested[block.index()];
        let step = steps.partition_point(|step| step.events.end().0 <= made);
        let step = steps.get(step)?;
        let end = step.events.end();
        // Before the first step only what lasts is known not to be used in a later one.
        let lasts = || given_back >= steps[steps.len() - 1].events.end().0;
        let is_in_a_step = step.events.start().0 <= made;
        (given_back > end.0 && (is_in_a_step || lasts())).then_some(end)
    }

    /// Whether a block that is held leaks. What its step gives back does not, except where memory
    /// piles up within steps.
    pub fn has(&self, block: BlockIdx) -> bool {
        let piles_up = matches!(
            self.grows(block),
            Some(Pattern::WithinStep | Pattern::Enlarged)
        );
        piles_up || self.due(block).is_some()
    }

    /// How the site of a block grows, if the block is part of that.
    fn grows(&self, block: BlockIdx) -> Option<Pattern> {
        let blocks = &self.device.blocks;
        let is_part = block.0 >= blocks.n_preexisting && self.spared.binary_search(&block).is_err();
        self.kinds[blocks.kind[block.index()].index()].filter(|_| is_part)
    }
}
