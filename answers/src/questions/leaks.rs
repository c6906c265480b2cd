//! A leak report with its names.

use crate::names::{forward_op, frame_text, shown};
use api::frames::ForwardOp;
use api::leaks::{LeakGroup, Leaks, Pattern};
use std::collections::HashMap;
use trace::forward::{Forward, Forwards};
use trace::leaks::{self, LeakReport, Verdict};
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

/// What is found on each of these devices. The pinned memory of the host is one of them only if it
/// leaks: otherwise its verdict says nothing of the recording. The worst one, [`leaks::worst`],
/// speaks for the recording.
pub fn judged<'t>(
    trace: &Trace,
    mut devices: Vec<&'t DeviceTrace>,
    pinned: Option<&'t DeviceTrace>,
    watch: Watch<'_>,
) -> (Vec<&'t DeviceTrace>, Vec<LeakReport>) {
    let judge = |device| leaks::find_while(device, &trace.stacks, &trace.quality, watch);
    let mut reports: Vec<LeakReport> = devices.iter().copied().map(judge).collect();
    let pinned = pinned.map(|device| (device, judge(device)));
    if let Some((device, report)) = pinned.filter(|(_, report)| report.verdict == Verdict::Leak) {
        devices.push(device);
        reports.push(report);
    }
    (devices, reports)
}

/// A report about a device, with names added. If `watch` stops it, it does not say what the
/// recording holds.
pub fn named(trace: &Trace, device: &DeviceTrace, found: LeakReport, watch: Watch<'_>) -> Leaks {
    let apart = found.told_apart(&trace.stacks);
    let LeakReport {
        verdict,
        reason,
        caveats,
        groups,
        bytes_per_step,
        growth: _,
        reserved_growth,
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
        reserved_growth: reserved_growth.map(|growth| growth.sentence()),
        groups: groups
            .into_iter()
            .zip(apart)
            .take(MAX_LEAKS)
            .map(|(group, made_in)| LeakGroup {
                made_in: made_in.map(|frame| frame_text(&trace.stacks, frame)),
                ..leak_group(trace, device, &mut forwards, group)
            })
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
        // It takes the others to know this.
        made_in: None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use trace::redact::{self, Key};
    use trace::span::Span;
    use trace::stacks::Frame;
    use trace::testing::{TraceBuilder, block_of};
    use trace::trace::{BlockKind, Step};
    use trace::units::{Bytes, EventIdx};

    /// Eight steps that keep what two functions make, which one line of the program calls.
    fn of_one_line() -> Trace {
        let mut builder = TraceBuilder::default();
        let makers = ["linear", "gelu"].map(|name| builder.stack(name, "/srv/app/layers.py", 7));
        for alloc_stack in makers.iter().copied().cycle().take(16) {
            builder.alloc(BlockKind {
                alloc_stack,
                ..block_of(Bytes::mib(1))
            });
        }
        let mut trace = builder.finish();
        let callers = [("forward", "net.py"), ("<module>", "train.py")].map(|(name, file)| {
            let frame = Frame {
                name: trace.stacks.strings.push(name),
                filename: trace.stacks.strings.push(file),
                line: 3,
            };
            trace.stacks.push_frame(frame)
        });
        for kind in &mut trace.devices[0].blocks.kinds {
            let own = trace.stacks.frames(kind.alloc_stack)[0];
            kind.alloc_stack = trace.stacks.push_stack(&[own, callers[0], callers[1]]);
        }
        let step = |index: u32| Step {
            index,
            name: format!("step {index}"),
            events: Span::new(EventIdx(2 * index), EventIdx(2 * index + 2)),
        };
        trace.devices[0].steps = (0..8).map(step).collect();
        trace
    }

    fn made_in(trace: &Trace) -> Vec<String> {
        let found = report(trace, &trace.devices[0], Watch::nobody());
        let frames = found.groups.iter().map(|group| {
            assert!(group.frame.is_some());
            group.made_in.as_ref().map(crate::names::frame_line)
        });
        let mut told: Vec<String> = frames.flatten().collect();
        told.sort_unstable();
        told
    }

    #[test]
    fn leaks_of_one_line_are_told_by_what_makes_them() {
        let mut trace = of_one_line();
        let expected = ["gelu /srv/app/layers.py:7", "linear /srv/app/layers.py:7"];
        assert_eq!(made_in(&trace), expected);
        // Who may not read names sees stand-ins, which differ.
        redact::trace(&mut trace, Key::new([7; 16]));
        let [one, other] = &made_in(&trace)[..] else {
            panic!("both are told apart")
        };
        assert_ne!(one, other);
        let told = [one.as_str(), other].concat();
        assert!(!told.contains("srv") && !told.contains("layers"), "{told}");
    }
}
