//! Traces for tests, written by hand.
//!
//! ```text
//! weights pre 10MiB          # was there before the first event
//! seg +20MiB                 # cudaMalloc
//! a alloc 2MiB at forward model.py:12
//! b alloc 1000B stream 7
//! a free                     # free_requested and free_completed: two events
//! b request                  # only given back …
//! mark                       # an event without effect
//! b complete @2000           # … and reusable now, at 2000 us
//! seg -20MiB
//! ```
//!
//! One event follows another, one microsecond apart unless `@` sets the time. Sizes are `B`, `KiB`,
//! `MiB` or `GiB`. A block's size is its request rounded up to 512 bytes, unless `size` says
//! otherwise. A name can be used again once its block is free. A mistake panics and names the line.

pub mod bombs;

use crate::pyramid::PyramidBuilder;
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks};
use crate::trace::{
    Action, BlockIdx, BlockKind, DeviceTrace, KindIdx, Levels, NO_TARGET, OtherEvent, PoolId,
    PoolSize, SegmentEvent, Series, SeriesSummary, Trace, never_requested,
};
use crate::units::{Bytes, DeviceAddr, EventIdx, Micros};
use std::collections::HashMap;

/// A trace with one device, from its description; see the module.
///
/// # Panics
/// On a mistake in the description, naming the line.
pub fn trace(description: &str) -> Trace {
    let mut script = Script::default();
    for (number, line) in description.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            script
                .run(line)
                .unwrap_or_else(|why| panic!("line {}: {why}: {line}", number + 1));
        }
    }
    script.builder.finish()
}

/// A block of the default stream and pool; its size is the request rounded up to 512 bytes.
pub fn block_of(requested: Bytes) -> BlockKind {
    BlockKind {
        requested,
        size: Bytes(requested.0.next_multiple_of(512).max(512)),
        stream: 0,
        pool: PoolId::default(),
        pool_size: match requested {
            small if small <= Bytes::mib(1) => PoolSize::Small,
            _ => PoolSize::Large,
        },
        alloc_stack: StackIdx::NONE,
        free_stack: StackIdx::NONE,
        compile_context: None,
        metadata: None,
    }
}

/// Puts a trace together event by event.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    /// Strings, frames, stacks.
    pub stacks: Stacks,
    device: DeviceTrace,
    start: Levels,
    kinds: FxHashMap<BlockKind, KindIdx>,
    stack_by_text: HashMap<String, StackIdx>,
    free_addresses: FxHashMap<u64, Vec<DeviceAddr>>,
    fresh_address: u64,
    now: i64,
}

/// Stands for "never" until the number of events is known.
const NEVER: u32 = u32::MAX;

impl TraceBuilder {
    /// A stack of one frame.
    pub fn stack(&mut self, name: &str, filename: &str, line: u32) -> StackIdx {
        self.deep_stack(&[(name, filename, line)])
    }

    /// A stack of frames (function, file, line), the innermost first. Equal ones are one stack.
    pub fn deep_stack(&mut self, frames: &[(&str, &str, u32)]) -> StackIdx {
        let text = format!("{frames:?}");
        if let Some(&known) = self.stack_by_text.get(&text) {
            return known;
        }
        let frames: Vec<_> = frames
            .iter()
            .map(|&(name, filename, line)| {
                let frame = Frame {
                    name: self.stacks.strings.push(name),
                    filename: self.stacks.strings.push(filename),
                    line,
                };
                self.stacks.push_frame(frame)
            })
            .collect();
        let stack = self.stacks.push_stack(&frames);
        self.stack_by_text.insert(text, stack);
        stack
    }

    /// Sets the clock: the next event happens now, the one after it a microsecond later.
    pub fn at(&mut self, time: Micros) {
        self.now = time.0;
    }

    /// A block that existed before the first event.
    ///
    /// # Panics
    /// After the first event.
    pub fn preexisting(&mut self, kind: BlockKind) -> BlockIdx {
        assert!(
            self.device.events.is_empty(),
            "blocks from before come before the first event"
        );
        let block = self.push_block(kind, 0);
        self.device.blocks.n_preexisting += 1;
        *self.start.get_mut(Series::Requested) += kind.requested;
        *self.start.get_mut(Series::Allocated) += kind.size;
        *self.start.get_mut(Series::Active) += kind.size;
        block
    }

