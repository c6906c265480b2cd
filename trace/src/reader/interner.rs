//! Strings, frames and stacks, each kept once.
//!
//! A small direct-mapped cache answers nearly every lookup. Others go to a map whose hash has a
//! random key, so that a hostile file cannot choose names that collide.

use super::keys::{ACTIONS, KEYS};
use super::values::Result;
use super::{Limits, MEMORY, ReadErrorKind};
use crate::clip::{LONGEST_KEPT, clipped};
use crate::footprint::{growth_of_map, growth_soon, of_map, of_vec};
use crate::plain::marked;
use crate::stacks::{Frame, FrameIdx, FxHashMap, StackIdx, Stacks, StrIdx};
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Interns into a [`Stacks`].
pub struct Interner {
    pub stacks: Stacks,
    keyed: RandomState,
    recent_strings: Vec<RecentString>,
    /// The key is a keyed hash already, so the map needs no second one.
    strings: FxHashMap<u64, StrIdx>,
    frames: HashMap<Frame, FrameIdx>,
    /// For each slot, the last stack whose hash ends in the slot's number.
    recent: Vec<StackIdx>,
    by_frames: FxHashMap<u64, StackIdx>,
    max_frames: usize,
    max_memory: usize,
    /// Heap bytes of the rest of the reader, when it was last counted.
    pub elsewhere: usize,
}

/// A string seen recently.
#[derive(Clone, Copy)]
struct RecentString {
    /// Its first eight bytes, padded with zeros.
    start: u64,
    len: usize,
    idx: StrIdx,
}

impl Default for RecentString {
    fn default() -> RecentString {
        RecentString {
            start: 0,
            len: 0,
            idx: EMPTY,
        }
    }
}

