//! The scene of an overlay.

use super::{Canvas, Detail, Overlay, Places, run_colour};
use crate::colours::{Palette, Rgba};
use crate::plot::PxRect;
use crate::scene::{Anchor, Scene, Text, text_width};
use crate::ticks::{self, Tick};
use trace::compare::curves::Align;
use trace::units::{Bytes, size};

/// Font of labels, CSS pixels.
const FONT_CSS: f64 = 11.0;

/// The picture.
pub fn scene(overlay: &Overlay<'_>, canvas: Canvas, palette: &Palette) -> Scene {
    let places = Places::of(canvas, overlay.detail);
    let mut scene = Scene::new((places.canvas.x1, places.canvas.y1));
    // Leaves some space above the highest peak.
    let high = overlay.high.unwrap_or_else(|| overlay.highest()).max(1) as f64 * 1.04;
    let pen = Pen {
        overlay,
        places: &places,
        palette,
        high,
    };
    if overlay.detail != Detail::Small {
        pen.levels(&mut scene);
    }
    for &run in overlay.runs {
        pen.curve(&mut scene, run);
    }
    if overlay.detail == Detail::Full {
        pen.differences(&mut scene);
    }
    if overlay.detail != Detail::Small {
        pen.positions(&mut scene);
    }
    scene
}

/// A stretch at one height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    x0: i32,
    x1: i32,
    low: u64,
    high: u64,
}

struct Pen<'a> {
    overlay: &'a Overlay<'a>,
    places: &'a Places,
    palette: &'a Palette,
    high: f64,
}

