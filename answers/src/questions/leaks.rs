//! A leak report with its names.

use crate::names::{forward_op, frame_text, shown};
use api::frames::ForwardOp;
use api::leaks::{LeakGroup, Leaks, Pattern};
use std::collections::HashMap;
use trace::forward::{Forward, Forwards};
use trace::leaks::{self, LeakReport};
use trace::redact::step_number;
use trace::stacks::StackIdx;
use trace::steps::Word;
use trace::steps::recording::{self, Kind};
use trace::trace::{DeviceTrace, Trace};
use trace::watch::Watch;

/// For how many blocks of a group the forward operation is inferred; the most frequent one stands
/// for all.
const FORWARD_OF: usize = 32;

/// The largest number of listed groups, those that grow fastest.
pub const MAX_LEAKS: usize = 1000;

/// The report about a device; the search ends when `watch` stops it.
pub fn report(trace: &Trace, device: &DeviceTrace, watch: Watch<'_>) -> Leaks {
    let found = leaks::find_while(device, &trace.stacks, &trace.quality, watch);
    named(trace, device, found, watch)
}

/// A report about a device, with names added. If `watch` stops it, it does not say what the
/// recording holds.
pub fn named(trace: &Trace, device: &DeviceTrace, found: LeakReport, watch: Watch<'_>) -> Leaks {
    let LeakReport {
        verdict,
        reason,
        caveats,
        groups,
        bytes_per_step,
        growth: _,
    } = found;
    let recording = recording::of_device_while(device, &trace.stacks, watch);
    let mut forwards = Forwards::new(device, &trace.stacks);
    Leaks {
        recording: recording.map_or(Kind::Unknown, |recording| recording.kind),
        verdict,
        reason,
        caveats,
        bytes_per_step,
        step_source: device.step_source,
        steps: device.steps.len() as u32,
        step: Word::of(&device.steps).one().to_owned(),
        groups: groups
            .into_iter()
            .take(MAX_LEAKS)
            .map(|group| leak_group(trace, device, &mut forwards, group))
            .collect(),
    }
}

fn leak_group(
    trace: &Trace,
    device: &DeviceTrace,
    forwards: &mut Forwards<'_>,
    group: leaks::LeakGroup,
) -> LeakGroup {
    let stacks = &trace.stacks;
    let number = |step: u32| step_number(&device.steps[step as usize]);
    let (pattern, every) = match group.pattern {
        leaks::Pattern::EveryStep => (Pattern::EveryStep, None),
        leaks::Pattern::EveryNth(n) => (Pattern::EveryNth, Some(n)),
        leaks::Pattern::WithinStep => (Pattern::WithinStep, None),
        leaks::Pattern::Enlarged => (Pattern::Enlarged, None),
    };
    LeakGroup {
        site: group.site.to_string(),
        stack: (group.stack != StackIdx::NONE).then_some(group.stack.0),
        frame: group.frame.map(|frame| frame_text(stacks, frame)),
        frame_inferred: group.frame_inferred,
        alloc_frame: group.alloc_frame.map(|frame| frame_text(stacks, frame)),
        forward: usual_forward(trace, forwards, &group.evidence),
        pattern,
        every,
        scope: group.scope.map(|name| shown(stacks.str(name))),
        count_per_step: group.count_per_step,
        bytes_per_step: group.bytes_per_step,
        slope_error: group.slope_error,
        confidence: group.confidence,
        first_step: group.first_step,
        last_step: group.last_step,
        first_number: number(group.first_step),
        last_number: number(group.last_step),
        live_count: group.live_count,
        live_bytes: group.live_bytes,
        evidence: group.evidence.iter().map(|block| block.0).collect(),
    }
}

/// The forward operation that most of the blocks belong to.
fn usual_forward(
    trace: &Trace,
    forwards: &mut Forwards<'_>,
    blocks: &[trace::trace::BlockIdx],
) -> Option<ForwardOp> {
    let mut found: HashMap<(StackIdx, Option<String>), (u32, Forward)> = HashMap::new();
    // The last ones, because first steps differ.
    for &block in blocks.iter().rev().take(FORWARD_OF) {
        if let Some(forward) = forwards.of(block) {
            let key = (forward.stack, forward.node.clone());
            found.entry(key).or_insert((0, forward)).0 += 1;
        }
    }
    let most = found
        .into_values()
        .max_by_key(|(n, forward)| (*n, forward.stack.0));
    most.map(|(_, forward)| forward_op(&trace.stacks, &forward))
}
