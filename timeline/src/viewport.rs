//! The visible part of the trace, and how actions change it. Pure; `f64` everywhere.
//!
//! Horizontally the window is a range of events (see [`super::axis`]). Vertically it is a range of
//! bytes, or automatic: from zero to what the window needs. Beside the weights of a large model, a
//! single allocation is less than a pixel high. So the vertical zoom is as important as the
//! horizontal one.

use super::axis::AxisMap;

/// The smallest number of events on screen: fewer would only make single events wider.
const MIN_EVENTS: f64 = 4.0;
/// Smallest vertical range, bytes: the allocator's granularity times a screen of rows.
const MIN_BYTES: f64 = 4096.0;

/// A window into the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Viewport {
    /// First visible event position.
    pub from: f64,
    /// One past the last visible event position.
    pub to: f64,
    /// Lowest and highest visible level in bytes; `None`: from zero to what the window needs.
    pub levels: Option<(f64, f64)>,
}

/// The limits of a viewport.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Events of the device.
    pub n_events: f64,
    /// Highest level that the automatic range shows now, bytes.
    pub auto_high: f64,
    /// Highest level that the automatic range shows anywhere in the trace, bytes.
    pub max_high: f64,
}

/// A person's action on the viewport. Fractions refer to the plot: `x` from the left, `y` from the
/// bottom, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Zoom horizontally.
    ZoomX {
        /// The place that stays where it is.
        x: f64,
        /// Above 1 shows less.
        factor: f64,
    },
    /// Zoom vertically.
    ZoomY {
        /// The place that stays where it is.
        y: f64,
        /// Above 1 shows less.
        factor: f64,
    },
    /// Move by fractions of the plot.
    Pan {
        /// Positive moves towards the right part.
        dx: f64,
        /// Positive moves towards the upper part.
        dy: f64,
    },
    /// Show a rectangle, corners in any order.
    Box {
        /// Left and right.
        x: (f64, f64),
        /// Bottom and top.
        y: (f64, f64),
    },
    /// Show a range of events at the current levels.
    Events {
        /// The first.
        from: f64,
        /// One past the last.
        to: f64,
    },
    /// Show a range of events and levels.
    Frame {
        /// The first, and one past the last.
        events: (f64, f64),
        /// The lowest and the highest, bytes.
        levels: (f64, f64),
    },
    /// Show everything.
    Fit,
}

impl Viewport {
    /// The whole trace.
    pub fn whole(n_events: f64) -> Viewport {
        Viewport {
            from: 0.0,
            to: n_events.max(1.0),
            levels: None,
        }
    }

    /// Events on screen.
    pub fn events(&self) -> f64 {
        self.to - self.from
    }

    /// Whether this is the whole trace at automatic levels.
    pub fn is_whole(&self, n_events: f64) -> bool {
        self.from <= 0.0 && self.to >= n_events && self.levels.is_none()
    }

    /// The visible levels, bytes.
    pub fn visible_levels(&self, limits: Limits) -> (f64, f64) {
        self.levels.unwrap_or((0.0, limits.auto_high.max(1.0)))
    }

    /// The viewport after an action.
    pub fn apply(self, action: Action, axis: &AxisMap, limits: Limits) -> Viewport {
        let moved = match action {
            Action::ZoomX { x, factor } => self.zoomed_x(x, factor, axis),
            Action::ZoomY { y, factor } => self.zoomed_y(y, factor, limits),
            Action::Pan { dx, dy } => self.panned(dx, dy, axis, limits),
            Action::Box { x, y } => self.boxed(x, y, axis, limits),
            Action::Events { from, to } => Viewport { from, to, ..self },
            Action::Frame { events, levels } => Viewport {
                from: events.0,
                to: events.1,
                levels: Some(levels),
            },
            Action::Fit => Viewport::whole(limits.n_events),
        };
        moved.clamped(limits)
    }

    /// The event position at a fraction of the width.
    pub fn event_at(&self, x: f64, axis: &AxisMap) -> f64 {
        let (a, b) = (axis.position(self.from), axis.position(self.to));
        axis.event(a + (b - a) * x)
    }

    /// The fraction of the width at an event position; outside of 0..1 if it is off screen.
    pub fn x_of(&self, event: f64, axis: &AxisMap) -> f64 {
        let (a, b) = (axis.position(self.from), axis.position(self.to));
        (axis.position(event) - a) / (b - a)
    }

