//! Pinned host memory: a pool that rounds sizes up to powers of two and reuses blocks.
//!
//! PyTorch's pinned allocator does the same. So a leak of host copies takes up to twice the bytes
//! that leaked (docs/offloader-rules.md, "Kinds of leaks", B).

use std::collections::HashMap;
use std::rc::Rc;

use trace::units::Bytes;

use super::SharedHeap;
use crate::device::{Device, DeviceError, HostBuffer};

/// Pinned blocks by size.
#[derive(Debug, Default)]
pub struct HostPool {
    free: HashMap<Bytes, Vec<HostBuffer>>,
    in_use: Bytes,
    reserved: Bytes,
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

    fn take(&mut self, bytes: Bytes, device: &mut dyn Device) -> Result<HostBuffer, DeviceError> {
        let rounded = Bytes(bytes.0.max(1).next_power_of_two());
        let buffer = match self.free.get_mut(&rounded).and_then(Vec::pop) {
            Some(buffer) => buffer,
            None => {
                let buffer = device.allocate_host(rounded)?;
                self.reserved += rounded;
                buffer
            }
        };
        self.in_use += rounded;
        Ok(buffer)
    }

    fn give_back(&mut self, buffer: HostBuffer) {
        self.in_use -= buffer.bytes;
        self.free.entry(buffer.bytes).or_default().push(buffer);
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
    pub fn allocate(heap: &SharedHeap, bytes: Bytes) -> Result<HostLease, DeviceError> {
        let mut borrowed = heap.borrow_mut();
        let super::Heap { host, device, .. } = &mut *borrowed;
        let buffer = host.take(bytes, device.as_mut())?;
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
        self.heap.borrow_mut().host.give_back(self.buffer);
    }
}
