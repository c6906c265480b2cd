//! The lane of the host, below the picture: an arc for each block of pinned memory, down when it is
//! taken and up when it is given back. An arc that does not come up again is a block that the
//! program kept.
//!
//! The depth of an arc depends on its length and on that of the window, not on where the window is,
//! so arcs keep their shape while the window moves. Longer ones are deeper: what is taken first and
//! given back last lies around the others.

use super::colours::Rgba;
use super::mountain::Frame;
use super::plot::PxRect;
use super::scene::{Anchor, Scene, Text, text_width};
use crate::format::count;
use api::timeline::Marks;
use std::collections::HashSet;
use trace::stays::HostStay;
use trace::units::EventIdx;

/// Narrower arcs are not drawn, CSS pixels.
const HIDE_BELOW_CSS: f64 = 3.0;
/// The most arcs in one picture; the longest are drawn.
const MOST: usize = 250;
/// Width of the bent part at each end of an arc, CSS pixels.
const ENDS_CSS: f64 = 26.0;
/// How near the pointer must be to an arc, CSS pixels.
const NEAR_CSS: f64 = 4.0;
/// Font of the texts, CSS pixels.
const FONT_CSS: f64 = 10.5;

/// An arc on screen: down at its left end, level, up at its right end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arc {
    stay: HostStay,
    x0: i32,
    x1: i32,
    /// Row of the level part.
    bottom: i32,
    /// Whether the left end is on screen.
    goes_down: bool,
    /// Whether the right end is on screen, and there is one.
    comes_up: bool,
}

/// What a window shows.
#[derive(Debug, Default, PartialEq)]
struct Arcs {
    drawn: Vec<Arc>,
    /// Stays that an arc stands for: those that would look the same share one.
    shown: usize,
    /// Stays in the window, drawn or not.
    visible: usize,
}

fn arcs(stays: &[HostStay], frame: Frame<'_>) -> Arcs {
    let (from, to) = frame.columns.window();
    let mut arcs = Arcs::default();
    let narrowest = frame.layout.px(HIDE_BELOW_CSS);
    let mut looks = HashSet::new();
    for &stay in stays {
        let (starts, ends) = ends(stay);
        if ends <= from || starts >= to {
            continue;
        }
        arcs.visible += 1;
        let arc = arc(stay, frame);
        if arc.x1 - arc.x0 < narrowest {
            continue;
        }
        let is_new = !looks.contains(&arc.look());
        if is_new && arcs.drawn.len() < MOST {
            looks.insert(arc.look());
            arcs.drawn.push(arc);
        }
        arcs.shown += usize::from(looks.contains(&arc.look()));
    }
    arcs
}

/// Where a stay begins and ends, beyond all events where that is not in the recording.
fn ends(stay: HostStay) -> (f64, f64) {
    let place = |event: EventIdx| f64::from(event.0);
    let starts = stay.from.map_or(f64::NEG_INFINITY, place);
    (starts, stay.until.map_or(f64::INFINITY, place))
}

fn arc(stay: HostStay, frame: Frame<'_>) -> Arc {
    let (lane, layout) = (frame.layout.host, frame.layout);
    let (from, to) = frame.columns.window();
    let (starts, ends) = ends(stay);
    let share = ((ends - starts) / (to - from).max(1.0)).clamp(0.0, 1.0);
    let thick = layout.px(1.0);
    let deepest = f64::from(lane.height() - thick - layout.px(3.0));
    let depth = (deepest * share.sqrt()).max(f64::from(layout.px(3.0)));
    let x = |event: f64| frame.columns.x_of(event);
    Arc {
        stay,
        x0: if starts < from { lane.x0 } else { x(starts) },
        x1: if ends > to { lane.x1 } else { x(ends) },
        bottom: lane.y0 + depth as i32,
        goes_down: starts >= from,
        comes_up: ends <= to,
    }
}

impl Arc {
    /// What makes two arcs look the same.
    fn look(&self) -> ([i32; 3], [bool; 3]) {
        let ends = [self.goes_down, self.comes_up, self.is_kept()];
        ([self.x0, self.x1, self.bottom], ends)
    }

    /// Whether the program still holds the block at the end.
    fn is_kept(&self) -> bool {
        self.stay.until.is_none()
    }

    /// Width of the bent parts.
    fn bend(&self, frame: Frame<'_>) -> i32 {
        let ends = i32::from(self.goes_down) + i32::from(self.comes_up);
        let room = (self.x1 - self.x0) / ends.max(1);
        room.min(frame.layout.px(ENDS_CSS)).max(1)
    }

    /// The rows that the arc passes in a column: the upper one and the lower one, both inside.
    fn rows_at(&self, x: i32, frame: Frame<'_>) -> (i32, i32) {
        let top = frame.layout.host.y0;
        let bend = self.bend(frame);
        let from_left = self.goes_down.then_some(x - self.x0);
        let from_right = self.comes_up.then_some(self.x1 - 1 - x);
        let nearer = from_left.into_iter().chain(from_right).min();
        let distance = nearer.unwrap_or(bend);
        let row = |distance: i32| {
            let away = 1.0 - f64::from(distance.min(bend)) / f64::from(bend);
            let depth = f64::from(self.bottom - top) * (1.0 - away * away).sqrt();
            top + depth.round() as i32
        };
        (row(distance), row(distance + 1))
    }

