//! Replaces memory and device while a step is written down.
//!
//! Storages get addresses that no device has: the high bits are the number of the storage, the low
//! bits are the offset in it. So the usual arithmetic of ranges works with them.

use super::{Op, Operand, Place, Script};
use crate::device::StreamId;
use crate::race::{Range, Site};
use trace::units::{Bytes, DeviceAddr};

/// Marks addresses of a step that is written down; no device has such addresses.
const WRITTEN: u64 = 1 << 63;
/// Marks addresses of storages that unpack brought back.
const RESTORED: u64 = 1 << 62;
/// How many bits the offset has.
const OFFSET: u32 = 40;
/// How many storages a step may make, at most.
const MOST: u32 = 1 << (62 - OFFSET);

/// A storage of the step that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    /// Its number, from 1.
    pub place: Place,
    /// Whether unpack brought it back.
    pub restored: bool,
}

impl Name {
    /// The storage that an address lies in; `None` for real memory.
    pub fn of(address: DeviceAddr) -> Option<Name> {
        (address.0 & WRITTEN != 0).then_some(Name {
            place: Place(((address.0 & !(WRITTEN | RESTORED)) >> OFFSET) as u32),
            restored: address.0 & RESTORED != 0,
        })
    }

    fn address(self) -> DeviceAddr {
        let restored = if self.restored { RESTORED } else { 0 };
        DeviceAddr(WRITTEN | restored | u64::from(self.place.0) << OFFSET)
    }
}

/// What is known of a storage of the step.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    shared: bool,
    /// Bytes that every use must touch, if the tensor may come back in another layout.
    only: Option<(u64, u64)>,
}

/// Writes a step down.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    script: Script,
    /// Indexed by number; 0 is real memory.
    known: Vec<Known>,
    alive: u32,
    /// Why the step cannot be written down, if it cannot.
    refused: Option<&'static str>,
    /// Whether memory from before the step was freed, which cannot be undone.
    pub lost: bool,
}

impl Writer {
    pub fn new() -> Writer {
        Writer {
            known: vec![Known::default()],
            ..Writer::default()
        }
    }

    /// Notes why the step cannot be written down.
    pub fn refuse(&mut self, why: &'static str) {
        self.refused.get_or_insert(why);
    }

    /// The step, and which of its storages are shared; `None` if it could not be written down.
    /// Everything that the step made must be gone.
    pub fn finish(mut self) -> Option<(Script, Vec<bool>)> {
        if self.alive > 0 {
            self.refuse("something of the step is there after it");
        }
        let shared = self.known.iter().map(|known| known.shared).collect();
        self.refused.is_none().then_some((self.script, shared))
    }

    pub fn push(&mut self, op: Op) {
        self.script.ops.push(op);
    }

    fn name(&mut self, restored: bool) -> Name {
        let number = self.known.len() as u32;
        if number >= MOST {
            self.refuse("the step makes too many storages");
        }
        self.known.push(Known::default());
        self.alive += 1;
        Name {
            place: Place(number % MOST),
            restored,
        }
    }

    /// Notes new memory; returns its address.
    pub fn allocate(&mut self, bytes: Bytes, stream: StreamId) -> DeviceAddr {
        if bytes.0 >> OFFSET != 0 {
            self.refuse("a storage is too large");
        }
        let name = self.name(false);
        self.push(Op::Allocate(name.place, stream, bytes));
        name.address()
    }

    /// Notes a tensor that unpack brings back; returns its address. If the tensor may come back in
    /// another layout, `only` are the bytes that every use touches.
    pub fn restore(&mut self, only: Option<(u64, u64)>) -> DeviceAddr {
        let name = self.name(true);
        self.known[name.place.0 as usize].only = only;
        name.address()
    }

    /// The last reference to a storage of the step is gone.
    pub fn free(&mut self, name: Name) {
        self.alive -= 1;
        self.push(Op::Free(name.place));
    }

    /// The offloader may hold the storage too.
    pub fn share(&mut self, name: Name) {
        self.known[name.place.0 as usize].shared = true;
    }

    /// Whether the offloader may hold it.
    pub fn is_shared(&self, name: Name) -> bool {
        self.known[name.place.0 as usize].shared
    }

    /// Notes a kernel.
    pub fn launch(
        &mut self,
        stream: StreamId,
        site: Site,
        seconds: f64,
        reads: &[Range],
        writes: &[Range],
    ) {
        let reads = self.operands(reads);
        let writes = self.operands(writes);
        self.push(Op::Launch {
            stream,
            site,
            seconds,
            reads,
            writes,
        });
    }

    /// Notes the ranges that a kernel touches; returns how many there are. Empty ranges do not
    /// count.
    fn operands(&mut self, ranges: &[Range]) -> u16 {
        let before = self.script.operands.len();
        for &range in ranges.iter().filter(|range| range.start < range.end) {
            let operand = self.operand(range);
            self.script.operands.push(operand);
        }
        (self.script.operands.len() - before) as u16
    }

    fn operand(&mut self, Range { start, end }: Range) -> Operand {
        let Some(name) = Name::of(start) else {
            return Operand::Part(Place::FIXED, start.0, end.0);
        };
        let base = name.address();
        let (from, to) = (start.0 - base.0, end.0 - base.0);
        match self.known[name.place.0 as usize].only {
            None => Operand::Part(name.place, from, to),
            Some(only) => {
                if only != (from, to) {
                    self.refuse("a part is used of a tensor whose layout may change");
                }
                Operand::Restored(name.place)
            }
        }
    }

    /// A node that unpacked is done. `views` are the restored storages that other tensors still
    /// use.
    pub fn hooks(&mut self, views: &[(Place, u32)]) {
        self.script.views.extend_from_slice(views);
        self.push(Op::Hooks(views.len() as u16));
    }
}
