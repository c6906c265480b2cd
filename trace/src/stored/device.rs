//! One device: blocks, events, times, scopes.

use super::columns::{Chunks, Predictor, RowWriter, write_numbers};
use super::head::DeviceHead;
use super::segments::{self, read_pool_size};
use super::{Chunk, Column, Damage, StoredError, pyramid};
use crate::span::Span;
use crate::stacks::{FxHashMap, StackIdx, Stacks, StrIdx};
use crate::time::TimeColumn;
use crate::trace::{
    Action, Annotation, BlockKind, Blocks, DeviceTrace, Events, KindIdx, NO_TARGET, OtherEvent,
    PoolId, PoolSize, SegmentEvent, never_requested,
};
use crate::units::{Bytes, DeviceAddr, EventIdx, Micros};
use crate::varint::{BadBytes, Cursor, fold, put, put_difference, unfold};

pub(super) fn encode(device: &DeviceTrace, emit: &mut dyn FnMut(Chunk)) {
    encode_kinds(device, emit);
    encode_lifetimes(device, emit);
    encode_addresses(device, emit);
    let mut last = 0;
    let times = device.events.time.iter().map(|Micros(time)| {
        let step = time.wrapping_sub(last);
        last = time;
        fold(step)
    });
    write_numbers(emit, device.device, Column::Time, times);
    encode_events(device, emit);
    encode_rare_events(device, emit);
    let mut rows = RowWriter::new(emit, Some(device.device), Column::Annotations);
    let mut last = 0;
    for annotation in &device.annotations {
        let (start, end) = (annotation.events.start().0, annotation.events.end().0);
        let row = rows.row();
        put(row, u64::from(annotation.name.0));
        put_difference(row, last, u64::from(start));
        put(row, u64::from(end - start));
        put(row, u64::from(annotation.depth));
        last = u64::from(start);
    }
    rows.finish();
    segments::encode(device, emit);
    pyramid::encode(device, emit);
}

/// Everything but what [`Apart`](super::Apart) decodes.
pub(super) fn decode(
    chunks: &mut Chunks,
    head: DeviceHead,
    stacks: &Stacks,
) -> Result<DeviceTrace, StoredError> {
    let blocks = decode_blocks(chunks, &head, stacks)?;
    let events = decode_events(chunks, &head, &blocks, stacks)?;
    let annotations = decode_annotations(chunks, &head, stacks)?;
    let segments_before = segments::decode(chunks, head.device)?;
    Ok(DeviceTrace {
        device: head.device,
        events,
        blocks,
        segments_before,
        summary: head.summary,
        fidelity: head.fidelity,
        unmatched_frees: head.unmatched_frees,
        step_source: head.step_source,
        steps: head.steps,
        annotations,
        ..DeviceTrace::default()
    })
}

pub(super) fn decode_times(
    chunks: &mut Chunks,
    head: &DeviceHead,
) -> Result<TimeColumn, StoredError> {
    let mut time = TimeColumn::default();
    let mut last = 0_i64;
    chunks.read(Some(head.device), Column::Time, |cursor| {
        last = last.wrapping_add(unfold(cursor.number()?));
        time.push(Micros(last));
        Ok(())
    })?;
    Column::Time.check_rows(time.len(), head.n_events as usize)?;
    Ok(time)
}

fn encode_kinds(device: &DeviceTrace, emit: &mut dyn FnMut(Chunk)) {
    let blocks = &device.blocks;
    let mut rows = RowWriter::new(emit, Some(device.device), Column::Kinds);
    for kind in &blocks.kinds {
        let row = rows.row();
        put(row, kind.requested.0);
        put_difference(row, kind.requested.0, kind.size.0);
        put(row, kind.stream);
        put(row, kind.pool.0);
        put(row, kind.pool.1);
        put(row, u64::from(kind.pool_size == PoolSize::Large));
        put(row, u64::from(kind.alloc_stack.0));
        put(row, u64::from(kind.free_stack.0));
        put_name(row, kind.compile_context);
        put_name(row, kind.metadata);
    }
    rows.finish();
    let mut predictor = Predictor::new();
    let mut context = (0, 0, 0);
    let mut rows = RowWriter::new(emit, Some(device.device), Column::BlockKind);
    for &KindIdx(kind) in &blocks.kind {
        predictor.put(rows.row(), context, kind);
        context = (context.1, context.2, kind);
    }
    rows.finish();
}

