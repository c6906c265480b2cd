//! Turns a snapshot into a trace: lifetimes, the four series, fidelity.
//!
//! ```text
//! matching    events -> blocks: which alloc belongs to which free, what existed before
//! initial     final segments, walked back -> segments and blocks before the first event
//! simulate    both -> the true size of each block, by the allocator's rules
//! padded      whether each request is made larger before it is rounded
//! gone        private pools that were given up before the end
//! areas       where expandable segments lie
//! followed    one of these ways to follow a device, as often as that explains more
//! left_out    kinds of events that the recording leaves out
//! levels      blocks -> the four levels after each event, kept as a pyramid
//! scopes      annotations -> half-open intervals of events
//! quality     findings about the data
//! pinned      what differs for the pinned memory of the host
//! profiled    what differs in a file that was made of a profile
//! ```
//!
//! `simulate` is needed for *allocated*: a large block keeps a remainder of up to 1 MiB that was
//! too small to split off, and no event says so. The simulated allocator follows the recorded
//! addresses, so one wrong prediction does not spoil the rest. It also counts how many addresses it
//! would have chosen itself.

mod areas;
mod followed;
mod gone;
mod initial;
mod left_out;
mod matching;
mod padded;
mod pinned;
mod profiled;
mod quality;
mod scopes;
mod simulate;

use crate::allocator::{Config, PoolKey};
use crate::device::DeviceIdx;
use crate::footprint::{of_map, of_vec};
use crate::pyramid::PyramidBuilder;
use crate::quality_code;
use crate::series::Way;
use crate::snapshot::{BlockState, EventKind, RawAnnotation, RawEvents, RawSegment, Snapshot};
use crate::stacks::{FxHashMap, FxHashSet, StackIdx};
use crate::steps;
use crate::trace::{
    Action, BlockKind, Blocks, DeviceTrace, FormatInfo, KindIdx, Levels, PoolId, PoolSize,
    QualityNote, SegmentBefore, Series, SeriesSummary, Trace,
};
use crate::units::{Bytes, DeviceAddr, EventIdx};
use crate::watch::{Stopped, Watch};
use followed::Followed;
use gone::Gone;
use initial::{Initial, PER_SEGMENT};
use matching::{Before, FinalBlock, Matched};
use pinned::Host;
use simulate::Simulated;

/// Turns a snapshot into a trace.
pub fn run(snapshot: Snapshot) -> Trace {
    run_watched(snapshot, Watch::nobody()).expect("this watch never stops it")
}

