//! Places that grow a cache: each block replaces a smaller one of the same place.
//!
//! `torch.cat([keys, new])` needs the old keys while it makes the new ones, so the old block is
//! given back right after the new one is made. A decoder that concatenates within one call does the
//! same. Only in a cache does it happen from one call of the model to the next, with code of the
//! program between the calls.

use super::facts::Facts;
use crate::phases::{Role, Roles};
use crate::stacks::StackIdx;
use crate::trace::{Action, BlockIdx, DeviceTrace, NO_TARGET};
use crate::units::Bytes;

/// The replaced block must be given back within this many events after the allocation.
pub(super) const NEAR: u32 = 10;
/// How many allocations of a place are looked at.
const SAMPLE: u32 = 512;
/// This many replacements make a cache.
const ENOUGH: u32 = 3;

#[derive(Clone, Copy, Default)]
struct Seen {
    asked: u32,
    replaced: u32,
}

/// The stacks that grow a cache, in order.
pub(super) fn growing(device: &DeviceTrace, roles: &Roles, facts: &Facts) -> Vec<StackIdx> {
    let blocks = &device.blocks;
    let stacks = facts.len();
    let programs = program_events(device, roles);
    let mut seen = vec![Seen::default(); stacks];
    for block in blocks.n_preexisting..blocks.len() as u32 {
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
        if replaces(device, block, stack, kind.requested, &programs) {
            seen.replaced += 1;
        }
    }
    let grows = |seen: &Seen| seen.replaced >= ENOUGH && seen.replaced * 2 >= seen.asked;
    let found = seen.iter().enumerate().filter(|(_, seen)| grows(seen));
    found.map(|(stack, _)| StackIdx(stack as u32)).collect()
}

/// Whether a block replaces a smaller one that the same place made in an earlier call.
fn replaces(
    device: &DeviceTrace,
    block: u32,
    stack: StackIdx,
    requested: Bytes,
    programs: &[u32],
) -> bool {
    let (blocks, events) = (&device.blocks, &device.events);
    let at = blocks.alloc[block as usize];
    (at + 1..(at + 1 + NEAR).min(events.len())).any(|event| {
        let target = events.target[event as usize];
        if events.action[event as usize] != Action::FreeRequested
            || target == NO_TARGET
            || target >= block
        {
            return false;
        }
        let old = blocks.kind(BlockIdx(target));
        let made = blocks.alloc[target as usize];
        let between = programs.partition_point(|&e| e <= made);
        old.alloc_stack == stack
            && old.requested < requested
            && programs.get(between).is_some_and(|&e| e < at)
    })
}

/// Events at which the program itself allocates, outside of any module.
fn program_events(device: &DeviceTrace, roles: &Roles) -> Vec<u32> {
    let blocks = &device.blocks;
    let made = blocks.n_preexisting..blocks.len() as u32;
    let own = made.filter(|&b| roles.get(blocks.kind(BlockIdx(b)).alloc_stack) == Role::Program);
    own.map(|b| blocks.alloc[b as usize]).collect()
}