/// An event, or `None` for never.
fn or_never(event: u32, n_events: u32) -> Option<u32> {
    (event < n_events).then_some(event)
}

fn encode_lifetimes(device: &DeviceTrace, emit: &mut dyn FnMut(Chunk)) {
    let (blocks, n_events) = (&device.blocks, device.events.len());
    let mut predictor = Predictor::new();
    let mut last = 0;
    let mut rows = RowWriter::new(emit, Some(device.device), Column::BlockAlloc);
    for (block, &alloc) in blocks.alloc.iter().enumerate() {
        predictor.put(rows.row(), kinds_around(blocks, block), alloc - last);
        last = alloc;
    }
    rows.finish();
    let mut predictor = Predictor::new();
    let mut rows = RowWriter::new(emit, Some(device.device), Column::BlockLife);
    for block in 0..blocks.len() {
        let alloc = blocks.alloc[block];
        // Without events, 0 is "before the trace", and a larger number "never".
        let freed = or_never(blocks.free_requested[block], never_requested(n_events));
        let life = freed.map_or(0, |freed| freed - alloc + 1);
        predictor.put(rows.row(), kinds_around(blocks, block), life);
    }
    rows.finish();
    let pending = (0..blocks.len()).map(|block| {
        let completed = or_never(blocks.free_completed[block], n_events);
        completed.map_or(0, |c| u64::from(c - blocks.free_requested[block]) + 1)
    });
    write_numbers(emit, device.device, Column::BlockPending, pending);
}

/// The kinds of a block and its neighbours: the context for a prediction.
#[inline]
fn kinds_around(blocks: &Blocks, block: usize) -> (u32, u32, u32) {
    let kind = |at: usize| blocks.kind.get(at).map_or(0, |kind| kind.0);
    (kind(block.wrapping_sub(1)), kind(block), kind(block + 1))
}

fn encode_addresses(device: &DeviceTrace, emit: &mut dyn FnMut(Chunk)) {
    let blocks = &device.blocks;
    let mut known: FxHashMap<DeviceAddr, u32> = FxHashMap::default();
    let mut last_new = 0;
    let mut rows = RowWriter::new(emit, Some(device.device), Column::Addresses);
    for &addr in &blocks.addr {
        let next = known.len() as u32;
        known.entry(addr).or_insert_with(|| {
            put_difference(rows.row(), last_new, addr.0);
            last_new = addr.0;
            next
        });
    }
    rows.finish();
    let mut predictor = Predictor::new();
    let mut last = 0;
    let mut rows = RowWriter::new(emit, Some(device.device), Column::BlockAddress);
    for (block, addr) in blocks.addr.iter().enumerate() {
        let idx = known[addr];
        predictor.put(rows.row(), address_context(blocks, block, last), idx);
        last = idx;
    }
    rows.finish();
}

#[inline]
fn address_context(blocks: &Blocks, block: usize, last: u32) -> (u32, u32, u32) {
    let (before, kind, _) = kinds_around(blocks, block);
    (before, kind, last)
}