    fn zoomed_x(self, x: f64, factor: f64, axis: &AxisMap) -> Viewport {
        let (a, b) = (axis.position(self.from), axis.position(self.to));
        let at = a + (b - a) * x;
        let next = Viewport {
            from: axis.event(at - (at - a) / factor),
            to: axis.event(at + (b - at) / factor),
            ..self
        };
        if next.events() >= MIN_EVENTS {
            return next;
        }
        // At the limit, as few events as allowed are shown, and the event under the cursor stays
        // there.
        let event = axis.event(at);
        let events = self.events().min(MIN_EVENTS);
        Viewport {
            from: event - events * x,
            to: event + events * (1.0 - x),
            ..self
        }
    }

    fn zoomed_y(self, y: f64, factor: f64, limits: Limits) -> Viewport {
        let (low, high) = self.visible_levels(limits);
        let at = low + (high - low) * y;
        let factor = factor.min((high - low) / MIN_BYTES).max(1e-9);
        Viewport {
            levels: Some((at - (at - low) / factor, at + (high - at) / factor)),
            ..self
        }
    }

    fn panned(self, dx: f64, dy: f64, axis: &AxisMap, limits: Limits) -> Viewport {
        let (a, b) = (axis.position(self.from), axis.position(self.to));
        // Stops at the ends before mapping back, so that a pan never changes the zoom.
        let (first, last) = (axis.position(0.0), axis.position(limits.n_events));
        let shift = ((b - a) * dx).clamp((first - a).min(0.0), (last - b).max(0.0));
        let levels = self.levels.map(|(low, high)| {
            let up = ((high - low) * dy).max(-low.max(0.0));
            let up = up.min((limits.max_high - high).max(0.0));
            (low + up, high + up)
        });
        Viewport {
            from: axis.event(a + shift),
            to: axis.event(b + shift),
            levels,
        }
    }

    fn boxed(self, x: (f64, f64), y: (f64, f64), axis: &AxisMap, limits: Limits) -> Viewport {
        let (low, high) = self.visible_levels(limits);
        let level = |y: f64| low + (high - low) * y.clamp(0.0, 1.0);
        let event = |x: f64| self.event_at(x.clamp(0.0, 1.0), axis);
        Viewport {
            from: event(x.0.min(x.1)),
            to: event(x.0.max(x.1)),
            levels: Some((level(y.0.min(y.1)), level(y.0.max(y.1)))),
        }
    }

    /// Keeps the window inside the trace, wide and high enough; it is automatic again when all
    /// levels are visible.
    fn clamped(self, limits: Limits) -> Viewport {
        let n = limits.n_events.max(1.0);
        let width = self.events().clamp(MIN_EVENTS.min(n), n);
        let middle = (self.from + self.to) / 2.0;
        let from = match self.events() == width {
            true => self.from,
            false => middle - width / 2.0,
        };
        let from = from.clamp(0.0, n - width);
        let levels = self.levels.and_then(|(low, high)| {
            let height = (high - low).max(MIN_BYTES);
            let low = low.min(limits.max_high - height).max(0.0);
            let high = (low + height).min(limits.max_high.max(MIN_BYTES));
            let shown_in_full = low <= 0.0 && high >= limits.auto_high;
            (!shown_in_full).then_some((low, high))
        });
        Viewport {
            from,
            to: from + width,
            levels,
        }
    }

