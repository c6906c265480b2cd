//! The pinned memory of the host (`host_traces`, `host_segments`; torch 2.14 and later).
//!
//! PyTorch's allocator of pinned memory has other rules than that of devices: it rounds sizes to
//! powers of two, never splits a block, and each block is a segment of its own. Its events have the
//! size of the block, so nothing has to be simulated (docs/snapshot-format.md, "Pinned host
//! memory").

use super::gone::AllPassed;
use super::matching::Matched;
use super::quality::note;
use super::simulate::{Lost, Simulated};
use crate::quality_code;
use crate::snapshot::{EventKind, RawEvents, RawSegment};
use crate::trace::{Fidelity, PoolId, PoolSize, QualityNote};
use crate::units::Micros;
use crate::watch::{Stopped, Watch};

/// The host's events that belong to the recording.
pub struct Host {
    pub events: RawEvents,
    /// Earlier events, which do not.
    pub left_out: usize,
}

/// Leaves out what is older than the first event of a device. The ring of host events is not
/// cleared when a recording begins again, and in between events are missing (measured,
/// torch 2.14.1). What was pinned before then follows from the final state, as for devices.
pub fn since_the_devices(events: RawEvents, devices: &[RawEvents]) -> Host {
    let started = devices.iter().filter(|device| !device.time.is_empty());
    let first = started.map(|device| device.time.get(0)).min();
    let left_out = match first {
        // From the front: a clock that was set back later hides no event.
        Some(first) if first > Micros(0) => {
            let later = events.time.iter().position(|time| time >= first);
            later.unwrap_or(events.time.len())
        }
        _ => 0,
    };
    let events = match left_out {
        0 => events,
        from => events.part(from..events.kind.len()),
    };
    Host { events, left_out }
}

impl Host {
    /// Whether the file says anything about pinned memory.
    pub fn is_there(&self, segments: &[RawSegment]) -> bool {
        !self.events.kind.is_empty() || segments.iter().any(|s| s.device.is_pinned())
    }
}

/// The note about events that were left out.
pub fn left_out(events: usize) -> Option<QualityNote> {
    let text = match events {
        0 => return None,
        1 => "1 event before the first event of a device is left out: PyTorch does not clear such \
              events when a recording begins, and some between are missing"
            .to_owned(),
        n => format!(
            "{n} events before the first event of a device are left out: PyTorch does not clear \
             them when a recording begins, and some between are missing"
        ),
    };
    Some(note(quality_code::HOST_EVENTS_BEFORE, text))
}

/// The size of each block, as its event has it.
pub fn as_recorded(
    kinds: &[EventKind],
    rows: &[u32],
    matched: &Matched,
    watch: Watch<'_>,
) -> Result<Simulated, Stopped> {
    let blocks = &matched.blocks;
    watch.look(blocks.len() * (size_of::<u64>() + size_of::<u16>()))?;
    let before = matched.before.iter();
    let before = before.map(|row| row.final_size.unwrap_or(row.requested));
    let allocated = blocks.alloc[matched.before.len()..].iter();
    let allocated = allocated.map(|&event| kinds[rows[event as usize] as usize].size.0);
    Ok(Simulated {
        size: before.chain(allocated).collect(),
        pool: vec![0; blocks.len()],
        pools: vec![(PoolId::default(), PoolSize::Small)],
        fidelity: Fidelity::default(),
        anomalies: Lost::default(),
        resized_before: Vec::new(),
        passed: AllPassed::default(),
    })
}