/// Turns a snapshot into a trace; the [`Watch`] may stop it.
///
/// # Errors
/// [`Stopped`], when the watch stops it.
pub fn run_watched(mut snapshot: Snapshot, watch: Watch<'_>) -> Result<Trace, Stopped> {
    let torch = snapshot.keys_seen.torch_guess();
    let kinds = snapshot.kinds.iter().map(|kind| kind.action);
    let config = Config::of_recording(&snapshot.settings, torch.as_deref(), kinds);
    let mut quality = notes_of_file(&mut snapshot);
    let beside = watch.beside(snapshot.heap_bytes());
    quality.append(&mut left_out::settle(&mut snapshot, beside)?);
    let raw_devices = std::mem::take(&mut snapshot.devices);
    let actions: Vec<Action> = snapshot.kinds.iter().map(|kind| kind.action).collect();
    let ordinals = busy_devices(&raw_devices, &snapshot.segments, &actions);
    let several = ordinals.len() > 1;
    let host = pinned::since_the_devices(std::mem::take(&mut snapshot.host), &raw_devices);
    let mut raw_devices: Vec<Option<RawEvents>> = raw_devices.into_iter().map(Some).collect();
    let mut devices: Vec<DeviceTrace> = Vec::with_capacity(ordinals.len());
    let has_python = quality::stacks_with_python(&snapshot.stacks);
    let beside = snapshot.heap_bytes() + has_python.capacity() + actions.capacity();
    let file = SnapshotParts {
        snapshot: &snapshot,
        has_python: &has_python,
        actions: &actions,
        config: &config,
    };
    for device in ordinals {
        let raw = raw_devices
            .get_mut(device.index())
            .and_then(Option::take)
            .unwrap_or_default();
        // Each device's rows are freed when it is done, but its columns stay.
        let done: usize = devices.iter().map(DeviceTrace::heap_bytes).sum();
        let waiting = raw_devices.iter().flatten().chain([&host.events]);
        let waiting: usize = waiting.map(RawEvents::heap_bytes).sum();
        let watch = watch.beside(beside + done + waiting);
        let (trace, mut notes) = replay_device(&file, device, raw, watch)?;
        if several {
            notes = notes.into_iter().map(|n| n.of_device(device)).collect();
        }
        devices.push(trace);
        quality.append(&mut notes);
    }
    let done: usize = devices.iter().map(DeviceTrace::heap_bytes).sum();
    let (pinned, mut notes) = replay_host(&file, host, watch.beside(beside + done))?;
    quality.append(&mut notes);
    // Which keys a file has says something about torch's versions, and nothing about torch_npu's.
    let of_torch = quality
        .iter()
        .all(|n| n.code != quality_code::PADDED_REQUESTS);
    let mut trace = Trace {
        pinned,
        format: FormatInfo {
            pickle_protocol: snapshot.pickle_protocol,
            torch_guess: torch.filter(|_| of_torch),
            settings: snapshot.settings,
        },
        stacks: snapshot.stacks,
        devices,
        quality,
    };
    // Everything else in the file is in the devices now.
    drop((snapshot.kinds, snapshot.segments, snapshot.blocks));
    drop(snapshot.annotations);
    let held = trace.heap_bytes();
    steps::find_all(&mut trace.devices, &trace.stacks, watch.beside(held))?;
    trace.quality.append(&mut quality::of_steps(&trace.devices));
    if let Some(pinned) = &mut trace.pinned
        && steps::take_steps(pinned, &trace.devices)
    {
        trace.quality.push(quality::of_lost_steps());
    }
    Ok(trace)
}

/// Findings about the file as a whole. Names in a file that was made of a profile are taken apart.
fn notes_of_file(snapshot: &mut Snapshot) -> Vec<QualityNote> {
    let mut notes = quality::of_file(snapshot);
    notes.extend(profiled::named(snapshot));
    notes
}

/// What all devices of a snapshot have in common.
struct SnapshotParts<'a> {
    snapshot: &'a Snapshot,
    /// Per stack, whether it has a Python frame.
    has_python: &'a [bool],
    /// Per kind, its action: every event is asked for it, and this stays in the fastest memory.
    actions: &'a [Action],
    config: &'a Config,
}

