//! Frees that wait: the program let go of a block, and other streams may still use it.
//!
//! A free waits for one event on each stream that uses the block. Work of a stream ends in order,
//! so only the first event of each stream that is not done yet has to be asked for.

use std::collections::{BTreeMap, VecDeque};

use super::lease::Lease;
use crate::device::{Device, EventId, StreamId};

/// A free that waits for events.
#[derive(Debug)]
pub(super) struct Pending {
    pub lease: Lease,
    /// The events that are not known to be done.
    pub events: Vec<(EventId, StreamId)>,
}

/// Frees that the program has asked for, each with the events that it waits for.
#[derive(Debug, Default)]
pub(super) struct PendingFrees {
    /// By the order in which the program asked for them.
    frees: BTreeMap<u64, Pending>,
    next: u64,
    /// For each stream, its events in the order in which they were recorded, with their frees.
    queues: BTreeMap<StreamId, VecDeque<(EventId, u64)>>,
}

/// Frees that no longer wait, and the events that were seen.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub leases: Vec<Lease>,
    pub events: Vec<EventId>,
}

impl PendingFrees {
    /// The lease is free once these events are done; they have just been recorded.
    pub fn add(&mut self, lease: Lease, events: Vec<(EventId, StreamId)>) {
        let number = self.next;
        self.next += 1;
        for &(event, stream) in &events {
            let queue = self.queues.entry(stream).or_default();
            queue.push_back((event, number));
        }
        self.frees.insert(number, Pending { lease, events });
    }

    /// Takes the frees whose events are all done, in the order in which they were asked for.
    pub fn take_done(&mut self, device: &mut dyn Device) -> Done {
        let mut seen = Vec::new();
        for queue in self.queues.values_mut() {
            while let Some(&(event, number)) = queue.front()
                && device.event_done(event)
            {
                device.drop_event(event);
                queue.pop_front();
                seen.push((number, event));
            }
        }
        seen.sort_by_key(|&(number, _)| number);
        let mut done = Done::default();
        for (number, event) in seen {
            done.events.push(event);
            if let Some(pending) = self.frees.get_mut(&number) {
                pending.events.retain(|(other, _)| *other != event);
                if pending.events.is_empty() {
                    let pending = self.frees.remove(&number);
                    done.leases.extend(pending.map(|pending| pending.lease));
                }
            }
        }
        done
    }

    /// Takes all of them, in the order in which they were asked for.
    pub fn take_all(&mut self) -> impl Iterator<Item = Pending> + use<> {
        self.queues.clear();
        std::mem::take(&mut self.frees).into_values()
    }

    /// All of them, in the order in which they were asked for.
    pub fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.frees.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Kernel;
    use crate::device::Touched;
    use crate::device::sim::{SimDevice, SimSpec};
    use crate::memory::{CachingAllocator, Label};
    use trace::units::Bytes;

    /// Work that takes a second.
    fn second_of_work(device: &mut SimDevice, stream: StreamId) {
        let kernel = Kernel {
            flops: SimSpec::default().cost.flops_per_second,
            traffic: Bytes::ZERO,
        };
        device.launch(stream, kernel, Touched::default()).unwrap();
    }

    /// A block of the default stream that another stream uses when it is freed.
    fn free_while_used(caching: &mut CachingAllocator, device: &mut SimDevice, user: StreamId) {
        let bytes = Bytes::mib(4);
        let lease = caching.malloc(bytes, StreamId::DEFAULT, Label::default(), device);
        let mut lease = lease.unwrap();
        lease.record_stream(user);
        second_of_work(device, user);
        caching.free(lease, device);
    }

    /// Each stream is asked for its first event only, however many frees wait for it.
    #[test]
    fn a_stream_that_is_not_done_is_asked_once_a_malloc() {
        let mut device = SimDevice::new(SimSpec::default());
        let mut caching = CachingAllocator::new();
        let (first, second) = (
            device.create_stream().unwrap(),
            device.create_stream().unwrap(),
        );
        for _ in 0..100 {
            free_while_used(&mut caching, &mut device, first);
        }
        free_while_used(&mut caching, &mut device, second);
        assert_eq!(caching.pending_frees().count(), 101);
        device.start_tape();
        let small = caching.take_block(Bytes(1), StreamId::DEFAULT, &mut device);
        caching.give_block(small.unwrap());
        assert_eq!(device.take_tape().unwrap().questions(), 2);
        assert_eq!(caching.pending_frees().count(), 101);
        // The second stream is done sooner, and does not wait for the first one.
        device.synchronize(second).unwrap();
        let small = caching.take_block(Bytes(1), StreamId::DEFAULT, &mut device);
        caching.give_block(small.unwrap());
        let still = caching.pending_frees().count();
        assert!((98..101).contains(&still), "{still}");
        device.synchronize(first).unwrap();
        caching
            .take_block(Bytes(1), StreamId::DEFAULT, &mut device)
            .unwrap();
        assert_eq!(caching.pending_frees().count(), 0);
    }
}
