//! Finds what is under a point: the events of its column, and the band at its level, by bisection
//! in the layout that was painted. No shape is searched.

use super::host_lane;
use super::lanes;
use super::mountain::{Frame, Mountain};
use super::stack::Item;
use super::tile_cache::Piece;
use api::timeline::{AnnotationMark, Marks};
use trace::span::Span;
use trace::stays::HostStay;
use trace::tiles::{Group, TileBlock};
use trace::trace::Step;
use trace::units::{Bytes, EventIdx};

/// A band under the pointer.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// An allocation.
    Block {
        /// The allocation.
        block: TileBlock,
        /// The group's key.
        key: u32,
        /// The group's name.
        label: String,
    },
    /// The part of a group that is not drawn block by block.
    Rest {
        /// The group's key.
        key: u32,
        /// The group's name.
        label: String,
        /// How many blocks that is, in the tile.
        blocks: u64,
        /// Their level here.
        level: Bytes,
    },
    /// Small blocks that live throughout.
    Base {
        /// How many.
        blocks: u64,
        /// Their size together.
        bytes: Bytes,
    },
    /// Freed, but in use by another stream.
    Pending {
        /// The amount here.
        level: Bytes,
    },
}

/// What is under a point of the canvas.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Events that the column shows; one event when zoomed in far enough.
    pub events: Span<EventIdx>,
    /// The event at which the mountain is sampled there.
    pub sample: Option<EventIdx>,
    /// The band, in the mountain.
    pub target: Option<Target>,
    /// The step.
    pub step: Option<Step>,
    /// The annotation, when the point is in the lanes.
    pub annotation: Option<AnnotationMark>,
    /// The stay on the host, when the point is in that lane.
    pub stay: Option<HostStay>,
}

/// Finds what is under a pixel. `None` to the left and right of the plot, and past the end of the
/// trace.
pub fn at(
    pieces: &[Piece<Mountain>],
    marks: Option<&Marks>,
    frame: Frame<'_>,
    x: i32,
    y: i32,
) -> Option<Hit> {
    let (first, end) = frame.columns.events_at(x)?;
    let column = (first + end) / 2.0;
    let piece = pieces.iter().find(|p| p.from <= column && column < p.to);
    let found = piece.and_then(|p| find(p, frame, x, y));
    let events = match &found {
        Some(found) => found.events,
        None => Span::new(
            EventIdx(first as u32),
            EventIdx((end.ceil() as u32).max(first as u32 + 1)),
        ),
    };
    let at = found.as_ref().map_or(events.start(), |f| f.sample);
    Some(Hit {
        events,
        sample: found.as_ref().map(|f| f.sample),
        target: found.and_then(|f| f.target),
        step: marks.and_then(|m| lanes::step_at(&m.steps, at)).cloned(),
        annotation: marks
            .and_then(|m| lanes::annotation_at(m, frame, x, y))
            .cloned(),
        stay: marks.and_then(|m| host_lane::stay_at(m, frame, (x, y))),
    })
}

struct Found {
    events: Span<EventIdx>,
    sample: EventIdx,
    target: Option<Target>,
}

fn find(piece: &Piece<Mountain>, frame: Frame<'_>, x: i32, y: i32) -> Option<Found> {
    let mountain: &Mountain = &piece.tile;
    let tile = &mountain.tile;
    let part = mountain.part(piece.from, piece.to);
    let (first, end) = frame.columns.buckets_at(part, x)?;
    let column = mountain.layout.highest(first, end);
    let event = |bucket: usize| {
        let event = tile.id.first_event() + bucket as u64 * tile.id.bucket_events();
        EventIdx(event.min(u64::from(tile.n_events)) as u32)
    };
    Some(Found {
        events: Span::new(event(first), event(end)),
        sample: tile.samples[column],
        target: target_at(mountain, frame, column, y),
    })
}

