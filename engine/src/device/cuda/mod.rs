//! A real CUDA card: segments from `cuMemAlloc`, streams, events, pinned memory, asynchronous
//! copies, and kernels that write and read every tensor of the program.
//!
//! **Whose decisions.** The caching allocator depends on two things that differ from run to run on
//! a real card: the addresses of segments, and whether an event is done when the allocator asks. To
//! make a run on a card comparable with the simulation to the byte, a [`SimDevice`] decides both.
//! It gets the same calls as the card. Segments have the addresses of the simulation, which are
//! translated for the card. An event counts as done when the simulated clock says so. Then the
//! program waits for the card, so that memory is never reused too early, and these waits are
//! counted. [`Addresses::Card`] takes the driver's addresses instead: decisions may then differ,
//! and this shows how much of a result depends on them.
//!
//! Everything else comes from the card: memory, copies, order, time, and whether bytes survive.
//!
//! Only this folder may use `unsafe`. The driver is loaded when the first device is opened.
#![allow(unsafe_code)]

mod blas;
mod contents;
mod copies;
mod driver;
mod pinned;

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::time::Instant;

use api::bench::CardFacts;
use cudarc::driver::{result, sys};
use trace::units::{Bytes, DeviceAddr};

use super::sim::{SimDevice, SimSpec};
use super::{
    Compute, Device, DeviceError, EventId, Fingerprint, HostBuffer, Kernel, Ordinal, Span,
    StreamId, Touched, View,
};
use blas::{Blas, Lt};
use contents::Prints;
pub use copies::{PlainRates, plain_rates};
pub use driver::CardInfo;
use driver::{Driver, fault};

/// Which addresses the allocator and the offloader see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Addresses {
    /// The addresses of the simulation: the run can be compared to the byte.
    #[default]
    Simulated,
    /// The addresses of the driver.
    Card,
}

/// The first card, or a sentence that says why there is none.
///
/// # Errors
/// [`DeviceError::Unavailable`].
pub fn probe() -> Result<CardInfo, DeviceError> {
    Driver::open(Ordinal::default()).map(|driver| driver.info.clone())
}

/// Number of cards of the host.
///
/// # Errors
/// [`DeviceError::Unavailable`], or the driver's fault.
pub fn count() -> Result<u16, DeviceError> {
    probe().and_then(|_| Driver::count())
}

/// What computes products of bf16 matrices here: cuBLASLt, or a stand-in and the reason for it.
pub fn products() -> String {
    match Lt::find() {
        Ok(found) => {
            let version = found.version;
            Compute::CublasLt {
                version,
                share: 1.0,
            }
            .to_string()
        }
        Err(why) => format!("{}; {why}", Compute::StandIn),
    }
}

/// A segment on the card.
#[derive(Debug, Clone, Copy)]
struct Segment {
    bytes: Bytes,
    /// First address on the card.
    card: DeviceAddr,
    /// First address in the simulation.
    simulated: DeviceAddr,
}

/// Operations that the library did, and operations that a stand-in kernel replaced.
#[derive(Debug, Clone, Copy, Default)]
struct Arithmetic {
    by_library: f64,
    stood_for: f64,
}

/// A CUDA card.
pub struct CudaDevice {
    driver: &'static Driver,
    decisions: SimDevice,
    flops_per_second: f64,
    addresses: Addresses,
    /// By the address that the allocator knows.
    segments: BTreeMap<DeviceAddr, Segment>,
    streams: Vec<sys::CUstream>,
    events: HashMap<EventId, sys::CUevent>,
    spare_events: Vec<sys::CUevent>,
    buffers: Vec<HostBuffer>,
    prints: Prints,
    launches: u64,
    /// cuBLASLt, if it is installed.
    blas: Option<Blas>,
    arithmetic: Arithmetic,
    started: Instant,
    memory: CardFacts,
    /// A failure in a call that cannot report it; the next call that can report does so.
    failed: Option<DeviceError>,
}

