//! The overlay that follows the pointer and the selection.

use super::colours::Rgba;
use super::hit_test::{Hit, Target};
use super::mountain::{Frame, Mountain, colour_of};
use super::plot::{PxRect, Run};
use super::scene::{Anchor, Scene, Text, text_width};
use super::stack::Item;
use super::tile_cache::Piece;
use api::view_state::Selection;
use trace::units::Bytes;

/// A rectangle that the pointer is drawing, CSS pixels.
pub type Rubber = ((f64, f64), (f64, f64));

/// What is highlighted.
#[derive(Clone, Copy, PartialEq)]
enum Subject {
    Block(u32),
    Group(u16),
}

/// How it is highlighted.
#[derive(Clone, Copy)]
struct Look {
    /// How opaque the tint is.
    tint: f64,
    edge: Rgba,
    thick: i32,
}

/// Highlights the selected block or group, in every piece that contains it.
pub fn selection(
    scene: &mut Scene,
    pieces: &[Piece<Mountain>],
    selection: Selection,
    frame: Frame<'_>,
) {
    let look = Look {
        tint: 0.3,
        edge: frame.palette.text,
        thick: frame.layout.px(1.5),
    };
    for piece in pieces {
        let tile = &piece.tile.tile;
        let subject = match selection {
            Selection::Block(block) => {
                let index = tile.blocks.iter().position(|b| b.block == block);
                index.map(|i| Subject::Block(i as u32))
            }
            Selection::Group(key) => {
                let index = tile.groups.iter().position(|g| g.key == key);
                index.map(|i| Subject::Group(i as u16))
            }
        };
        if let Some(subject) = subject {
            stand_out(scene, piece, subject, look, frame);
        }
    }
}

/// What is laid over a colour: away from that of the labels on it, which then read better.
fn tint(fill: Rgba) -> Rgba {
    match fill.ink() {
        Rgba(255, ..) => Rgba(0, 0, 0, 255),
        _ => Rgba(255, 255, 255, 255),
    }
}

/// Adds the tint and the edges of a subject.
fn stand_out(
    scene: &mut Scene,
    piece: &Piece<Mountain>,
    subject: Subject,
    look: Look,
    frame: Frame<'_>,
) {
    let mut rects: Vec<PxRect> = Vec::new();
    for run in frame.columns.runs(piece.tile.part(piece.from, piece.to)) {
        let Some((bottom, top)) = edges(&piece.tile, subject, run) else {
            continue;
        };
        let row = |bytes: Bytes| frame.rows.row(bytes.get() as f64);
        let (y0, y1) = (row(top), row(bottom));
        match rects.last_mut() {
            Some(last) if last.x1 == run.x0 && (last.y0, last.y1) == (y0, y1) => last.x1 = run.x1,
            _ => rects.push(PxRect {
                x0: run.x0,
                x1: run.x1,
                y0,
                y1,
            }),
        }
    }
    for (i, rect) in rects.iter().enumerate() {
        let item = match subject {
            Subject::Block(block) => Item::Block(block),
            Subject::Group(group) => Item::Rest(group),
        };
        let fill = colour_of(frame.palette, &piece.tile.tile, item, rect.height());
        scene.fill(*rect, tint(fill).with_alpha(look.tint));
        let before = i
            .checked_sub(1)
            .map(|i| rects[i])
            .filter(|b| b.x1 == rect.x0);
        let after = rects.get(i + 1).filter(|a| a.x0 == rect.x1);
        outline(
            scene,
            *rect,
            before,
            after.copied(),
            look,
            frame.layout.plot,
        );
    }
}

fn edges(mountain: &Mountain, subject: Subject, run: Run) -> Option<(Bytes, Bytes)> {
    let column = mountain.layout.highest(run.first, run.end);
    match subject {
        Subject::Block(block) => {
            let live = mountain.tile.blocks[block as usize].live;
            if !live.contains(mountain.tile.samples[column]) {
                return None;
            }
            let band = mountain.layout.find(column, Item::Block(block))?;
            Some((band.bottom, band.top))
        }
        Subject::Group(group) => mountain.layout.find_group(column, group),
    }
}

