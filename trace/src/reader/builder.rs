//! Values on the parser's stack, and the columns that finished dictionaries turn into.
//!
//! Both parsers (pickle, JSON) drive this. A dictionary becomes a row the moment it is complete,
//! and a list of rows becomes a range of them, so the object graph is never built: memory is
//! proportional to distinct stacks and events, not to the frames they repeat.

use super::keys::{ACTIONS, KEYS, Key, action_at};
use super::{Limits, ReadErrorKind};
use crate::snapshot::{
    BlockState, EventKind, KeysSeen, RawAnnotation, RawBlock, RawEvents, RawSegment, Snapshot,
    Stage,
};
use crate::stacks::{Frame, FrameIdx, FxHashMap, StackIdx, Stacks, StrIdx, fx_hash};
use crate::time::TimeColumn;
use crate::trace::{PoolId, PoolSize};
use crate::units::{Bytes, DeviceAddr, Micros};
use std::hash::Hasher;
use std::ops::Range;

type Result<T> = std::result::Result<T, ReadErrorKind>;

/// No memo entry names this object.
pub const NO_MEMO: u32 = u32::MAX;

/// Rows `[start, end)` of one of the builder's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    start: u32,
    end: u32,
}

impl Rows {
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// What a complete dictionary became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// An entry of a device's trace.
    Event,
    /// A block of a segment.
    Block,
    /// A segment.
    Segment,
    /// Start or end of a scope.
    Annotation,
    /// An entry of a torch 2.0 block's `history`.
    History,
}

/// A value on the parser's stack. Sixteen bytes, copied freely: what it names lives in tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// `None`, an unknown object, or a dictionary that was already made a row.
    None,
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above `i64::MAX`.
    Big(u64),
    /// A float.
    Float(f64),
    /// A string.
    Str(StrIdx),
    /// Two integers: a pool id. An index into the pairs.
    Pair(u32),
    /// A frame.
    Frame(FrameIdx),
    /// A list of frames, and its memo entry.
    Stack(StackIdx, u32),
    /// An empty dictionary, and its memo entry.
    OpenDict(u32),
    /// An empty list, and its memo entry.
    OpenList(u32),
    /// A dictionary of no known shape.
    Dict(u32),
    /// A list or tuple of no known shape.
    List(u32),
    /// One row of a table: a dictionary that is complete.
    Row(Table, u32),
    /// Consecutive rows of a table: a list of such dictionaries.
    Rows(Table, Rows),
}

/// One entry of a torch 2.0 block's `history`.
#[derive(Clone, Copy, Debug)]
struct History {
    real_size: u64,
    stack: StackIdx,
}

/// Fields of the dictionary being finished, by key.
struct Fields {
    values: [Value; KEYS.len()],
    seen: u64,
}

impl Fields {
    fn has(&self, key: Key) -> bool {
        self.seen & key.bit() != 0
    }

    fn get(&self, key: Key) -> Value {
        if self.has(key) {
            self.values[key as usize]
        } else {
            Value::None
        }
    }

    fn has_all(&self, keys: &[Key]) -> bool {
        keys.iter().all(|&key| self.has(key))
    }

    /// A non-negative number; 0 when absent.
    fn unsigned(&self, key: Key) -> Result<u64> {
        match self.get(key) {
            Value::Int(n) => {
                u64::try_from(n).map_err(|_| ReadErrorKind::Malformed("a size is negative"))
            }
            Value::Big(n) => Ok(n),
            Value::None => Ok(0),
            _ => Err(ReadErrorKind::Shape("a number was expected")),
        }
    }

    /// A number of bytes, at most `i64::MAX`, because it is stored as one.
    fn bytes(&self, key: Key) -> Result<Bytes> {
        let n = self.unsigned(key)?;
        // Sums of sizes must not overflow either: 2^48 is 256 TiB, the whole address space.
        if n > 1 << 48 {
            return Err(ReadErrorKind::Malformed("a size exceeds 256 TiB"));
        }
        Ok(Bytes(n))
    }

    /// A raw handle: negative ones keep their bits.
    fn handle(&self, key: Key) -> u64 {
        match self.get(key) {
            Value::Int(n) => n as u64,
            Value::Big(n) => n,
            _ => 0,
        }
    }

