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

/// Byte ticks in `[low, high]`: multiples of a power of two, at most `most` of them.
pub fn bytes(low: f64, high: f64, most: usize) -> Vec<Tick> {
    let step = binary_step((high - low) / most.max(1) as f64);
    multiples(low, high, step)
        .map(|at| Tick {
            at,
            label: byte_label(at, step),
        })
        .collect()
}

/// The smallest power of two that is at least `least`. The byte above a picture of nothing is no
/// tick.
fn binary_step(least: f64) -> f64 {
    least.max(2.0).log2().ceil().exp2()
}

fn multiples(low: f64, high: f64, step: f64) -> impl Iterator<Item = f64> {
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(move |i| i as f64 * step)
}

/// A level with as many digits as its step needs: `54.0625 GiB` beside `54.125 GiB`.
fn byte_label(at: f64, step: f64) -> String {
    if at == 0.0 {
        return "0".to_owned();
    }
    let unit = ((at.log2() / 10.0).floor() as usize).min(BINARY.units.len() - 1);
    let scale = BINARY.scale(unit);
    // A step of 2^-k units has k decimals; at most four fit.
    let digits = (-(step / scale).log2()).ceil().clamp(0.0, 4.0) as usize;
    let label = format!("{:.digits$}", at / scale);
    let label = match label.contains('.') {
        true => label.trim_end_matches('0').trim_end_matches('.'),
        false => &label,
    };
    format!("{label} {}", BINARY.units[unit])
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
    fn byte_ticks_are_binary_multiples() {
        let gib = f64::from(1 << 30);
        assert_eq!(
            labels(bytes(0.0, 70.0 * gib, 6)),
            ["0", "16 GiB", "32 GiB", "48 GiB", "64 GiB"]
        );
        assert_eq!(
            labels(bytes(54.0 * gib, 54.2 * gib, 4)),
            ["54 GiB", "54.0625 GiB", "54.125 GiB", "54.1875 GiB"]
        );
        assert_eq!(
            labels(bytes(0.0, 1.5 * gib, 3)),
            ["0", "512 MiB", "1 GiB", "1.5 GiB"]
        );
        assert_eq!(labels(bytes(0.0, 1000.0, 3)), ["0", "512 B"]);
        assert_eq!(labels(bytes(0.0, 1.04, 6)), ["0"], "nothing is there");
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
