//! Geometry of the address map. The segments of a pool come one after the other on lines of equal
//! length, like words on a page, in a box that is 1000 wide.

use api::memory_map::{PoolMap, SegmentMap};
use std::ops::Range;
use trace::units::Bytes;

/// Width of the box.
pub const WIDTH: f64 = 1000.0;
/// Height of a line, and of the drawing in it.
const LINE: f64 = 12.0;
const DRAWN: f64 = 10.0;
/// The approximate number of lines for a pool.
const LINES: u64 = 12;
/// A line holds at least this many bytes.
const SHORTEST: u64 = 2 << 20;

/// A pool, laid out.
#[derive(Clone, Debug, PartialEq)]
pub struct Strips {
    /// The beginning of each segment, in bytes from the left end of the first line; the last entry
    /// is the end.
    starts: Vec<u64>,
    /// Bytes on a line.
    pub per_line: u64,
}

/// What lies at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Position of the segment in its pool.
    pub segment: usize,
    /// Bytes from its start.
    pub offset: u64,
    /// Position of the block in its segment; `None`: free.
    pub block: Option<usize>,
}

impl Strips {
    /// Lays a pool out.
    pub fn of(pool: &PoolMap) -> Strips {
        let mut starts = vec![0];
        let mut end = 0_u64;
        for segment in &pool.segments {
            end = end.saturating_add(segment.size.get());
            starts.push(end);
        }
        let per_line = (end / LINES).max(SHORTEST).next_power_of_two();
        Strips { starts, per_line }
    }

