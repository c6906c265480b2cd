//! The part of the driver API that is used here: one context for each card, the kernels, and calls
//! that return sentences instead of codes.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::mem::MaybeUninit;
use std::panic;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use trace::units::Bytes;

use super::super::{DeviceError, Ordinal};

/// `kernels.cu`, compiled in advance, so that no compiler is needed at run time.
const KERNELS: &str = concat!(include_str!("kernels.ptx"), "\0");

/// What results say about the card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardInfo {
    /// Name, as in `NVIDIA H200`.
    pub name: String,
    /// CUDA version of the driver, as in `13.0`.
    pub cuda: String,
    /// Memory.
    pub memory: Bytes,
    /// Multiprocessors.
    pub multiprocessors: u32,
}

/// The opened driver of one card.
pub(super) struct Driver {
    pub info: CardInfo,
    context: sys::CUcontext,
    pub work: sys::CUfunction,
    pub checksum: sys::CUfunction,
    pub gather: sys::CUfunction,
    pub compare: sys::CUfunction,
}

// SAFETY: context and functions are handles that any thread may use, and nothing here changes after
// construction.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

/// The driver's error as one sentence.
pub(super) fn fault(what: &str, error: DriverError) -> DeviceError {
    let name = error.error_name().ok().and_then(|name| name.to_str().ok());
    let text = error
        .error_string()
        .ok()
        .and_then(|text| text.to_str().ok());
    DeviceError::Fault(format!(
        "{what}: {} ({})",
        name.unwrap_or("unknown CUDA error"),
        text.unwrap_or("the driver has no text for it")
    ))
}

fn unavailable(why: impl Into<String>) -> DeviceError {
    DeviceError::Unavailable(format!("there is no CUDA device here: {}", why.into()))
}

impl Driver {
    /// The driver of one card, opened once in each process.
    pub fn open(ordinal: Ordinal) -> Result<&'static Driver, DeviceError> {
        type Opened = BTreeMap<Ordinal, Result<&'static Driver, DeviceError>>;
        static DRIVERS: Mutex<Opened> = Mutex::new(BTreeMap::new());
        let mut drivers = DRIVERS.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = drivers.entry(ordinal).or_insert_with(|| {
            let driver = Driver::new(ordinal)?;
            // There is one for each card, and it lives as long as the process.
            Ok(Box::leak(Box::new(driver)))
        });
        opened.clone()
    }

    /// Number of cards of the host; a driver must have been opened.
    pub fn count() -> Result<u16, DeviceError> {
        let count = result::device::get_count();
        let count = count.map_err(|error| fault("cards cannot be counted", error))?;
        Ok(u16::try_from(count).unwrap_or_default())
    }

    fn new(ordinal: Ordinal) -> Result<Driver, DeviceError> {
        // SAFETY: this only looks for the library. Loading it runs its initialisers, as in any
        // program that uses the card.
        if !unsafe { sys::is_culib_present() } {
            return Err(unavailable(
                "the driver's library libcuda.so.1 is not installed on this machine",
            ));
        }
        // If an old driver lacks a symbol, the bindings panic: turn the panic into a sentence.
        let quiet = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        let outcome = panic::catch_unwind(|| Driver::with_library(ordinal));
        panic::set_hook(quiet);
        outcome.unwrap_or_else(|_| Err(unavailable("its driver is too old")))
    }

    fn with_library(ordinal: Ordinal) -> Result<Driver, DeviceError> {
        let refused = |what: &str, error: DriverError| {
            unavailable(match fault(what, error) {
                DeviceError::Fault(text) => text,
                other => other.to_string(),
            })
        };
        result::init().map_err(|error| refused("the driver does not start", error))?;
        let card =
            result::device::get(i32::from(ordinal.0)).map_err(|error| refused("no card", error))?;
        // SAFETY: the driver has just named the device `card`. The context is never released and
        // lives as long as the process.
        let context = unsafe { result::primary_ctx::retain(card) };
        let context = context.map_err(|error| refused("no context", error))?;
        // SAFETY: the context is alive.
        unsafe { result::ctx::set_current(context) }
            .map_err(|error| refused("no context", error))?;
        let info = card_info(card).map_err(|error| refused("no properties", error))?;
        // SAFETY: the image is a NUL-terminated text.
        let module = unsafe { result::module::load_data(KERNELS.as_ptr().cast::<c_void>()) };
        let module = module.map_err(|error| refused("the kernels do not load", error))?;
        let function = |name: &str| {
            let text = CString::new(name).expect("a kernel's name has no NUL");
            // SAFETY: the module is never unloaded.
            unsafe { result::module::get_function(module, text) }
                .map_err(|error| refused("a kernel is missing", error))
        };
        Ok(Driver {
            info,
            context,
            work: function("work")?,
            checksum: function("checksum")?,
            gather: function("gather")?,
            compare: function("compare")?,
        })
    }

    /// Makes this context the current one of the calling thread.
    pub fn enter(&self) -> Result<(), DeviceError> {
        // SAFETY: the context is never released.
        unsafe { result::ctx::set_current(self.context) }
            .map_err(|error| fault("the context cannot be used", error))
    }
}

