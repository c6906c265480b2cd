//! Grid, tick labels, capacity, and marks of failed allocations.

use super::axis::AxisMap;
use super::mountain::Frame;
use super::plot::PxRect;
use super::scene::{Anchor, Scene, Text, text_width};
use super::ticks::{self, Tick};
use super::viewport::Viewport;
use api::timeline::{Marks, OomMark};
use trace::units::Bytes;

/// Font of tick labels, CSS pixels.
const FONT_CSS: f64 = 11.0;

/// The horizontal rules, under the picture, and their labels.
pub fn draw_levels(scene: &mut Scene, levels: (f64, f64), frame: Frame<'_>) {
    let (plot, layout) = (frame.layout.plot, frame.layout);
    let most = (f64::from(plot.height()) / layout.scale / 52.0)
        .floor()
        .max(2.0) as usize;
    for Tick { at, label } in ticks::bytes(levels.0, levels.1, most) {
        let y = frame.rows.row(at);
        let rule = PxRect {
            x0: plot.x0,
            x1: plot.x1,
            y0: y,
            y1: y + layout.px(0.5),
        };
        scene.fill(rule, frame.palette.line);
        scene.texts.push(Text {
            x: plot.x0 - layout.px(8.0),
            y: y.clamp(plot.y0 + layout.px(5.0), plot.y1),
            anchor: Anchor::Right,
            size: FONT_CSS * layout.scale,
            colour: frame.palette.muted,
            text: label,
        });
    }
}

/// Shows that the picture does not start at zero: without that, a cut axis would look like a whole
/// one.
pub fn draw_cut(scene: &mut Scene, low: f64, frame: Frame<'_>) {
    if low <= 0.0 {
        return;
    }
    let (plot, layout) = (frame.layout.plot, frame.layout);
    let (tooth, thick) = (layout.px(4.0), layout.px(1.0));
    let mut x = plot.x0;
    while x < plot.x1 {
        let odd = (x - plot.x0) / tooth % 2;
        let y = plot.y1 - thick - odd * thick;
        let rect = PxRect {
            x0: x,
            x1: (x + tooth).min(plot.x1),
            y0: y,
            y1: y + thick,
        };
        scene.fill(rect, frame.palette.text);
        x += tooth;
    }
    let text = format!("{} below", Bytes(low as u64));
    let size = 10.0 * layout.scale;
    let width = text_width(&text, size) + layout.px(10.0);
    let y1 = plot.y1 - layout.px(6.0);
    let pill = PxRect {
        x0: plot.x0 + layout.px(6.0),
        x1: plot.x0 + layout.px(6.0) + width,
        y0: y1 - layout.px(15.0),
        y1,
    };
    scene.fill(pill, frame.palette.surface.with_alpha(0.85));
    scene.texts.push(Text {
        x: pill.x0 + layout.px(5.0),
        y: (pill.y0 + pill.y1) / 2,
        anchor: Anchor::Left,
        size,
        colour: frame.palette.text,
        text,
    });
}

/// The labels under the picture.
pub fn draw_positions(scene: &mut Scene, viewport: &Viewport, axis: &AxisMap, frame: Frame<'_>) {
    let (area, layout) = (frame.layout.axis, frame.layout);
    let most = (f64::from(area.width()) / layout.scale / 95.0)
        .floor()
        .max(3.0) as usize;
    let (from, to) = (axis.position(viewport.from), axis.position(viewport.to));
    let ticks = match axis {
        AxisMap::Event => ticks::events(from, to, most),
        AxisMap::Time(_) => ticks::time(from, to, most),
    };
    let size = FONT_CSS * layout.scale;
    let rule = PxRect {
        y1: area.y0 + layout.px(1.0),
        ..area
    };
    scene.fill(rule, frame.palette.line_strong);
    for Tick { at, label } in ticks {
        let x = area.x0 + (f64::from(area.width()) * (at - from) / (to - from)).round() as i32;
        let tick = PxRect {
            x0: x,
            x1: x + layout.px(1.0),
            y0: area.y0,
            y1: area.y0 + layout.px(5.0),
        };
        scene.fill(tick, frame.palette.line_strong);
        // A label that would reach beyond the canvas is moved inside.
        let half = text_width(&label, size) / 2;
        scene.texts.push(Text {
            x: x.min(area.x1 - half - 1).max(half),
            y: area.y0 + layout.px(14.0),
            anchor: Anchor::Middle,
            size,
            colour: frame.palette.muted,
            text: label,
        });
    }
}

/// Capacity as a dashed line, failed allocations as marks from top to bottom.
pub fn draw_marks(scene: &mut Scene, marks: &Marks, frame: Frame<'_>) {
    let (plot, layout, palette) = (frame.layout.plot, frame.layout, frame.palette);
    if let Some(capacity) = marks.capacity.filter(|c| frame.rows.shows(c.get() as f64)) {
        let y = frame.rows.row(capacity.get() as f64);
        scene.dashes((plot.x0, plot.x1), y, palette.capacity, layout.px(1.0));
        let text = format!("capacity {capacity}");
        tag(
            scene,
            plot.x1,
            y + layout.px(9.0),
            &text,
            palette.capacity,
            frame,
        );
    }
    let (from, to) = frame.columns.window();
    let shown = |oom: &&OomMark| (from..to).contains(&f64::from(oom.event.0));
    let shown = marks.ooms.iter().filter(shown);
    let x_of = |oom: &OomMark| frame.columns.x_of(f64::from(oom.event.0));
    // All lines first: a label hides those that come after it.
    for oom in shown.clone() {
        let x = x_of(oom);
        let rect = PxRect {
            x0: x,
            x1: x + layout.px(1.5),
            y0: plot.y0,
            y1: plot.y1,
        };
        scene.fill(rect, palette.oom);
    }
    let mut free_from = plot.x0;
    for oom in shown {
        let refused = match oom.limit {
            None => match oom.device_free {
                Some(free) => format!(", the device had {free} free"),
                None => String::new(),
            },
            Some(_) => ", over the process's limit".to_owned(),
        };
        let text = format!("out of memory: {} wanted{refused}", oom.size);
        let width = text_width(&text, 10.5 * layout.scale) + layout.px(10.0);
        let right = (x_of(oom) + width).min(plot.x1);
        // If there are several in a row, only the first gets a label.
        if right - width >= free_from {
            tag(
                scene,
                right,
                plot.y0 + layout.px(9.0),
                &text,
                palette.oom,
                frame,
            );
            free_from = right;
        }
    }
}

/// A label on a patch of surface, its right end at `x`, its middle at `y`.
fn tag(
    scene: &mut Scene,
    x: i32,
    y: i32,
    text: &str,
    colour: super::colours::Rgba,
    frame: Frame<'_>,
) {
    let (layout, size) = (frame.layout, 10.5 * frame.layout.scale);
    let width = text_width(text, size) + layout.px(8.0);
    let half = layout.px(8.0);
    let patch = PxRect {
        x0: x - width,
        x1: x,
        y0: y - half,
        y1: y + half,
    };
    scene.fill(patch, frame.palette.surface.with_alpha(0.85));
    scene.texts.push(Text {
        x: x - layout.px(4.0),
        y,
        anchor: Anchor::Right,
        size,
        colour,
        text: text.to_owned(),
    });
}
