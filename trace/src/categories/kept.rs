//! What a program keeps, step after step, though its category says that it would go.
//!
//! An input is for its step, and a temporary is gone before its phase ends, or when the next step
//! sets its variable again. What a list collects, or a cache without a limit, is neither, though it
//! is made in the same way. What the program does with it, no recording shows.
//!
//! Data that is made once and kept is an input all the same, and so is what was loaded ahead.
//!
//! There is one gradient for each parameter, and of what one line of an optimizer makes, one block
//! of state. Where a line of the program's own keeps more of a size, it collects them: updates
//! that are written down, weights that an old graph holds, tensors that a hook brings back.

use super::Category;
use super::facts::Facts;
use super::survey::Survey;
use crate::footprint::of_vec;
use crate::stacks::{StackIdx, Stacks};
use crate::trace::{BlockIdx, BlockKind, DeviceTrace};
use crate::watch::{Stopped, Watch};
use crate::workspaces::Alike;

/// A block that outlives so many whole steps after its own is there for long.
const LONG: u32 = 2;
/// A stack must keep blocks of so many steps, unless they are temporaries.
const ENOUGH: usize = 3;

/// A block that is not given back.
struct Lasting {
    stack: StackIdx,
    /// How many steps had begun when it was made.
    step: u32,
    block: BlockIdx,
    /// How many whole steps it outlives.
    outlives: u32,
}

/// What is known of each stack when all blocks were seen.
struct Kept {
    /// For each stack, how many steps a block of it outlived before it was given back.
    given_back: Vec<u32>,
    /// Inputs and temporaries that are there for long.
    passing: Vec<Lasting>,
    /// What is made once for each parameter: gradients and optimizer state, of the program's code.
    owned: Vec<Lasting>,
}

impl Kept {
    fn heap_bytes(&self) -> usize {
        of_vec(&self.given_back) + 2 * (of_vec(&self.passing) + of_vec(&self.owned))
    }

    /// Whether a block is there for long, and for longer than any that its stack gave back.
    fn is_long(&self, of: &Lasting) -> bool {
        of.outlives >= LONG && of.outlives > self.given_back[of.stack.index()]
    }

    /// In how many steps blocks were made that are there for long. They are in order.
    fn steps<'k>(&self, of_stack: impl Iterator<Item = &'k Lasting>) -> usize {
        let mut steps: Vec<u32> = of_stack
            .filter(|of| self.is_long(of))
            .map(|of| of.step)
            .collect();
        steps.dedup();
        steps.len()
    }
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

/// Sets to unknown what outlives two steps after its own, and more than any block that its stack
/// gave back: temporaries; inputs, if step after step leaves some behind; and gradients and
/// optimizer state, if there are then more of a size than the `survey` knows parameters.
/// `failures` are the events at which memory ran out: what goes then was not given back.
///
/// # Errors
/// [`Stopped`].
pub(super) fn forget(
    categories: &mut [Category],
    (device, stacks): (&DeviceTrace, &Stacks),
    facts: &Facts,
    survey: &Survey,
    failures: &[u32],
    watch: Watch<'_>,
) -> Result<(), Stopped> {
    let mut kept = look(categories, (device, stacks), facts, failures, watch)?;
    let mut passing = std::mem::take(&mut kept.passing);
    passing.retain(|of| kept.is_long(of));
    passing.sort_unstable_by_key(|of| (of.stack, of.step));
    let kind = |of: &Lasting| device.blocks.kind(of.block);
    for of_stack in passing.chunk_by(|a, b| a.stack == b.stack) {
        let alike = Alike::of(of_stack.iter().map(kind));
        let own = || of_stack.iter().filter(|of| !alike.has_alone(kind(of)));
        let again = kept.steps(own()) >= ENOUGH;
        for of in own() {
            let category = &mut categories[of.block.index()];
            // Data may be made once and kept. What stays was no temporary.
            if again || *category == Category::Temporary {
                *category = Category::Unknown;
            }
        }
    }
    let mut owned = std::mem::take(&mut kept.owned);
    let requested = |of: &Lasting| kind(of).requested;
    owned.sort_unstable_by_key(|of| (of.stack, requested(of), of.step));
    for alike in owned.chunk_by(|a, b| a.stack == b.stack && requested(a) == requested(b)) {
        let parameters = survey.parameters_of(requested(&alike[0]));
        if alike.len() > parameters as usize && kept.steps(alike.iter()) >= ENOUGH {
            for of in alike {
                categories[of.block.index()] = Category::Unknown;
            }
        }
    }
    Ok(())
}

/// Walks over the blocks once.
fn look(
    categories: &[Category],
    (device, stacks): (&DeviceTrace, &Stacks),
    facts: &Facts,
    failures: &[u32],
    watch: Watch<'_>,
) -> Result<Kept, Stopped> {
    let blocks = &device.blocks;
    let steps = Steps::of(device);
    let mut kept = Kept {
        given_back: vec![0; facts.len()],
        passing: Vec::new(),
        owned: Vec::new(),
    };
    let held = 2 * of_vec(&steps.ends) + categories.len();
    for index in 0..blocks.len() as u32 {
        watch.at_row(index as usize, || held + 2 * kept.heap_bytes())?;
        let block = BlockIdx(index);
        let is_older = index < blocks.n_preexisting;
        let kind = blocks.kind(block);
        let made = match is_older {
            true => 0,
            false => blocks.alloc[block.index()],
        };
        let freed = blocks.free_requested[block.index()];
        let failed = failures.get(failures.partition_point(|&event| event <= made));
        let failed = failed.copied().filter(|&event| event <= freed);
        let outlives = steps.between(made, failed.unwrap_or(freed));
        let stack = kind.alloc_stack;
        if failed.is_none() && freed < device.events.len() {
            if is_older {
                continue;
            }
            let most = &mut kept.given_back[stack.index()];
            *most = (*most).max(outlives);
            continue;
        }
        let of = Lasting {
            stack,
            step: steps.begun(made),
            block,
            outlives,
        };
        let fact = facts.get(stack);
        let is_passing = !is_older && outlives >= LONG;
        match categories[block.index()] {
            _ if !may_leak(kind, stacks, facts) => {}
            Category::Input | Category::Temporary if is_passing => kept.passing.push(of),
            Category::Gradient | Category::OptimizerState if fact.of_program => {
                kept.owned.push(of);
            }
            _ => {}
        }
    }
    Ok(kept)
}

/// Whether it is known where a block was made, and that is nowhere where workspaces are.
fn may_leak(kind: &BlockKind, stacks: &Stacks, facts: &Facts) -> bool {
    let fact = facts.get(kind.alloc_stack);
    kind.alloc_stack != StackIdx::NONE
        && !fact.workspace
        && !fact.clips
        && !super::is_recorded(stacks, kind)
}