impl CudaDevice {
    /// Opens a card. `spec` is the simulation that decides, and its capacity limits the card.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] without a driver or a card, or its fault.
    pub fn new(
        spec: SimSpec,
        addresses: Addresses,
        ordinal: Ordinal,
    ) -> Result<CudaDevice, DeviceError> {
        let driver = Driver::open(ordinal)?;
        driver.enter()?;
        let (free, total) =
            result::mem_get_info().map_err(|error| fault("memory cannot be read", error))?;
        let mut device = CudaDevice {
            driver,
            decisions: SimDevice::new(spec),
            flops_per_second: spec.cost.flops_per_second,
            addresses,
            segments: BTreeMap::new(),
            streams: Vec::new(),
            events: HashMap::new(),
            spare_events: Vec::new(),
            buffers: Vec::new(),
            prints: Prints::new()?,
            launches: 0,
            blas: Blas::new(),
            arithmetic: Arithmetic::default(),
            started: Instant::now(),
            memory: CardFacts {
                total: Bytes(total as u64),
                free_at_start: Bytes(free as u64),
                free_min: Bytes(free as u64),
                peak_used: Bytes::ZERO,
                verified_tensors: 0,
                corrupted_tensors: 0,
                early_decisions: 0,
            },
            failed: None,
        };
        device.add_stream()?;
        Ok(device)
    }

    fn add_stream(&mut self) -> Result<(), DeviceError> {
        // Not the legacy default stream: that one waits for all others and would hide races.
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|error| fault("a stream cannot be made", error))?;
        self.streams.push(stream);
        Ok(())
    }

    fn stream(&self, stream: StreamId) -> sys::CUstream {
        self.streams[usize::from(stream.0)]
    }

    /// The place of a span on the card, cut off at the end of its segment.
    fn on_card(&self, span: Span) -> Span {
        match self.segments.range(..=span.start).next_back() {
            Some((&start, segment)) if span.start < start + segment.bytes => Span {
                start: segment.card + (span.start - start),
                bytes: span.bytes.min(start + segment.bytes - span.start),
            },
            // Memory of size 0, and tensors on the host.
            _ => Span::EMPTY,
        }
    }

    fn report(&mut self) -> Result<(), DeviceError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn note_failure<T>(&mut self, outcome: Result<T, DeviceError>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                self.failed.get_or_insert(error);
                None
            }
        }
    }

    fn note_memory(&mut self) -> Result<(), DeviceError> {
        let (free, _) =
            result::mem_get_info().map_err(|error| fault("memory cannot be read", error))?;
        let memory = &mut self.memory;
        memory.free_min = memory.free_min.min(Bytes(free as u64));
        memory.peak_used = memory.free_at_start.saturating_sub(memory.free_min);
        Ok(())
    }

    /// Takes the segment from the driver; `None` if the driver has no memory left.
    fn take_from_card(&mut self, bytes: Bytes) -> Result<Option<DeviceAddr>, DeviceError> {
        // SAFETY: a plain allocation, given back in `give_to_card`.
        match unsafe { result::malloc_sync(bytes.0 as usize) } {
            Ok(address) => Ok(Some(DeviceAddr(address))),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Ok(None),
            Err(error) => Err(fault("a segment cannot be allocated", error)),
        }
    }

    fn give_to_card(&mut self, address: DeviceAddr) {
        // SAFETY: the address came from `take_from_card` and is given back once; all work is done.
        let outcome = unsafe { result::free_sync(address.0) };
        let outcome = outcome.map_err(|error| fault("a segment cannot be freed", error));
        self.note_failure(outcome);
    }

    fn wait_for_all(&self) -> Result<(), DeviceError> {
        result::ctx::synchronize().map_err(|error| fault("work on the card failed", error))
    }

    /// The simulated clocks say that the event is done; waits until the card has come past it, too.
    fn wait_for_event(&mut self, event: EventId) {
        let Some(&real) = self.events.get(&event) else {
            return;
        };
        // SAFETY: the event is alive until `drop_event`.
        let finished = unsafe { result::event::query(real) };
        if finished.is_ok() {
            return;
        }
        self.memory.early_decisions += 1;
        let outcome = self.come_past(event);
        self.note_failure(outcome);
    }

    fn come_past(&self, event: EventId) -> Result<(), DeviceError> {
        let Some(&real) = self.events.get(&event) else {
            return Ok(());
        };
        // SAFETY: the event is alive until `drop_event`.
        let outcome = unsafe { result::event::synchronize(real) };
        outcome.map_err(|error| fault("work on the card failed", error))
    }

    fn new_event(&mut self) -> Result<sys::CUevent, DeviceError> {
        if let Some(event) = self.spare_events.pop() {
            return Ok(event);
        }
        result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
            .map_err(|error| fault("an event cannot be made", error))
    }
}