impl SnapshotParts<'_> {
    /// The scopes to place among a device's events. For pinned memory there are none: what the
    /// program did is shown with the devices.
    fn annotations(&self, device: DeviceIdx) -> &[RawAnnotation] {
        if device.is_pinned() {
            return &[];
        }
        &self.snapshot.annotations
    }

    /// The segments before the first event, and the sizes of a device's blocks.
    fn follow(
        &self,
        device: DeviceIdx,
        rows: &[u32],
        segments: &[&RawSegment],
        matched: &Matched,
        watch: Watch<'_>,
    ) -> Result<Followed, Stopped> {
        let kinds = &self.snapshot.kinds;
        let as_recorded = device.is_pinned() || self.snapshot.of_profile();
        let config = Config {
            unsplit_pools: self.unsplit_pools(segments),
            ..self.config.clone()
        };
        let once = |config: &Config, gone: &Gone, watch: Watch<'_>| {
            let initial = Initial::walk_back(kinds, rows, segments, matched, config, gone);
            let of_segments = initial.heap_bytes();
            let watch = watch.beside(of_segments);
            let simulated = match as_recorded {
                true => pinned::as_recorded(kinds, rows, matched, watch)?,
                false => simulate::run(config, kinds, rows, &initial, matched, watch)?,
            };
            Ok(Followed {
                held: of_segments + simulated.heap_bytes(),
                initial,
                simulated,
                padding: config.padding,
                gone: gone.clone(),
            })
        };
        let first = padded::follow(&config, watch, |config, watch| {
            once(config, &Gone::default(), watch)
        })?;
        let config = Config {
            padding: first.padding,
            ..config
        };
        let told_apart =
            first.with_pools_told_apart(watch, |gone, watch| once(&config, gone, watch))?;
        let whole = Config {
            unsplit_pools: whole_pools(segments),
            ..config
        };
        if whole.unsplit_pools.is_empty() || told_apart.is_explained() {
            return Ok(told_apart);
        }
        told_apart.or_better(watch, |gone, watch| once(&whole, gone, watch))
    }

    /// The private pools that never split a block, as blocks of the end show.
    fn unsplit_pools(&self, segments: &[&RawSegment]) -> Vec<PoolId> {
        let blocks = segments.iter().flat_map(|segment| {
            let key = PoolKey {
                pool: segment.pool,
                size: segment.pool_size,
                stream: segment.stream,
            };
            let inside = self.snapshot.blocks[segment.blocks.clone()].iter();
            let active = inside.filter(|block| block.state != BlockState::Inactive);
            active.map(move |block| (key, block.size.0, block.requested.0))
        });
        self.config.unsplit_pools_of(blocks)
    }
}

/// The private pools of which no segment of the usual kind has more than one block at the end:
/// perhaps they never split one.
fn whole_pools(segments: &[&RawSegment]) -> Vec<PoolId> {
    let of_pools = segments.iter().filter(|s| s.pool != PoolId::default());
    let is_split = |segment: &&&RawSegment| !segment.is_expandable && segment.blocks.len() > 1;
    let split: FxHashSet<PoolId> = of_pools.clone().filter(is_split).map(|s| s.pool).collect();
    let mut whole: Vec<PoolId> = of_pools.map(|segment| segment.pool).collect();
    whole.retain(|pool| !split.contains(pool));
    whole.sort_unstable();
    whole.dedup();
    whole
}

/// The pinned memory of the host, if the file has it, and what is to be said of it.
fn replay_host(
    file: &SnapshotParts<'_>,
    host: Host,
    watch: Watch<'_>,
) -> Result<(Option<DeviceTrace>, Vec<QualityNote>), Stopped> {
    if !host.is_there(&file.snapshot.segments) {
        return Ok((None, Vec::new()));
    }
    let (trace, mut notes) = replay_device(file, DeviceIdx::PINNED, host.events, watch)?;
    notes.extend(pinned::left_out(host.left_out));
    let notes = notes
        .into_iter()
        .map(|note| note.of_device(DeviceIdx::PINNED));
    Ok((Some(trace), notes.collect()))
}

/// Devices with memory, or with events of their own. torch writes each snapshot into the events of
/// every GPU of the machine, so from the second snapshot of a process on all of them have events.
/// If no device has more than that, these count.
fn busy_devices(
    traces: &[RawEvents],
    segments: &[RawSegment],
    actions: &[Action],
) -> Vec<DeviceIdx> {
    let devices_with = |is_event: &dyn Fn(Action) -> bool| -> Vec<DeviceIdx> {
        let has = |t: &RawEvents| t.kind.iter().any(|&kind| is_event(actions[kind as usize]));
        let found = traces.iter().enumerate().filter(|(_, t)| has(t));
        found
            .map(|(ordinal, _)| DeviceIdx(ordinal as u32))
            .collect()
    };
    let mut ordinals = devices_with(&|action| action != Action::Snapshot);
    let of_devices = segments.iter().map(|s| s.device);
    ordinals.extend(of_devices.filter(|device| !device.is_pinned()));
    if ordinals.is_empty() {
        return devices_with(&|_| true);
    }
    ordinals.sort_unstable();
    ordinals.dedup();
    ordinals
}

