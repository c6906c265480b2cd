//! The pickle machine: protocols 2 to 5, fed in pieces, without any opcode that calls code.
//!
//! The opcodes are those of CPython's `pickle.py`, without those that import or build objects.

use super::builder::Builder;
use super::event_run::EventShape;
use super::memo::Memo;
use super::opcodes as op;
use super::relatives::COLLECTION;
use super::values::{NO_MEMO, Table, Value};
use super::{Limits, ReadError, ReadErrorKind};
use crate::footprint::of_vec;

/// A pickle being read.
pub struct Machine {
    limits: Limits,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Vec<Memo>,
    shape: EventShape,
    protocol: Option<u8>,
    root: Option<Value>,
    /// The start of an opcode whose end has not arrived yet.
    carry: Vec<u8>,
    /// Bytes that the opcode at the start of `carry` needs.
    needed: usize,
    /// Offset in the file of the first byte not consumed.
    offset: u64,
    trailing: u64,
    /// How many opcodes so far dropped or doubled something on the stack.
    juggled: u32,
}

/// Limit for opcodes that drop or double something on the stack (POP, DUP, POP_MARK). PyTorch
/// writes none of them, and Python one for a tuple that contains itself. They cost one byte each
/// and make no event.
const MAX_JUGGLED: u32 = 1000;

/// What one opcode did.
enum Step {
    /// Done; the next opcode starts this many bytes later.
    Next(usize),
    /// Needs at least this many bytes, and they have not arrived yet.
    More(usize),
    /// The document is complete; bytes consumed.
    Stop(usize),
}

type Result<T> = std::result::Result<T, ReadErrorKind>;

const UNDERFLOW: ReadErrorKind = ReadErrorKind::Malformed("an opcode finds the stack empty");

impl Machine {
    /// A machine for a pickle that starts at `offset`.
    pub fn new(offset: u64, limits: Limits) -> Machine {
        Machine {
            limits,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            shape: EventShape::default(),
            protocol: None,
            root: None,
            carry: Vec::new(),
            needed: 1,
            offset,
            trailing: 0,
            juggled: 0,
        }
    }

    /// Heap bytes that it uses, as the allocator counts them.
    pub fn memory_used(&self) -> usize {
        of_vec(&self.stack)
            + of_vec(&self.marks)
            + of_vec(&self.memo)
            + of_vec(&self.carry)
            + self.shape.heap_bytes()
    }

