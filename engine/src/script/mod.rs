//! A step as a flat list of instructions.
//!
//! The program of a step does the same in every step: it asks for the same sizes, launches the same
//! kernels and saves the same tensors in the same order. Only addresses differ, and what the
//! offloader decides because of them. So a step is written down once, by running the program with a
//! [`Writer`] in the place of memory, device and offloader. Playing the [`Script`] then needs no
//! tensors, no graph and no formulas; the allocator, the race detector and the offloader are the
//! real ones, and decide anew in each step.

mod places;
mod writer;

pub(crate) use places::assign_places;
pub(crate) use writer::{Name, Writer};

use crate::device::StreamId;
use crate::race::Site;
use trace::units::Bytes;

/// Where an instruction finds a storage. While a script is written, each storage has a place of its
/// own; [`assign_places`] lets those that follow one another share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(pub u32);

impl Place {
    /// Memory that is there before and after the step, at address 0 + offset.
    pub const FIXED: Place = Place(0);
}

/// Bytes that a kernel touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// From and to which byte of the storage.
    Part(Place, u64, u64),
    /// All that a restored tensor shows, in whatever layout it came back.
    Restored(Place),
}

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    /// Memory that nobody but the program holds.
    Allocate(Place, StreamId, Bytes),
    /// The same, which the offloader may hold too.
    Share(Place, StreamId, Bytes),
    /// The program lets go of a storage.
    Free(Place),
    /// A kernel, how long it takes, and its numbers of operands: what it reads, then what it
    /// writes.
    Launch {
        stream: StreamId,
        site: Site,
        seconds: f64,
        reads: u16,
        writes: u16,
    },
    /// Operations move to another stream.
    Stream(StreamId),
    /// A backward pass runs, counted from 1, or none.
    Task(u64),
    /// The offloader's context is entered.
    Enter,
    /// It is left.
    Exit,
    /// A tensor is saved through the offloader; counted from 0.
    Pack(u32),
    /// The packed tensor of this number is wanted again. The next one that is wanted by another
    /// node comes after a [`Op::Hooks`].
    Unpack(u32),
    /// The node that unpacked is done. Of so many restored storages others hold views.
    Hooks(u16),
    /// A leaf of the step, by number, is given its gradient.
    Gradient(u32, Place),
    /// A backward pass is over.
    EndOfPass,
}

/// A step.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub ops: Vec<Op>,
    /// Of the launches, in their order.
    pub operands: Vec<Operand>,
    /// Of the hooks, in their order: a restored storage, and how many other tensors show it.
    pub views: Vec<(Place, u32)>,
    /// How many places there are.
    pub places: usize,
}
