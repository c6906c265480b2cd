//! What a complete dictionary becomes: an event, a frame, a block, a segment, an annotation.

use super::ReadErrorKind;
use super::builder::{Builder, History, RECENT_KINDS};
use super::interner::{EMPTY, NEXT, NOT_APPLICABLE};
use super::keys::{Key, action_at};
use super::values::{Fields, MAX_SIZE, MAX_TOTAL_SIZE, Result, Table, Value, is_possible};
use crate::snapshot::{BlockState, EventKind, RawAnnotation, RawBlock, RawSegment, Stage};
use crate::stacks::{Frame, FxHasher, StackIdx, StrIdx};
use crate::trace::{Action, OtherEvent, PoolId, PoolSize};
use crate::units::{Bytes, DeviceAddr, Micros};
use std::hash::Hasher;

/// The error for a file whose sizes are so large that their sum overflows.
const TOO_LARGE: ReadErrorKind =
    ReadErrorKind::Malformed("all sizes together exceed 4 EiB, more than any program allocates");

/// The error for memory at an address that no device has.
const NO_ADDRESS: ReadErrorKind = ReadErrorKind::Malformed(
    "memory lies at an address that no device has: they have up to 57 bits",
);

impl Builder {
    /// Makes a row of the current fields, if they belong to something known.
    pub(super) fn row(&mut self) -> Result<Option<Value>> {
        use Key::{Filename, Name, RealSize, Size, Stage, State, TotalSize};
        let fields = &self.fields;
        Ok(Some(if fields.has(Key::Action) {
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
                real_size: fields.bytes(RealSize)?.get(),
                stack: fields.stack(Key::Frames),
            };
            Value::Row(Table::History, push_row(&mut self.histories, history)?)
        } else {
            return Ok(None);
        }))
    }

    pub(super) fn event(&mut self) -> Result<Value> {
        let fields = &self.fields;
        let Value::Str(word) = fields.get(Key::Action) else {
            return Err(ReadErrorKind::Shape("an event's action is not a string"));
        };
        let action = action_at(word.0);
        let pool = match fields.get(Key::PoolId) {
            Value::Pair(index) => Some(pool_id(self.pairs[index as usize])),
            _ => None,
        };
        let kind = EventKind {
            action,
            size: match action {
                Action::Oom => fields.refused_bytes(Key::Size)?,
                _ => fields.bytes(Key::Size)?,
            },
            stream: fields.handle(Key::Stream)?,
            stack: fields.stack(Key::Frames),
            forward_stack: fields.stack(Key::ForwardFrames),
            pool,
            compile_context: text(fields, Key::CompileContext),
            metadata: text(fields, Key::UserMetadata)
                .or_else(|| text(fields, Key::Category))
                .or_else(|| text(fields, Key::InternalMetadata)),
        };
        let addr = if fields.has(Key::Addr) {
            Key::Addr
        } else {
            Key::DeviceFree
        };
        let time = fields.time();
        let addr = match action {
            Action::Oom => fields.free_bytes(addr)?,
            _ => fields.handle(addr)?,
        };
        if !is_sound(&kind, addr) {
            return Err(NO_ADDRESS);
        }
        match self.push_event(&kind, addr, time) {
            Some(row) => {
                if action == Action::Unknown {
                    self.unknown_actions.count(word);
                }
                Ok(Value::Row(Table::Event, row))
            }
            None if self.events.kind.len() < self.limits.events => Err(TOO_LARGE),
            None => Err(ReadErrorKind::Limit(
                "number of events",
                self.limits.events as u64,
            )),
        }
    }

    /// Appends an event. Returns `None` and changes nothing if there are too many events, or too
    /// many bytes in them, or if no device has such an address.
    #[inline]
    pub(super) fn push_event(&mut self, kind: &EventKind, addr: u64, time: Micros) -> Option<u32> {
        let row = self.events.kind.len();
        let total = match kind.action {
            // Nothing was allocated.
            Action::Oom => self.total_size,
            _ => self.total_size + kind.size.0,
        };
        if row >= self.limits.events || total > MAX_TOTAL_SIZE || !is_sound(kind, addr) {
            return None;
        }
        self.total_size = total;
        let id = self.kind(kind);
        self.events.kind.push(id);
        self.events.addr.push(addr);
        self.events.time.push(time);
        Some(row as u32)
    }

    fn kind(&mut self, kind: &EventKind) -> u32 {
        let mut hasher = FxHasher::default();
        hasher.write_u64(kind.size.0 ^ u64::from(kind.action as u8) << 56);
        hasher.write_u64(u64::from(kind.stack.0) ^ kind.stream << 32);
        let slot = (hasher.finish() >> 48) as usize % RECENT_KINDS;
        // Two kinds that share a slot would push each other out in turn, so each has two places.
        // Without a loop over the two, which took 2 % of the instructions of reading.
        let recent = |place: usize| {
            let id = self.recent_kinds[place];
            (self.kinds.get(id as usize) == Some(kind)).then_some(id)
        };
        if let Some(known) = recent(slot).or_else(|| recent(slot ^ 1)) {
            return known;
        }
        let mut key = self.interner.keyed_hash(&words(kind));
        let id = loop {
            match self.kind_ids.get(&key) {
                Some(&known) if self.kinds[known as usize] == *kind => break known,
                Some(_) => key = key.wrapping_add(NEXT),
                None => {
                    let new = self.kinds.len() as u32;
                    self.kinds.push(*kind);
                    self.kind_ids.insert(key, new);
                    break new;
                }
            }
        };
        self.recent_kinds[slot ^ 1] = self.recent_kinds[slot];
        self.recent_kinds[slot] = id;
        id
    }

    fn frame_row(&mut self) -> Result<Value> {
        let line = self.fields.line();
        match (self.fields.get(Key::Name), self.fields.get(Key::Filename)) {
            (Value::Str(name), Value::Str(filename)) => {
                let frame = Frame {
                    name,
                    filename,
                    line,
                };
                Ok(Value::Frame(self.interner.frame(frame)?))
            }
            _ => Err(ReadErrorKind::Shape(
                "a frame's name or file is not a string",
            )),
        }
    }

    fn block(&mut self) -> Result<Value> {
        let fields = &self.fields;
        let state = match fields.str(Key::State).map(|s| self.word(s)) {
            Some("active_allocated") => BlockState::ActiveAllocated,
            Some("active_pending_free" | "active_awaiting_free") => BlockState::PendingFree,
            Some("inactive") => BlockState::Inactive,
            _ => return Err(ReadErrorKind::Shape("a block has an unknown state")),
        };
        let history = match fields.get(Key::History) {
            // The most recent comes first; blocks of older entries were freed before.
            Value::Rows(Table::History, rows) => self.histories.get(rows.start as usize).copied(),
            _ => None,
        };
        // torch 2.0 and older write it only where a history is recorded.
        let (requested, requested_known) = match history {
            _ if fields.has(Key::RequestedSize) => (fields.bytes(Key::RequestedSize)?, true),
            Some(history) => (Bytes(history.real_size), true),
            None if state == BlockState::Inactive => (Bytes(0), true),
            None => (fields.bytes(Key::Size)?, false),
        };
        let block = RawBlock {
            addr: DeviceAddr(fields.handle(Key::Address)?),
            size: fields.bytes(Key::Size)?,
            requested,
            requested_known,
            state,
            stack: match fields.stack(Key::Frames) {
                StackIdx::NONE => history.map_or(StackIdx::NONE, |h| h.stack),
                stack => stack,
            },
            metadata: text(fields, Key::UserMetadata).or_else(|| text(fields, Key::Category)),
        };
        self.add_size(block.size.max(block.requested))?;
        Ok(Value::Row(Table::Block, push_row(&mut self.blocks, block)?))
    }

    fn add_size(&mut self, size: Bytes) -> Result<()> {
        self.total_size += size.0;
        match self.total_size <= MAX_TOTAL_SIZE {
            true => Ok(()),
            false => Err(TOO_LARGE),
        }
    }

    fn segment(&mut self) -> Result<Value> {
        let fields = &self.fields;
        let blocks = match fields.get(Key::Blocks) {
            Value::Rows(Table::Block, rows) => rows.range(),
            Value::None | Value::OpenList(_) => 0..0,
            _ => return Err(ReadErrorKind::Shape("a segment's blocks are no blocks")),
        };
        let pool_size = match fields.str(Key::SegmentType).map(|s| self.word(s)) {
            Some("small") => PoolSize::Small,
            _ => PoolSize::Large,
        };
        let pool = match fields.get(Key::SegmentPoolId) {
            Value::Pair(index) => pool_id(self.pairs[index as usize]),
            _ => PoolId::default(),
        };
        let segment = RawSegment {
            device: fields.device()?,
            addr: DeviceAddr(fields.handle(Key::Address)?),
            total_size: fields.bytes(Key::TotalSize)?,
            allocated_size: fields.bytes(Key::AllocatedSize)?,
            stream: fields.handle(Key::Stream)?,
            pool_size,
            pool,
            is_expandable: fields.get(Key::IsExpandable) == Value::Bool(true),
            blocks: blocks.clone(),
        };
        self.add_size(segment.total_size)?;
        // torch 2.0 gives blocks no address: they fill the segment in order.
        let mut at = segment.addr.0;
        for block in &mut self.blocks[blocks] {
            if block.addr.0 == 0 {
                block.addr = DeviceAddr(at);
            }
            at = block.addr.0.saturating_add(block.size.0);
            if !is_possible(block.addr.0, block.size) {
                return Err(NO_ADDRESS);
            }
        }
        if !is_possible(segment.addr.0, segment.total_size) {
            return Err(NO_ADDRESS);
        }
        Ok(Value::Row(
            Table::Segment,
            push_row(&mut self.segments, segment)?,
        ))
    }

    fn annotation(&mut self) -> Result<Value> {
        let fields = &self.fields;
        let stage = match fields.str(Key::Stage).map(|s| self.word(s)) {
            Some("START") => Stage::Start,
            Some("END") => Stage::End,
            _ => {
                return Err(ReadErrorKind::Shape(
                    "an annotation is neither START nor END",
                ));
            }
        };
        let Some(name) = fields.str(Key::Name) else {
            return Err(ReadErrorKind::Shape("an annotation's name is not a string"));
        };
        let annotation = RawAnnotation {
            name,
            stage,
            device: fields.device()?,
            time: fields.time(),
        };
        Ok(Value::Row(
            Table::Annotation,
            push_row(&mut self.annotations, annotation)?,
        ))
    }

    fn word(&self, idx: StrIdx) -> &str {
        self.interner.stacks.str(idx)
    }
}

