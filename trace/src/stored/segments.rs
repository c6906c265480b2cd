//! The segments of a device before its first event.

use super::columns::{Chunks, RowWriter};
use super::{Chunk, Column, Damage, StoredError};
use crate::device::DeviceIdx;
use crate::trace::{DeviceTrace, PoolId, PoolSize, SegmentBefore};
use crate::units::{Bytes, DeviceAddr};
use crate::varint::{Cursor, put, put_difference};

pub(super) fn encode(device: &DeviceTrace, emit: &mut dyn FnMut(Chunk)) {
    let mut rows = RowWriter::new(emit, Some(device.device), Column::SegmentsBefore);
    let mut last = 0;
    for segment in &device.segments_before {
        let row = rows.row();
        put_difference(row, last, segment.addr.0);
        put(row, segment.size.0);
        put(row, segment.stream);
        put(row, segment.pool.0);
        put(row, segment.pool.1);
        put(row, u64::from(segment.pool_size == PoolSize::Large));
        put(row, u64::from(segment.expandable));
        last = segment.addr.0;
    }
    rows.finish();
}

/// Traces that were stored before this column existed have none.
pub(super) fn decode(
    chunks: &mut Chunks,
    device: DeviceIdx,
) -> Result<Vec<SegmentBefore>, StoredError> {
    let mut segments = Vec::new();
    let mut last = 0;
    chunks.read(Some(device), Column::SegmentsBefore, |cursor| {
        last = cursor.after(last)?;
        segments.push(SegmentBefore {
            addr: DeviceAddr(last),
            size: Bytes(cursor.number()?),
            stream: cursor.number()?,
            pool: PoolId(cursor.number()?, cursor.number()?),
            pool_size: read_pool_size(cursor)?,
            expandable: cursor.number()? != 0,
        });
        Ok(())
    })?;
    Ok(segments)
}

pub(super) fn read_pool_size(cursor: &mut Cursor) -> Result<PoolSize, Damage> {
    match cursor.number()? {
        0 => Ok(PoolSize::Small),
        1 => Ok(PoolSize::Large),
        _ => Err(Damage::Index),
    }
}
