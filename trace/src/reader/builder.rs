//! The tables that grow while a file is read.
//!
//! Both parsers (pickle, JSON) use this. A dictionary becomes a row as soon as it is complete, and
//! a list of rows becomes a range of them. So the graph of objects is never built: memory grows
//! with the number of distinct stacks and of events, not with the frames that they repeat.

use super::generic::Arena;
use super::growing::Growing;
use super::interner::{EMPTY, Interner};
use super::keys::Key;
use super::values::{Fields, Result, Rows, Table, Value};
use super::{Limits, ReadErrorKind};
use crate::footprint::{growth_soon, of_map, of_vec};
use crate::snapshot::{EventKind, RawAnnotation, RawBlock, RawEvents, RawSegment};
use crate::stacks::{Frame, FrameIdx, FxHashMap, StackIdx, StrIdx};
use std::collections::HashMap;

/// One entry of a torch 2.0 block's `history`.
#[derive(Clone, Copy, Debug)]
pub struct History {
    pub real_size: u64,
    pub stack: StackIdx,
}

/// The tables that grow while a file is read.
pub struct Builder {
    pub(super) limits: Limits,
    pub(super) interner: Interner,
    pub(super) kinds: Vec<EventKind>,
    /// By a keyed hash of the kind.
    pub(super) kind_ids: FxHashMap<u64, u32>,
    /// Kinds seen recently, by a fast hash.
    pub(super) recent_kinds: Vec<u32>,
    /// The sizes of all events, blocks and segments, summed.
    pub(super) total_size: u64,
    pub(super) events: RawEvents,
    pub(super) blocks: Vec<RawBlock>,
    pub(super) segments: Vec<RawSegment>,
    pub(super) annotations: Vec<RawAnnotation>,
    pub(super) histories: Vec<History>,
    pub(super) pairs: Vec<(i64, i64)>,
    pub(super) dicts: Arena,
    pub(super) lists: Arena,
    pub(super) unknown: UnknownWords,
    pub(super) unknown_actions: UnknownWords,
    pub(super) keys_seen: u64,
    pub(super) fields: Fields,
    pub(super) growing: Growing,
    /// Frames of the list that becomes a stack; kept to reuse its memory.
    pub(super) frames: Vec<FrameIdx>,
}

/// Slots for kinds seen recently.
pub(super) const RECENT_KINDS: usize = 1 << 14;

/// If a dictionary that is set key by key has more keys than this, its shape counts as unknown.
const MAX_ROW_KEYS: usize = 64;

impl Builder {
    pub fn new(limits: Limits) -> Builder {
        Builder {
            limits,
            interner: Interner::new(limits),
            kinds: Vec::new(),
            kind_ids: FxHashMap::default(),
            recent_kinds: vec![0; RECENT_KINDS],
            total_size: 0,
            events: RawEvents::default(),
            blocks: Vec::new(),
            segments: Vec::new(),
            annotations: Vec::new(),
            histories: Vec::new(),
            pairs: Vec::new(),
            dicts: Arena::default(),
            lists: Arena::default(),
            unknown: UnknownWords::default(),
            unknown_actions: UnknownWords::default(),
            keys_seen: 0,
            fields: Fields::new(),
            growing: Growing::default(),
            frames: Vec::new(),
        }
    }

    pub fn events_read(&self) -> usize {
        self.events.kind.len()
    }

    /// Heap bytes that it uses, as the allocator counts them.
    pub fn memory_used(&self) -> usize {
        self.interner.memory_used() + self.tables()
    }

    /// Bytes of all tables but the interner's.
    fn tables(&self) -> usize {
        self.events.heap_bytes()
            + of_vec(&self.kinds)
            + of_map(&self.kind_ids)
            + of_vec(&self.recent_kinds)
            + of_vec(&self.blocks)
            + of_vec(&self.segments)
            + of_vec(&self.annotations)
            + of_vec(&self.histories)
            + of_vec(&self.pairs)
            + self.dicts.heap_bytes()
            + self.lists.heap_bytes()
            + of_map(&self.unknown.counts)
            + of_map(&self.unknown_actions.counts)
            + self.growing.heap_bytes()
            + of_vec(&self.frames)
    }