fn replay_device(
    file: &SnapshotParts<'_>,
    device: DeviceIdx,
    mut raw: RawEvents,
    watch: Watch<'_>,
) -> Result<(DeviceTrace, Vec<QualityNote>), Stopped> {
    let snapshot = file.snapshot;
    let of_device = |segment: &&RawSegment| segment.device == device;
    let segments: Vec<&RawSegment> = snapshot.segments.iter().filter(of_device).collect();
    let n_blocks: usize = segments.iter().map(|s| s.blocks.len()).sum();
    watch.look(raw.heap_bytes() + n_blocks * PER_FINAL_BLOCK)?;
    let final_blocks = final_blocks(snapshot, &segments);
    let watch = watch.beside(of_map(&final_blocks));
    let addresses_too = watch.beside(raw.heap_bytes());
    let kinds = (&snapshot.kinds[..], file.actions);
    let mut matched = matching::run(kinds, &mut raw, &final_blocks, addresses_too)?;
    let rows_too = watch.beside(raw.heap_bytes() + matched.heap_bytes());
    let n_segments = segments.len() + matched.segment_events.len();
    rows_too.look(n_segments * PER_SEGMENT + size_of_val(&matched.blocks.addr[..]))?;
    let rows = &raw.kind;
    let followed = file.follow(device, rows, &segments, &matched, rows_too)?;
    let (initial, mut simulated) = (followed.initial, followed.simulated);
    let of_segments = initial.heap_bytes();
    let rows_too = rows_too.beside(of_segments);
    let sizes_too = rows_too.beside(simulated.heap_bytes());
    let of_blocks = (&simulated, &final_blocks);
    let blocks = assemble(snapshot, rows, &mut matched, of_blocks, sizes_too)?;
    // The blocks have all of this now, and actions and the pyramid take its place.
    simulated.forget_blocks();
    let n_events = raw.kind.len();
    rows_too.look(blocks.heap_bytes() + n_events * size_of::<Action>())?;
    let actions = rows.iter().map(|&kind| file.actions[kind as usize]);
    matched.events.action = actions.collect();
    raw.kind = Vec::new();
    let held = raw.heap_bytes() + matched.heap_bytes() + of_segments + blocks.heap_bytes();
    let n_annotations = snapshot.annotations.len();
    let measuring = n_events * PER_EVENT_MEASURED;
    let watch = watch.beside(held + measuring + n_annotations * PER_ANNOTATION);
    watch.look(0)?;
    let mut trace = DeviceTrace {
        device,
        events: matched.events,
        blocks,
        segments_before: segments_before(&initial),
        fidelity: simulated.fidelity,
        unmatched_frees: matched.unmatched_frees,
        ..DeviceTrace::default()
    };
    trace.events.time = raw.time;
    let start = start_levels(&trace.blocks, &matched.pending_before, initial.reserved());
    measure(&mut trace, start, watch)?;
    let annotations = file.annotations(device);
    let strings = &snapshot.stacks.strings;
    trace.annotations = scopes::of_device(annotations, device, strings, &trace.events);
    let notes = quality::of_device(&quality::Evidence {
        trace: &trace,
        stacks: &snapshot.stacks,
        has_python: file.has_python,
        has_segments: snapshot.has_segments(),
        of_profile: snapshot.of_profile(),
        segments: &segments,
        final_blocks: &snapshot.blocks,
        annotations,
        anomalies: matched.anomalies,
        simulated: &simulated.anomalies,
        resized: simulated.resized_before.len() as u64,
        padding: followed.padding,
    });
    Ok((trace, notes))
}

/// Bytes for a block of the final segments, in a table by address while the table grows.
const PER_FINAL_BLOCK: usize = 192;
/// Bytes of the pyramid for each event.
const PER_EVENT_MEASURED: usize = 3;
/// Bytes for a scope, while threads are told apart and while the list of them grows and is sorted.
const PER_ANNOTATION: usize = 112;

