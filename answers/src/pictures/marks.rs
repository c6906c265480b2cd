//! Marks: bands and rules over the timeline.

use crate::contents::held;
use crate::names::{frame_text, shown};
use api::timeline::{AnnotationMark, Marks, OomMark};
use std::cmp::Reverse;
use trace::categories::Categories;
use trace::oom::{self, Asker, Failure};
use trace::phases::Phases;
use trace::stays::HostStay;
use trace::trace::{DeviceTrace, Trace};
use trace::watch::{Stopped, Watch};
use trace::what_if::{LimitSeen, own_settings};

/// The marks of a device.
///
/// # Errors
/// [`Stopped`].
pub fn marks(device: &DeviceTrace, trace: &Trace, watch: Watch<'_>) -> Result<Marks, Stopped> {
    let stacks = &trace.stacks;
    let mut longest: Vec<_> = device.annotations.iter().collect();
    longest.sort_by_key(|scope| (Reverse(scope.events.len()), scope.events.start()));
    let left_out = longest.len().saturating_sub(Marks::MAX_ANNOTATIONS);
    longest.truncate(Marks::MAX_ANNOTATIONS);
    let failures = oom::felt(device);
    let felt = oom::count(device) - oom::passed_over(device).len();
    Ok(Marks {
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
        capacity: failures
            .iter()
            .filter_map(|oom| Some(oom.reserved.saturating_add(oom.free?)))
            .max(),
        ooms: ooms(device, trace, &failures, watch)?,
        ooms_left_out: felt.saturating_sub(Marks::MAX_OOMS) as u64,
        stays: Vec::new(),
        stays_left_out: 0,
    })
}

/// The marks of a device, with what its pinned host memory did meanwhile.
///
/// # Errors
/// [`Stopped`].
pub fn marks_beside_host(
    device: &DeviceTrace,
    trace: &Trace,
    watch: Watch<'_>,
) -> Result<Marks, Stopped> {
    let marks = marks(device, trace, watch)?;
    let (stays, stays_left_out) = longest_stays(device, trace, watch)?;
    Ok(Marks {
        stays,
        stays_left_out,
        ..marks
    })
}

/// The longest stays on the host, and how many there are beside them. It holds few at a time: a
/// recording may have millions.
fn longest_stays(
    device: &DeviceTrace,
    trace: &Trace,
    watch: Watch<'_>,
) -> Result<(Vec<HostStay>, u64), Stopped> {
    let n_events = device.events.len();
    let longest_first = |stay: &HostStay| {
        let until = stay.until.map_or(n_events, |until| until.0);
        let length = until.saturating_sub(stay.from.unwrap_or_default().0);
        (Reverse(length), stay.from, Reverse(stay.bytes))
    };
    let (mut longest, mut all) = (Vec::new(), 0);
    for (at, stay) in trace.host_stays(device).enumerate() {
        watch.at_row(at, || 0)?;
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
    Ok((longest, left_out))
}

/// The first failed allocations: where in the program, who asked, what was held.
fn ooms(
    device: &DeviceTrace,
    trace: &Trace,
    failures: &[Failure],
    watch: Watch<'_>,
) -> Result<Vec<OomMark>, Stopped> {
    if failures.is_empty() {
        return Ok(Vec::new());
    }
    let (stacks, own) = (&trace.stacks, own_settings(&trace.format, device));
    let limits = LimitSeen::of_refusals(device, &own, failures, watch)?;
    let categories = Categories::of_while(device, stacks, watch)?;
    let phases = Phases::of_while(device, stacks, watch)?;
    let first = failures.iter().zip(limits).take(Marks::MAX_OOMS);
    let marks = first.map(|(oom, limit)| {
        let asker = Asker::of(stacks, oom.stack);
        OomMark {
            event: oom.event,
            size: oom.asked,
            device_free: oom.free,
            step: oom.step,
            phase: phases.at(oom.event),
            limit: limit.map(|limit| limit.below),
            limit_at_least: limit.map(|limit| limit.at_least),
            allocated: oom.allocated,
            reserved: oom.reserved,
            operation: asker.operation,
            frame: asker.frame.map(|frame| frame_text(stacks, frame)),
            held: held(device, stacks, &categories, Some(oom.event)),
        }
    });
    Ok(marks.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::allocator::conf;
    use trace::testing::TraceBuilder;
    use trace::units::Bytes;

    /// Runs of earlier versions may have kept any number.
    #[test]
    fn a_capacity_is_not_known_from_free_bytes_that_no_device_has() {
        let mut builder = TraceBuilder::default();
        builder.reserved_before(Bytes::mib(1000));
        builder.out_of_memory(Bytes::mib(4));
        let mut trace = builder.finish();
        for (free, expected) in [(u64::MAX - 4, None), (u64::MAX, None), (0, Some(1000))] {
            trace.devices[0].events.others[0].addr_or_free = free;
            let marks = marks(&trace.devices[0], &trace, Watch::nobody()).unwrap();
            assert_eq!(marks.capacity, expected.map(Bytes::mib));
            assert_eq!(marks.ooms[0].device_free, expected.map(|_| Bytes::ZERO));
        }
    }

    /// Which segment a request needs is a matter of the settings.
    #[test]
    fn a_limit_of_the_process_is_told_under_the_settings_of_the_file() {
        let limit = |settings: &str| {
            let mut builder = TraceBuilder::default();
            builder.reserved_before(Bytes::mib(1000));
            builder.out_of_memory(Bytes::mib(4));
            let mut trace = builder.finish();
            trace.devices[0].events.others[0].addr_or_free = Bytes::mib(40).0;
            let setting = (conf::VARIABLE.to_owned(), settings.to_owned());
            trace.format.settings.push(setting);
            let marks = marks(&trace.devices[0], &trace, Watch::nobody());
            let oom = marks.unwrap().ooms.remove(0);
            [oom.limit_at_least, oom.limit]
        };
        assert_eq!(limit(""), [0, 1020].map(|mib| Some(Bytes::mib(mib))));
        assert_eq!(limit("large_segment_size_mb:64"), [None; 2]);
    }
}