    fn end(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Lines.
    pub fn lines(&self) -> u64 {
        self.end().div_ceil(self.per_line).max(1)
    }

    /// Height of the box.
    pub fn height(&self) -> f64 {
        self.lines() as f64 * LINE
    }

    /// A range of bytes as rectangles, one on each line, as SVG path data.
    fn draw(&self, bytes: Range<u64>, path: &mut String) {
        let mut from = bytes.start;
        while from < bytes.end {
            let line = from / self.per_line;
            let to = bytes.end.min((line + 1) * self.per_line);
            let x = |at: u64| (at - line * self.per_line) as f64 / self.per_line as f64 * WIDTH;
            let (left, wide) = (x(from), x(to) - x(from));
            let top = line as f64 * LINE;
            *path += &format!("M{left:.2} {top}h{wide:.2}v{DRAWN}h-{wide:.2}z");
            from = to;
        }
    }

    /// Draws the segments that can be given back, or the others. A private pool that is in use
    /// keeps all of its own, also those in which nothing is.
    pub fn segments(&self, pool: &PoolMap, free: bool) -> String {
        let mut path = String::new();
        let keeps = pool.kept > Bytes::ZERO;
        for (at, segment) in pool.segments.iter().enumerate() {
            if (segment.blocks.is_empty() && !keeps) == free {
                self.draw(self.starts[at]..self.starts[at + 1], &mut path);
            }
        }
        path
    }

    /// The beginnings of segments, as strokes.
    pub fn borders(&self) -> String {
        let inner = self.starts.iter().take(self.starts.len() - 1);
        let strokes = inner.map(|&start| {
            let line = start / self.per_line;
            let x = (start % self.per_line) as f64 / self.per_line as f64 * WIDTH;
            format!("M{x:.2} {}v{DRAWN}", line as f64 * LINE)
        });
        strokes.collect()
    }

    /// The blocks for which `is_drawn` holds, given their segment and their position in it.
    pub fn blocks(&self, pool: &PoolMap, is_drawn: impl Fn(&SegmentMap, usize) -> bool) -> String {
        let mut path = String::new();
        for (at, segment) in pool.segments.iter().enumerate() {
            for block in (0..segment.blocks.len()).filter(|&block| is_drawn(segment, block)) {
                path += &self.block(pool, at, block);
            }
        }
        path
    }

    /// One block.
    pub fn block(&self, pool: &PoolMap, segment: usize, block: usize) -> String {
        let found = &pool.segments[segment];
        let start = self.starts[segment] + found.offsets[block].get();
        let end = start + found.sizes[block].get();
        let mut path = String::new();
        self.draw(start..end.min(self.starts[segment + 1]), &mut path);
        path
    }

    /// What lies at a point, given as fractions of the width and of the height.
    pub fn hit(&self, pool: &PoolMap, x: f64, y: f64) -> Option<Hit> {
        let line = (y * self.lines() as f64).max(0.0) as u64;
        let at = line * self.per_line + (x.clamp(0.0, 1.0) * self.per_line as f64) as u64;
        if at >= self.end() {
            return None;
        }
        let segment = self.starts.partition_point(|&start| start <= at) - 1;
        let offset = at - self.starts[segment];
        let found = pool.segments.get(segment)?;
        let before = found.offsets.partition_point(|start| start.get() <= offset);
        let block = before.checked_sub(1).filter(|&block| {
            let start = found.offsets[block].get();
            offset < start + found.sizes[block].get()
        });
        Some(Hit {
            segment,
            offset,
            block,
        })
    }
}

/// The block that a key leads to: left and right to the next one, up and down to the first of the
/// next segment.
pub fn moved(pool: &PoolMap, from: Option<Hit>, key: &str) -> Option<Hit> {
    let segments = pool.segments.iter().enumerate();
    let blocks = segments.flat_map(|(at, s)| (0..s.blocks.len()).map(move |block| (at, block)));
    let blocks: Vec<(usize, usize)> = blocks.collect();
    let last = blocks.len().checked_sub(1)?;
    let first_from = |segment: usize| blocks.partition_point(|block| block.0 < segment);
    let at = from.map(|hit| blocks.partition_point(|b| *b < (hit.segment, hit.block.unwrap_or(0))));
    let segment = from.map_or(0, |hit| hit.segment);
    let to = match (key, at) {
        ("Home", _) | ("ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown", None) => 0,
        ("End", _) => last,
        ("ArrowLeft", Some(at)) => at.saturating_sub(1),
        ("ArrowRight", Some(at)) => at + 1,
        ("ArrowDown", Some(_)) => first_from(segment + 1),
        ("ArrowUp", Some(_)) => {
            let before = first_from(segment).saturating_sub(1);
            first_from(blocks[before].0)
        }
        _ => return None,
    };
    let (segment, block) = blocks[to.min(last)];
    Some(Hit {
        segment,
        offset: pool.segments[segment].offsets[block].get(),
        block: Some(block),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trace::units::{Bytes, DeviceAddr};

    const MIB: u64 = 1 << 20;

    fn pool(segments: &[(u64, &[(u64, u64)])]) -> PoolMap {
        let segment = |&(size, blocks): &(u64, &[(u64, u64)])| SegmentMap {
            addr: DeviceAddr(0),
            size: Bytes(size),
            expandable: false,
            blocks: (0..blocks.len() as u32).collect(),
            offsets: blocks.iter().map(|b| Bytes(b.0)).collect(),
            sizes: blocks.iter().map(|b| Bytes(b.1)).collect(),
            pending: Vec::new(),
        };
        PoolMap {
            name: "large pool".to_owned(),
            reserved: Bytes::ZERO,
            used: Bytes::ZERO,
            cached: Bytes::ZERO,
            split: Bytes::ZERO,
            kept: Bytes::ZERO,
            largest_gap: Bytes::ZERO,
            segments: segments.iter().map(segment).collect(),
        }
    }

    #[test]
    fn what_is_longer_than_a_line_goes_on_in_the_next() {
        let pool = pool(&[(MIB, &[]), (2 * MIB, &[(0, 2 * MIB)])]);
        let strips = Strips::of(&pool);
        assert_eq!((strips.per_line, strips.lines()), (2 * MIB, 2));
        let cached = "M0.00 0h500.00v10h-500.00z";
        assert_eq!(strips.segments(&pool, true), cached);
        let keeps = PoolMap {
            kept: Bytes(1),
            ..pool.clone()
        };
        assert_eq!(strips.segments(&keeps, true), "");
        let used = "M500.00 0h500.00v10h-500.00zM0.00 12h500.00v10h-500.00z";
        assert_eq!(strips.blocks(&pool, |_, _| true), used);
        assert_eq!(strips.borders(), "M0.00 0v10M500.00 0v10");
        assert_eq!(strips.hit(&pool, 0.6, 0.9), None);
    }

    #[test]
    fn keys_lead_from_block_to_block() {
        let pool = pool(&[
            (4 * MIB, &[(0, MIB), (2 * MIB, MIB)]),
            (MIB, &[]),
            (2 * MIB, &[(MIB, MIB)]),
        ]);
        let mut at = None;
        for (key, expected) in [
            ("ArrowRight", (0, 0)),
            ("ArrowLeft", (0, 0)),
            ("ArrowRight", (0, 1)),
            ("ArrowRight", (2, 0)),
            ("ArrowRight", (2, 0)),
            ("ArrowUp", (0, 0)),
            ("ArrowUp", (0, 0)),
            ("ArrowDown", (2, 0)),
            ("ArrowDown", (2, 0)),
            ("Home", (0, 0)),
            ("End", (2, 0)),
        ] {
            at = moved(&pool, at, key);
            let found = at.map(|hit| (hit.segment, hit.block.unwrap()));
            assert_eq!(found, Some(expected), "{key}");
        }
        assert_eq!(at.map(|hit| hit.offset), Some(MIB));
        assert_eq!(moved(&pool, at, "x"), None);
        // From free memory, where a pointer may lie.
        let free = Hit {
            segment: 1,
            offset: 0,
            block: None,
        };
        let next = moved(&pool, Some(free), "ArrowLeft");
        assert_eq!(next.map(|hit| hit.segment), Some(0));
        let none = super::tests::pool(&[(MIB, &[])]);
        assert_eq!(moved(&none, None, "Home"), None);
    }

    proptest! {
        /// Every byte of a pool is found where it is drawn.
        #[test]
        fn a_byte_is_found_where_it_lies(
            sizes in prop::collection::vec(1..40_u64, 1..8),
            at in any::<prop::sample::Index>(),
        ) {
            // In each segment the second quarter is in use.
            let quarter = |n: &u64| [(n * MIB / 4, n * MIB / 4)];
            let blocks: Vec<[(u64, u64); 1]> = sizes.iter().map(quarter).collect();
            let segments = sizes.iter().zip(&blocks).map(|(n, b)| (n * MIB, &b[..]));
            let segments: Vec<_> = segments.collect();
            let pool = pool(&segments);
            let strips = Strips::of(&pool);
            let byte = at.index(strips.end() as usize) as u64;
            let x = ((byte % strips.per_line) as f64 + 0.5) / strips.per_line as f64;
            let y = ((byte / strips.per_line) as f64 + 0.5) / strips.lines() as f64;
            let hit = strips.hit(&pool, x, y).unwrap();
            prop_assert_eq!(strips.starts[hit.segment] + hit.offset, byte);
            let quarter = pool.segments[hit.segment].size.get() / 4;
            let is_used = (quarter..2 * quarter).contains(&hit.offset);
            prop_assert_eq!(hit.block.is_some(), is_used);
        }
    }
}
