//! What is given back after the last step, by functions that are called for the first time then.
//!
//! So a program empties its lists, as it does after each epoch: then nobody can tell whether they
//! grow without end. But where epochs around the steps are seen, and what one of them made is alive
//! at the end of the next, it is not emptied after each. And a call that gives back most of what
//! was there before the steps as well, as weights are, is the end of the training: all of its steps
//! kept what it gives back.

use super::report::LeakGroup;
use super::view::View;
use crate::fingerprint::Fingerprint;
use crate::site;
use crate::span::Span;
use crate::stacks::{Frame, StackIdx, StrIdx};
use crate::steps::Word;
use crate::steps::choices::micro_batches;
use crate::trace::{Action, BlockIdx, NO_TARGET};
use crate::units::EventIdx;
use crate::watch::Stopped;
use crate::workspaces;
use std::collections::HashSet;

/// Whether what grows is given back after the last step, and by functions that are called for the
/// first time then: the program empties its lists, as it does after each epoch. What a function's
/// variables held goes when it returns, and calls nothing.
///
/// # Errors
/// [`Stopped`].
pub(super) fn are_emptied(view: &View<'_>, groups: &[LeakGroup]) -> Result<bool, Stopped> {
    let ends = |group: &LeakGroup| group.all_end && !group.is_within();
    if !groups.iter().all(ends) || view.device.frees_carry_stacks_of_allocs() {
        return Ok(false);
    }
    let called = Called::in_steps(view)?;
    let all = || groups.iter().flat_map(|group| &group.evidence);
    let calls: Vec<u64> = all().filter_map(|block| called.to_free(*block)).collect();
    Ok(2 * calls.len() > all().count()
        && !called.ends_the_training(groups, &calls)
        && !outlives_an_epoch(view, groups)?)
}

/// The functions that the steps call.
struct Called<'v> {
    view: &'v View<'v>,
    known: HashSet<(StrIdx, StrIdx)>,
}

impl<'v> Called<'v> {
    fn in_steps(view: &'v View<'v>) -> Result<Called<'v>, Stopped> {
        let (device, blocks) = (view.device, &view.device.blocks);
        let mut called = Called {
            view,
            known: HashSet::new(),
        };
        let mut seen = vec![false; view.stacks.len()];
        let [first, .., last] = view.steps else {
            return Ok(called);
        };
        for at in first.events.start().index()..last.events.end().index() {
            view.watch.at_row(at, || 0)?;
            let target = device.events.target[at];
            let stack = match device.events.action[at] {
                Action::Alloc => blocks.kind(BlockIdx(target)).alloc_stack,
                Action::FreeRequested if target != NO_TARGET => {
                    blocks.kind(BlockIdx(target)).free_stack
                }
                _ => continue,
            };
            if !std::mem::replace(&mut seen[stack.index()], true) {
                let names: Vec<_> = called.functions(stack).map(name).collect();
                called.known.extend(names);
            }
        }
        Ok(called)
    }

    /// The Python frames of a stack, the outermost first.
    fn functions(&self, stack: StackIdx) -> impl Iterator<Item = Frame> + '_ {
        let stacks = self.view.stacks;
        let frames = stacks.frames(stack).iter().rev();
        let frames = frames.map(|&frame| stacks.frame(frame));
        frames.filter(|&frame| site::is_python(stacks, frame))
    }

    /// The call of the outermost function that no step calls, of those in which a block is given
    /// back: a hash of the calls that lead to it. `None` if steps call them all.
    fn to_free(&self, block: BlockIdx) -> Option<u64> {
        let stack = self.view.device.blocks.kind(block).free_stack;
        let mut hash = Fingerprint::default();
        for frame in self.functions(stack) {
            hash = hash.number(frame.filename.0.into());
            hash = hash.number(frame.name.0.into());
            if !self.known.contains(&name(frame)) {
                return Some(hash.key());
            }
            hash = hash.number(frame.line.into());
        }
        None
    }

    /// Whether these calls, which give back what grows, also give back most of what was there
    /// before the first step was over, except for workspaces, which nothing gives back.
    fn ends_the_training(&self, groups: &[LeakGroup], calls: &[u64]) -> bool {
        let (blocks, ends) = (&self.view.device.blocks, self.view.ends.as_slice());
        let [first, .., last] = *ends else {
            return false;
        };
        let before = blocks.alloc.partition_point(|&event| event < first);
        let stays = |&block: &BlockIdx| {
            blocks.free_requested[block.index()] >= last
                && !groups
                    .iter()
                    .any(|g| g.evidence.binary_search(&block).is_ok())
        };
        let older = (0..before as u32).map(BlockIdx).filter(stays);
        let older: Vec<BlockIdx> = older.collect();
        let spared = workspaces::among(blocks, self.view.stacks, &older);
        let (mut all, mut gone) = (0, 0);
        for block in older
            .into_iter()
            .filter(|block| spared.binary_search(block).is_err())
        {
            let size = blocks.kind(block).size.0;
            all += size;
            if self
                .to_free(block)
                .is_some_and(|call| calls.contains(&call))
            {
                gone += size;
            }
        }
        gone * 2 > all
    }
}

fn name(frame: Frame) -> (StrIdx, StrIdx) {
    (frame.filename, frame.name)
}

/// Whether most of what grows is alive at the end of the epoch that follows the one in which it was
/// made: a list that is emptied when an epoch ends, or when the next one begins, holds nothing of
/// that then. Where the steps are epochs, all that grows has outlived some.
fn outlives_an_epoch(view: &View<'_>, groups: &[LeakGroup]) -> Result<bool, Stopped> {
    if Word::of(&view.device.steps) == Word::Epoch {
        return Ok(true);
    }
    let n_steps = view.steps.len();
    let loops = micro_batches(view.device, view.stacks, 1, view.watch)?;
    // The loop of the steps may have another reading, of nearly as many iterations.
    let mut around = loops.iter().filter(|epochs| epochs.len() * 2 <= n_steps);
    Ok(around.any(|epochs| groups.iter().all(|group| most_outlive(view, epochs, group))))
}

fn most_outlive(view: &View<'_>, epochs: &[Span<EventIdx>], group: &LeakGroup) -> bool {
    let blocks = &view.device.blocks;
    let outlives = |block: &BlockIdx| {
        let made = EventIdx(blocks.alloc[block.index()]);
        let own = epochs.partition_point(|epoch| epoch.end() <= made);
        let next = epochs.get(own + 1)?;
        Some(blocks.free_requested[block.index()] >= next.end().0)
    };
    let known: Vec<bool> = group.evidence.iter().filter_map(outlives).collect();
    known.iter().filter(|outlives| **outlives).count() * 2 > known.len()
}
