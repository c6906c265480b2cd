//! Curves of two runs over one axis.
//!
//! The axis is steps (a step's number and the phase inside it), events, or time. Each run has an
//! [`Alignment`], which says where on the axis its events lie. A curve has the min, max and last
//! value of a series in each of n equal parts of a window of the axis. So no peak is hidden and
//! none is invented.

use super::phase::{interpolate, spans_of_steps};
use crate::pyramid::{BASE_EVENTS, BASE_LEVEL};
use crate::series::{Extent, Series};
use crate::span::Span;
use crate::trace::DeviceTrace;
use crate::units::{EventIdx, Micros};
use serde::{Deserialize, Serialize};

/// How the runs are aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Align {
    /// Steps, and phases inside them: 3.5 is half-way through the fourth step, or through the one
    /// that the baseline's program calls 3 ([`super::numbering`]). What comes before the first step
    /// lies before it.
    #[default]
    Step,
    /// Events, counted from the first.
    Event,
    /// Seconds since the first step began, or since the first event where there are no steps.
    Time,
}

impl Align {
    /// All, in the order of the menu.
    pub const ALL: [Align; 3] = [Align::Step, Align::Event, Align::Time];

    /// Lower-case name, as in JSON and URLs.
    pub const fn name(self) -> &'static str {
        match self {
            Align::Step => "step",
            Align::Event => "event",
            Align::Time => "time",
        }
    }
}

/// Where the events of one run lie on the common axis.
pub struct Alignment<'a> {
    device: &'a DeviceTrace,
    /// Position on the axis and event, both rising; empty for time.
    knots: Vec<(f64, f64)>,
    /// The time that is 0 on the axis.
    origin: Micros,
    domain: (f64, f64),
}

impl<'a> Alignment<'a> {
    /// The alignment of a run. `anchors` come from [`super::phase::Rhythm::over`] with the
    /// baseline's rhythm; they are empty for the baseline itself. A run without steps counts as one
    /// step: a single pass lies over the first step of a run that has several.
    pub fn new(device: &'a DeviceTrace, align: Align, anchors: &[(f64, f64)]) -> Alignment<'a> {
        let n = f64::from(device.events.len());
        let mut alignment = Alignment {
            device,
            knots: vec![(0.0, 0.0), (n.max(1.0), n.max(1.0))],
            origin: Micros(0),
            domain: (0.0, n),
        };
        match align {
            Align::Step if n > 0.0 => {
                alignment.knots = step_knots(device, anchors);
                let (first, last) = (
                    alignment.knots[0],
                    alignment.knots[alignment.knots.len() - 1],
                );
                alignment.domain = (first.0, last.0);
            }
            Align::Step | Align::Event => {}
            Align::Time => alignment.by_time(),
        }
        alignment
    }

    fn by_time(&mut self) {
        let times = &self.device.events.time;
        let Some(last) = times.len().checked_sub(1) else {
            return;
        };
        let start = self
            .device
            .steps
            .first()
            .map_or(0, |step| step.events.start().index());
        self.origin = times.get(start.min(last));
        self.knots.clear();
        self.domain = (self.seconds(times.get(0)), self.seconds(times.get(last)));
    }

    fn seconds(&self, time: Micros) -> f64 {
        (time.0 - self.origin.0) as f64 / 1e6
    }

    /// The same, with the first step at another place than 0: at its number among the baseline's.
    pub fn beginning_at(mut self, place: i64) -> Alignment<'a> {
        let by = place as f64;
        for (x, _) in &mut self.knots {
            *x += by;
        }
        self.domain = (self.domain.0 + by, self.domain.1 + by);
        self
    }

    /// First and last place on the axis.
    pub fn domain(&self) -> (f64, f64) {
        self.domain
    }

    /// The event at a place on the axis: the number of events that lie before it, fractional.
    pub fn event_at(&self, x: f64) -> f64 {
        if !self.knots.is_empty() {
            return interpolate(&self.knots, x);
        }
        match x {
            x if x <= self.domain.0 => 0.0,
            x if x > self.domain.1 => f64::from(self.device.events.len()),
            x => {
                let time = Micros(self.origin.0.saturating_add((x * 1e6) as i64 - 1));
                self.device.events.time.first_after(time) as f64
            }
        }
    }

