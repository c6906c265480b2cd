//! Which device is shown and told about where none is named: one rule for all who ask.

use crate::device::DeviceIdx;
use crate::oom;
use crate::trace::{DeviceTrace, Series, Trace};
use crate::units::Bytes;
use std::cmp::Reverse;

/// What decides between devices; the largest is shown. A device that ran out of memory comes first,
/// then the one with the highest peak of *allocated*; of equals, the one with the lowest number.
/// How many events it has says little: a context that nobody uses may have as many as the device
/// that holds the model.
pub type Weight = (bool, Bytes, Reverse<DeviceIdx>);

/// The weight of a device, by what is known of it without its trace.
pub const fn weight(ran_out_of_memory: bool, peak_allocated: Bytes, device: DeviceIdx) -> Weight {
    (ran_out_of_memory, peak_allocated, Reverse(device))
}

/// The weight of a device of a trace.
pub fn weight_of(device: &DeviceTrace) -> Weight {
    let peak = device.summary[Series::Allocated as usize].peak;
    weight(oom::first(device).is_some(), peak, device.device)
}

/// The device of a trace; `None` if it has none. The pinned memory of the host is no device.
pub fn of(trace: &Trace) -> Option<&DeviceTrace> {
    trace.devices.iter().max_by_key(|device| weight_of(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_that_holds_most_is_shown_unless_another_ran_out_of_memory() {
        let check = |devices: &[(u32, u64, bool)], expected: u32| {
            let all = devices.iter();
            let found = all.max_by_key(|&&(device, mib, failed)| {
                weight(failed, Bytes::mib(mib), DeviceIdx(device))
            });
            assert_eq!(found.map(|found| found.0), Some(expected), "{devices:?}");
        };
        check(&[(0, 0, false), (1, 9, false)], 1);
        check(&[(0, 9, false), (1, 9, false)], 0);
        check(&[(0, 9, false), (1, 8, true)], 1);
        check(&[(0, 9, true), (1, 8, true)], 0);
        assert!(of(&Trace::default()).is_none());
    }

    #[test]
    fn a_device_with_few_events_may_hold_the_model() {
        let mut trace = crate::testing::trace("a alloc 1MiB\na free\nb alloc 1MiB");
        let mut model = crate::testing::trace("m pre 9MiB").devices.remove(0);
        model.device = DeviceIdx(1);
        trace.devices.push(model);
        assert_eq!(of(&trace).map(|device| device.device), Some(DeviceIdx(1)));
    }
}