/// Top and bottom edges, the ends, and the joints to neighbouring rectangles that lie higher or
/// lower.
fn outline(
    scene: &mut Scene,
    rect: PxRect,
    before: Option<PxRect>,
    after: Option<PxRect>,
    look: Look,
    plot: PxRect,
) {
    let PxRect { x0, x1, y0, y1 } = rect;
    let t = look.thick;
    // If a band jumps at every pixel, joints and ends would hide it, so only the tint is drawn.
    let narrow = |r: PxRect| r.width() < 3 * t;
    let alone = narrow(rect) && before.is_none_or(narrow) && after.is_none_or(narrow);
    let mut line = |x0: i32, x1: i32, y0: i32, y1: i32| {
        let (y0, y1) = (y0.clamp(plot.y0, plot.y1), y1.clamp(plot.y0, plot.y1));
        scene.fill(PxRect { x0, x1, y0, y1 }, look.edge);
    };
    line(x0, x1, y0 - t, y0);
    line(x0, x1, y1, y1 + t);
    if alone {
        return;
    }
    match before {
        None => line(x0 - t, x0, y0 - t, y1 + t),
        Some(b) => {
            line(x0 - t / 2, x0 - t / 2 + t, b.y0.min(y0), b.y0.max(y0));
            line(x0 - t / 2, x0 - t / 2 + t, b.y1.min(y1), b.y1.max(y1));
        }
    }
    if after.is_none() {
        line(x1, x1 + t, y0 - t, y1 + t);
    }
}

/// The life of the selected block, as a bar on the axis.
pub fn life(scene: &mut Scene, (start, end): (f64, f64), frame: Frame<'_>) {
    let (area, layout) = (frame.layout.axis, frame.layout);
    let (from, to) = frame.columns.window();
    if end <= from || start >= to {
        return;
    }
    let (x0, x1) = (frame.columns.x_of(start), frame.columns.x_of(end));
    let y0 = area.y0;
    let bar = PxRect {
        x0,
        x1: x1.max(x0 + layout.px(2.0)),
        y0,
        y1: y0 + layout.px(3.0),
    };
    scene.fill(bar, frame.palette.text);
}

/// The rectangle of a box zoom.
pub fn rubber(scene: &mut Scene, (a, b): Rubber, frame: Frame<'_>) {
    let px = |css: f64| (css * frame.layout.scale).round() as i32;
    let plot = frame.layout.plot;
    let (ax, bx) = (
        px(a.0).clamp(plot.x0, plot.x1),
        px(b.0).clamp(plot.x0, plot.x1),
    );
    let (ay, by) = (
        px(a.1).clamp(plot.y0, plot.y1),
        px(b.1).clamp(plot.y0, plot.y1),
    );
    let rect = PxRect {
        x0: ax.min(bx),
        x1: ax.max(bx),
        y0: ay.min(by),
        y1: ay.max(by),
    };
    scene.fill(rect, frame.palette.accent.with_alpha(0.14));
    scene.outline(rect, frame.palette.accent, frame.layout.px(1.0));
}

