//! Tiles as bytes: what a server sends and a browser reads.
//!
//! The first byte is the version, the second the kind of tile. Numbers are
//! [varints](crate::varint); where neighbours are alike, differences are stored. Levels are first
//! divided by the largest power of two that divides all of them (block sizes are multiples of 512).
//! A general compressor, such as that of the HTTP connection, does the rest. Reading is safe for
//! any bytes and takes at most a few MiB.

use super::{
    BUCKETS, Extent, Group, GroupBy, LeftOut, MAX_BLOCKS, MAX_GROUPS, MAX_LEVEL, MountainTile,
    PinnedLine, SeriesTile, TileBlock, TileId,
};
use crate::span::Span;
use crate::trace::{BlockIdx, Series};
use crate::units::{Bytes, EventIdx, Micros};
use crate::varint::{BadBytes, Cursor, put, put_difference, put_text};

/// The version that is written; older ones are drawn again. It goes up, too, when rules of
/// categories change, because pictures are kept by it.
pub const VERSION: u8 = 11;
const SERIES: u8 = 1;
const MOUNTAIN: u8 = 2;
/// Begins the line of pinned host memory.
const PINNED: u8 = 1;
const LEFT_OVER: TileError = TileError::Malformed("bytes are left over");

/// Why bytes are not a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TileError {
    /// Written by a newer program.
    #[error("the tile has version {0}, this program reads {VERSION}")]
    Version(u8),
    /// Another kind of tile, or no tile.
    #[error("not this kind of tile")]
    Kind,
    /// The bytes are damaged.
    #[error("the tile is damaged: {0}")]
    Bytes(#[from] BadBytes),
    /// The numbers do not make a tile.
    #[error("the tile is damaged: {0}")]
    Malformed(&'static str),
}

impl SeriesTile {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 << 10);
        let count = self.series[0].len();
        put_header(&mut out, SERIES, self.id, self.n_events, count);
        let mut time = 0;
        for &Micros(next) in &self.times {
            put_difference(&mut out, time, next as u64);
            time = next as u64;
        }
        for series in Series::ALL {
            let line = &self.series[series as usize];
            put_line(&mut out, self.before[series as usize], line);
        }
        // Tiles of older versions end here.
        if let Some(pinned) = &self.pinned {
            out.push(PINNED);
            put_line(&mut out, pinned.before, &pinned.line);
        }
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// When they are no series tile of a known version.
    pub fn decode(bytes: &[u8]) -> Result<SeriesTile, TileError> {
        let mut cursor = Cursor::new(bytes);
        let Header {
            id,
            n_events,
            count,
        } = header(&mut cursor, SERIES)?;
        let n_times = if count == 0 { 0 } else { count + 1 };
        let mut time = 0;
        let mut times = Vec::with_capacity(n_times);
        for _ in 0..n_times {
            time = cursor.after(time)?;
            times.push(Micros(time as i64));
        }
        let mut before = [Bytes::ZERO; 4];
        let mut series: [Vec<Extent>; 4] = Default::default();
        for (before, line) in before.iter_mut().zip(&mut series) {
            (*before, *line) = read_line(&mut cursor, count)?;
        }
        let pinned = match cursor.remaining() {
            0 => None,
            _ if cursor.byte()? != PINNED => return Err(LEFT_OVER),
            _ => {
                let (before, line) = read_line(&mut cursor, count)?;
                Some(PinnedLine { before, line })
            }
        };
        end(&cursor)?;
        Ok(SeriesTile {
            pinned,
            id,
            n_events,
            before,
            series,
            times,
        })
    }
}

