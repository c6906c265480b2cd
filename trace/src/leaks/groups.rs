//! Makes groups of sites that grow: how much each holds, since when, and which function to name.

use super::culprit::{Amount, Culprits};
use super::judge::Growth;
use super::report::{LeakGroup, Pattern};
use super::spared;
use super::survivors::Kept;
use super::thresholds::{MAX_EVIDENCE, MIN_BYTES};
use super::view::View;
use crate::phases::Role;
use crate::site;
use crate::span::Span;
use crate::stacks::{FxHashMap, StackIdx};
use crate::trace::{BlockIdx, BlockKind};
use crate::units::{Bytes, EventIdx};
use crate::watch::Stopped;
use std::ops::Range;

impl View<'_> {
    /// Makes the groups of sites that grow.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) fn groups(&self, grown: &[(usize, Growth)]) -> Result<Vec<LeakGroup>, Stopped> {
        if grown.is_empty() {
            return Ok(Vec::new());
        }
        let last_end = *self.ends.as_slice().last().expect("sites grow over ends");
        let first_end = self.ends.as_slice()[0];
        let mut slot = vec![None; self.sites.keys.len()];
        for (at, (site, growth)) in grown.iter().enumerate() {
            let counts = growth.bytes_per_growth >= MIN_BYTES.0 as f64;
            slot[*site] = Some(Slot { at, counts });
        }
        let all = Span::new(EventIdx(0), EventIdx(last_end));
        let tally = self.tally(all, first_end, last_end, &slot, grown.len())?;
        let culprits = Culprits::new(self.stacks, self.roles, &tally.amounts, self.watch)?;
        let mut own = FxHashMap::default();
        let groups = grown.iter().zip(tally.evidence);
        let groups = groups.map(|((site, growth), evidence)| {
            let kept = self.survey.kept[*site].as_deref();
            let kept = kept.expect("a site that grows keeps something");
            self.watch.look(0)?;
            Ok(self.group((*site, growth, kept), evidence, &culprits, &mut own))
        });
        groups.collect()
    }

    /// A second pass, made only when something grows. It sums up what each stack made and kept, and
    /// collects the survivors of the sites that have a slot.
    fn tally(
        &self,
        events: Span<EventIdx>,
        steady_from: u32,
        alive_at: u32,
        slot: &[Option<Slot>],
        n_slots: usize,
    ) -> Result<Tally, Stopped> {
        let blocks = &self.device.blocks;
        let mut by_kind: Vec<Amount> = vec![Amount::default(); blocks.kinds.len()];
        let mut evidence = vec![Vec::new(); n_slots];
        for index in blocks.allocated_in(events) {
            let at = index as usize;
            self.watch.at_row(at, || 0)?;
            let kind = blocks.kind[at].index();
            let size = blocks.kinds[kind].size.0;
            let steady = blocks.alloc[at] >= steady_from;
            by_kind[kind].made += if steady { size } else { 0 };
            if blocks.free_requested[at] >= alive_at
                && self.survey.held.binary_search(&BlockIdx(index)).is_err()
                && let Some(slot) = slot[self.sites.of_kind[kind] as usize]
            {
                by_kind[kind].kept += if steady && slot.counts { size } else { 0 };
                evidence[slot.at].push(BlockIdx(index));
            }
        }
        let mut amounts: FxHashMap<StackIdx, Amount> = FxHashMap::default();
        for (kind, amount) in blocks.kinds.iter().zip(&by_kind) {
            let total = amounts.entry(kind.alloc_stack).or_default();
            total.made += amount.made;
            total.kept += amount.kept;
        }
        Ok(Tally { amounts, evidence })
    }

    fn group(
        &self,
        (site, growth, kept): (usize, &Growth, &Kept),
        mut evidence: Vec<BlockIdx>,
        culprits: &Culprits<'_>,
        own: &mut FxHashMap<StackIdx, bool>,
    ) -> LeakGroup {
        let blocks = &self.device.blocks;
        let spared = spared::among(blocks, self.stacks, &evidence, self.span(growth));
        // Both ascend.
        evidence.retain(|block| spared.binary_search(block).is_err());
        let kind = self.largest_kind(&evidence);
        let stack = kind.map_or(StackIdx::NONE, |k| k.alloc_stack);
        let named = culprits.frame(stack);
        let beside = match named {
            Some(_) => None,
            None => self.stack_beside(&evidence, own),
        };
        let per_step = self.without(&kept.live, &spared);
        let live_count = evidence.len() as u64;
        let (given_back, all_end) = self.given_back(growth, &evidence);
        evidence.truncate(MAX_EVIDENCE);
        LeakGroup {
            site: self.sites.keys[site],
            stack,
            lines: None,
            frame: named.or_else(|| beside.and_then(|s| culprits.frame(s))),
            frame_inferred: named.is_none() && beside.is_some(),
            alloc_frame: self.stacks.headline(stack),
            pattern: growth.drained.unwrap_or(growth.pattern),
            scope: None,
            is_state: self.roles.get(self.sites.stacks[site]) == Role::Optimizer,
            count_per_step: growth.count_per_period,
            bytes_per_step: growth.bytes_per_period,
            slope_error: growth.slope_error,
            uneven: growth.uneven,
            slowed: growth.slowed,
            cycle: growth.cycle,
            is_drained: growth.drained.is_some(),
            older: growth.older.iter().map(|&bytes| Bytes(bytes)).collect(),
            confidence: growth.confidence(),
            first_step: growth.first as u32,
            last_step: growth.last as u32,
            live_count,
            given_back,
            all_end,
            live_bytes: per_step.last().copied().unwrap_or_default(),
            per_step,
            spared,
            evidence,
        }
    }

    /// How many blocks that a site keeps are given back before the recording ends, and whether
    /// these are all but those of its last growth, which the variables of a loop may hold. Which
    /// blocks of a buffer those are is not known.
    fn given_back(&self, growth: &Growth, evidence: &[BlockIdx]) -> (u64, bool) {
        let blocks = &self.device.blocks;
        let n_events = self.device.events.len();
        let ends = |block: &&BlockIdx| blocks.free_requested[block.index()] < n_events;
        let is_replaced = growth.pattern == Pattern::Enlarged;
        let last = growth.last.checked_sub(1).filter(|_| !is_replaced);
        let last = last.map_or(u32::MAX, |before| self.ends.as_slice()[before]);
        let earlier = evidence.partition_point(|block| blocks.alloc[block.index()] < last);
        let given_back = evidence.iter().filter(ends).count();
        let of_earlier = evidence[..earlier].iter().filter(ends).count();
        let is_all = of_earlier == earlier && earlier > 0;
        (given_back as u64, is_all)
    }

    /// The events from the beginning of a growth to the last period.
    fn span(&self, growth: &Growth) -> Range<u32> {
        let first_step = self.device.steps.first();
        let first_step = first_step.map_or(0, |step| step.events.start().0);
        let surveyed = self.survey.from.max(first_step);
        let ends = self.ends.as_slice();
        let began = match growth.first {
            0 => surveyed,
            first => surveyed.max(ends[first - 1]),
        };
        began..ends.iter().rev().nth(1).copied().unwrap_or(began)
    }

    /// Levels at the ends of steps without blocks that are alive at the last one.
    fn without(&self, live: &[u64], blocks: &[BlockIdx]) -> Vec<Bytes> {
        let mut levels: Vec<Bytes> = live.iter().map(|&bytes| Bytes(bytes)).collect();
        let made = |block: &BlockIdx| self.device.blocks.alloc[block.index()];
        let counted = blocks.iter().filter(|b| made(b) >= self.survey.from);
        for block in counted {
            let size = self.device.blocks.kind(*block).size;
            for level in levels.iter_mut().skip(self.ends.period_of(made(block))) {
                *level = level.saturating_sub(size);
            }
        }
        levels
    }

    /// The kind with the most bytes.
    fn largest_kind(&self, blocks: &[BlockIdx]) -> Option<&BlockKind> {
        let mut bytes: FxHashMap<StackIdx, u64> = FxHashMap::default();
        for &block in blocks {
            let kind = self.device.blocks.kind(block);
            *bytes.entry(kind.alloc_stack).or_default() += kind.size.0;
        }
        let largest = bytes.iter().max_by_key(|(stack, bytes)| (**bytes, stack.0));
        let stack = *largest?.0;
        let kinds = blocks.iter().map(|&b| self.device.blocks.kind(b));
        kinds.into_iter().find(|k| k.alloc_stack == stack)
    }

    /// A stack with Python frames for blocks that have none. Autograd's threads record no Python
    /// frames, but the code that called them does. So the last earlier allocation with Python
    /// frames is taken, if it has some of the program's own: the most frequent such stack for the
    /// newest blocks.
    /// `own` keeps which stacks have such frames, because a deep one may occur everywhere.
    fn stack_beside(
        &self,
        blocks: &[BlockIdx],
        own: &mut FxHashMap<StackIdx, bool>,
    ) -> Option<StackIdx> {
        const LOOK_AT: usize = 16;
        const LOOK_BACK: u32 = 4096;
        let mut found: FxHashMap<StackIdx, u32> = FxHashMap::default();
        for block in blocks.iter().rev().take(LOOK_AT) {
            let first = block.0.saturating_sub(LOOK_BACK);
            let first = first.max(self.device.blocks.n_preexisting);
            let earlier = (first..block.0).rev().map(|b| {
                let kind = self.device.blocks.kind(BlockIdx(b));
                kind.alloc_stack
            });
            let mut is_own = |stack: &StackIdx| {
                let known = own.entry(*stack);
                *known.or_insert_with(|| site::is_of_the_program(self.stacks, *stack))
            };
            if let Some(stack) = earlier.into_iter().find(|stack| is_own(stack)) {
                *found.entry(stack).or_default() += 1;
            }
        }
        let most = found.into_iter().max_by_key(|(stack, n)| (*n, stack.0));
        most.map(|(stack, _)| stack)
    }
}

/// A site that grows.
#[derive(Clone, Copy)]
struct Slot {
    /// Its position among the sites that grow.
    at: usize,
    /// Whether it adds enough to influence which function is named.
    counts: bool,
}

/// What [`View::tally`] counts.
struct Tally {
    amounts: FxHashMap<StackIdx, Amount>,
    /// Per slot, the survivors, oldest first.
    evidence: Vec<Vec<BlockIdx>>,
}
