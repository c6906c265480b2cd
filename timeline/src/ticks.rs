//! Ticks: round values for bytes, events and time, and their labels.

use crate::format::count;
use trace::units::size::BINARY;

/// A tick: where, and its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Position in the axis's own unit.
    pub at: f64,
    /// Label.
    pub label: String,
}

/// Byte ticks in `[low, high]`: 1, 2 or 5 times a power of ten apart, in one unit for all; at most
/// `most` of them, not counting the first.
pub fn bytes(low: f64, high: f64, most: usize) -> Vec<Tick> {
    let unit = byte_unit(high);
    let step = byte_step((high - low) / most.max(1) as f64, unit);
    multiples(low, high, step)
        .map(|at| Tick {
            at,
            label: byte_label(at, step, unit),
        })
        .collect()
}

/// Into how many parts at most the ticks of an axis from 0 to [`byte_end`] divide it.
pub const PARTS: usize = 5;

/// The first tick at or above a level: a good upper end of an axis that begins at 0.
pub fn byte_end(level: f64) -> f64 {
    let step = byte_step(level / PARTS as f64, byte_unit(level));
    (level / step).ceil() * step
}

/// The ticks of an axis from 0 to such an end, without the one at 0.
pub fn bytes_to(end: f64) -> Vec<Tick> {
    // The end is a tick, though a sum of floats may lie a little below it.
    let ticks = bytes(0.0, end * (1.0 + 1e-12), PARTS);
    ticks.into_iter().filter(|tick| tick.at > 0.0).collect()
}

/// The unit of an axis, by its upper end: 1000 MiB, then 0.98 GiB, so that steps are round.
fn byte_unit(high: f64) -> usize {
    let mut unit = 0;
    while unit + 1 < BINARY.units.len() && high > 1000.0 * (1.0 + 1e-9) * BINARY.scale(unit) {
        unit += 1;
    }
    unit
}

/// The smallest round step that is at least `least` bytes, and one byte. The byte above a picture
/// of nothing is no tick.
fn byte_step(least: f64, unit: usize) -> f64 {
    let scale = BINARY.scale(unit);
    (decimal_step(least / scale) * scale).max(if unit == 0 { 2.0 } else { 1.0 })
}

fn multiples(low: f64, high: f64, step: f64) -> impl Iterator<Item = f64> {
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(move |i| i as f64 * step)
}

/// A level with as many digits as its step needs: `54.05 GiB` beside `54.10 GiB`.
fn byte_label(at: f64, step: f64, unit: usize) -> String {
    if at == 0.0 {
        return "0".to_owned();
    }
    let scale = BINARY.scale(unit);
    let digits = (-(step / scale).log10()).ceil().clamp(0.0, 6.0) as usize;
    format!("{:.digits$} {}", at / scale, BINARY.units[unit])
}

/// Event ticks in `[from, to]`: whole numbers, 1, 2 or 5 times a power of ten apart.
pub fn events(from: f64, to: f64, most: usize) -> Vec<Tick> {
    let step = decimal_step((to - from) / most.max(1) as f64).max(1.0);
    multiples(from, to, step)
        .map(|at| Tick {
            at,
            label: count(at.max(0.0) as u64),
        })
        .collect()
}

fn decimal_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|&step| step >= least * (1.0 - 1e-9))
        .unwrap_or(power * 10.0)
}

/// Time ticks in `[from, to]`, microseconds since the start: round in µs, ms, s, min and h.
pub fn time(from: f64, to: f64, most: usize) -> Vec<Tick> {
    let least = (to - from) / most.max(1) as f64;
    let step = time_step(least);
    multiples(from, to, step)
        .map(|at| Tick {
            at,
            label: duration(at, step),
        })
        .collect()
}

const SECOND: f64 = 1e6;
const MINUTE: f64 = 60.0 * SECOND;
const HOUR: f64 = 60.0 * MINUTE;

fn time_step(least: f64) -> f64 {
    if least <= 30.0 * SECOND {
        let step = decimal_step(least).max(1.0);
        // Steps of 20 s and 50 s would miss the full minutes, so after ten seconds come fifteen and
        // thirty.
        return match step {
            s if s <= 10.0 * SECOND => s,
            _ if least <= 15.0 * SECOND => 15.0 * SECOND,
            _ => 30.0 * SECOND,
        };
    }
    [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0]
        .map(|m| m * MINUTE)
        .into_iter()
        .find(|&step| step >= least)
        .unwrap_or_else(|| decimal_step(least / HOUR) * HOUR)
}

/// A time since the start, in microseconds, as exact as `step` needs it.
pub fn duration(micros: f64, step: f64) -> String {
    let (sign, at) = if micros < 0.0 {
        ("−", -micros)
    } else {
        ("", micros)
    };
    if at >= MINUTE && step >= SECOND {
        return format!("{sign}{}", clock(at));
    }
    // The unit depends on the size of the step, so that all labels of one axis have the same unit.
    let (unit, scale) = match step {
        s if s >= 0.1 * SECOND => ("s", SECOND),
        s if s >= 100.0 => ("ms", 1e3),
        _ if at >= SECOND => ("s", SECOND),
        _ if at >= 1e4 => ("ms", 1e3),
        _ => ("µs", 1.0),
    };
    let digits = (-(step / scale).log10()).ceil().clamp(0.0, 6.0) as usize;
    format!("{sign}{:.digits$} {unit}", at / scale)
}

