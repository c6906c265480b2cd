//! Lists of frames seen recently, by their bytes.
//!
//! A stack of twenty frames is a list of twenty references, and a program repeats a few hundred
//! such lists millions of times. The same bytes mean the same stack, as long as no memo entry
//! changes its meaning. To compare the bytes takes a fraction of the time that it takes to look up
//! every frame.

use super::interner::NEXT;
use crate::footprint::of_vec;
use crate::stacks::StackIdx;

/// Lists seen recently.
#[derive(Default)]
pub struct Lists {
    /// Empty until the first list comes.
    slots: Vec<Slot>,
    /// The bytes of all of them.
    bytes: Vec<u8>,
    /// How many bytes were forgotten before these.
    forgotten: u64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Counted from the first byte ever kept: the slot of a forgotten list is known by it.
    start: u64,
    /// 0 in an empty slot.
    len: u32,
    stack: StackIdx,
}

const SLOTS: usize = 1 << 12;

/// The most bytes of a list that is kept: two hundred frames of five bytes each.
const LONGEST: usize = 1 << 10;

/// Bytes of all lists together. When there are more, all are forgotten.
const MOST: usize = 1 << 20;

impl Lists {
    /// Must be called when a memo entry changes its meaning. A hostile file may cause that for
    /// every event, so it touches no slot.
    pub fn forget(&mut self) {
        self.forgotten += self.bytes.len() as u64;
        self.bytes.clear();
    }

    /// The stack of the list whose items and end are at the start of `buf`, and how many bytes
    /// these are.
    #[inline]
    pub fn find(&self, buf: &[u8]) -> Option<(StackIdx, usize)> {
        let slot = slot_of(buf)?;
        // Lists that share a slot would push each other out in turn, so each has two places.
        self.find_at(slot, buf)
            .or_else(|| self.find_at(slot ^ 1, buf))
    }

    #[inline]
    fn find_at(&self, place: usize, buf: &[u8]) -> Option<(StackIdx, usize)> {
        let known = self.slots.get(place)?;
        let len = known.len as usize;
        let start = known.start.checked_sub(self.forgotten)? as usize;
        let bytes = &self.bytes[start..start + len];
        (len > 0 && buf.get(..len)? == bytes).then_some((known.stack, len))
    }

    /// Keeps a list: its items and its end.
    pub fn keep(&mut self, buf: &[u8], len: usize, stack: StackIdx) {
        let Some(slot) = slot_of(buf).filter(|_| len <= LONGEST) else {
            return;
        };
        if self.bytes.len() + len > MOST {
            self.forget();
        }
        self.slots.resize(SLOTS, Slot::default());
        self.slots[slot ^ 1] = self.slots[slot];
        self.slots[slot] = Slot {
            start: self.forgotten + self.bytes.len() as u64,
            len: len as u32,
            stack,
        };
        self.bytes.extend_from_slice(&buf[..len]);
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.slots) + of_vec(&self.bytes)
    }
}

/// The slot of the list at the start of `buf`. The innermost frames distinguish most stacks.
#[inline]
fn slot_of(buf: &[u8]) -> Option<usize> {
    let (words, _) = buf.get(..24)?.as_chunks::<8>();
    let mix = |hash: u64, word: &[u8; 8]| (hash ^ u64::from_le_bytes(*word)).wrapping_mul(NEXT);
    let hash = words
        .iter()
        .fold(0, |hash, word| mix(hash, word).rotate_left(29));
    Some(hash as usize % SLOTS)
}

#[cfg(test)]
mod tests {
    use crate::reader::{Limits, read};

    fn text(file: &mut Vec<u8>, text: &str) {
        file.extend([0x8c, text.len() as u8]);
        file.extend(text.as_bytes());
        file.push(0x94);
    }

    /// Places in the memo: 2 to 4 the keys of a frame, 5 to 8 those of an event, 12 and 16 frames.
    fn start() -> Vec<u8> {
        let mut file = b"\x80\x04}\x94(".to_vec();
        text(&mut file, "keys");
        file.extend(b"](");
        for key in [
            "name", "filename", "line", "action", "addr", "size", "frames",
        ] {
            text(&mut file, key);
        }
        file.push(b'e');
        for (key, name) in [("first", "inner"), ("second", "outer")] {
            text(&mut file, key);
            file.extend(b"}(h\x02");
            text(&mut file, name);
            file.extend(b"h\x03");
            text(&mut file, "f.py");
            file.extend(b"h\x04K\x01u\x94");
        }
        text(&mut file, "device_traces");
        file.extend(b"]](");
        file
    }

    /// An event with a stack of `n` frames, all of them the one at place 12.
    fn event(file: &mut Vec<u8>, n: usize) {
        file.extend(b"}\x94(h\x05");
        text(file, "alloc");
        file.extend(b"h\x06K\x07h\x07K\x40h\x08]\x94(");
        (0..n).for_each(|_| file.extend(b"h\x0c"));
        file.extend(b"eu");
    }

    /// The length of each event's stack, and the function at its top.
    fn stacks(mut file: Vec<u8>) -> Vec<(usize, String)> {
        file.extend(b"eau.");
        let snapshot = read(&file, Limits::default()).unwrap();
        let kinds = snapshot.devices[0].kind.iter();
        let stacks = kinds.map(|&kind| snapshot.kinds[kind as usize].stack);
        let told = stacks.map(|stack| {
            let frames = snapshot.stacks.frames(stack);
            let top = snapshot.stacks.frame(frames[0]);
            (frames.len(), snapshot.stacks.str(top.name).to_owned())
        });
        told.collect()
    }

    #[test]
    fn equal_bytes_are_the_same_stack_until_a_frame_is_replaced() {
        let mut file = start();
        (0..3).for_each(|_| event(&mut file, 14));
        // Remembers the second frame at the place of the first.
        file.extend(b"h\x10q\x0c0");
        (0..3).for_each(|_| event(&mut file, 14));
        let names = ["inner", "inner", "inner", "outer", "outer", "outer"];
        assert_eq!(stacks(file), names.map(|name| (14, name.to_owned())));
    }

    #[test]
    fn lists_that_begin_alike_differ() {
        let lengths = [14, 15, 14, 600, 700, 15, 600, 13, 700, 14, 1, 14];
        let mut file = start();
        lengths.iter().for_each(|&n| event(&mut file, n));
        assert_eq!(stacks(file), lengths.map(|n| (n, "inner".to_owned())));
    }
}
