//! Turns rows into chunks and back; a predictor makes repeated rows small.

use super::{Chunk, Column, Damage, StoredError};
use crate::device::DeviceIdx;
use crate::varint::{BadBytes, Cursor, put};
use std::collections::BTreeMap;

/// Rows of a chunk.
pub(super) const CHUNK_ROWS: u32 = 1 << 16;

/// Cuts rows into chunks.
pub(super) struct RowWriter<'a> {
    emit: &'a mut dyn FnMut(Chunk),
    device: Option<DeviceIdx>,
    column: Column,
    seq: u32,
    rows: u32,
    bytes: Vec<u8>,
}

impl<'a> RowWriter<'a> {
    pub fn new(
        emit: &'a mut dyn FnMut(Chunk),
        device: Option<DeviceIdx>,
        column: Column,
    ) -> RowWriter<'a> {
        RowWriter {
            emit,
            device,
            column,
            seq: 0,
            rows: 0,
            bytes: Vec::new(),
        }
    }

    /// The buffer for the next row, which needs at least one byte.
    #[inline]
    pub fn row(&mut self) -> &mut Vec<u8> {
        if self.rows == CHUNK_ROWS {
            self.cut();
        }
        self.rows += 1;
        &mut self.bytes
    }

    /// Writes the rows that are left. A column without rows has no chunks.
    pub fn finish(mut self) {
        if self.rows > 0 {
            self.cut();
        }
    }

    fn cut(&mut self) {
        (self.emit)(Chunk {
            device: self.device,
            column: self.column,
            seq: self.seq,
            bytes: std::mem::take(&mut self.bytes),
        });
        self.seq += 1;
        self.rows = 0;
    }
}

/// Writes one number per row.
pub(super) fn write_numbers(
    emit: &mut dyn FnMut(Chunk),
    device: DeviceIdx,
    column: Column,
    numbers: impl Iterator<Item = u64>,
) {
    let mut rows = RowWriter::new(emit, Some(device), column);
    numbers.for_each(|number| put(rows.row(), number));
    rows.finish();
}

/// All chunks of a trace by column.
pub(super) struct Chunks {
    columns: BTreeMap<(Option<DeviceIdx>, Column), Vec<Chunk>>,
}

impl Chunks {
    pub fn collect(chunks: impl IntoIterator<Item = Chunk>) -> Chunks {
        let mut columns: BTreeMap<_, Vec<Chunk>> = BTreeMap::new();
        for chunk in chunks {
            let column = (chunk.device, chunk.column);
            columns.entry(column).or_default().push(chunk);
        }
        columns.values_mut().for_each(|c| c.sort_by_key(|c| c.seq));
        Chunks { columns }
    }

    /// The only chunk of a column that belongs to no device.
    pub fn take_single(&mut self, column: Column) -> Result<Vec<u8>, StoredError> {
        let mut chunks = self.take(None, column)?;
        let missing = StoredError::Missing { column, seq: 0 };
        chunks.pop().map(|chunk| chunk.bytes).ok_or(missing)
    }

    /// Reads the rows of a column, to its end, and frees its chunks.
    pub fn read(
        &mut self,
        device: Option<DeviceIdx>,
        column: Column,
        mut row: impl FnMut(&mut Cursor) -> Result<(), Damage>,
    ) -> Result<(), StoredError> {
        for chunk in self.take(device, column)? {
            let mut cursor = Cursor::new(&chunk.bytes);
            while cursor.remaining() > 0 {
                row(&mut cursor).map_err(|why| StoredError::Column { column, why })?;
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        device: Option<DeviceIdx>,
        column: Column,
    ) -> Result<Vec<Chunk>, StoredError> {
        let chunks = self.columns.remove(&(device, column)).unwrap_or_default();
        for (seq, chunk) in (0..).zip(&chunks) {
            if chunk.seq != seq {
                return Err(StoredError::Missing { column, seq });
            }
        }
        Ok(chunks)
    }
}

/// Remembers what followed a context last time.
///
/// A training run repeats itself: the row that followed the last two or three rows a step ago will
/// follow them again. A row that matches the prediction is stored as a single 0, and long runs of
/// zeros take almost no space once compressed.
pub(super) struct Predictor {
    table: Vec<u32>,
}

/// Bits of a slot number: the table takes 256 KiB and fits into the second-level cache.
const SLOT_BITS: u32 = 16;
/// Spreads contexts over the slots (the constant of FxHash). It is part of the format, like all of
/// `slot`: a reader must make the same predictions as the writer did.
const MULTIPLIER: u64 = 0x517c_c1b7_2722_0a95;

impl Predictor {
    pub fn new() -> Predictor {
        Predictor {
            table: vec![0; 1 << SLOT_BITS],
        }
    }

    #[inline]
    fn slot(&mut self, context: (u32, u32, u32)) -> &mut u32 {
        let mix =
            |hash: u64, word: u32| (hash.rotate_left(5) ^ u64::from(word)).wrapping_mul(MULTIPLIER);
        let hash = mix(mix(mix(0, context.0), context.1), context.2);
        &mut self.table[(hash >> (64 - SLOT_BITS)) as usize]
    }

    #[inline]
    pub fn put(&mut self, out: &mut Vec<u8>, context: (u32, u32, u32), value: u32) {
        let predicted = self.slot(context);
        if *predicted == value {
            out.push(0);
        } else {
            *predicted = value;
            put(out, u64::from(value) + 1);
        }
    }

    #[inline]
    pub fn read(&mut self, cursor: &mut Cursor, context: (u32, u32, u32)) -> Result<u32, BadBytes> {
        let predicted = self.slot(context);
        match cursor.number()? {
            0 => {}
            value => *predicted = u32::try_from(value - 1).map_err(|_| BadBytes::TooLarge)?,
        }
        Ok(*predicted)
    }
}
