//! Contents: kernels that write and read tensors, and checksums of packed and restored tensors.
//!
//! All checks run in order on the stream that packs or uses the tensor: a checksum sees exactly
//! what a kernel at this point would see. Nothing here moves the clock that decides.

use std::ffi::c_void;

use cudarc::driver::{result, sys};
use trace::units::{Bytes, DeviceAddr};

use super::super::{DeviceError, Fingerprint, Span, StreamId, Touched, View};
use super::CudaDevice;
use super::driver::{blocks, fault, launch};

/// How many reads one launch can have; if there are more, there is another launch.
const READS: usize = 6;
/// How many writes one launch can have.
const WRITES: usize = 2;
/// Checksums in one piece of memory.
const PRINTS_A_PIECE: u64 = 1 << 17;
/// The first places of the first piece: two counters, and one for results that nobody needs.
const RESERVED: u64 = 3;
/// Bytes of a checksum, and of a counter.
const PRINT: u64 = 8;

/// `Work` of kernels.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct Work {
    reads: [[u64; 2]; READS],
    writes: [[u64; 2]; WRITES],
    seed: u64,
    nanos: u64,
    sink: u64,
    read_count: u32,
    write_count: u32,
}

/// `View` of kernels.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct CardView {
    base: u64,
    bytes: u64,
    offset: u64,
    elements: u64,
    shape: [u64; 6],
    stride: [u64; 6],
    dims: u32,
    width: u32,
    dense: u32,
    pad: u32,
}

/// Memory for checksums. The first places are counters, and one for results that nobody needs.
pub(super) struct Prints {
    pieces: Vec<u64>,
    spare: Vec<u64>,
}

impl Prints {
    pub fn new() -> Result<Prints, DeviceError> {
        let mut prints = Prints {
            pieces: Vec::new(),
            spare: Vec::new(),
        };
        prints.add_piece()?;
        Ok(prints)
    }

    fn add_piece(&mut self) -> Result<(), DeviceError> {
        let bytes = (PRINTS_A_PIECE * PRINT) as usize;
        // SAFETY: a plain allocation, freed in `drop`, and cleared before it is read.
        let piece = unsafe {
            let piece = result::malloc_sync(bytes)
                .map_err(|error| fault("no memory for checksums", error))?;
            result::memset_d8_sync(piece, 0, bytes)
                .map_err(|error| fault("checksums cannot be cleared", error))?;
            piece
        };
        let reserved = if self.pieces.is_empty() { RESERVED } else { 0 };
        self.pieces.push(piece);
        let places = (reserved..PRINTS_A_PIECE).map(|index| piece + index * PRINT);
        self.spare.extend(places);
        Ok(())
    }

    fn counter_address(&self) -> DeviceAddr {
        DeviceAddr(self.pieces[0])
    }

    fn sink(&self) -> u64 {
        self.pieces[0] + 2 * PRINT
    }

    fn take(&mut self) -> Result<Fingerprint, DeviceError> {
        if self.spare.is_empty() {
            self.add_piece()?;
        }
        let place = self.spare.pop();
        place
            .map(Fingerprint)
            .ok_or_else(|| DeviceError::Fault("no place for a checksum".to_owned()))
    }

    pub fn release(&mut self, print: Fingerprint) {
        self.spare.push(print.0);
    }

    /// The number of comparisons, and how many failed. All work must be done.
    pub fn counters(&self) -> Result<[u64; 2], DeviceError> {
        let mut counters = [0; 2];
        // SAFETY: two integers, which live for the whole run.
        unsafe { result::memcpy_dtoh_sync(&mut counters, self.counter_address().0) }
            .map_err(|error| fault("the comparisons cannot be read", error))?;
        Ok(counters)
    }
}

impl Drop for Prints {
    fn drop(&mut self) {
        for piece in self.pieces.drain(..) {
            // SAFETY: allocated here, freed once; the device waited for all work before.
            let _ = unsafe { result::free_sync(piece) };
        }
    }
}

impl CudaDevice {
    /// Reads and writes spans, and lasts at least `nanos`.
    pub(super) fn work(
        &mut self,
        stream: StreamId,
        touched: Touched<'_>,
        nanos: u64,
    ) -> Result<(), DeviceError> {
        let mut reads = touched.reads.chunks(READS);
        let mut writes = touched.writes.chunks(WRITES);
        let mut left = nanos;
        loop {
            let (now_read, now_write) = (reads.next(), writes.next());
            if now_read.is_none() && now_write.is_none() && left == 0 {
                return Ok(());
            }
            let none: &[Span] = &[];
            let (now_read, now_write) = (now_read.unwrap_or(none), now_write.unwrap_or(none));
            self.work_once(stream, now_read, now_write, std::mem::take(&mut left))?;
        }
    }