/// The first eight bytes of a string, and its slot among the recent strings.
#[inline]
fn slot_of(bytes: &[u8]) -> (u64, usize) {
    let (start, last) = match bytes.first_chunk() {
        Some(first) if bytes.len() > 8 => {
            let last = bytes
                .last_chunk()
                .map_or(0, |last| u64::from_le_bytes(*last));
            (u64::from_le_bytes(*first), last)
        }
        _ => {
            let mut all = [0_u8; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            (u64::from_le_bytes(all), 0)
        }
    };
    (start, slot(start, last, bytes.len()))
}

#[inline]
fn slot(start: u64, last: u64, len: usize) -> usize {
    let hash = (start ^ last.rotate_left(17)).wrapping_add(len as u64);
    (hash.wrapping_mul(NEXT) >> 54) as usize % RECENT_STRINGS
}

/// The string "".
pub const EMPTY: StrIdx = StrIdx((KEYS.len() + ACTIONS.len()) as u32);
/// The string "N/A", which torch writes where there is no compile context.
pub const NOT_APPLICABLE: StrIdx = StrIdx(EMPTY.0 + 1);

const RECENT_STRINGS: usize = 1 << 10;
const RECENT_SLOTS: usize = 1 << 12;

/// Added to a hash to find the next place when different things have the same hash.
pub const NEXT: u64 = 0x9e37_79b9_7f4a_7c15;

impl Interner {
    pub fn new(limits: Limits) -> Interner {
        let mut interner = Interner {
            stacks: Stacks::default(),
            keyed: RandomState::new(),
            recent_strings: vec![RecentString::default(); RECENT_STRINGS],
            strings: FxHashMap::default(),
            frames: HashMap::new(),
            recent: vec![StackIdx::NONE; RECENT_SLOTS],
            by_frames: FxHashMap::default(),
            max_frames: limits.stack_frames,
            max_memory: limits.memory,
            elsewhere: 0,
        };
        // Keys come first, so that the index of a key is its number.
        for word in KEYS.iter().chain(&ACTIONS).chain(&["", "N/A"]) {
            let idx = interner.stacks.strings.push(word);
            interner.strings.insert(interner.keyed.hash_one(word), idx);
        }
        interner
    }

    /// Heap bytes that it uses, as the allocator counts them.
    pub fn memory_used(&self) -> usize {
        self.stacks.heap_bytes()
            + of_vec(&self.recent_strings)
            + of_map(&self.strings)
            + of_map(&self.frames)
            + of_vec(&self.recent)
            + of_map(&self.by_frames)
    }

    /// Bytes that tables will request at their next move, if that is soon.
    pub fn moves_soon(&self) -> usize {
        growth_soon(&self.strings) + growth_soon(&self.frames) + growth_soon(&self.by_frames)
    }

    /// Returns an error if `more` bytes would exceed the limit. A few bytes of the file may ask for
    /// many frames, and while a table moves both copies exist.
    fn check_room(&self, more: usize) -> Result<()> {
        if more == 0 || self.elsewhere + self.memory_used() + more <= self.max_memory {
            return Ok(());
        }
        let limit = self.max_memory as u64;
        Err(ReadErrorKind::Limit(MEMORY, limit))
    }

    /// A hash that the author of a file cannot predict.
    pub fn keyed_hash(&self, words: &[u64]) -> u64 {
        self.keyed.hash_one(words)
    }

    /// Interns a string.
    ///
    /// # Errors
    /// When all strings together exceed 4 GiB.
    pub fn string(&mut self, text: &str) -> Result<StrIdx> {
        self.bytes(text.as_bytes())
    }

    /// Interns a string that may not be UTF-8: Python may write half of a surrogate pair, which
    /// becomes replacement characters. If a string is longer than [`LONGEST_KEPT`], its start is
    /// kept, with an ellipsis.
    ///
    /// # Errors
    /// As [`Interner::string`].
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<StrIdx> {
        let (start, slot) = slot_of(bytes);
        let recent = self.recent_strings[slot];
        // If the text has at most eight bytes, `start` is the whole text.
        let same = recent.start == start
            && recent.len == bytes.len()
            && (bytes.len() <= 8 || self.stacks.str(recent.idx).as_bytes() == bytes);
        if same {
            return Ok(recent.idx);
        }
        let idx = self.hashed_string(&name(bytes))?;
        let len = bytes.len();
        self.recent_strings[slot] = RecentString { start, len, idx };
        Ok(idx)
    }

    /// The string of the first `len` bytes of `word`, if it was seen recently; `len` is at most 8.
    #[inline]
    pub fn short(&self, word: u64, len: usize) -> Option<StrIdx> {
        let start = match len {
            8 => word,
            _ => word & ((1 << (8 * len)) - 1),
        };
        let recent = self.recent_strings[slot(start, 0, len)];
        (recent.start == start && recent.len == len).then_some(recent.idx)
    }

    fn hashed_string(&mut self, text: &str) -> Result<StrIdx> {
        let mut key = self.keyed.hash_one(text);
        while let Some(&known) = self.strings.get(&key) {
            if self.stacks.strings.get(known) == text {
                return Ok(known);
            }
            key = key.wrapping_add(NEXT);
        }
        // Computed with 64 bits: in the browser a `usize` cannot exceed the limit.
        if self.stacks.strings.text_len() as u64 + text.len() as u64 > MAX_TEXT {
            return Err(ReadErrorKind::Limit("text of all strings", MAX_TEXT));
        }
        self.check_room(growth_of_map(&self.strings))?;
        let idx = self.stacks.strings.push(text);
        self.strings.insert(key, idx);
        Ok(idx)
    }

    /// Interns a frame.
    ///
    /// # Errors
    /// When all frames together take too much memory.
    pub fn frame(&mut self, frame: Frame) -> Result<FrameIdx> {
        if let Some(&known) = self.frames.get(&frame) {
            return Ok(known);
        }
        self.check_room(growth_of_map(&self.frames))?;
        let new = self.stacks.push_frame(frame);
        self.frames.insert(frame, new);
        Ok(new)
    }

    /// Interns a stack.
    ///
    /// # Errors
    /// When it is longer than the limit, or all stacks together take too much memory.
    pub fn stack(&mut self, frames: &[FrameIdx]) -> Result<StackIdx> {
        if frames.is_empty() {
            return Ok(StackIdx::NONE);
        }
        let slot = cheap_hash(frames) as usize % RECENT_SLOTS;
        // Two stacks that share a slot would push each other out in turn, so each has two places.
        for place in [slot, slot ^ 1] {
            let recent = self.recent[place];
            if self.stacks.frames(recent) == frames {
                return Ok(recent);
            }
        }
        let mut key = self.keyed.hash_one(frames);
        let stack = loop {
            match self.by_frames.get(&key) {
                Some(&known) if self.stacks.frames(known) == frames => break known,
                Some(_) => key = key.wrapping_add(NEXT),
                None => {
                    self.check_room(growth_of_map(&self.by_frames))?;
                    let new = self.new_stack(frames)?;
                    self.by_frames.insert(key, new);
                    break new;
                }
            }
        };
        self.recent[slot ^ 1] = self.recent[slot];
        self.recent[slot] = stack;
        Ok(stack)
    }

    /// The error for a stack of more frames than the limit.
    ///
    /// # Errors
    /// That one.
    pub fn check_depth(&self, frames: usize) -> Result<()> {
        match frames <= self.max_frames {
            true => Ok(()),
            false => Err(ReadErrorKind::Limit(
                "frames of a stack",
                self.max_frames as u64,
            )),
        }
    }

    fn new_stack(&mut self, frames: &[FrameIdx]) -> Result<StackIdx> {
        let n = frames.len();
        self.check_depth(n)?;
        let members = self.stacks.n_members() + n;
        self.check_room(size_of_val(frames))?;
        if u32::try_from(members).is_err() {
            return Err(ReadErrorKind::Limit("frames of all stacks", MAX_MEMBERS));
        }
        Ok(self.stacks.push_stack(frames))
    }
}

/// The kept text of a string: it is short enough, and has no characters that turn or hide others or
/// control a terminal.
fn name(bytes: &[u8]) -> Cow<'_, str> {
    let start = &bytes[..bytes.len().min(LONGEST_KEPT + 1)];
    match String::from_utf8_lossy(start) {
        Cow::Borrowed(text) => match marked(text) {
            Cow::Borrowed(text) => clipped(text, LONGEST_KEPT),
            Cow::Owned(text) => Cow::Owned(clipped(&text, LONGEST_KEPT).into_owned()),
        },
        Cow::Owned(text) => Cow::Owned(clipped(&marked(&text), LONGEST_KEPT).into_owned()),
    }
}