    /// A block that existed before the first event, and that the program had given back already
    /// while other streams still used it.
    pub fn pending_before(&mut self, kind: BlockKind) -> BlockIdx {
        let block = self.preexisting(kind);
        self.device.blocks.free_requested[block.index()] = 0;
        let allocated = self.start.get_mut(Series::Allocated);
        *allocated = allocated.saturating_sub(kind.size);
        block
    }

    /// Memory reserved before the first event.
    pub fn reserved_before(&mut self, size: Bytes) {
        *self.start.get_mut(Series::Reserved) += size;
    }

    /// `alloc`.
    pub fn alloc(&mut self, kind: BlockKind) -> BlockIdx {
        let block = self.push_block(kind, self.device.events.len());
        self.push_event(Action::Alloc, block.0);
        block
    }

    /// `free_requested`.
    pub fn free_requested(&mut self, block: BlockIdx) {
        self.device.blocks.free_requested[block.index()] = self.device.events.len();
        self.push_event(Action::FreeRequested, block.0);
    }

    /// `free_completed`, on its own if the free was not requested before.
    pub fn free_completed(&mut self, block: BlockIdx) {
        let now = self.device.events.len();
        let blocks = &mut self.device.blocks;
        blocks.free_completed[block.index()] = now;
        let requested = &mut blocks.free_requested[block.index()];
        *requested = (*requested).min(now);
        let (addr, size) = (blocks.addr[block.index()], blocks.kind(block).size.0);
        self.free_addresses.entry(size).or_default().push(addr);
        self.push_event(Action::FreeCompleted, block.0);
    }

    /// A segment event of the default stream.
    ///
    /// # Panics
    /// When the action is none of a segment.
    pub fn segment(&mut self, action: Action, size: Bytes) {
        self.segment_of(0, action, size);
    }

    /// A segment event of a stream.
    ///
    /// # Panics
    /// When the action is none of a segment.
    pub fn segment_of(&mut self, stream: u64, action: Action, size: Bytes) {
        use Action::{SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};
        assert!(matches!(
            action,
            SegmentAlloc | SegmentFree | SegmentMap | SegmentUnmap
        ));
        let row = self.device.events.segments.len() as u32;
        self.device.events.segments.push(SegmentEvent {
            addr: DeviceAddr(0x7e00_0000_0000),
            size,
            stream,
            stack: StackIdx::NONE,
        });
        self.push_event(action, row);
    }

    /// An event without effect: a snapshot was taken.
    pub fn mark(&mut self) {
        self.other(Action::Snapshot, Bytes::ZERO);
    }

    /// An allocation that failed.
    pub fn out_of_memory(&mut self, size: Bytes) {
        self.other(Action::Oom, size);
    }

    fn other(&mut self, action: Action, size: Bytes) {
        let row = self.device.events.others.len() as u32;
        self.device.events.others.push(OtherEvent {
            addr_or_free: 0,
            size,
            stream: 0,
            stack: StackIdx::NONE,
            metadata: None,
        });
        self.push_event(action, row);
    }

    /// A free of memory that was never allocated in the trace.
    pub fn unmatched_free(&mut self) {
        self.device.unmatched_frees += 1;
        self.push_event(Action::FreeCompleted, NO_TARGET);
    }

    /// The trace: levels, summaries and the pyramid follow from the events.
    pub fn finish(mut self) -> Trace {
        let n_events = self.device.events.len();
        let blocks = &mut self.device.blocks;
        let never = [never_requested(n_events), n_events];
        let columns = [&mut blocks.free_requested, &mut blocks.free_completed];
        for (column, never) in columns.into_iter().zip(never) {
            for end in column.iter_mut().filter(|end| **end == NEVER) {
                *end = never;
            }
        }
        let mut builder = PyramidBuilder::new(self.start);
        let mut levels = self.start;
        let mut summary = self.start.0.map(|start| SeriesSummary {
            start,
            peak: start,
            peak_event: None,
            end: start,
        });
        for event in (0..n_events).map(EventIdx) {
            let effect = self.device.effect(event);
            levels.apply(effect);
            builder.push(levels, effect.way());
            for (series, level) in summary.iter_mut().zip(levels.0) {
                series.end = level;
                if level > series.peak {
                    (series.peak, series.peak_event) = (level, Some(event));
                }
            }
        }
        self.device.pyramid = builder.finish();
        self.device.summary = summary;
        Trace {
            stacks: self.stacks,
            devices: vec![self.device],
            ..Trace::default()
        }
    }

