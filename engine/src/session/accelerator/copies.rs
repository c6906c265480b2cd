//! Copies: out to the host, back to the device, and from a view with gaps to a dense tensor.

use crate::autograd::Tensor;
use crate::device::{DeviceError, HostBuffer, Kernel, Span, StreamId};
use crate::memory::{HostLease, Label, Role};
use crate::offload::HostCopyShape;
use crate::race::{Access, Range};
use crate::tensor::{Layout, SavedTensor};
use trace::units::{Bytes, DeviceAddr};

use super::Accelerator;
use super::work::{range_of, span_of, view_of};

/// A host copy of an offloaded tensor.
pub struct HostCopy {
    lease: HostLease,
    /// The tensor it was copied from.
    source: SavedTensor,
    shape: HostCopyShape,
    /// How the elements lie in the copy, which has no gaps.
    layout: Layout,
}

impl HostCopy {
    /// The tensor it was copied from.
    pub(in crate::session) fn source(&self) -> &SavedTensor {
        &self.source
    }

    /// Whether it holds the whole storage instead of the elements of the view.
    pub(in crate::session) fn is_whole_storage(&self) -> bool {
        self.shape == HostCopyShape::WholeStorage
    }

    /// Whether a layout over its bytes shows the elements of its source: always over a whole
    /// storage.
    pub(super) fn lies_as(&self, layout: &Layout) -> bool {
        self.is_whole_storage() || self.layout.shows_as(layout)
    }

    /// Everything that decides how it comes back, as numbers.
    pub(crate) fn standing(&self) -> impl Iterator<Item = u64> {
        let known = [self.lease.buffer().bytes.0, self.source.dtype as u64];
        known.into_iter().chain(self.layout.numbers())
    }
}

/// Whether one copy of memory moves the tensor, because source and copy lie in the same way.
fn is_moved_as_it_lies(layout: &Layout, shape: HostCopyShape) -> bool {
    match shape {
        HostCopyShape::View => layout.is_contiguous(),
        HostCopyShape::AsItLies => layout.is_non_overlapping_and_dense(),
        HostCopyShape::WholeStorage => true,
    }
}

impl Accelerator {
    /// Copies a tensor to the host; the copy is enqueued on `stream`.
    pub(super) fn copied_out(
        &mut self,
        tensor: &Tensor,
        shape: HostCopyShape,
        stream: StreamId,
    ) -> Result<HostCopy, DeviceError> {
        self.not_written()?;
        let source = *tensor.saved();
        if !is_moved_as_it_lies(&source.layout, shape) {
            // Like `copy_` between devices: the view is first gathered into a temporary tensor, on
            // the stream of the copy. The temporary is freed as soon as the copy is enqueued
            // (docs/offloader-rules.md, "Copies of views").
            let dense = self.gathered(tensor, Role::Workspace, stream)?;
            let copy = self.copied_out(&dense, shape, stream)?;
            return Ok(HostCopy { source, ..copy });
        }
        let base = source.storage.base.unwrap_or_default();
        let (start, bytes, layout) = match shape {
            HostCopyShape::View | HostCopyShape::AsItLies => {
                let start = base + source.dtype.size() * source.layout.offset;
                (start, source.bytes(), source.layout.from_start())
            }
            HostCopyShape::WholeStorage => {
                let elements = source.storage.bytes / source.dtype.size();
                (base, source.storage.bytes, Layout::contiguous(&[elements]))
            }
        };
        let label = Label {
            site: self.site.current,
            op: self.op,
            dtype: Some(source.dtype),
            ..Label::default()
        };
        let lease = HostLease::allocate(&self.heap, bytes, label)?;
        let from = Span { start, bytes };
        self.heap
            .borrow_mut()
            .device
            .copy_to_host(stream, from, lease.buffer())?;
        self.copied.to_host += bytes;
        let range = Range {
            start,
            end: start + bytes,
        };
        self.note(stream, &[(Access::Read, range, "pack: copy to host")]);
        self.note_pinned(
            stream,
            (Access::Write, "pack: pinned memory"),
            lease.buffer(),
        );
        Ok(HostCopy {
            lease,
            source,
            shape,
            layout,
        })
    }

    /// Copies a host copy into a new tensor; the copy is enqueued on `stream`.
    pub(super) fn copied_back(
        &mut self,
        host: &HostCopy,
        stream: StreamId,
    ) -> Result<Tensor, DeviceError> {
        self.not_written()?;
        let bytes = host.source.dtype.size() * host.layout.elements();
        let before = self.set_op("offload: restore");
        let (shape, dtype) = (host.layout.shape, host.source.dtype);
        let storage = self.allocate(shape, dtype, Role::Restored, stream);
        self.set_op(before);
        let storage = storage?;
        let to = Span {
            start: storage.start(),
            bytes,
        };
        self.heap
            .borrow_mut()
            .device
            .copy_to_device(stream, host.lease.buffer(), to)?;
        self.copied.to_device += bytes;
        let range = Range {
            start: to.start,
            end: to.start + bytes,
        };
        self.note_pinned(
            stream,
            (Access::Read, "unpack: pinned memory"),
            host.lease.buffer(),
        );
        self.note(stream, &[(Access::Write, range, "unpack: copy to device")]);
        Ok(self.tensor_over(storage, host.layout, host.source.dtype))
    }

    /// Shows the race detector what a copy does to a pinned buffer, if pinned memory is watched. A
    /// byte at an address that no device has represents the buffer: copies use buffers from their
    /// start.
    fn note_pinned(&mut self, stream: StreamId, of: (Access, &str), buffer: HostBuffer) {
        const HOST: u64 = 1 << 63;
        if self.watches_pinned {
            let start = DeviceAddr(HOST + buffer.handle);
            let end = start + Bytes(1);
            self.note(stream, &[(of.0, Range { start, end }, of.1)]);
        }
    }

    /// A dense copy of a view, made on `stream`.
    pub(super) fn gathered(
        &mut self,
        tensor: &Tensor,
        role: Role,
        stream: StreamId,
    ) -> Result<Tensor, DeviceError> {
        self.not_written()?;
        let layout = Layout::contiguous(tensor.layout().shape);
        let storage = self.allocate(layout.shape, tensor.dtype(), role, stream)?;
        let copy = self.tensor_over(storage, layout, tensor.dtype());
        let kernel = Kernel {
            flops: 0.0,
            traffic: tensor.bytes() * 2,
        };
        let (from, to) = (view_of(tensor), span_of(&copy));
        self.heap
            .borrow_mut()
            .device
            .gather(stream, kernel, &from, to)?;
        let (read, written) = (range_of(tensor.saved()), range_of(copy.saved()));
        self.note(
            stream,
            &[
                (Access::Read, read, "pack: clone reads"),
                (Access::Write, written, "pack: clone writes"),
            ],
        );
        Ok(copy)
    }
}
