//! Segments before the first event: the final ones, with every segment event undone.

use super::areas::Areas;
use super::gone::{Gone, Segment};
use super::matching::Matched;
use crate::allocator::{Config, PoolKey, SMALL_BUFFER};
use crate::snapshot::{EventKind, RawSegment};
use crate::stacks::FxHashMap;
use crate::trace::{Action, PoolId, PoolSize};
use crate::units::DeviceAddr;
use std::collections::BTreeMap;

/// Bytes for a segment, in a tree and a table.
pub const PER_SEGMENT: usize = 192;

/// A segment, or one mapped range of an expandable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub size: u64,
    pub key: PoolKey,
    pub expandable: bool,
    /// Whether the recording says which pool it is of; else it counts as one of the default pool.
    pub pool_known: bool,
}

/// What the allocator held before the first event.
pub struct Initial {
    /// By base address.
    pub segments: BTreeMap<u64, Range>,
    /// The pool of each segment that the trace creates, by the event that creates it, and whether
    /// the recording says so.
    pub pool_of: FxHashMap<u32, (PoolKey, bool)>,
    /// Where expandable segments lie.
    pub areas: Areas,
    guess: Guess,
}

/// Guesses the pool of a segment that only an event mentions.
struct Guess {
    /// Usual segment of the large pool, and its page in expandable segments, bytes.
    large: u64,
    /// The address of each block, ascending, and in its lowest bit whether the block is of the
    /// small pool. Empty if sizes tell everything.
    blocks: Vec<u64>,
}

impl Initial {
    /// Undoes the segment events, last first. Trace and segments may disagree, because they are
    /// taken under two locks. What cannot be undone is left alone; the quality record compares the
    /// sums.
    pub fn walk_back(
        kinds: &[EventKind],
        rows: &[u32],
        final_segments: &[&RawSegment],
        matched: &Matched,
        config: &Config,
        gone: &Gone,
    ) -> Initial {
        let mut initial = Initial {
            segments: BTreeMap::new(),
            pool_of: FxHashMap::default(),
            areas: Areas::of(kinds, rows, matched, final_segments),
            guess: Guess::of(kinds, rows, matched, config),
        };
        for segment in final_segments {
            initial.put(
                segment.addr.0,
                Range {
                    size: segment.total_size.0,
                    key: PoolKey {
                        pool: segment.pool,
                        size: segment.pool_size,
                        stream: segment.stream,
                    },
                    expandable: segment.is_expandable,
                    pool_known: true,
                },
            );
        }
        let rows_and_segments = matched.segment_events.iter().zip(&matched.events.segments);
        for (&event, segment) in rows_and_segments.rev() {
            let kind = &kinds[rows[event as usize] as usize];
            initial.undo(event, kind, segment.addr.0);
        }
        initial.name(gone, matched);
        initial
    }

    /// The pool of a segment that only an event mentions.
    pub fn guess(&self, kind: &EventKind, at: u64) -> PoolKey {
        PoolKey {
            pool: kind.pool.unwrap_or_default(),
            size: self.guess.size(kind, at),
            stream: kind.stream,
        }
    }

    /// Gives the segments of pools that were given up their pool.
    fn name(&mut self, gone: &Gone, matched: &Matched) {
        if gone.is_empty() {
            return;
        }
        let areas = &self.areas;
        let is_gone = |segment: Segment, addr: u64| {
            let area = areas.holding(addr).map(Segment::Area);
            gone.holds(segment) || area.is_some_and(|area| gone.holds(area))
        };
        for (&base, range) in &mut self.segments {
            if is_gone(Segment::Before(base), base) {
                range.key.pool = PoolId::GONE;
            }
        }
        let made = matched.segment_events.iter().zip(&matched.events.segments);
        for (&event, segment) in made {
            if let Some((key, _)) = self.pool_of.get_mut(&event)
                && is_gone(Segment::Made(event), segment.addr.0)
            {
                key.pool = PoolId::GONE;
            }
        }
    }

    /// Heap bytes that it uses, about.
    pub fn heap_bytes(&self) -> usize {
        (self.segments.len() + self.pool_of.len()) * PER_SEGMENT + self.areas.heap_bytes()
    }

    /// Σ segment sizes, bytes.
    pub fn reserved(&self) -> u64 {
        self.segments.values().map(|range| range.size).sum()
    }

    /// Adds a range, in place of one that begins at the same address. Where it would reach into
    /// another one, nothing changes: no two lie at one address.
    fn put(&mut self, at: u64, range: Range) {
        let before = self.segments.remove(&at);
        let range = match self.has_room(at, range.size) {
            true => Some(range),
            false => before,
        };
        if let Some(range) = range {
            self.segments.insert(at, range);
        }
    }

    /// Whether no range shares an address with `[at, at + size)`, which is not empty.
    fn has_room(&self, at: u64, size: u64) -> bool {
        let below = self.segments.range(..at.saturating_add(size)).next_back();
        size > 0 && below.is_none_or(|(base, range)| base + range.size <= at)
    }

