//! Marks: bands and rules over the timeline.

use crate::questions::{frame_text, shown};
use api::timeline::{AnnotationMark, Marks, OomMark};
use std::cmp::Reverse;
use trace::categories::Categories;
use trace::oom;
use trace::stacks::Stacks;
use trace::trace::DeviceTrace;

/// The marks of a device.
pub fn marks(device: &DeviceTrace, stacks: &Stacks) -> Marks {
    let mut longest: Vec<_> = device.annotations.iter().collect();
    let length = |span: trace::span::Span<trace::units::EventIdx>| span.end().0 - span.start().0;
    longest.sort_by_key(|scope| (Reverse(length(scope.events)), scope.events.start()));
    let left_out = longest.len().saturating_sub(Marks::MAX_ANNOTATIONS);
    longest.truncate(Marks::MAX_ANNOTATIONS);
    let ooms = oom::failures(device);
    let categories = match ooms.is_empty() {
        true => Categories::default(),
        false => Categories::of(device, stacks),
    };
    let mark = |oom: &oom::Failure| OomMark {
        event: oom.event,
        size: oom.asked,
        device_free: oom.free,
        step: oom.step,
        limit: oom.limit(),
        allocated: oom.allocated,
        reserved: oom.reserved,
        frame: stacks
            .headline(oom.stack)
            .map(|frame| frame_text(stacks, frame)),
        held: categories
            .alive(device, Some(oom.event))
            .largest_first()
            .into_iter()
            .map(|(category, bytes)| (category.name().to_owned(), bytes))
            .collect(),
    };
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
        // What the process had and what the driver had left. (Other processes on the device take
        // their share: this is what was there for this one.)
        capacity: ooms.iter().map(|oom| oom.reserved + oom.free).max(),
        ooms: ooms.iter().map(mark).collect(),
    }
}