/// Whether memory can lie at the address of an event, or so much be free.
#[inline]
fn is_sound(kind: &EventKind, addr: u64) -> bool {
    match kind.action {
        Action::Oom => addr <= MAX_SIZE || addr == OtherEvent::NOT_KNOWN,
        // They change nothing, whatever they say.
        Action::Snapshot | Action::Annotate | Action::Unknown => true,
        _ => is_possible(addr, kind.size),
    }
}

/// All fields of a kind, for its hash.
fn words(kind: &EventKind) -> [u64; 7] {
    let pool = kind.pool.unwrap_or_default();
    let text = |text: Option<StrIdx>| text.map_or(u64::from(u32::MAX), |text| u64::from(text.0));
    [
        kind.size.0,
        kind.stream,
        u64::from(kind.stack.0) << 32 | u64::from(kind.forward_stack.0),
        text(kind.compile_context) << 32 | text(kind.metadata),
        pool.0,
        pool.1,
        u64::from(kind.pool.is_some()) << 8 | u64::from(kind.action as u8),
    ]
}

/// A field's text, unless it is empty or `N/A`.
fn text(fields: &Fields, key: Key) -> Option<StrIdx> {
    fields.str(key).filter(says_something)
}

/// torch writes `""` and `"N/A"` for an unknown value.
pub(super) fn says_something(text: &StrIdx) -> bool {
    *text != EMPTY && *text != NOT_APPLICABLE
}

/// The pool id that a pair of the builder stands for.
pub(super) fn pool_id((a, b): (i64, i64)) -> PoolId {
    PoolId(a as u64, b as u64)
}

fn push_row<T>(table: &mut Vec<T>, row: T) -> Result<u32> {
    let index = u32::try_from(table.len())
        .map_err(|_| ReadErrorKind::Limit("rows of a table", u64::from(u32::MAX)))?;
    table.push(row);
    Ok(index)
}