    fn stack(&self, key: Key) -> StackIdx {
        match self.get(key) {
            Value::Stack(stack, _) => stack,
            _ => StackIdx::NONE,
        }
    }

    fn str(&self, key: Key) -> Option<StrIdx> {
        match self.get(key) {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }

    fn time(&self) -> Micros {
        match self.get(Key::TimeUs) {
            Value::Int(t) => Micros(t),
            _ => Micros(0),
        }
    }
}

/// Interns strings; short ones, which are nearly all, through a direct-mapped cache.
struct StringTable {
    by_hash: FxHashMap<u64, Vec<StrIdx>>,
    short: Vec<(u64, StrIdx)>,
}

const SHORT_SLOTS: usize = 1 << 10;

/// The tables that grow while a file is read.
pub struct Builder {
    limits: Limits,
    strings: StringTable,
    stacks: Stacks,
    frames: FxHashMap<Frame, FrameIdx>,
    stack_by_hash: FxHashMap<u64, StackIdx>,
    kinds: Vec<EventKind>,
    kind_ids: FxHashMap<EventKind, u32>,
    events: RawEvents,
    blocks: Vec<RawBlock>,
    segments: Vec<RawSegment>,
    annotations: Vec<RawAnnotation>,
    histories: Vec<History>,
    pairs: Vec<(i64, i64)>,
    dicts: Vec<Vec<(StrIdx, Value)>>,
    lists: Vec<Vec<Value>>,
    generic_len: usize,
    unknown: FxHashMap<StrIdx, u64>,
    keys_seen: u64,
    fields: Fields,
    empty: StrIdx,
    not_applicable: StrIdx,
}

impl Builder {
    pub fn new(limits: Limits) -> Builder {
        let mut builder = Builder {
            limits,
            strings: StringTable {
                by_hash: FxHashMap::default(),
                short: vec![(0, StrIdx(0)); SHORT_SLOTS],
            },
            stacks: Stacks::default(),
            frames: FxHashMap::default(),
            stack_by_hash: FxHashMap::default(),
            kinds: Vec::new(),
            kind_ids: FxHashMap::default(),
            events: RawEvents::default(),
            blocks: Vec::new(),
            segments: Vec::new(),
            annotations: Vec::new(),
            histories: Vec::new(),
            pairs: Vec::new(),
            dicts: Vec::new(),
            lists: Vec::new(),
            generic_len: 0,
            unknown: FxHashMap::default(),
            keys_seen: 0,
            fields: Fields {
                values: [Value::None; KEYS.len()],
                seen: 0,
            },
            empty: StrIdx(0),
            not_applicable: StrIdx(0),
        };
        for word in KEYS.iter().chain(&ACTIONS) {
            builder.string(word);
        }
        builder.empty = builder.string("");
        builder.not_applicable = builder.string("N/A");
        builder
    }

    pub fn events_read(&self) -> usize {
        self.events.kind.len()
    }

    /// Bytes held, estimated from lengths.
    pub fn memory_used(&self) -> usize {
        self.events.kind.len() * 16
            + self.stacks.strings.text_len()
            + self.stacks.strings.len() * 48
            + self.stacks.n_frames() * 48
            + self.stacks.n_members() * 4
            + self.stacks.len() * 32
            + self.kinds.len() * 160
            + self.blocks.len() * 40
            + self.segments.len() * 96
            + self.annotations.len() * 24
            + self.histories.len() * 16
            + self.pairs.len() * 16
            + (self.dicts.len() + self.lists.len()) * 24
            + self.generic_len * 24
    }