/// Active blocks of the final segments, by address.
fn final_blocks(snapshot: &Snapshot, segments: &[&RawSegment]) -> FxHashMap<u64, FinalBlock> {
    let blocks = segments.iter().flat_map(|segment| {
        let inside = snapshot.blocks[segment.blocks.clone()].iter();
        inside.map(|block| FinalBlock {
            block: *block,
            stream: segment.stream,
        })
    });
    let active = blocks.filter(|b| b.block.state != BlockState::Inactive);
    active.map(|b| (b.block.addr.0, b)).collect()
}

/// Builds the block table: pre-existing blocks first, then in the order of their alloc events.
fn assemble(
    snapshot: &Snapshot,
    rows: &[u32],
    matched: &mut Matched,
    (simulated, final_blocks): (&Simulated, &FxHashMap<u64, FinalBlock>),
    watch: Watch<'_>,
) -> Result<Blocks, Stopped> {
    let mut blocks = std::mem::take(&mut matched.blocks);
    let n_events = rows.len() as u32;
    let mut ids: FxHashMap<BlockKind, KindIdx> = FxHashMap::default();
    let mut known = Known::new();
    let stack_of = |event: u32| match event < n_events {
        true => snapshot.kinds[rows[event as usize] as usize].stack,
        false => StackIdx::NONE,
    };
    watch.look(blocks.len() * size_of::<KindIdx>())?;
    let watch = watch.beside(blocks.len() * size_of::<KindIdx>());
    blocks.kind.reserve_exact(blocks.len());
    for index in 0..blocks.len() {
        let tables = || 3 * of_map(&ids) + known.heap_bytes_soon() + 2 * of_vec(&blocks.kinds);
        watch.at_row(index, tables)?;
        let size = simulated.size[index];
        let freed = blocks.free_requested[index].min(blocks.free_completed[index]);
        let free_kind = match freed < n_events {
            true => rows[freed as usize],
            false => u32::MAX,
        };
        let before = index < blocks.n_preexisting as usize;
        let alloc_kind = match before {
            true => u32::MAX - 1 - index as u32,
            false => rows[blocks.alloc[index] as usize],
        };
        let key = (alloc_kind, free_kind, size, simulated.pool[index]);
        if let Some(kind) = known.get(key) {
            blocks.kind.push(kind);
            continue;
        }
        let free_stack = stack_of(freed);
        let pool = simulated.pools[usize::from(simulated.pool[index])];
        let kind = match before {
            true => {
                let row = &matched.before[index];
                before_kind(row, final_blocks.get(&row.addr), size, pool, free_stack)
            }
            false => {
                let event = &snapshot.kinds[alloc_kind as usize];
                made_kind(event, size, pool, free_stack)
            }
        };
        let id = *ids.entry(kind).or_insert_with(|| {
            blocks.kinds.push(kind);
            KindIdx(blocks.kinds.len() as u32 - 1)
        });
        known.insert(key, id);
        blocks.kind.push(id);
    }
    Ok(blocks)
}

/// Of a block: the kinds of the events that made it and gave it back, its size, its pool. Blocks
/// with equal keys are of one kind.
type SmallKey = (u32, u32, u64, u16);

/// The kinds of blocks by their small keys: most blocks repeat.
struct Known {
    all: FxHashMap<SmallKey, KindIdx>,
    /// Most keys repeat soon: the last one in each seat, found without hashing.
    last: Vec<Option<(SmallKey, KindIdx)>>,
}

impl Known {
    const SEATS: usize = 1024;

    fn new() -> Known {
        Known {
            all: FxHashMap::default(),
            last: vec![None; Known::SEATS],
        }
    }

    fn seat((alloc, free, ..): SmallKey) -> usize {
        (alloc ^ free.rotate_left(5)) as usize % Known::SEATS
    }

    fn get(&mut self, key: SmallKey) -> Option<KindIdx> {
        let last = &mut self.last[Known::seat(key)];
        if let Some((_, kind)) = last.filter(|(known, _)| *known == key) {
            return Some(kind);
        }
        let kind = *self.all.get(&key)?;
        *last = Some((key, kind));
        Some(kind)
    }

