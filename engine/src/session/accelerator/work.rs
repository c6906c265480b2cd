//! Work on the device: kernels and checksums, and what the race detector is shown of them.

use crate::autograd::Tensor;
use crate::device::{DeviceError, Fingerprint, Kernel, Product, Span, StreamId, Touched, View};
use crate::race::{self, Access, Lane, Range};
use crate::tensor::{Placement, SavedTensor};
use smallvec::SmallVec;
use trace::units::DeviceAddr;

use super::Accelerator;

impl Accelerator {
    pub(in crate::session) fn launch(
        &mut self,
        reads: &[&Tensor],
        writes: &[&Tensor],
        kernel: Kernel,
        product: Option<Product>,
    ) -> Result<(), DeviceError> {
        if self.heap.borrow().writer.is_some() {
            self.write_launch(reads, writes, kernel);
            return Ok(());
        }
        if self.keeps_contents {
            let spans = |tensors: &[&Tensor]| -> Vec<Span> {
                tensors.iter().map(|tensor| span_of(tensor)).collect()
            };
            let (reads, writes) = (spans(reads), spans(writes));
            let touched = Touched {
                reads: &reads,
                writes: &writes,
                product,
            };
            let device = &mut self.heap.borrow_mut().device;
            device.launch(self.stream, kernel, touched)?;
        } else {
            let device = &mut self.heap.borrow_mut().device;
            device.launch(self.stream, kernel, Touched::default())?;
        }
        self.watch_launch(reads, writes);
        Ok(())
    }

    /// Writes a kernel down instead of launching it.
    fn write_launch(&mut self, reads: &[&Tensor], writes: &[&Tensor], kernel: Kernel) {
        let heap = &mut *self.heap.borrow_mut();
        let (Some(writer), Some(detector)) = (&mut heap.writer, &mut self.detector) else {
            return;
        };
        let site = self.site.watched_by(detector);
        let ranges = |tensors: &[&Tensor]| -> SmallVec<[Range; 4]> {
            tensors
                .iter()
                .map(|tensor| range_of(tensor.saved()))
                .collect()
        };
        let (reads, writes) = (ranges(reads), ranges(writes));
        let Some(sim) = heap.device.as_sim() else {
            return;
        };
        let seconds = sim.seconds(kernel);
        writer.launch(self.stream, site, seconds, &reads, &writes);
    }

    /// Launches a kernel from a script.
    pub(in crate::session) fn relaunch(
        &mut self,
        stream: StreamId,
        seconds: f64,
        site: race::Site,
        reads: impl Iterator<Item = Range>,
        writes: impl Iterator<Item = Range>,
    ) {
        if let Some(sim) = self.heap.borrow_mut().device.as_sim() {
            sim.launch_for(stream, seconds);
        }
        self.follow_allocator();
        if let Some(detector) = &mut self.detector {
            detector.begin_operation();
            let lane = Lane(stream.0);
            for range in reads {
                detector.access(lane, Access::Read, range, site);
            }
            for range in writes {
                detector.access(lane, Access::Write, range, site);
            }
        }
    }

    /// Shows the race detector what a kernel of the program reads and writes.
    fn watch_launch(&mut self, reads: &[&Tensor], writes: &[&Tensor]) {
        self.follow_allocator();
        let Some(detector) = &mut self.detector else {
            return;
        };
        detector.begin_operation();
        let place = self.site.watched_by(detector);
        let lane = Lane(self.stream.0);
        for tensor in reads {
            detector.access(lane, Access::Read, range_of(tensor.saved()), place);
        }
        for tensor in writes {
            detector.access(lane, Access::Write, range_of(tensor.saved()), place);
        }
    }

    /// Whether this device has bytes in memory.
    pub fn keeps_contents(&self) -> bool {
        self.keeps_contents
    }

    /// Writes a tensor that the program fills from outside: with real bytes, but without taking
    /// time.
    pub(in crate::session) fn initialise(&mut self, tensor: &Tensor) -> Result<(), DeviceError> {
        let mut heap = self.heap.borrow_mut();
        if heap.writer.is_some() {
            return Ok(());
        }
        heap.device.initialise(self.stream, span_of(tensor))
    }

    /// A checksum of the tensor as the current stream sees it.
    pub(in crate::session) fn fingerprint(
        &mut self,
        tensor: &Tensor,
    ) -> Result<Option<Fingerprint>, DeviceError> {
        let mut heap = self.heap.borrow_mut();
        heap.device.fingerprint(self.stream, &view_of(tensor))
    }

    /// Compares the tensor, as the current stream sees it, with an earlier checksum.
    pub(in crate::session) fn verify(
        &mut self,
        tensor: &Tensor,
        packed: Fingerprint,
    ) -> Result<(), DeviceError> {
        let mut heap = self.heap.borrow_mut();
        heap.device.verify(self.stream, &view_of(tensor), packed)
    }

    /// Forgets a checksum.
    pub(in crate::session) fn forget(&mut self, print: Fingerprint) {
        self.heap.borrow_mut().device.forget(print);
    }

    /// Shows the race detector what a copy reads and writes.
    pub(super) fn note(&mut self, stream: StreamId, accesses: &[(Access, Range, &str)]) {
        self.follow_allocator();
        let Some(detector) = &mut self.detector else {
            return;
        };
        detector.begin_operation();
        for &(access, range, name) in accesses {
            let site = detector.site(name);
            detector.access(Lane(stream.0), access, range, site);
        }
    }
}

/// The bytes between the first and the last element of a tensor.
pub(in crate::session) fn span_of(tensor: &Tensor) -> Span {
    let range = range_of(tensor.saved());
    Span {
        start: range.start,
        bytes: range.end - range.start,
    }
}

pub(super) fn view_of(tensor: &Tensor) -> View {
    let saved = tensor.saved();
    View {
        storage: Span {
            start: tensor.storage().start(),
            bytes: saved.storage.bytes,
        },
        layout: saved.layout,
        width: saved.dtype.size(),
    }
}

pub(in crate::session) fn range_of(saved: &SavedTensor) -> Range {
    let required = saved.layout.required_elements();
    if required == 0 || saved.placement == Placement::Host {
        return Range {
            start: DeviceAddr(0),
            end: DeviceAddr(0),
        };
    }
    let size = saved.dtype.size();
    let base = saved.storage.base.unwrap_or_default();
    let first = base + size * saved.layout.offset;
    // Views in models have dense layouts even if PyTorch's are strided: do not go past the storage.
    let end = base + saved.storage.bytes;
    let last = (base + size * required).min(end);
    Range {
        start: first.min(end),
        end: last,
    }
}
