//! The steps of one device, by time, for what else a program holds memory on.
//!
//! Where a program keeps a few tensors on a second device, the stacks there show no loop. Scopes of
//! its optimizer stand there, too, but what lies between two of them is no iteration: what the
//! first one keeps after its optimizer's step would be of the second, and of the last there is no
//! step. So such a device has the steps of the one that shows the loop.

use super::MIN_STEPS;
use crate::span::Span;
use crate::trace::{DeviceTrace, Step};
use crate::units::{EventIdx, Micros};

/// What shows the steps of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A loop, in its stacks.
    Loop,
    /// Scopes that call themselves steps, or what else is of this device alone.
    Other,
    /// Scopes that only repeat, or nothing: a loop that another device shows tells more.
    Nothing,
}

/// Gives devices that show no steps those of the device that shows them, if more happens there and
/// it has no fewer: a ring that wrapped has lost the first ones.
pub fn share(devices: &mut [DeviceTrace], shown: &[Shown]) {
    let ways = || shown.iter().enumerate();
    let loops = ways().filter(|(_, way)| **way == Shown::Loop);
    let Some((at, _)) = loops.max_by_key(|(at, _)| devices[*at].events.len()) else {
        return;
    };
    for (other, _) in ways().filter(|(_, way)| **way == Shown::Nothing) {
        let (from, to) = (&devices[at], &devices[other]);
        let enough = from.steps.len() >= MIN_STEPS.max(to.steps.len());
        if !enough || from.events.len() <= to.events.len() {
            continue;
        }
        if let Some(steps) = by_time(from, to) {
            let source = from.step_source;
            (devices[other].step_source, devices[other].steps) = (source, steps);
        }
    }
}

/// The steps of a device, as events of another one; `None` where times do not tell them.
pub fn by_time(from: &DeviceTrace, to: &DeviceTrace) -> Option<Vec<Step>> {
    let ascends = from.events.time.ascends() && to.events.time.ascends();
    if !has_times(from) || !ascends || to.events.is_empty() {
        return None;
    }
    let n_events = from.events.len();
    let place = |event: EventIdx| match event.0 < n_events {
        true => to.events.first_at(from.events.time.get(event.index())),
        false => EventIdx(to.events.len()),
    };
    let steps = from.steps.iter().map(|step| {
        let start = place(step.events.start());
        let end = place(step.events.end()).max(start);
        Step {
            events: Span::new(start, end),
            ..step.clone()
        }
    });
    Some(steps.collect())
}

/// Whether times were recorded.
pub fn has_times(device: &DeviceTrace) -> bool {
    device.events.time.iter().any(|time| time != Micros(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceIdx;
    use crate::steps;
    use crate::trace::{Annotation, StepSource, Trace};
    use crate::watch::Watch;

    /// So many events an iteration of the loop has: twelve blocks, given back at once.
    const EVENTS: u32 = 36;

    /// A loop of so many iterations on one device. Each of 12 keeps a block on another one, after
    /// its optimizer's step; the scopes stand on both devices.
    fn program(iterations: std::ops::Range<u32>, has_scopes: bool) -> Trace {
        let line = |i: u32| {
            let (name, at) = (format!("b{i}"), i % 12 + 1);
            format!("{name} alloc 1MiB at main train.py:{at}\n{name} free")
        };
        let lines = |of: u32| (0..12).map(move |i| line(of * 12 + i));
        let first = iterations.start;
        let looping: Vec<String> = iterations.flat_map(lines).collect();
        let mut trace = crate::testing::trace(&looping.join("\n"));
        let begins = i64::from(first * EVENTS);
        let kept: Vec<String> = (1..=12)
            .map(|i| format!("k{i} alloc 1MiB @{}", i64::from(i * EVENTS) - begins - 2))
            .collect();
        let mut other = crate::testing::trace(&kept.join("\n")).devices.remove(0);
        other.device = DeviceIdx(1);
        trace.devices.push(other);
        let name = trace.stacks.strings.push("Optimizer.step#AdamW.step");
        let scopes = (0..12).map(|i| Annotation {
            name,
            events: Span::new(EventIdx(i), EventIdx(i)),
            depth: 0,
        });
        if has_scopes {
            trace.devices[1].annotations = scopes.collect();
        }
        trace
    }

    #[test]
    fn a_device_that_only_keeps_something_has_the_steps_of_the_loop() {
        for has_scopes in [true, false] {
            let mut trace = program(0..12, has_scopes);
            steps::find_all(&mut trace.devices, &trace.stacks, Watch::nobody()).unwrap();
            let [main, other] = &trace.devices[..] else {
                panic!("two devices")
            };
            assert_eq!(main.steps.len(), 12);
            assert_eq!(other.step_source, StepSource::Inferred);
            let events: Vec<u32> = other.steps.iter().map(|s| s.events.start().0).collect();
            assert_eq!(events, (0..12).collect::<Vec<u32>>(), "{has_scopes}");
            assert_eq!(other.steps[11].events.end(), EventIdx(12));
        }
    }

    #[test]
    fn a_ring_that_lost_the_first_steps_gives_none() {
        let mut trace = program(6..12, true);
        steps::find_all(&mut trace.devices, &trace.stacks, Watch::nobody()).unwrap();
        assert_eq!(trace.devices[0].steps.len(), 6);
        assert_eq!(trace.devices[1].step_source, StepSource::Annotations);
        assert_eq!(trace.devices[1].steps.len(), 11);
    }
}
