//! Places that grow a cache: each block replaces a smaller one of the same place.
//!
//! `torch.cat([keys, new])` needs the old keys while it makes the new ones, so the old block is
//! given back right after the new one is made. A decoder that concatenates within one call does the
//! same. Only in a cache does it happen from one call of the model to the next, with code of the
//! program between the calls.
//!
//! A variable that holds the last output looks alike where outputs have different lengths, and so
//! do two layers at one line whose outputs are not equally large. So a block counts only if the one
//! it replaces has grown itself, if no backward pass lies between the two, and if it grows by as
//! much as the block that grew there before: by one token, or by as many as in the layer before.
//! And its call must go on: a model without a cache gets all tokens in each call, and its output
//! grows, too.

use super::facts::Facts;
use super::survey::Survey;
use crate::phases::{Role, Roles};
use crate::stacks::StackIdx;
use crate::trace::{Action, BlockIdx, BlockKind, DeviceTrace, NO_TARGET};

/// The replaced block must be given back within this many events after the allocation.
pub(super) const NEAR: u32 = 10;
/// How many allocations of a place are looked at.
const SAMPLE: u32 = 2048;
/// This many replacements make a cache.
const ENOUGH: u32 = 3;

#[derive(Clone, Copy, Default)]
struct Seen {
    asked: u32,
    replaced: u32,
    /// By how much the last block grew, and whether that counts already.
    last: Option<(u64, bool)>,
}

impl Seen {
    /// Notes a block that is this much larger than the grown one that it replaces.
    fn grown(&mut self, by: u64) {
        self.replaced += match self.last {
            Some((last, false)) if last == by => 2,
            Some((last, true)) if last == by => 1,
            _ => 0,
        };
        let again = self.last.is_some_and(|(last, _)| last == by);
        self.last = Some((by, again));
    }
}

/// The stacks that grow a cache, in order.
pub(super) fn growing(
    device: &DeviceTrace,
    roles: &Roles,
    facts: &Facts,
    survey: &Survey,
) -> Vec<StackIdx> {
    let blocks = &device.blocks;
    let calls = Calls {
        device,
        roles,
        facts,
        programs: &survey.program,
        backward: survey.backward_starts(),
    };
    let mut seen = vec![Seen::default(); facts.len()];
    // Blocks that replaced a smaller one, in order.
    let mut grown: Vec<u32> = Vec::new();
    for block in blocks.made() {
        let kind = blocks.kind(BlockIdx(block));
        let stack = kind.alloc_stack;
        if roles.get(stack) != Role::Forward || facts.get(stack).workspace {
            continue;
        }
        let seen = &mut seen[stack.index()];
        if seen.asked >= SAMPLE {
            continue;
        }
        seen.asked += 1;
        let replaced = calls.replaced(block, kind);
        let has_grown = |old: &u32| grown.binary_search(old).is_ok();
        if let Some(&old) = replaced.iter().find(|old| has_grown(old)) {
            let old = blocks.kind(BlockIdx(old)).requested;
            seen.grown(kind.requested.0 - old.0);
        }
        if !replaced.is_empty() {
            grown.push(block);
        }
    }
    let grows = |seen: &Seen| seen.replaced >= ENOUGH && seen.replaced * 2 >= seen.asked;
    let found = seen.iter().enumerate().filter(|(_, seen)| grows(seen));
    found.map(|(stack, _)| StackIdx(stack as u32)).collect()
}

/// The calls of a model, and what happens between them.
struct Calls<'a> {
    device: &'a DeviceTrace,
    roles: &'a Roles,
    facts: &'a Facts,
    /// Events at which the program itself allocates, outside of any module, in order.
    programs: &'a [u32],
    /// Events at which a backward pass begins, in order.
    backward: Vec<u32>,
}

impl Calls<'_> {
    /// The smaller blocks that a block replaces: the same place made them in an earlier call, and
    /// the call goes on without them.
    fn replaced(&self, block: u32, kind: &BlockKind) -> Vec<u32> {
        let (blocks, events) = (&self.device.blocks, &self.device.events);
        let at = blocks.alloc[block as usize];
        let near = at + 1..(at + 1 + NEAR).min(events.len());
        let freed = near.filter(|&e| events.action[e as usize] == Action::FreeRequested);
        let is_replaced = |event: u32| {
            let target = events.target[event as usize];
            if target == NO_TARGET || target >= block {
                return None;
            }
            let old = blocks.kind(BlockIdx(target));
            let made = blocks.alloc[target as usize];
            let next = |of: &[u32]| of.get(of.partition_point(|&e| e <= made)).copied();
            let is = old.alloc_stack == kind.alloc_stack
                && old.requested < kind.requested
                && next(self.programs).is_some_and(|event| event < at)
                && next(&self.backward).is_none_or(|event| event > at)
                && self.goes_on(block, kind, event);
            is.then_some(target)
        };
        freed.filter_map(is_replaced).collect()
    }

    /// Whether the call that made a block allocates more after an event soon behind that. Attention
    /// follows where a cache grows; the output of a model is the last that a call makes.
    fn goes_on(&self, block: u32, kind: &BlockKind, event: u32) -> bool {
        let blocks = &self.device.blocks;
        let mut later = block + 1..blocks.len() as u32;
        let next = later.find(|&next| blocks.alloc[next as usize] > event);
        next.is_some_and(|next| {
            let stack = blocks.kind(BlockIdx(next)).alloc_stack;
            let calls = |stack| self.facts.get(stack).calls_module;
            self.roles.get(stack) == Role::Forward && calls(stack) == calls(kind.alloc_stack)
        })
    }
}
