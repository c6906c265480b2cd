//! Whether the step of the peak is like the others, as a longer text, a larger last batch or a
//! validation is not.

use super::Recorded;
use crate::categories::{self, Category};
use crate::code;
use crate::failing::{Likeness, Times};
use crate::median;
use crate::site;
use crate::span::Span;
use crate::stacks::{Frame, FrameIdx, FxHashMap, FxHashSet, StackIdx};
use crate::trace::BlockIdx;
use crate::units::{Bytes, EventIdx};

/// From so many times the usual peak on it is unlike the others.
const MORE: f64 = 1.2;
/// Fewer steps have no usual one.
const LEAST_STEPS: usize = 4;
/// Of frames that hold about as much as the one that holds most, the innermost says most.
const ABOUT: f64 = 0.8;

/// A peak that is higher than those of most steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlike {
    /// The steps that peak about as high; none if the peak is outside of all steps.
    pub steps: Vec<usize>,
    /// Whether no step peaks below the one before.
    pub rises: bool,
    /// The peak of the median step; outside of all steps, the highest peak of a step.
    pub usual: Bytes,
    /// The line that asks for much of the difference, in such steps only.
    pub only_there: Option<OnlyThere>,
    /// How many times as much is asked for at the same places as in the median step.
    pub times: Option<Times>,
}

/// A line that asks for nothing in the other steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnlyThere {
    /// The line.
    pub frame: Frame,
    /// What it and the code that it calls hold at the peak.
    pub bytes: Bytes,
}

/// How the step of an event differs from the others; `None` if it does not.
pub(super) fn at(recorded: Recorded<'_>, event: EventIdx) -> Option<Unlike> {
    let device = recorded.device;
    let steps = &device.steps;
    let peaks: Vec<Bytes> = steps
        .iter()
        .map(|step| device.allocated_peak(step.events))
        .collect();
    let own = steps.iter().position(|step| step.events.contains(event));
    let Some(own) = own else {
        return Some(Unlike {
            steps: Vec::new(),
            rises: false,
            usual: peaks.iter().copied().max()?,
            only_there: None,
            times: None,
        });
    };
    let usual = median::upper(peaks.iter().copied())?;
    if peaks.len() < LEAST_STEPS || !is_more(peaks[own], usual) {
        return None;
    }
    let border = Bytes(usual.0.midpoint(peaks[own].0));
    let is_high = |at: &usize| peaks[*at] > border;
    let others: Vec<Span<EventIdx>> = (0..steps.len())
        .filter(|at| !is_high(at))
        .map(|at| steps[at].events)
        .collect();
    let only_there = only_there(recorded, steps[own].events, event, &others);
    let half = Bytes(peaks[own].saturating_sub(usual).0 / 2);
    let only_there = only_there.filter(|found| found.bytes >= half);
    let alike = peaks.iter().position(|peak| *peak == usual)?;
    let times = times(recorded, steps[alike].events, steps[own].events);
    Some(Unlike {
        steps: (0..steps.len()).filter(is_high).collect(),
        rises: peaks.is_sorted(),
        usual,
        times: times.filter(|_| only_there.is_none()),
        only_there,
    })
}

fn is_more(peak: Bytes, usual: Bytes) -> bool {
    peak.0 as f64 > MORE * usual.0 as f64
}

/// How many times as much a step asks for as another, at the same places.
fn times(recorded: Recorded<'_>, usual: Span<EventIdx>, own: Span<EventIdx>) -> Option<Times> {
    let grows = |block: BlockIdx| {
        matches!(
            recorded.categories.found(block),
            Category::Activation | Category::Temporary | Category::Input
        )
    };
    let likeness = Likeness::between(recorded.device, usual, own, grows)?;
    (likeness.times.number() > MORE).then_some(likeness.times)
}

/// Whether a person wrote the line of a frame, and not for PyTorch.
fn is_written(recorded: Recorded<'_>, frame: Frame) -> bool {
    let stacks = recorded.stacks;
    !site::is_framework(stacks, frame) && !code::is_generated(stacks.str(frame.filename))
}

/// The line that holds most of what this step made and `others` never ask for.
fn only_there(
    recorded: Recorded<'_>,
    own: Span<EventIdx>,
    event: EventIdx,
    others: &[Span<EventIdx>],
) -> Option<OnlyThere> {
    let (device, stacks) = (recorded.device, recorded.stacks);
    let stack = |block: BlockIdx| device.blocks.kind(block).alloc_stack;
    let known: FxHashSet<StackIdx> = others
        .iter()
        .flat_map(|events| device.blocks.allocated_in(*events))
        .map(|block| stack(BlockIdx(block)))
        .collect();
    let frames = known.iter().flat_map(|known| stacks.frames(*known));
    let frames: FxHashSet<FrameIdx> = frames.copied().collect();
    // Of each line, its bytes and how far from the innermost it lies.
    let mut held: FxHashMap<FrameIdx, (Bytes, usize)> = FxHashMap::default();
    for block in categories::alive(device, Some(event)) {
        let made = EventIdx(device.blocks.alloc[block.index()]);
        let is_recorded = block.0 >= device.blocks.n_preexisting;
        let is_of_step = is_recorded && own.contains(made) && recorded.comes_and_goes(block);
        if !is_of_step || known.contains(&stack(block)) {
            continue;
        }
        let mut seen = FxHashSet::default();
        for (depth, frame) in stacks.frames(stack(block)).iter().enumerate() {
            let is_own = is_written(recorded, stacks.frame(*frame));
            if is_own && !frames.contains(frame) && seen.insert(*frame) {
                let (bytes, deepest) = held.entry(*frame).or_default();
                *bytes += device.blocks.kind(block).size;
                *deepest = (*deepest).max(depth);
            }
        }
    }
    let most = held.values().map(|(bytes, _)| *bytes).max()?;
    let about =
        |(_, (bytes, _)): &(&FrameIdx, &(Bytes, usize))| bytes.0 as f64 >= ABOUT * most.0 as f64;
    let (frame, (bytes, _)) = held
        .iter()
        .filter(about)
        .min_by_key(|(frame, (_, depth))| (*depth, frame.0))?;
    Some(OnlyThere {
        frame: stacks.frame(*frame),
        bytes: *bytes,
    })
}
