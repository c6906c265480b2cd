//! Values on a parser's stack, and the fields of the dictionary that is being finished.

use super::ReadErrorKind;
use super::keys::{KEYS, Key};
use crate::device::DeviceIdx;
use crate::stacks::{FrameIdx, StackIdx, StrIdx};
use crate::trace::OtherEvent;
use crate::units::{Bytes, Micros};
use std::ops::Range;

/// What reading gives, or why the file cannot be read.
pub type Result<T> = std::result::Result<T, ReadErrorKind>;

/// No memo entry names this object.
pub const NO_MEMO: u32 = u32::MAX;

/// Rows `[start, end)` of one of the builder's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    pub start: u32,
    pub end: u32,
}

impl Rows {
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// What a complete dictionary became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// An entry of a device's trace.
    Event,
    /// A block of a segment.
    Block,
    /// A segment.
    Segment,
    /// Start or end of a scope.
    Annotation,
    /// An entry of a torch 2.0 block's `history`.
    History,
}

/// A value on the parser's stack. It has sixteen bytes and is copied freely; the data it refers to
/// is in tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above `i64::MAX`.
    Big(u64),
    /// An integer of more than 64 bits: no quantity of a snapshot, but it may stand under a key
    /// that nobody asks for.
    Huge,
    /// A float.
    Float(f64),
    /// A string.
    Str(StrIdx),
    /// Two integers: a pool id. An index into the pairs.
    Pair(u32),
    /// A frame.
    Frame(FrameIdx),
    /// A list of frames, and its memo entry.
    Stack(StackIdx, u32),
    /// A list of frames that came in more than one batch: its number, and its memo entry.
    Growing(u32, u32),
    /// An empty dictionary, and its memo entry.
    OpenDict(u32),
    /// An empty list, and its memo entry.
    OpenList(u32),
    /// A dictionary of unknown shape.
    Dict(u32),
    /// A list or tuple of unknown shape.
    List(u32),
    /// One row of a table: a dictionary that is complete.
    Row(Table, u32),
    /// Consecutive rows of a table: a list of such dictionaries.
    Rows(Table, Rows),
}

impl Value {
    /// As an integer; JSON tools write large ones as floats (`1.4e14`).
    fn integer(self) -> Option<i128> {
        match self {
            Value::Int(n) => Some(i128::from(n)),
            Value::Big(n) => Some(i128::from(n)),
            // Beyond 2^64 a cast gives the same as saturation.
            Value::Float(x) if x.fract() == 0.0 && x.abs() < 2_f64.powi(64) => Some(x as i128),
            _ => None,
        }
    }
}

/// Fields of the dictionary being finished, by key.
pub struct Fields {
    values: [Value; KEYS.len()],
    seen: u64,
}

/// The largest size that is accepted: 256 TiB, the whole address space. Sums of sizes must not
/// overflow, and SQLite stores `i64`.
pub const MAX_SIZE: u64 = 1 << 48;

/// The largest sum of all sizes that is accepted, so that no partial sum overflows. A recording of
/// a hundred million events of a gigabyte each stays below.
pub const MAX_TOTAL_SIZE: u64 = 1 << 62;

/// The largest size of a request that was refused. A bug may ask for any number, and it is told;
/// what is larger counts as this, so that it can still be rounded up and added to.
pub const MAX_REFUSED_SIZE: u64 = 1 << 62;

/// Addresses have up to 57 bits. As 64-bit numbers they lie below the first of these, or, where the
/// highest bit is repeated upwards, between the other two. What lies elsewhere cannot be added to.
const LOW_END: u64 = 1 << 60;
const HIGH_START: u64 = 1 << 63;
const HIGH_END: u64 = u64::MAX - (1 << 52);

/// Whether a device can have memory at `[addr, addr + size)`.
#[inline]
pub fn is_possible(addr: u64, size: Bytes) -> bool {
    let end = addr.saturating_add(size.0);
    end <= LOW_END || (addr >= HIGH_START && end <= HIGH_END)
}

/// The number of device ordinals that are accepted; torch is built for at most 120 devices.
pub const MAX_DEVICES: u32 = DeviceIdx::PINNED.0;

impl Fields {
    pub fn new() -> Fields {
        Fields {
            values: [Value::None; KEYS.len()],
            seen: 0,
        }
    }

