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
use super::opcodes::{
    APPEND, APPENDS, BINGET, BININT, BININT1, BININT2, EMPTY_LIST, LONG_BINGET, LONG1, MARK,
    MEMOIZE, SETITEMS, SHORT_BINUNICODE, TUPLE2,
};
use super::rows::{pool_id, says_something};
use super::values::{MAX_SIZE, NO_MEMO, Value};
use crate::snapshot::EventKind;
use crate::stacks::{StackIdx, StrIdx};
use crate::trace::Action;
use crate::units::{Bytes, Micros};

/// The keys of the last events, their lists of frames, and the last short text.
#[derive(Default)]
pub struct EventShape {
    slots: Vec<Slot>,
    usual: Usual,
    lists: Lists,
    literal: Option<Literal>,
}

/// A reference to a key, as bytes: `BINGET` or `LONG_BINGET`.
#[derive(Clone, Copy)]
struct Slot {
    opcode: Opcode,
    /// `None` for a key that this version does not know.
    key: Option<Key>,
    name: StrIdx,
    /// The bits of this key and of those before it: said once for an event, not once for a key.
    seen: u64,
}

/// The keys that torch writes first, in its order.
const USUAL: [Key; 8] = [
    Key::Action,
    Key::Addr,
    Key::Size,
    Key::Stream,
    Key::TimeUs,
    Key::CompileContext,
    Key::UserMetadata,
    Key::Frames,
];

/// Which of these the slots begin with: old versions leave some out.
#[derive(Default)]
struct Usual {
    opcodes: [Option<Opcode>; USUAL.len()],
    n: usize,
}

impl Usual {
    fn of(slots: &[Slot]) -> Usual {
        let mut usual = Usual::default();
        for (opcode, key) in usual.opcodes.iter_mut().zip(USUAL) {
            if let Some(slot) = slots.get(usual.n).filter(|slot| slot.key == Some(key)) {
                *opcode = Some(slot.opcode);
                usual.n += 1;
            }
        }
        usual
    }
}

/// A text that is written out and remembered: torch writes `N/A` anew for each event. Known by its
/// bytes, it is not looked up again, which took a fourteenth of the instructions of reading.
#[derive(Clone, Copy)]
struct Literal {
    opcode: Opcode,
    text: StrIdx,
}

impl Literal {
    /// Bytes of the longest text: with what is around it, it fits into a word.
    const LONGEST: usize = 5;
}

/// The bytes of one or two opcodes with what belongs to them: at most eight.
#[derive(Clone, Copy)]
struct Opcode {
    /// These bytes, little-endian, and a mask of those of the eight that count.
    bits: u64,
    mask: u64,
    len: usize,
}

impl Opcode {
    /// The first `len` bytes of `word`.
    fn new(word: u64, len: usize) -> Opcode {
        let mask = u64::MAX >> (64 - 8 * len);
        Opcode {
            bits: word & mask,
            mask,
            len,
        }
    }

    /// What comes after these bytes, if `bytes` begin with them.
    #[inline(always)]
    fn after<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        match word(bytes)? & self.mask == self.bits {
            true => bytes.get(self.len..),
            false => None,
        }
    }
}

/// The largest number of keys of an event; torch 2.15 writes ten.
const MAX_SLOTS: usize = 32;

impl EventShape {
    /// Must be called when a memo entry changes its meaning.
    pub fn forget(&mut self) {
        self.slots.clear();
        self.usual = Usual::default();
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
        let [b'}', MEMOIZE, MARK, rest @ ..] = buf else {
            return None;
        };
        let memo_before = memo.len();
        memo.push(Memo::SPENT);
        let mut cursor = Cursor {
            rest,
            memo,
            builder,
            lists: &mut self.lists,
            literal: &mut self.literal,
        };
        let done = cursor.event(&mut self.slots, &mut self.usual);
        let end = buf.len() - cursor.rest.len();
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

    #[inline(never)]
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
        }
    }

    #[inline(always)]
    fn set_action(&mut self, word: StrIdx) {
        self.kind.action = action_at(word.0);
        self.unknown_action = (self.kind.action == Action::Unknown).then_some(word);
    }

    #[inline(always)]
    fn set_size(&mut self, size: u64) -> Option<()> {
        self.kind.size = Bytes(size);
        (size <= MAX_SIZE).then_some(())
    }
}

struct Cursor<'a> {
    /// The bytes that are not read yet.
    rest: &'a [u8],
    memo: &'a mut Vec<Memo>,
    builder: &'a mut Builder,
    lists: &'a mut Lists,
    literal: &'a mut Option<Literal>,
}

