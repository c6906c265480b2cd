//! A step as a flat list of instructions.
//!
//! The program of a step does the same in every step: it asks for the same sizes, launches the same
//! kernels and saves the same tensors in the same order. Only addresses differ, and what the
//! offloader decides because of them. So a step is written down once: the program runs with a
//! [`Writer`] in the place of memory, device and offloader. To play the [`Script`] then needs no
//! tensors, no graph and no formulas. Allocator, race detector and offloader are the real ones, and
//! decide again in each step.

mod places;
mod writer;

pub(crate) use places::assign_places;
pub(crate) use writer::{Name, Writer};

use crate::device::StreamId;
use crate::race::Site;
use trace::units::Bytes;

/// Where an instruction finds a storage. While a script is written, each storage has its own place.
/// Then [`assign_places`] gives one place to storages that live one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(pub u32);

impl Place {
    /// Memory that exists before and after the step, at address 0 + offset.
    pub const FIXED: Place = Place(0);
}

/// Bytes that a kernel touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// These bytes of the storage: from and to.
    Part(Place, u64, u64),
    /// All bytes that a restored tensor shows, whatever its layout is now.
    Restored(Place),
}

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    /// Memory that only the program can hold.
    Allocate(Place, StreamId, Bytes),
    /// Memory that the offloader may hold too.
    Share(Place, StreamId, Bytes),
    /// The program lets go of a storage.
    Free(Place),
    /// A kernel, how long it takes, and how many operands it has: first those that it reads, then
    /// those that it writes.
    Launch {
        stream: StreamId,
        site: Site,
        seconds: f64,
        reads: u16,
        writes: u16,
    },
    /// From now on, operations run on this stream.
    Stream(StreamId),
    /// This backward pass runs, counted from 1; 0 for none.
    Task(u64),
    /// The offloader's context is entered.
    Enter,
    /// The offloader's context is left.
    Exit,
    /// A tensor is saved through the offloader; the tensors are counted from 0.
    Pack(u32),
    /// Backward needs the packed tensor with this number again. If another node needs the next one,
    /// a [`Op::Hooks`] comes between them.
    Unpack(u32),
    /// The node that unpacked is done. Of this many restored storages, other tensors hold views.
    Hooks(u16),
    /// The leaf with this number gets its gradient.
    Gradient(u32, Place),
    /// A backward pass is over.
    EndOfPass,
}

/// A step.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub ops: Vec<Op>,
    /// The operands of the launches, in the order of the launches.
    pub operands: Vec<Operand>,
    /// For the hooks, in their order: a restored storage, and how many other tensors show it.
    pub views: Vec<(Place, u32)>,
    /// How many places there are.
    pub places: usize,
}