    fn undo(&mut self, event: u32, kind: &EventKind, at: u64) {
        match kind.action {
            Action::SegmentAlloc => {
                if let Some(range) = self.segments.remove(&at) {
                    self.pool_of.insert(event, (range.key, range.pool_known));
                }
            }
            Action::SegmentFree => {
                let range = Range {
                    size: kind.size.0,
                    key: self.guess(kind, at),
                    expandable: false,
                    pool_known: kind.pool.is_some(),
                };
                self.put(at, range);
            }
            Action::SegmentMap => {
                if let Some(key) = self.cut(at, kind.size.0) {
                    // A request maps one page of the small pool, or several whole pages of the
                    // large one.
                    let size = self.guess.size(kind, at);
                    self.pool_of.insert(event, (PoolKey { size, ..key }, true));
                }
            }
            Action::SegmentUnmap => self.join(at, kind),
            _ => {}
        }
    }

    /// Removes `[at, at + size)` from the mapped range that contains it.
    fn cut(&mut self, at: u64, size: u64) -> Option<PoolKey> {
        let (&base, &range) = self.segments.range(..=at).next_back()?;
        if base + range.size < at + size {
            return None;
        }
        self.segments.remove(&base);
        if at > base {
            self.segments.insert(
                base,
                Range {
                    size: at - base,
                    ..range
                },
            );
        }
        let tail = base + range.size - at - size;
        if tail > 0 {
            self.segments.insert(
                at + size,
                Range {
                    size: tail,
                    ..range
                },
            );
        }
        Some(range.key)
    }

    /// Maps a range again and joins it with mapped neighbours of its stream.
    fn join(&mut self, at: u64, kind: &EventKind) {
        if !self.has_room(at, kind.size.0) {
            return;
        }
        let mut range = Range {
            size: kind.size.0,
            key: self.guess(kind, at),
            expandable: true,
            pool_known: true,
        };
        let mut base = at;
        let joins = |other: &Range| other.expandable && other.key.stream == kind.stream;
        if let Some(above) = self.segments.get(&(at + range.size)).copied().filter(joins) {
            self.segments.remove(&(at + range.size));
            range.size += above.size;
            range.key = above.key;
        }
        let below = self.segments.range(..at).next_back().map(|(b, r)| (*b, *r));
        if let Some((b, below)) = below.filter(|(b, r)| b + r.size == at && joins(r)) {
            self.segments.remove(&b);
            base = b;
            range.size += below.size;
            range.key = below.key;
        }
        self.segments.insert(base, range);
    }
}

impl Guess {
    fn of(kinds: &[EventKind], rows: &[u32], matched: &Matched, config: &Config) -> Guess {
        let mut guess = Guess {
            large: config.large_segment,
            blocks: Vec::new(),
        };
        let kind = |event: u32| &kinds[rows[event as usize] as usize];
        let mut segments = matched.segment_events.iter().map(|&event| kind(event));
        if segments.all(|kind| guess.by_size(kind).is_some()) {
            return guess;
        }
        let packed = |(block, addr): (usize, &DeviceAddr)| {
            let requested = match matched.before.get(block) {
                Some(before) => before.requested,
                None => kind(matched.blocks.alloc[block]).size.0,
            };
            let size = config.pool_size(config.round_size(requested));
            addr.0 & !1 | u64::from(size == PoolSize::Small)
        };
        let blocks = matched.blocks.addr.iter().enumerate();
        guess.blocks = blocks.map(packed).collect();
        guess.blocks.sort_unstable();
        guess.blocks.dedup();
        guess
    }

    /// What lies in the range decides; if nothing does, it is of the large pool.
    fn size(&self, kind: &EventKind, at: u64) -> PoolSize {
        self.by_size(kind).unwrap_or_else(|| {
            let first = self.blocks.partition_point(|&block| block < at & !1);
            let end = at.saturating_add(kind.size.0);
            let inside = self.blocks.get(first).filter(|&&block| block < end);
            match inside.is_some_and(|block| block & 1 == 1) {
                true => PoolSize::Small,
                false => PoolSize::Large,
            }
        })
    }

    /// Segments of 2 MiB belong to the small pool, and all others to the large one: it gets 20 MiB
    /// or more (requests of 10 MiB and more get their exact size), unless a setting says less. Of
    /// expandable segments several pages may be unmapped at once: as many bytes can be pages of
    /// either pool.
    fn by_size(&self, kind: &EventKind) -> Option<PoolSize> {
        let is_small = match kind.action {
            Action::SegmentUnmap if kind.size.0.is_multiple_of(self.large) => None,
            Action::SegmentUnmap => Some(true),
            _ if kind.size.0 != SMALL_BUFFER => Some(false),
            _ => (self.large > SMALL_BUFFER).then_some(true),
        };
        is_small.map(|is_small| match is_small {
            true => PoolSize::Small,
            false => PoolSize::Large,
        })
    }
}
