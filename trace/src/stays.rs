//! Stays on the host: when each block of pinned memory was taken and given back, on the axis of a
//! device.
//!
//! An offloader takes a block for each tensor that it moves to the host, and gives it back when the
//! tensor is on the device again. So a stay is the way of a tensor out and back, and one without an
//! end is a tensor that never came back. A recording of PyTorch does not say what was copied into a
//! block (docs/snapshot-format.md, "Pinned host memory").

use crate::levels::GivenBack;
use crate::trace::{BlockIdx, DeviceTrace, Trace};
use crate::units::{Bytes, EventIdx, Micros};
use serde::{Deserialize, Serialize};

/// A block of pinned memory, from the time at which it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HostStay {
    /// The event of the device that was the last one when the block was taken; `None` if that was
    /// before the first event.
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

/// What ended before the first event of the device, or began after its last one and ended, too,
/// lies beside nothing that is drawn, so it is left out.
fn stays(pinned: &DeviceTrace, device: &DeviceTrace) -> impl Iterator<Item = HostStay> {
    let blocks = &pinned.blocks;
    let (times, n_events) = (&device.events.time, device.events.len());
    let last = n_events.checked_sub(1).map(|last| times.get(last as usize));
    let time = |event: EventIdx| pinned.events.time.get(event.index());
    // The last event that was not later; none if all were.
    let place = move |event: EventIdx| {
        let before = times.first_after(time(event)).checked_sub(1)?;
        Some(EventIdx(before as u32))
    };
    let is_after = move |event: EventIdx| Some(time(event)) > last;
    (0..blocks.len() as u32).filter_map(move |block| {
        let seen = block >= blocks.n_preexisting;
        let block = BlockIdx(block);
        let taken = seen.then(|| EventIdx(blocks.alloc[block.index()]));
        let until = match pinned.given_back(block) {
            GivenBack::Before => return None,
            GivenBack::At(_) if taken.is_some_and(is_after) => return None,
            GivenBack::At(event) => Some(place(event)?),
            GivenBack::Never => None,
        };
        Some(HostStay {
            from: taken.and_then(place),
            until,
            bytes: blocks.kind(block).size,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceIdx;
    use crate::testing::{TraceBuilder, block_of};
    use proptest::prelude::*;

    /// A block as the property's model sees it: when it was taken and given back.
    type Held = (Option<i64>, GivenBackAt);

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum GivenBackAt {
        Before,
        Time(i64),
        Never,
    }

    /// A device with an event at each of these times.
    fn device_of(times: &[i64]) -> Trace {
        let mut builder = TraceBuilder::default();
        for &time in times {
            builder.at(Micros(time));
            builder.mark();
        }
        builder.finish()
    }

    /// Pinned memory: blocks from before, of which the first were given back already, and then
    /// one that is taken or given back at each of these times.
    fn pinned_of(
        before: usize,
        pending: usize,
        deeds: &[(i64, usize)],
    ) -> (DeviceTrace, Vec<Held>) {
        let mut builder = TraceBuilder::default();
        let (mut held, mut blocks) = (Vec::new(), Vec::new());
        for at in 0..pending + before {
            let is_pending = at < pending;
            blocks.push(match is_pending {
                true => builder.pending_before(block_of(Bytes(512))),
                false => builder.preexisting(block_of(Bytes(512))),
            });
            held.push(match is_pending {
                true => (None, GivenBackAt::Before),
                false => (None, GivenBackAt::Never),
            });
        }
        for &(time, which) in deeds {
            builder.at(Micros(time));
            let live = (0..held.len()).filter(|&at| held[at].1 == GivenBackAt::Never);
            let live: Vec<usize> = live.collect();
            match which % 2 == 0 || live.is_empty() {
                true => {
                    blocks.push(builder.alloc(block_of(Bytes(512))));
                    held.push((Some(time), GivenBackAt::Never));
                }
                false => {
                    let at = live[which % live.len()];
                    builder.free_requested(blocks[at]);
                    held[at].1 = GivenBackAt::Time(time);
                }
            }
        }
        (builder.finish().devices.remove(0), held)
    }

    /// Times that never decrease.
    fn summed(gaps: &[i64], start: i64) -> Vec<i64> {
        let times = gaps.iter().scan(start, |now, gap| {
            *now += gap;
            Some(*now)
        });
        times.collect()
    }

    /// Whether any of the time that a block was held is in what the device recorded. A block that
    /// is kept reaches its end.
    fn is_beside(held: Held, first: i64, last: i64) -> bool {
        match held {
            (_, GivenBackAt::Before) => false,
            (_, GivenBackAt::Never) => true,
            (None, GivenBackAt::Time(until)) => until >= first,
            (Some(from), GivenBackAt::Time(until)) => from <= last && until >= first,
        }
    }

    proptest! {
        #[test]
        fn no_stay_lies_outside_of_what_was_recorded(
            gaps in prop::collection::vec(0..4_i64, 1..30),
            deeds in prop::collection::vec((0..6_i64, 0..100_usize), 0..40),
            (before, pending, start) in (0..4_usize, 0..3_usize, 1..60_i64),
        ) {
            // Without events, nothing says what was given back before them.
            let pending = if deeds.is_empty() { 0 } else { pending };
            let times = summed(&gaps, 40);
            let deed_times = summed(&deeds.iter().map(|deed| deed.0).collect::<Vec<_>>(), start);
            let deeds: Vec<(i64, usize)> =
                deed_times.into_iter().zip(deeds.iter().map(|deed| deed.1)).collect();
            let (pinned, held) = pinned_of(before, pending, &deeds);
            let mut trace = device_of(&times);
            trace.pinned = Some(DeviceTrace { device: DeviceIdx::PINNED, ..pinned });
            let (first, last) = (times[0], times[times.len() - 1]);
            let beside = held.iter().filter(|held| is_beside(**held, first, last));
            let beside: Vec<Held> = beside.copied().collect();
            let stays: Vec<HostStay> = trace.host_stays(&trace.devices[0]).collect();
            prop_assert_eq!(stays.len(), beside.len());
            // The last event that was not later, by the obvious way.
            let place = |time: i64| {
                let before = times.iter().rposition(|&other| other <= time);
                before.map(|at| EventIdx(at as u32))
            };
            for (stay, (from, until)) in stays.iter().zip(beside) {
                prop_assert_eq!(stay.from, from.and_then(place));
                match until {
                    GivenBackAt::Time(until) => prop_assert_eq!(stay.until, place(until)),
                    _ => prop_assert_eq!(stay.until, None),
                }
            }
        }
    }
}