impl Device for CudaDevice {
    fn name(&self) -> String {
        format!("cuda ({})", self.driver.info.name)
    }

    fn allocate_segment(&mut self, bytes: Bytes) -> Result<DeviceAddr, DeviceError> {
        let simulated = self.decisions.allocate_segment(bytes)?;
        let Some(card) = self.take_from_card(bytes)? else {
            self.decisions.free_segment(simulated, bytes);
            let free = result::mem_get_info().map_or(0, |(free, _)| free as u64);
            let free = Bytes(free);
            return Err(DeviceError::OutOfMemory {
                wanted: bytes,
                free,
            });
        };
        self.note_memory()?;
        let known = match self.addresses {
            Addresses::Simulated => simulated,
            Addresses::Card => card,
        };
        let segment = Segment {
            bytes,
            card,
            simulated,
        };
        self.segments.insert(known, segment);
        Ok(known)
    }

    fn free_segment(&mut self, start: DeviceAddr, bytes: Bytes) {
        let Some(segment) = self.segments.remove(&start) else {
            return;
        };
        let waited = self.wait_for_all();
        self.note_failure(waited);
        self.decisions.free_segment(segment.simulated, bytes);
        self.give_to_card(segment.card);
    }

    fn create_stream(&mut self) -> Result<StreamId, DeviceError> {
        let id = self.decisions.create_stream()?;
        self.add_stream()?;
        Ok(id)
    }

    fn launch(
        &mut self,
        stream: StreamId,
        kernel: Kernel,
        touched: Touched<'_>,
    ) -> Result<(), DeviceError> {
        self.report()?;
        self.decisions.launch(stream, kernel, Touched::default())?;
        if let Some(product) = &touched.product
            && self.multiply(stream, product)?
        {
            self.arithmetic.by_library += kernel.flops;
            return Ok(());
        }
        self.arithmetic.stood_for += kernel.flops;
        let nanos = (kernel.flops / self.flops_per_second * 1e9) as u64;
        self.work(stream, touched, nanos)
    }

    fn gather(
        &mut self,
        stream: StreamId,
        kernel: Kernel,
        from: &View,
        to: Span,
    ) -> Result<(), DeviceError> {
        self.report()?;
        self.decisions.launch(stream, kernel, Touched::default())?;
        self.gather_on_card(stream, from, to)
    }

