//! Stays on the host: when each block of pinned memory was taken and given back, on the axis of a
//! device.
//!
//! An offloader takes a block for each tensor that it moves to the host, and gives it back when the
//! tensor is on the device again. So a stay is the way of a tensor out and back, and one without an
//! end is a tensor that never came back. A recording of PyTorch does not say what was copied into a
//! block (docs/snapshot-format.md, "Pinned host memory").

use crate::trace::{DeviceTrace, Trace};
use crate::units::{Bytes, EventIdx, Micros};
use serde::{Deserialize, Serialize};

/// A block of pinned memory, from the time at which it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HostStay {
    /// The event of the device that was the last one when the block was taken; `None` if that was
    /// before the recording.
    pub from: Option<EventIdx>,
    /// The same when the program gave it back; `None` if it still holds it at the end.
    pub until: Option<EventIdx>,
    /// Size of the block.
    pub bytes: Bytes,
}

impl Trace {
    /// The stays beside a device, in the order in which the blocks were taken. There are none
    /// beside the pinned memory itself, and none if the recording has no times: then nothing says
    /// when they were.
    pub fn host_stays<'t>(
        &'t self,
        device: &'t DeviceTrace,
    ) -> impl Iterator<Item = HostStay> + 't {
        let beside = self.pinned.iter();
        let beside = beside.filter(|pinned| pinned.device != device.device && is_timed(device));
        beside.flat_map(|pinned| stays(pinned, device))
    }
}

fn is_timed(device: &DeviceTrace) -> bool {
    let times = &device.events.time;
    let last = times.len().checked_sub(1);
    last.is_some_and(|last| times.get(last) != Micros(0))
}

fn stays(pinned: &DeviceTrace, device: &DeviceTrace) -> impl Iterator<Item = HostStay> {
    let blocks = &pinned.blocks;
    // The last event that was not later.
    let place = |event: u32| {
        let time = pinned.events.time.get(event as usize);
        let after = device.events.time.first_after(time);
        EventIdx(after.saturating_sub(1) as u32)
    };
    (0..blocks.len()).map(move |block| {
        let given_back = blocks.free_requested[block];
        HostStay {
            from: (block as u32 >= blocks.n_preexisting).then(|| place(blocks.alloc[block])),
            until: (given_back < pinned.events.len()).then(|| place(given_back)),
            bytes: blocks.kinds[blocks.kind[block].index()].size,
        }
    })
}