    /// Bytes that tables will request at their next move, if that is soon.
    pub fn moves_soon(&self) -> usize {
        self.interner.moves_soon() + growth_soon(&self.kind_ids)
    }

    /// Tells the tables that grow by doubling how much memory everything else takes; `parser` is
    /// the parser's part.
    pub fn look_at_memory(&mut self, parser: usize) {
        self.interner.elsewhere = parser + self.tables();
    }

    /// Interns a string.
    #[inline]
    pub fn string(&mut self, text: &str) -> Result<Value> {
        Ok(Value::Str(self.interner.string(text)?))
    }

    /// A tuple: two integers make a pair; everything else is a list of unknown shape.
    pub fn tuple(&mut self, items: &[Value]) -> Value {
        if let [Value::Int(a), Value::Int(b)] = *items {
            return self.pair(a, b);
        }
        self.generic_list(items)
    }

    pub(super) fn pair(&mut self, a: i64, b: i64) -> Value {
        // Nearly every pair is one of a few pool ids, and most often the same as the one before.
        let recent = self
            .pairs
            .iter()
            .rev()
            .take(16)
            .position(|&pair| pair == (a, b));
        let index = match recent {
            Some(back) => self.pairs.len() - 1 - back,
            None => {
                self.pairs.push((a, b));
                self.pairs.len() - 1
            }
        };
        Value::Pair(index as u32)
    }

    fn generic_list(&mut self, items: &[Value]) -> Value {
        let list = self.lists.begin();
        items
            .iter()
            .for_each(|&item| self.lists.push(list, EMPTY, item));
        Value::List(list)
    }

    /// `list` extended by `items`: the new value of the list.
    pub fn append(&mut self, list: Value, items: &[Value]) -> Result<Value> {
        if !items.iter().any(|item| matches!(item, Value::Dict(_))) {
            return self.append_complete(list, items);
        }
        // Dictionaries that were set key by key are complete once they are put into a list.
        let mut complete = items.to_vec();
        for item in &mut complete {
            if let Value::Dict(index) = *item {
                *item = self.completed(index)?;
            }
        }
        self.append_complete(list, &complete)
    }

    fn append_complete(&mut self, list: Value, items: &[Value]) -> Result<Value> {
        let Some(&first) = items.first() else {
            return Ok(list);
        };
        match (list, first) {
            (Value::OpenList(_), Value::Frame(_)) => self.stack(list, items),
            (Value::OpenList(_), Value::Str(_)) if all_strings(items) => {
                self.stack_of_strings(list, items)
            }
            (Value::OpenList(_), Value::Row(table, start)) => {
                joined(table, Rows { start, end: start }, items)
            }
            (Value::OpenList(_), Value::Int(a)) if items.len() == 2 => match items[1] {
                Value::Int(b) => Ok(self.pair(a, b)),
                _ => Ok(self.generic_list(items)),
            },
            (Value::OpenList(_), _) => Ok(self.generic_list(items)),
            (Value::Stack(..) | Value::Growing(..), Value::Frame(_)) => self.stack(list, items),
            (Value::Stack(..) | Value::Growing(..), _) if all_strings(items) => {
                self.stack_of_strings(list, items)
            }
            // A list of strings and other things, under an unknown key: nobody uses its content.
            (Value::Stack(..) | Value::Growing(..), _) if self.is_of_strings(list) => {
                Ok(self.generic_list(items))
            }
            (Value::Stack(..) | Value::Growing(..), _) => Err(NO_FRAME),
            (Value::Rows(table, rows), _) => joined(table, rows, items),
            (Value::List(index), _) => {
                items
                    .iter()
                    .for_each(|&item| self.lists.push(index, EMPTY, item));
                Ok(list)
            }
            (Value::Pair(index), _) => {
                let (a, b) = self.pairs[index as usize];
                Ok(self.generic_list(&[&[Value::Int(a), Value::Int(b)], items].concat()))
            }
            _ => Err(ReadErrorKind::Malformed(
                "items are appended to something that is not a list",
            )),
        }
    }

