//! The fast way to read an event.
//!
//! A gigabyte of snapshot is ten million dictionaries with the same keys in the same order, and
//! each key refers to the same memo entry. [`EventShape`] remembers the bytes of these keys. When
//! they come again, only the values between them are decoded, straight into a row. Everything
//! unusual is left to the pickle machine, which starts again at the event's first byte. So this
//! module may decline any event, but what it accepts must give the same result as the machine.

use super::builder::Builder;
use super::keys::{Key, action_at};
use super::lists::Lists;
use super::memo::Memo;
use super::rows::{pool_id, says_something};
use super::values::{MAX_SIZE, NO_MEMO, Value};
use crate::snapshot::EventKind;
use crate::stacks::{StackIdx, StrIdx};
use crate::trace::Action;
use crate::units::{Bytes, Micros};

/// The keys of the last events, and their lists of frames.
#[derive(Default)]
pub struct EventShape {
    slots: Vec<Slot>,
    lists: Lists,
}

/// A reference to a key, as bytes: `BINGET` or `LONG_BINGET`.
#[derive(Clone, Copy)]
struct Slot {
    /// These bytes, little-endian, and a mask of those of the eight that count.
    opcode: u64,
    mask: u64,
    len: usize,
    /// `None` for a key that this version does not know.
    key: Option<Key>,
    name: StrIdx,
}

/// The largest number of keys of an event; torch 2.15 writes ten.
const MAX_SLOTS: usize = 32;

const APPEND: u8 = b'a';
const APPENDS: u8 = b'e';
const BININT: u8 = b'J';
const BININT1: u8 = b'K';
const BININT2: u8 = b'M';
const BINGET: u8 = b'h';
const EMPTY_LIST: u8 = b']';
const LONG1: u8 = 0x8a;
const LONG_BINGET: u8 = b'j';
const MARK: u8 = b'(';
const MEMOIZE: u8 = 0x94;
const SETITEMS: u8 = b'u';
const SHORT_BINUNICODE: u8 = 0x8c;
const TUPLE2: u8 = 0x86;

impl EventShape {
    /// Must be called when a memo entry changes its meaning.
    pub fn forget(&mut self) {
        self.slots.clear();
        self.lists.forget();
    }

    /// Heap bytes that it uses, without a few keys.
    pub fn heap_bytes(&self) -> usize {
        self.lists.heap_bytes()
    }

    /// Reads the event at the start of `buf`, up to and including its `SETITEMS`, into the next
    /// row. Returns its length in bytes. Returns `None` and changes nothing if the event is unusual
    /// or incomplete, or if it is no event.
    pub fn read(
        &mut self,
        buf: &[u8],
        memo: &mut Vec<Memo>,
        builder: &mut Builder,
    ) -> Option<usize> {
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
            lists: &mut self.lists,
        };
        let done = cursor.event(&mut self.slots);
        let end = cursor.at;
        if done.is_none() {
            memo.truncate(memo_before);
        }
        done.map(|()| end)
    }
}

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    None,
    Bool,
    Int,
    Str,
    Pair,
    Stack,
}

/// A value as its type and its bits. They fit into two registers; a [`Value`] would go through
/// memory.
#[derive(Clone, Copy)]
struct Word {
    is: Is,
    bits: u64,
}

impl Word {
    const fn new(is: Is, bits: u64) -> Word {
        Word { is, bits }
    }

    const fn int(n: i64) -> Word {
        Word::new(Is::Int, n as u64)
    }

    fn of(memo: Memo) -> Option<Word> {
        Some(match memo.value()? {
            Value::Str(s) => Word::new(Is::Str, u64::from(s.0)),
            Value::Stack(stack, _) => Word::new(Is::Stack, u64::from(stack.0)),
            Value::OpenList(_) => Word::new(Is::Stack, u64::from(StackIdx::NONE.0)),
            Value::Pair(pair) => Word::new(Is::Pair, u64::from(pair)),
            _ => return None,
        })
    }

    fn str(self) -> Option<StrIdx> {
        (self.is == Is::Str).then_some(StrIdx(self.bits as u32))
    }

    /// The stack; none if torch wrote `None` or something unknown.
    fn stack(self) -> StackIdx {
        match self.is {
            Is::Stack => StackIdx(self.bits as u32),
            _ => StackIdx::NONE,
        }
    }

    fn number(self) -> Option<u64> {
        (self.is == Is::Int).then_some(self.bits)
    }
}

