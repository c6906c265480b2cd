//! Devices: they own memory, run kernels and copies, and keep streams and events.
//!
//! A device gives out whole segments; the caching allocator divides them into blocks
//! ([`crate::memory`]). Work on one stream runs in the order in which it was enqueued. Between
//! streams only events give an order.
//!
//! A simulated device has no bytes. A real one has them, and can check whether what was packed came
//! back ([`Device::fingerprint`]).

mod clocks;
pub mod cuda;
pub mod sim;

pub use clocks::{Player, Tape, Taped};

use api::bench::CardFacts;
use serde::{Deserialize, Serialize};
use trace::units::{Bytes, DeviceAddr};

use crate::tensor::Layout;

/// A device of the host, with the number that the driver gives it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Ordinal(pub u16);

/// A stream of the device; 0 is the default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct StreamId(pub u16);

impl StreamId {
    /// The default stream.
    pub const DEFAULT: StreamId = StreamId(0);
}

/// An event that was recorded on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventId(pub u64);

/// Device memory `start..start + bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First address.
    pub start: DeviceAddr,
    /// Length.
    pub bytes: Bytes,
}

impl Span {
    /// No memory: for a tensor of size 0, or one on the host.
    pub const EMPTY: Span = Span {
        start: DeviceAddr(0),
        bytes: Bytes::ZERO,
    };
}

/// The work of one kernel: what its cost depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kernel {
    /// Floating point operations.
    pub flops: f64,
    /// Bytes read and written.
    pub traffic: Bytes,
}

/// Memory that a kernel reads and writes. Only devices that keep contents need it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Touched<'a> {
    /// What it reads.
    pub reads: &'a [Span],
    /// What it writes.
    pub writes: &'a [Span],
    /// The product, if the kernel is a product of bf16 matrices without gaps.
    pub product: Option<Product>,
}

/// A product of bf16 matrices, which lie in memory row by row:
/// `out[m, n] = left[m, k] · right[k, n]`. There are `batch` of them, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Left operand.
    pub left: Span,
    /// Right operand.
    pub right: Span,
    /// Result.
    pub out: Span,
    /// Memory that the product may use while it runs.
    pub workspace: Span,
    /// The sizes of what is multiplied.
    pub sizes: ProductSizes,
}

/// Sizes of a product, and which operand is stored transposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProductSizes {
    /// How many products of these sizes there are.
    pub batch: u64,
    /// Rows of left operand and result.
    pub m: u64,
    /// Columns of right operand and result.
    pub n: u64,
    /// Columns of the left operand, rows of the right one.
    pub k: u64,
    /// Whether the left operand is stored as `[k, m]`.
    pub left_transposed: bool,
    /// Whether the right operand is stored as `[n, k]`.
    pub right_transposed: bool,
}

/// What did the arithmetic of a run on a card.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Compute {
    /// A kernel that reads and writes the operands, and lasts as long as the model says.
    StandIn,
    /// cuBLASLt, on bf16 operands.
    CublasLt {
        /// The version, as in 130100 for 13.1.0.
        version: u64,
        /// Its share of the operations, from 0 to 1. A stand-in did the rest.
        share: f64,
    },
}

impl std::fmt::Display for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Compute::CublasLt { version, share } = *self else {
            return f.write_str("stand-in kernel");
        };
        let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
        write!(f, "cublasLt {major}.{minor}.{patch} bf16")?;
        if share < 0.9995 {
            write!(f, " ({:.1} % of the arithmetic)", share * 100.0)?;
        }
        Ok(())
    }
}

/// A tensor as memory.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// The storage of the tensor.
    pub storage: Span,
    /// Its place in the storage, in elements.
    pub layout: Layout,
    /// Size of an element.
    pub width: Bytes,
}

/// A checksum that the device keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub u64);

/// A pinned host buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostBuffer {
    /// Handle of the device that allocated it.
    pub handle: u64,
    /// Usable bytes.
    pub bytes: Bytes,
}

/// The errors of device calls.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// There is no such device here.
    #[error("{0}")]
    Unavailable(String),
    /// The device cannot give a segment of this size.
    #[error("device memory: {} bytes wanted, {} free", .wanted.0, .free.0)]
    OutOfMemory {
        /// Bytes asked for.
        wanted: Bytes,
        /// Bytes the device has left.
        free: Bytes,
    },
    /// Pinned host memory ran out.
    #[error("pinned host memory: {} bytes wanted", .wanted.0)]
    OutOfHostMemory {
        /// Bytes asked for.
        wanted: Bytes,
    },
    /// The device failed in a way that ends the run.
    #[error("device fault: {0}")]
    Fault(String),
}

/// The device under the engine.
pub trait Device {
    /// The name for results: `sim`, or the name of the card.
    fn name(&self) -> String;

