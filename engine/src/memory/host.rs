//! Pinned host memory: a pool that rounds sizes up to powers of two and reuses blocks.
//!
//! PyTorch's pinned allocator does the same. So a leak of host copies takes up to twice the bytes
//! that leaked (docs/offloader-rules.md, "Kinds of leaks", B).

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use trace::units::{Bytes, DeviceAddr};

use super::{Label, MemoryAction, MemoryEvent, SharedHeap};
use crate::device::{Device, DeviceError, HostBuffer, StreamId, micros};

/// Where the first block stands in recordings. Devices give handles, which say nothing about where
/// memory is.
const FIRST_ADDRESS: DeviceAddr = DeviceAddr(0x7000_0000_0000);

/// A pinned block, in use or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostBlock {
    /// First address in recordings.
    pub start: DeviceAddr,
    /// Its bytes, a power of two.
    pub bytes: Bytes,
    /// For what it is in use; `None` while it is free.
    pub used_for: Option<Label>,
}

/// Pinned blocks by size.
#[derive(Debug, Default)]
pub struct HostPool {
    free: HashMap<Bytes, Vec<HostBuffer>>,
    in_use: Bytes,
    reserved: Bytes,
    /// By handle.
    blocks: BTreeMap<u64, HostBlock>,
    events: Option<Vec<MemoryEvent>>,
}

impl HostPool {
    /// An empty pool.
    pub fn new() -> HostPool {
        HostPool::default()
    }

    /// Blocks in use, rounding included.
    pub fn in_use(&self) -> Bytes {
        self.in_use
    }

    /// What was taken from the device's host allocator.
    pub fn reserved(&self) -> Bytes {
        self.reserved
    }

    /// Everything that decides what later calls do, as numbers.
    pub(crate) fn standing(&self) -> Vec<u64> {
        let mut free: Vec<[u64; 2]> = self
            .free
            .iter()
            .map(|(bytes, buffers)| [bytes.0, buffers.len() as u64])
            .collect();
        free.sort_unstable();
        let mut standing = vec![self.in_use.0, self.reserved.0];
        standing.extend(free.into_iter().flatten());
        standing
    }

    /// From now on, keeps events.
    pub fn record_events(&mut self) {
        self.events.get_or_insert_default();
    }

    /// Stops keeping events.
    pub fn stop_recording(&mut self) {
        self.events = None;
    }

    /// Takes the events that were kept: those of PyTorch's pinned allocator, with the sizes of
    /// blocks.
    pub fn take_events(&mut self) -> Vec<MemoryEvent> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// All blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &HostBlock> {
        self.blocks.values()
    }

    fn take(
        &mut self,
        bytes: Bytes,
        label: Label,
        device: &mut dyn Device,
    ) -> Result<HostBuffer, DeviceError> {
        let rounded = Bytes(bytes.0.max(1).next_power_of_two());
        let buffer = match self.free.get_mut(&rounded).and_then(Vec::pop) {
            Some(buffer) => buffer,
            None => {
                let buffer = device.allocate_host(rounded)?;
                let block = HostBlock {
                    start: FIRST_ADDRESS + self.reserved,
                    bytes: rounded,
                    used_for: None,
                };
                self.reserved += rounded;
                self.blocks.insert(buffer.handle, block);
                self.happened(MemoryAction::SegmentAlloc, buffer, label, device);
                buffer
            }
        };
        self.in_use += rounded;
        if let Some(block) = self.blocks.get_mut(&buffer.handle) {
            block.used_for = Some(label);
        }
        self.happened(MemoryAction::Alloc, buffer, label, device);
        Ok(buffer)
    }

    fn give_back(&mut self, buffer: HostBuffer, device: &dyn Device) {
        self.in_use -= buffer.bytes;
        self.free.entry(buffer.bytes).or_default().push(buffer);
        let block = self.blocks.get_mut(&buffer.handle);
        let label = block.and_then(|block| block.used_for.take());
        for action in [MemoryAction::FreeRequested, MemoryAction::FreeCompleted] {
            self.happened(action, buffer, label.unwrap_or_default(), device);
        }
    }

    /// Keeps an event, if events are kept.
    fn happened(
        &mut self,
        action: MemoryAction,
        buffer: HostBuffer,
        label: Label,
        device: &dyn Device,
    ) {
        let (Some(events), Some(block)) = (&mut self.events, self.blocks.get(&buffer.handle))
        else {
            return;
        };
        events.push(MemoryEvent {
            action,
            start: block.start,
            bytes: block.bytes,
            stream: StreamId::DEFAULT,
            site: label.site,
            op: label.op,
            time: micros(device.host_time()),
        });
    }
}

/// A pinned buffer in use; dropping it returns it to the pool.
pub struct HostLease {
    buffer: HostBuffer,
    heap: SharedHeap,
}

impl HostLease {
    /// Takes a buffer of at least `bytes`.
    ///
    /// # Errors
    /// Host memory runs out.
    pub fn allocate(
        heap: &SharedHeap,
        bytes: Bytes,
        label: Label,
    ) -> Result<HostLease, DeviceError> {
        let mut borrowed = heap.borrow_mut();
        let super::Heap { host, device, .. } = &mut *borrowed;
        let buffer = host.take(bytes, label, device.as_mut())?;
        Ok(HostLease {
            buffer,
            heap: Rc::clone(heap),
        })
    }

    /// The buffer.
    pub fn buffer(&self) -> HostBuffer {
        self.buffer
    }
}

impl Drop for HostLease {
    fn drop(&mut self) {
        let mut borrowed = self.heap.borrow_mut();
        let super::Heap { host, device, .. } = &mut *borrowed;
        host.give_back(self.buffer, device.as_ref());
    }
}
