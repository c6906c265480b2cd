//! What was made in the step before the peak's, was still alive at the peak, and went later in that
//! step: a variable of the loop held it, as `loss` or `out` does until it is assigned again.
//!
//! What a step hands to the next looks the same: a batch that is fetched ahead, an activation whose
//! backward pass is in the next step. So each of these blocks must have a successor, made by the
//! same stack before it went; it must not go in a backward pass; and most steps must do the same.
//! A buffer that is replaced by a larger one is left out: making that takes the one before.

use super::Recorded;
use crate::levels::Effect;
use crate::phases::Phase;
use crate::stacks::{FxHashMap, FxHashSet, StackIdx};
use crate::trace::{BlockIdx, DeviceTrace, Series};
use crate::units::{Bytes, EventIdx};

/// From this share of the peak on it is told.
const LEAST: f64 = 0.1;

/// Blocks that outlived their step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlived {
    /// Those that were alive at the peak.
    pub blocks: Vec<BlockIdx>,
    /// Their bytes.
    pub bytes: Bytes,
    /// The highest *allocated* if what these stacks made had gone at the end of its step.
    pub peak_without: Bytes,
}

/// A block that was made in one step and went in the next.
struct Crossing {
    block: BlockIdx,
    stack: StackIdx,
    /// The step in which it went.
    into: usize,
    freed: u32,
    /// What its stack made next, in that step.
    next: Option<BlockIdx>,
}

/// So many blocks of a stack have a larger one next if that is no chance.
const GROWS: f64 = 0.75;

/// What was alive at an event though its step was over.
pub(super) fn at(recorded: Recorded<'_>, event: EventIdx) -> Option<Outlived> {
    let device = recorded.device;
    let steps = &device.steps;
    let own = steps.iter().position(|step| step.events.contains(event))?;
    let mut crossing = crossing(recorded);
    let growing = growing(device, &crossing);
    crossing.retain(|one| !growing.contains(&one.stack));
    let made = |one: &Crossing| device.blocks.alloc[one.block.index()];
    let is_there = |one: &&Crossing| one.into == own && made(one) <= event.0 && event.0 < one.freed;
    let there: Vec<&Crossing> = crossing.iter().filter(is_there).collect();
    let stacks: FxHashSet<StackIdx> = there.iter().map(|one| one.stack).collect();
    let in_steps: FxHashSet<usize> = crossing
        .iter()
        .filter(|one| stacks.contains(&one.stack))
        .map(|one| one.into)
        .collect();
    let size = |block: BlockIdx| device.blocks.kind(block).size;
    let bytes: Bytes = there.iter().map(|one| size(one.block)).sum();
    let peak = device.levels_at(event).get(Series::Allocated);
    let agree = in_steps.len() >= 2 && 2 * in_steps.len() >= steps.len() - 1;
    if !agree || (bytes.0 as f64) < LEAST * peak.0 as f64 {
        return None;
    }
    let blocks = there.iter().map(|one| one.block).collect();
    crossing.retain(|one| stacks.contains(&one.stack));
    Some(Outlived {
        blocks,
        bytes,
        peak_without: peak_without(device, &crossing),
    })
}

/// The blocks that outlived their step and have a successor before they go.
fn crossing(recorded: Recorded<'_>) -> Vec<Crossing> {
    let device = recorded.device;
    let (steps, blocks) = (&device.steps, &device.blocks);
    let step_of = |event: u32| {
        let after = steps.partition_point(|step| step.events.end().0 <= event);
        let is_in = |at: &usize| steps[*at].events.contains(EventIdx(event));
        Some(after).filter(|at| *at < steps.len()).filter(is_in)
    };
    let mut found = Vec::new();
    for block in blocks.made().map(BlockIdx) {
        let stack = blocks.kind(block).alloc_stack;
        let freed = blocks.free_requested[block.index()];
        if stack == StackIdx::NONE || freed >= device.events.len() {
            continue;
        }
        let steps = (step_of(blocks.alloc[block.index()]), step_of(freed));
        let (Some(made), Some(into)) = steps else {
            continue;
        };
        let is_backward = || recorded.phases.at(EventIdx(freed)) == Phase::Backward;
        if into == made + 1 && recorded.comes_and_goes(block) && !is_backward() {
            found.push(Crossing {
                block,
                stack,
                into,
                freed,
                next: None,
            });
        }
    }
    let mut made: FxHashMap<StackIdx, Vec<BlockIdx>> = FxHashMap::default();
    found.iter().for_each(|one| {
        made.entry(one.stack).or_default();
    });
    for block in blocks.made().map(BlockIdx) {
        let of_stack = made.get_mut(&blocks.kind(block).alloc_stack);
        of_stack.into_iter().for_each(|made| made.push(block));
    }
    let event = |block: &BlockIdx| blocks.alloc[block.index()];
    for one in &mut found {
        let made = &made[&one.stack];
        let start = steps[one.into].events.start().0;
        let next = made.partition_point(|block| event(block) < start);
        one.next = made
            .get(next)
            .copied()
            .filter(|next| event(next) < one.freed);
    }
    found.retain(|one| one.next.is_some());
    found
}

/// The stacks most of whose blocks have a larger one next.
fn growing(device: &DeviceTrace, crossing: &[Crossing]) -> FxHashSet<StackIdx> {
    let size = |block: BlockIdx| device.blocks.kind(block).requested;
    let mut count: FxHashMap<StackIdx, (u32, u32)> = FxHashMap::default();
    for one in crossing {
        let (all, larger) = count.entry(one.stack).or_default();
        *all += 1;
        *larger += u32::from(one.next.is_some_and(|next| size(next) > size(one.block)));
    }
    let grows = |(all, larger): (u32, u32)| f64::from(larger) >= GROWS * f64::from(all);
    let growing = count.iter().filter(|(_, count)| grows(**count));
    growing.map(|(stack, _)| *stack).collect()
}

/// The highest *allocated* if these blocks had gone at the end of the step that made them.
fn peak_without(device: &DeviceTrace, crossing: &[Crossing]) -> Bytes {
    let size = |block: BlockIdx| device.blocks.kind(block).size;
    let early: FxHashSet<BlockIdx> = crossing.iter().map(|one| one.block).collect();
    let due = |one: &Crossing| (device.steps[one.into].events.start(), size(one.block));
    let mut due: Vec<(EventIdx, Bytes)> = crossing.iter().map(due).collect();
    due.sort_unstable_by_key(|(event, _)| *event);
    let mut due = due.into_iter().peekable();
    let mut level = i128::from(device.pyramid.start().get(Series::Allocated).0);
    let mut peak = level;
    for event in (0..device.events.len()).map(EventIdx) {
        while let Some((_, size)) = due.next_if(|(at, _)| *at <= event) {
            level -= i128::from(size.0);
        }
        let block = BlockIdx(device.events.target[event.index()]);
        match device.effect(event) {
            Effect::Alloc { size, .. } => level += i128::from(size.0),
            Effect::FreeRequested { size } | Effect::Free { size, .. }
                if !early.contains(&block) =>
            {
                level -= i128::from(size.0);
            }
            _ => {}
        }
        peak = peak.max(level);
    }
    Bytes(u64::try_from(peak).unwrap_or_default())
}
