//! Pools and tables that are not full yet, and queues.

use super::super::survivors::Kept;
use super::super::thresholds::MIN_GROWTHS;

/// Luck that is rarer is no luck.
const LUCK: f64 = 0.01;

/// Whether a site gives blocks back at random ages, and may do so with all that it keeps: a pool
/// that is not full yet, or a table in which some keys have been written again.
///
/// If each block is given back with the same chance in each period, those of the site that are
/// older than any that was given back have survived many periods by luck. If such luck is not
/// rarer than [`LUCK`], nobody can tell.
pub fn is_filling(kept: &Kept) -> bool {
    let (n, oldest) = (kept.live.len(), kept.longest_freed);
    let given_back: u32 = kept.freed_ages.iter().sum();
    if oldest < 2 || is_queue(kept) {
        return false;
    }
    let ages = kept.freed_ages.iter().enumerate();
    let lived: f64 = ages.map(|(age, &n)| age as f64 * f64::from(n)).sum();
    // How many periods the survivors have seen, up to that age and after it.
    let survivors = kept.survivor_count.iter().enumerate().skip(1);
    let (young, old) = survivors.fold((0.0, 0.0), |(young, old), (period, &count)| {
        let age = n - 1 - period;
        let periods = |ages: usize| f64::from(count) * ages as f64;
        (
            young + periods(age.min(oldest)),
            old + periods(age.saturating_sub(oldest)),
        )
    });
    let chance = f64::from(given_back) / (lived + young).max(1.0);
    chance * old < -LUCK.ln()
}

/// Whether blocks are given back oldest first, or at about the same age: a queue that is filled
/// faster than it is emptied, or one beside what is kept.
pub(super) fn is_queue(kept: &Kept) -> bool {
    let given_back: u32 = kept.freed_ages.iter().sum();
    let youngest = kept.freed_ages.iter().position(|&n| n > 0);
    let at_one_age = youngest.is_some_and(|youngest| youngest * 4 >= kept.longest_freed * 3);
    given_back > 1 && (kept.in_order || given_back as usize >= MIN_GROWTHS && at_one_age)
}