    fn insert(&mut self, key: SmallKey, kind: KindIdx) {
        self.all.insert(key, kind);
    }

    /// A full table moves to a larger one: while it moves, both exist.
    fn heap_bytes_soon(&self) -> usize {
        3 * of_map(&self.all) + of_vec(&self.last)
    }
}

/// Autograd's threads have no stack. But with anomaly detection the recorder keeps the stack of the
/// forward call.
fn own_or_forward(event: &EventKind) -> StackIdx {
    match event.stack {
        StackIdx::NONE => event.forward_stack,
        stack => stack,
    }
}

fn made_kind(
    event: &EventKind,
    size: u64,
    pool: (PoolId, PoolSize),
    free_stack: StackIdx,
) -> BlockKind {
    BlockKind {
        requested: event.size,
        size: Bytes(size),
        stream: event.stream,
        pool: pool.0,
        pool_size: pool.1,
        alloc_stack: own_or_forward(event),
        free_stack,
        compile_context: event.compile_context,
        metadata: event.metadata,
    }
}

fn before_kind(
    row: &Before,
    known: Option<&FinalBlock>,
    size: u64,
    pool: (PoolId, PoolSize),
    free_stack: StackIdx,
) -> BlockKind {
    let at_the_end = known.filter(|_| row.final_size.is_some());
    BlockKind {
        requested: Bytes(row.requested),
        size: Bytes(size),
        stream: row.stream,
        pool: pool.0,
        pool_size: pool.1,
        alloc_stack: at_the_end.map_or(StackIdx::NONE, |b| b.block.stack),
        free_stack,
        compile_context: None,
        metadata: at_the_end.and_then(|b| b.block.metadata),
    }
}

fn segments_before(initial: &Initial) -> Vec<SegmentBefore> {
    let ranges = initial.segments.iter();
    let segments = ranges.map(|(&base, range)| SegmentBefore {
        addr: addr(base),
        size: Bytes(range.size),
        stream: range.key.stream,
        pool: range.key.pool,
        pool_size: range.key.size,
        expandable: range.expandable,
    });
    segments.collect()
}

/// The levels before the first event.
fn start_levels(blocks: &Blocks, pending: &[bool], reserved: u64) -> Levels {
    let mut levels = Levels::default();
    for index in 0..blocks.n_preexisting {
        let kind = blocks.kind(crate::trace::BlockIdx(index));
        *levels.get_mut(Series::Requested) += kind.requested;
        *levels.get_mut(Series::Active) += kind.size;
        if !pending[index as usize] {
            *levels.get_mut(Series::Allocated) += kind.size;
        }
    }
    *levels.get_mut(Series::Reserved) = Bytes(reserved);
    levels
}

/// Builds the pyramid and the summary.
fn measure(trace: &mut DeviceTrace, start: Levels, watch: Watch<'_>) -> Result<(), Stopped> {
    let mut levels = start;
    let mut builder = PyramidBuilder::for_events(start, trace.events.len());
    let mut summary = start.0.map(|level| SeriesSummary {
        start: level,
        peak: level,
        peak_event: None,
        end: level,
    });
    for event in 0..trace.events.len() {
        watch.at_row(event as usize, || 0)?;
        let effect = trace.effect(EventIdx(event));
        levels.apply(effect);
        builder.push(levels, effect.way());
        if effect.way() != Way::Up {
            continue;
        }
        for (series, level) in summary.iter_mut().zip(levels.0) {
            if level > series.peak {
                series.peak = level;
                series.peak_event = Some(EventIdx(event));
            }
        }
    }
    for (series, level) in summary.iter_mut().zip(levels.0) {
        series.end = level;
    }
    trace.summary = summary;
    trace.pyramid = builder.finish();
    Ok(())
}

/// An address as the trace has it.
fn addr(n: u64) -> DeviceAddr {
    DeviceAddr(n)
}

#[cfg(test)]
mod tests;
