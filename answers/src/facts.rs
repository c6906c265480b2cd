//! Small facts of a trace: what `inspect` prints and what the database keeps as rows.

use api::runs::DeviceSummary;
use trace::device::DeviceIdx;
use trace::main_device;
use trace::oom;
use trace::pyramid::BASE_EVENTS;
use trace::trace::{DeviceTrace, Fidelity, Series, SeriesSummary};
use trace::trace::{Step, StepSource};
use trace::units::{Bytes, EventIdx, Micros};

/// Facts of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// CUDA ordinal as the process saw it.
    pub device: DeviceIdx,
    /// Events.
    pub events: u32,
    /// Allocations seen, pre-existing ones included.
    pub blocks: u32,
    /// In the order of `Series::ALL`.
    pub series: [SeriesSummary; 4],
    /// How well the allocator's rules reproduced the trace.
    pub fidelity: Fidelity,
    /// Frees of memory that the trace did not see allocated.
    pub unmatched_frees: u64,
    /// Where the steps come from.
    pub step_source: StepSource,
    /// Number of steps.
    pub steps: u32,
    /// Time of the first and last event; `None` without times.
    pub time: Option<(Micros, Micros)>,
    /// Failed allocations.
    pub ooms: Vec<OomFact>,
}

/// A failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OomFact {
    /// The event.
    pub event: EventIdx,
    /// The requested bytes.
    pub wanted: Bytes,
    /// The free bytes of the driver; `None` where the recording does not say.
    pub device_free: Option<Bytes>,
}

/// One step and the levels in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFacts {
    /// The step.
    pub step: Step,
    /// *Allocated* after its last event.
    pub allocated_end: Bytes,
    /// Largest *allocated* in it, including the level at its start.
    pub allocated_peak: Bytes,
    /// *Reserved* after its last event.
    pub reserved_end: Bytes,
    /// *Requested* after its last event.
    pub requested_end: Bytes,
}

impl DeviceFacts {
    /// Facts of a device.
    pub fn of(device: &DeviceTrace) -> DeviceFacts {
        DeviceFacts {
            device: device.device,
            events: device.events.len(),
            blocks: device.blocks.len() as u32,
            series: device.summary,
            fidelity: device.fidelity,
            unmatched_frees: device.unmatched_frees,
            step_source: device.step_source,
            steps: device.steps.len() as u32,
            time: time_span(device),
            ooms: ooms(device),
        }
    }

    /// The same for the list of runs.
    pub fn summary(self) -> DeviceSummary {
        DeviceSummary {
            device: self.device,
            events: self.events,
            blocks: self.blocks,
            series: self.series,
            fidelity: self.fidelity,
            unmatched_frees: self.unmatched_frees,
            step_source: self.step_source,
            steps: self.steps,
            time: self.time.map(|(first, last)| (first.0, last.0)),
            oom_events: self.ooms.iter().map(|oom| oom.event.0).collect(),
        }
    }

    /// The device of a run that is told about where none is named ([`main_device`]).
    pub fn main(devices: &[DeviceFacts]) -> Option<&DeviceFacts> {
        devices.iter().max_by_key(|facts| {
            let peak = facts.series(Series::Allocated).peak;
            main_device::weight(!facts.ooms.is_empty(), peak, facts.device)
        })
    }

    /// One of the four series.
    pub fn series(&self, series: Series) -> &SeriesSummary {
        &self.series[series as usize]
    }
}

/// The first failed allocations of a device after which its program did not go on as if nothing had
/// happened.
pub fn ooms(device: &DeviceTrace) -> Vec<OomFact> {
    let failures = oom::felt(device).into_iter();
    failures
        .map(|failure| OomFact {
            event: failure.event,
            wanted: failure.asked,
            device_free: failure.free,
        })
        .collect()
}

fn time_span(device: &DeviceTrace) -> Option<(Micros, Micros)> {
    let times = &device.events.time;
    let last = times.len().checked_sub(1)?;
    let span = (times.get(0), times.get(last));
    // If a file has no times, all times are zero.
    (span != (Micros(0), Micros(0))).then_some(span)
}

/// The steps of a device with the levels in them.
pub fn step_facts(device: &DeviceTrace) -> Vec<StepFacts> {
    device
        .steps
        .iter()
        .map(|step| one_step(device, step))
        .collect()
}

fn one_step(device: &DeviceTrace, step: &Step) -> StepFacts {
    let end = device.levels_before(step.events.end());
    let start = device.levels_before(step.events.start());
    StepFacts {
        step: step.clone(),
        allocated_end: end.get(Series::Allocated),
        allocated_peak: allocated_peak(device, step).max(start.get(Series::Allocated)),
        reserved_end: end.get(Series::Reserved),
        requested_end: end.get(Series::Requested),
    }
}

/// Largest *allocated* after an event of the step. Whole buckets come from the pyramid; the events
/// at both ends are checked one by one.
fn allocated_peak(device: &DeviceTrace, step: &Step) -> Bytes {
    let (start, end) = (step.events.start().0, step.events.end().0);
    let first_whole = start.div_ceil(BASE_EVENTS) * BASE_EVENTS;
    let last_whole = end / BASE_EVENTS * BASE_EVENTS;
    if first_whole >= last_whole {
        return walk(device, start, end);
    }
    let buckets = (first_whole / BASE_EVENTS) as usize..(last_whole / BASE_EVENTS) as usize;
    let inner = device.pyramid.peak(buckets.start, buckets.end);
    walk(device, start, first_whole)
        .max(walk(device, last_whole, end))
        .max(inner.map_or(Bytes::ZERO, |peak| peak.allocated))
}

fn walk(device: &DeviceTrace, start: u32, end: u32) -> Bytes {
    let mut levels = device.levels_before(EventIdx(start));
    let mut peak = Bytes::ZERO;
    for event in start..end {
        levels.apply(device.effect(EventIdx(event)));
        peak = peak.max(levels.get(Series::Allocated));
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::span::Span;

    /// The list and the pages are about the same device.
    #[test]
    fn the_main_device_is_known_by_its_facts() {
        let trace = |text: &str| trace::testing::trace(text);
        let mut one = trace("a alloc 1MiB\nb alloc 1MiB\nc alloc 1MiB");
        let model = trace("m pre 9MiB").devices.remove(0);
        one.devices.push(DeviceTrace {
            device: DeviceIdx(1),
            ..model
        });
        let facts: Vec<DeviceFacts> = one.devices.iter().map(DeviceFacts::of).collect();
        let main = DeviceFacts::main(&facts).map(|facts| facts.device);
        assert_eq!(main, main_device::of(&one).map(|device| device.device));
        assert_eq!(main, Some(DeviceIdx(1)));
        assert!(DeviceFacts::main(&[]).is_none());
    }

    #[test]
    fn a_steps_peak_is_the_largest_level_in_it() {
        let trace = trace::testing::training_run(2000);
        let device = &trace.devices[0];
        let n = device.events.len();
        for (start, end) in [
            (0, n),
            (1, 2),
            (63, 65),
            (64, 128),
            (100, 1000),
            (n - 1, n),
            (5, 5),
        ] {
            let events = Span::new(EventIdx(start), EventIdx(end));
            let step = Step {
                index: 0,
                name: String::new(),
                events,
            };
            let levels = |event| device.levels_before(EventIdx(event)).get(Series::Allocated);
            let expected = (start..=end).map(levels).max().unwrap();
            let facts = one_step(device, &step);
            assert_eq!(facts.allocated_peak, expected, "{start}..{end}");
            assert_eq!(facts.allocated_end, levels(end), "{start}..{end}");
        }
    }
}