/// The events that follow from the blocks. If two blocks claim the same event, the later block
/// wins; corrections are stored.
fn events_of_blocks(blocks: &Blocks, n_events: u32) -> (Vec<Action>, Vec<u32>) {
    let mut actions = vec![Action::Unknown; n_events as usize];
    let mut targets = vec![NO_TARGET; n_events as usize];
    let mut set = |event: u32, action: Action, block: u32| {
        if event < n_events {
            actions[event as usize] = action;
            targets[event as usize] = block;
        }
    };
    for block in 0..blocks.len() as u32 {
        let at = block as usize;
        if block >= blocks.n_preexisting {
            set(blocks.alloc[at], Action::Alloc, block);
        }
        set(blocks.free_requested[at], Action::FreeRequested, block);
        set(blocks.free_completed[at], Action::FreeCompleted, block);
    }
    (actions, targets)
}

fn encode_events(device: &DeviceTrace, emit: &mut dyn FnMut(Chunk)) {
    let events = &device.events;
    let (actions, targets) = events_of_blocks(&device.blocks, events.len());
    let mut rows = RowWriter::new(emit, Some(device.device), Column::Events);
    let mut last = (0, 0);
    for event in 0..events.action.len() {
        let (action, target) = (events.action[event], events.target[event]);
        if (action, target) == (actions[event], targets[event]) {
            continue;
        }
        let row = rows.row();
        put(row, event as u64 - last.0);
        row.push(action as u8);
        put_difference(row, last.1, u64::from(target));
        last = (event as u64, u64::from(target));
    }
    rows.finish();
}

fn encode_rare_events(device: &DeviceTrace, emit: &mut dyn FnMut(Chunk)) {
    let mut rows = RowWriter::new(emit, Some(device.device), Column::Segments);
    let mut last = 0;
    for segment in &device.events.segments {
        let row = rows.row();
        put_difference(row, last, segment.addr.0);
        put(row, segment.size.0);
        put(row, segment.stream);
        put(row, u64::from(segment.stack.0));
        last = segment.addr.0;
    }
    rows.finish();
    let mut rows = RowWriter::new(emit, Some(device.device), Column::Others);
    for other in &device.events.others {
        let row = rows.row();
        put(row, other.addr_or_free);
        put(row, other.size.0);
        put(row, other.stream);
        put(row, u64::from(other.stack.0));
        put_name(row, other.metadata);
    }
    rows.finish();
}

fn put_name(row: &mut Vec<u8>, name: Option<StrIdx>) {
    put(row, name.map_or(0, |name| u64::from(name.0) + 1));
}

fn decode_blocks(
    chunks: &mut Chunks,
    head: &DeviceHead,
    stacks: &Stacks,
) -> Result<Blocks, StoredError> {
    let device = Some(head.device);
    let mut blocks = Blocks {
        n_preexisting: head.n_preexisting,
        ..Blocks::default()
    };
    chunks.read(device, Column::Kinds, |cursor| {
        blocks.kinds.push(read_kind(cursor, stacks)?);
        Ok(())
    })?;
    let (n_kinds, mut context) = (blocks.kinds.len(), (0, 0, 0));
    let mut predictor = Predictor::new();
    chunks.read(device, Column::BlockKind, |cursor| {
        let kind = KindIdx(predictor.read(cursor, context)?);
        if kind.index() >= n_kinds {
            return Err(Damage::Index);
        }
        context = (context.1, context.2, kind.0);
        blocks.kind.push(kind);
        Ok(())
    })?;
    Column::BlockKind.check_rows(blocks.kind.len(), head.n_blocks)?;
    if head.n_preexisting as usize > head.n_blocks {
        return Err(Column::BlockKind.damaged(Damage::Rows));
    }
    decode_lifetimes(chunks, head, &mut blocks)?;
    decode_addresses(chunks, head, &mut blocks)?;
    Ok(blocks)
}

fn read_kind(cursor: &mut Cursor, stacks: &Stacks) -> Result<BlockKind, Damage> {
    let requested = cursor.number()?;
    Ok(BlockKind {
        requested: Bytes(requested),
        size: Bytes(cursor.after(requested)?),
        stream: cursor.number()?,
        pool: PoolId(cursor.number()?, cursor.number()?),
        pool_size: read_pool_size(cursor)?,
        alloc_stack: read_stack(cursor, stacks)?,
        free_stack: read_stack(cursor, stacks)?,
        compile_context: read_name(cursor, stacks)?,
        metadata: read_name(cursor, stacks)?,
    })
}