impl MountainTile {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 << 10);
        put_header(
            &mut out,
            MOUNTAIN,
            self.id,
            self.n_events,
            self.samples.len(),
        );
        let group_by = GroupBy::ALL.iter().position(|g| *g == self.group_by);
        out.push(group_by.expect("ALL holds every grouping") as u8);
        for (bucket, sample) in self.samples.iter().enumerate() {
            let start = bucket_start(self.id, bucket);
            put_difference(&mut out, start, u64::from(sample.0));
        }
        put(&mut out, self.base.blocks);
        put(&mut out, self.base.bytes.0);
        put_levels(&mut out, &self.pending);
        put(&mut out, self.groups.len() as u64);
        for group in &self.groups {
            put(&mut out, u64::from(group.key));
            put(&mut out, u64::from(group.order));
            put_text(&mut out, &group.label);
            put_text(&mut out, &group.caller);
            put(&mut out, group.rest.blocks);
            put(&mut out, group.rest.bytes.0);
            put_levels(&mut out, &group.rest_level);
        }
        put_blocks(&mut out, &self.blocks, self.n_events);
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// When they are no mountain tile of a known version.
    pub fn decode(bytes: &[u8]) -> Result<MountainTile, TileError> {
        let mut cursor = Cursor::new(bytes);
        let Header {
            id,
            n_events,
            count,
        } = header(&mut cursor, MOUNTAIN)?;
        let group_by = GroupBy::ALL.get(usize::from(cursor.byte()?)).copied();
        let group_by = group_by.ok_or(TileError::Malformed("unknown grouping"))?;
        let mut samples = Vec::with_capacity(count);
        for bucket in 0..count {
            let start = bucket_start(id, bucket);
            let bucket_end = (start + id.bucket_events()).min(u64::from(n_events));
            let sample = cursor.after(start)?;
            if !(start..bucket_end).contains(&sample) {
                return Err(TileError::Malformed("a sample lies outside of its bucket"));
            }
            samples.push(EventIdx(sample as u32));
        }
        let base = read_left_out(&mut cursor)?;
        let pending = read_levels(&mut cursor, count)?;
        let n_groups = at_most(cursor.number()?, MAX_GROUPS + 1, "too many groups")?;
        let mut groups = Vec::with_capacity(n_groups);
        for _ in 0..n_groups {
            groups.push(Group {
                key: cursor.number32()?,
                order: cursor.number32()?,
                label: cursor.text()?.to_owned(),
                caller: cursor.text()?.to_owned(),
                rest: read_left_out(&mut cursor)?,
                rest_level: read_levels(&mut cursor, count)?,
            });
        }
        let blocks = read_blocks(&mut cursor, n_events, n_groups)?;
        end(&cursor)?;
        Ok(MountainTile {
            id,
            n_events,
            group_by,
            samples,
            base,
            groups,
            blocks,
            pending,
        })
    }
}

struct Header {
    id: TileId,
    n_events: u32,
    count: usize,
}

fn put_header(out: &mut Vec<u8>, kind: u8, id: TileId, n_events: u32, count: usize) {
    out.extend([VERSION, kind, id.level]);
    put(out, u64::from(id.index));
    put(out, u64::from(n_events));
    put(out, count as u64);
}

fn header(cursor: &mut Cursor, kind: u8) -> Result<Header, TileError> {
    match cursor.byte()? {
        VERSION => {}
        other => return Err(TileError::Version(other)),
    }
    if cursor.byte()? != kind {
        return Err(TileError::Kind);
    }
    let level = cursor.byte()?;
    let index = cursor.number32()?;
    let n_events = cursor.number32()?;
    let count = at_most(cursor.number()?, BUCKETS as usize, "too many buckets")?;
    let id = TileId { level, index };
    // A tile outside of the grid is valid and has no buckets.
    if count != id.buckets(n_events) as usize {
        return Err(TileError::Malformed("buckets do not fit the trace"));
    }
    debug_assert!(count == 0 || level <= MAX_LEVEL);
    Ok(Header {
        id,
        n_events,
        count,
    })
}

fn end(cursor: &Cursor) -> Result<(), TileError> {
    match cursor.remaining() {
        0 => Ok(()),
        _ => Err(LEFT_OVER),
    }
}

fn at_most(number: u64, limit: usize, problem: &'static str) -> Result<usize, TileError> {
    let number = usize::try_from(number).ok().filter(|&n| n <= limit);
    number.ok_or(TileError::Malformed(problem))
}

/// The first event of a bucket.
fn bucket_start(id: TileId, bucket: usize) -> u64 {
    id.first_event() + ((bucket as u64) << id.level)
}

/// How many low bits are zero in all of `levels`.
fn common_shift(levels: impl Iterator<Item = Bytes>) -> u32 {
    match levels.fold(0, |all, level| all | level.0) {
        0 => 0,
        bits => bits.trailing_zeros(),
    }
}

fn read_shift(cursor: &mut Cursor) -> Result<u32, TileError> {
    match cursor.byte()? {
        shift @ 0..64 => Ok(u32::from(shift)),
        _ => Err(TileError::Malformed("a shift is too large")),
    }
}