    fn push_event(&mut self, action: Action, target: u32) {
        self.device.events.action.push(action);
        self.device.events.target.push(target);
        self.device.events.time.push(Micros(self.now));
        self.now += 1;
    }

    fn push_block(&mut self, kind: BlockKind, event: u32) -> BlockIdx {
        let next = KindIdx(self.kinds.len() as u32);
        let kind_idx = *self.kinds.entry(kind).or_insert(next);
        let reused = self.free_addresses.get_mut(&kind.size.0).and_then(Vec::pop);
        let addr = reused.unwrap_or_else(|| {
            self.fresh_address += kind.size.0;
            DeviceAddr(0x7f00_0000_0000 + self.fresh_address - kind.size.0)
        });
        let blocks = &mut self.device.blocks;
        let block = BlockIdx(blocks.len() as u32);
        blocks.alloc.push(event);
        blocks.free_requested.push(NEVER);
        blocks.free_completed.push(NEVER);
        blocks.addr.push(addr);
        blocks.kind.push(kind_idx);
        if kind_idx == next {
            blocks.kinds.push(kind);
        }
        block
    }
}

/// A description that is being read.
#[derive(Default)]
struct Script {
    builder: TraceBuilder,
    named: HashMap<String, BlockIdx>,
}

impl Script {
    fn run(&mut self, line: &str) -> Result<(), String> {
        let (line, time) = match line.split_once('@') {
            Some((line, time)) => (line, Some(time)),
            None => (line, None),
        };
        if let Some(time) = time {
            let time = time.trim().parse().map_err(|e| format!("time: {e}"))?;
            self.builder.at(Micros(time));
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["mark"] => self.builder.mark(),
            ["unknown", "free"] => self.builder.unmatched_free(),
            ["reserved", amount] => self.builder.reserved_before(size(amount)?),
            ["seg", amount] => match amount.split_at_checked(1) {
                Some(("+", more)) => self.builder.segment(Action::SegmentAlloc, size(more)?),
                Some(("-", less)) => self.builder.segment(Action::SegmentFree, size(less)?),
                _ => return Err("a segment needs + or -".to_owned()),
            },
            [name, "alloc", amount, more @ ..] => {
                let kind = self.kind(amount, more)?;
                let block = self.builder.alloc(kind);
                self.named.insert((*name).to_owned(), block);
            }
            [name, "pre", amount, more @ ..] => {
                let kind = self.kind(amount, more)?;
                let block = self.builder.preexisting(kind);
                self.named.insert((*name).to_owned(), block);
            }
            [name, "request"] => self.builder.free_requested(self.block(name)?),
            [name, "complete"] => self.builder.free_completed(self.block(name)?),
            [name, "free"] => {
                let block = self.block(name)?;
                self.builder.free_requested(block);
                self.builder.free_completed(block);
            }
            _ => return Err("not understood".to_owned()),
        }
        Ok(())
    }

    fn block(&self, name: &str) -> Result<BlockIdx, String> {
        let found = self.named.get(name).copied();
        found.ok_or_else(|| format!("there is no block {name}"))
    }

    fn kind(&mut self, amount: &str, mut more: &[&str]) -> Result<BlockKind, String> {
        let mut kind = block_of(size(amount)?);
        while let [word, rest @ ..] = more {
            more = match (*word, rest) {
                ("size", [amount, rest @ ..]) => {
                    kind.size = size(amount)?;
                    rest
                }
                ("stream", [stream, rest @ ..]) => {
                    kind.stream = stream.parse().map_err(|e| format!("stream: {e}"))?;
                    rest
                }
                ("at", [name, place, rest @ ..]) => {
                    let (file, line) = place.rsplit_once(':').ok_or("a place is file:line")?;
                    let line = line.parse().map_err(|e| format!("line: {e}"))?;
                    kind.alloc_stack = self.builder.stack(name, file, line);
                    rest
                }
                _ => return Err(format!("{word} is not understood")),
            };
        }
        Ok(kind)
    }
}

fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

/// Four blocks: two that were given back before the trace, one of which becomes free in it; one
/// that is given back at event 0; one that stays.
pub fn given_back_before() -> Trace {
    let mut builder = TraceBuilder::default();
    let kind = || block_of(Bytes(512));
    let pending = builder.pending_before(kind());
    let freed = builder.preexisting(kind());
    builder.pending_before(kind());
    builder.free_requested(freed);
    builder.free_completed(freed);
    builder.free_completed(pending);
    builder.alloc(kind());
    builder.finish()
}

/// A made-up training run of about `blocks` blocks: weights from before, and steps of activations
/// that a backward pass frees in reverse, with short-lived temporaries between and one block in a
/// thousand that is never freed. The same `blocks` give the same trace.
pub fn training_run(blocks: u32) -> Trace {
    const LAYERS: u64 = 48;
    let mut builder = TraceBuilder::default();
    let mut random = Random(u64::from(blocks) | 1);
    let stacks: Vec<StackIdx> = (0..60)
        .map(|i| {
            builder.stack(
                &format!("op{i}"),
                &format!("/srv/model/part{}.py", i / 8),
                i,
            )
        })
        .collect();
    let kind = |bytes: u64, stack: u64| BlockKind {
        alloc_stack: stacks[stack as usize % stacks.len()],
        ..block_of(Bytes(bytes))
    };
    for layer in 0..LAYERS.min(u64::from(blocks)) {
        builder.preexisting(kind(8 << 20, layer));
    }
    builder.reserved_before(Bytes::gib(1));
    let mut made = LAYERS as u32;
    while made < blocks {
        let mut saved = Vec::new();
        for layer in 0..LAYERS {
            for op in 0..6 {
                let id = layer * 7 + op;
                saved.push(builder.alloc(kind(((id * 37) % 41 + 1) << 16, id)));
                let temporary = builder.alloc(kind(id % 13 * 700 + 100, id + 1));
                builder.free_requested(temporary);
                builder.free_completed(temporary);
                made += 2;
            }
        }
        while let Some(block) = saved.pop() {
            let gradient = builder.alloc(kind(random.below(9) << 14, 5));
            made += 1;
            if random.below(1000) > 0 {
                builder.free_requested(block);
                if random.below(50) == 0 {
                    builder.mark();
                }
                builder.free_completed(block);
            }
            builder.free_requested(gradient);
            builder.free_completed(gradient);
        }
        builder.segment(Action::SegmentAlloc, Bytes::mib(20));
    }
    builder.finish()
}

/// A linear congruential generator (Knuth's MMIX constants); the high bits are good enough here.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
        const INCREMENT: u64 = 1_442_695_040_888_963_407;
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        (self.0 >> 33) % limit
    }
}

#[cfg(test)]
pub(crate) mod arbitrary {
    //! Random traces for property tests.

    use super::*;
    use proptest::prelude::*;

    /// What to do next; the numbers choose among the possible actions.
    #[derive(Clone, Debug)]
    enum Deed {
        Alloc { size: u64, group: u8 },
        Request(prop::sample::Index),
        Complete(prop::sample::Index),
        Free(prop::sample::Index),
        Segment(bool),
        Mark,
        Unmatched,
        Pause(i64),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        let any_block = any::<prop::sample::Index>;
        prop_oneof![
            6 => (1..5_000_u64, 0..50_u8).prop_map(|(size, group)| Deed::Alloc { size, group }),
            1 => (1_000_000..900_000_000_u64, 0..50_u8)
                .prop_map(|(size, group)| Deed::Alloc { size, group }),
            1 => any_block().prop_map(Deed::Request),
            1 => any_block().prop_map(Deed::Complete),
            5 => any_block().prop_map(Deed::Free),
            1 => any::<bool>().prop_map(Deed::Segment),
            1 => Just(Deed::Mark),
            1 => Just(Deed::Unmatched),
            1 => (-10_000_000_000..10_000_000_000_i64).prop_map(Deed::Pause),
        ]
    }

    /// A trace of up to `most` deeds.
    pub fn traces(most: usize) -> impl Strategy<Value = Trace> {
        let before = prop::collection::vec((1..3_000_000_u64, 0..50_u8), 0..40);
        let deeds = prop::collection::vec(deed(), 0..most);
        (before, deeds).prop_map(|(before, deeds)| perform(&before, &deeds))
    }

