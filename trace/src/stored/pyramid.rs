//! The finest layer of the pyramid; the others follow from it.

use super::columns::{Chunks, RowWriter};
use super::head::DeviceHead;
use super::{Chunk, Column, Damage, StoredError};
use crate::pyramid::{Base, Bucket, Pyramid};
use crate::series::Extent;
use crate::trace::{DeviceTrace, Series};
use crate::units::Bytes;
use crate::varint::{Cursor, put, put_difference};

const ALLOCATED: usize = Series::Allocated as usize;
const ACTIVE: usize = Series::Active as usize;

pub(super) fn encode(device: &DeviceTrace, emit: &mut dyn FnMut(Chunk)) {
    let mut rows = RowWriter::new(emit, Some(device.device), Column::Pyramid);
    let mut before = device.pyramid.start().0;
    for base in device.pyramid.base() {
        put_base(rows.row(), before, &base);
        before = base.bucket.map(|extent| extent.last);
    }
    rows.finish();
}

pub(super) fn decode(chunks: &mut Chunks, head: &DeviceHead) -> Result<Pyramid, StoredError> {
    let mut bases = Vec::new();
    let mut before = head.start.0;
    chunks.read(Some(head.device), Column::Pyramid, |cursor| {
        let base = read_base(cursor, before)?;
        before = base.bucket.map(|extent| extent.last);
        bases.push(base);
        Ok(())
    })?;
    let expected = Pyramid::base_count(head.n_events);
    Column::Pyramid.check_rows(bases.len(), expected)?;
    Pyramid::from_base(head.start, head.n_events, &bases)
        .ok_or(Column::Pyramid.damaged(Damage::Index))
}

/// Active is stored as its excess over allocated, which is almost always 0.
fn put_base(row: &mut Vec<u8>, before: [Bytes; 4], base: &Base) {
    for series in [Series::Requested, Series::Allocated, Series::Reserved] {
        let extent = base.bucket[series as usize];
        put_difference(row, before[series as usize].0, extent.last.0);
        put(row, extent.max.0.wrapping_sub(extent.last.0));
        put(row, extent.last.0.wrapping_sub(extent.min.0));
    }
    let (allocated, active) = (base.bucket[ALLOCATED], base.bucket[ACTIVE]);
    put_difference(row, allocated.min.0, active.min.0);
    put_difference(row, allocated.max.0, active.max.0);
    put_difference(row, allocated.last.0, active.last.0);
    row.push(base.peak_offset);
    put_difference(row, allocated.max.0, base.peak_active.0);
}

fn read_base(cursor: &mut Cursor, before: [Bytes; 4]) -> Result<Base, Damage> {
    let mut bucket = Bucket::default();
    for series in [Series::Requested, Series::Allocated, Series::Reserved] {
        let last = cursor.after(before[series as usize].0)?;
        bucket[series as usize] = Extent {
            max: Bytes(last.wrapping_add(cursor.number()?)),
            min: Bytes(last.wrapping_sub(cursor.number()?)),
            last: Bytes(last),
        };
    }
    let allocated = bucket[ALLOCATED];
    bucket[ACTIVE] = Extent {
        min: Bytes(cursor.after(allocated.min.0)?),
        max: Bytes(cursor.after(allocated.max.0)?),
        last: Bytes(cursor.after(allocated.last.0)?),
    };
    if bucket.iter().any(|e| e.min > e.last || e.last > e.max) {
        return Err(Damage::Order);
    }
    Ok(Base {
        bucket,
        peak_offset: cursor.byte()?,
        peak_active: Bytes(cursor.after(allocated.max.0)?),
    })
}