/// Last levels as differences; then how far max lies above them and min below them.
fn put_line(out: &mut Vec<u8>, before: Bytes, line: &[Extent]) {
    let all = line.iter().flat_map(|e| [e.min, e.max, e.last]);
    let shift = common_shift(all.chain([before]));
    out.push(shift as u8);
    put(out, before.0 >> shift);
    let mut last = before.0 >> shift;
    for extent in line {
        put_difference(out, last, extent.last.0 >> shift);
        last = extent.last.0 >> shift;
    }
    for extent in line {
        put(
            out,
            (extent.max.0 >> shift).wrapping_sub(extent.last.0 >> shift),
        );
    }
    for extent in line {
        put(
            out,
            (extent.last.0 >> shift).wrapping_sub(extent.min.0 >> shift),
        );
    }
}

fn read_line(cursor: &mut Cursor, count: usize) -> Result<(Bytes, Vec<Extent>), TileError> {
    let shift = read_shift(cursor)?;
    let before = cursor.number()?;
    let mut line = Vec::with_capacity(count);
    let mut last = before;
    for _ in 0..count {
        last = cursor.after(last)?;
        line.push(Extent {
            last: Bytes(last),
            ..Extent::default()
        });
    }
    for extent in &mut line {
        extent.max = Bytes(extent.last.0.wrapping_add(cursor.number()?));
    }
    for extent in &mut line {
        extent.min = Bytes(extent.last.0.wrapping_sub(cursor.number()?));
        for level in [&mut extent.min, &mut extent.max, &mut extent.last] {
            level.0 <<= shift;
        }
        if extent.min > extent.last || extent.last > extent.max {
            return Err(TileError::Malformed("min, last and max are out of order"));
        }
    }
    Ok((Bytes(before << shift), line))
}

/// Differences; a run of equal levels is stored as 0 and the number of further equal levels.
fn put_levels(out: &mut Vec<u8>, levels: &[Bytes]) {
    let shift = common_shift(levels.iter().copied());
    out.push(shift as u8);
    let mut before = 0;
    for run in levels.chunk_by(|a, b| a == b) {
        let level = run[0].0 >> shift;
        let repeats = match level == before {
            true => run.len(),
            false => {
                put_difference(out, before, level);
                run.len() - 1
            }
        };
        if repeats > 0 {
            out.push(0);
            put(out, repeats as u64 - 1);
        }
        before = level;
    }
}

fn read_levels(cursor: &mut Cursor, count: usize) -> Result<Vec<Bytes>, TileError> {
    let shift = read_shift(cursor)?;
    let mut levels = Vec::with_capacity(count);
    let mut level = 0;
    while levels.len() < count {
        let next = cursor.after(level)?;
        let repeats = match next == level {
            true => {
                at_most(
                    cursor.number()?,
                    count - levels.len() - 1,
                    "a run is too long",
                )? + 1
            }
            false => 1,
        };
        level = next;
        levels.extend(std::iter::repeat_n(Bytes(level << shift), repeats));
    }
    Ok(levels)
}

fn read_left_out(cursor: &mut Cursor) -> Result<LeftOut, TileError> {
    Ok(LeftOut {
        blocks: cursor.number()?,
        bytes: Bytes(cursor.number()?),
    })
}

/// Column by column: group, block, start, length (0: never freed), size.
fn put_blocks(out: &mut Vec<u8>, blocks: &[TileBlock], n_events: u32) {
    put(out, blocks.len() as u64);
    let mut group = 0;
    for block in blocks {
        put_difference(out, group, u64::from(block.group));
        group = u64::from(block.group);
    }
    let mut index = 0;
    for block in blocks {
        put_difference(out, index, u64::from(block.block.0));
        index = u64::from(block.block.0);
    }
    let mut start = 0;
    for block in blocks {
        put_difference(out, start, u64::from(block.live.start().0));
        start = u64::from(block.live.start().0);
    }
    for block in blocks {
        let (start, end) = (block.live.start().0, block.live.end().0);
        match end == n_events {
            true => out.push(0),
            false => put(out, u64::from(end - start) + 1),
        }
    }
    let shift = common_shift(blocks.iter().map(|block| block.size));
    out.push(shift as u8);
    for block in blocks {
        put(out, block.size.0 >> shift);
    }
}