    /// Adds it, with this thickness.
    fn draw(&self, scene: &mut Scene, thick: i32, colour: Rgba, frame: Frame<'_>) {
        let mut level: Option<PxRect> = None;
        for x in self.x0..self.x1 {
            let (y0, y1) = self.rows_at(x, frame);
            let rect = PxRect {
                x0: x,
                x1: x + 1,
                y0,
                y1: y1.max(y0 + 1) + thick - 1,
            };
            match &mut level {
                Some(before) if (before.y0, before.y1) == (rect.y0, rect.y1) => before.x1 = x + 1,
                _ => {
                    scene.fill(level.unwrap_or_default(), colour);
                    level = Some(rect);
                }
            }
        }
        scene.fill(level.unwrap_or_default(), colour);
    }
}

/// Adds the lane, if there is one.
pub fn draw(scene: &mut Scene, marks: &Marks, frame: Frame<'_>) {
    let (lane, layout, palette) = (frame.layout.host, frame.layout, frame.palette);
    if lane.height() == 0 {
        return;
    }
    let rule = PxRect {
        y1: lane.y0 + layout.px(1.0),
        ..lane
    };
    scene.fill(rule, palette.line_strong);
    let size = FONT_CSS * layout.scale;
    scene.texts.push(Text {
        x: lane.x0 - layout.px(8.0),
        y: (lane.y0 + lane.y1) / 2,
        anchor: Anchor::Right,
        size,
        colour: palette.muted,
        text: "host".to_owned(),
    });
    let Arcs {
        drawn,
        shown,
        visible,
    } = arcs(&marks.stays, frame);
    // The longest last, so that it lies over the shorter ones where they touch.
    for arc in drawn.iter().rev() {
        let (thick, opacity) = if arc.is_kept() {
            (1.6, 1.0)
        } else {
            (1.0, 0.62)
        };
        let colour = palette.pinned.with_alpha(opacity);
        arc.draw(scene, layout.px(thick), colour, frame);
    }
    if let Some(text) = left_out(shown, visible, marks.stays_left_out) {
        let width = text_width(&text, size) + layout.px(10.0);
        let pill = PxRect {
            x0: (lane.x1 - width).max(lane.x0),
            x1: lane.x1,
            y0: lane.y1 - layout.px(16.0),
            y1: lane.y1 - layout.px(1.0),
        };
        scene.fill(pill, palette.surface.with_alpha(0.85));
        scene.texts.push(Text {
            x: pill.x0 + layout.px(5.0),
            y: (pill.y0 + pill.y1) / 2,
            anchor: Anchor::Left,
            size,
            colour: palette.muted,
            text,
        });
    }
}

/// What is said when not all blocks have an arc.
fn left_out(shown: usize, visible: usize, unknown: u64) -> Option<String> {
    let all = match unknown {
        0 => count(visible as u64),
        _ => format!("more than {}", count(visible as u64)),
    };
    match shown {
        shown if shown == visible => None,
        0 => Some(format!("{all} pinned blocks: zoom in to see them")),
        shown => Some(format!(
            "{} of {all} pinned blocks: zoom in for more",
            count(shown as u64)
        )),
    }
}

/// The stay whose arc is at a pixel of the lane, or so near that it is meant.
pub fn stay_at(marks: &Marks, frame: Frame<'_>, (x, y): (i32, i32)) -> Option<HostStay> {
    if !frame.layout.host.contains(x, y) {
        return None;
    }
    let near = frame.layout.px(NEAR_CSS);
    let drawn = arcs(&marks.stays, frame).drawn;
    let meant = drawn.iter().filter(|arc| (arc.x0..arc.x1).contains(&x));
    let distance = |arc: &&Arc| {
        let (upper, lower) = arc.rows_at(x, frame);
        (upper - y).max(y - lower).max(0)
    };
    let nearest = meant.min_by_key(distance)?;
    (distance(&nearest) <= near).then_some(nearest.stay)
}