impl Pen<'_> {
    fn y(&self, level: u64) -> i32 {
        let plot = self.places.plot;
        let share = (level as f64 / self.high).clamp(0.0, 1.0);
        plot.y1 - (share * f64::from(plot.height())).round() as i32
    }

    /// Device pixels of a part, at least one wide.
    fn columns(&self, part: usize) -> (i32, i32) {
        let plot = self.places.plot;
        let x = |at| self.places.x(self.overlay.window, at).round() as i32;
        let (x0, x1) = (
            x(self.overlay.begin_of(part)),
            x(self.overlay.begin_of(part + 1)),
        );
        (
            x0.clamp(plot.x0, plot.x1),
            x1.max(x0 + 1).clamp(plot.x0, plot.x1),
        )
    }

    /// The visible parts of a run; parts in the same pixel column become one.
    fn stretches(&self, run: usize) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        let Some(curve) = self.overlay.curves.runs.get(run) else {
            return stretches;
        };
        for part in self.overlay.visible() {
            let Some([low, high, _]) = curve.parts[part] else {
                continue;
            };
            let (x0, x1) = self.columns(part);
            match stretches.last_mut() {
                Some(last) if x0 < last.x1 => {
                    last.low = last.low.min(low);
                    last.high = last.high.max(high);
                    last.x1 = last.x1.max(x1);
                }
                Some(last) if x0 == last.x1 && (last.low, last.high) == (low, high) => {
                    last.x1 = x1;
                }
                _ => stretches.push(Stretch { x0, x1, low, high }),
            }
        }
        stretches
    }

    fn curve(&self, scene: &mut Scene, run: usize) {
        let is_band = self.overlay.band == Some(run);
        let colour = match is_band {
            true => self.palette.muted,
            false => run_colour(self.palette, run),
        };
        let stretches = self.stretches(run);
        let bottom = self.places.plot.y1;
        for stretch in &stretches {
            let (top, low) = (self.y(stretch.high), self.y(stretch.low));
            let column = |y0, y1| PxRect {
                x0: stretch.x0,
                y0,
                x1: stretch.x1,
                y1,
            };
            if run == 0 && self.overlay.filled {
                scene.fill(column(top, bottom), colour.with_alpha(0.16));
            } else {
                scene.fill(column(top, low), colour.with_alpha(0.22));
            }
        }
        if is_band {
            return;
        }
        let thick = self.places.px(1.5);
        let mut before: Option<Stretch> = None;
        for stretch in stretches {
            let top = (self.y(stretch.high) - thick / 2).min(bottom - thick);
            // Joined to the stretch before, unless the run has a gap between them.
            let from = match before {
                Some(last) if last.x1 == stretch.x0 => {
                    (self.y(last.high) - thick / 2).min(bottom - thick)
                }
                _ => top,
            };
            let joint = PxRect {
                x0: stretch.x0,
                y0: from.min(top),
                x1: (stretch.x0 + thick).min(stretch.x1),
                y1: from.max(top) + thick,
            };
            scene.fill(joint, colour);
            let stroke = PxRect {
                x0: joint.x1,
                y0: top,
                x1: stretch.x1,
                y1: top + thick,
            };
            scene.fill(stroke, colour);
            before = Some(stretch);
        }
    }

    /// Rules and labels of levels.
    fn levels(&self, scene: &mut Scene) {
        let (plot, places) = (self.places.plot, self.places);
        let most = (f64::from(plot.height()) / places.scale / 52.0)
            .floor()
            .max(2.0) as usize;
        for Tick { at, label } in ticks::bytes(0.0, self.high, most) {
            let y = self.y(at as u64);
            let rule = PxRect {
                x0: plot.x0,
                x1: plot.x1,
                y0: y,
                y1: y + places.px(0.5),
            };
            scene.fill(rule, self.palette.line);
            // If the canvas has no layout yet, it has no room for a label.
            let y = y.max(plot.y0 + places.px(5.0)).min(plot.y1);
            self.text(scene, (plot.x0 - places.px(8.0), y), Anchor::Right, label);
        }
    }

    fn text(&self, scene: &mut Scene, (x, y): (i32, i32), anchor: Anchor, text: String) {
        scene.texts.push(Text {
            x,
            y,
            anchor,
            size: FONT_CSS * self.places.scale,
            colour: self.palette.muted,
            text,
        });
    }

    /// The lane of differences: up for more, down for less, so that the meaning does not depend on
    /// colour alone.
    fn differences(&self, scene: &mut Scene) {
        let (lane, places, overlay) = (self.places.lane, self.places, self.overlay);
        scene.fill(lane, self.palette.surface_raised);
        let (more, less) = difference_colours(self.palette);
        let most = self.largest_difference();
        let middle = (lane.y0 + lane.y1) / 2;
        let half = f64::from(lane.height()) / 2.0 - f64::from(places.px(2.0));
        for part in overlay.visible() {
            let Some(delta) = overlay.difference(part) else {
                continue;
            };
            let tall = (delta as f64 / most.max(1) as f64 * half).round() as i32;
            let (x0, x1) = self.columns(part);
            let bar = match tall {
                0 => continue,
                up if up > 0 => PxRect {
                    x0,
                    y0: middle - up,
                    x1,
                    y1: middle,
                },
                down => PxRect {
                    x0,
                    y0: middle,
                    x1,
                    y1: middle - down,
                },
            };
            scene.fill(bar, if delta > 0 { more } else { less });
        }
        let zero = PxRect {
            x0: lane.x0,
            y0: middle,
            x1: lane.x1,
            y1: middle + places.px(1.0),
        };
        scene.fill(zero, self.palette.line_strong);
        let x = lane.x0 - places.px(8.0);
        self.text(scene, (x, middle), Anchor::Right, "0".to_owned());
        if most > 0 {
            let (top, bottom) = (lane.y0 + places.px(6.0), lane.y1 - places.px(6.0));
            let bytes = size::rounded(Bytes(most));
            self.text(scene, (x, top), Anchor::Right, format!("+{bytes}"));
            self.text(
                scene,
                (x, bottom),
                Anchor::Right,
                format!("\u{2212}{bytes}"),
            );
        }
    }

    fn largest_difference(&self) -> u64 {
        let differences = self
            .overlay
            .visible()
            .filter_map(|part| self.overlay.difference(part));
        differences.map(i64::unsigned_abs).max().unwrap_or(0)
    }

    /// Labels of the axis.
    fn positions(&self, scene: &mut Scene) {
        let (axis, places) = (self.places.axis, self.places);
        let rule = PxRect {
            y1: axis.y0 + places.px(1.0),
            ..axis
        };
        scene.fill(rule, self.palette.line_strong);
        let most = (f64::from(axis.width()) / places.scale / 80.0)
            .floor()
            .max(3.0) as usize;
        for Tick { at, label } in positions(self.overlay, most) {
            let x = places.x(self.overlay.window, at).round() as i32;
            let tick = PxRect {
                x0: x,
                x1: x + places.px(1.0),
                y0: axis.y0,
                y1: axis.y0 + places.px(5.0),
            };
            scene.fill(tick, self.palette.line_strong);
            let half = text_width(&label, FONT_CSS * places.scale) / 2;
            let x = x.min(axis.x1 - half - 1).max(half);
            self.text(scene, (x, axis.y0 + places.px(14.0)), Anchor::Middle, label);
        }
    }
}

