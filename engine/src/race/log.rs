//! What a stream has done, as far as another stream may still race with it.
//!
//! Most work comes after everything that the other streams did, and soon comes before everything
//! that they do next. Such work is added to the end of a list, and later removed without being
//! looked at. Only when another stream touches the same bytes, the log finds out which accesses
//! hide which.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use trace::units::DeviceAddr;

use super::{Access, Found, Range, Site};

/// An access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past {
    pub range: Range,
    pub access: Access,
    pub tick: u64,
    pub operation: u64,
    pub site: Site,
}

/// Accesses of one stream, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Log {
    pasts: Vec<Past>,
    /// The length from which on the log is searched for accesses that need not be kept.
    limit: usize,
    shortest: Shortest,
}

/// Shorter logs are not tidied up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shortest(pub usize);

impl Default for Shortest {
    /// 12 MiB, a few steps of a large model. In tests, so few that rows of a bench have such logs.
    fn default() -> Shortest {
        Shortest(if cfg!(test) { 1 << 14 } else { 1 << 18 })
    }
}

/// Parts of a range, in order.
type Parts = SmallVec<[Range; 4]>;

impl Log {
    /// A log without accesses.
    pub fn tidied_from(shortest: Shortest) -> Log {
        Log {
            shortest,
            ..Log::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.pasts.is_empty()
    }

    /// Adds an access; returns whether it is time to tidy up.
    pub fn push(&mut self, past: Past) -> bool {
        self.pasts.push(past);
        self.pasts.len() >= self.limit.max(self.shortest.0)
    }

    /// Forgets the accesses that all other streams come after.
    pub fn forget(&mut self, known_by_all: u64) {
        let known = |past: &Past| past.tick <= known_by_all;
        if self.pasts.last().is_some_and(known) {
            self.pasts.clear();
        } else if self.pasts.first().is_some_and(known) {
            let known = self.pasts.partition_point(known);
            self.pasts.drain(..known);
        }
    }

    /// Keeps only the accesses that another stream could race with, so that memory limits their
    /// number.
    pub fn tidy(&mut self, known_by_all: u64) {
        self.pasts = self.standing(known_by_all);
        self.limit = 2 * self.pasts.len();
    }

    /// The accesses that another stream could race with.
    pub fn standing(&self, known_by_all: u64) -> Vec<Past> {
        let unknown = self.pasts.partition_point(|past| past.tick <= known_by_all);
        visible(&self.pasts[unknown..])
    }

    /// Another stream makes the access `now`, which comes after all accesses here up to tick
    /// `known`. Adds its races to `found`, and forgets the accesses that `now` hides from later
    /// ones: a write hides all earlier accesses, a read hides the reads that it comes after.
    pub fn meet(&mut self, now: &Past, known: u64, found: &mut Vec<Found>) {
        let Some(first) = self.pasts.iter().position(|past| now.touches(past)) else {
            return;
        };
        let unordered = first.max(self.pasts.partition_point(|past| past.tick <= known));
        let touched = self.pasts[unordered..].iter();
        let touched = touched.filter_map(|past| past.within(now.range));
        let touched: SmallVec<[Past; 8]> = touched.collect();
        for past in visible(&touched) {
            if past.access == Access::Write || now.access == Access::Write {
                let pair = (past.access, past.site, now.access, now.site);
                let spoilt = match now.access {
                    Access::Read => now.operation,
                    Access::Write => past.operation,
                };
                found.push((pair, spoilt, past.range));
            }
        }
        let hidden = |past: &Past| {
            let by_read = past.access == Access::Read && past.tick <= known;
            now.touches(past) && (now.access == Access::Write || by_read)
        };
        if !self.pasts[first..].iter().any(hidden) {
            return;
        }
        for past in self.pasts.split_off(first) {
            match hidden(&past) {
                true => self.pasts.extend(past.without(now.range)),
                false => self.pasts.push(past),
            }
        }
    }
}

impl Past {
    fn touches(&self, other: &Past) -> bool {
        self.range.start < other.range.end && other.range.start < self.range.end
    }

    fn over(self, start: DeviceAddr, end: DeviceAddr) -> Option<Past> {
        let range = Range { start, end };
        (start < end).then_some(Past { range, ..self })
    }

    /// The part of the access inside a range.
    fn within(self, range: Range) -> Option<Past> {
        let start = self.range.start.max(range.start);
        self.over(start, self.range.end.min(range.end))
    }

    /// The parts of the access before and after a range that it touches.
    fn without(self, range: Range) -> impl Iterator<Item = Past> {
        let before = self.over(self.range.start, range.start);
        before
            .into_iter()
            .chain(self.over(range.end, self.range.end))
    }
}

/// Those accesses of one stream that no later access hides: for each byte the last write, and the
/// last read after it.
fn visible(pasts: &[Past]) -> Vec<Past> {
    let (mut written, mut read) = (Cover::default(), Cover::default());
    let mut visible = Vec::new();
    for past in pasts.iter().rev() {
        let from = visible.len();
        for part in written.gaps(past.range) {
            let parts = match past.access {
                Access::Write => Parts::from_elem(part, 1),
                Access::Read => read.gaps(part),
            };
            visible.extend(parts.into_iter().map(|range| Past { range, ..*past }));
        }
        // The whole list is reversed at the end.
        visible[from..].reverse();
        match past.access {
            Access::Write => written.add(past.range),
            Access::Read => read.add(past.range),
        }
    }
    visible.reverse();
    visible
}

/// Bytes, as ranges that neither overlap nor touch: maps the start of each range to its end.
#[derive(Debug, Default)]
struct Cover(BTreeMap<DeviceAddr, DeviceAddr>);

impl Cover {
    /// The parts of a range that are not covered.
    fn gaps(&self, range: Range) -> Parts {
        let mut gaps = Parts::new();
        let mut at = range.start;
        let below = self.0.range(..=range.start).next_back();
        if let Some((_, &end)) = below {
            at = at.max(end);
        }
        for (&start, &end) in self.0.range(range.start..range.end) {
            if at < start {
                gaps.push(Range {
                    start: at,
                    end: start,
                });
            }
            at = at.max(end);
        }
        if at < range.end {
            gaps.push(Range {
                start: at,
                end: range.end,
            });
        }
        gaps
    }

    fn add(&mut self, range: Range) {
        let Range { mut start, mut end } = range;
        while let Some((&from, &to)) = self.0.range(..=end).next_back() {
            if to < start {
                break;
            }
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }
}
