//! Marks: bands and rules over the timeline.

use crate::facts;
use api::timeline::{AnnotationMark, Marks, OomMark};
use std::cmp::Reverse;
use trace::stacks::Stacks;
use trace::trace::{DeviceTrace, Series};
use trace::units::Bytes;

/// The marks of a device.
pub fn marks(device: &DeviceTrace, stacks: &Stacks) -> Marks {
    let mut longest: Vec<_> = device.annotations.iter().collect();
    let length = |span: trace::span::Span<trace::units::EventIdx>| span.end().0 - span.start().0;
    longest.sort_by_key(|scope| (Reverse(length(scope.events)), scope.events.start()));
    let left_out = longest.len().saturating_sub(Marks::MAX_ANNOTATIONS);
    longest.truncate(Marks::MAX_ANNOTATIONS);
    let ooms = facts::ooms(device);
    Marks {
        steps: device.steps.clone(),
        annotations: longest
            .into_iter()
            .map(|scope| AnnotationMark {
                name: stacks.str(scope.name).to_owned(),
                events: scope.events,
                depth: scope.depth,
            })
            .collect(),
        annotations_left_out: left_out as u64,
        capacity: ooms.iter().map(|oom| capacity(device, oom)).max(),
        ooms: ooms
            .into_iter()
            .map(|oom| OomMark {
                event: oom.event,
                size: oom.wanted,
                device_free: oom.device_free,
            })
            .collect(),
    }
}

/// What the process had and what the driver had left, at the moment of a failed allocation.
/// (Other processes on the device take their share: this is what was there for this one.)
fn capacity(device: &DeviceTrace, oom: &facts::OomFact) -> Bytes {
    device.levels_at(oom.event).get(Series::Reserved) + oom.device_free
}