/// Cross hair, the level at it, and the band under it.
pub fn pointer(
    scene: &mut Scene,
    (x, y): (f64, f64),
    hit: Option<&Hit>,
    pieces: &[Piece<Mountain>],
    frame: Frame<'_>,
) {
    let plot = frame.layout.plot;
    let (x, y) = (
        (x * frame.layout.scale) as i32,
        (y * frame.layout.scale) as i32,
    );
    if !(plot.x0..plot.x1).contains(&x) || y >= plot.y1 {
        return;
    }
    if let Some(hit) = hit {
        hovered(scene, hit, pieces, frame);
        let start = frame.columns.x_of(f64::from(hit.events.start().0));
        let end = frame.columns.x_of(f64::from(hit.events.end().0));
        let column = PxRect {
            x0: start,
            x1: end.max(start + 1),
            y0: plot.y0,
            y1: plot.y1,
        };
        if column.width() >= frame.layout.px(3.0) {
            scene.fill(column, frame.palette.text.with_alpha(0.07));
        }
    }
    let hair = frame.palette.text.with_alpha(0.55);
    let thin = frame.layout.px(0.75);
    scene.fill(
        PxRect {
            x0: x,
            x1: x + thin,
            y0: frame.layout.canvas.y0,
            y1: plot.y1,
        },
        hair,
    );
    if y >= plot.y0 {
        let faint = frame.palette.text.with_alpha(0.25);
        scene.fill(
            PxRect {
                x0: plot.x0,
                x1: plot.x1,
                y0: y,
                y1: y + thin,
            },
            faint,
        );
        level_tag(scene, y, frame);
    }
}

fn hovered(scene: &mut Scene, hit: &Hit, pieces: &[Piece<Mountain>], frame: Frame<'_>) {
    let (block, key) = match &hit.target {
        Some(Target::Block { block, .. }) => (Some(block.block), None),
        Some(Target::Rest { key, .. }) => (None, Some(*key)),
        Some(Target::Base { .. } | Target::Pending { .. }) | None => return,
    };
    let look = Look {
        tint: 0.28,
        edge: frame.palette.text.with_alpha(0.8),
        thick: frame.layout.px(0.75),
    };
    for piece in pieces {
        let tile = &piece.tile.tile;
        let subject = match (block, key) {
            (Some(block), _) => tile
                .blocks
                .iter()
                .position(|b| b.block == block)
                .map(|i| Subject::Block(i as u32)),
            (None, key) => tile
                .groups
                .iter()
                .position(|g| Some(g.key) == key)
                .map(|i| Subject::Group(i as u16)),
        };
        if let Some(subject) = subject {
            stand_out(scene, piece, subject, look, frame);
        }
    }
}

/// The level at the pointer, in the gutter.
fn level_tag(scene: &mut Scene, y: i32, frame: Frame<'_>) {
    let (layout, plot) = (frame.layout, frame.layout.plot);
    let text = Bytes(frame.rows.level(f64::from(y)).max(0.0) as u64).to_string();
    let size = 11.0 * layout.scale;
    let half = layout.px(9.0);
    let middle = y.clamp(plot.y0 + half, plot.y1 - half);
    let x1 = plot.x0 - layout.px(3.0);
    let x0 = (x1 - text_width(&text, size) - layout.px(10.0)).max(0);
    scene.fill(
        PxRect {
            x0,
            x1,
            y0: middle - half,
            y1: middle + half,
        },
        frame.palette.text,
    );
    scene.texts.push(Text {
        x: x1 - layout.px(5.0),
        y: middle,
        anchor: Anchor::Right,
        size,
        colour: frame.palette.surface,
        text,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colours::{N_GROUP_COLOURS, Palette, TURNS};

    /// In both themes, on all shades of all groups.
    #[test]
    fn labels_read_on_what_stands_out() {
        for palette in [Palette::light(), Palette::dark()] {
            for order in 0..(N_GROUP_COLOURS * TURNS) as u32 {
                for block in 0..4 {
                    let fill = palette.block(palette.group(1, order), block, 99.0);
                    for share in [0.0, 0.28, 0.3] {
                        let under = fill.mixed(tint(fill), share).luminance() + 0.05;
                        let ink = fill.ink().luminance() + 0.05;
                        let contrast = ink.max(under) / ink.min(under);
                        assert!(contrast >= 4.5, "{order} {block} {share}: {contrast:.2}");
                    }
                }
            }
        }
    }
}