    /// Min, max and last of a series over `n` equal parts of a window; `None` where the run has not
    /// begun or is over. Also the event at each border of a part, `n + 1` of them.
    pub fn curve(
        &self,
        series: Series,
        window: (f64, f64),
        n: usize,
    ) -> (Vec<Option<Extent>>, Vec<u32>) {
        let n_events = self.device.events.len();
        let border = |at: usize| window.0 + (window.1 - window.0) * at as f64 / n.max(1) as f64;
        let events: Vec<u32> = (0..=n)
            .map(|at| (self.event_at(border(at)).floor().max(0.0) as u32).min(n_events))
            .collect();
        let extents = (0..n).map(|at| {
            let middle = (border(at) + border(at + 1)) / 2.0;
            if n_events == 0 || middle < self.domain.0 || middle > self.domain.1 {
                return None;
            }
            let events = Span::new(EventIdx(events[at]), EventIdx(events[at + 1]));
            Some(self.device.extent(series, events))
        });
        (extents.collect(), events)
    }
}

/// Steps and phases: a knot for each step's begin and for each anchor in it.
fn step_knots(device: &DeviceTrace, anchors: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let n_events = f64::from(device.events.len());
    let mut knots: Vec<(f64, f64)> = Vec::new();
    let mut knot = |x: f64, event: f64| match knots.last() {
        // A step without events would give two knots at the same event.
        Some(&(before, last)) if event <= last || x <= before => {}
        _ => knots.push((x, event)),
    };
    let steps = spans_of_steps(device);
    let start = f64::from(steps[0].start().0);
    if start > 0.0 {
        knot(-1.0, 0.0);
    }
    for (index, step) in steps.iter().enumerate() {
        let (begin, end) = (f64::from(step.start().0), f64::from(step.end().0));
        // Events between two steps belong to the first of them.
        let next = steps
            .get(index + 1)
            .map_or(end, |next| f64::from(next.start().0));
        let x = index as f64;
        knot(x, begin);
        for &(own, common) in anchors {
            if own > 0.0 && own < 1.0 {
                knot(x + common, begin + own * (next - begin));
            }
        }
        knot(x + 1.0, next);
    }
    let after = steps.len() as f64;
    knot(after + 1.0, n_events);
    knots
}

impl DeviceTrace {
    /// Min, max and last of a series over the levels after each event of a range. For an empty
    /// range, the level before it.
    ///
    /// # Panics
    /// When the range ends after the last event.
    pub fn extent(&self, series: Series, events: Span<EventIdx>) -> Extent {
        let (start, end) = (events.start().0, events.end().0);
        let before = self.levels_before(events.start()).get(series);
        let mut found: Option<Extent> = None;
        let (first, last) = (start.div_ceil(BASE_EVENTS), end / BASE_EVENTS);
        let walk = |found: &mut Option<Extent>, from: u32, to: u32| {
            let mut levels = self.levels_before(EventIdx(from));
            for event in from..to {
                levels.apply(self.effect(EventIdx(event)));
                let level = levels.get(series);
                add(
                    found,
                    Extent {
                        min: level,
                        max: level,
                        last: level,
                    },
                );
            }
        };
        if first >= last {
            walk(&mut found, start, end);
        } else {
            walk(&mut found, start, first * BASE_EVENTS);
            self.whole_buckets(first, last, |extents| {
                add(&mut found, extents[series as usize])
            });
            walk(&mut found, last * BASE_EVENTS, end);
        }
        found.unwrap_or(Extent {
            min: before,
            max: before,
            last: before,
        })
    }

    /// Visits the smallest number of buckets that cover the base buckets `[first, last)`, in order.
    fn whole_buckets(&self, first: u32, last: u32, mut visit: impl FnMut(&crate::pyramid::Bucket)) {
        let mut at = first;
        while at < last {
            // The largest power of two that begins here and does not go beyond the end.
            let fits = (last - at).ilog2();
            let aligned = if at == 0 { fits } else { at.trailing_zeros() };
            let level = fits.min(aligned);
            let bucket = self
                .pyramid
                .bucket(BASE_LEVEL + level as u8, u64::from(at >> level));
            if let Some(bucket) = bucket {
                visit(&bucket);
            }
            at += 1 << level;
        }
    }
}

