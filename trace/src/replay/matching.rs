//! Matches each free with its allocation, and finds what existed before the first event.
//!
//! Three populations (docs/snapshot-format.md, "What existed before the first event"): **A** freed
//! in the window but not allocated in it, **B** active in the final segments but not allocated in
//! the window, **C** allocated in it.

use super::addr;
use crate::footprint::{of_map, of_vec, of_vec_after};
use crate::snapshot::{BlockState, EventKind, RawBlock, RawEvents};
use crate::stacks::FxHashMap;
use crate::trace::{
    Action, Blocks, Events, MAX_PRIVATE_FAILURES, NO_TARGET, OtherEvent, PoolId, SegmentEvent,
    never_requested,
};
use crate::watch::{EVERY, Stopped, Watch};

/// An active block of the final segments, with the stream of its segment.
#[derive(Clone, Copy, Debug)]
pub struct FinalBlock {
    pub block: RawBlock,
    pub stream: u64,
}

/// A block that existed before the first event.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    pub addr: u64,
    pub requested: u64,
    pub stream: u64,
    /// Bytes of the block when it is still active in the final segments (population B).
    pub final_size: Option<u64>,
}

/// Problems that a consistent trace does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Allocations of an address that was still in use.
    pub double_allocs: u64,
    /// Requests to free a block of which an earlier one is still pending.
    pub double_frees: u64,
    /// Blocks that are in use at the end of the trace but not in the final segments.
    pub not_in_segments: u64,
    /// Blocks whose requested size differs between the trace and the final segments.
    pub size_mismatches: u64,
    /// Blocks from before the first event of which the file does not say how much was asked for.
    pub requested_unknown: u64,
}

/// What matching finds.
pub struct Matched {
    /// Targets, and the rows of rare events; actions and times are filled in later.
    pub events: Events,
    /// Lifetimes and addresses; kinds are filled in later.
    pub blocks: Blocks,
    /// Populations A and B, in block order.
    pub before: Vec<Before>,
    /// Per pre-existing block: whether it was given back before the first event and still pending
    /// then.
    pub pending_before: Vec<bool>,
    /// Events of `events.segments`, ascending.
    pub segment_events: Vec<u32>,
    pub unmatched_frees: u64,
    pub anomalies: Anomalies,
}

/// Marks a target as a row of population A, until the final order of blocks is known.
const IS_BEFORE: u32 = 1 << 31;

struct Matcher<'a> {
    kinds: &'a [EventKind],
    /// Per kind, its action.
    actions: &'a [Action],
    /// Per event, its kind.
    rows: &'a [u32],
    never: u32,
    /// Blocks in use or pending, by address.
    open: FxHashMap<u64, u32>,
    /// The block that the last event gave back, which is not among those above: nearly always the
    /// next event completes that.
    given_back: Option<(u64, u32)>,
    events: Events,
    segment_events: Vec<u32>,
    blocks: Blocks,
    before: Blocks,
    before_rows: Vec<Before>,
    pending_before: Vec<bool>,
    anomalies: Anomalies,
}

/// Matches the events of one device with the blocks of its final segments. Takes the addresses
/// away: from here on, the rows that events belong to have them.
pub fn run(
    (kinds, actions): (&[EventKind], &[Action]),
    raw: &mut RawEvents,
    final_blocks: &FxHashMap<u64, FinalBlock>,
    watch: Watch<'_>,
) -> Result<Matched, Stopped> {
    let n = raw.kind.len();
    let addresses = std::mem::take(&mut raw.addr);
    let mut matcher = Matcher {
        kinds,
        actions,
        rows: &raw.kind,
        never: n as u32,
        open: FxHashMap::default(),
        given_back: None,
        events: Events::default(),
        segment_events: Vec::new(),
        blocks: Blocks::default(),
        before: Blocks::default(),
        before_rows: Vec::new(),
        pending_before: Vec::new(),
        anomalies: Anomalies::default(),
    };
    watch.look(n * PER_EVENT)?;
    let watch = watch.beside(n * PER_EVENT);
    matcher.events.target.reserve_exact(n);
    for (event, at) in addresses.iter().enumerate() {
        watch.at_row(event, || matcher.memory_used())?;
        let target = matcher.event(event as u32, at);
        matcher.events.target.push(target);
    }
    drop(addresses);
    matcher.keep_open();
    let unmatched_frees = matcher.before_rows.len() as u64;
    watch.look(matcher.memory_used() + final_blocks.len() * 2 * PER_BEFORE)?;
    matcher.survivors(final_blocks);
    // Columns that are moved to take more rows do not exist twice.
    let n_before = matcher.before_rows.len();
    watch.look(matcher.memory_used() + n_before * PER_BLOCK)?;
    Ok(matcher.finish(unmatched_frees))
}