    /// A step on the way from `self` to `target`: what to draw after `elapsed_ms` more.
    pub fn eased_towards(self, target: Viewport, limits: Limits, elapsed_ms: f64) -> Viewport {
        /// After this time, 1/e of the distance is left.
        const TIME_CONSTANT_MS: f64 = 55.0;
        let k = 1.0 - (-elapsed_ms / TIME_CONSTANT_MS).exp();
        let mix = |a: f64, b: f64| a + (b - a) * k;
        let (low, high) = self.visible_levels(limits);
        let (target_low, target_high) = target.visible_levels(limits);
        let automatic = self.levels.is_none() && target.levels.is_none();
        let next = Viewport {
            from: mix(self.from, target.from),
            to: mix(self.to, target.to),
            levels: (!automatic).then(|| (mix(low, target_low), mix(high, target_high))),
        };
        let settled = |a: f64, b: f64, unit: f64| (a - b).abs() <= unit * 1e-3;
        let (events, bytes) = (target.events(), target_high - target_low);
        let arrived = settled(next.from, target.from, events)
            && settled(next.to, target.to, events)
            && (automatic
                || settled(mix(low, target_low), target_low, bytes)
                    && settled(mix(high, target_high), target_high, bytes));
        if arrived { target } else { next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits {
        n_events: 10_000.0,
        auto_high: 1e9,
        max_high: 1e9,
    };

    fn act(view: Viewport, action: Action) -> Viewport {
        view.apply(action, &AxisMap::Event, LIMITS)
    }

    #[test]
    fn zooming_keeps_what_is_under_the_cursor() {
        let view = act(
            Viewport::whole(10_000.0),
            Action::ZoomX {
                x: 0.25,
                factor: 4.0,
            },
        );
        assert_eq!((view.from, view.to), (1875.0, 4375.0));
        assert_eq!(view.event_at(0.25, &AxisMap::Event), 2500.0);
        let view = act(
            view,
            Action::ZoomY {
                y: 0.5,
                factor: 2.0,
            },
        );
        assert_eq!(view.levels, Some((2.5e8, 7.5e8)));
    }

    #[test]
    fn zooming_out_fully_is_the_whole_again() {
        let mut view = act(
            Viewport::whole(10_000.0),
            Action::ZoomX {
                x: 0.9,
                factor: 64.0,
            },
        );
        view = act(
            view,
            Action::ZoomY {
                y: 0.1,
                factor: 8.0,
            },
        );
        view = act(
            view,
            Action::ZoomX {
                x: 0.1,
                factor: 1e-3,
            },
        );
        view = act(
            view,
            Action::ZoomY {
                y: 0.1,
                factor: 1e-3,
            },
        );
        assert_eq!(view, Viewport::whole(10_000.0));
        assert!(view.is_whole(10_000.0));
    }

    #[test]
    fn panning_stops_at_the_ends_without_zooming() {
        let view = act(
            Viewport::whole(10_000.0),
            Action::Events {
                from: 100.0,
                to: 300.0,
            },
        );
        let left = act(view, Action::Pan { dx: -5.0, dy: 0.0 });
        assert_eq!((left.from, left.to), (0.0, 200.0));
        let right = act(view, Action::Pan { dx: 500.0, dy: 3.0 });
        assert_eq!((right.from, right.to), (9800.0, 10_000.0));
    }

    #[test]
    fn a_box_is_shown_whichever_corner_was_first() {
        let view = act(
            Viewport::whole(10_000.0),
            Action::Box {
                x: (0.5, 0.25),
                y: (0.75, 0.5),
            },
        );
        assert_eq!((view.from, view.to), (2500.0, 5000.0));
        assert_eq!(view.levels, Some((5e8, 7.5e8)));
    }

    #[test]
    fn easing_arrives() {
        let mut view = Viewport::whole(10_000.0);
        let target = act(
            view,
            Action::Box {
                x: (0.2, 0.3),
                y: (0.2, 0.3),
            },
        );
        let frames = (0..200)
            .take_while(|_| {
                view = view.eased_towards(target, LIMITS, 16.0);
                view != target
            })
            .count();
        assert!(frames > 3 && frames < 60, "took {frames} frames");
    }

    proptest! {
        #[test]
        fn any_sequence_of_actions_stays_inside_the_trace(
            moves in proptest::collection::vec((0_u8..4, 0.0..1.0_f64, 0.01..50.0_f64), 1..40)
        ) {
            let mut view = Viewport::whole(LIMITS.n_events);
            for (kind, at, amount) in moves {
                view = act(view, match kind {
                    0 => Action::ZoomX { x: at, factor: amount },
                    1 => Action::ZoomY { y: at, factor: amount },
                    2 => Action::Pan { dx: amount - 25.0, dy: at - 0.5 },
                    _ => Action::Box { x: (at, at / 2.0), y: (0.0, at) },
                });
                prop_assert!(view.from >= 0.0 && view.to <= LIMITS.n_events + 1e-6);
                prop_assert!(view.events() >= MIN_EVENTS - 1e-6);
                let (low, high) = view.visible_levels(LIMITS);
                prop_assert!(low >= 0.0 && high - low >= MIN_BYTES - 1e-6);
            }
        }
    }
}
