//! The quick way through an event.
//!
//! A gigabyte of snapshot is ten million dictionaries with the same keys in the same order, each
//! key referred to by the same memo entry. [`EventShape`] remembers the bytes of these keys: where
//! they come again, only the values between them are decoded, straight into the fields. Whatever
//! is unusual is left to the pickle machine, which starts over at the event's first byte; so this
//! module may decline anything, but must agree with the machine on what it accepts.

use super::builder::Builder;
use super::keys::Key;
use super::memo::Memo;
use super::values::{NO_MEMO, Value};
use crate::stacks::StrIdx;

/// The keys of the events seen last.
#[derive(Default)]
pub struct EventShape {
    slots: Vec<Slot>,
}

/// A reference to a key, as bytes: `BINGET` or `LONG_BINGET`.
#[derive(Clone, Copy)]
struct Slot {
    /// These bytes, little-endian, and which of the eight they are.
    opcode: u64,
    mask: u64,
    len: usize,
    /// `None`: a key that this version does not know.
    key: Option<Key>,
    name: StrIdx,
}

/// Keys of an event; torch 2.15 writes ten.
const MAX_SLOTS: usize = 32;

const BINGET: u8 = b'h';
const LONG_BINGET: u8 = b'j';
const MARK: u8 = b'(';
const MEMOIZE: u8 = 0x94;

impl EventShape {
    /// Must be called when a memo entry changes its meaning.
    pub fn forget(&mut self) {
        self.slots.clear();
    }

    /// Reads the event at the start of `buf`, up to and with its `SETITEMS`: its row, and its
    /// length in bytes. `None`, and nothing has happened, if it is unusual or no event or not
    /// there completely.
    pub fn read(
        &mut self,
        buf: &[u8],
        memo: &mut Vec<Memo>,
        builder: &mut Builder,
    ) -> Option<(Value, usize)> {
        let [b'}', MEMOIZE, MARK, ..] = buf else {
            return None;
        };
        let memo_before = memo.len();
        memo.push(Memo::SPENT);
        let mut cursor = Cursor {
            buf,
            at: 3,
            memo,
            builder,
        };
        let row = cursor.event(&mut self.slots);
        let end = cursor.at;
        match row {
            Some(row) => Some((row, end)),
            None => {
                memo.truncate(memo_before);
                None
            }
        }
    }
}

struct Cursor<'a> {
    buf: &'a [u8],
    at: usize,
    memo: &'a mut Vec<Memo>,
    builder: &'a mut Builder,
}

