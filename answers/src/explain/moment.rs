//! What was held at a moment: what it was for, and which places in the code had requested it.

use super::Look;
use crate::contents::held_by;
use crate::names::{frame_text, shown};
use api::explain::{Moment, PlaceBytes};
use api::frames::FrameText;
use std::cmp::Reverse;
use std::collections::HashMap;
use trace::categories;
use trace::code;
use trace::forward::Forwards;
use trace::leaks::LeakGroup;
use trace::oom::Asker;
use trace::phases::Phase;
use trace::stacks::{Frame, StackIdx, Stacks};
use trace::tally::Tally;
use trace::tiles::{FROM_BEFORE, frame_label, stack_label};
use trace::trace::{Annotation, BlockIdx, Series};
use trace::units::{Bytes, EventIdx};
use trace::watch::Stopped;

/// Places listed, those that hold most.
const PLACES: usize = 8;
/// Memory that waits for other streams is told from this share of *reserved* on.
const MUCH: f64 = 0.03;

/// A place in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// In words.
    pub name: String,
    /// The line of the program.
    pub frame: Option<FrameText>,
}

/// The places of blocks; each is searched only once.
pub struct Places<'a> {
    look: &'a Look<'a>,
    forwards: Forwards<'a>,
    known: HashMap<(StackIdx, bool), Place>,
}

impl<'a> Places<'a> {
    /// Of a device.
    pub fn new(look: &'a Look<'a>) -> Places<'a> {
        Places {
            look,
            forwards: Forwards::new(look.device, look.stacks()),
            known: HashMap::new(),
        }
    }

    /// The place in the program that asked for most of these blocks, and how much that is.
    pub fn most_of(&mut self, blocks: &[BlockIdx]) -> Option<(String, Bytes)> {
        let mut sums: HashMap<String, Bytes> = HashMap::new();
        for &block in blocks {
            let place = self.of(block);
            if place.frame.is_some() {
                *sums.entry(place.name).or_default() += self.look.device.blocks.kind(block).size;
            }
        }
        let sums = sums.into_iter();
        sums.max_by_key(|(place, sum)| (*sum, Reverse(place.clone())))
    }

    /// The place that requested a block: the innermost line of the program outside of PyTorch.
    /// Blocks of a backward pass without such a line get the place of their forward operation.
    pub fn of(&mut self, block: BlockIdx) -> Place {
        let Look { device, .. } = *self.look;
        let stacks = self.look.stacks();
        let own = device.blocks.kind(block).alloc_stack;
        let is_before = block.0 < device.blocks.n_preexisting;
        if is_before && own == StackIdx::NONE {
            return Place {
                name: FROM_BEFORE.to_owned(),
                frame: None,
            };
        }
        let forward = self.forwards.of(block);
        let forward = forward.filter(|found| self.forwards.has_python(found.stack));
        let key = forward.map_or((own, false), |found| (found.stack, true));
        let known = self.known.entry(key);
        known.or_insert_with(|| place(stacks, key.0, key.1)).clone()
    }
}

fn place(stacks: &Stacks, stack: StackIdx, backward: bool) -> Place {
    let frame = Asker::of(stacks, stack).frame;
    let is_python = |frame: &Frame| code::is_python(stacks.str(frame.filename), frame.line);
    let name = match frame.filter(is_python) {
        Some(frame) => frame_label(stacks, frame),
        None => stack_label(stacks, stack),
    };
    Place {
        name: shown(&match backward {
            true => format!("backward of {name}"),
            false => name,
        }),
        frame: frame.map(|frame| frame_text(stacks, frame)),
    }
}

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
    let mut sums: HashMap<String, (Place, Tally)> = HashMap::new();
    let mut alive: Vec<BlockIdx> = Vec::new();
    for block in categories::alive(device, event) {
        look.watch.at_row(block.index(), || 0)?;
        alive.push(block);
        let place = places.of(block);
        let sum = sums.entry(place.name.clone());
        let (_, tally) = sum.or_insert_with(|| (place, Tally::default()));
        tally.add(device.blocks.kind(block).size);
    }
    let mut sums: Vec<(Place, Tally)> = sums.into_values().collect();
    sums.sort_by(|(a, of_a), (b, of_b)| of_b.bytes.cmp(&of_a.bytes).then(a.name.cmp(&b.name)));
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