    /// Allocates a segment.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn allocate_segment(&mut self, bytes: Bytes) -> Result<DeviceAddr, DeviceError>;
    /// Gives a segment back. Waits for all work on the device, as `cudaFree` does.
    fn free_segment(&mut self, start: DeviceAddr, bytes: Bytes);

    /// Makes a stream.
    ///
    /// # Errors
    /// The device refuses.
    fn create_stream(&mut self) -> Result<StreamId, DeviceError>;
    /// Enqueues a kernel.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn launch(
        &mut self,
        stream: StreamId,
        kernel: Kernel,
        touched: Touched<'_>,
    ) -> Result<(), DeviceError>;
    /// Enqueues a kernel that copies a view into dense memory.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn gather(
        &mut self,
        stream: StreamId,
        kernel: Kernel,
        _from: &View,
        _to: Span,
    ) -> Result<(), DeviceError> {
        self.launch(stream, kernel, Touched::default())
    }
    /// Enqueues a copy from device to host.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn copy_to_host(
        &mut self,
        stream: StreamId,
        from: Span,
        to: HostBuffer,
    ) -> Result<(), DeviceError>;
    /// Enqueues a copy from host to device.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn copy_to_device(
        &mut self,
        stream: StreamId,
        from: HostBuffer,
        to: Span,
    ) -> Result<(), DeviceError>;

    /// Allocates pinned host memory.
    ///
    /// # Errors
    /// [`DeviceError::OutOfHostMemory`].
    fn allocate_host(&mut self, bytes: Bytes) -> Result<HostBuffer, DeviceError>;
    /// Frees pinned host memory.
    fn free_host(&mut self, buffer: HostBuffer);

    /// Records an event.
    ///
    /// # Errors
    /// The device refuses.
    fn record_event(&mut self, stream: StreamId) -> Result<EventId, DeviceError>;
    /// Makes later work of `stream` wait for `event`.
    ///
    /// # Errors
    /// The device refuses.
    fn wait_event(&mut self, stream: StreamId, event: EventId) -> Result<(), DeviceError>;
    /// Whether the work before `event` is done.
    fn event_done(&mut self, event: EventId) -> bool;
    /// Blocks the host until the work before `event` is done.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn synchronize_event(&mut self, event: EventId) -> Result<(), DeviceError>;
    /// Forgets an event.
    fn drop_event(&mut self, event: EventId);
    /// Blocks the host until all work on `stream` is done.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn synchronize(&mut self, stream: StreamId) -> Result<(), DeviceError>;

    /// Waits for everything enqueued so far, without an effect on any decision. Returns when that
    /// work was done, in seconds since the start.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn settle(&mut self) -> Result<f64, DeviceError> {
        Ok(self.busy_until())
    }

    /// Whether this device has bytes in memory. If not, the calls below do nothing.
    fn keeps_contents(&self) -> bool {
        false
    }
    /// Writes memory that the program fills from outside, for example a sample.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn initialise(&mut self, _stream: StreamId, _to: Span) -> Result<(), DeviceError> {
        Ok(())
    }
    /// Enqueues a checksum of a view and keeps it.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn fingerprint(
        &mut self,
        _stream: StreamId,
        _view: &View,
    ) -> Result<Option<Fingerprint>, DeviceError> {
        Ok(None)
    }
    /// Enqueues another checksum, and its comparison with an earlier one, which is then forgotten.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn verify(
        &mut self,
        _stream: StreamId,
        _view: &View,
        _packed: Fingerprint,
    ) -> Result<(), DeviceError> {
        Ok(())
    }
    /// Forgets a checksum that will not be compared.
    fn forget(&mut self, _print: Fingerprint) {}
    /// What only a real card can tell. Waits for all work.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn hardware(&mut self) -> Result<Option<CardFacts>, DeviceError> {
        Ok(None)
    }

    /// What has done the arithmetic so far; `None` if nothing did any.
    fn compute(&self) -> Option<Compute> {
        None
    }

    /// The simulated device, if this is one. Its steps can be played again.
    fn as_sim(&mut self) -> Option<&mut sim::SimDevice> {
        None
    }

    /// Time since the start at which all work enqueued so far is done, in seconds.
    fn busy_until(&self) -> f64;
    /// Time since the start as the host sees it, in seconds.
    fn host_time(&self) -> f64;
}

/// A device's time as whole microseconds.
pub(crate) fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_computed_is_said_with_its_share() {
        let check = |version, share, expected: &str| {
            let compute = Compute::CublasLt { version, share };
            assert_eq!(compute.to_string(), expected);
        };
        check(130_100, 1.0, "cublasLt 13.1.0 bf16");
        check(120_405, 0.9999, "cublasLt 12.4.5 bf16");
        check(
            120_405,
            0.5,
            "cublasLt 12.4.5 bf16 (50.0 % of the arithmetic)",
        );
        assert_eq!(Compute::StandIn.to_string(), "stand-in kernel");
    }
}