fn clock(micros: f64) -> String {
    let seconds = (micros / SECOND).round() as u64;
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (h, s) {
        (0, 0) => format!("{m} min"),
        (0, _) => format!("{m}:{s:02} min"),
        (_, 0) => format!("{h}:{m:02} h"),
        _ => format!("{h}:{m:02}:{s:02} h"),
    }
}

/// A length of time in microseconds with three significant digits: `1.25 ms`.
pub fn span(micros: f64) -> String {
    let (value, unit) = match micros.abs() {
        t if t < 1e3 => return format!("{micros:.0} µs"),
        t if t < 1e6 => (micros / 1e3, "ms"),
        t if t < MINUTE => (micros / 1e6, "s"),
        _ => return clock(micros.abs()),
    };
    let digits = match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: Vec<Tick>) -> Vec<String> {
        ticks.into_iter().map(|t| t.label).collect()
    }

    #[test]
    fn byte_ticks_are_round_in_one_unit() {
        let check = |low: f64, high: f64, most: usize, expected: &[&str]| {
            assert_eq!(labels(bytes(low, high, most)), expected, "{low} {high}");
        };
        let gib = f64::from(1 << 30);
        let to_70 = ["0", "20 GiB", "40 GiB", "60 GiB"];
        check(0.0, 70.0 * gib, 6, &to_70);
        let inside = ["54.00 GiB", "54.05 GiB", "54.10 GiB", "54.15 GiB"];
        check(54.0 * gib, 54.18 * gib, 4, &inside);
        check(0.0, 1.5 * gib, 3, &["0", "0.5 GiB", "1.0 GiB", "1.5 GiB"]);
        check(
            0.0,
            800.0 * 1_048_576.0,
            4,
            &["0", "200 MiB", "400 MiB", "600 MiB", "800 MiB"],
        );
        check(0.0, 1000.0, 3, &["0", "500 B", "1000 B"]);
        check(0.0, 1.04, 6, &["0"]);
    }

    #[test]
    fn an_axis_ends_at_a_tick() {
        let mib = 1_048_576.0;
        let check = |level: f64, expected: &[&str]| {
            let end = byte_end(level * mib);
            assert_eq!(labels(bytes_to(end)), expected, "{level}");
            assert!(end >= level * mib, "{level}");
        };
        check(3072.0, &["1 GiB", "2 GiB", "3 GiB"]);
        check(5.4 * 1024.0, &["2 GiB", "4 GiB", "6 GiB"]);
        check(4.0, &["1 MiB", "2 MiB", "3 MiB", "4 MiB"]);
        check(
            999.0,
            &["200 MiB", "400 MiB", "600 MiB", "800 MiB", "1000 MiB"],
        );
        check(
            1010.0,
            &["0.2 GiB", "0.4 GiB", "0.6 GiB", "0.8 GiB", "1.0 GiB"],
        );
        check(80.0 * 1024.0, &["20 GiB", "40 GiB", "60 GiB", "80 GiB"]);
        check(0.0, &[]);
        for level in 1..3000 {
            let end = byte_end(f64::from(level) * 7.3 * mib);
            let ticks = bytes_to(end);
            assert!((2..=PARTS).contains(&ticks.len()), "{level}: {ticks:?}");
            let last = ticks.last().unwrap().at;
            assert!((last / end - 1.0).abs() < 1e-9, "{level}: {ticks:?}");
        }
    }

    #[test]
    fn event_ticks_are_whole_and_round() {
        assert_eq!(
            labels(events(0.0, 11_003_921.0, 6)),
            [
                "0",
                "2,000,000",
                "4,000,000",
                "6,000,000",
                "8,000,000",
                "10,000,000"
            ]
        );
        assert_eq!(labels(events(17.2, 21.0, 8)), ["18", "19", "20", "21"]);
    }

    #[test]
    fn time_ticks_choose_their_unit() {
        assert_eq!(
            labels(time(0.0, 40.0, 4)),
            ["0 µs", "10 µs", "20 µs", "30 µs", "40 µs"]
        );
        assert_eq!(
            labels(time(0.0, 5e3, 5)),
            ["0 ms", "1 ms", "2 ms", "3 ms", "4 ms", "5 ms"]
        );
        assert_eq!(
            labels(time(0.0, 2e6, 4)),
            ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s"]
        );
        assert_eq!(
            labels(time(50.0 * 1e6, 125.0 * 1e6, 5)),
            ["1 min", "1:15 min", "1:30 min", "1:45 min", "2 min"]
        );
        assert_eq!(labels(time(0.0, 7200e6, 3)), ["0 s", "1:00 h", "2:00 h"]);
    }

    #[test]
    fn spans_of_time_are_short() {
        assert_eq!(span(17.0), "17 µs");
        assert_eq!(span(1250.0), "1.25 ms");
        assert_eq!(span(98_000_000.0), "1:38 min");
    }
}
