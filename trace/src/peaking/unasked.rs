//! What forward passes keep for a backward pass that does not come: an evaluation without
//! `torch.no_grad()`, in a program that also trains.
//!
//! It is given back when its pass is over, so it is no activation by its lifetime. But the same
//! modules make activations in the passes that a backward pass follows. Where nearly as many blocks
//! of such places live at once as in a pass of the training, autograd keeps them: without it, each
//! goes when the next module has read it.

use super::Recorded;
use crate::categories::{self, Category};
use crate::phases::Phase;
use crate::site;
use crate::stacks::{FrameIdx, FxHashMap, StackIdx};
use crate::trace::{BlockIdx, Series};
use crate::units::{Bytes, EventIdx};

/// Innermost frames of Python that tell where in a model something is made.
const FRAMES: usize = 3;
/// So many parts of what a pass of the training keeps must live at once …
const MOST: f64 = 0.7;
/// … and at least so many blocks: a small model holds a few in any case.
const LEAST_BLOCKS: u64 = 8;
/// From this share of the peak on it is told.
const LEAST: f64 = 0.25;

/// Saved tensors that no backward pass asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unasked {
    /// Those that were alive at the peak.
    pub blocks: Vec<BlockIdx>,
    /// Their bytes.
    pub bytes: Bytes,
}

/// What waits at an event for a backward pass that does not come.
pub(super) fn at(recorded: Recorded<'_>, event: EventIdx) -> Option<Unasked> {
    let device = recorded.device;
    let backward = || {
        let spans = recorded.phases.spans().iter();
        spans.filter(|span| span.phase == Phase::Backward)
    };
    let passes = backward().count();
    if passes == 0 || recorded.phases.at(event) == Phase::Backward {
        return None;
    }
    let before = backward().rfind(|span| span.events.end() <= event);
    let from = before.map_or(0, |span| span.events.end().0);
    let after = backward().find(|span| span.events.start() > event);
    let until = after.map_or(device.events.len(), |span| span.events.start().0);
    let blocks = &device.blocks;
    let mut places = PlacesInModel::new(recorded);
    let mut saved: FxHashMap<Vec<FrameIdx>, u64> = FxHashMap::default();
    for block in blocks.made().map(BlockIdx) {
        let place = places.of(blocks.kind(block).alloc_stack);
        if recorded.categories.found(block) == Category::Activation && !place.is_empty() {
            *saved.entry(place.to_vec()).or_default() += 1;
        }
    }
    let mut found = Unasked {
        blocks: Vec::new(),
        bytes: Bytes::ZERO,
    };
    for block in categories::alive(device, Some(event)) {
        let freed = blocks.free_requested[block.index()];
        let is_of_pass = block.0 >= blocks.n_preexisting && blocks.alloc[block.index()] >= from;
        let kind = blocks.kind(block);
        let may_wait = is_of_pass && freed < until && recorded.comes_and_goes(block);
        if may_wait && saved.contains_key(places.of(kind.alloc_stack)) {
            found.blocks.push(block);
            found.bytes += kind.size;
        }
    }
    let usual = saved.values().sum::<u64>() as f64 / passes as f64;
    let count = found.blocks.len() as u64;
    let peak = device.levels_at(event).get(Series::Allocated);
    let is_graph = count >= LEAST_BLOCKS && count as f64 >= MOST * usual;
    (is_graph && found.bytes.0 as f64 >= LEAST * peak.0 as f64).then_some(found)
}

/// The innermost frames of stacks; each is looked at once.
struct PlacesInModel<'a> {
    recorded: Recorded<'a>,
    known: FxHashMap<StackIdx, Vec<FrameIdx>>,
}

impl<'a> PlacesInModel<'a> {
    fn new(recorded: Recorded<'a>) -> PlacesInModel<'a> {
        PlacesInModel {
            recorded,
            known: FxHashMap::default(),
        }
    }

    /// Empty without frames of Python.
    fn of(&mut self, stack: StackIdx) -> &[FrameIdx] {
        let stacks = self.recorded.stacks;
        self.known.entry(stack).or_insert_with(|| {
            let frames = stacks.frames(stack).iter();
            let python = frames.filter(|frame| site::is_python(stacks, stacks.frame(**frame)));
            python.take(FRAMES).copied().collect()
        })
    }
}
