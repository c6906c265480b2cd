//! The steps of the host's pinned memory: those of the program, which the devices show.

use crate::span::Span;
use crate::trace::{DeviceTrace, Step};
use crate::units::{EventIdx, Micros};

/// Cuts the pinned memory into the steps of the device that has most of them, by time. Where a
/// clock was set back, the same time stands twice, and nothing says which step an event is of: then
/// there are none. Returns whether that is so.
pub fn take_steps(pinned: &mut DeviceTrace, devices: &[DeviceTrace]) -> bool {
    let Some(device) = devices.iter().rev().max_by_key(|d| d.steps.len()) else {
        return false;
    };
    let timed = device.events.time.iter().any(|time| time != Micros(0));
    let ascends = device.events.time.ascends() && pinned.events.time.ascends();
    if !timed || !ascends || pinned.events.is_empty() {
        let has_steps = !device.steps.is_empty() && !pinned.events.is_empty();
        return has_steps && timed && !ascends;
    }
    let n_events = device.events.len();
    let place = |event: EventIdx| match event.0 < n_events {
        true => pinned
            .events
            .first_at(device.events.time.get(event.index())),
        false => EventIdx(pinned.events.len()),
    };
    let steps = device.steps.iter().map(|step| {
        let start = place(step.events.start());
        let end = place(step.events.end()).max(start);
        Step {
            events: Span::new(start, end),
            ..step.clone()
        }
    });
    pinned.steps = steps.collect();
    pinned.step_source = device.step_source;
    false
}