/// The colours for more and for less memory.
pub(super) fn difference_colours(palette: &Palette) -> (Rgba, Rgba) {
    (
        palette.oom,
        palette.series[trace::trace::Series::Requested as usize],
    )
}

/// Ticks of an axis.
fn positions(overlay: &Overlay<'_>, most: usize) -> Vec<Tick> {
    let window = overlay.window;
    match overlay.align {
        Align::Event => ticks::events(window.0, window.1, most),
        Align::Time => ticks::time(window.0 * 1e6, window.1 * 1e6, most)
            .into_iter()
            .map(|tick| Tick {
                at: tick.at / 1e6,
                ..tick
            })
            .collect(),
        Align::Step if overlay.is_one_pass() => percent(window, most),
        Align::Step => steps(window, most),
    }
}

/// Shares of one pass.
fn percent(window: (f64, f64), most: usize) -> Vec<Tick> {
    let hundredfold = (window.0 * 100.0, window.1 * 100.0);
    let ticks = ticks::events(hundredfold.0, hundredfold.1, most).into_iter();
    ticks
        .map(|tick| Tick {
            at: tick.at / 100.0,
            label: format!("{} %", tick.label),
        })
        .collect()
}

/// Whole steps. When few are visible, the ticks between them are shares of a step, in the words of
/// the readout; the first one names its step, too.
fn steps(window: (f64, f64), most: usize) -> Vec<Tick> {
    let least = (window.1 - window.0) / most as f64;
    let sizes = (-2..9).flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10_f64.powi(power)));
    let step = sizes.into_iter().find(|&size| size >= least).unwrap_or(1e9);
    let (first, last) = (
        (window.0 / step).ceil() as i64,
        (window.1 / step).floor() as i64,
    );
    let first = first.max(0);
    let tick = |i: i64| {
        let at = i as f64 * step;
        let hundredths = (at * 100.0).round() as i64;
        let label = match (hundredths / 100, hundredths % 100) {
            (whole, 0) => format!("step {whole}"),
            (whole, part) if i == first => format!("step {whole}, {part} %"),
            (_, part) => format!("{part} %"),
        };
        Tick { at, label }
    };
    // A step begins at its tick: none of one that would begin at the end is seen.
    (first..=last)
        .map(tick)
        .filter(|tick| tick.at < window.1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_name_the_steps_that_are_seen() {
        let labels = |window| -> Vec<String> {
            let ticks = steps(window, 12).into_iter();
            ticks.map(|tick| tick.label).collect()
        };
        let few = ["step 0", "50 %", "step 1", "50 %", "step 2", "50 %"];
        assert_eq!(labels((0.0, 3.0)), few);
        assert_eq!(labels((6.2, 6.26))[..2], ["step 6, 20 %", "21 %"]);
        assert_eq!(labels((-0.5, 1.0))[0], "step 0");
        let twelve = labels((0.0, 12.0));
        assert_eq!(twelve.last().unwrap(), "step 11");
        assert_eq!(labels((0.0, 12.5)).last().unwrap(), "step 12");
    }
}