    fn copy_to_host(
        &mut self,
        stream: StreamId,
        from: Span,
        to: HostBuffer,
    ) -> Result<(), DeviceError> {
        self.report()?;
        self.decisions.copy_to_host(stream, from, to)?;
        let from = self.on_card(from);
        let target = to.handle as *mut c_void;
        // SAFETY: the buffer is pinned and at least as long as the span, and the pool hands it out
        // again only to copies on the same stream; the span lies inside a segment.
        let outcome = unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                target,
                from.start.0,
                from.bytes.0 as usize,
                self.stream(stream),
            )
            .result()
        };
        outcome.map_err(|error| fault("a copy to the host cannot be enqueued", error))
    }

    fn copy_to_device(
        &mut self,
        stream: StreamId,
        from: HostBuffer,
        to: Span,
    ) -> Result<(), DeviceError> {
        self.report()?;
        self.decisions.copy_to_device(stream, from, to)?;
        let to = self.on_card(to);
        let source = from.handle as *const c_void;
        // SAFETY: as in `copy_to_host`.
        let outcome = unsafe {
            sys::cuMemcpyHtoDAsync_v2(to.start.0, source, to.bytes.0 as usize, self.stream(stream))
                .result()
        };
        outcome.map_err(|error| fault("a copy to the card cannot be enqueued", error))
    }

    fn allocate_host(&mut self, bytes: Bytes) -> Result<HostBuffer, DeviceError> {
        let buffer = pinned::take(bytes)?;
        self.buffers.push(buffer);
        Ok(buffer)
    }

    fn free_host(&mut self, buffer: HostBuffer) {
        self.buffers.retain(|held| *held != buffer);
        pinned::give_back(buffer);
    }

    fn record_event(&mut self, stream: StreamId) -> Result<EventId, DeviceError> {
        let id = self.decisions.record_event(stream)?;
        let event = self.new_event()?;
        // SAFETY: event and stream are alive.
        unsafe { result::event::record(event, self.stream(stream)) }
            .map_err(|error| fault("an event cannot be recorded", error))?;
        self.events.insert(id, event);
        Ok(id)
    }

    fn wait_event(&mut self, stream: StreamId, event: EventId) -> Result<(), DeviceError> {
        self.decisions.wait_event(stream, event)?;
        let Some(&real) = self.events.get(&event) else {
            return Ok(());
        };
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: event and stream are alive.
        unsafe { result::stream::wait_event(self.stream(stream), real, flags) }
            .map_err(|error| fault("a stream cannot wait", error))
    }

    fn event_done(&mut self, event: EventId) -> bool {
        let done = self.decisions.event_done(event);
        if done {
            self.wait_for_event(event);
        }
        done
    }

    fn synchronize_event(&mut self, event: EventId) -> Result<(), DeviceError> {
        self.report()?;
        self.decisions.synchronize_event(event)?;
        self.come_past(event)
    }

    fn drop_event(&mut self, event: EventId) {
        self.decisions.drop_event(event);
        // The driver can use the event again: a stream that waits has already noted the work before
        // it.
        self.spare_events.extend(self.events.remove(&event));
    }

    fn synchronize(&mut self, stream: StreamId) -> Result<(), DeviceError> {
        self.report()?;
        self.decisions.synchronize(stream)?;
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.stream(stream)) }
            .map_err(|error| fault("work on the card failed", error))
    }

    fn settle(&mut self) -> Result<f64, DeviceError> {
        self.report()?;
        self.wait_for_all()?;
        Ok(self.host_time())
    }

    fn keeps_contents(&self) -> bool {
        true
    }

    fn initialise(&mut self, stream: StreamId, to: Span) -> Result<(), DeviceError> {
        let writes = [to];
        let touched = Touched {
            reads: &[],
            writes: &writes,
            product: None,
        };
        self.work(stream, touched, 0)
    }

    fn fingerprint(
        &mut self,
        stream: StreamId,
        view: &View,
    ) -> Result<Option<Fingerprint>, DeviceError> {
        self.checksum(stream, view).map(Some)
    }

    fn verify(
        &mut self,
        stream: StreamId,
        view: &View,
        packed: Fingerprint,
    ) -> Result<(), DeviceError> {
        self.compare(stream, view, packed)
    }

    fn forget(&mut self, print: Fingerprint) {
        self.prints.release(print);
    }

    fn hardware(&mut self) -> Result<Option<CardFacts>, DeviceError> {
        self.wait_for_all()?;
        let [verified, corrupted] = self.prints.counters()?;
        Ok(Some(CardFacts {
            verified_tensors: verified,
            corrupted_tensors: corrupted,
            ..self.memory
        }))
    }

    fn compute(&self) -> Option<Compute> {
        let Arithmetic {
            by_library,
            stood_for,
        } = self.arithmetic;
        let version = self.blas.as_ref().map(Blas::version);
        Some(match version.filter(|_| by_library > 0.0) {
            Some(version) => Compute::CublasLt {
                version,
                share: by_library / (by_library + stood_for),
            },
            None => Compute::StandIn,
        })
    }

    fn busy_until(&self) -> f64 {
        self.host_time()
    }

    fn host_time(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // If the card has failed, all calls below fail too, and nobody can be told.
        let _ = self.wait_for_all();
        for segment in std::mem::take(&mut self.segments).into_values() {
            self.give_to_card(segment.card);
        }
        let events = self.events.drain().map(|(_, event)| event);
        for event in events.chain(self.spare_events.drain(..)) {
            // SAFETY: made by this device, and nothing refers to it any more.
            let _ = unsafe { result::event::destroy(event) };
        }
        for stream in self.streams.drain(..) {
            // SAFETY: as above; the stream is idle.
            let _ = unsafe { result::stream::destroy(stream) };
        }
        for buffer in self.buffers.drain(..) {
            pinned::give_back(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a driver the answer is a sentence, not a panic; with a driver it is a card.
    #[test]
    fn a_machine_without_a_driver_says_so() {
        match probe() {
            Ok(card) => assert!(!card.name.is_empty()),
            Err(error) => {
                assert!(matches!(error, DeviceError::Unavailable(_)), "{error:?}");
                let text = error.to_string();
                assert!(text.starts_with("there is no CUDA device here: "), "{text}");
                assert!(!text.contains('\n'), "{text}");
                let opened = CudaDevice::new(SimSpec::default(), Addresses::Simulated, Ordinal(1));
                assert_eq!(opened.err(), Some(error));
            }
        }
    }
}
