//! What a program was in the middle of when an allocation failed, as far as the recording shows it:
//! one walk over its blocks.
//!
//! ```text
//! likeness how many times as much it asked for as the same work before
//! need     how much the whole pass would have needed, and with a smaller batch
//! saved    what forward passes keep for a backward pass
//! ```

mod likeness;
mod need;
mod saved;

use crate::allocator::Config;
use crate::categories::{Categories, Category};
use crate::oom::Failure;
use crate::phases::{Phase, Phases};
use crate::span::Span;
use crate::stacks::Stacks;
use crate::trace::{BlockIdx, DeviceTrace};
use crate::units::{Bytes, EventIdx};
use crate::what_if::batch::Batch;
pub(crate) use likeness::Likeness;
pub use likeness::Times;
pub use need::{Fits, Need};
pub use saved::Saved;
use saved::Waits;

/// The work in which an allocation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The phase.
    pub phase: Phase,
    /// What grows with the batch.
    pub batch: Batch,
    /// How much of what was in use does.
    pub grows: Bytes,
    /// What waits for a backward pass, if it failed in a forward pass.
    pub saved: Saved,
    /// The state that the optimizer had made in this update, if it failed there: as much as there
    /// may be still to be made.
    pub state_made: Bytes,
    /// What the whole pass would have needed; `None` if nothing like it was recorded before.
    pub need: Option<Need>,
}

impl Failing {
    /// Looks at a device on which this request failed; `own` are the settings of its allocator.
    pub fn of(
        device: &DeviceTrace,
        stacks: &Stacks,
        (categories, phases): (&Categories, &Phases),
        own: &Config,
        failure: &Failure,
    ) -> Failing {
        let phase = phases.at(failure.event);
        let batch = Batch::of(device, stacks, (categories, phases), failure);
        let mut waits = Waits::until(phases, failure.event);
        let update = update(phases, failure.event);
        let work = need::Work::before(device, stacks, phases, failure.event);
        let mut found = need::Found::default();
        let (mut grows, mut state_made) = (Bytes::ZERO, Bytes::ZERO);
        let blocks = &device.blocks;
        let failed = failure.event;
        for block in (0..blocks.len() as u32).map(BlockIdx) {
            let size = blocks.kind(block).size;
            let alloc = EventIdx(blocks.alloc[block.index()]);
            let free = EventIdx(blocks.free_requested[block.index()]);
            let category = categories.found(block);
            let is_recorded = block.0 >= blocks.n_preexisting;
            if is_recorded && category == Category::Activation {
                waits.add(alloc, free, size);
            }
            let is_made = is_recorded && update.is_some_and(|update| update.contains(alloc));
            if is_made && category == Category::OptimizerState && free > failed {
                state_made += size;
            }
            if batch.grows(block) {
                let is_alive = alloc < failed && failed <= free;
                grows += if is_alive { size } else { Bytes::ZERO };
            }
            let is_found = |work: &&need::Work| !is_recorded || alloc < work.start;
            if let Some(work) = work.as_ref().filter(is_found) {
                let grows = match batch.grows(block) {
                    true => size,
                    false => Bytes::ZERO,
                };
                let made = is_recorded.then_some(alloc);
                found.add(made, free > work.start, category, grows);
            }
        }
        Failing {
            phase,
            grows,
            saved: match phase {
                Phase::Forward => waits.saved(),
                _ => Saved::default(),
            },
            state_made,
            need: work.and_then(|work| work.need(device, own, (&batch, categories), found)),
            batch,
        }
    }
}

/// The update of an optimizer in which an event lies.
fn update(phases: &Phases, event: EventIdx) -> Option<Span<EventIdx>> {
    let mut spans = phases.spans().iter();
    let around = spans.find(|span| span.events.contains(event))?;
    (around.phase == Phase::Optimizer).then_some(around.events)
}