/// Limit for the bytes of all strings together: positions in the text have 32 bits.
const MAX_TEXT: u64 = u32::MAX as u64;

/// Limit for the frames of all stacks together: positions among them have 32 bits.
const MAX_MEMBERS: u64 = u32::MAX as u64;

/// Only for the cache: a collision costs one lookup in the map.
fn cheap_hash(frames: &[FrameIdx]) -> u64 {
    let mixed = frames.iter().fold(frames.len() as u64, |mixed, frame| {
        mixed.rotate_left(7) ^ u64::from(frame.0)
    });
    mixed.wrapping_mul(NEXT) >> 48
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::CUT;

    #[test]
    fn a_long_name_is_cut_where_one_sees_it() {
        let check = |bytes: &[u8], len: usize, cut: bool| {
            let name = name(bytes);
            assert_eq!((name.len(), name.ends_with(CUT)), (len, cut));
        };
        check(&[b'x'; LONGEST_KEPT], LONGEST_KEPT, false);
        check(&[b'x'; LONGEST_KEPT + 1], LONGEST_KEPT, true);
        check(&[b'x'; 16 << 20], LONGEST_KEPT, true);
        // A character that the cut would split is removed. Bytes that are not UTF-8 become longer
        // before the cut.
        let umlauts = ["x", &"ü".repeat(LONGEST_KEPT)].concat();
        check(umlauts.as_bytes(), LONGEST_KEPT, true);
        check(&[0xff; LONGEST_KEPT], LONGEST_KEPT - 1, true);
        check(&[0x1b; LONGEST_KEPT], LONGEST_KEPT - 1, true);
    }

    #[test]
    fn a_name_turns_and_commands_nothing() {
        assert_eq!(
            name("a\u{202e}b\u{1b}[2J".as_bytes()),
            "a\u{fffd}b\u{fffd}[2J"
        );
        assert_eq!(name(b"a\x1b\xff"), "a\u{fffd}\u{fffd}");
    }
}