/// The fields of an event that are decoded so far.
struct Fields {
    kind: EventKind,
    addr: u64,
    time: Micros,
    category: Option<StrIdx>,
    internal: Option<StrIdx>,
    /// The word of an action that this version does not know.
    unknown_action: Option<StrIdx>,
    seen: u64,
}

impl Fields {
    fn new() -> Fields {
        Fields {
            kind: EventKind {
                action: Action::Unknown,
                size: Bytes(0),
                stream: 0,
                stack: StackIdx::NONE,
                forward_stack: StackIdx::NONE,
                pool: None,
                compile_context: None,
                metadata: None,
            },
            addr: 0,
            time: Micros(0),
            category: None,
            internal: None,
            unknown_action: None,
            seen: 0,
        }
    }

    #[inline(always)]
    fn set_action(&mut self, word: StrIdx) {
        self.kind.action = action_at(word.0);
        self.unknown_action = (self.kind.action == Action::Unknown).then_some(word);
        self.seen |= Key::Action.bit();
    }
}

struct Cursor<'a> {
    buf: &'a [u8],
    at: usize,
    memo: &'a mut Vec<Memo>,
    builder: &'a mut Builder,
    lists: &'a mut Lists,
}

impl Cursor<'_> {
    fn event(&mut self, slots: &mut Vec<Slot>) -> Option<()> {
        let mut fields = Fields::new();
        let mut n_slots = self.usual(slots, &mut fields)?;
        let mut all_known = true;
        loop {
            let word = word_at(self.buf, self.at)?;
            if word as u8 == SETITEMS {
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
                Some(key) => self.set(&mut fields, key, value)?,
                None => all_known = false,
            }
        }
        self.at += 1;
        if n_slots < 2 {
            return None;
        }
        let kind = EventKind {
            metadata: fields.kind.metadata.or(fields.category).or(fields.internal),
            ..fields.kind
        };
        self.builder.push_event(&kind, fields.addr, fields.time)?;
        self.builder.keys_seen |= fields.seen;
        if let Some(word) = fields.unknown_action {
            self.builder.unknown_actions.count(word);
        }
        if !all_known {
            let unknown = slots[..n_slots].iter().filter(|slot| slot.key.is_none());
            unknown.for_each(|slot| self.builder.unknown.count(slot.name));
        }
        Some(())
    }

    /// Reads keys in torch's usual order, as long as they match. Each key has its own code, so that
    /// the processor learns which opcode usually comes there. Returns how many keys matched.
    #[inline(always)]
    fn usual(&mut self, slots: &[Slot], fields: &mut Fields) -> Option<usize> {
        let mut next = 0;
        if self.key(slots, &mut next, Key::Action) {
            fields.set_action(self.text()??);
        }
        if self.key(slots, &mut next, Key::Addr) {
            fields.addr = self.number()?;
            fields.seen |= Key::Addr.bit();
        }
        if self.key(slots, &mut next, Key::Size) {
            let size = self.number().filter(|&size| size <= MAX_SIZE)?;
            fields.kind.size = Bytes(size);
            fields.seen |= Key::Size.bit();
        }
        if self.key(slots, &mut next, Key::Stream) {
            fields.kind.stream = self.number()?;
            fields.seen |= Key::Stream.bit();
        }
        if self.key(slots, &mut next, Key::TimeUs) {
            fields.time = Micros(self.number()? as i64);
            fields.seen |= Key::TimeUs.bit();
        }
        if self.key(slots, &mut next, Key::CompileContext) {
            fields.kind.compile_context = self.text()?.filter(says_something);
            fields.seen |= Key::CompileContext.bit();
        }
        if self.key(slots, &mut next, Key::UserMetadata) {
            fields.kind.metadata = self.text()?.filter(says_something);
            fields.seen |= Key::UserMetadata.bit();
        }
        if self.key(slots, &mut next, Key::Frames) {
            fields.kind.stack = self.stack()?;
            fields.seen |= Key::Frames.bit();
        }
        Some(next)
    }

    /// Skips `key`, if the next slot has this key and its bytes come next.
    #[inline(always)]
    fn key(&mut self, slots: &[Slot], next: &mut usize, key: Key) -> bool {
        if let Some(slot) = slots.get(*next)
            && slot.key == Some(key)
            && let Some(word) = word_at(self.buf, self.at)
            && word & slot.mask == slot.opcode
        {
            self.at += slot.len;
            *next += 1;
            return true;
        }
        false
    }

    /// An integer, as its bits.
    #[inline(always)]
    fn number(&mut self) -> Option<u64> {
        let word = word_at(self.buf, self.at)?;
        let (number, len) = match word as u8 {
            LONG1 => long1(self.buf, self.at)?,
            BININT => (i64::from((word >> 8) as i32), 5),
            BININT1 => (i64::from((word >> 8) as u8), 2),
            BININT2 => (i64::from((word >> 8) as u16), 3),
            _ => return self.value()?.number(),
        };
        self.at += len;
        Some(number as u64)
    }

    /// A string; `Some(None)` for something else.
    #[inline(always)]
    fn text(&mut self) -> Option<Option<StrIdx>> {
        let word = word_at(self.buf, self.at)?;
        if let Some((index, len)) = reference(word) {
            self.at += len;
            return Some(Word::of(*self.memo.get(index)?)?.str());
        }
        if word as u8 == SHORT_BINUNICODE {
            return Some(self.string((word >> 8) as u8 as usize)?.str());
        }
        Some(self.value()?.str())
    }

    /// The stack of an event.
    #[inline(always)]
    fn stack(&mut self) -> Option<StackIdx> {
        let word = word_at(self.buf, self.at)?;
        let value = match word as u8 {
            EMPTY_LIST => self.list()?,
            _ => self.value()?,
        };
        Some(value.stack())
    }

    #[inline]
    fn set(&self, fields: &mut Fields, key: Key, value: Word) -> Option<()> {
        fields.seen |= key.bit();
        let text = || value.str().filter(says_something);
        match key {
            Key::Action => fields.set_action(value.str()?),
            Key::Addr => fields.addr = value.number()?,
            Key::Size => {
                let size = value.number().filter(|&size| size <= MAX_SIZE)?;
                fields.kind.size = Bytes(size);
            }
            Key::Stream => fields.kind.stream = value.number()?,
            Key::TimeUs => fields.time = Micros(value.number()? as i64),
            Key::Frames => {
                fields.kind.stack = value.stack();
            }
            Key::CompileContext => fields.kind.compile_context = text(),
            Key::UserMetadata => fields.kind.metadata = text(),
            Key::Category => fields.category = text(),
            Key::InternalMetadata => fields.internal = text(),
            Key::PoolId => {
                let pair = (value.is == Is::Pair).then_some(value.bits as usize)?;
                fields.kind.pool = Some(pool_id(self.builder.pairs[pair]));
            }
            // Rare cases: `forward_frames`, `device_free` of an `oom`, keys that belong elsewhere.
            _ => return None,
        }
        Some(())
    }

    /// The slot for the key that `word` begins with.
    fn slot(&self, word: u64) -> Option<Slot> {
        let (index, len) = reference(word)?;
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

    #[inline(never)]
    fn value(&mut self) -> Option<Word> {
        let word = word_at(self.buf, self.at)?;
        let (value, len) = match word as u8 {
            BINGET | LONG_BINGET => {
                let (index, len) = reference(word)?;
                (Word::of(*self.memo.get(index)?)?, len)
            }
            LONG1 => {
                let (number, len) = long1(self.buf, self.at)?;
                (Word::int(number), len)
            }
            BININT => (Word::int(i64::from((word >> 8) as i32)), 5),
            BININT1 => (Word::int(i64::from((word >> 8) as u8)), 2),
            BININT2 => (Word::int(i64::from((word >> 8) as u16)), 3),
            SHORT_BINUNICODE => return self.string((word >> 8) as u8 as usize),
            EMPTY_LIST => return self.list(),
            b'N' => (Word::new(Is::None, 0), 1),
            0x88 | 0x89 => (Word::new(Is::Bool, 0), 1),
            _ => return None,
        };
        self.at += len;
        Some(value)
    }

    /// A `SHORT_BINUNICODE` of `n` bytes.
    #[inline]
    fn string(&mut self, n: usize) -> Option<Word> {
        let start = self.at + 2;
        let short = (n <= 8).then(|| word_at(self.buf, start)).flatten();
        let known = short.and_then(|word| self.builder.interner.short(word, n));
        let idx = match known {
            Some(idx) => idx,
            None => {
                let bytes = self.buf.get(start..start + n)?;
                self.builder.interner.bytes(bytes).ok()?
            }
        };
        self.at = start + n;
        self.memoize(Value::Str(idx))?;
        Some(Word::new(Is::Str, u64::from(idx.0)))
    }

    /// Remembers `value`, if the next opcode asks for that.
    #[inline]
    fn memoize(&mut self, value: Value) -> Option<()> {
        if *self.buf.get(self.at)? == MEMOIZE {
            self.memo.push(Memo::of(value));
            self.at += 1;
        }
        Some(())
    }

    /// Two integers and `TUPLE2`, or a reference to such a tuple.
    fn pair(&mut self) -> Option<Word> {
        let first = self.value()?;
        if first.is == Is::Pair {
            return Some(first);
        }
        let (a, b) = (first.number()?, self.value()?.number()?);
        if *self.buf.get(self.at)? != TUPLE2 {
            return None;
        }
        self.at += 1;
        let Value::Pair(pair) = self.builder.pair(a as i64, b as i64) else {
            return None;
        };
        self.memoize(Value::Pair(pair))?;
        Some(Word::new(Is::Pair, u64::from(pair)))
    }

    /// An empty list, or a list whose items are known frames.
    fn list(&mut self) -> Option<Word> {
        let word = word_at(self.buf, self.at)?;
        if (word >> 8) as u8 != MEMOIZE {
            return None;
        }
        self.at += 2;
        let next = (word >> 16) as u8;
        let items = self.buf.get(self.at + 1..)?;
        let known = match next {
            MARK => self.lists.find(items),
            _ => None,
        };
        let stack = match known {
            Some((stack, len)) => {
                self.at += 1 + len;
                stack
            }
            None => self.new_list(next)?,
        };
        self.memo.push(match stack {
            StackIdx::NONE => Memo::EMPTY_LIST,
            stack => Memo::of(Value::Stack(stack, NO_MEMO)),
        });
        Some(Word::new(Is::Stack, u64::from(stack.0)))
    }

    /// The stack of a list that was not seen recently. `next` is the opcode after those that made
    /// it.
    #[inline(never)]
    fn new_list(&mut self, next: u8) -> Option<StackIdx> {
        let from = self.at + 1;
        // The list is remembered already, so its items could refer to it.
        self.memo.push(Memo::EMPTY_LIST);
        let done = self.frames(next);
        self.memo.pop();
        done?;
        let stack = self.builder.interner.stack(&self.builder.frames).ok()?;
        if next == MARK {
            self.lists.keep(&self.buf[from..], self.at - from, stack);
        }
        Some(stack)
    }

    /// Reads the items of a list, in a batch or one by one, into the builder's frames. `next` is
    /// the next opcode.
    #[inline]
    fn frames(&mut self, next: u8) -> Option<()> {
        let frames = &mut self.builder.frames;
        frames.clear();
        if next != MARK {
            // This is either one item, followed by `APPEND`, or a key of the dictionary, followed
            // by a value.
            if let Some((index, len)) = reference(word_at(self.buf, self.at)?)
                && *self.buf.get(self.at + len)? == APPEND
            {
                frames.push(self.memo.get(index)?.frame()?);
                self.at += len + 1;
            }
            return Some(());
        }
        let mut at = self.at + 1;
        loop {
            let word = word_at(self.buf, at)?;
            let Some((index, len)) = reference(word) else {
                self.at = at + 1;
                return (word as u8 == APPENDS).then_some(());
            };
            at += len;
            frames.push(self.memo.get(index)?.frame()?);
        }
    }
}

/// Eight bytes from `at` on, little-endian.
#[inline]
fn word_at(buf: &[u8], at: usize) -> Option<u64> {
    let bytes = buf.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// The number of the `LONG1` at `at`, if it fits into a word, and the opcode's length.
#[inline(always)]
fn long1(buf: &[u8], at: usize) -> Option<(i64, usize)> {
    let n = usize::from(*buf.get(at + 1)?);
    if !(1..=8).contains(&n) {
        return None;
    }
    let shift = 64 - 8 * n;
    let number = (word_at(buf, at + 2)? << shift) as i64 >> shift;
    Some((number, 2 + n))
}

/// The memo entry that the opcode at the start of `word` refers to, and the opcode's length.
#[inline]
fn reference(word: u64) -> Option<(usize, usize)> {
    match word as u8 {
        BINGET => Some(((word >> 8) as u8 as usize, 2)),
        LONG_BINGET => Some(((word >> 8) as u32 as usize, 5)),
        _ => None,
    }
}
