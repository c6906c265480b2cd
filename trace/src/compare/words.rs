//! Pieces of sentences about a difference: levels, growth, bytes with a sign.

use super::failure::Failure;
use super::{Difference, noise};
use crate::growth::Growth;
use crate::trace::Series;
use crate::units::{Bytes, grouped};

/// What can be said of states without events.
pub(super) fn without_history(difference: &Difference) -> String {
    let (base, new) = (&difference.base, &difference.new);
    match (base.events, new.events) {
        (0, 0) => format!(
            "{}, but neither recording has a history, so no peak is known",
            levels(difference)
        ),
        (0, _) => "the baseline holds no history, so its peak is not known".to_owned(),
        _ => "the new run holds no history, so its peak is not known".to_owned(),
    }
}

/// That events are missing in a recording, so that its levels are not certain; `None` if they are.
pub(super) fn contradictory(difference: &Difference) -> Option<String> {
    let which = match difference.facts.contradictory {
        [false, false] => return None,
        [true, true] => "both recordings contradict themselves",
        [true, false] => "the baseline contradicts itself",
        [false, true] => "the new run contradicts itself",
    };
    Some(format!(
        "{which}: events are missing, so the levels are not certain; record again, without \
         `skip_actions`"
    ))
}

/// The peaks, or what is held at the dump.
pub(super) fn levels(difference: &Difference) -> String {
    let (base, new) = (difference.base.common_peak, difference.new.common_peak);
    if difference.is_of_other_steps() {
        return format!("peaks {base} and {new}, which may be of other steps");
    }
    let delta = noise::delta(base, new);
    let level = match difference.is_of_states() {
        true => "held at the dump:",
        false => "peak",
    };
    match delta {
        _ if delta.unsigned_abs() <= difference.tolerance.0.min(noise::LEVEL_FLOOR.0) => {
            format!("{level} {new}{}", over(difference))
        }
        _ => {
            let over = over(difference);
            let failed = Failure::of(difference);
            let sides = [
                (base, &difference.base, failed == Failure::Gone),
                (new, &difference.new, failed == Failure::Appeared),
            ];
            let [base, new] = sides.map(|(peak, side, failed)| {
                // What a run that failed would have needed is not known.
                let is_cut = side.wrapped && difference.is_bounded();
                let is_least = is_cut || failed && over.is_empty();
                let least = if is_least { "at least " } else { "" };
                format!("{least}{}", beside(peak, delta))
            });
            format!("{level} {} ({base} → {new}{over})", signed(delta as f64))
        }
    }
}

/// A level beside its change, in a unit in which the change can be seen.
fn beside(level: Bytes, change: i64) -> String {
    const SEEN: u64 = 32 << 20;
    match level.0 >= 1 << 30 && change.unsigned_abs() < SEEN {
        true => format!("{} MiB", grouped((level.0 + (1 << 19)) >> 20)),
        false => level.to_string(),
    }
}

/// Over which steps the peaks are compared, if those are not the peaks of both runs.
pub(super) fn over(difference: &Difference) -> String {
    match &difference.over {
        Some(steps) => format!(" over {steps}"),
        None => String::new(),
    }
}

/// The peaks that are compared and over which steps, if those are not the peaks of both runs.
pub fn common_peaks(difference: &Difference) -> Option<(String, [Bytes; 2])> {
    let over = over(difference);
    let peaks = [difference.base.common_peak, difference.new.common_peak];
    (!over.is_empty()).then_some((over, peaks))
}

/// Growth a step as it is told everywhere: 0 within its error, and a sign only if it shrinks; an en
/// dash if its error is not known.
pub fn growth_told(growth: Growth) -> String {
    growth.told().map_or_else(|| "–".to_owned(), rate)
}

/// The same with its error, where it has one: `5.02 MiB ± 1.00 MiB`.
pub fn growth_with_error(growth: Growth) -> String {
    let told = growth_told(growth);
    match growth.error {
        Some(error) if error >= 0.5 => format!("{told} ± {}", Bytes(error.round() as u64)),
        _ => told,
    }
}

/// By how much more the new run grows than the baseline, of what is told, bytes a step; `None` if
/// nothing is told of one of them.
pub fn growth_by(base: Growth, new: Growth) -> Option<f64> {
    Some(new.told()? - base.told()?)
}