fn card_info(card: sys::CUdevice) -> Result<CardInfo, DriverError> {
    let mut version = MaybeUninit::uninit();
    // SAFETY: the driver writes one integer.
    let version = unsafe {
        sys::cuDriverGetVersion(version.as_mut_ptr()).result()?;
        version.assume_init()
    };
    let multiprocessors = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    // SAFETY: `card` is a device that the driver has named.
    let (memory, multiprocessors) = unsafe {
        (
            result::device::total_mem(card)?,
            result::device::get_attribute(card, multiprocessors)?,
        )
    };
    Ok(CardInfo {
        name: result::device::get_name(card)?,
        cuda: format!("{}.{}", version / 1000, version % 1000 / 10),
        memory: Bytes(memory as u64),
        multiprocessors: multiprocessors.max(1) as u32,
    })
}

/// The size of a kernel's grid: enough threads for the memory, but few enough to run all at once. A
/// kernel that must last a given time takes as long as its last block.
pub(super) fn blocks(words: u64, multiprocessors: u32) -> u32 {
    const THREADS: u64 = 256;
    const WORDS_A_THREAD: u64 = 4;
    const BLOCKS_A_MULTIPROCESSOR: u64 = 4;
    let most = BLOCKS_A_MULTIPROCESSOR * u64::from(multiprocessors);
    words.div_ceil(THREADS * WORDS_A_THREAD).clamp(1, most) as u32
}

/// Enqueues a kernel of 256 threads a block.
///
/// # Safety
/// `parameters` must point to values of the types that `function` declares, and the memory that
/// they name must stay allocated until the kernel has run.
pub(super) unsafe fn launch(
    function: sys::CUfunction,
    blocks: u32,
    stream: sys::CUstream,
    parameters: &mut [*mut c_void],
) -> Result<(), DeviceError> {
    // SAFETY: the caller guarantees function and parameters.
    unsafe { result::launch_kernel(function, (blocks, 1, 1), (256, 1, 1), 0, stream, parameters) }
        .map_err(|error| fault("a kernel cannot be launched", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_runs_all_at_once() {
        assert_eq!(blocks(0, 132), 1);
        assert_eq!(blocks(1024, 132), 1);
        assert_eq!(blocks(1025, 132), 2);
        assert_eq!(blocks(u64::MAX / 2, 132), 528);
    }

    #[test]
    fn the_kernels_are_there_under_their_names() {
        for name in ["work", "checksum", "gather", "compare"] {
            assert!(
                KERNELS.contains(&format!(".visible .entry {name}(")),
                "{name}"
            );
        }
        assert!(KERNELS.ends_with('\0'));
    }
}
