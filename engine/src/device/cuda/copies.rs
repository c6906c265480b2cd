//! The link: how fast plain pinned copies are when nothing else runs.

use std::time::Instant;

use cudarc::driver::{result, sys};
use serde::Serialize;
use trace::units::Bytes;

use super::super::{DeviceError, Ordinal};
use super::driver::{Driver, fault};
use super::pinned;

/// Rates of plain pinned copies, bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PlainRates {
    /// Bytes of one copy.
    pub copy_bytes: Bytes,
    /// Device to host.
    pub to_host: f64,
    /// Host to device.
    pub to_device: f64,
}

/// How many copies are timed together.
const COPIES: u32 = 64;
/// How many timings there are; the median counts.
const ROUNDS: usize = 5;

/// Measures plain pinned copies of one size, in each direction alone.
///
/// # Errors
/// No card, or its fault.
pub fn plain_rates(copy_bytes: Bytes, ordinal: Ordinal) -> Result<PlainRates, DeviceError> {
    Driver::open(ordinal)?.enter()?;
    let host = pinned::take(copy_bytes)?;
    let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
        .map_err(|error| fault("a stream cannot be made", error))?;
    // SAFETY: a plain allocation, freed below.
    let card = unsafe { result::malloc_sync(copy_bytes.0 as usize) }
        .map_err(|error| fault("no memory for a copy", error))?;
    let (bytes, pointer) = (copy_bytes.0 as usize, host.handle);
    // SAFETY: both buffers have this size and live until the stream has been waited for.
    let out = || unsafe { sys::cuMemcpyDtoHAsync_v2(pointer as *mut _, card, bytes, stream) };
    // SAFETY: as above.
    let back = || unsafe { sys::cuMemcpyHtoDAsync_v2(card, pointer as *const _, bytes, stream) };
    let to_host = rate(copy_bytes, stream, &out);
    let to_device = rate(copy_bytes, stream, &back);
    // SAFETY: `rate` has waited for the stream; nothing refers to either any more.
    unsafe {
        let _ = result::free_sync(card);
        let _ = result::stream::destroy(stream);
    }
    pinned::give_back(host);
    Ok(PlainRates {
        copy_bytes,
        to_host: to_host?,
        to_device: to_device?,
    })
}

/// Median rate over several rounds of copies. The first round is a warm-up and does not count.
fn rate(
    bytes: Bytes,
    stream: sys::CUstream,
    copy: &dyn Fn() -> sys::CUresult,
) -> Result<f64, DeviceError> {
    let mut rates = Vec::with_capacity(ROUNDS);
    for round in 0..=ROUNDS {
        let start = Instant::now();
        for _ in 0..COPIES {
            copy()
                .result()
                .map_err(|error| fault("a copy cannot be enqueued", error))?;
        }
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(stream) }
            .map_err(|error| fault("a copy failed", error))?;
        if round > 0 {
            rates.push((bytes * u64::from(COPIES)).0 as f64 / start.elapsed().as_secs_f64());
        }
    }
    rates.sort_by(f64::total_cmp);
    Ok(rates[rates.len() / 2])
}