    fn perform(before: &[(u64, u8)], deeds: &[Deed]) -> Trace {
        let mut builder = TraceBuilder::default();
        let mut live: Vec<BlockIdx> = Vec::new();
        let mut pending: Vec<BlockIdx> = Vec::new();
        builder.reserved_before(Bytes::gib(1 << 20));
        for &(size, group) in before {
            let kind = kind(&mut builder, size, group);
            live.push(builder.preexisting(kind));
        }
        for deed in deeds {
            match deed {
                Deed::Alloc { size, group } => {
                    let kind = kind(&mut builder, *size, *group);
                    live.push(builder.alloc(kind));
                }
                Deed::Request(which) if !live.is_empty() => {
                    let block = live.swap_remove(which.index(live.len()));
                    builder.free_requested(block);
                    pending.push(block);
                }
                Deed::Complete(which) if !pending.is_empty() => {
                    builder.free_completed(pending.swap_remove(which.index(pending.len())));
                }
                // A completion without its request, but never as event 0: see the levels module.
                Deed::Complete(which) if !live.is_empty() && !builder.device.events.is_empty() => {
                    builder.free_completed(live.swap_remove(which.index(live.len())));
                }
                Deed::Free(which) if !live.is_empty() => {
                    let block = live.swap_remove(which.index(live.len()));
                    builder.free_requested(block);
                    builder.free_completed(block);
                }
                Deed::Segment(true) => builder.segment(Action::SegmentMap, Bytes::mib(20)),
                Deed::Segment(false) => builder.segment(Action::SegmentFree, Bytes::mib(2)),
                Deed::Unmatched => builder.unmatched_free(),
                Deed::Pause(by) => builder.at(Micros(*by)),
                _ => builder.mark(),
            }
        }
        builder.finish()
    }

    fn kind(builder: &mut TraceBuilder, size: u64, group: u8) -> BlockKind {
        let alloc_stack = match group {
            0 => StackIdx::NONE,
            n => builder.stack(&format!("f{n}"), &format!("file{}.py", n % 7), u32::from(n)),
        };
        BlockKind {
            alloc_stack,
            stream: u64::from(group % 3) * 0x5000,
            pool: PoolId(0, u64::from(group % 2)),
            ..block_of(Bytes(size))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_this_module_is_a_trace() {
        let lines = include_str!("mod.rs").lines();
        let of_module = lines.take_while(|line| line.starts_with("//!"));
        let example = of_module
            .map(|line| line.trim_start_matches("//!"))
            .skip_while(|line| *line != " ```text")
            .skip(1)
            .take_while(|line| *line != " ```");
        let example = example.collect::<Vec<_>>().join("\n");
        assert_eq!(trace(&example).devices[0].events.len(), 9);
    }

    #[test]
    fn a_description_becomes_blocks_and_levels() {
        let trace = trace(
            "weights pre 10MiB
             seg +20MiB
             a alloc 2MiB at forward model.py:12
             b alloc 1000B stream 7 size 4KiB
             a free
             b request
             mark
             b complete @2000",
        );
        let device = &trace.devices[0];
        let blocks = &device.blocks;
        assert_eq!(blocks.alloc, [0, 1, 2]);
        assert_eq!(blocks.free_requested, [8, 3, 5]);
        assert_eq!(blocks.free_completed, [8, 4, 7]);
        assert_eq!(device.events.time.get(7), Micros(2000));
        let allocated = device.summary[Series::Allocated as usize];
        assert_eq!(allocated.peak, Bytes::mib(12) + Bytes::kib(4));
        assert_eq!(allocated.peak_event, Some(EventIdx(2)));
        let requested = device.summary[Series::Requested as usize];
        assert_eq!(requested.peak, Bytes::mib(12) + Bytes(1000));
        assert_eq!(
            (requested.start, requested.end),
            (Bytes::mib(10), Bytes::mib(10))
        );
        assert_eq!(
            device.summary[Series::Reserved as usize].end,
            Bytes::mib(20)
        );
    }

    #[test]
    #[should_panic(expected = "line 2: there is no block b")]
    fn a_mistake_names_its_line() {
        trace("a alloc 1KiB\nb free");
    }
}