    /// Forgets all fields.
    pub fn clear(&mut self) {
        self.seen = 0;
    }

    pub fn set(&mut self, key: Key, value: Value) {
        self.values[key as usize] = value;
        self.seen |= key.bit();
    }

    /// The bits of the keys that were set.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    pub fn has(&self, key: Key) -> bool {
        self.seen & key.bit() != 0
    }

    pub fn get(&self, key: Key) -> Value {
        if self.has(key) {
            self.values[key as usize]
        } else {
            Value::None
        }
    }

    pub fn has_all(&self, keys: &[Key]) -> bool {
        keys.iter().all(|&key| self.has(key))
    }

    fn integer(&self, key: Key) -> Result<Option<i128>> {
        match self.get(key) {
            Value::None => Ok(None),
            value => match value.integer() {
                Some(n) => Ok(Some(n)),
                None if value == Value::Huge => Err(ReadErrorKind::Malformed(
                    "an integer is longer than 64 bits",
                )),
                None => Err(ReadErrorKind::Shape("a number was expected")),
            },
        }
    }

    /// A number of bytes; 0 when absent.
    pub fn bytes(&self, key: Key) -> Result<Bytes> {
        if let Value::Int(n) = self.get(key)
            && let Ok(n) = u64::try_from(n)
            && n <= MAX_SIZE
        {
            return Ok(Bytes(n));
        }
        match self.integer(key)? {
            None => Ok(Bytes(0)),
            Some(n) if n < 0 => Err(ReadErrorKind::Malformed("a size is negative")),
            Some(n) => match u64::try_from(n) {
                Ok(n) if n <= MAX_SIZE => Ok(Bytes(n)),
                _ => Err(ReadErrorKind::Malformed("a size exceeds 256 TiB")),
            },
        }
    }

    /// The size of a request that was refused; 0 when absent. torch writes sizes from 2^63 as
    /// negative numbers.
    pub fn refused_bytes(&self, key: Key) -> Result<Bytes> {
        let size = self.integer(key)?.unwrap_or(0);
        let size = if size < 0 { u64::MAX.into() } else { size };
        Ok(Bytes(size.min(MAX_REFUSED_SIZE.into()) as u64))
    }

    /// The free bytes of a device; [`OtherEvent::NOT_KNOWN`] when absent, or when no device can
    /// have so many.
    pub fn free_bytes(&self, key: Key) -> Result<u64> {
        let free = self.integer(key)?.and_then(|n| u64::try_from(n).ok());
        let known = free.filter(|&n| n <= MAX_SIZE);
        Ok(known.unwrap_or(OtherEvent::NOT_KNOWN))
    }

    /// An address or a raw handle, 0 when absent. C++ writes addresses as signed numbers:
    /// negative ones keep their bits.
    pub fn handle(&self, key: Key) -> Result<u64> {
        if let Value::Int(n) = self.get(key) {
            return Ok(n as u64);
        }
        Ok(self.integer(key)?.unwrap_or(0) as u64)
    }

    /// A line number; 0 when unknown.
    pub fn line(&self) -> u32 {
        let line = self.get(Key::Line).integer();
        line.and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
    }

    /// A device ordinal. Annotations have -1 if no device was current: that counts as device 0.
    pub fn device(&self) -> Result<DeviceIdx> {
        match self.integer(Key::Device)? {
            None => Ok(DeviceIdx(0)),
            Some(n) if n >= i128::from(MAX_DEVICES) => Err(ReadErrorKind::Limit(
                "device ordinals",
                u64::from(MAX_DEVICES),
            )),
            Some(n) => Ok(DeviceIdx(u32::try_from(n).unwrap_or(0))),
        }
    }

    pub fn stack(&self, key: Key) -> StackIdx {
        match self.get(key) {
            Value::Stack(stack, _) => stack,
            _ => StackIdx::NONE,
        }
    }

    pub fn str(&self, key: Key) -> Option<StrIdx> {
        match self.get(key) {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }

    pub fn time(&self) -> Micros {
        match self.get(Key::TimeUs) {
            Value::Int(t) => Micros(t),
            value => Micros(value.integer().unwrap_or(0) as i64),
        }
    }
}
