//! The texts of the tooltip and of the legend.

use super::hit_test::Target;
use super::model::{Extents, Model};
use super::ticks;
use crate::format::{count, with_exact};
use trace::span::Span;
use trace::stays::HostStay;
use trace::trace::{Series, Step};
use trace::units::{Bytes, EventIdx};

/// One line of the tooltip: a label and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What.
    pub label: String,
    /// The value.
    pub value: String,
}

/// Everything known about the point under the pointer.
#[derive(Clone, Debug, PartialEq)]
pub struct Readout {
    /// Where the pointer is, CSS pixels on the canvas.
    pub at: (f64, f64),
    /// What is under it.
    pub title: Option<String>,
    /// Facts about it.
    pub lines: Vec<Line>,
    /// The event of the column, if it shows exactly one.
    pub event: Option<EventIdx>,
    /// The last event that the column shows.
    pub last: EventIdx,
    /// The four series.
    pub extents: Option<Extents>,
    /// The pinned memory of the host, if it was recorded.
    pub pinned: Option<(Bytes, Bytes)>,
}

/// Reads a point.
pub fn at(model: &Model, x: f64, y: f64) -> Option<Readout> {
    let hit = model.hit(x, y)?;
    let mut lines = Vec::new();
    let title = match (&hit.target, hit.stay) {
        (Some(target), _) => Some(describe(model, target, &mut lines)),
        (None, Some(stay)) => Some(describe_stay(model, stay, &mut lines)),
        (None, None) => hit.annotation.as_ref().map(|a| a.name.clone()),
    };
    let series = model.extents(x);
    let events = match (hit.sample, series) {
        // Without a mountain, the lines tell which events the column shows.
        (None, Some((_, events))) => events,
        _ => hit.events,
    };
    lines.extend(place(model, events, hit.step.as_ref()));
    Some(Readout {
        at: (x, y),
        title,
        lines,
        event: (events.len() == 1).then(|| events.start()),
        last: EventIdx(events.end().0.saturating_sub(1).max(events.start().0)),
        extents: series.map(|(extents, _)| extents),
        pinned: model.pinned(x),
    })
}

/// A point in a sentence, for people who hear the page: `event 12, step 3, requested 1.00 GiB, …`.
pub fn told(readout: &Readout) -> String {
    let mut parts = Vec::new();
    for Line { label, value } in &readout.lines {
        parts.push(match value.starts_with(label.as_str()) {
            true => value.clone(),
            false => [label, " ", value].concat(),
        });
    }
    for (series, &extent) in Series::ALL.iter().zip(readout.extents.iter().flatten()) {
        parts.push([series.name(), " ", &extent_text(extent)].concat());
    }
    if let Some(pinned) = readout.pinned {
        parts.push(["pinned ", &extent_text(pinned)].concat());
    }
    parts.join(", ").replace('–', "to")
}

fn line(label: &str, value: impl Into<String>) -> Line {
    Line {
        label: label.to_owned(),
        value: value.into(),
    }
}

/// Both forms: one to read, and one to compare exactly.
fn both(bytes: Bytes) -> String {
    with_exact(bytes.get())
}

fn describe(model: &Model, target: &Target, lines: &mut Vec<Line>) -> String {
    match target {
        Target::Block { block, label, .. } => {
            lines.push(line("block", both(block.size)));
            let (start, end) = (block.live.start().0, block.live.end().0);
            let stays = end >= model.n_events();
            let life = match stays {
                true => format!("{} events, to the end", count(u64::from(end - start))),
                false => format!("{} events", count(u64::from(end - start))),
            };
            let time = |event: u32| model.time_at(f64::from(event));
            let time = time(start).zip(time(end)).map(|(a, b)| ticks::span(b - a));
            lines.push(line(
                "lives",
                match time {
                    // The time is interpolated between the bucket times of the loaded tiles.
                    Some(time) => format!("{life}, about {time}"),
                    None => life,
                },
            ));
            label.clone()
        }
        Target::Rest {
            label,
            blocks,
            level,
            ..
        } => {
            lines.push(line(
                "smaller blocks",
                format!("{} in this window", count(*blocks)),
            ));
            lines.push(line("together here", both(*level)));
            label.clone()
        }
        Target::Base { blocks, bytes } => {
            lines.push(line("blocks", count(*blocks)));
            lines.push(line("together", both(*bytes)));
            "Small blocks, live throughout this window".to_owned()
        }
        Target::Pending { level } => {
            lines.push(line("together here", both(*level)));
            "Freed, still in use by another stream".to_owned()
        }
    }
}

