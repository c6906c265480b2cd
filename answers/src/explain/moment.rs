//! What was held at a moment: what it was for, and which places in the code had requested it.

use super::Look;
use crate::contents::held_by;
use crate::names::shown;
use crate::places::Places;
use api::explain::{Moment, PlaceBytes};
use trace::categories;
use trace::leaks::LeakGroup;
use trace::phases::Phase;
use trace::stacks::Stacks;
use trace::tiles::{frame_label, stack_label};
use trace::trace::{Annotation, BlockIdx, Series};
use trace::units::{Bytes, EventIdx};
use trace::watch::Stopped;

/// Places listed, those that hold most.
const PLACES: usize = 8;
/// Memory that waits for other streams is told from this share of *reserved* on.
const MUCH: f64 = 0.03;

/// The place that explains a leak best, in words.
pub fn leaking(stacks: &Stacks, group: &LeakGroup) -> String {
    let frame = group.frame.or(group.alloc_frame);
    frame.map_or_else(
        || stack_label(stacks, group.stack),
        |frame| shown(&frame_label(stacks, frame)),
    )
}

/// Whether so much waits for other streams that it is worth telling.
pub fn is_much(waits: Bytes, reserved: Bytes) -> bool {
    waits > Bytes::ZERO && waits.0 as f64 >= MUCH * reserved.0 as f64
}

/// What was held after an event; `None`: before the first one.
///
/// # Errors
/// [`Stopped`].
pub fn at(
    look: &Look<'_>,
    places: &mut Places<'_>,
    event: Option<EventIdx>,
) -> Result<Moment, Stopped> {
    let device = look.device;
    let alive: Vec<BlockIdx> = categories::alive(device, event).collect();
    let sums = places.held(alive.iter().copied(), look.watch)?;
    let level = |series: Series| match event {
        Some(event) => device.levels_at(event).get(series),
        None => device.summary[series as usize].start,
    };
    let listed = sums.iter().take(PLACES);
    Ok(Moment {
        event,
        step: event.and_then(|event| step_at(look, event)),
        phase: event.map_or(Phase::Unknown, |event| look.phases.at(event)),
        scope: event.and_then(|event| scope_at(look, event)),
        allocated: level(Series::Allocated),
        reserved: level(Series::Reserved),
        categories: held_by(device, look.stacks(), &look.categories, alive.into_iter()),
        places: listed
            .map(|(place, tally)| PlaceBytes {
                place: place.name.clone(),
                frame: place.frame.clone(),
                count: tally.count,
                bytes: tally.bytes,
            })
            .collect(),
        places_left_out: sums.len().saturating_sub(PLACES) as u64,
    })
}

fn step_at(look: &Look<'_>, event: EventIdx) -> Option<String> {
    let mut steps = look.device.steps.iter();
    let step = steps.find(|step| step.events.contains(event))?;
    Some(timeline::lanes::plain_step_name(step))
}

/// The innermost scope around an event that the program itself named, other than its steps.
fn scope_at(look: &Look<'_>, event: EventIdx) -> Option<String> {
    let stacks = look.stacks();
    let around = look.device.annotations.iter();
    let around = around.filter(|scope| scope.events.contains(event));
    let is_step = |scope: &&Annotation| {
        let mut steps = look.device.steps.iter();
        steps.any(|step| step.events == scope.events)
    };
    let own = around.filter(|scope| is_own(stacks.str(scope.name)) && !is_step(scope));
    let innermost = own.max_by_key(|scope| scope.depth)?;
    Some(shown(stacks.str(innermost.name)))
}

/// Whether no library opens a scope of this name: PyTorch, its profiler, NCCL, DDP and FSDP do, and
/// the names of phases say what is said already.
fn is_own(scope: &str) -> bool {
    let parts = [
        "#",
        "::",
        "DataParallel.",
        "CompiledFxGraph",
        "Torch-Compiled",
    ];
    !parts.iter().any(|part| scope.contains(part))
        && !scope.starts_with("nccl:")
        && !["forward", "backward", "optimizer"].contains(&scope)
}