/// Bytes a step; a small number has no sign.
fn rate(slope: f64) -> String {
    match slope {
        s if s <= -0.5 => signed(s),
        s => Bytes(s.max(0.0).round() as u64).to_string(),
    }
}

/// Bytes with a sign: `+1.50 GiB`, `−7.00 GiB`. What is no number is not known.
pub fn signed(bytes: f64) -> String {
    if !bytes.is_finite() {
        return "not known".to_owned();
    }
    let sign = if bytes < 0.0 { '\u{2212}' } else { '+' };
    format!("{sign}{}", Bytes(bytes.abs().round() as u64))
}

/// A change of bytes, `same` where there is none.
pub fn change_or_same(bytes: f64) -> String {
    match bytes.abs() < 0.5 {
        true => "same".to_owned(),
        false => signed(bytes),
    }
}

impl Difference {
    /// What sites without a row hold more or less at the peak and at the end: a line for each
    /// reason, if that is worth one.
    pub fn told_rest(&self) -> Vec<String> {
        let peaks = self.series(Series::Allocated);
        let usual = [
            noise::level(peaks.base.peak, peaks.new.peak, Bytes::ZERO),
            noise::level(peaks.base.end, peaks.new.end, Bytes::ZERO),
        ];
        let unsplit = at_peak_and_end(
            [self.unsplit, self.unsplit_at_end],
            [noise::LEVEL_FLOOR; 2],
            "of the same requests, rounded up or not split by the allocator",
        );
        let unlisted = at_peak_and_end(
            [self.unlisted, self.unlisted_at_end],
            usual,
            "at sites that are not listed: no more than steps differ by, or further steps add",
        );
        unsplit.into_iter().chain(unlisted).collect()
    }
}

/// `+134 MiB of …`, `+134 MiB, at the end +26.3 MiB, of …`; `None` if both are within the usual.
fn at_peak_and_end(by: [i64; 2], usual: [Bytes; 2], what: &str) -> Option<String> {
    let [peak, end] = [0, 1].map(|at| {
        let is_worth = by[at].unsigned_abs() >= usual[at].0;
        is_worth.then(|| signed(by[at] as f64))
    });
    match (peak, end) {
        (None, None) => None,
        (Some(peak), None) => Some(format!("{peak} {what}")),
        (None, Some(end)) => Some(format!("at the end {end} {what}")),
        (Some(peak), Some(end)) => Some(format!("{peak}, at the end {end}, {what}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of three steps two are settled: a line through two ends has no error.
    #[test]
    fn a_rate_from_two_ends_is_not_told() {
        let mib = |ends: &[u64]| {
            let ends: Vec<u64> = ends.iter().map(|&end| Bytes::mib(end).0).collect();
            Growth::of(&ends).unwrap()
        };
        let (two_ends, flat) = (mib(&[318, 317, 404]), mib(&[318, 318, 318, 318]));
        assert_eq!(growth_told(two_ends), "–");
        assert_eq!(growth_with_error(two_ends), "–");
        assert_eq!(growth_told(flat), "0 B");
        assert_eq!(growth_by(flat, two_ends), None);
        assert_eq!(growth_by(two_ends, flat), None);
        assert_eq!(growth_by(flat, mib(&[1, 3, 5, 7])), Some(2_097_152.0));
    }

    #[test]
    fn what_no_row_tells_is_told_at_the_peak_and_at_the_end() {
        let check = |by: [i64; 2], expected: Option<&str>| {
            let by = by.map(|mib| mib << 20);
            let told = at_peak_and_end(by, [Bytes::mib(1), Bytes::mib(5)], "of it");
            assert_eq!(told.as_deref(), expected, "{by:?}");
        };
        check([0, 4], None);
        check([134, 4], Some("+134 MiB of it"));
        check([0, -26], Some("at the end −26.0 MiB of it"));
        check([134, 26], Some("+134 MiB, at the end +26.0 MiB, of it"));
    }

    #[test]
    fn a_change_has_a_sign_or_is_not_known() {
        let check = |bytes: f64, expected: &str| assert_eq!(signed(bytes), expected);
        check(1536.0, "+1.50 KiB");
        check(-1024.0, "−1.00 KiB");
        check(f64::NAN, "not known");
        check(f64::NEG_INFINITY, "not known");
        assert_eq!([0.2, -2048.0].map(change_or_same), ["same", "−2.00 KiB"]);
    }
}
