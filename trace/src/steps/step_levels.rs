//! The levels of memory in each step.

use crate::levels::Effect;
use crate::pyramid::BASE_EVENTS;
use crate::span::Span;
use crate::trace::{DeviceTrace, Levels, Series, Step};
use crate::units::{Bytes, EventIdx};

/// The levels of one step, as `torch.cuda` would have counted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLevels {
    /// Allocated after its last event.
    pub allocated_end: Bytes,
    /// The highest allocated, including the level at its beginning.
    pub allocated_peak: Bytes,
    /// Reserved after its last event.
    pub reserved_end: Bytes,
    /// Requested after its last event.
    pub requested_end: Bytes,
}

/// The levels of each step of a device.
pub fn levels(device: &DeviceTrace) -> Vec<StepLevels> {
    let of_step = |step: &Step| {
        let end = device.levels_before(step.events.end());
        StepLevels {
            allocated_end: end.get(Series::Allocated),
            allocated_peak: device.allocated_peak(step.events),
            reserved_end: end.get(Series::Reserved),
            requested_end: end.get(Series::Requested),
        }
    };
    device.steps.iter().map(of_step).collect()
}

impl DeviceTrace {
    /// The highest allocated in a range of events, including the level before it.
    ///
    /// # Panics
    /// When the range ends after the last event.
    pub fn allocated_peak(&self, events: Span<EventIdx>) -> Bytes {
        let mut levels = self.levels_before(events.start());
        let mut peak = levels.get(Series::Allocated);
        let (start, end) = (events.start().0, events.end().0);
        let (first, last) = (start.div_ceil(BASE_EVENTS), end / BASE_EVENTS);
        let edge = end.min(first * BASE_EVENTS);
        let mut apply = |levels: &mut Levels, from: u32, to: u32| {
            for event in (from..to).map(EventIdx) {
                if let effect @ (Effect::Alloc { .. }
                | Effect::FreeRequested { .. }
                | Effect::Free { .. }) = self.effect(event)
                {
                    levels.apply(effect);
                    peak = peak.max(levels.get(Series::Allocated));
                }
            }
        };
        apply(&mut levels, start, edge);
        if last > first {
            let mut levels = self.pyramid.before_base(last as usize);
            apply(&mut levels, last * BASE_EVENTS, end);
            let whole = self.pyramid.peak(first as usize, last as usize);
            peak = peak.max(whole.map_or(Bytes::ZERO, |p| p.allocated));
        } else {
            apply(&mut levels, edge, end);
        }
        peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arbitrary, trace};
    use proptest::prelude::*;

    #[test]
    fn a_peak_counts_the_level_that_a_step_begins_with() {
        let trace = trace(
            "w pre 10MiB
             w free
             a alloc 2MiB
             a free",
        );
        let device = &trace.devices[0];
        let peak = |start, end| device.allocated_peak(Span::new(EventIdx(start), EventIdx(end)));
        assert_eq!(peak(0, 5), Bytes::mib(10));
        assert_eq!(peak(1, 5), Bytes::mib(2));
        assert_eq!(peak(5, 5), Bytes::ZERO);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_peak_is_the_largest_level(
            trace in arbitrary::traces(400), from in 0..400_u32, len in 0..400_u32,
        ) {
            let device = &trace.devices[0];
            let n = device.events.len();
            let (start, end) = (from.min(n), (from + len).min(n));
            let levels = (start..end).map(|e| device.levels_at(EventIdx(e)));
            let highest = levels
                .chain([device.levels_before(EventIdx(start))])
                .map(|l| l.get(Series::Allocated))
                .max();
            let span = Span::new(EventIdx(start), EventIdx(end));
            prop_assert_eq!(Some(device.allocated_peak(span)), highest);
        }
    }
}
