//! Memory as the program sees it: a storage is freed when the last reference to it goes.
//!
//! A [`Storage`] is a lease from the caching allocator; dropping the storage frees the memory.
//! Tensors share storages, containers share tensors, and nothing else keeps memory alive.

mod caching;
mod host;
mod label;
mod lease;
mod pending;

use std::cell::RefCell;
use std::rc::Rc;

pub use caching::{CachingAllocator, MemoryStats, OrderNote};
pub use host::{HostBlock, HostLease, HostPool};
pub use label::{Allocation, Label, Role};
pub(crate) use lease::Block;
pub use lease::{Lease, MemoryAction, MemoryEvent};

use crate::device::{Device, DeviceError, StreamId};
use crate::script::{Name, Writer};
use trace::units::{Bytes, DeviceAddr};

/// Device and allocators, shared by all storages so that a dropped storage can reach them.
pub struct Heap {
    /// The device.
    pub device: Box<dyn Device>,
    /// The caching allocator.
    pub caching: CachingAllocator,
    /// Pinned host memory.
    pub host: HostPool,
    next_object: u64,
    /// Takes the place of allocator and device while a step is written down.
    pub(crate) writer: Option<Writer>,
}

/// The heap, shared.
pub type SharedHeap = Rc<RefCell<Heap>>;

impl Heap {
    /// A heap on a fresh device.
    pub fn new(device: Box<dyn Device>) -> SharedHeap {
        Rc::new(RefCell::new(Heap {
            device,
            caching: CachingAllocator::new(),
            host: HostPool::new(),
            next_object: 1,
            writer: None,
        }))
    }

    /// A number that no other object has.
    pub fn next_object(&mut self) -> u64 {
        self.next_object += 1;
        self.next_object
    }

    /// Returns wholly free segments to the device.
    pub fn empty_cache(&mut self) {
        self.caching.empty_cache(self.device.as_mut());
    }
}

/// Memory behind one or more tensors.
pub struct Storage {
    lease: RefCell<Option<Lease>>,
    start: DeviceAddr,
    requested: Bytes,
    heap: SharedHeap,
}

impl Storage {
    /// Allocates from `stream`'s pool. Zero bytes take no memory and have address 0.
    ///
    /// # Errors
    /// The device's out of memory.
    pub fn allocate(
        heap: &SharedHeap,
        bytes: Bytes,
        stream: StreamId,
        label: Label,
    ) -> Result<Rc<Storage>, DeviceError> {
        let lease = if bytes == Bytes::ZERO {
            None
        } else {
            let mut borrowed = heap.borrow_mut();
            let Heap {
                caching,
                device,
                writer,
                ..
            } = &mut *borrowed;
            Some(match writer {
                Some(writer) => Lease::written(writer.allocate(bytes, stream), bytes, stream),
                None => caching.malloc(bytes, stream, label, device.as_mut())?,
            })
        };
        let start = lease.as_ref().map_or(DeviceAddr(0), Lease::start);
        Ok(Rc::new(Storage {
            lease: RefCell::new(lease),
            start,
            requested: bytes,
            heap: Rc::clone(heap),
        }))
    }

    /// The storage of a tensor that unpack brings back, while a step is written down. If the tensor
    /// may come back in another layout, `only` are the bytes that every use touches.
    pub(crate) fn restored(
        heap: &SharedHeap,
        bytes: Bytes,
        only: Option<(u64, u64)>,
    ) -> Option<Rc<Storage>> {
        let start = heap.borrow_mut().writer.as_mut()?.restore(only);
        let lease = Lease::written(start, bytes, StreamId::DEFAULT);
        Some(Rc::new(Storage {
            lease: RefCell::new(Some(lease)),
            start,
            requested: bytes,
            heap: Rc::clone(heap),
        }))
    }

    /// First address.
    pub fn start(&self) -> DeviceAddr {
        self.start
    }

    /// Bytes asked for.
    pub fn bytes(&self) -> Bytes {
        self.requested
    }

    /// Bytes of the block, rounding included.
    pub fn block_bytes(&self) -> Bytes {
        self.lease
            .borrow()
            .as_ref()
            .map_or(Bytes::ZERO, Lease::bytes)
    }

    /// What the memory was made for; `None` where there is none.
    pub fn label(&self) -> Option<Label> {
        self.lease.borrow().as_ref().map(|lease| *lease.label())
    }

    /// Step in which it was made, from 0; `None` before the first.
    pub fn step(&self) -> Option<u32> {
        self.lease.borrow().as_ref().and_then(Lease::step)
    }

    /// Everything that decides how it is freed, as numbers; empty if there is no memory.
    pub(crate) fn standing(&self) -> Vec<u64> {
        let lease = self.lease.borrow();
        lease
            .as_ref()
            .map_or_else(Vec::new, |lease| lease.standing().collect())
    }

    /// Sets what the memory is for, if it becomes known only later.
    pub fn relabel(&self, role: Role) {
        if let Some(lease) = self.lease.borrow_mut().as_mut() {
            self.heap.borrow_mut().caching.relabel(lease, role);
        }
    }

    /// `record_stream`: the free waits for the work that `stream` has at that time.
    pub fn record_stream(&self, stream: StreamId) {
        if let Some(lease) = self.lease.borrow_mut().as_mut() {
            lease.record_stream(stream);
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.get_mut().take() {
            let mut heap = self.heap.borrow_mut();
            let Heap {
                caching,
                device,
                writer,
                ..
            } = &mut *heap;
            match (Name::of(lease.start()), writer) {
                (Some(name), Some(writer)) => return writer.free(name),
                (Some(_), None) => return,
                (None, Some(writer)) => writer.lost = true,
                (None, None) => {}
            }
            caching.free(lease, device.as_mut());
        }
    }
}