fn read_blocks(
    cursor: &mut Cursor,
    n_events: u32,
    n_groups: usize,
) -> Result<Vec<TileBlock>, TileError> {
    const OUTSIDE: TileError = TileError::Malformed("a block lies outside of the trace");
    let count = at_most(cursor.number()?, MAX_BLOCKS, "too many blocks")?;
    let mut column = |limit: u64| -> Result<Vec<u32>, TileError> {
        let mut value = 0;
        let mut column = Vec::with_capacity(count);
        for _ in 0..count {
            value = cursor.after(value)?;
            if value >= limit {
                return Err(OUTSIDE);
            }
            column.push(value as u32);
        }
        Ok(column)
    };
    let groups = column(n_groups as u64)?;
    let indexes = column(u64::from(u32::MAX))?;
    let starts = column(u64::from(n_events) + 1)?;
    let mut blocks = Vec::with_capacity(count);
    for ((&group, &index), &start) in groups.iter().zip(&indexes).zip(&starts) {
        let end = match cursor.number()? {
            0 => n_events,
            length => u64::from(start)
                .checked_add(length - 1)
                .and_then(|end| u32::try_from(end).ok())
                .filter(|&end| end <= n_events)
                .ok_or(OUTSIDE)?,
        };
        blocks.push(TileBlock {
            block: BlockIdx(index),
            group: group as u16,
            live: Span::new(EventIdx(start), EventIdx(end)),
            size: Bytes::ZERO,
        });
    }
    let shift = read_shift(cursor)?;
    for block in &mut blocks {
        block.size = Bytes(cursor.number()? << shift);
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::super::MountainIndex;
    use super::*;
    use crate::testing::{self, arbitrary};
    use proptest::prelude::*;

    fn tiles(trace: &crate::trace::Trace, id: TileId) -> (SeriesTile, MountainTile) {
        let device = &trace.devices[0];
        let index = MountainIndex::new(device, GroupBy::Stack, &trace.stacks);
        (device.series_tile(id), device.mountain_tile(id, &index))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn tiles_survive_the_journey(
            trace in arbitrary::traces(1200), level in 0..30_u8, index in 0..4_u32,
        ) {
            let (series, mountain) = tiles(&trace, TileId { level, index });
            prop_assert_eq!(SeriesTile::decode(&series.encode()), Ok(series));
            prop_assert_eq!(MountainTile::decode(&mountain.encode()), Ok(mountain));
        }

        #[test]
        fn any_bytes_are_a_tile_or_an_error(
            mut bytes: Vec<u8>, versioned: bool, kind in 0..3_u8,
        ) {
            if versioned {
                bytes.splice(0..0, [VERSION, kind, 0, 0]);
            }
            let _ = SeriesTile::decode(&bytes);
            let _ = MountainTile::decode(&bytes);
        }

        #[test]
        fn damaged_tiles_are_a_tile_or_an_error(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
            cut: prop::sample::Index,
        ) {
            let (series, mountain) = tiles(&testing::training_run(900), TileId {
                level: 1,
                index: 0,
            });
            for (mut bytes, is_series) in [(series.encode(), true), (mountain.encode(), false)] {
                let read = |bytes: &[u8]| match is_series {
                    true => SeriesTile::decode(bytes).is_ok(),
                    false => MountainTile::decode(bytes).is_ok(),
                };
                let length = cut.index(bytes.len());
                prop_assert!(!read(&bytes[..length]), "cut at {}", length);
                for (at, value) in &damage {
                    let at = at.index(bytes.len());
                    bytes[at] = *value;
                }
                read(&bytes);
            }
        }
    }

    #[test]
    fn a_sample_lies_in_its_bucket() {
        let (_, mountain) = tiles(&testing::training_run(500), TileId { level: 2, index: 0 });
        let last = mountain.samples.len() - 1;
        for (bucket, event) in [(1, 3), (1, 8), (last, mountain.n_events)] {
            let mut wrong = mountain.clone();
            wrong.samples[bucket] = EventIdx(event);
            let outside = TileError::Malformed("a sample lies outside of its bucket");
            assert_eq!(
                MountainTile::decode(&wrong.encode()),
                Err(outside),
                "{event}"
            );
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let (series, mountain) = tiles(&testing::training_run(500), TileId { level: 0, index: 0 });
        let mut bytes = series.encode();
        assert_eq!(MountainTile::decode(&bytes), Err(TileError::Kind));
        assert_eq!(SeriesTile::decode(&mountain.encode()), Err(TileError::Kind));
        bytes.push(0);
        let left_over = TileError::Malformed("bytes are left over");
        assert_eq!(SeriesTile::decode(&bytes), Err(left_over));
        bytes[0] = VERSION + 1;
        let error = SeriesTile::decode(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the tile has version {}, this program reads {VERSION}",
                VERSION + 1
            )
        );
    }
}
