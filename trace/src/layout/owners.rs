//! Which pool a segment is of that was made while the recording ran.
//!
//! No event says it, but a segment holds blocks of one pool only, and it is made for a block. So
//! the first block that lies in it tells, also where nothing is in use any more, or not yet.

use crate::trace::{Action, BlockIdx, DeviceTrace, NO_TARGET, PoolId, PoolSize};
use crate::units::EventIdx;
use std::collections::BTreeMap;

/// A pool and its size class.
pub(super) type Owner = (PoolId, PoolSize);

/// The owner of each segment that an event makes, by its row among the segment events.
#[derive(Default)]
pub(super) struct Owners {
    of_row: Vec<Option<Owner>>,
}

impl Owners {
    /// Of the segments that are made up to an event.
    pub(super) fn until(device: &DeviceTrace, at: EventIdx) -> Owners {
        let events = &device.events;
        let mut of_row = vec![None; events.segments.len()];
        let mut open = Open::default();
        let rows = events.action.iter().zip(&events.target);
        for (event, (action, &target)) in rows.enumerate() {
            let is_after = event > at.index();
            if is_after && open.0.is_empty() {
                break;
            }
            let range = || {
                let segment = events.segments.get(target as usize)?;
                let start = segment.addr.0;
                Some((start, start.saturating_add(segment.size.0)))
            };
            match action {
                Action::SegmentAlloc | Action::SegmentMap if !is_after => {
                    let new = range().map(|(start, end)| (start, (end, target)));
                    open.0.extend(new);
                }
                Action::SegmentFree | Action::SegmentUnmap if !open.0.is_empty() => {
                    if let Some((start, end)) = range() {
                        open.close(start, end);
                    }
                }
                Action::Alloc if !open.0.is_empty() && target != NO_TARGET => {
                    let kind = device.blocks.kind(BlockIdx(target));
                    let start = device.blocks.addr[target as usize].0;
                    for row in open.close(start, start.saturating_add(kind.size.0)) {
                        of_row[row as usize] = Some((kind.pool, kind.pool_size));
                    }
                }
                _ => {}
            }
        }
        Owners { of_row }
    }

    /// Of the segment that the event with this row made.
    pub(super) fn of(&self, row: u32) -> Option<Owner> {
        self.of_row.get(row as usize).copied().flatten()
    }
}

/// Ranges in which no block has lain yet: by their start, their end and their row.
#[derive(Default)]
struct Open(BTreeMap<u64, (u64, u32)>);

impl Open {
    /// Takes out the ranges that reach into this one, and returns their rows.
    fn close(&mut self, from: u64, to: u64) -> Vec<u32> {
        let below = self.0.range(..to).rev();
        let reached = below.take_while(|(_, (end, _))| *end > from);
        let starts: Vec<u64> = reached.map(|(start, _)| *start).collect();
        let taken = starts.iter().filter_map(|start| self.0.remove(start));
        taken.map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ranges_that_are_reached_are_closed() {
        let check = |from: u64, to: u64, expected: &[u32]| {
            let mut open = Open([(10, (20, 0)), (20, (30, 1)), (40, (50, 2))].into());
            assert_eq!(open.close(from, to), expected);
            assert_eq!(open.0.len(), 3 - expected.len());
        };
        check(10, 12, &[0]);
        check(15, 25, &[1, 0]);
        check(30, 40, &[]);
        check(0, 10, &[]);
        check(0, 90, &[2, 1, 0]);
    }
}
