//! Graphs that no backward pass goes through, as of an evaluation without `torch.no_grad`.
//!
//! Where nothing is saved, a model's operation gives its input back as soon as the next one has its
//! output: frees and allocations take turns, and only results outlive the call. What was saved goes
//! when the program lets go of the result, all in one go and outside of any call. So a run of frees
//! with no allocation in between, at a line of the program, that takes a good part of what a call
//! of the model has made, drops a graph.

use super::facts::Facts;
use super::survey::Survey;
use crate::footprint::of_vec;
use crate::phases::{Phase, Role, Roles};
use crate::trace::{Action, BlockIdx, DeviceTrace, NO_TARGET};
use crate::watch::{Stopped, Watch};

/// So many blocks of a call at least. A call may return two or three results.
const FEWEST: usize = 4;
/// A run must take at least one of so many blocks that the call made. A model that saves nothing
/// keeps its outputs, and keys and values: less than that.
const ONE_OF: usize = 4;

/// The blocks of graphs that were dropped, in order.
///
/// # Errors
/// [`Stopped`].
pub(super) fn blocks(
    device: &DeviceTrace,
    roles: &Roles,
    facts: &Facts,
    survey: &Survey,
    watch: Watch<'_>,
) -> Result<Vec<u32>, Stopped> {
    watch.look(device.blocks.made().len() * size_of::<u32>())?;
    let made = made_by_models(device, roles, facts);
    let watch = watch.beside(of_vec(&made));
    let (events, kinds) = (&device.events, &device.blocks);
    let mut dropped: Vec<u32> = Vec::new();
    let mut run: Vec<u32> = Vec::new();
    let mut at = 0;
    for event in 0..events.len() {
        watch.at_row(event as usize, || 3 * (of_vec(&dropped) + of_vec(&run)))?;
        while survey.parts[at].end <= event {
            at += 1;
        }
        let (action, target) = (events.action[event as usize], events.target[event as usize]);
        match action {
            Action::Alloc => end(&mut run, &mut dropped, device, survey, &made),
            // A second request to give back one block has none.
            Action::FreeRequested
                if target != NO_TARGET && survey.parts[at].phase != Phase::Backward =>
            {
                let kind = kinds.kind(BlockIdx(target));
                let by_program = roles.get(kind.free_stack) == Role::Program;
                if by_program && made.binary_search(&target).is_ok() {
                    run.push(target);
                }
            }
            _ => {}
        }
    }
    end(&mut run, &mut dropped, device, survey, &made);
    dropped.sort_unstable();
    Ok(dropped)
}

/// The blocks that calls of modules made on the way forward.
fn made_by_models(device: &DeviceTrace, roles: &Roles, facts: &Facts) -> Vec<u32> {
    let by_model = |block: &u32| {
        let stack = device.blocks.kind(BlockIdx(*block)).alloc_stack;
        roles.get(stack) == Role::Forward && !facts.get(stack).workspace
    };
    // Counted first, since a vector that grows may hold twice as much.
    let all = || device.blocks.made().filter(by_model);
    let mut made = Vec::with_capacity(all().count());
    made.extend(all());
    made
}

/// Ends a run of frees: keeps the blocks of calls whose graph it dropped.
fn end(
    run: &mut Vec<u32>,
    dropped: &mut Vec<u32>,
    device: &DeviceTrace,
    survey: &Survey,
    made: &[u32],
) {
    if run.len() >= FEWEST {
        run.sort_unstable();
        let alloc = |block: u32| device.blocks.alloc[block as usize];
        // Calls between which a pass or a step lies are looked at by themselves.
        let part = |block: u32| survey.parts.partition_point(|p| p.end <= alloc(block));
        for calls in run.chunk_by(|&a, &b| part(a) == part(b)) {
            let (first, last) = (calls[0], calls[calls.len() - 1]);
            // The call began behind what the program made last.
            let by_program = survey.program.partition_point(|&e| e < alloc(first));
            let begins = by_program.checked_sub(1).map_or(0, |at| survey.program[at]);
            let from = made.partition_point(|&block| alloc(block) < begins);
            let until = made.partition_point(|&block| block <= last);
            let stack = |&block: &u32| device.blocks.kind(BlockIdx(block)).alloc_stack;
            // A list of results, all of one place, is no graph.
            let differ = calls.iter().any(|block| stack(block) != stack(&first));
            if calls.len() >= FEWEST && differ && calls.len() * ONE_OF >= until - from {
                dropped.extend_from_slice(calls);
            }
        }
    }
    run.clear();
}
