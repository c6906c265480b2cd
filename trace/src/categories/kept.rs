//! Inputs and temporaries that a program keeps, step after step.
//!
//! An input is for its step, and a temporary is gone before its phase ends, or when the next step
//! sets its variable again. What a list collects, or a cache without a limit, is neither, though it
//! is made in the same way. What the program does with it, no recording shows.
//!
//! Data that is made once and kept is an input all the same, and so is what was loaded ahead.

use super::Category;
use super::facts::Facts;
use crate::footprint::of_vec;
use crate::stacks::{StackIdx, Stacks};
use crate::trace::{BlockIdx, BlockKind, DeviceTrace};
use crate::watch::{Stopped, Watch};
use crate::workspaces::Alike;

/// A block that outlives so many whole steps after its own is there for long.
const LONG: u32 = 2;
/// A stack must keep blocks of so many steps.
const ENOUGH: usize = 3;

/// A block that is there for long, and is not given back.
struct Long {
    stack: StackIdx,
    /// How many steps had begun when it was made.
    step: u32,
    block: BlockIdx,
    /// How many whole steps it outlives.
    outlives: u32,
}

/// The steps of a device.
struct Steps {
    starts: Vec<u32>,
    ends: Vec<u32>,
}

impl Steps {
    fn of(device: &DeviceTrace) -> Steps {
        let events = || device.steps.iter().map(|step| step.events);
        Steps {
            starts: events().map(|events| events.start().0).collect(),
            ends: events().map(|events| events.end().0).collect(),
        }
    }

    fn begun(&self, event: u32) -> u32 {
        self.starts.partition_point(|&start| start <= event) as u32
    }

    /// How many whole steps lie between two events.
    fn between(&self, from: u32, until: u32) -> u32 {
        let ended = self.ends.partition_point(|&end| end <= until) as u32;
        ended.saturating_sub(self.begun(from))
    }
}

/// Sets to unknown the inputs and temporaries that step after step leaves behind: those that
/// outlive two steps after their own, and more than any block that their stack gave back.
/// `failures` are the events at which memory ran out: what goes then was not given back.
///
/// # Errors
/// [`Stopped`].
pub(super) fn forget(
    categories: &mut [Category],
    (device, stacks): (&DeviceTrace, &Stacks),
    facts: &Facts,
    failures: &[u32],
    watch: Watch<'_>,
) -> Result<(), Stopped> {
    let blocks = &device.blocks;
    let steps = Steps::of(device);
    // For each stack, how many steps a block of it outlived before it was given back.
    let mut given_back = vec![0_u32; facts.len()];
    let mut long: Vec<Long> = Vec::new();
    let held = 2 * of_vec(&steps.ends) + of_vec(&given_back) + categories.len();
    for index in blocks.n_preexisting..blocks.len() as u32 {
        watch.at_row(index as usize, || held + 4 * of_vec(&long))?;
        let block = BlockIdx(index);
        let (kind, made) = (blocks.kind(block), blocks.alloc[block.index()]);
        let freed = blocks.free_requested[block.index()];
        let failed = failures.get(failures.partition_point(|&event| event <= made));
        let failed = failed.copied().filter(|&event| event <= freed);
        let outlives = steps.between(made, failed.unwrap_or(freed));
        if failed.is_none() && freed < device.events.len() {
            let most = &mut given_back[kind.alloc_stack.index()];
            *most = (*most).max(outlives);
            continue;
        }
        if outlives >= LONG && may_leak(categories[block.index()], kind, stacks, facts) {
            long.push(Long {
                stack: kind.alloc_stack,
                step: steps.begun(made),
                block,
                outlives,
            });
        }
    }
    long.retain(|of| of.outlives > given_back[of.stack.index()]);
    long.sort_unstable_by_key(|of| (of.stack, of.step));
    for of_stack in long.chunk_by(|a, b| a.stack == b.stack) {
        let alike = Alike::of(of_stack.iter().map(|of| blocks.kind(of.block)));
        let is_own = |of: &&Long| !alike.has_alone(blocks.kind(of.block));
        let own: Vec<&Long> = of_stack.iter().filter(is_own).collect();
        if own.chunk_by(|a, b| a.step == b.step).count() >= ENOUGH {
            for of in own {
                categories[of.block.index()] = Category::Unknown;
            }
        }
    }
    Ok(())
}

/// Whether a block is an input or a temporary, as far as the rules say, and not in the
/// code of workspaces.
fn may_leak(category: Category, kind: &BlockKind, stacks: &Stacks, facts: &Facts) -> bool {
    let fact = facts.get(kind.alloc_stack);
    matches!(category, Category::Input | Category::Temporary)
        && kind.alloc_stack != StackIdx::NONE
        && !fact.workspace
        && !fact.clips
        && !super::is_recorded(stacks, kind)
}