/// The band that was painted at a row. Rounding to pixels can move a band up or down by a row, so
/// the middle of the pixel decides.
fn target_at(mountain: &Mountain, frame: Frame<'_>, column: usize, y: i32) -> Option<Target> {
    let plot = frame.layout.plot;
    if !(plot.y0..plot.y1).contains(&y) {
        return None;
    }
    let level = frame.rows.level(f64::from(y) + 0.5);
    let band = mountain.layout.at(column, Bytes(level.max(0.0) as u64))?;
    let tile = &mountain.tile;
    let group = |g: u16| -> &Group { &tile.groups[g as usize] };
    Some(match band.item {
        Item::Block(b) => {
            let block = tile.blocks[b as usize];
            let group = group(block.group);
            Target::Block {
                block,
                key: group.key,
                label: group.name(),
            }
        }
        Item::Rest(g) => Target::Rest {
            key: group(g).key,
            label: group(g).name(),
            blocks: group(g).rest.blocks,
            level: group(g).rest_level[column],
        },
        Item::Base => Target::Base {
            blocks: tile.base.blocks,
            bytes: tile.base.bytes,
        },
        Item::Pending => Target::Pending {
            level: tile.pending[column],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::AxisMap;
    use crate::colours::Palette;
    use crate::plot::{Columns, Layout, Measure, Rows};
    use crate::testing::mountain;
    use crate::viewport::{Limits, Viewport};
    use std::rc::Rc;

    /// What is at an event and a level in MiB: the names as drawn.
    fn check(event: f64, mib: f64, expected: Option<&str>) {
        let mut tile = mountain(20, 5, &[(0, 0, 10, 40), (1, 5, 20, 60)]);
        tile.groups[0].rest_level[3] = Bytes::mib(20);
        tile.groups[0].rest.blocks = 7;
        tile.pending[12] = Bytes::mib(30);
        let id = tile.id;
        let pieces = [Piece {
            tile: Rc::new(Mountain::new(tile)),
            id,
            from: 0.0,
            to: 20.0,
        }];
        let layout = Layout::new(Measure {
            width: 273.0,
            height: 230.0,
            scale: 1.0,
            has_steps: false,
            has_host: false,
            lanes: 0,
        });
        let viewport = Viewport::whole(20.0);
        let high = 200.0 * f64::from(1 << 20);
        let limits = Limits {
            n_events: 20.0,
            auto_high: high,
            max_high: high,
        };
        let columns = Columns::new(layout.plot, &viewport, &AxisMap::Event);
        let rows = Rows::new(layout.plot, &viewport, limits);
        let palette = Palette::light();
        let frame = Frame {
            layout: &layout,
            columns: &columns,
            rows: &rows,
            palette: &palette,
        };
        let x = columns.x_of(event) + 1;
        let y = rows.row(mib * f64::from(1 << 20)) - 1;
        let hit = at(&pieces, None, frame, x, y).unwrap();
        assert_eq!(
            hit.events,
            Span::new(EventIdx(event as u32), EventIdx(event as u32 + 1))
        );
        let name = hit.target.map(|target| match target {
            Target::Block { block, label, .. } => format!("{label} block {}", block.block.0),
            Target::Rest {
                label,
                blocks,
                level,
                ..
            } => format!("{label} {blocks} at {level}"),
            Target::Base { bytes, .. } => format!("base {bytes}"),
            Target::Pending { level } => format!("pending {level}"),
        });
        assert_eq!(name.as_deref(), expected);
    }

    #[test]
    fn the_band_under_the_pointer_is_named() {
        check(0.0, 2.0, Some("base 5.00 MiB"));
        check(0.0, 10.0, Some("g0 block 0"));
        check(0.0, 60.0, None);
        check(3.0, 50.0, Some("g0 7 at 20.0 MiB"));
        check(6.0, 50.0, Some("g1 block 1"));
        check(11.0, 50.0, Some("g1 block 1"));
        check(12.0, 80.0, Some("pending 30.0 MiB"));
    }
}
