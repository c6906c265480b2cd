//! Segments before the first event: the final ones, with every segment event undone.

use super::matching::Matched;
use crate::allocator::{LARGE_BUFFER, PoolKey, SMALL_BUFFER};
use crate::snapshot::{EventKind, RawSegment};
use crate::stacks::FxHashMap;
use crate::trace::{Action, PoolSize};
use std::collections::BTreeMap;

/// A segment, or one mapped range of an expandable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub size: u64,
    pub key: PoolKey,
    pub expandable: bool,
}

/// What the allocator held before the first event.
pub struct Initial {
    /// By base address.
    pub segments: BTreeMap<u64, Range>,
    /// The pool of each segment that the trace creates, by the event that creates it.
    pub pool_of: FxHashMap<u32, PoolKey>,
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
    ) -> Initial {
        let mut initial = Initial {
            segments: BTreeMap::new(),
            pool_of: FxHashMap::default(),
        };
        for segment in final_segments {
            initial.segments.insert(
                segment.addr.0,
                Range {
                    size: segment.total_size.0,
                    key: PoolKey {
                        pool: segment.pool,
                        size: segment.pool_size,
                        stream: segment.stream,
                    },
                    expandable: segment.is_expandable,
                },
            );
        }
        let rows_and_segments = matched.segment_events.iter().zip(&matched.events.segments);
        for (&event, segment) in rows_and_segments.rev() {
            let kind = &kinds[rows[event as usize] as usize];
            initial.undo(event, kind, segment.addr.0);
        }
        initial
    }

    /// Σ segment sizes, bytes.
    pub fn reserved(&self) -> u64 {
        self.segments.values().map(|range| range.size).sum()
    }

    fn undo(&mut self, event: u32, kind: &EventKind, at: u64) {
        match kind.action {
            Action::SegmentAlloc => {
                if let Some(range) = self.segments.remove(&at) {
                    self.pool_of.insert(event, range.key);
                }
            }
            Action::SegmentFree => {
                let range = Range {
                    size: kind.size.0,
                    key: guess(kind),
                    expandable: false,
                };
                self.segments.insert(at, range);
            }
            Action::SegmentMap => {
                if let Some(key) = self.cut(at, kind.size.0) {
                    // A request maps one page of the small pool, or several whole pages of the
                    // large one.
                    let size = guess(kind).size;
                    self.pool_of.insert(event, PoolKey { size, ..key });
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
        let mut range = Range {
            size: kind.size.0,
            key: guess(kind),
            expandable: true,
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

/// Guesses the pool of a segment that only an event mentions. Segments of 2 MiB belong to the small
/// pool, since the large pool gets 20 MiB or more (requests of 10 MiB and more get their exact
/// size). In expandable segments several pages may be unmapped at once; pages of the large pool
/// have 20 MiB each.
pub fn guess(kind: &EventKind) -> PoolKey {
    let pages_of_large = kind.size.0.is_multiple_of(LARGE_BUFFER);
    let size = match kind.action {
        Action::SegmentUnmap if !pages_of_large => PoolSize::Small,
        _ if kind.size.0 == SMALL_BUFFER => PoolSize::Small,
        _ => PoolSize::Large,
    };
    let pool = kind.pool.unwrap_or_default();
    PoolKey {
        pool,
        size,
        stream: kind.stream,
    }
}