    /// The list `start` followed by `items`.
    fn stack(&mut self, start: Value, items: &[Value]) -> Result<Value> {
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        for item in items {
            match *item {
                Value::Frame(frame) => frames.push(frame),
                _ => return Err(NO_FRAME),
            }
        }
        let list = self.grown(start, &frames);
        self.frames = frames;
        list
    }

    /// The list `start` followed by `frames`.
    fn grown(&mut self, start: Value, frames: &[FrameIdx]) -> Result<Value> {
        match start {
            Value::Stack(stack, memo) => {
                let list = self.growing.begin(&mut self.interner, stack, frames)?;
                Ok(Value::Growing(list, memo))
            }
            Value::Growing(list, _) => {
                self.growing.extend(&mut self.interner, list, frames)?;
                Ok(start)
            }
            Value::OpenList(memo) => Ok(Value::Stack(self.interner.stack(frames)?, memo)),
            _ => Err(NO_FRAME),
        }
    }

    /// A value of a dictionary that is complete: its lists are, too.
    pub(super) fn settled(&mut self, value: Value) -> Result<Value> {
        match value {
            Value::Growing(list, memo) => {
                let stack = self.growing.stack(&mut self.interner, list)?;
                Ok(Value::Stack(stack, memo))
            }
            other => Ok(other),
        }
    }

    /// `forward_frames`: a list of strings, kept as a stack whose frames have only a name.
    fn stack_of_strings(&mut self, start: Value, items: &[Value]) -> Result<Value> {
        let names = items.iter().filter_map(|item| match *item {
            Value::Str(name) => Some(name),
            _ => None,
        });
        let nameless_file = |name| Frame {
            name,
            filename: EMPTY,
            line: 0,
        };
        let frames = names.map(|name| self.interner.frame(nameless_file(name)));
        let frames: Vec<FrameIdx> = frames.collect::<Result<_>>()?;
        self.grown(start, &frames)
    }

    fn is_of_strings(&self, list: Value) -> bool {
        let stack = match list {
            Value::Stack(stack, _) => stack,
            Value::Growing(list, _) => self.growing.start(list),
            _ => return false,
        };
        let stacks = &self.interner.stacks;
        let first = stacks.frames(stack).first().map(|&idx| stacks.frame(idx));
        first.is_some_and(|frame| frame.filename == EMPTY && frame.line == 0)
    }

    /// `dict` with `pairs` (key, value, key, value …) set: the new value of the dictionary.
    pub fn set_items(&mut self, dict: Value, pairs: &[Value]) -> Result<Value> {
        if !pairs.len().is_multiple_of(2) {
            return Err(ReadErrorKind::Malformed(
                "a dictionary has a key without a value",
            ));
        }
        match dict {
            // A single key: the others may follow one by one. Putting the dictionary into a list
            // completes it.
            Value::OpenDict(_) if pairs.len() == 2 => self.generic_dict(pairs),
            Value::OpenDict(_) => match self.row_of(pairs)? {
                Some(row) => Ok(row),
                None => self.generic_dict(pairs),
            },
            Value::Dict(index) => {
                self.extend_dict(index, pairs)?;
                Ok(dict)
            }
            Value::Row(..) | Value::Frame(_) => Err(ReadErrorKind::Shape(
                "a finished dictionary is changed later",
            )),
            _ => Err(ReadErrorKind::Malformed(
                "keys are set in something that is not a dictionary",
            )),
        }
    }