/// Adds a stay that is pointed at, over the others.
pub fn stand_out(scene: &mut Scene, stay: HostStay, frame: Frame<'_>) {
    let thick = frame.layout.px(2.5);
    arc(stay, frame).draw(scene, thick, frame.palette.pinned, frame);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::AxisMap;
    use crate::colours::Palette;
    use crate::plot::{Columns, Layout, Measure, Rows};
    use crate::scene::Shape;
    use crate::viewport::{Limits, Viewport};
    use trace::units::Bytes;

    fn stay(from: impl Into<Option<u32>>, until: impl Into<Option<u32>>) -> HostStay {
        HostStay {
            from: from.into().map(EventIdx),
            until: until.into().map(EventIdx),
            bytes: Bytes::mib(1),
        }
    }

    /// Runs a check over a window of 1000 events, 200 pixels wide.
    fn with_frame<T>((from, to): (f64, f64), check: impl Fn(Frame<'_>) -> T) -> T {
        let layout = Layout::new(Measure {
            width: 273.0,
            height: 330.0,
            scale: 1.0,
            has_steps: false,
            lanes: 0,
            has_host: true,
        });
        let viewport = Viewport {
            from,
            to,
            levels: None,
        };
        let limits = Limits {
            n_events: 1000.0,
            auto_high: 1.0,
            max_high: 1.0,
        };
        let palette = Palette::light();
        check(Frame {
            layout: &layout,
            columns: &Columns::new(layout.plot, &viewport, &AxisMap::Event),
            rows: &Rows::new(layout.plot, &viewport, limits),
            palette: &palette,
        })
    }

    fn marks(stays: Vec<HostStay>) -> Marks {
        Marks {
            steps: vec![],
            annotations: vec![],
            annotations_left_out: 0,
            ooms: vec![],
            ooms_left_out: 0,
            capacity: None,
            stays,
            stays_left_out: 0,
        }
    }

    #[test]
    fn an_arc_touches_the_rule_where_it_begins_and_ends_and_is_deepest_between() {
        with_frame((0.0, 1000.0), |frame| {
            let top = frame.layout.host.y0;
            let check = |stay: HostStay, (left, right): (bool, bool)| {
                let arc = arc(stay, frame);
                let (first, _) = arc.rows_at(arc.x0, frame);
                let (last, _) = arc.rows_at(arc.x1 - 1, frame);
                assert_eq!((first == top, last == top), (left, right), "{stay:?}");
                let middle = (arc.x0 + arc.x1) / 2;
                assert_eq!(arc.rows_at(middle, frame).0, arc.bottom, "{stay:?}");
                assert!(frame.layout.host.contains(middle, arc.bottom), "{stay:?}");
            };
            check(stay(100, 900), (true, true));
            check(stay(None, 500), (false, true));
            check(stay(500, None), (true, false));
            check(stay(None, None), (false, false));
        });
    }

    #[test]
    fn an_arc_keeps_its_depth_while_the_window_moves_and_lies_around_shorter_ones() {
        let bottom = |window, stay| with_frame(window, |frame| arc(stay, frame).bottom);
        for window in [(0.0, 400.0), (50.0, 450.0), (300.0, 700.0)] {
            assert_eq!(
                bottom(window, stay(100, 320)),
                bottom((0.0, 400.0), stay(100, 320))
            );
        }
        assert!(bottom((0.0, 1000.0), stay(0, 1000)) > bottom((0.0, 1000.0), stay(10, 600)));
    }

    #[test]
    fn the_pointer_finds_the_nearest_arc_and_nothing_far_from_all() {
        with_frame((0.0, 1000.0), |frame| {
            let (outer, inner) = (stay(100, 900), stay(400, 600));
            let marks = marks(vec![outer, inner]);
            let middle = frame.columns.x_of(500.0);
            let at = |y| stay_at(&marks, frame, (middle, y));
            assert_eq!(at(arc(outer, frame).bottom), Some(outer));
            assert_eq!(at(arc(inner, frame).bottom - 2), Some(inner));
            assert_eq!(at(frame.layout.host.y0), None);
            assert_eq!(at(frame.layout.host.y0 - 1), None, "above the lane");
            let beside = (frame.columns.x_of(50.0), frame.layout.host.y0 + 10);
            assert_eq!(stay_at(&marks, frame, beside), None);
        });
    }

    #[test]
    fn what_is_too_narrow_or_too_much_is_counted() {
        let check = |stays: Vec<HostStay>, window, expected: &str| {
            with_frame(window, |frame| {
                let mut scene = Scene::new((273, 330));
                draw(&mut scene, &marks(stays.clone()), frame);
                let said = scene.texts.iter().find(|text| text.text != "host");
                assert_eq!(said.map_or("", |text| &text.text), expected);
                let outside = scene.shapes.iter().filter(|shape| {
                    let (Shape::Fill { rect, .. } | Shape::Hatch { rect, .. }) = shape;
                    rect.y0 < frame.layout.host.y0 || rect.y1 > frame.layout.host.y1
                });
                assert_eq!(outside.count(), 0);
            });
        };
        let short: Vec<HostStay> = (0..900).map(|at| stay(at, at + 1)).collect();
        check(
            short.clone(),
            (0.0, 1000.0),
            "900 pinned blocks: zoom in to see them",
        );
        check(short, (100.0, 110.0), "");
        check(vec![stay(3, 700); 300], (0.0, 1000.0), "");
        let many = |at: u32| stay(at % 20 * 5, 500 + at / 20 * 5);
        let many = (0..400).map(many).collect();
        check(
            many,
            (0.0, 1000.0),
            "250 of 400 pinned blocks: zoom in for more",
        );
        check(vec![stay(3, 700), stay(5, None)], (0.0, 1000.0), "");
    }
}