impl Cursor<'_> {
    /// Eight bytes from `at` on, little-endian.
    #[inline]
    fn word(&self, at: usize) -> Option<u64> {
        let bytes = self.buf.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn event(&mut self, slots: &mut Vec<Slot>) -> Option<Value> {
        self.builder.fields.clear();
        let mut n_slots = 0;
        let mut all_known = true;
        loop {
            let word = self.word(self.at)?;
            if word as u8 == b'u' {
                break;
            }
            let slot = match slots.get(n_slots) {
                Some(slot) if word & slot.mask == slot.opcode => *slot,
                _ => {
                    let slot = self.slot(word)?;
                    if n_slots == 0 && slot.key != Some(Key::Action) || n_slots >= MAX_SLOTS {
                        return None;
                    }
                    slots.truncate(n_slots);
                    slots.push(slot);
                    slot
                }
            };
            n_slots += 1;
            self.at += slot.len;
            let value = match slot.key {
                Some(Key::PoolId) => self.pair()?,
                _ => self.value()?,
            };
            match slot.key {
                Some(key) => self.builder.fields.set(key, value),
                None => all_known = false,
            }
        }
        self.at += 1;
        if n_slots < 2 {
            return None;
        }
        let row = self.builder.event().ok()?;
        self.builder.keys_seen |= self.builder.fields.seen();
        if !all_known {
            let unknown = slots[..n_slots].iter().filter(|slot| slot.key.is_none());
            unknown.for_each(|slot| *self.builder.unknown.entry(slot.name).or_default() += 1);
        }
        Some(row)
    }

    /// The key that `word` begins with.
    fn slot(&self, word: u64) -> Option<Slot> {
        let (index, len) = match word as u8 {
            BINGET => ((word >> 8) as u8 as usize, 2),
            LONG_BINGET => ((word >> 8) as u32 as usize, 5),
            _ => return None,
        };
        let Value::Str(name) = self.memo.get(index)?.value()? else {
            return None;
        };
        let mask = (1 << (8 * len)) - 1;
        Some(Slot {
            opcode: word & mask,
            mask,
            len,
            key: Key::at(name.0),
            name,
        })
    }

    #[inline]
    fn value(&mut self) -> Option<Value> {
        let word = self.word(self.at)?;
        let (value, len) = match word as u8 {
            BINGET => (self.memo.get((word >> 8) as u8 as usize)?.value()?, 2),
            LONG_BINGET => (self.memo.get((word >> 8) as u32 as usize)?.value()?, 5),
            // LONG1, of the lengths that fit a word
            0x8a => {
                let n = (word >> 8) as u8 as usize;
                if !(1..=8).contains(&n) {
                    return None;
                }
                let shift = 64 - 8 * n;
                let number = (self.word(self.at + 2)? << shift) as i64 >> shift;
                (Value::Int(number), 2 + n)
            }
            // BININT, BININT1, BININT2
            b'J' => (Value::Int(i64::from((word >> 8) as i32)), 5),
            b'K' => (Value::Int(i64::from((word >> 8) as u8)), 2),
            b'M' => (Value::Int(i64::from((word >> 8) as u16)), 3),
            0x8c => return self.string((word >> 8) as u8 as usize),
            b']' => return self.list(),
            b'N' => (Value::None, 1),
            0x88 => (Value::Bool(true), 1),
            0x89 => (Value::Bool(false), 1),
            _ => return None,
        };
        self.at += len;
        Some(value)
    }

    /// A `SHORT_BINUNICODE` of `n` bytes.
    fn string(&mut self, n: usize) -> Option<Value> {
        let start = self.at + 2;
        let bytes = self.buf.get(start..start + n)?;
        let idx = self.builder.interner.bytes(bytes).ok()?;
        self.at = start + n;
        let value = Value::Str(idx);
        if *self.buf.get(self.at)? == MEMOIZE {
            self.memo.push(Memo::of(value));
            self.at += 1;
        }
        Some(value)
    }

    /// Two integers and `TUPLE2`, or a reference to such a tuple.
    fn pair(&mut self) -> Option<Value> {
        let (a, b) = match self.value()? {
            Value::Int(a) => match self.value()? {
                Value::Int(b) => (a, b),
                _ => return None,
            },
            Value::Pair(pair) => return Some(Value::Pair(pair)),
            _ => return None,
        };
        if *self.buf.get(self.at)? != 0x86 {
            return None;
        }
        self.at += 1;
        let pair = self.builder.pair(a, b);
        if *self.buf.get(self.at)? == MEMOIZE {
            self.memo.push(Memo::of(pair));
            self.at += 1;
        }
        Some(pair)
    }

    /// An empty list, or one whose items are known frames.
    fn list(&mut self) -> Option<Value> {
        let word = self.word(self.at)?;
        if (word >> 8) as u8 != MEMOIZE {
            return None;
        }
        self.at += 2;
        let index = self.memo.len();
        self.memo.push(Memo::EMPTY_LIST);
        let mut frames = std::mem::take(&mut self.builder.frames);
        frames.clear();
        let complete = self.frames(&mut frames, (word >> 16) as u8);
        let stack = complete.and_then(|()| self.builder.interner.stack(&frames).ok());
        let value = match stack {
            Some(_) if frames.is_empty() => Some(Value::OpenList(index as u32)),
            Some(stack) => {
                let value = Value::Stack(stack, NO_MEMO);
                self.memo[index] = Memo::of(value);
                Some(value)
            }
            None => None,
        };
        self.builder.frames = frames;
        value
    }

    /// The items of a list, in a batch or single; the next opcode is `next`.
    fn frames(&mut self, frames: &mut Vec<crate::stacks::FrameIdx>, next: u8) -> Option<()> {
        if next != MARK {
            // One item: what follows it is `APPEND`. A key of the dictionary: a value follows.
            let word = self.word(self.at)?;
            let (index, len) = match word as u8 {
                BINGET => ((word >> 8) as u8 as usize, 2),
                LONG_BINGET => ((word >> 8) as u32 as usize, 5),
                _ => return Some(()),
            };
            if (word >> (8 * len)) as u8 == b'a' {
                frames.push(self.memo.get(index)?.frame()?);
                self.at += len + 1;
            }
            return Some(());
        }
        let mut at = self.at + 1;
        loop {
            let word = self.word(at)?;
            let index = match word as u8 {
                BINGET => {
                    at += 2;
                    (word >> 8) as u8 as usize
                }
                LONG_BINGET => {
                    at += 5;
                    (word >> 8) as u32 as usize
                }
                b'e' => break,
                _ => return None,
            };
            frames.push(self.memo.get(index)?.frame()?);
        }
        self.at = at + 1;
        Some(())
    }
}
