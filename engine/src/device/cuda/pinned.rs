//! Pinned host memory of the process.
//!
//! Pinning a few gigabytes takes about a second, so the next run uses what one run gives back.
//! Within a run, [`crate::memory::HostPool`] reuses blocks. Here whole buffers are reused between
//! runs, when no copy is under way.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};
use trace::units::Bytes;

use super::super::{DeviceError, HostBuffer};
use super::driver::fault;

/// Addresses by size. Here an address is only a number; the driver and its copies use it as a
/// pointer.
static SPARE: Mutex<BTreeMap<Bytes, Vec<u64>>> = Mutex::new(BTreeMap::new());

/// Usable from every context (`CU_MEMHOSTALLOC_PORTABLE`).
const PORTABLE: u32 = 1;

/// A buffer of exactly this size.
pub(super) fn take(bytes: Bytes) -> Result<HostBuffer, DeviceError> {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = spare.get_mut(&bytes).and_then(Vec::pop) {
        return Ok(HostBuffer { handle, bytes });
    }
    // SAFETY: a plain allocation; it is never given back to the driver.
    let pointer = unsafe { result::malloc_host(bytes.0 as usize, PORTABLE) };
    let pointer = pointer.map_err(|error| match error.0 {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => DeviceError::OutOfHostMemory { wanted: bytes },
        // An earlier fault of the card is often told by the next call, whatever that is.
        _ => fault("pinned memory cannot be allocated", error),
    })?;
    Ok(HostBuffer {
        handle: pointer as u64,
        bytes,
    })
}

/// Keeps a buffer for the next run. No copy may be under way.
pub(super) fn give_back(buffer: HostBuffer) {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    spare.entry(buffer.bytes).or_default().push(buffer.handle);
}