fn add(found: &mut Option<Extent>, more: Extent) {
    *found = Some(match *found {
        None => more,
        Some(extent) => Extent {
            min: extent.min.min(more.min),
            max: extent.max.max(more.max),
            last: more.last,
        },
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arbitrary, training_run};
    use crate::trace::Step;
    use proptest::prelude::*;

    fn with_steps(steps: &[(u32, u32)]) -> crate::trace::Trace {
        let mut trace = training_run(100);
        trace.devices[0].steps = steps
            .iter()
            .enumerate()
            .map(|(index, &(start, end))| Step {
                index: index as u32,
                name: String::new(),
                events: Span::new(EventIdx(start), EventIdx(end)),
            })
            .collect();
        trace
    }

    #[test]
    fn steps_lie_at_whole_numbers_whatever_their_length() {
        let trace = with_steps(&[(10, 30), (40, 80)]);
        let device = &trace.devices[0];
        let alignment = Alignment::new(device, Align::Step, &[]);
        let check = |x: f64, event: f64| assert_eq!(alignment.event_at(x), event, "at {x}");
        check(-1.0, 0.0);
        check(-0.5, 5.0);
        check(0.0, 10.0);
        check(0.5, 25.0);
        check(1.0, 40.0);
        check(1.5, 60.0);
        check(2.0, 80.0);
        check(3.0, f64::from(device.events.len()));
        assert_eq!(alignment.domain(), (-1.0, 3.0));
        let phased = Alignment::new(device, Align::Step, &[(0.0, 0.0), (0.5, 0.25), (1.0, 1.0)]);
        assert_eq!(phased.event_at(1.25), 60.0);
        let later = Alignment::new(device, Align::Step, &[]).beginning_at(5);
        assert_eq!((later.event_at(5.5), later.domain()), (25.0, (4.0, 8.0)));
    }

    #[test]
    fn there_is_nothing_outside_of_a_run() {
        let trace = with_steps(&[(0, 20), (20, 40)]);
        let device = &trace.devices[0];
        let n = device.events.len();
        let alignment = Alignment::new(device, Align::Event, &[]);
        let (curve, events) = alignment.curve(Series::Allocated, (0.0, f64::from(n) * 2.0), 10);
        assert!(curve[..5].iter().all(Option::is_some));
        assert!(curve[5..].iter().all(Option::is_none));
        assert_eq!((events[0], events[10]), (0, n));
    }

    #[test]
    fn time_starts_with_the_first_step() {
        let trace = with_steps(&[(10, 30)]);
        let device = &trace.devices[0];
        let alignment = Alignment::new(device, Align::Time, &[]);
        assert!(alignment.domain().0 < 0.0);
        assert_eq!(alignment.event_at(0.0), 10.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn extents_are_those_of_every_level(
            trace in arbitrary::traces(600), from in 0..600_u32, len in 0..600_u32,
        ) {
            let device = &trace.devices[0];
            let n = device.events.len();
            let (start, end) = (from.min(n), (from + len).min(n));
            for series in Series::ALL {
                let levels: Vec<_> = (start..end)
                    .map(|event| device.levels_at(EventIdx(event)).get(series))
                    .collect();
                let before = device.levels_before(EventIdx(start)).get(series);
                let extent = device.extent(series, Span::new(EventIdx(start), EventIdx(end)));
                prop_assert_eq!(extent.min, levels.iter().copied().min().unwrap_or(before));
                prop_assert_eq!(extent.max, levels.iter().copied().max().unwrap_or(before));
                prop_assert_eq!(extent.last, levels.last().copied().unwrap_or(before));
            }
        }

        /// The parts together give the same as the whole: no peak is hidden, none invented.
        #[test]
        fn curves_keep_every_peak(trace in arbitrary::traces(600), n in 1..40_usize) {
            let device = &trace.devices[0];
            let alignment = Alignment::new(device, Align::Event, &[]);
            let window = alignment.domain();
            let (curve, _) = alignment.curve(Series::Allocated, window, n);
            let whole = Span::new(EventIdx(0), EventIdx(device.events.len()));
            if device.events.len() as usize > n {
                let highest = curve.iter().flatten().map(|extent| extent.max).max();
                prop_assert_eq!(highest, Some(device.extent(Series::Allocated, whole).max));
            }
        }
    }
}
