//! A trace as chunks of columns, as a database keeps it.
//!
//! Chunks have 65 536 rows, prepared so that a fast general compressor makes them small. The store
//! compresses them; this module does not. Data that follows from other columns is not stored: the
//! blocks tell which event freed which block, and the finest pyramid layer gives the coarse ones.
//! Columns that repeat step after step are stored as "as predicted" or as a correction.
//!
//! Reading checks everything that later code relies on, so that no damaged chunk can cause a panic:
//! indexes are in range, lifetimes are in order, and counts agree.

mod apart;
mod columns;
mod device;
mod head;
mod names;
mod pyramid;
mod segments;

use crate::device::DeviceIdx;
use crate::trace::Trace;
use crate::varint::BadBytes;
pub use apart::{Apart, Rest};
use head::Head;

/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// What a chunk holds. The numbers are stored: they never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Column {
    /// JSON: everything that is small.
    Head = 0,
    /// The strings.
    Strings = 1,
    /// The frames.
    Frames = 2,
    /// The stacks.
    Stacks = 3,
    /// Kinds of blocks.
    Kinds = 16,
    /// Each block's kind.
    BlockKind = 17,
    /// Each block's alloc event.
    BlockAlloc = 18,
    /// Events from alloc to `free_requested`.
    BlockLife = 19,
    /// Events from `free_requested` to `free_completed`.
    BlockPending = 20,
    /// The distinct addresses.
    Addresses = 21,
    /// Each block's address.
    BlockAddress = 22,
    /// Each event's time.
    Time = 23,
    /// Events that do not follow from the blocks.
    Events = 24,
    /// Segment events.
    Segments = 25,
    /// Other events.
    Others = 26,
    /// Named scopes.
    Annotations = 27,
    /// The finest layer of the pyramid.
    Pyramid = 28,
    /// Segments before the first event.
    SegmentsBefore = 29,
}

impl Column {
    /// All columns.
    pub const ALL: [Column; 18] = [
        Column::Head,
        Column::Strings,
        Column::Frames,
        Column::Stacks,
        Column::Kinds,
        Column::BlockKind,
        Column::BlockAlloc,
        Column::BlockLife,
        Column::BlockPending,
        Column::Addresses,
        Column::BlockAddress,
        Column::Time,
        Column::Events,
        Column::Segments,
        Column::Others,
        Column::Annotations,
        Column::Pyramid,
        Column::SegmentsBefore,
    ];

    /// The number that a database keeps.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The column with a number.
    pub fn from_id(id: u32) -> Option<Column> {
        Column::ALL.into_iter().find(|column| column.id() == id)
    }

    /// Lower-case name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Column::Head => "head",
            Column::Strings => "strings",
            Column::Frames => "frames",
            Column::Stacks => "stacks",
            Column::Kinds => "kinds",
            Column::BlockKind => "block_kind",
            Column::BlockAlloc => "block_alloc",
            Column::BlockLife => "block_life",
            Column::BlockPending => "block_pending",
            Column::Addresses => "addresses",
            Column::BlockAddress => "block_address",
            Column::Time => "time",
            Column::Events => "events",
            Column::Segments => "segments",
            Column::Others => "others",
            Column::Annotations => "annotations",
            Column::Pyramid => "pyramid",
            Column::SegmentsBefore => "segments_before",
        }
    }

    /// That it has as many rows as the head says.
    fn check_rows(self, found: usize, expected: usize) -> Result<(), StoredError> {
        match found == expected {
            true => Ok(()),
            false => Err(self.damaged(Damage::Rows)),
        }
    }

    fn damaged(self, why: Damage) -> StoredError {
        StoredError::Column { column: self, why }
    }
}

/// A piece of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Which device; `None` for what all devices share.
    pub device: Option<DeviceIdx>,
    /// Column.
    pub column: Column,
    /// Position within the column, from 0.
    pub seq: u32,
    /// Its rows.
    pub bytes: Vec<u8>,
}

/// Why chunks are not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoredError {
    /// Written by a newer program.
    #[error("the trace was stored by a newer version ({0}, this program reads {VERSION})")]
    Version(u32),
    /// A chunk is not there.
    #[error("chunk {seq} of {} is missing", .column.name())]
    Missing {
        /// Of this column.
        column: Column,
        /// At this position.
        seq: u32,
    },
    /// The head cannot be read.
    #[error("the stored head is damaged: {0}")]
    Head(String),
    /// A column cannot be read.
    #[error("stored column {} is damaged: {why}", .column.name())]
    Column {
        /// Which.
        column: Column,
        /// What is wrong with it.
        why: Damage,
    },
}

/// What is wrong with a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Its bytes are not numbers.
    #[error(transparent)]
    Bytes(#[from] BadBytes),
    /// It has more or fewer rows than the head says.
    #[error("it has not as many rows as it should")]
    Rows,
    /// It points at something that is not there.
    #[error("an index is out of range")]
    Index,
    /// Its rows contradict each other or another column.
    #[error("events are out of order")]
    Order,
}

/// Hands a trace to `emit`, chunk by chunk.
pub fn encode(trace: &Trace, emit: &mut dyn FnMut(Chunk)) {
    let head = Head::of(trace);
    emit(Chunk {
        device: None,
        column: Column::Head,
        seq: 0,
        bytes: head.to_json(),
    });
    names::encode(&trace.stacks, emit);
    for device in trace.with_pinned() {
        device::encode(device, emit);
    }
}

/// The most bytes that [`decode`] holds besides the chunks themselves: given the bytes of
/// [`Column::Head`], and for each chunk its column and its bytes.
pub fn memory_needed(head: &[u8], chunks: impl Iterator<Item = (Column, usize)>) -> usize {
    let rows: usize = Head::from_json(head).map_or(0, |head| {
        let devices = head.devices.iter().chain(&head.pinned);
        let of_device =
            |d: &head::DeviceHead| d.n_events as usize * PER_EVENT + d.n_blocks * PER_BLOCK;
        devices.map(of_device).sum()
    });
    // The most memory that one stored byte can become: the decoded size of the column's smallest
    // row, in a vector that may have twice the capacity.
    let per_byte = |column| match column {
        Column::Head | Column::Strings => 4,
        Column::Frames | Column::Stacks | Column::Annotations => 8,
        Column::Kinds | Column::Segments | Column::SegmentsBefore | Column::Others => 20,
        _ => 0,
    };
    let columns = chunks.map(|(column, bytes)| bytes * per_byte(column));
    rows + columns.sum::<usize>()
}

/// Bytes of an event: action, target, time, its share of the pyramid, and room to grow.
const PER_EVENT: usize = 20;
/// Bytes of a block: lifetime, address, kind, and room to grow.
const PER_BLOCK: usize = 48;

/// Puts a trace together again from its chunks, in any order.
///
/// # Errors
/// When a chunk is missing or damaged, or was written by a newer version.
pub fn decode(chunks: impl IntoIterator<Item = Chunk>) -> Result<Trace, StoredError> {
    let chunks = chunks.into_iter();
    let (apart, rest): (Vec<_>, Vec<_>) = chunks.partition(|chunk| chunk.column.is_apart());
    let head = rest.iter().find(|chunk| chunk.column == Column::Head);
    let head = head.map_or(Vec::new(), |chunk| chunk.bytes.clone());
    let rest = Rest::decode(rest)?;
    Ok(rest.with(Apart::decode(&head, apart)?))
}

#[cfg(test)]
mod tests;
