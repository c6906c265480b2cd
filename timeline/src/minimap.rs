//! The minimap: the whole trace in one strip, with the position of the window in it.

use super::axis::AxisMap;
use super::colours::Palette;
use super::lines;
use super::plot::{Columns, PxRect};
use super::scene::Scene;
use super::viewport::{Action, Viewport};
use trace::tiles::SeriesTile;
use trace::trace::Series;

/// What the minimap shows.
#[derive(Clone, Copy, Debug)]
pub struct Minimap<'a> {
    /// The tile of the whole trace.
    pub tile: Option<&'a SeriesTile>,
    /// Events of the device.
    pub n_events: f64,
    /// Level at the upper edge, bytes.
    pub high: f64,
    /// The axis.
    pub axis: &'a AxisMap,
    /// The window.
    pub viewport: &'a Viewport,
    /// Colours.
    pub palette: &'a Palette,
}

/// Width of the handles at the window's ends, CSS pixels.
const HANDLE_CSS: f64 = 7.0;

/// The scene for a canvas of this many device pixels.
pub fn scene(map: Minimap<'_>, width: i32, height: i32, scale: f64) -> Scene {
    let mut scene = Scene::new((width, height));
    let area = PxRect {
        x0: 0,
        y0: 0,
        x1: width,
        y1: height,
    };
    scene.fill(area, map.palette.surface_raised);
    let whole = Viewport::whole(map.n_events);
    let columns = Columns::new(area, &whole, map.axis);
    if let Some(tile) = map.tile {
        let row = |bytes: f64| height - (bytes / map.high * f64::from(height)).round() as i32;
        for run in columns.runs(lines::part(tile, 0.0, map.n_events)) {
            let bar = |series, colour, scene: &mut Scene| {
                let (low, high) = lines::extent(tile, series, run.first, run.end);
                let rect = PxRect {
                    x0: run.x0,
                    x1: run.x1,
                    y0: row(high),
                    y1: height,
                };
                scene.fill(rect, colour);
                (low, high)
            };
            let reserved = map.palette.series[Series::Reserved as usize];
            bar(
                Series::Reserved,
                reserved.mixed(map.palette.surface_raised, 0.72),
                &mut scene,
            );
            let allocated = map.palette.series[Series::Allocated as usize];
            let soft = allocated.mixed(map.palette.surface_raised, 0.45);
            let (low, _) = bar(Series::Allocated, soft, &mut scene);
            let certain = PxRect {
                x0: run.x0,
                x1: run.x1,
                y0: row(low),
                y1: height,
            };
            scene.fill(certain, allocated.mixed(map.palette.surface_raised, 0.2));
        }
    }
    draw_window(&mut scene, map, &columns, scale);
    scene
}

fn draw_window(scene: &mut Scene, map: Minimap<'_>, columns: &Columns, scale: f64) {
    let (width, height) = scene.size;
    if map.viewport.from <= 0.0 && map.viewport.to >= map.n_events {
        return;
    }
    let px = |css: f64| ((css * scale).round() as i32).max(1);
    let x0 = columns.x_of(map.viewport.from);
    let x1 = columns.x_of(map.viewport.to).max(x0 + px(2.0)).min(width);
    let veil = map.palette.surface.with_alpha(0.62);
    scene.fill(
        PxRect {
            x0: 0,
            y0: 0,
            x1: x0,
            y1: height,
        },
        veil,
    );
    scene.fill(
        PxRect {
            x0: x1,
            y0: 0,
            x1: width,
            y1: height,
        },
        veil,
    );
    let window = PxRect {
        x0,
        y0: 0,
        x1,
        y1: height,
    };
    scene.outline(window, map.palette.accent, px(1.5));
    let grip = |x: i32| PxRect {
        x0: x - px(1.5),
        x1: x + px(1.5),
        y0: height / 2 - px(7.0),
        y1: height / 2 + px(7.0),
    };
    scene.fill(grip(x0), map.palette.accent);
    scene.fill(grip(x1), map.palette.accent);
}

/// What a drag on the minimap does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Grip {
    /// Moves the window. The distance from its start to the pointer stays the same, in axis units.
    Window {
        /// Axis units from the window's start to the pointer.
        offset: f64,
    },
    /// Moves its start.
    Start,
    /// Moves its end.
    End,
    /// Draws a new window that begins here, at an axis position.
    New {
        /// Where it began.
        from: f64,
    },
}

/// The minimap as a scale: CSS pixels of its width to the axis.
#[derive(Clone, Copy, Debug)]
pub struct Strip<'a> {
    /// CSS pixels.
    pub width: f64,
    /// Events of the device.
    pub n_events: f64,
    /// The axis.
    pub axis: &'a AxisMap,
}

