//! Failed allocations: when, how much was asked, how much was free, who asked, what was held.

use crate::allocator::Config;
use crate::categories::{Categories, Shares};
use crate::stacks::{StackIdx, Stacks};
use crate::trace::{Action, DeviceTrace, Series};
use crate::units::{Bytes, EventIdx};

/// A failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The event.
    pub event: EventIdx,
    /// Position among the steps of the step in which it failed.
    pub step: Option<u32>,
    /// What could not be had.
    pub asked: Bytes,
    /// What the driver had free.
    pub free: Bytes,
    /// *Allocated* then.
    pub allocated: Bytes,
    /// *Reserved* then.
    pub reserved: Bytes,
    /// Who asked.
    pub stack: StackIdx,
}

impl Failure {
    /// The process's own limit, where one must have refused: the driver had enough free. It lies
    /// above what was reserved and below that and the segment that was asked for; this is the
    /// upper bound.
    pub fn limit(&self) -> Option<Bytes> {
        let config = Config::default();
        let segment = config.segment_size(config.round_size(self.asked.0));
        (self.free.0 >= segment).then_some(self.reserved + Bytes(segment))
    }
}

/// Failed allocations that are told of a device, the last ones.
pub const MAX_FAILURES: usize = 256;

/// The last failed allocations of a device, in order.
pub fn failures(device: &DeviceTrace) -> Vec<Failure> {
    let events = &device.events;
    let rows = events.action.iter().zip(&events.target).enumerate();
    let mut last: Vec<Failure> = rows
        .rev()
        .filter(|&(_, (&action, _))| action == Action::Oom)
        .filter_map(|(event, (_, &target))| {
            let row = events.others.get(target as usize)?;
            let event = EventIdx(event as u32);
            let levels = device.levels_at(event);
            let within =
                |span: crate::span::Span<EventIdx>| span.start() <= event && event < span.end();
            let step = device.steps.iter().position(|s| within(s.events));
            Some(Failure {
                event,
                step: step.map(|at| at as u32),
                asked: row.size,
                free: Bytes(row.addr_or_free),
                allocated: levels.get(Series::Allocated),
                reserved: levels.get(Series::Reserved),
                stack: row.stack,
            })
        })
        .take(MAX_FAILURES)
        .collect();
    last.reverse();
    last
}

/// What was allocated when it failed, by category.
pub fn held(device: &DeviceTrace, stacks: &Stacks, failure: &Failure) -> Shares {
    Categories::of(device, stacks).alive(device, Some(failure.event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_known_where_the_driver_had_enough() {
        let failure = |asked: u64, free: u64| Failure {
            event: EventIdx(0),
            step: None,
            asked: Bytes::mib(asked),
            free: Bytes::mib(free),
            allocated: Bytes::mib(900),
            reserved: Bytes::mib(1000),
            stack: StackIdx::NONE,
        };
        assert_eq!(failure(64, 4000).limit(), Some(Bytes::mib(1064)));
        // A small request needs a whole segment.
        assert_eq!(failure(4, 4000).limit(), Some(Bytes::mib(1020)));
        assert_eq!(failure(64, 10).limit(), None);
        assert_eq!(failure(4, 10).limit(), None);
    }
}
