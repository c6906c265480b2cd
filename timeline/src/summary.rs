//! The picture in words, for people who use a screen reader.

use super::ticks;
use super::viewport::Viewport;
use crate::format::{count, doing, plural};
use api::quality::{is_state, peak_in_short};
use api::runs::DeviceSummary;
use api::timeline::Marks;
use trace::device::DeviceIdx;
use trace::steps::Word;
use trace::trace::{SeriesSummary, StepSource};
use trace::units::Bytes;

/// What the whole trace of a device with these findings shows.
pub fn trace(device: &DeviceSummary, codes: &[String], marks: Option<&Marks>) -> String {
    let mut text = format!(
        "{} over {}",
        match device.device {
            DeviceIdx::PINNED => "Pinned memory of the host".to_owned(),
            ordinal => format!("Memory of device {ordinal}"),
        },
        plural(u64::from(device.events), "event")
    );
    if let Some((first, last)) = device.time {
        text += &format!(" and {}", ticks::span((last - first) as f64));
    }
    text += ". ";
    let [_, allocated, active, reserved] = &device.series;
    text += &format!(
        "Allocated {}. Reserved {}. ",
        levels(allocated, codes),
        levels(reserved, codes)
    );
    if active.peak > allocated.peak {
        text += &format!("With pending frees, at most {} were in use. ", active.peak);
    }
    text += &match (device.steps, device.step_source) {
        (0, _) | (_, StepSource::None) => String::new(),
        (n, source) => {
            let word = Word::of(marks.map_or(&[], |marks| &marks.steps));
            let how = match source {
                StepSource::Inferred => "inferred",
                _ => "as annotated",
            };
            format!("{}, {how}. ", doing(u64::from(n), word.one(), word.many()))
        }
    };
    if let Some(capacity) = marks.and_then(|m| m.capacity) {
        text += &format!("The device holds {capacity}. ");
    }
    match device.oom_events.len() {
        0 => {}
        1 => {
            text += &format!(
                "An allocation failed at event {}.",
                count(u64::from(device.oom_events[0]))
            )
        }
        n => text += &format!("{n} allocations failed."),
    }
    text.trim_end().to_owned()
}

fn levels(series: &SeriesSummary, codes: &[String]) -> String {
    if is_state(codes) {
        return format!("is {} at the end, all that was recorded", series.end);
    }
    let at = match series.peak_event {
        Some(event) => format!("at event {}", count(u64::from(event.0))),
        None => "before the first event".to_owned(),
    };
    format!(
        "starts at {}, peaks at {} {at}, ends at {}",
        series.start,
        peak_in_short(series.peak, codes),
        series.end
    )
}

/// Which part of it is on screen.
pub fn window(viewport: &Viewport, n_events: u32) -> String {
    if viewport.is_whole(f64::from(n_events)) {
        return "Showing everything.".to_owned();
    }
    let last = (viewport.to.ceil() as u64).saturating_sub(1);
    let levels = viewport.levels.map_or_else(String::new, |(low, high)| {
        let [low, high] = [low, high].map(|level| Bytes(level.max(0.0) as u64));
        format!(", from {low} to {high}")
    });
    format!(
        "Showing events {} to {} of {}{levels}.",
        count(viewport.from.floor() as u64),
        count(last),
        count(u64::from(n_events))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::span::Span;
    use trace::trace::{Fidelity, Step};
    use trace::units::{Bytes, EventIdx};

    #[test]
    fn a_window_is_told_with_its_levels() {
        let part = |levels| Viewport {
            from: 0.0,
            to: 100.0,
            levels,
        };
        assert_eq!(window(&part(None), 100), "Showing everything.");
        let levels = Some(((204 << 20) as f64, (224 << 20) as f64));
        let expected = "Showing events 0 to 99 of 100, from 204 MiB to 224 MiB.";
        assert_eq!(window(&part(levels), 100), expected);
    }

    #[test]
    fn the_picture_is_told_in_sentences() {
        let level = |start, peak, end| SeriesSummary {
            start: Bytes::gib(start),
            peak: Bytes::gib(peak),
            peak_event: Some(EventIdx(41_000)),
            end: Bytes::gib(end),
        };
        let device = DeviceSummary {
            device: DeviceIdx(0),
            events: 110_000,
            blocks: 50_000,
            series: [
                level(1, 9, 2),
                level(1, 10, 2),
                level(1, 11, 2),
                level(2, 12, 12),
            ],
            fidelity: Fidelity::default(),
            unmatched_frees: 0,
            step_source: StepSource::Inferred,
            steps: 30,
            time: Some((0, 12_500_000)),
            oom_events: vec![109_000],
        };
        assert_eq!(
            trace(&device, &[], None),
            "Memory of device 0 over 110,000 events and 12.5 s. \
             Allocated starts at 1.00 GiB, peaks at 10.0 GiB at event 41,000, ends at 2.00 GiB. \
             Reserved starts at 2.00 GiB, peaks at 12.0 GiB at event 41,000, ends at 12.0 GiB. \
             With pending frees, at most 11.0 GiB were in use. 30 steps, inferred. \
             An allocation failed at event 109,000."
        );
        let told = |code: &str| trace(&device, &[code.to_owned()], None);
        let cut = told("ring_wrapped");
        assert!(cut.contains("peaks at ≥ 10.0 GiB at event"), "{cut}");
        let state = told("state_only");
        let end = "Allocated is 2.00 GiB at the end, all that was recorded. Reserved is 12.0 GiB";
        assert!(state.contains(end), "{state}");
        let mut marks = Marks::default();
        let request = |index| Step {
            index,
            name: Word::Request.nth(index),
            events: Span::new(EventIdx(index), EventIdx(index + 1)),
        };
        marks.steps = (0..30).map(request).collect();
        let told = trace(&device, &[], Some(&marks));
        assert!(told.contains(" 30 requests, inferred. "), "{told}");
        let viewport = Viewport {
            from: 10.5,
            to: 20.0,
            levels: None,
        };
        assert_eq!(
            window(&viewport, 110_000),
            "Showing events 10 to 19 of 110,000."
        );
        assert_eq!(window(&Viewport::whole(5.0), 5), "Showing everything.");
    }
}
