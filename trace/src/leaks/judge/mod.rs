//! Decides whether the memory that a site keeps grows, and how. The thresholds and their reasons
//! are in the documentation of the parent module.
//!
//! ```text
//! births    survivors that appear again and again, and buffers that are full
//! level     a level that never returns: blocks that are replaced by larger ones
//! climb     a level that rises though old blocks are given back now and then
//! cycle     growth that comes in bursts
//! slower    growth that was faster at first
//! older     blocks from before the recording, whose place new ones take
//! data      whether the program's data grow instead
//! filling   pools, tables and queues that are not full yet
//! lines     one line of a site that keeps what the others give back
//! growth    what is told of growth that was found
//! rhythm    how often something happens
//! series    what all of these compute of levels and periods
//! ```

mod births;
mod climb;
mod cycle;
mod data;
mod filling;
mod growth;
mod level;
mod lines;
mod older;
mod rhythm;
mod series;
mod slower;

pub use births::proven_births as births;
pub use births::{MUCH, SHORT, is_emptied, is_halfway, may_hide_a_line};
pub use data::is_ambiguous;
pub use filling::is_filling;
pub use growth::{Growth, Jump};
pub use lines::{gives_back_its_own, is_bounded, is_mixed, of_line};
pub use older::takes_the_place_of_older;
pub use rhythm::goes_on;

use super::report::Pattern;
use super::survivors::{Kept, Survey};
use super::thresholds::{MIN_BYTES, MIN_GROWTHS, MIN_LATE_GROWTHS};
use births::{Room, by_survivors, patience, proven_births, without_special_first};
use climb::{climbing, is_made_anew};
use data::Rest;
use level::{MIN_RISES, by_level};
use older::Older;
use series::{has_ended, longest_gap};
use std::collections::HashSet;

/// What can be said of a site.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// It grows, as far as the recording shows.
    Grows(Growth),
    /// It grew twice by the same amount, or began late. The trace ends too early to see whether it
    /// goes on.
    TooFew(Growth),
    /// What it keeps is bounded.
    Bounded,
}

/// What can be said of all blocks without a stack.
#[derive(Clone, Debug, PartialEq)]
pub enum Together {
    /// They grow, as far as the recording shows.
    Grows(Growth),
    /// They grow, and so does the program's work.
    Ambiguous(Growth),
    /// They grew until the last end.
    TooFew(Growth),
    /// What they keep is bounded.
    Bounded,
}

/// Judges one site.
pub fn judge(kept: &Kept, survey: &Survey) -> Finding {
    match alone(kept, survey) {
        // Longer data make everything larger, including the one result that is alive at a step's
        // end.
        Finding::Grows(growth) if Rest::beside(kept, survey, &growth) == Rest::GrowsToo => {
            Finding::Bounded
        }
        Finding::TooFew(growth)
            if growth.growths < MIN_RISES
                && Rest::beside(kept, survey, &growth) == Rest::GrowsToo =>
        {
            Finding::Bounded
        }
        Finding::Bounded => {
            let grows = |growth: &Growth| {
                Rest::beside(kept, survey, growth) != Rest::GrowsToo
                    && Older::of(kept, survey) == Older::None
            };
            let found = level::doubling(kept).filter(grows);
            found.map_or(Finding::Bounded, Finding::TooFew)
        }
        found => found,
    }
}

/// What can be said without looking at the rest of the program.
fn alone(kept: &Kept, survey: &Survey) -> Finding {
    let (found, by) = match by_survivors(kept) {
        Finding::Bounded => match by_level(kept) {
            Finding::Bounded => {
                let found =
                    climbing(kept).filter(|growth| !grows_with_the_work(growth, kept, survey));
                (found.map_or(Finding::Bounded, Finding::TooFew), By::Level)
            }
            found => (found, By::Level),
        },
        found => (found, By::Survivors),
    };
    match (Older::of(kept, survey), found) {
        (Older::Replaced, _) => Finding::Bounded,
        (Older::Perhaps, Finding::Grows(growth)) => Finding::TooFew(growth),
        (Older::None, Finding::Grows(growth)) => {
            Finding::Grows(less_older(growth, by, kept, survey))
        }
        (Older::Perhaps | Older::None, found) => found,
    }
}

/// Whether what climbs is made anew, larger, whenever it rises, and the rest of the program grows
/// with it: models of a search, each larger than the one before. Nothing is piled up then.
fn grows_with_the_work(growth: &Growth, kept: &Kept, survey: &Survey) -> bool {
    let made_anew = Growth {
        pattern: Pattern::Enlarged,
        ..growth.clone()
    };
    is_made_anew(kept) && Rest::beside(kept, survey, &made_anew) == Rest::GrowsToo
}

/// What shows that a site grows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Survivors,
    Level,
}

