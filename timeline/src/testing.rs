//! Tiles for tests, in a short notation.

use trace::span::Span;
use trace::tiles::{Extent, Group, GroupBy, LeftOut, MountainTile, SeriesTile, TileBlock, TileId};
use trace::trace::BlockIdx;
use trace::units::{Bytes, EventIdx, Micros};

/// MiB as bytes.
const MIB: u64 = 1 << 20;

/// A series tile whose four series have the level of `levels` in MiB (reserved 2 MiB more): one
/// level for each bucket, one event each millisecond.
pub fn series(id: TileId, n_events: u32, levels: &[u64]) -> SeriesTile {
    let extent = |extra: u64| {
        levels
            .iter()
            .map(|&l| Extent {
                min: Bytes(l * MIB),
                max: Bytes((l + extra) * MIB),
                last: Bytes(l * MIB),
            })
            .collect::<Vec<_>>()
    };
    let end = id.end_event().min(u64::from(n_events));
    let times = (0..=levels.len() as u64)
        .map(|k| (id.first_event() + k * id.bucket_events()).min(end))
        .map(|e| Micros(1_700_000_000_000_000 + e as i64 * 1000))
        .collect();
    SeriesTile {
        pinned: None,
        id,
        n_events,
        before: [Bytes::ZERO; 4],
        series: [extent(0), extent(0), extent(0), extent(2)],
        times,
    }
}

/// A block: `(group, first event, end event, MiB)`.
pub type ShortBlock = (u16, u32, u32, u64);

/// A mountain tile of level 0 whose groups are named `g0`, `g1` … and have no rest.
pub fn mountain(n_events: u32, base_mib: u64, blocks: &[ShortBlock]) -> MountainTile {
    let id = TileId { level: 0, index: 0 };
    let n = n_events.min(trace::tiles::BUCKETS);
    let n_groups = blocks.iter().map(|b| b.0 + 1).max().unwrap_or(0);
    MountainTile {
        id,
        n_events,
        group_by: GroupBy::Stack,
        samples: (0..n).map(EventIdx).collect(),
        base: LeftOut {
            blocks: u64::from(base_mib > 0),
            bytes: Bytes(base_mib * MIB),
        },
        groups: (0..n_groups)
            .map(|g| Group {
                key: u32::from(g) + 10,
                order: u32::from(g),
                label: format!("g{g}"),
                caller: String::new(),
                rest: LeftOut::default(),
                rest_level: vec![Bytes::ZERO; n as usize],
            })
            .collect(),
        blocks: blocks
            .iter()
            .enumerate()
            .map(|(i, &(group, from, to, mib))| TileBlock {
                block: BlockIdx(i as u32),
                group,
                live: Span::new(EventIdx(from), EventIdx(to)),
                size: Bytes(mib * MIB),
            })
            .collect(),
        pending: vec![Bytes::ZERO; n as usize],
    }
}
