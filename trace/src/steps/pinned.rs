//! The steps of the host's pinned memory: those of the program, which the devices show.

use super::by_time::{by_time, has_times};
use crate::trace::DeviceTrace;

/// Cuts the pinned memory into the steps of the device that has most of them, by time. Where a
/// clock was set back, the same time stands twice, and nothing says which step an event is of: then
/// there are none. Returns whether that is so.
pub fn take_steps(pinned: &mut DeviceTrace, devices: &[DeviceTrace]) -> bool {
    let Some(device) = devices.iter().rev().max_by_key(|d| d.steps.len()) else {
        return false;
    };
    let Some(steps) = by_time(device, pinned) else {
        let has_steps = !device.steps.is_empty() && !pinned.events.is_empty();
        return has_steps && has_times(device);
    };
    (pinned.step_source, pinned.steps) = (device.step_source, steps);
    false
}