    /// Interns a string.
    pub fn string(&mut self, text: &str) -> StrIdx {
        if text.len() > 8 {
            return self.long_string(text);
        }
        // Length in the top byte would collide with an eighth character: mix it into the slot and
        // compare text on a hit instead.
        let mut word = [0_u8; 8];
        word[..text.len()].copy_from_slice(text.as_bytes());
        let word = u64::from_le_bytes(word);
        let slot = (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize & (SHORT_SLOTS - 1);
        let (cached, idx) = self.strings.short[slot];
        let known = cached == word && !self.stacks.strings.is_empty();
        if known && self.stacks.strings.get(idx) == text {
            return idx;
        }
        let idx = self.long_string(text);
        self.strings.short[slot] = (word, idx);
        idx
    }

    fn long_string(&mut self, text: &str) -> StrIdx {
        let same = self.strings.by_hash.entry(fx_hash(text)).or_default();
        let strings = &mut self.stacks.strings;
        if let Some(&idx) = same.iter().find(|&&idx| strings.get(idx) == text) {
            return idx;
        }
        let idx = strings.push(text);
        same.push(idx);
        idx
    }

    /// A tuple: two integers make a pair, anything else a list of no known shape.
    pub fn tuple(&mut self, items: &[Value]) -> Value {
        if let [Value::Int(a), Value::Int(b)] = *items {
            return self.pair(a, b);
        }
        self.generic_list(items)
    }

    fn pair(&mut self, a: i64, b: i64) -> Value {
        // Nearly every pair is one of a handful of pool ids, and most often the one just seen.
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
        self.lists.push(items.to_vec());
        self.generic_len += items.len();
        Value::List((self.lists.len() - 1) as u32)
    }

    /// `list` extended by `items`: the new value of the list.
    pub fn append(&mut self, list: Value, items: &[Value]) -> Result<Value> {
        let Some(&first) = items.first() else {
            return Ok(list);
        };
        match (list, first) {
            (Value::OpenList(memo), Value::Frame(_)) => self.stack(StackIdx::NONE, memo, items),
            (Value::OpenList(memo), Value::Str(_)) => self.stack_of_strings(memo, items),
            (Value::OpenList(_), Value::Row(table, start)) => {
                joined(table, Rows { start, end: start }, items)
            }
            (Value::OpenList(_), Value::Int(a)) if items.len() == 2 => match items[1] {
                Value::Int(b) => Ok(self.pair(a, b)),
                _ => Ok(self.generic_list(items)),
            },
            (Value::OpenList(_), _) => Ok(self.generic_list(items)),
            (Value::Stack(stack, memo), _) => self.stack(stack, memo, items),
            (Value::Rows(table, rows), _) => joined(table, rows, items),
            (Value::List(index), _) => {
                self.lists[index as usize].extend_from_slice(items);
                self.generic_len += items.len();
                Ok(list)
            }
            _ => Err(ReadErrorKind::Malformed(
                "items are appended to something that is no list",
            )),
        }
    }

    /// The stack `start` followed by `items`.
    fn stack(&mut self, start: StackIdx, memo: u32, items: &[Value]) -> Result<Value> {
        let mut hasher = crate::stacks::FxHasher::default();
        let before = self.stacks.frames(start);
        let n = before.len() + items.len();
        if n > self.limits.stack_frames {
            return Err(ReadErrorKind::Limit(
                "frames of a stack",
                self.limits.stack_frames as u64,
            ));
        }
        before.iter().for_each(|frame| hasher.write_u32(frame.0));
        for item in items {
            let Value::Frame(frame) = item else {
                return Err(ReadErrorKind::Shape(
                    "a stack holds something that is no frame",
                ));
            };
            hasher.write_u32(frame.0);
        }
        let hash = hasher.finish() ^ n as u64;
        let new = items.iter().filter_map(|item| match item {
            Value::Frame(frame) => Some(*frame),
            _ => None,
        });
        // Equal hashes of different stacks chain by re-hashing: no list per hash is needed.
        let mut key = hash;
        while let Some(&known) = self.stack_by_hash.get(&key) {
            let frames = self.stacks.frames(known);
            let same = frames.len() == n
                && frames[..n - items.len()] == *self.stacks.frames(start)
                && frames[n - items.len()..].iter().copied().eq(new.clone());
            if same {
                return Ok(Value::Stack(known, memo));
            }
            key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        let mut frames = self.stacks.frames(start).to_vec();
        frames.extend(new);
        let stack = self.stacks.push_stack(&frames);
        self.stack_by_hash.insert(key, stack);
        Ok(Value::Stack(stack, memo))
    }

    /// `forward_frames`: a list of strings, kept as a stack of frames that have only a name.
    fn stack_of_strings(&mut self, memo: u32, items: &[Value]) -> Result<Value> {
        if !items.iter().all(|item| matches!(item, Value::Str(_))) {
            return Ok(self.generic_list(items));
        }
        let frames: Vec<Value> = items
            .iter()
            .filter_map(|item| match *item {
                Value::Str(name) => Some(Frame {
                    name,
                    filename: self.empty,
                    line: 0,
                }),
                _ => None,
            })
            .collect::<Vec<_>>()
            .into_iter()
            .map(|frame| Value::Frame(self.frame(frame)))
            .collect();
        self.stack(StackIdx::NONE, memo, &frames)
    }

    fn frame(&mut self, frame: Frame) -> FrameIdx {
        let stacks = &mut self.stacks;
        *self
            .frames
            .entry(frame)
            .or_insert_with(|| stacks.push_frame(frame))
    }

    /// `dict` with `pairs` (key, value, key, value …) set: the new value of the dictionary.
    pub fn set_items(&mut self, dict: Value, pairs: &[Value]) -> Result<Value> {
        if !pairs.len().is_multiple_of(2) {
            return Err(ReadErrorKind::Malformed(
                "a dictionary has a key without a value",
            ));
        }
        match dict {
            Value::OpenDict(_) => self.finish_dict(pairs),
            Value::Dict(index) => {
                self.extend_dict(index, pairs)?;
                Ok(dict)
            }
            _ => Err(ReadErrorKind::Shape(
                "a finished dictionary is changed later",
            )),
        }
    }

    fn finish_dict(&mut self, pairs: &[Value]) -> Result<Value> {
        self.fields.seen = 0;
        let mut unknown_from = None;
        for (at, pair) in pairs.chunks_exact(2).enumerate() {
            let Value::Str(key) = pair[0] else {
                return Err(ReadErrorKind::Shape("a dictionary key is no string"));
            };
            match Key::at(key.0) {
                Some(known) => {
                    self.fields.values[known as usize] = pair[1];
                    self.fields.seen |= known.bit();
                }
                None => unknown_from = unknown_from.or(Some(at)),
            }
        }
        let row = self.row()?;
        match row {
            Some(value) => {
                self.keys_seen |= self.fields.seen;
                if let Some(from) = unknown_from {
                    self.count_unknown(&pairs[from * 2..]);
                }
                Ok(value)
            }
            None => {
                self.dicts.push(Vec::new());
                let index = (self.dicts.len() - 1) as u32;
                self.extend_dict(index, pairs)?;
                Ok(Value::Dict(index))
            }
        }
    }

    fn extend_dict(&mut self, index: u32, pairs: &[Value]) -> Result<()> {
        for pair in pairs.chunks_exact(2) {
            let Value::Str(key) = pair[0] else {
                return Err(ReadErrorKind::Shape("a dictionary key is no string"));
            };
            self.dicts[index as usize].push((key, pair[1]));
        }
        self.generic_len += pairs.len() / 2;
        Ok(())
    }

    fn count_unknown(&mut self, pairs: &[Value]) {
        for pair in pairs.chunks_exact(2) {
            if let Value::Str(key) = pair[0]
                && Key::at(key.0).is_none()
            {
                *self.unknown.entry(key).or_default() += 1;
            }
        }
    }

    /// Makes a row of the current fields, if they are those of something known.
    fn row(&mut self) -> Result<Option<Value>> {
        use Key::{Action, Address, Device, DeviceTraces, Filename, Name, RealSize, Segments};
        use Key::{Size, Stage, State, TotalSize};
        let fields = &self.fields;
        Ok(Some(if fields.has(Action) {
            self.event()?
        } else if fields.has_all(&[Filename, Name]) {
            self.frame_row()?
        } else if fields.has_all(&[State, Size]) {
            self.block()?
        } else if fields.has(TotalSize) {
            self.segment()?
        } else if fields.has_all(&[Stage, Name]) {
            self.annotation()?
        } else if fields.has(RealSize) {
            let history = History {
                real_size: fields.unsigned(RealSize)?,
                stack: fields.stack(Key::Frames),
            };
            Value::Row(Table::History, push_row(&mut self.histories, history)?)
        } else if fields.has(Segments) || fields.has(DeviceTraces) {
            return Ok(None);
        } else if fields.has_all(&[Address, Device]) {
            // A host segment: counted by its list's length, not kept.
            return Ok(None);
        } else {
            return Ok(None);
        }))
    }

    fn event(&mut self) -> Result<Value> {
        let fields = &self.fields;
        let action = match fields.get(Key::Action) {
            Value::Str(word) => action_at(word.0),
            _ => return Err(ReadErrorKind::Shape("an event's action is no string")),
        };
        let says_something = |s: &StrIdx| *s != self.empty && *s != self.not_applicable;
        let text = |key| fields.str(key).filter(says_something);
        let pool = match fields.get(Key::PoolId) {
            Value::Pair(index) => {
                let (a, b) = self.pairs[index as usize];
                Some(PoolId(a as u64, b as u64))
            }
            _ => None,
        };
        let kind = EventKind {
            action,
            size: fields.bytes(Key::Size)?,
            stream: fields.handle(Key::Stream),
            stack: fields.stack(Key::Frames),
            forward_stack: fields.stack(Key::ForwardFrames),
            pool,
            compile_context: text(Key::CompileContext),
            metadata: text(Key::UserMetadata)
                .or_else(|| text(Key::Category))
                .or_else(|| text(Key::InternalMetadata)),
        };
        let addr = if fields.has(Key::Addr) {
            Key::Addr
        } else {
            Key::DeviceFree
        };
        let (addr, time) = (fields.unsigned(addr)?, fields.time());
        let row = self.events.kind.len();
        if row >= self.limits.events {
            return Err(ReadErrorKind::Limit(
                "number of events",
                self.limits.events as u64,
            ));
        }
        let kinds = &mut self.kinds;
        let id = *self.kind_ids.entry(kind).or_insert_with(|| {
            kinds.push(kind);
            (kinds.len() - 1) as u32
        });
        self.events.kind.push(id);
        self.events.addr.push(addr);
        self.events.time.push(time);
        Ok(Value::Row(Table::Event, row as u32))
    }

    fn frame_row(&mut self) -> Result<Value> {
        let line = u32::try_from(self.fields.unsigned(Key::Line)?).unwrap_or(0);
        match (self.fields.get(Key::Name), self.fields.get(Key::Filename)) {
            (Value::Str(name), Value::Str(filename)) => Ok(Value::Frame(self.frame(Frame {
                name,
                filename,
                line,
            }))),
            _ => Err(ReadErrorKind::Shape("a frame's name or file is no string")),
        }
    }

    fn block(&mut self) -> Result<Value> {
        let fields = &self.fields;
        let state = match fields.str(Key::State).map(|s| self.stacks.str(s)) {
            Some("active_allocated") => BlockState::ActiveAllocated,
            Some("active_pending_free" | "active_awaiting_free") => BlockState::PendingFree,
            Some("inactive") => BlockState::Inactive,
            _ => return Err(ReadErrorKind::Shape("a block has an unknown state")),
        };
        let history = match fields.get(Key::History) {
            // Most recent first; older ones were freed before.
            Value::Rows(Table::History, rows) => self.histories.get(rows.start as usize).copied(),
            _ => None,
        };
        let stated = fields.bytes(Key::RequestedSize)?;
        let requested = match history {
            Some(history) if !fields.has(Key::RequestedSize) => Bytes(history.real_size),
            _ => stated,
        };
        let block = RawBlock {
            addr: DeviceAddr(fields.unsigned(Key::Address)?),
            size: fields.bytes(Key::Size)?,
            requested,
            state,
            stack: match fields.stack(Key::Frames) {
                StackIdx::NONE => history.map_or(StackIdx::NONE, |h| h.stack),
                stack => stack,
            },
        };
        Ok(Value::Row(Table::Block, push_row(&mut self.blocks, block)?))
    }

    fn segment(&mut self) -> Result<Value> {
        let fields = &self.fields;
        let blocks = match fields.get(Key::Blocks) {
            Value::Rows(Table::Block, rows) => rows.range(),
            _ => 0..0,
        };
        let pool_size = match fields.str(Key::SegmentType).map(|s| self.stacks.str(s)) {
            Some("small") => PoolSize::Small,
            _ => PoolSize::Large,
        };
        let pool = match fields.get(Key::SegmentPoolId) {
            Value::Pair(index) => {
                let (a, b) = self.pairs[index as usize];
                PoolId(a as u64, b as u64)
            }
            _ => PoolId::default(),
        };
        let segment = RawSegment {
            device: device(fields)?,
            addr: DeviceAddr(fields.unsigned(Key::Address)?),
            total_size: fields.bytes(Key::TotalSize)?,
            allocated_size: fields.bytes(Key::AllocatedSize)?,
            stream: fields.handle(Key::Stream),
            pool_size,
            pool,
            is_expandable: fields.get(Key::IsExpandable) == Value::Bool(true),
            blocks: blocks.clone(),
        };
        // torch 2.0 gives blocks no address: they tile the segment in order.
        let mut at = segment.addr.0;
        for block in &mut self.blocks[blocks] {
            if block.addr.0 == 0 {
                block.addr = DeviceAddr(at);
            }
            at = block.addr.0.saturating_add(block.size.0);
        }
        Ok(Value::Row(
            Table::Segment,
            push_row(&mut self.segments, segment)?,
        ))
    }

    fn annotation(&mut self) -> Result<Value> {
        let fields = &self.fields;
        let stage = match fields.str(Key::Stage).map(|s| self.stacks.str(s)) {
            Some("START") => Stage::Start,
            Some("END") => Stage::End,
            _ => {
                return Err(ReadErrorKind::Shape(
                    "an annotation is neither START nor END",
                ));
            }
        };
        let Some(name) = fields.str(Key::Name) else {
            return Err(ReadErrorKind::Shape("an annotation's name is no string"));
        };
        let annotation = RawAnnotation {
            name,
            stage,
            device: device(fields)?,
            time: fields.time(),
        };
        Ok(Value::Row(
            Table::Annotation,
            push_row(&mut self.annotations, annotation)?,
        ))
    }

    /// The snapshot, given the document's root.
    pub fn finish(mut self, root: Value) -> Result<Snapshot> {
        let Value::Dict(root) = root else {
            return Err(ReadErrorKind::Shape(
                "the file holds no dictionary at the top",
            ));
        };
        let top = std::mem::take(&mut self.dicts[root as usize]);
        let is = |key: Key| move |(k, _): &&(StrIdx, Value)| Key::at(k.0) == Some(key);
        let find = |key| top.iter().find(is(key)).map(|(_, value)| *value);
        let (segments, traces) = (find(Key::Segments), find(Key::DeviceTraces));
        if segments.is_none() && traces.is_none() {
            return Err(ReadErrorKind::Shape(
                "the dictionary has neither `segments` nor `device_traces`",
            ));
        }
        let keep = match segments {
            Some(Value::Rows(Table::Segment, rows)) => rows.range(),
            _ => 0..0,
        };
        let ranges = self.device_ranges(traces)?;
        let annotations = match find(Key::ExternalAnnotations) {
            Some(Value::Rows(Table::Annotation, rows)) => self.annotations[rows.range()].to_vec(),
            _ => Vec::new(),
        };
        let mut settings = Vec::new();
        if let Some(value) = find(Key::AllocatorSettings) {
            let mut budget = MAX_SETTINGS;
            self.flatten("", value, &mut budget, 0, &mut settings);
        }
        let host_entries = self.count(find(Key::HostSegments)) + self.count(find(Key::HostTraces));
        for (key, _) in &top {
            match Key::at(key.0) {
                Some(known) => self.keys_seen |= known.bit(),
                None => *self.unknown.entry(*key).or_default() += 1,
            }
        }
        if settings
            .iter()
            .any(|(name, _)| name == KEYS[Key::CaptureReuse as usize])
        {
            self.keys_seen |= Key::CaptureReuse.bit();
        }
        let text = |s: StrIdx| self.stacks.str(s).to_owned();
        let mut unknown_keys: Vec<_> = self
            .unknown
            .iter()
            .map(|(key, count)| (text(*key), *count))
            .collect();
        unknown_keys.sort();
        Ok(Snapshot {
            pickle_protocol: None,
            settings,
            stacks: self.stacks,
            kinds: self.kinds,
            devices: split(self.events, &ranges),
            segments: self.segments[keep].to_vec(),
            blocks: self.blocks,
            annotations,
            unknown_keys,
            host_entries,
            keys_seen: KeysSeen(self.keys_seen),
            trailing_bytes: 0,
        })
    }

    /// The rows of each device's trace.
    fn device_ranges(&self, traces: Option<Value>) -> Result<Vec<Range<usize>>> {
        let shape = ReadErrorKind::Shape("`device_traces` is no list of lists of events");
        let lists = match traces {
            None | Some(Value::OpenList(_)) => return Ok(Vec::new()),
            // A list that holds only empty lists, or events of several devices.
            Some(Value::List(index)) => &self.lists[index as usize],
            Some(_) => return Err(shape),
        };
        lists
            .iter()
            .map(|value| match value {
                Value::Rows(Table::Event, rows) => Ok(rows.range()),
                Value::OpenList(_) => Ok(0..0),
                _ => Err(shape.clone()),
            })
            .collect()
    }

    fn count(&self, value: Option<Value>) -> u64 {
        match value {
            Some(Value::Rows(_, rows)) => rows.range().len() as u64,
            Some(Value::List(index)) => self.lists[index as usize].len() as u64,
            _ => 0,
        }
    }

    /// `allocator_settings` as `name = text`, nested names joined by a dot.
    ///
    /// A hostile dictionary may hold itself many times over: `budget` bounds the visits.
    fn flatten(
        &self,
        name: &str,
        value: Value,
        budget: &mut usize,
        depth: u32,
        out: &mut Vec<(String, String)>,
    ) {
        if *budget == 0 {
            return;
        }
        *budget -= 1;
        let text = match value {
            Value::Dict(index) if depth < 4 => {
                for (key, value) in &self.dicts[index as usize] {
                    let key = self.stacks.str(*key);
                    let joined = if name.is_empty() {
                        key.to_owned()
                    } else {
                        format!("{name}.{key}")
                    };
                    self.flatten(&joined, *value, budget, depth + 1, out);
                }
                return;
            }
            Value::Bool(b) => b.to_string(),
            Value::Int(n) => n.to_string(),
            Value::Big(n) => n.to_string(),
            Value::Float(x) => x.to_string(),
            Value::Str(s) => self.stacks.str(s).to_owned(),
            _ => return,
        };
        out.push((name.to_owned(), text));
    }
}

/// Entries of `allocator_settings` that are looked at; PyTorch writes 24.
const MAX_SETTINGS: usize = 1024;

fn device(fields: &Fields) -> Result<u32> {
    // Annotations of torch carry -1 when no device was current.
    match fields.get(Key::Device) {
        Value::Int(n) => Ok(u32::try_from(n).unwrap_or(0)),
        Value::None => Ok(0),
        _ => Err(ReadErrorKind::Shape("a device is no number")),
    }
}

fn push_row<T>(table: &mut Vec<T>, row: T) -> Result<u32> {
    let index = u32::try_from(table.len())
        .map_err(|_| ReadErrorKind::Limit("rows of a table", u64::from(u32::MAX)))?;
    table.push(row);
    Ok(index)
}

/// `rows` followed by those of `items`, which must continue it.
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

/// One event table per device. The usual file has a single busy device, whose columns are moved.
fn split(events: RawEvents, ranges: &[Range<usize>]) -> Vec<RawEvents> {
    let all = 0..events.kind.len();
    let mut whole = Some(events);
    ranges
        .iter()
        .map(|range| {
            if *range == all
                && !range.is_empty()
                && let Some(events) = whole.take()
            {
                return events;
            }
            let Some(events) = &whole else {
                return RawEvents::default();
            };
            let mut time = TimeColumn::default();
            events
                .time
                .iter()
                .skip(range.start)
                .take(range.len())
                .for_each(|t| time.push(t));
            RawEvents {
                kind: events.kind[range.clone()].to_vec(),
                addr: events.addr[range.clone()].to_vec(),
                time,
            }
        })
        .collect()
}