fn read_stack(cursor: &mut Cursor, stacks: &Stacks) -> Result<StackIdx, Damage> {
    let stack = StackIdx(cursor.number32()?);
    match stack.index() < stacks.len() {
        true => Ok(stack),
        false => Err(Damage::Index),
    }
}

fn read_name(cursor: &mut Cursor, stacks: &Stacks) -> Result<Option<StrIdx>, Damage> {
    match cursor.number32()?.checked_sub(1).map(StrIdx) {
        Some(name) if name.index() >= stacks.strings.len() => Err(Damage::Index),
        name => Ok(name),
    }
}

fn decode_lifetimes(
    chunks: &mut Chunks,
    head: &DeviceHead,
    blocks: &mut Blocks,
) -> Result<(), StoredError> {
    let (device, n_events) = (Some(head.device), head.n_events);
    let n_blocks = blocks.kind.len();
    let n_preexisting = blocks.n_preexisting as usize;
    let mut predictor = Predictor::new();
    let mut last = 0_u32;
    let mut alloc = Vec::with_capacity(n_blocks);
    chunks.read(device, Column::BlockAlloc, |cursor| {
        let step = predictor.read(cursor, kinds_around(blocks, alloc.len()))?;
        last = last.checked_add(step).ok_or(Damage::Order)?;
        let from_before = alloc.len() < n_preexisting;
        if last >= n_events && !from_before || last > 0 && from_before {
            return Err(Damage::Order);
        }
        alloc.push(last);
        Ok(())
    })?;
    Column::BlockAlloc.check_rows(alloc.len(), n_blocks)?;
    let mut predictor = Predictor::new();
    let mut requested = Vec::with_capacity(n_blocks);
    chunks.read(device, Column::BlockLife, |cursor| {
        let block = requested.len();
        let life = predictor.read(cursor, kinds_around(blocks, block))?;
        let start = *alloc.get(block).ok_or(Damage::Rows)?;
        requested.push(later(start, u64::from(life), never_requested(n_events))?);
        Ok(())
    })?;
    Column::BlockLife.check_rows(requested.len(), n_blocks)?;
    let mut completed = Vec::with_capacity(n_blocks);
    chunks.read(device, Column::BlockPending, |cursor| {
        let start = *requested.get(completed.len()).ok_or(Damage::Rows)?;
        completed.push(later(start, cursor.number()?, n_events)?);
        Ok(())
    })?;
    Column::BlockPending.check_rows(completed.len(), n_blocks)?;
    blocks.alloc = alloc;
    blocks.free_requested = requested;
    blocks.free_completed = completed;
    Ok(())
}

/// The event `steps - 1` after `start`; the number of events if `steps` is 0.
#[inline]
fn later(start: u32, steps: u64, n_events: u32) -> Result<u32, Damage> {
    match steps {
        0 => Ok(n_events),
        steps => u64::from(start)
            .checked_add(steps - 1)
            .filter(|&event| event < u64::from(n_events))
            .map(|event| event as u32)
            .ok_or(Damage::Order),
    }
}

fn decode_addresses(
    chunks: &mut Chunks,
    head: &DeviceHead,
    blocks: &mut Blocks,
) -> Result<(), StoredError> {
    let device = Some(head.device);
    let mut known = Vec::new();
    let mut last = 0;
    chunks.read(device, Column::Addresses, |cursor| {
        last = cursor.after(last)?;
        known.push(DeviceAddr(last));
        Ok(())
    })?;
    let mut predictor = Predictor::new();
    let mut last = 0;
    let mut addrs = Vec::with_capacity(blocks.kind.len());
    chunks.read(device, Column::BlockAddress, |cursor| {
        let context = address_context(blocks, addrs.len(), last);
        last = predictor.read(cursor, context)?;
        addrs.push(*known.get(last as usize).ok_or(Damage::Index)?);
        Ok(())
    })?;
    Column::BlockAddress.check_rows(addrs.len(), blocks.kind.len())?;
    blocks.addr = addrs;
    Ok(())
}

