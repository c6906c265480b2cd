//! Columns that need no other column: the times of events, and pyramids.
//!
//! They are a third of the work of decoding, so a caller with a second thread decodes them there.

use super::columns::Chunks;
use super::head::{DeviceHead, Head};
use super::{Chunk, Column, StoredError, device, pyramid};
use crate::pyramid::Pyramid;
use crate::time::TimeColumn;
use crate::trace::{DeviceTrace, Trace};

impl Column {
    /// Whether [`Apart`] decodes it.
    pub const fn is_apart(self) -> bool {
        matches!(self, Column::Time | Column::Pyramid)
    }
}

/// These columns of each device, and of pinned memory last.
pub struct Apart(Vec<(TimeColumn, Pyramid)>);

impl Apart {
    /// Decodes them, given the bytes of [`Column::Head`].
    ///
    /// # Errors
    /// As [`decode`](super::decode).
    pub fn decode(
        head: &[u8],
        chunks: impl IntoIterator<Item = Chunk>,
    ) -> Result<Apart, StoredError> {
        let head = Head::from_json(head)?;
        let mut chunks = Chunks::collect(chunks);
        let mut of_device = |head: &DeviceHead| {
            let times = device::decode_times(&mut chunks, head)?;
            Ok((times, pyramid::decode(&mut chunks, head)?))
        };
        let devices = head.devices.iter().chain(&head.pinned);
        devices
            .map(&mut of_device)
            .collect::<Result<_, _>>()
            .map(Apart)
    }
}

/// A trace without those columns.
pub struct Rest(Trace);

impl Rest {
    /// Decodes the other columns.
    ///
    /// # Errors
    /// As [`decode`](super::decode).
    pub fn decode(chunks: impl IntoIterator<Item = Chunk>) -> Result<Rest, StoredError> {
        let mut chunks = Chunks::collect(chunks);
        let head = Head::from_json(&chunks.take_single(Column::Head)?)?;
        let stacks = super::names::decode(&mut chunks, &head)?;
        let mut of_device = |head: DeviceHead| device::decode(&mut chunks, head, &stacks);
        let devices = head.devices.into_iter().map(&mut of_device);
        let devices = devices.collect::<Result<Vec<DeviceTrace>, _>>()?;
        let pinned = head.pinned.map(of_device).transpose()?;
        Ok(Rest(Trace {
            pinned,
            format: head.format,
            stacks,
            devices,
            quality: head.quality,
        }))
    }

    /// The whole trace. Both must come from the same head.
    pub fn with(self, apart: Apart) -> Trace {
        let Rest(mut trace) = self;
        let devices = trace.devices.iter_mut().chain(&mut trace.pinned);
        for (device, (time, pyramid)) in devices.zip(apart.0) {
            device.events.time = time;
            device.pyramid = pyramid;
        }
        trace
    }
}