impl Strip<'_> {
    fn position(&self, x: f64) -> f64 {
        let (a, b) = (self.axis.position(0.0), self.axis.position(self.n_events));
        a + (b - a) * (x / self.width).clamp(0.0, 1.0)
    }

    fn x_of(&self, event: f64) -> f64 {
        let (a, b) = (self.axis.position(0.0), self.axis.position(self.n_events));
        (self.axis.position(event) - a) / (b - a) * self.width
    }

    /// What a press at `x` grips. A press outside of the window begins a new window.
    pub fn grip(&self, viewport: &Viewport, x: f64) -> Grip {
        let (start, end) = (self.x_of(viewport.from), self.x_of(viewport.to));
        let whole = viewport.from <= 0.0 && viewport.to >= self.n_events;
        let here = self.position(x);
        match () {
            () if whole => Grip::New { from: here },
            // A narrow window can still be moved: its handles do not cover its middle.
            () if (x - start).abs() <= HANDLE_CSS && x < (start + end) / 2.0 - 2.0 => Grip::Start,
            () if (x - end).abs() <= HANDLE_CSS && x > (start + end) / 2.0 + 2.0 => Grip::End,
            () if (start..=end).contains(&x) || (x - (start + end) / 2.0).abs() <= 4.0 => {
                Grip::Window {
                    offset: here - self.axis.position(viewport.from),
                }
            }
            () => Grip::New { from: here },
        }
    }

    /// The result of dragging a grip to `x`; `None` while a new window is too narrow to be
    /// intended.
    pub fn dragged(&self, grip: Grip, viewport: &Viewport, x: f64) -> Option<Action> {
        let here = self.position(x);
        let (from, to) = (
            self.axis.position(viewport.from),
            self.axis.position(viewport.to),
        );
        let (from, to) = match grip {
            Grip::Window { offset } => {
                let (first, last) = (self.axis.position(0.0), self.axis.position(self.n_events));
                let width = to - from;
                let start = (here - offset).clamp(first, (last - width).max(first));
                (start, start + width)
            }
            Grip::Start => (here.min(to), to),
            Grip::End => (from, here.max(from)),
            Grip::New { from } => {
                let pixel = (self.position(self.width) - self.position(0.0)) / self.width;
                if (here - from).abs() < 3.0 * pixel {
                    return None;
                }
                (from.min(here), from.max(here))
            }
        };
        Some(Action::Events {
            from: self.axis.event(from),
            to: self.axis.event(to),
        })
    }

    /// The result of a click without a drag: the window moves so that its middle is there.
    pub fn clicked(&self, viewport: &Viewport, x: f64) -> Action {
        let here = self.axis.event(self.position(x));
        let half = viewport.events() / 2.0;
        Action::Events {
            from: here - half,
            to: here + half,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIP: Strip<'static> = Strip {
        width: 100.0,
        n_events: 1000.0,
        axis: &AxisMap::Event,
    };

    fn window(from: f64, to: f64) -> Viewport {
        Viewport {
            from,
            to,
            levels: None,
        }
    }

    #[test]
    fn a_press_takes_hold_of_what_is_there() {
        let view = window(200.0, 600.0);
        assert_eq!(STRIP.grip(&view, 21.0), Grip::Start);
        assert_eq!(STRIP.grip(&view, 59.0), Grip::End);
        assert_eq!(STRIP.grip(&view, 40.0), Grip::Window { offset: 200.0 });
        assert_eq!(STRIP.grip(&view, 80.0), Grip::New { from: 800.0 });
        let narrow = window(500.0, 504.0);
        assert!(matches!(STRIP.grip(&narrow, 51.0), Grip::Window { .. }));
    }

    #[test]
    fn dragging_moves_resizes_and_draws() {
        let view = window(200.0, 600.0);
        let dragged = |grip, x| match STRIP.dragged(grip, &view, x) {
            Some(Action::Events { from, to }) => Some((from, to)),
            _ => None,
        };
        assert_eq!(
            dragged(Grip::Window { offset: 100.0 }, 90.0),
            Some((600.0, 1000.0))
        );
        assert_eq!(dragged(Grip::Start, 10.0), Some((100.0, 600.0)));
        assert_eq!(dragged(Grip::End, 10.0), Some((200.0, 200.0)));
        assert_eq!(
            dragged(Grip::New { from: 800.0 }, 70.0),
            Some((700.0, 800.0))
        );
        assert_eq!(dragged(Grip::New { from: 800.0 }, 81.0), None);
    }
}