    /// Runs the next bytes.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        builder: &mut Builder,
    ) -> std::result::Result<(), ReadError> {
        while !self.carry.is_empty() && !bytes.is_empty() {
            let missing = self.needed.saturating_sub(self.carry.len()).max(1);
            let (now, later) = bytes.split_at(missing.min(bytes.len()));
            bytes = later;
            let mut carry = std::mem::take(&mut self.carry);
            carry.extend_from_slice(now);
            if carry.len() < self.needed {
                self.carry = carry;
                return Ok(());
            }
            let consumed = self.run(&carry, builder)?;
            carry.drain(..consumed);
            self.carry = carry;
        }
        let consumed = self.run(bytes, builder)?;
        self.carry.extend_from_slice(&bytes[consumed..]);
        Ok(())
    }

    fn run(&mut self, buf: &[u8], builder: &mut Builder) -> std::result::Result<usize, ReadError> {
        let mut at = 0;
        while self.root.is_none() && at < buf.len() {
            if buf[at] == op::EMPTY_DICT
                && let Some(length) = self.event(&buf[at..], builder)
            {
                at += length;
                continue;
            }
            match self.step(&buf[at..], builder) {
                Ok(Step::Next(n)) => at += n,
                Ok(Step::More(n)) => {
                    self.needed = n;
                    break;
                }
                Ok(Step::Stop(n)) => at += n,
                Err(kind) => {
                    return Err(ReadError {
                        offset: self.offset + at as u64,
                        kind,
                    });
                }
            }
        }
        if self.root.is_some() {
            self.trailing += (buf.len() - at) as u64;
            at = buf.len();
        }
        self.offset += at as u64;
        Ok(at)
    }

    /// Reads an event the fast way. Returns its length in bytes.
    #[inline]
    fn event(&mut self, buf: &[u8], builder: &mut Builder) -> Option<usize> {
        // An event opens at most two marks, and remembers at most one object per byte.
        if self.marks.len() + 2 > self.limits.depth
            || self.memo.len() + buf.len() > self.limits.memo
        {
            return None;
        }
        let row = builder.events_read() as u32;
        let length = self.shape.read(buf, &mut self.memo, builder)?;
        self.stack.push(Value::Row(Table::Event, row));
        Some(length)
    }

    // long because it is the opcode table: one arm per opcode, nothing shared between arms.
    #[inline]
    fn step(&mut self, buf: &[u8], builder: &mut Builder) -> Result<Step> {
        macro_rules! args {
            ($n:literal) => {
                match buf.get(1..1 + $n) {
                    Some(bytes) => <[u8; $n]>::try_from(bytes).expect("the slice has this length"),
                    None => return Ok(Step::More(1 + $n)),
                }
            };
        }
        match buf[0] {
            // These two are more than half of all opcodes, so they are first.
            op::BINGET => {
                let [index] = args!(1);
                self.get(usize::from(index))?;
                return Ok(Step::Next(2));
            }
            op::LONG_BINGET => {
                let index = u32::from_le_bytes(args!(4));
                self.get(index as usize)?;
                return Ok(Step::Next(5));
            }
            op::MEMOIZE => self.memoize(self.memo.len())?,
            op::MARK => {
                if self.marks.len() >= self.limits.depth {
                    return Err(ReadErrorKind::Limit(
                        "nesting depth",
                        self.limits.depth as u64,
                    ));
                }
                self.marks.push(self.stack.len());
            }
            op::EMPTY_DICT => self.stack.push(Value::OpenDict(NO_MEMO)),
            op::EMPTY_LIST => self.stack.push(Value::OpenList(NO_MEMO)),
            op::SETITEMS => {
                let from = self.pop_mark()?;
                self.set_items(from, builder)?;
            }
            op::SETITEM => {
                let from = self.stack.len().checked_sub(2).ok_or(UNDERFLOW)?;
                self.set_items(from, builder)?;
            }
            op::APPENDS => {
                let from = self.pop_mark()?;
                self.append(from, builder)?;
            }
            op::APPEND => {
                let from = self.stack.len().checked_sub(1).ok_or(UNDERFLOW)?;
                self.append(from, builder)?;
            }
            op::BININT => {
                self.stack
                    .push(Value::Int(i64::from(i32::from_le_bytes(args!(4)))));
                return Ok(Step::Next(5));
            }
            op::BININT1 => {
                let [n] = args!(1);
                self.stack.push(Value::Int(i64::from(n)));
                return Ok(Step::Next(2));
            }
            op::BININT2 => {
                self.stack
                    .push(Value::Int(i64::from(u16::from_le_bytes(args!(2)))));
                return Ok(Step::Next(3));
            }
            op::LONG1 => {
                let [n] = args!(1);
                return self.long(buf, 2, usize::from(n));
            }
            op::LONG4 => {
                let n = u32::from_le_bytes(args!(4));
                return self.long(buf, 5, n as usize);
            }
            op::SHORT_BINUNICODE => {
                let [n] = args!(1);
                return self.string(buf, 2, u64::from(n), builder);
            }
            op::BINUNICODE => {
                let n = u32::from_le_bytes(args!(4));
                return self.string(buf, 5, u64::from(n), builder);
            }
            op::BINUNICODE8 => {
                let n = u64::from_le_bytes(args!(8));
                return self.string(buf, 9, n, builder);
            }
            op::BINFLOAT => {
                self.stack.push(Value::Float(f64::from_be_bytes(args!(8))));
                return Ok(Step::Next(9));
            }
            op::NEWTRUE => self.stack.push(Value::Bool(true)),
            op::NEWFALSE => self.stack.push(Value::Bool(false)),
            op::NONE => self.stack.push(Value::None),
            op::EMPTY_TUPLE => self.tuple(self.stack.len(), builder)?,
            n @ op::TUPLE1..=op::TUPLE3 => {
                let items = usize::from(n - op::TUPLE1 + 1);
                let from = self.stack.len().checked_sub(items).ok_or(UNDERFLOW)?;
                self.tuple(from, builder)?;
            }
            op::TUPLE => {
                let from = self.pop_mark()?;
                self.tuple(from, builder)?;
            }
            // These two are made of all items since the mark.
            op::LIST => {
                let from = self.pop_mark()?;
                self.stack.insert(from, Value::OpenList(NO_MEMO));
                self.append(from + 1, builder)?;
            }
            op::DICT => {
                let from = self.pop_mark()?;
                self.stack.insert(from, Value::OpenDict(NO_MEMO));
                self.set_items(from + 1, builder)?;
            }
            op::BINPUT => {
                let [index] = args!(1);
                self.memoize(usize::from(index))?;
                return Ok(Step::Next(2));
            }
            op::LONG_BINPUT => {
                let index = u32::from_le_bytes(args!(4));
                self.memoize(index as usize)?;
                return Ok(Step::Next(5));
            }
            // A length that helps readers of files. This reader does not need it.
            op::FRAME => {
                args!(8);
                return Ok(Step::Next(9));
            }
            op::PROTO => {
                let [version] = args!(1);
                if !(2..=5).contains(&version) {
                    return Err(ReadErrorKind::Protocol(version));
                }
                if self.protocol.replace(version).is_some() {
                    return Err(ReadErrorKind::Malformed("a second pickle begins"));
                }
                return Ok(Step::Next(2));
            }
            op::POP => {
                self.juggle()?;
                self.stack.pop().ok_or(UNDERFLOW)?;
            }
            op::DUP => {
                self.juggle()?;
                let top = *self.stack.last().ok_or(UNDERFLOW)?;
                self.stack.push(top);
            }
            op::POP_MARK => {
                self.juggle()?;
                let from = self.pop_mark()?;
                self.stack.truncate(from);
            }
            op::STOP => {
                self.root = Some(self.stack.pop().ok_or(UNDERFLOW)?);
                return Ok(Step::Stop(1));
            }
            op::STACK_GLOBAL if self.is_collection(builder) => {
                return Err(ReadErrorKind::Shape(COLLECTION));
            }
            op => return Err(refused(op)),
        }
        Ok(Step::Next(1))
    }

    fn juggle(&mut self) -> Result<()> {
        self.juggled += 1;
        match self.juggled <= MAX_JUGGLED {
            true => Ok(()),
            false => Err(ReadErrorKind::Limit(
                "number of opcodes that drop or double",
                u64::from(MAX_JUGGLED),
            )),
        }
    }

    fn get(&mut self, index: usize) -> Result<()> {
        let memo = self.memo.get(index).ok_or(ReadErrorKind::Malformed(
            "it refers to an object that was never remembered",
        ))?;
        let value = memo.value().ok_or(ReadErrorKind::Shape(
            "one event, block or segment is used in two places",
        ))?;
        self.stack.push(value);
        Ok(())
    }

    fn memoize(&mut self, index: usize) -> Result<()> {
        let top = self.stack.last_mut().ok_or(UNDERFLOW)?;
        match top {
            Value::OpenDict(memo) | Value::OpenList(memo) => *memo = index as u32,
            _ => {}
        }
        let entry = Memo::of(*top);
        // Picklers number what they remember 0, 1, 2 …: a larger number is an attempt to use up our
        // memory.
        match index.cmp(&self.memo.len()) {
            std::cmp::Ordering::Less => {
                self.memo[index] = entry;
                self.shape.forget();
            }
            std::cmp::Ordering::Equal if index < self.limits.memo => self.memo.push(entry),
            std::cmp::Ordering::Equal => {
                return Err(ReadErrorKind::Limit(
                    "remembered objects",
                    self.limits.memo as u64,
                ));
            }
            std::cmp::Ordering::Greater => {
                return Err(ReadErrorKind::Malformed(
                    "it remembers objects out of order",
                ));
            }
        }
        Ok(())
    }

    fn pop_mark(&mut self) -> Result<usize> {
        let mark = self
            .marks
            .pop()
            .ok_or(ReadErrorKind::Malformed("a mark is missing"))?;
        // An opcode may have removed values from below the mark.
        if mark > self.stack.len() {
            return Err(UNDERFLOW);
        }
        Ok(mark)
    }

    /// The stack entries from `from` on are pairs for the dictionary below them.
    fn set_items(&mut self, from: usize, builder: &mut Builder) -> Result<()> {
        let below = from.checked_sub(1).ok_or(UNDERFLOW)?;
        let dict = self.stack[below];
        let value = builder.set_items(dict, &self.stack[from..])?;
        self.replace(below, dict, value);
        Ok(())
    }

    /// The stack entries from `from` on are items for the list below them.
    fn append(&mut self, from: usize, builder: &mut Builder) -> Result<()> {
        let below = from.checked_sub(1).ok_or(UNDERFLOW)?;
        let list = self.stack[below];
        let value = builder.append(list, &self.stack[from..])?;
        self.replace(below, list, value);
        Ok(())
    }

    /// Replaces `before` by `after` on the stack and in the memo, and drops everything above it.
    fn replace(&mut self, at: usize, before: Value, after: Value) {
        self.stack.truncate(at + 1);
        self.stack[at] = after;
        if let Value::OpenDict(memo)
        | Value::OpenList(memo)
        | Value::Stack(_, memo)
        | Value::Growing(_, memo) = before
            && let Some(entry) = self.memo.get_mut(memo as usize)
        {
            // A hostile file may double an empty dictionary, and fill it twice.
            if entry.frame().is_some() {
                self.shape.forget();
            }
            *entry = Memo::of(after);
        }
    }

    fn tuple(&mut self, from: usize, builder: &mut Builder) -> Result<()> {
        let value = builder.tuple(&self.stack[from..]);
        self.stack.truncate(from);
        self.stack.push(value);
        Ok(())
    }

    /// A little-endian two's complement integer of `n` bytes after `head` bytes of opcode.
    fn long(&mut self, buf: &[u8], head: usize, n: usize) -> Result<Step> {
        // Nine bytes occur: a pointer of 2^63 or more has an extra zero byte for the sign
        // (#115234).
        if n > 9 && self.stack.is_empty() && self.memo.is_empty() {
            return Err(ReadErrorKind::Shape(
                "it starts with a number, like a model of an old torch.save",
            ));
        }
        if n > LONGEST_INTEGER {
            return Err(ReadErrorKind::Limit(
                "bytes of an integer",
                LONGEST_INTEGER as u64,
            ));
        }
        let Some(bytes) = buf.get(head..head + n) else {
            return Ok(Step::More(head + n));
        };
        if n > 9 {
            self.stack.push(Value::Huge);
            return Ok(Step::Next(head + n));
        }
        let mut word = [0_u8; 16];
        word[..n].copy_from_slice(bytes);
        if bytes.last().is_some_and(|b| b & 0x80 != 0) {
            word[n..].fill(0xff);
        }
        let number = i128::from_le_bytes(word);
        let value = match (i64::try_from(number), u64::try_from(number)) {
            (Ok(small), _) => Value::Int(small),
            (_, Ok(big)) => Value::Big(big),
            _ => Value::Huge,
        };
        self.stack.push(value);
        Ok(Step::Next(head + n))
    }

    fn string(&mut self, buf: &[u8], head: usize, n: u64, builder: &mut Builder) -> Result<Step> {
        if n > self.limits.string as u64 {
            return Err(ReadErrorKind::Limit(
                "length of a string",
                self.limits.string as u64,
            ));
        }
        let end = head + n as usize;
        let Some(bytes) = buf.get(head..end) else {
            return Ok(Step::More(end));
        };
        let value = Value::Str(builder.interner.bytes(bytes)?);
        self.stack.push(value);
        Ok(Step::Next(end))
    }

    /// Whether the name of a class on the stack is one of Python's `collections`.
    fn is_collection(&self, builder: &Builder) -> bool {
        let Some([Value::Str(module), Value::Str(_)]) = self.stack.last_chunk() else {
            return false;
        };
        builder.interner.stacks.str(*module) == "collections"
    }

    /// The document's root, its protocol, and how many bytes followed it.
    ///
    /// # Errors
    /// When the pickle is not complete.
    pub fn finish(self) -> std::result::Result<(Value, Option<u8>, u64), ReadError> {
        match self.root {
            Some(root) => Ok((root, self.protocol, self.trailing)),
            None => Err(ReadError {
                offset: self.offset + self.carry.len() as u64,
                kind: ReadErrorKind::Truncated,
            }),
        }
    }
}

/// The longest integer that is read, bytes: Python writes longer ones with another opcode.
const LONGEST_INTEGER: usize = 255;

/// The error for an opcode that is not in the table above.
fn refused(op: u8) -> ReadErrorKind {
    ReadErrorKind::Code(match op {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        b'C' | b'B' | 0x8e | 0x96 | b'T' | b'U' => {
            return ReadErrorKind::Shape("raw bytes, which no snapshot holds");
        }
        0x97 | 0x98 => return ReadErrorKind::Shape("out-of-band buffers, which no snapshot holds"),
        0x8f..=0x91 => return ReadErrorKind::Shape("a set, which no snapshot holds"),
        b'F' | b'I' | b'L' | b'S' | b'V' | b'g' | b'p' => {
            return ReadErrorKind::Malformed("text opcodes of protocol 0, which no torch writes");
        }
        other => return ReadErrorKind::UnknownOpcode(other),
    })
}