fn decode_events(
    chunks: &mut Chunks,
    head: &DeviceHead,
    blocks: &Blocks,
    stacks: &Stacks,
) -> Result<Events, StoredError> {
    let device = Some(head.device);
    let mut events = Events::default();
    decode_rare_events(chunks, head, stacks, &mut events)?;
    let (actions, targets) = events_of_blocks(blocks, head.n_events);
    (events.action, events.target) = (actions, targets);
    let (mut event, mut target) = (0_u64, 0_u64);
    chunks.read(device, Column::Events, |cursor| {
        event = event.saturating_add(cursor.number()?);
        let action = Action::ALL.get(usize::from(cursor.byte()?)).copied();
        target = cursor.after(target)?;
        let row = usize::try_from(event).map_err(|_| Damage::Index)?;
        let (known_action, known_target) = events
            .action
            .get_mut(row)
            .zip(events.target.get_mut(row))
            .ok_or(Damage::Index)?;
        *known_action = action.ok_or(Damage::Index)?;
        *known_target = u32::try_from(target).map_err(|_| BadBytes::TooLarge)?;
        let rows = match known_action {
            Action::Alloc | Action::FreeRequested | Action::FreeCompleted => blocks.len(),
            Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap => events.segments.len(),
            Action::Snapshot | Action::Oom | Action::Annotate | Action::Unknown => {
                events.others.len()
            }
        };
        match *known_target == NO_TARGET || (*known_target as usize) < rows {
            true => Ok(()),
            false => Err(Damage::Index),
        }
    })?;
    Ok(events)
}

fn decode_rare_events(
    chunks: &mut Chunks,
    head: &DeviceHead,
    stacks: &Stacks,
    events: &mut Events,
) -> Result<(), StoredError> {
    let device = Some(head.device);
    events.failed_in.clone_from(&head.failed_in);
    let mut last = 0;
    chunks.read(device, Column::Segments, |cursor| {
        last = cursor.after(last)?;
        events.segments.push(SegmentEvent {
            addr: DeviceAddr(last),
            size: Bytes(cursor.number()?),
            stream: cursor.number()?,
            stack: read_stack(cursor, stacks)?,
        });
        Ok(())
    })?;
    chunks.read(device, Column::Others, |cursor| {
        events.others.push(OtherEvent {
            addr_or_free: cursor.number()?,
            size: Bytes(cursor.number()?),
            stream: cursor.number()?,
            stack: read_stack(cursor, stacks)?,
            metadata: read_name(cursor, stacks)?,
        });
        Ok(())
    })
}

fn decode_annotations(
    chunks: &mut Chunks,
    head: &DeviceHead,
    stacks: &Stacks,
) -> Result<Vec<Annotation>, StoredError> {
    let mut annotations = Vec::new();
    let mut last = 0;
    chunks.read(Some(head.device), Column::Annotations, |cursor| {
        let name = StrIdx(cursor.number32()?);
        if name.index() >= stacks.strings.len() {
            return Err(Damage::Index);
        }
        last = cursor.after(last)?;
        let end = last.saturating_add(cursor.number()?);
        if end > u64::from(head.n_events) {
            return Err(Damage::Order);
        }
        annotations.push(Annotation {
            name,
            events: Span::new(EventIdx(last as u32), EventIdx(end as u32)),
            depth: u16::try_from(cursor.number()?).map_err(|_| BadBytes::TooLarge)?,
        });
        Ok(())
    })?;
    Ok(annotations)
}