    fn row_of(&mut self, pairs: &[Value]) -> Result<Option<Value>> {
        self.fields.clear();
        let mut unknown_from = None;
        for (at, pair) in pairs.chunks_exact(2).enumerate() {
            match key(pair[0]) {
                Some(known) => {
                    let value = self.settled(pair[1])?;
                    self.fields.set(known, value);
                }
                None => unknown_from = unknown_from.or(Some(at)),
            }
        }
        let row = self.row()?;
        if row.is_some() {
            self.keys_seen |= self.fields.seen();
            if let Some(from) = unknown_from {
                self.count_unknown(&pairs[from * 2..])?;
            }
        }
        Ok(row)
    }

    /// What a dictionary that was set key by key becomes: a row, or it stays a dictionary.
    fn completed(&mut self, index: u32) -> Result<Value> {
        // A hostile list may hold the same huge dictionary very often.
        if self.dicts.len(index) > MAX_ROW_KEYS {
            return Ok(Value::Dict(index));
        }
        let entries = self.dicts.iter(index);
        let pairs: Vec<Value> = entries
            .flat_map(|(key, value)| [Value::Str(key), value])
            .collect();
        let row = self.row_of(&pairs)?;
        // Frames may be referred to again; other objects that became a row may not.
        if matches!(row, Some(Value::Row(..))) {
            self.dicts.forget_last(index);
        }
        Ok(row.unwrap_or(Value::Dict(index)))
    }

    fn generic_dict(&mut self, pairs: &[Value]) -> Result<Value> {
        let index = self.dicts.begin();
        self.extend_dict(index, pairs)?;
        Ok(Value::Dict(index))
    }

    fn extend_dict(&mut self, index: u32, pairs: &[Value]) -> Result<()> {
        for pair in pairs.chunks_exact(2) {
            let key = self.key_text(pair[0])?;
            self.dicts.push(index, key, pair[1]);
        }
        Ok(())
    }

    /// The text of a dictionary's key. A newer PyTorch may have dictionaries with other keys than
    /// strings somewhere: they are keys that we do not know.
    fn key_text(&mut self, key: Value) -> Result<StrIdx> {
        match key {
            Value::Str(key) => Ok(key),
            _ => self.interner.string(NO_STRING),
        }
    }

    fn count_unknown(&mut self, pairs: &[Value]) -> Result<()> {
        for pair in pairs.chunks_exact(2) {
            let key = self.key_text(pair[0])?;
            if Key::at(key.0).is_none() {
                self.unknown.count(key);
            }
        }
        Ok(())
    }
}

/// Keys or actions that this version does not know, and how often each occurred.
#[derive(Default)]
pub struct UnknownWords {
    pub counts: HashMap<StrIdx, u64>,
    /// Occurrences of words beyond the first [`UnknownWords::MAX`].
    pub others: u64,
}

impl UnknownWords {
    /// How many unknown words are counted separately; a new version of PyTorch adds a few.
    pub const MAX: usize = 256;

    pub fn count(&mut self, word: StrIdx) {
        if let Some(known) = self.counts.get_mut(&word) {
            *known += 1;
        } else if self.counts.len() < UnknownWords::MAX {
            self.counts.insert(word, 1);
        } else {
            self.others += 1;
        }
    }
}

const NO_FRAME: ReadErrorKind = ReadErrorKind::Shape("a stack holds something that is not a frame");
/// What a key that is no string is called among the unknown ones.
pub(super) const NO_STRING: &str = "a key that is no string";

/// The known key that a dictionary's key is.
fn key(key: Value) -> Option<Key> {
    match key {
        Value::Str(key) => Key::at(key.0),
        _ => None,
    }
}

fn all_strings(items: &[Value]) -> bool {
    items.iter().all(|item| matches!(item, Value::Str(_)))
}

/// `rows` followed by the rows of `items`, which must come directly after them.
fn joined(table: Table, mut rows: Rows, items: &[Value]) -> Result<Value> {
    for &item in items {
        if item != Value::Row(table, rows.end) {
            return Err(ReadErrorKind::Shape(
                "a list mixes entries of different kinds, or holds one twice",
            ));
        }
        rows.end += 1;
    }
    Ok(Value::Rows(table, rows))
}
