//! What a step asks for in all, and whether that is because its tensors have other sizes.

use super::super::noise;
use super::super::profile::DeviceProfile;
use super::super::same_program::{self, Counts};
use super::super::sites::{Matched, Matching};
use super::{Condition, ConditionKind};
use crate::units::{Bytes, grouped};

/// By how much the work of a step differs: the means of both runs. `None` if it does not.
fn work_of_steps([base, new]: [&DeviceProfile; 2]) -> Option<[f64; 2]> {
    let (before, after) = (base.settled_work(), new.settled_work());
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let ((mean_b, sd_b), (mean_n, sd_n)) = (noise::spread(&before), noise::spread(&after));
    // Two standard errors of the difference: steps of varying length are not another workload.
    let error =
        2.0 * (sd_b.powi(2) / before.len() as f64 + sd_n.powi(2) / after.len() as f64).sqrt();
    let tolerance = (noise::WORK_SHARE * mean_b.max(mean_n)).max(error);
    let differs = (mean_n - mean_b).abs() > tolerance && mean_b > 0.0;
    differs.then_some([mean_b, mean_n])
}

/// How many times as large most tensors are, where steps ask for more or less because of that.
pub(in crate::compare) fn resized(
    base: &DeviceProfile,
    new: &DeviceProfile,
    matching: &Matching,
) -> Option<String> {
    work_of_steps([base, new])?;
    match Sizes::of(base, new, matching) {
        Sizes::Times(factor) => Some(times(factor)),
        Sizes::Same | Sizes::Unknown => None,
    }
}

/// Whether their steps ask for as much.
pub(super) fn of_a_step(
    base: &DeviceProfile,
    new: &DeviceProfile,
    matching: &Matching,
) -> Option<Condition> {
    let [mean_b, mean_n] = work_of_steps([base, new])?;
    let factor = mean_n / mean_b;
    let meaning = match Sizes::of(base, new, matching) {
        Sizes::Times(factor) => format!(
            "most tensors are {} as large: another batch, sequence, data type or model, so levels \
             are not comparable one to one",
            times(factor)
        ),
        Sizes::Same => "the same tensors, but more or fewer of them".to_owned(),
        Sizes::Unknown => {
            "too few of the tensors are made in the same place in both to say why".to_owned()
        }
    };
    Some(Condition {
        kind: ConditionKind::Work,
        name: format!("requested a step ({})", times(factor)),
        base: Bytes(mean_b as u64).to_string(),
        new: Bytes(mean_n as u64).to_string(),
        meaning,
    })
}

/// `1.50 times`, or `1/337` where that would read as next to nothing; without a number where the
/// factor is nothing, or not finite.
fn times(factor: f64) -> String {
    let parts = factor.recip().round();
    match factor {
        factor if !factor.is_finite() => "many times".to_owned(),
        factor if factor < 0.01 && parts <= MOST_PARTS => format!("1/{}", grouped(parts as u64)),
        factor if factor < 0.01 => "next to nothing".to_owned(),
        factor => format!("{factor:.2} times"),
    }
}

/// A smaller part is told without a number.
const MOST_PARTS: f64 = 1e6;

/// How large the tensors are that both runs make in the same place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sizes {
    Same,
    /// Most bytes are of tensors so many times as large.
    Times(f64),
    /// Too few are made in the same place.
    Unknown,
}

/// Of so large a share of the bytes of each run, both must be known to be made in the same place to
/// say something of the tensors.
const MOST: f64 = 0.5;

impl Sizes {
    fn of(base: &DeviceProfile, new: &DeviceProfile, matching: &Matching) -> Sizes {
        let shares = same_program::shares(base, new, matching, Counts::All);
        if shares.is_none_or(|shares| shares.iter().any(|&s| s < MOST)) {
            return Sizes::Unknown;
        }
        let mut ratios: Vec<(f64, u64)> = Vec::new();
        for &(b, n, matched) in &matching.pairs {
            let (b, n) = (&base.sites[b], &new.sites[n]);
            if matched == Matched::Exactly
                && same_program::has_stack(b)
                && let (Some((old, _)), Some((size, _))) = (b.sizes.first(), n.sizes.first())
                // Of no bytes, nothing is so many times as large.
                && *old > Bytes::ZERO
            {
                ratios.push((size.0 as f64 / old.0 as f64, b.made.0));
            }
        }
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: u64 = ratios.iter().map(|(_, weight)| weight).sum();
        let mut seen = 0;
        let median = ratios.iter().find(|(_, weight)| {
            seen += weight;
            seen * 2 >= total
        });
        match median {
            None => Sizes::Unknown,
            Some((factor, _)) if (factor - 1.0).abs() > noise::WORK_SHARE => Sizes::Times(*factor),
            Some(_) => Sizes::Same,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_told_in_words_where_it_is_no_number() {
        let check = |factor: f64, expected: &str| assert_eq!(times(factor), expected);
        check(1.5, "1.50 times");
        check(0.01, "0.01 times");
        check(0.005, "1/200");
        check(3.83 / 1290.0, "1/337");
        check(1e-4, "1/10,000");
        check(1e-9, "next to nothing");
        check(0.0, "next to nothing");
        check(f64::INFINITY, "many times");
        check(f64::NAN, "many times");
    }
}