impl Cursor<'_> {
    fn event(&mut self, slots: &mut Vec<Slot>, usual: &mut Usual) -> Option<()> {
        let mut fields = Fields::new();
        let mut n_slots = self.usual(usual, &mut fields)?;
        let mut all_known = true;
        loop {
            let word = word(self.rest)?;
            if word as u8 == SETITEMS {
                break;
            }
            let slot = match slots.get(n_slots) {
                Some(slot) if word & slot.opcode.mask == slot.opcode.bits => *slot,
                _ => {
                    let before = slots[..n_slots].last().map_or(0, |slot| slot.seen);
                    let slot = self.slot(word, before)?;
                    if n_slots == 0 && slot.key != Some(Key::Action) || n_slots >= MAX_SLOTS {
                        return None;
                    }
                    slots.truncate(n_slots);
                    slots.push(slot);
                    *usual = Usual::of(slots);
                    slot
                }
            };
            n_slots += 1;
            self.skip(slot.opcode.len)?;
            let value = match slot.key {
                Some(Key::PoolId) => self.pair()?,
                _ => self.value()?,
            };
            match slot.key {
                Some(key) => self.set(&mut fields, key, value)?,
                None => all_known = false,
            }
        }
        self.skip(1)?;
        // What a device had free has rules of its own.
        if n_slots < 2 || fields.kind.action == Action::Oom {
            return None;
        }
        let seen = slots[n_slots - 1].seen;
        if fields.kind.metadata.is_none() {
            fields.kind.metadata = fields.category.or(fields.internal);
        }
        self.builder
            .push_event(&fields.kind, fields.addr, fields.time)?;
        self.builder.keys_seen |= seen;
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
    fn usual(&mut self, usual: &Usual, fields: &mut Fields) -> Option<usize> {
        macro_rules! key {
            ($at:literal, $read:expr) => {
                if let Some(opcode) = &usual.opcodes[$at] {
                    match opcode.after(self.rest) {
                        Some(rest) => self.rest = rest,
                        None => return Some(usual.opcodes[..$at].iter().flatten().count()),
                    }
                    $read;
                }
            };
        }
        key!(0, fields.set_action(self.text()??));
        key!(1, fields.addr = self.number()?);
        key!(2, fields.set_size(self.number()?)?);
        key!(3, fields.kind.stream = self.number()?);
        key!(4, fields.time = Micros(self.number()? as i64));
        key!(
            5,
            fields.kind.compile_context = self.text()?.filter(says_something)
        );
        key!(
            6,
            fields.kind.metadata = self.text()?.filter(says_something)
        );
        key!(7, fields.kind.stack = self.stack()?);
        Some(usual.n)
    }

    /// Goes on `n` bytes later.
    #[inline(always)]
    fn skip(&mut self, n: usize) -> Option<()> {
        self.rest = self.rest.get(n..)?;
        Some(())
    }

    /// What the memo has at `index`.
    #[inline(always)]
    fn memo(&self, index: usize) -> Option<Memo> {
        self.memo.get(index).copied()
    }

    /// An integer, as its bits.
    #[inline(always)]
    fn number(&mut self) -> Option<u64> {
        let word = word(self.rest)?;
        let (number, len) = match word as u8 {
            LONG1 => long1(self.rest)?,
            BININT => (i64::from((word >> 8) as i32), 5),
            BININT1 => (i64::from((word >> 8) as u8), 2),
            BININT2 => (i64::from((word >> 8) as u16), 3),
            _ => return self.value()?.number(),
        };
        self.skip(len)?;
        Some(number as u64)
    }

    /// A string; `Some(None)` for something else.
    #[inline(always)]
    fn text(&mut self) -> Option<Option<StrIdx>> {
        let word = word(self.rest)?;
        if let Some((index, len)) = reference(word) {
            self.skip(len)?;
            let memo = self.memo(index)?;
            return match memo.str() {
                None => Some(Word::of(memo)?.str()),
                text => Some(text),
            };
        }
        if let Some(literal) = *self.literal
            && let Some(rest) = literal.opcode.after(self.rest)
        {
            self.rest = rest;
            self.memo.push(Memo::of(Value::Str(literal.text)));
            return Some(Some(literal.text));
        }
        if word as u8 == SHORT_BINUNICODE {
            return Some(self.string((word >> 8) as u8 as usize)?.str());
        }
        Some(self.value()?.str())
    }

    /// The stack of an event.
    #[inline(always)]
    fn stack(&mut self) -> Option<StackIdx> {
        let word = word(self.rest)?;
        if word as u8 == EMPTY_LIST {
            return Some(self.list()?.stack());
        }
        match reference(word) {
            Some((index, len)) => {
                self.skip(len)?;
                let memo = self.memo(index)?;
                memo.stack().or_else(|| Some(Word::of(memo)?.stack()))
            }
            None => Some(self.value()?.stack()),
        }
    }

    #[inline]
    fn set(&self, fields: &mut Fields, key: Key, value: Word) -> Option<()> {
        let text = || value.str().filter(says_something);
        match key {
            Key::Action => fields.set_action(value.str()?),
            Key::Addr => fields.addr = value.number()?,
            Key::Size => fields.set_size(value.number()?)?,
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

    /// The slot for the key that `word` begins with; `before` has the bits of the keys before it.
    fn slot(&self, word: u64, before: u64) -> Option<Slot> {
        let (index, len) = reference(word)?;
        let name = self.memo(index)?.str()?;
        let key = Key::at(name.0);
        Some(Slot {
            opcode: Opcode::new(word, len),
            key,
            name,
            seen: before | key.map_or(0, Key::bit),
        })
    }

    #[inline(never)]
    fn value(&mut self) -> Option<Word> {
        let word = word(self.rest)?;
        let (value, len) = match word as u8 {
            BINGET | LONG_BINGET => {
                let (index, len) = reference(word)?;
                (Word::of(self.memo(index)?)?, len)
            }
            LONG1 => {
                let (number, len) = long1(self.rest)?;
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
        self.skip(len)?;
        Some(value)
    }

    /// A `SHORT_BINUNICODE` of `n` bytes.
    #[inline(never)]
    fn string(&mut self, n: usize) -> Option<Word> {
        let whole = self.rest;
        let start = whole.get(2..)?;
        let short = (n <= 8).then(|| word(start)).flatten();
        let known = short.and_then(|word| self.builder.interner.short(word, n));
        let idx = match known {
            Some(idx) => idx,
            None => self.builder.interner.bytes(start.get(..n)?).ok()?,
        };
        self.rest = start.get(n..)?;
        if self.memoize(Value::Str(idx))? && n <= Literal::LONGEST {
            *self.literal = Some(Literal {
                opcode: Opcode::new(word(whole)?, n + 3),
                text: idx,
            });
        }
        Some(Word::new(Is::Str, u64::from(idx.0)))
    }

    /// Remembers `value`, if the next opcode asks for that, and says whether it did.
    #[inline]
    fn memoize(&mut self, value: Value) -> Option<bool> {
        let asked = *self.rest.first()? == MEMOIZE;
        if asked {
            self.memo.push(Memo::of(value));
            self.skip(1)?;
        }
        Some(asked)
    }

    /// Two integers and `TUPLE2`, or a reference to such a tuple.
    fn pair(&mut self) -> Option<Word> {
        let first = self.value()?;
        if first.is == Is::Pair {
            return Some(first);
        }
        let (a, b) = (first.number()?, self.value()?.number()?);
        if *self.rest.first()? != TUPLE2 {
            return None;
        }
        self.skip(1)?;
        let Value::Pair(pair) = self.builder.pair(a as i64, b as i64) else {
            return None;
        };
        self.memoize(Value::Pair(pair))?;
        Some(Word::new(Is::Pair, u64::from(pair)))
    }

    /// An empty list, or a list whose items are known frames.
    fn list(&mut self) -> Option<Word> {
        let [_, MEMOIZE, rest @ ..] = self.rest else {
            return None;
        };
        self.rest = rest;
        let (&next, items) = rest.split_first()?;
        let known = match next {
            MARK => self.lists.find(items),
            _ => None,
        };
        let stack = match known {
            Some((stack, len)) => {
                self.rest = items.get(len..)?;
                stack
            }
            // Two of five lists are empty and end their event: to look for frames in them took 3 %
            // of the instructions of reading.
            None if next == SETITEMS => StackIdx::NONE,
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
        let items = self.rest.get(1..)?;
        // The list is remembered already, so its items could refer to it.
        self.memo.push(Memo::EMPTY_LIST);
        let done = self.frames(next);
        self.memo.pop();
        done?;
        let stack = self.builder.interner.stack(&self.builder.frames).ok()?;
        if next == MARK {
            self.lists.keep(items, items.len() - self.rest.len(), stack);
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
            if let Some((index, len)) = reference(word(self.rest)?)
                && *self.rest.get(len)? == APPEND
            {
                frames.push(self.memo.get(index)?.frame()?);
                self.skip(len + 1)?;
            }
            return Some(());
        }
        self.skip(1)?;
        loop {
            let word = word(self.rest)?;
            let Some((index, len)) = reference(word) else {
                self.skip(1)?;
                return (word as u8 == APPENDS).then_some(());
            };
            self.builder.frames.push(self.memo(index)?.frame()?);
            self.skip(len)?;
        }
    }
}

/// The first eight bytes, little-endian.
#[inline(always)]
fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|first| u64::from_le_bytes(*first))
}

/// The number of the `LONG1` at the start of `bytes`, if it fits into a word, and the opcode's
/// length.
#[inline(always)]
fn long1(bytes: &[u8]) -> Option<(i64, usize)> {
    let n = usize::from(*bytes.get(1)?);
    if !(1..=8).contains(&n) {
        return None;
    }
    let shift = 64 - 8 * n;
    let number = (word(bytes.get(2..)?)? << shift) as i64 >> shift;
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