fn describe_stay(model: &Model, stay: HostStay, lines: &mut Vec<Line>) -> String {
    lines.push(line("block", both(stay.bytes)));
    let at = |event: EventIdx| format!("event {}", count(u64::from(event.0)));
    let taken = stay.from.map_or("before the first event".to_owned(), at);
    lines.push(line("taken", taken));
    let given_back = stay.until.map_or("never, in this recording".to_owned(), at);
    lines.push(line("given back", given_back));
    let time = |event: EventIdx| model.time_at(f64::from(event.0));
    let stayed = stay.from.and_then(time).zip(stay.until.and_then(time));
    if let Some((from, until)) = stayed {
        lines.push(line(
            "stayed",
            format!("about {}", ticks::span(until - from)),
        ));
    }
    "Pinned memory of the host".to_owned()
}

fn place(model: &Model, events: Span<EventIdx>, step: Option<&Step>) -> Vec<Line> {
    let mut lines = Vec::new();
    let (first, end) = (events.start().0, events.end().0);
    lines.push(match end - first {
        1 => line("event", count(u64::from(first))),
        n => line(
            "events",
            format!(
                "{} – {} ({})",
                count(u64::from(first)),
                count(u64::from(end.saturating_sub(1))),
                count(u64::from(n))
            ),
        ),
    });
    if let Some(time) = model.time_at(f64::from(first)) {
        let until = model.time_at(f64::from(end)).unwrap_or(time);
        lines.push(line("time", ticks::duration(time, (until - time).max(1.0))));
    }
    if let Some(step) = step {
        lines.push(line("step", super::lanes::step_name(&step.name)));
    }
    lines
}

/// A series at a place: one value if it is exact, otherwise from lowest to highest. If both look
/// the same, their difference.
pub fn extent_text((low, high): (Bytes, Bytes)) -> String {
    if low == high {
        return high.to_string();
    }
    let spread = high.saturating_sub(low);
    let (low, high) = (low.to_string(), high.to_string());
    if low == high {
        return format!("{low} (+{spread})");
    }
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((value, a)), Some((_, b))) if a == b => format!("{value} – {high}"),
        _ => format!("{low} – {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_told_in_a_sentence() {
        let gib = |low, high| (Bytes::gib(low), Bytes::gib(high));
        let readout = Readout {
            at: (0.0, 0.0),
            title: None,
            lines: vec![line("events", "10 – 19 (10)"), line("step", "step 3")],
            event: None,
            last: EventIdx(19),
            extents: Some([gib(1, 1), gib(1, 2), gib(2, 2), gib(3, 3)]),
            pinned: Some(gib(4, 4)),
        };
        let expected = "events 10 to 19 (10), step 3, requested 1.00 GiB, allocated 1.00 to 2.00 \
                        GiB, active 2.00 GiB, reserved 3.00 GiB, pinned 4.00 GiB";
        assert_eq!(told(&readout), expected);
    }

    #[test]
    fn a_range_names_its_unit_once() {
        assert_eq!(extent_text((Bytes::gib(3), Bytes::gib(3))), "3.00 GiB");
        assert_eq!(
            extent_text((Bytes::gib(3), Bytes::gib(4))),
            "3.00 – 4.00 GiB"
        );
        assert_eq!(
            extent_text((Bytes::mib(3), Bytes::gib(4))),
            "3.00 MiB – 4.00 GiB"
        );
        let near = Bytes(Bytes::gib(3).get() + 512);
        assert_eq!(extent_text((Bytes::gib(3), near)), "3.00 GiB (+512 B)");
    }
}
