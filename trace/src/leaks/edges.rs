//! What a short ring of events hides at its edges.
//!
//! A ring begins and ends anywhere. A list that is cleared after each epoch may have been cleared
//! where the ring begins: until it is as long again, nobody can tell it from a leak. And what a
//! validation keeps after the last step that the ring holds may come again.

use super::judge::{MUCH, SHORT};
use super::survivors::Kept;
use super::thresholds::{MIN_GROWTHS, MIN_LATE_GROWTHS};
use super::view::View;
use crate::phases::Role;
use crate::span::Span;
use crate::stacks::{FxHashMap, StackIdx};
use crate::trace::{Action, BlockIdx, DeviceTrace, NO_TARGET, Step};
use crate::units::{Bytes, EventIdx};
use crate::workspaces;
use std::collections::HashSet;

/// What the first step gives back of what is older than the recording, many blocks of a size at
/// once.
#[derive(Default)]
pub struct Emptied {
    /// Per requested size, how many blocks went at once.
    alike: FxHashMap<Bytes, u32>,
}

impl Emptied {
    /// Nothing of a program whose beginning was recorded.
    pub fn of(device: &DeviceTrace) -> Emptied {
        let mut emptied = Emptied::default();
        let Some(first) = device.steps.first().filter(|_| began_late(device)) else {
            return emptied;
        };
        let mut run: FxHashMap<Bytes, u32> = FxHashMap::default();
        for event in first.events.start().index()..first.events.end().index() {
            let target = device.events.target[event];
            match device.events.action[event] {
                Action::Alloc => emptied.add(&mut run),
                Action::FreeRequested if target < device.blocks.n_preexisting => {
                    let requested = device.blocks.kind(BlockIdx(target)).requested;
                    *run.entry(requested).or_default() += 1;
                }
                _ => {}
            }
        }
        emptied.add(&mut run);
        emptied
    }

    fn add(&mut self, run: &mut FxHashMap<Bytes, u32>) {
        for (size, n) in run.drain().filter(|(_, n)| *n as usize >= MIN_GROWTHS) {
            let most = self.alike.entry(size).or_default();
            *most = (*most).max(n);
        }
    }

    /// Whether a site that has grown a few times may be collecting again what was emptied then: it
    /// holds no more blocks than went, and one of the first step's own.
    pub fn may_be_collected_again(&self, kept: &Kept, growths: usize) -> bool {
        let went = |(size, n): (&Bytes, &u32)| {
            let gone = self.alike.get(size);
            gone.is_some_and(|gone| n.saturating_sub(1) <= *gone)
        };
        growths < MIN_LATE_GROWTHS && !kept.sizes.is_empty() && kept.sizes.iter().all(went)
    }
}

/// What is kept that was made after the last step, in functions that no step but the first has
/// called so, and takes no other's place. What they have called may be a part of one more step.
/// `None` if there are steps enough, if the last of them was cut off, or if it is not much.
pub fn kept_after(view: &View<'_>) -> Option<Bytes> {
    let (device, blocks, steps) = (view.device, &view.device.blocks, view.steps);
    let last = steps.last()?;
    if steps.len() >= SHORT {
        return None;
    }
    let after = made_after(view, last.events.end())?.into_iter();
    let after = after.filter(|&block| !workspaces::is_size(blocks.kind(block).requested));
    let mut replaced = replaced_after(device, last);
    let kept = after.map(|block| blocks.kind(block));
    let kept = kept.filter(|kind| {
        let left = replaced.get_mut(&kind.requested).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_none()
    });
    let kept: u64 = kept.map(|kind| kind.size.0).sum();
    (kept >= MUCH.0).then_some(Bytes(kept))
}

/// What is kept after the last step, one block after another.
pub struct Piled {
    /// How many blocks.
    pub times: usize,
    /// Bytes of all.
    pub bytes: Bytes,
}

/// A place that keeps [`MANY`] blocks of one size, or more, and nothing else, and all that in the
/// last step or after it: a loop that nothing shows may go on there. The most of them, if there are
/// several.
pub fn piled_after(view: &View<'_>) -> Option<Piled> {
    let blocks = &view.device.blocks;
    let mut of_sites: FxHashMap<u32, Vec<BlockIdx>> = FxHashMap::default();
    for block in made_after(view, view.steps.last()?.events.start())? {
        let site = view.sites.of_kind[blocks.kind[block.index()].index()];
        of_sites.entry(site).or_default().push(block);
    }
    let size = |block: &BlockIdx| blocks.kind(*block).requested;
    let is_piled = |own: &&Vec<BlockIdx>| {
        let alike = own.iter().all(|block| size(block) == size(&own[0]));
        let role = view.roles.get(blocks.kind(own[0]).alloc_stack);
        own.len() >= MANY && alike && role == Role::Program
    };
    let piled = of_sites.values().filter(is_piled).map(|own| Piled {
        times: own.len(),
        bytes: own.iter().map(|&block| blocks.kind(block).size).sum(),
    });
    let most = piled.max_by_key(|piled| (piled.bytes, piled.times))?;
    (most.bytes >= MUCH).then_some(most)
}

/// So many blocks of one place are a loop, as with replays of a graph.
const MANY: usize = 8;

/// The blocks that stay and were made `from` an event on, in functions that no step until then, but
/// the first, has called so. `None` if the last step was cut off.
fn made_after(view: &View<'_>, from: EventIdx) -> Option<Vec<BlockIdx>> {
    let (device, blocks, steps) = (view.device, &view.device.blocks, view.steps);
    if steps.len() < device.steps.len() {
        return None;
    }
    let stack = |block: u32| blocks.kind(BlockIdx(block)).alloc_stack;
    let first = steps.first()?.events.end();
    let site = |block: u32| view.sites.of_kind[blocks.kind[block as usize].index()];
    let made = |from, to| blocks.allocated_in(Span::new(from, to));
    let known: HashSet<u32> = made(first, from).map(site).collect();
    let n_events = device.events.len();
    let after = made(from, EventIdx(n_events)).filter(|&block| {
        blocks.free_requested[block as usize] >= n_events
            && stack(block) != StackIdx::NONE
            && !known.contains(&site(block))
    });
    Some(after.map(BlockIdx).collect())
}

/// How many blocks of each size go after the last step that are older than it: new ones take their
/// place, as the best weights so far do.
fn replaced_after(device: &DeviceTrace, last: &Step) -> FxHashMap<Bytes, u32> {
    let (blocks, start) = (&device.blocks, last.events.start().0);
    let mut gone: FxHashMap<Bytes, u32> = FxHashMap::default();
    for event in last.events.end().index()..device.events.len() as usize {
        let target = device.events.target[event];
        let is_old = || target < blocks.n_preexisting || blocks.alloc[target as usize] < start;
        let is_free = device.events.action[event] == Action::FreeRequested;
        if is_free && target != NO_TARGET && is_old() {
            let requested = blocks.kind(BlockIdx(target)).requested;
            *gone.entry(requested).or_default() += 1;
        }
    }
    gone
}

/// Whether the program had run before its recording.
fn began_late(device: &DeviceTrace) -> bool {
    device.unmatched_frees > 0
}
