//! Small facts of a trace: what `inspect` prints and what the database keeps as rows.

use trace::trace::{Action, DeviceTrace, Fidelity, OtherEvent, Series, SeriesSummary};
use trace::trace::{Step, StepSource};
use trace::units::{Bytes, EventIdx, Micros};

/// Facts of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// CUDA ordinal as the process saw it.
    pub device: u32,
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
    /// What could not be had.
    pub wanted: Bytes,
    /// What the driver had free.
    pub device_free: Bytes,
}

/// One step and the levels in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFacts {
    /// The step.
    pub step: Step,
    /// *Allocated* after its last event.
    pub allocated_end: Bytes,
    /// Largest *allocated* in it, the level at its start included.
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

    /// One of the four series.
    pub fn series(&self, series: Series) -> &SeriesSummary {
        &self.series[series as usize]
    }
}

/// Failed allocations of a device.
pub fn ooms(device: &DeviceTrace) -> Vec<OomFact> {
    let events = &device.events;
    let rows = events.action.iter().zip(&events.target).enumerate();
    rows.filter(|&(_, (&action, _))| action == Action::Oom)
        .filter_map(|(event, (_, &target))| {
            let OtherEvent {
                addr_or_free, size, ..
            } = *events.others.get(target as usize)?;
            Some(OomFact {
                event: EventIdx(event as u32),
                wanted: size,
                device_free: Bytes(addr_or_free),
            })
        })
        .collect()
}

fn time_span(device: &DeviceTrace) -> Option<(Micros, Micros)> {
    let times = &device.events.time;
    let last = times.len().checked_sub(1)?;
    let span = (times.get(0), times.get(last));
    // Files without times read as zeros.
    (span != (Micros(0), Micros(0))).then_some(span)
}
