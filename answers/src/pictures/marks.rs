//! Marks: bands and rules over the timeline.

use crate::contents::held;
use crate::names::{frame_text, shown};
use api::timeline::{AnnotationMark, Marks, OomMark};
use std::cmp::Reverse;
use trace::categories::Categories;
use trace::oom::{self, Asker, Failure};
use trace::phases::Phases;
use trace::stacks::Stacks;
use trace::stays::HostStay;
use trace::trace::{DeviceTrace, Trace};

/// The marks of a device.
pub fn marks(device: &DeviceTrace, stacks: &Stacks) -> Marks {
    let mut longest: Vec<_> = device.annotations.iter().collect();
    let length = |span: trace::span::Span<trace::units::EventIdx>| span.end().0 - span.start().0;
    longest.sort_by_key(|scope| (Reverse(length(scope.events)), scope.events.start()));
    let left_out = longest.len().saturating_sub(Marks::MAX_ANNOTATIONS);
    longest.truncate(Marks::MAX_ANNOTATIONS);
    let failures = oom::failures(device);
    Marks {
        steps: device.steps.clone(),
        annotations: longest
            .into_iter()
            .map(|scope| AnnotationMark {
                name: shown(stacks.str(scope.name)),
                events: scope.events,
                depth: scope.depth,
            })
            .collect(),
        annotations_left_out: left_out as u64,
        // The memory of this process plus the free memory of the driver. (Other processes on the
        // device use a part; this is what was available to this one.)
        capacity: failures.iter().map(|oom| oom.reserved + oom.free).max(),
        ooms: ooms(device, stacks, &failures),
        ooms_left_out: oom::count(device).saturating_sub(Marks::MAX_OOMS) as u64,
        stays: Vec::new(),
        stays_left_out: 0,
    }
}

/// The marks of a device, with what its pinned host memory did meanwhile.
pub fn marks_beside_host(device: &DeviceTrace, trace: &Trace) -> Marks {
    let (stays, stays_left_out) = longest_stays(device, trace);
    Marks {
        stays,
        stays_left_out,
        ..marks(device, &trace.stacks)
    }
}

/// The longest stays on the host, and how many there are beside them. It holds few at a time: a
/// recording may have millions.
fn longest_stays(device: &DeviceTrace, trace: &Trace) -> (Vec<HostStay>, u64) {
    let n_events = device.events.len();
    let longest_first = |stay: &HostStay| {
        let until = stay.until.map_or(n_events, |until| until.0);
        let length = until.saturating_sub(stay.from.unwrap_or_default().0);
        (Reverse(length), stay.from, Reverse(stay.bytes))
    };
    let (mut longest, mut all) = (Vec::new(), 0);
    for stay in trace.host_stays(device) {
        all += 1;
        longest.push(stay);
        if longest.len() == 2 * Marks::MAX_STAYS {
            longest.select_nth_unstable_by_key(Marks::MAX_STAYS, longest_first);
            longest.truncate(Marks::MAX_STAYS);
        }
    }
    longest.sort_unstable_by_key(longest_first);
    longest.truncate(Marks::MAX_STAYS);
    let left_out = all - longest.len() as u64;
    (longest, left_out)
}

/// The first failed allocations: where in the program, who asked, what was held.
fn ooms(device: &DeviceTrace, stacks: &Stacks, failures: &[Failure]) -> Vec<OomMark> {
    if failures.is_empty() {
        return Vec::new();
    }
    let (categories, phases) = (Categories::of(device, stacks), Phases::of(device, stacks));
    let first = failures.iter().take(Marks::MAX_OOMS);
    let marks = first.map(|oom| {
        let asker = Asker::of(stacks, oom.stack);
        OomMark {
            event: oom.event,
            size: oom.asked,
            device_free: oom.free,
            step: oom.step,
            phase: phases.at(oom.event),
            limit: oom.limit(),
            allocated: oom.allocated,
            reserved: oom.reserved,
            operation: asker.operation,
            frame: asker.frame.map(|frame| frame_text(stacks, frame)),
            held: held(device, stacks, &categories, oom.event),
        }
    });
    marks.collect()
}