/// Bytes of an event's target.
const PER_EVENT: usize = 4;
/// Bytes of a block's lifetime and address.
const PER_BLOCK: usize = 20;
/// Bytes of a block that existed before the first event.
const PER_BEFORE: usize = PER_BLOCK + 1 + size_of::<Before>() + size_of::<FinalBlock>();

impl Matched {
    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        self.events.heap_bytes()
            + self.blocks.heap_bytes()
            + of_vec(&self.before)
            + of_vec(&self.pending_before)
            + of_vec(&self.segment_events)
    }
}

impl Matcher<'_> {
    /// Bytes held besides those for each event, now and until the next check: when they are full,
    /// columns double and the table moves.
    fn memory_used(&self) -> usize {
        3 * of_map(&self.open)
            + self.blocks.heap_bytes_after(EVERY)
            + self.before.heap_bytes_after(EVERY)
            + of_vec_after(&self.before_rows, EVERY)
            + of_vec_after(&self.pending_before, EVERY)
            + of_vec_after(&self.segment_events, EVERY)
            + of_vec_after(&self.events.segments, EVERY)
            + of_vec_after(&self.events.others, EVERY)
    }

    /// Records one event. Returns its target.
    fn event(&mut self, event: u32, at: u64) -> u32 {
        let row = self.rows[event as usize] as usize;
        let kind = &self.kinds[row];
        match self.actions[row] {
            Action::Alloc => self.alloc(event, at),
            Action::FreeRequested => self.request(event, at, kind),
            // A recording that keeps no history ends with whatever came last. Nothing waits.
            Action::FreeCompleted if self.rows.len() == 1 => NO_TARGET,
            Action::FreeCompleted => {
                let target = match self.given_back.take_if(|(given_back, _)| *given_back == at) {
                    Some((_, target)) => target,
                    None => match self.open.remove(&at) {
                        Some(target) => target,
                        None => self.existed(at, kind, true),
                    },
                };
                let never = self.never;
                let (blocks, row) = self.column(target);
                blocks.free_completed[row] = event;
                if blocks.free_requested[row] == never {
                    blocks.free_requested[row] = event;
                }
                target
            }
            Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap => {
                self.segment_events.push(event);
                self.events.segments.push(SegmentEvent {
                    addr: addr(at),
                    size: kind.size,
                    stream: kind.stream,
                    stack: kind.stack,
                });
                (self.events.segments.len() - 1) as u32
            }
            Action::Snapshot | Action::Oom | Action::Annotate | Action::Unknown => {
                self.events.others.push(OtherEvent {
                    addr_or_free: at,
                    size: kind.size,
                    stream: kind.stream,
                    stack: kind.stack,
                    metadata: kind.metadata,
                });
                let row = (self.events.others.len() - 1) as u32;
                let pool = kind.pool.unwrap_or_default();
                let failed_in = &mut self.events.failed_in;
                if kind.action == Action::Oom
                    && pool != PoolId::default()
                    && failed_in.len() < MAX_PRIVATE_FAILURES
                {
                    failed_in.push((row, pool));
                }
                row
            }
        }
    }

    /// The program gives a block back.
    fn request(&mut self, event: u32, at: u64, kind: &EventKind) -> u32 {
        self.keep_open();
        let target = match self.open.remove(&at) {
            Some(target) => target,
            None => self.existed(at, kind, false),
        };
        self.given_back = Some((at, target));
        let never = self.never;
        let (blocks, row) = self.column(target);
        // An allocation between the two is missing: the block is given back only once.
        if blocks.free_requested[row] != never {
            self.anomalies.double_frees += 1;
            return NO_TARGET;
        }
        blocks.free_requested[row] = event;
        target
    }

    /// Puts back a block whose free is not completed at once.
    fn keep_open(&mut self) {
        if let Some((at, target)) = self.given_back.take() {
            self.open.insert(at, target);
        }
    }

    fn alloc(&mut self, event: u32, at: u64) -> u32 {
        self.keep_open();
        let row = self.blocks.len() as u32;
        self.blocks.alloc.push(event);
        self.blocks.free_requested.push(self.never);
        self.blocks.free_completed.push(self.never);
        self.blocks.addr.push(addr(at));
        if let Some(lost) = self.open.insert(at, row) {
            // The free of the old block is missing. But its memory was handed out again, so the
            // block ended before now. A level cannot fall at an event that allocates, so it stays,
            // and the problem is reported.
            self.anomalies.double_allocs += 1;
            let _ = lost;
        }
        row
    }

    /// A block of population A, which is not open.
    fn existed(&mut self, at: u64, kind: &EventKind, pending: bool) -> u32 {
        let row = self.before_rows.len() as u32;
        self.before.alloc.push(0);
        self.before
            .free_requested
            .push(if pending { 0 } else { self.never });
        self.before.free_completed.push(self.never);
        self.before.addr.push(addr(at));
        self.pending_before.push(pending);
        self.before_rows.push(Before {
            addr: at,
            requested: kind.size.0,
            stream: kind.stream,
            final_size: None,
        });
        row | IS_BEFORE
    }

    fn column(&mut self, target: u32) -> (&mut Blocks, usize) {
        match target & IS_BEFORE {
            0 => (&mut self.blocks, target as usize),
            _ => (&mut self.before, (target ^ IS_BEFORE) as usize),
        }
    }

    /// Finds population B, and where the final segments contradict the trace.
    fn survivors(&mut self, final_blocks: &FxHashMap<u64, FinalBlock>) {
        let mut ghosts: Vec<&FinalBlock> = final_blocks
            .values()
            .filter(|b| !self.open.contains_key(&b.block.addr.0))
            .collect();
        ghosts.sort_unstable_by_key(|b| b.block.addr);
        for &FinalBlock { block, stream } in ghosts {
            let pending = block.state == BlockState::PendingFree;
            self.anomalies.requested_unknown += u64::from(!block.requested_known);
            self.before.alloc.push(0);
            self.before.free_requested.push(match pending {
                true => 0,
                false => never_requested(self.never),
            });
            self.before.free_completed.push(self.never);
            self.before.addr.push(block.addr);
            self.pending_before.push(pending);
            self.before_rows.push(Before {
                addr: block.addr.0,
                requested: block.requested.0,
                stream,
                final_size: Some(block.size.0),
            });
        }
        for (at, &target) in &self.open {
            match (final_blocks.get(at), target & IS_BEFORE) {
                (None, _) => self.anomalies.not_in_segments += 1,
                (Some(FinalBlock { block, .. }), 0) => {
                    let alloc = self.blocks.alloc[target as usize] as usize;
                    let requested = self.kinds[self.rows[alloc] as usize].size;
                    let differs = block.requested_known && block.requested != requested;
                    self.anomalies.size_mismatches += u64::from(differs);
                }
                // Its free was requested and not completed: the block is known, and still in the
                // final segments.
                (Some(FinalBlock { block, .. }), _) => {
                    let row = &mut self.before_rows[(target ^ IS_BEFORE) as usize];
                    row.final_size = Some(block.size.0);
                }
            }
        }
    }

    /// Puts pre-existing blocks first and points the events at the final rows.
    fn finish(mut self, unmatched_frees: u64) -> Matched {
        let n_before = self.before_rows.len() as u32;
        for (&row, target) in self.rows.iter().zip(&mut self.events.target) {
            let is_block = matches!(
                self.actions[row as usize],
                Action::Alloc | Action::FreeRequested | Action::FreeCompleted
            );
            if is_block && *target != NO_TARGET {
                *target = match *target & IS_BEFORE {
                    0 => *target + n_before,
                    _ => *target ^ IS_BEFORE,
                };
            }
        }
        let (before, blocks) = (self.before, &mut self.blocks);
        blocks.n_preexisting = n_before;
        put_first(before.alloc, &mut blocks.alloc);
        put_first(before.free_requested, &mut blocks.free_requested);
        put_first(before.free_completed, &mut blocks.free_completed);
        put_first(before.addr, &mut blocks.addr);
        Matched {
            events: self.events,
            blocks: self.blocks,
            before: self.before_rows,
            pending_before: self.pending_before,
            segment_events: self.segment_events,
            unmatched_frees,
            anomalies: self.anomalies,
        }
    }
}

/// Puts rows in front of a column, in its own memory: a copy would double the peak.
fn put_first<T>(first: Vec<T>, column: &mut Vec<T>) {
    column.reserve_exact(first.len());
    column.splice(..0, first);
    column.shrink_to_fit();
}
