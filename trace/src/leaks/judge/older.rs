//! Blocks from before the recording, whose place new ones may take.

use super::super::survivors::{Kept, Survey};
use super::super::thresholds::MIN_GROWTHS;
use super::Growth;
use super::births::{Room, proven_births, without_special_first};
use super::level::MIN_RISES;
use super::rhythm::Rhythm;
use super::series::from_the_right;

/// In this share of the periods that keep something, blocks from before must be given back for new
/// ones to take their place.
const REPLACED: f64 = 0.75;

/// These must be so many bytes, as a share of what is kept: sizes differ by chance.
const MADE_UP_FOR: f64 = 0.6;

/// What blocks of the same sizes from before the recording, which were given back, say of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Older {
    /// There are none, or now there are more blocks than there ever were with them.
    None,
    /// They were given back, and after that the number of blocks rises again. So this is a buffer
    /// that is emptied now and then, or they have the same size by chance.
    Perhaps,
    /// New blocks take their place: a buffer that was full already.
    Replaced,
}

impl Older {
    pub(super) fn of(kept: &Kept, survey: &Survey) -> Older {
        let total: u32 = kept.sizes.values().sum();
        let (mut matched, mut gone) = (0, vec![0_u64; kept.live.len()]);
        for (size, &n) in &kept.sizes {
            let periods = survey.replaced.get(size).map_or(&[][..], |periods| periods);
            matched += periods.iter().map(|(_, gone)| gone).sum::<u32>().min(n);
            for &(period, n) in periods {
                gone[period] += u64::from(n);
            }
        }
        if matched == 0 {
            return Older::None;
        }
        let mut left: u64 = gone.iter().sum();
        let together = kept.live_count.iter().zip(&gone).map(|(&own, gone)| {
            left -= gone;
            u64::from(own) + left
        });
        let together: Vec<u64> = together.collect();
        let n = together.len();
        if matched * 2 <= total {
            let births = proven_births(kept);
            let births = without_special_first(&births, kept);
            let room = Room::beside_a_variable(&together, kept, births);
            return match room == Room::Full || is_full(&together, &gone) {
                true => Older::Perhaps,
                false => Older::None,
            };
        }
        let last = gone.iter().rposition(|&n| n > 0).unwrap_or(0);
        let most = together[..=last].iter().max().copied().unwrap_or(0);
        if together[n - 1] >= most + MIN_GROWTHS as u64 {
            return Older::None;
        }
        let floor = from_the_right(&together);
        let rises = |from: usize| (from..n).filter(|&i| floor[i] > floor[i - 1]);
        // In a full buffer their number stays the same: all the time, and surely once the last of
        // the older ones has gone.
        let always: Vec<usize> = rises(1).collect();
        let rises_always = always.len() >= MIN_RISES && Rhythm::of(&always, n - 1).is_some();
        match rises_always || rises(last + 1).count() > 1 || together[n - 1] > most {
            true => Older::Perhaps,
            false => Older::Replaced,
        }
    }
}

/// Whether older blocks are given back in each of the last periods, and as many come: a buffer that
/// was not full before.
fn is_full(together: &[u64], gone: &[u64]) -> bool {
    let from = gone.len().saturating_sub(MIN_GROWTHS);
    let before = &together[from.saturating_sub(1)..];
    gone[from..].iter().all(|&n| n > 0) && before.windows(2).all(|pair| pair[0] == pair[1])
}

/// Whether blocks from before the recording are given back where sites grow, and about as many
/// bytes: perhaps a buffer that was full already, of elements that have many sizes.
pub fn takes_the_place_of_older<'k>(
    grown: impl Iterator<Item = (&'k Kept, &'k Growth)>,
    survey: &Survey,
) -> bool {
    let mut made = vec![0_u64; survey.churn.len()];
    for (kept, growth) in grown {
        // The first period differs.
        let periods = growth.first.max(1)..=growth.last;
        let bytes = kept.survivors_requested[periods.clone()].iter();
        for (all, &bytes) in made[periods].iter_mut().zip(bytes) {
            *all = all.saturating_add(bytes);
        }
    }
    let births = made.iter().zip(&survey.gone);
    let births: Vec<(u64, u64)> = births.map(|(a, b)| (*a, *b)).filter(|b| b.0 > 0).collect();
    let sum = |of: fn(&(u64, u64)) -> u64| births.iter().map(|b| of(b) as f64).sum::<f64>();
    let replaced = births.iter().filter(|(_, gone)| *gone > 0).count();
    // One growth more may be in the first period.
    births.len() + 1 >= MIN_GROWTHS
        && replaced as f64 >= REPLACED * births.len() as f64
        && sum(|b| b.1) >= MADE_UP_FOR * sum(|b| b.0)
}