/// Growth without what a queue gives back from before the recording: blocks of the sizes that it
/// keeps, again and again while it grows.
fn less_older(growth: Growth, by: By, kept: &Kept, survey: &Survey) -> Growth {
    // A queue gives back its own blocks after the older ones. Then its level is what shows that it
    // grows: it is compared with the end before the first rise.
    let span = match by {
        By::Survivors => growth.first + 1..=growth.last,
        By::Level => growth.first..=kept.live.len() - 1,
    };
    let is_queue = kept.longest_freed == 0 || by == By::Level && kept.in_order;
    if growth.pattern == Pattern::Enlarged || !is_queue {
        return growth;
    }
    let mut count = 0.0;
    let mut gone_in = HashSet::new();
    let mut older = vec![0; kept.live.len()];
    for (size, &n) in &kept.sizes {
        let periods = survey.replaced.get(size).map_or(&[][..], |periods| periods);
        let inside = periods.iter().filter(|(period, _)| span.contains(period));
        let mut left = n;
        for &(period, gone) in inside {
            let gone = gone.min(left);
            left -= gone;
            count += f64::from(gone);
            gone_in.insert(period);
            // It is there at each end before that period's.
            let bytes = u64::from(gone) * size.0;
            older[..period].iter_mut().for_each(|there| *there += bytes);
        }
    }
    let bytes = older.first().copied().unwrap_or_default() as f64;
    let periods = (span.end() + 1 - span.start()).max(1) as f64;
    let (count, bytes) = (count / periods, bytes / periods);
    // What gave back its own blocks oldest first, after these, is their queue.
    let enough = match by {
        By::Survivors => MIN_GROWTHS,
        By::Level => 1,
    };
    if gone_in.len() < enough || bytes >= growth.bytes_per_period {
        return growth;
    }
    Growth {
        bytes_per_period: growth.bytes_per_period - bytes,
        count_per_period: (growth.count_per_period - count).max(0.0),
        older,
        ..growth
    }
}

/// What a site keeps of growth that has ended.
pub struct Ended {
    /// The last period that added to it.
    pub last: usize,
    /// Bytes of it that are alive at the last end.
    pub bytes: u64,
}

/// Growth of a site that is bounded, because it has ended; `None` if there was none.
pub fn ended(kept: &Kept) -> Option<Ended> {
    let proven = kept.live.len().saturating_sub(patience(kept));
    let births = proven_births(kept);
    let births = without_special_first(&births, kept);
    let (&last, longest) = births.last().zip(longest_gap(births))?;
    // Where new blocks take the place of others, growth has ended before the last one came.
    if Room::of(kept) != Room::Unknown && !is_left_as_it_is(kept, last) {
        return None;
    }
    let bytes: u64 = births.iter().map(|&p| kept.survivors[p]).sum();
    let is_enough = bytes >= MIN_BYTES.0 * births.len() as u64;
    let has_grown = births.len() >= MIN_LATE_GROWTHS && is_enough;
    (has_grown && has_ended(proven - 1 - last, longest)).then_some(Ended { last, bytes })
}

/// Whether nothing old is given back after this period, and nothing stays of what was made since:
/// a list that is full. A variable may hold what the last period made.
fn is_left_as_it_is(kept: &Kept, last: usize) -> bool {
    let before = kept.survivor_count.iter().rev().skip(1).rev();
    let stays = before.skip(last + 1).any(|&n| n > 0);
    let goes = kept.old_gone.iter().skip(last + 1).any(|&n| n > 0);
    !stays && !goes
}

/// Judges all blocks without a stack together. Among them are buffers whose size is always another
/// one.
pub fn judge_together(kept: &Kept, survey: &Survey) -> Together {
    match alone(kept, survey) {
        Finding::Grows(growth) if growth.pattern == Pattern::Enlarged => {
            match Rest::of(kept, &growth, &survey.temporary) {
                Rest::Constant => Together::Grows(growth),
                _ => Together::Ambiguous(growth),
            }
        }
        // These are many sites together, so a slower rhythm may come from any of them.
        Finding::Grows(growth) if growth.pattern == Pattern::EveryStep => Together::Grows(growth),
        _ => match until_the_last_end(kept, survey) {
            Together::Bounded => {
                let grows = |g: &Growth| Rest::of(kept, g, &survey.temporary) == Rest::Constant;
                let found = level::doubling(kept).filter(grows);
                found.map_or(Together::Bounded, Together::TooFew)
            }
            found => found,
        },
    }
}

/// If their level falls at the last end only: perhaps the function of the loop has returned there,
/// and its variables held a result that becomes longer. No two of its blocks have one size.
fn until_the_last_end(kept: &Kept, survey: &Survey) -> Together {
    let [.., before, last] = *kept.requested.as_slice() else {
        return Together::Bounded;
    };
    if last >= before {
        return Together::Bounded;
    }
    let kept = kept.without_last_end();
    match by_level(&kept) {
        Finding::Grows(growth) if growth.pattern == Pattern::Enlarged => {
            let temporary = &survey.temporary[..kept.requested.len()];
            match Rest::of(&kept, &growth, temporary) {
                Rest::Constant => Together::TooFew(growth),
                _ => Together::Ambiguous(growth),
            }
        }
        _ => Together::Bounded,
    }
}
