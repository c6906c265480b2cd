//! Whether the program's data grow, and not what a site keeps.

use super::super::report::Pattern;
use super::super::survivors::{Kept, Survey};
use super::Growth;
use crate::growth::Line;

/// If the rest of the program grows by this part of what a buffer does, or by more, the buffer is
/// as large as the program's data.
const GROWS_TOO: f64 = 0.25;

/// The same: from this part on, nobody can tell.
const GROWS_A_LITTLE: f64 = 0.1;

/// The same: if what the rest allocates grows by so many times the bytes that the buffer does, or
/// more.
const AS_MUCH: f64 = 2.0;

/// A step works on less than the one before if it makes this part as much.
const LESS: f64 = 0.9;

/// If the work grows at this share of the places, the program's data do.
const MOST: f64 = 0.5;

/// A buffer may make the program's work grow (it is searched in every step), or the program's data
/// the buffer.
pub fn is_ambiguous(kept: &Kept, survey: &Survey, growth: &Growth) -> bool {
    Rest::beside(kept, survey, growth) != Rest::Constant
}

/// What the rest of the program does while a buffer is enlarged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Constant,
    GrowsALittle,
    GrowsToo,
}

impl Rest {
    /// Of all other sites, if the growth of this one is a buffer's. A buffer that is enlarged
    /// several times in a step leaves smaller copies of itself, which are no other site's.
    pub(super) fn beside(kept: &Kept, survey: &Survey, growth: &Growth) -> Rest {
        let both = survey.churn.iter().zip(&kept.churn);
        let others: Vec<u64> = both.map(|(all, own)| all.saturating_sub(*own)).collect();
        if growth.pattern != Pattern::Enlarged {
            return Rest::Constant;
        }
        match Rest::of(kept, growth, &others) {
            Rest::GrowsToo if !may_be_of_the_data(kept, survey, growth, &others) => {
                Rest::GrowsALittle
            }
            found => found,
        }
    }

    /// From what the rest allocates in each period, in bytes.
    pub(super) fn of(kept: &Kept, growth: &Growth, rest: &[u64]) -> Rest {
        let half = (growth.first + rest.len()) / 2;
        let mean = |column: &[u64]| {
            let sum: u128 = column.iter().map(|&bytes| u128::from(bytes)).sum();
            (sum / column.len().max(1) as u128) as u64
        };
        let ratio = |column: &[u64]| {
            let (from, to) = (mean(&column[growth.first..half]), mean(&column[half..]));
            to as f64 / from.max(1) as f64 - 1.0
        };
        // Beside large weights, whose gradients are always as large, longer data are a small part
        // of all that is allocated; yet they make more of it than their one result.
        let grows = Line::fit(&rest[growth.first..]).is_some_and(|line| {
            let surely = line.slope - line.error.unwrap_or(f64::INFINITY);
            surely > AS_MUCH * growth.bytes_per_period
        });
        // By which part of what the buffer grows the rest does, both relative to themselves.
        match ratio(rest) / ratio(&kept.requested).max(f64::MIN_POSITIVE) {
            part if part > GROWS_TOO => Rest::GrowsToo,
            part if part > GROWS_A_LITTLE || grows => Rest::GrowsALittle,
            _ => Rest::Constant,
        }
    }
}

/// Whether a buffer that is enlarged may be as large as the data of its step, such as the last
/// result of steps on longer and longer data. Then it is not enlarged where `others` made less than
/// in the step before, and the work grows at most places: not only where the buffer is read.
fn may_be_of_the_data(kept: &Kept, survey: &Survey, growth: &Growth, others: &[u64]) -> bool {
    let level = &kept.requested;
    // By more than what is not split off of large blocks.
    let is_less = |at: usize| others[at] as f64 <= LESS * others[at - 1] as f64;
    let against =
        (growth.first.max(1)..level.len()).filter(|&at| level[at] > level[at - 1] && is_less(at));
    let middle = level.len().midpoint(growth.first);
    let sum = |of: &[u64]| of.iter().map(|&bytes| bytes as f64).sum::<f64>() / of.len() as f64;
    let (first, second) = (sum(&level[growth.first..middle]), sum(&level[middle..]));
    let part = GROWS_TOO * (second / first.max(1.0) - 1.0).max(0.0);
    let at_most = survey.share_that_grows(part);

    against.count() * 8 <= growth.growths && at_most.is_none_or(|share| share >= MOST)
}