    fn work_once(
        &mut self,
        stream: StreamId,
        reads: &[Span],
        writes: &[Span],
        nanos: u64,
    ) -> Result<(), DeviceError> {
        self.launches += 1;
        let mut work = Work {
            reads: [[0; 2]; READS],
            writes: [[0; 2]; WRITES],
            // An odd multiplier, so that no two launches of a run start with the same seed.
            seed: self.launches.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            nanos,
            sink: self.prints.sink(),
            read_count: reads.len() as u32,
            write_count: writes.len() as u32,
        };
        let mut most = 0;
        for (slot, span) in work.reads.iter_mut().zip(reads) {
            let span = self.on_card(*span);
            *slot = [span.start.0, span.bytes.0];
            most = most.max(span.bytes.0);
        }
        for (slot, span) in work.writes.iter_mut().zip(writes) {
            let span = self.on_card(*span);
            *slot = [span.start.0, span.bytes.0];
            most = most.max(span.bytes.0);
        }
        let grid = blocks(most / 8, self.driver.info.multiprocessors);
        let mut parameters = [(&raw mut work).cast::<c_void>()];
        // SAFETY: `Work` has the layout that the kernel declares, and the launch copies it. Spans
        // lie inside segments, which are freed only after all work is done.
        unsafe { launch(self.driver.work, grid, self.stream(stream), &mut parameters) }
    }

    fn card_view(&self, view: &View) -> CardView {
        let storage = self.on_card(view.storage);
        let layout = &view.layout;
        let mut shape = [1; 6];
        let mut stride = [0; 6];
        for (dim, (size, step)) in layout.shape.iter().zip(layout.stride.iter()).enumerate() {
            (shape[dim], stride[dim]) = (size, step);
        }
        CardView {
            base: storage.start.0,
            bytes: storage.bytes.0,
            offset: layout.offset,
            elements: if storage.bytes == Bytes::ZERO {
                0
            } else {
                layout.elements()
            },
            shape,
            stride,
            dims: layout.shape.rank() as u32,
            width: view.width.0 as u32,
            dense: u32::from(layout.is_contiguous()),
            pad: 0,
        }
    }

    pub(super) fn gather_on_card(
        &mut self,
        stream: StreamId,
        from: &View,
        to: Span,
    ) -> Result<(), DeviceError> {
        let mut view = self.card_view(from);
        let mut target = self.on_card(to).start.0;
        let grid = blocks(view.elements, self.driver.info.multiprocessors);
        let mut parameters = [
            (&raw mut view).cast::<c_void>(),
            (&raw mut target).cast::<c_void>(),
        ];
        // SAFETY: the types are those that the kernel declares. The kernel reads only inside the
        // storage, and the target has room for all elements.
        unsafe {
            launch(
                self.driver.gather,
                grid,
                self.stream(stream),
                &mut parameters,
            )
        }
    }

    pub(super) fn checksum(
        &mut self,
        stream: StreamId,
        view: &View,
    ) -> Result<Fingerprint, DeviceError> {
        let print = self.prints.take()?;
        let mut view = self.card_view(view);
        let mut slot = print.0;
        let grid = blocks(view.elements, self.driver.info.multiprocessors);
        let queue = self.stream(stream);
        let mut parameters = [
            (&raw mut view).cast::<c_void>(),
            (&raw mut slot).cast::<c_void>(),
        ];
        // SAFETY: the slot is eight bytes of a piece that lives for the whole run, and it was used
        // before on the same stream. The types are those that the kernel declares.
        unsafe {
            sys::cuMemsetD8Async(slot, 0, PRINT as usize, queue)
                .result()
                .map_err(|error| fault("a checksum cannot be cleared", error))?;
            launch(self.driver.checksum, grid, queue, &mut parameters)?;
        }
        Ok(print)
    }

    pub(super) fn compare(
        &mut self,
        stream: StreamId,
        view: &View,
        packed: Fingerprint,
    ) -> Result<(), DeviceError> {
        let restored = self.checksum(stream, view)?;
        let mut counters = self.prints.counter_address().0;
        let (mut first, mut second) = (packed.0, restored.0);
        let mut parameters = [
            (&raw mut first).cast::<c_void>(),
            (&raw mut second).cast::<c_void>(),
            (&raw mut counters).cast::<c_void>(),
        ];
        // SAFETY: three addresses of eight bytes each (the counters of sixteen) in pieces that
        // live for the whole run.
        unsafe { launch(self.driver.compare, 1, self.stream(stream), &mut parameters)? };
        // The next user clears these places, on the same stream.
        self.prints.release(packed);
        self.prints.release(restored);
        Ok(())
    }
}
