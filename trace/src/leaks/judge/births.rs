//! Survivors that appear again and again, and buffers that are full.

use super::super::report::Cycle;
use super::super::survivors::Kept;
use super::super::thresholds::{MIN_BYTES, MIN_GROWTHS, MIN_LATE_GROWTHS};
use super::rhythm::{Rhythm, is_uneven};
use super::series::{FIRST_STEPS, from_the_right, has_ended, longest_gap, slope_error};
use super::slower::Slower;
use super::{Finding, Growth, Jump};
use crate::growth::settled;
use crate::units::Bytes;
use crate::workspaces;

/// How many ends a block may outlive before it counts as kept for good. If blocks were given back
/// at three or more ages, of up to three periods and more, something collects them now and then
/// (garbage collection). Its next round may come after twice the longest age.
pub(super) fn patience(kept: &Kept) -> usize {
    let ages = kept.freed_ages.iter().filter(|&&n| n > 0).count();
    let collected = ages >= 3 && kept.longest_freed >= 3 && has_rounds(kept);
    kept.longest_freed * if collected { 2 } else { 1 }
}

/// Whether old blocks were given back in three periods or more, or a quarter of all at once.
/// Where a few were given back once, nothing collects the others.
fn has_rounds(kept: &Kept) -> bool {
    let rounds = (1..kept.old_gone.len()).filter(|&p| kept.old_gone[p] > 0);
    let many = |p: usize| kept.old_gone[p] * 4 >= kept.live_count[p - 1];
    rounds.clone().count() >= MIN_GROWTHS || rounds.into_iter().any(many)
}

/// Whether a site gives back all that it keeps now and then: it keeps nothing that is older than
/// what it gave back, and its requested level was as low again as at the beginning. Its rise since
/// then is no growth.
pub fn is_emptied(kept: &Kept) -> bool {
    let n = kept.live.len();
    let from = settled(n);
    let proven = n.saturating_sub(patience(kept)).max(1);
    let lowest = kept.requested[..=from].iter().min();
    kept.longest_freed > 1
        && kept.survivor_count[1..proven].iter().all(|&n| n == 0)
        && kept.requested[from + 1..].iter().min() <= lowest
}

/// The periods that made survivors which are older than any block that the site ever gave back.
pub fn proven_births(kept: &Kept) -> Vec<usize> {
    // A block of period p has outlived n - p ends.
    let proven = kept.live.len().saturating_sub(patience(kept));
    let births = (0..proven).filter(|&p| kept.survivor_count[p] > 0);
    births.collect()
}

/// Whether a site is bounded only as far as what it keeps is no older than what it gave back:
/// perhaps one of its lines gave that back, and another one keeps.
pub fn may_hide_a_line(kept: &Kept) -> bool {
    let any = |counts: &[u32]| counts.iter().any(|&n| n > 0);
    match (patience(kept), kept.survivor_count.as_slice()) {
        (0, _) => false,
        // Only what the last period made is as young.
        (1, [before @ .., last]) => *last > 0 && any(before),
        (_, survivors) => any(survivors),
    }
}

/// Looks for survivors that are older than any block that the site ever gave back, and that appear
/// again and again.
pub(super) fn by_survivors(kept: &Kept) -> Finding {
    let n = kept.live.len();
    let patience = patience(kept);
    let proven = n.saturating_sub(patience);
    let births = proven_births(kept);
    let births = without_special_first(&births, kept);
    let end = proven.saturating_sub(1);
    let even = Rhythm::of(births, end).map(|rhythm| (rhythm, true));
    // Where a site gives back what is older, chance decides what stays.
    let uneven = || Rhythm::uneven(births, end).filter(|_| patience <= 1);
    // Nor is it known that it has ended, if luck may have made it quiet.
    let random = || {
        let rhythm = Rhythm::at_random(births, end).filter(|_| patience <= 1);
        rhythm.map(|rhythm| (rhythm, false))
    };
    let Some((rhythm, goes_on)) = even.or_else(uneven).or_else(random) else {
        return match patience {
            // Two equal growths, and then a quiet time that is shorter than the distance between
            // them; or one, in a recording that is too short to show another.
            0 | 1 => match *births {
                [at] => once(at, kept, proven),
                _ => twice(births, kept, proven),
            },
            _ => Finding::Bounded,
        };
    };
    let growth = growth_of(births, &rhythm, kept);
    let room = Room::beside_a_variable(&kept.counts(), kept, births);
    let slows = rhythm.slows(births, end) || ever_rarer(births);
    let is_unsure = rhythm.is_late(n) || !goes_on || slows;
    match (room, is_unsure) {
        (Room::Full, _) => Finding::Bounded,
        (Room::JustFull, _) | (_, true) => Finding::TooFew(growth),
        (Room::Unknown, false) => Finding::Grows(growth),
    }
}

/// What survivors of these periods say of the growth of a site.
fn growth_of(births: &[usize], rhythm: &Rhythm, kept: &Kept) -> Growth {
    let bytes = |p: &usize| kept.survivors[*p] as f64;
    let count = |p: &usize| f64::from(kept.survivor_count[*p]);
    // The first growth is the start of the span; only the later ones count for the rate.
    let (start, after) = start_of_rate(births);
    let span = (rhythm.last - start) as f64;
    let cycle = Cycle::of(births);
    let growth = Growth {
        pattern: rhythm.pattern(),
        first: rhythm.first,
        last: rhythm.last,
        bytes_per_period: after.iter().map(bytes).sum::<f64>() / span,
        count_per_period: after.iter().map(count).sum::<f64>() / span,
        bytes_per_growth: births.iter().map(bytes).sum::<f64>() / births.len() as f64,
        slope_error: slope_error(kept, rhythm.first),
        uneven: cycle.is_none() && is_uneven(births),
        slowed: false,
        cycle,
        drained: None,
        older: Vec::new(),
        chances: rhythm.chances,
        growths: births.len(),
        jump: jump(births, kept),
    };
    at_its_own_rate(growth, births, kept)
}

/// Growth with the rate of whole cycles, if it comes in bursts, or of settled periods, if it was
/// faster before them. Otherwise a mean stays as it is, with the error that chance makes.
fn at_its_own_rate(growth: Growth, births: &[usize], kept: &Kept) -> Growth {
    if let Some((bytes, count)) = growth.cycle.and_then(|cycle| cycle.rate(births, kept)) {
        return Growth {
            bytes_per_period: bytes,
            count_per_period: count,
            ..growth
        };
    }
    let by_chance = error_by_chance(kept, births);
    // A jump is taken off the mean.
    let slower = match growth.jump {
        None => {
            let end = kept.live.len().saturating_sub(patience(kept));
            Slower::of(births, end, growth.bytes_per_period - by_chance, kept)
        }
        Some(_) => None,
    };
    match slower {
        Some(slower) => Growth {
            bytes_per_period: slower.bytes,
            count_per_period: slower.count,
            slope_error: slower.error.max(by_chance),
            slowed: true,
            ..growth
        },
        None => Growth {
            slope_error: growth.slope_error.max(by_chance),
            ..growth
        },
    }
}

/// Where a rate starts, and the growths after that. What the first period keeps was there before
/// its steps began, or is the first of what is kept again and again. If the next growth follows
/// sooner than any other, it is no part of their rhythm, and the rate starts with the second one.
fn start_of_rate(births: &[usize]) -> (usize, &[usize]) {
    let gaps = |births: &[usize]| births.windows(2).map(|w| w[1] - w[0]).min();
    match births {
        [0, rest @ ..] if gaps(rest).is_some_and(|least| rest[0] < least) => (rest[0], &rest[1..]),
        [first, rest @ ..] => (*first, rest),
        [] => (0, births),
    }
}

/// The growth that holds most of the bytes, if the mean of all is enough for a leak and that of the
/// others is not: a list of metrics, and one larger block of the same place.
fn jump(births: &[usize], kept: &Kept) -> Option<Jump> {
    let at = births.iter().copied().max_by_key(|&p| kept.survivors[p])?;
    let bytes = kept.survivors[at];
    let all: u64 = births.iter().map(|&p| kept.survivors[p]).sum();
    let (n, rest) = (births.len() as u64, all - bytes);
    let is_enough = |bytes: u64, n: u64| bytes >= n * MIN_BYTES.0;
    (bytes > rest && is_enough(all, n) && !is_enough(rest, n - 1)).then_some(Jump { at, bytes })
}

/// Half of the 95 % interval of a rate that chance decides: in each period, something is kept with
/// the same probability. A fit to the level does not see this, because that adds up all luck.
fn error_by_chance(kept: &Kept, births: &[usize]) -> f64 {
    let [first, after @ .., last] = births else {
        return 0.0;
    };
    if !is_uneven(births) {
        return 0.0;
    }
    let span = (last - first) as f64;
    let quiet = 1.0 - (after.len() + 1) as f64 / span;
    let squares = after.iter().chain([last]);
    let squares: f64 = squares.map(|&p| (kept.survivors[p] as f64).powi(2)).sum();
    2.0 * (quiet * squares).sqrt() / span
}

/// Whether the distances never become shorter, and the last three become longer and longer: a cache
/// that fills.
fn ever_rarer(births: &[usize]) -> bool {
    let gaps: Vec<usize> = births.windows(2).map(|w| w[1] - w[0]).collect();
    match gaps.as_slice() {
        [.., a, b, c] => gaps.len() >= MIN_LATE_GROWTHS && gaps.is_sorted() && a < b && b < c,
        _ => false,
    }
}

/// Whether a site is a buffer that is full: the number of its blocks rose, and then stays the same
/// to the block, while new ones take the place of others. Which ones is not known: where chance or
/// a score decides, blocks that are kept may be older than any that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Full,
    /// It has been full for so short a time that chance may be the reason.
    JustFull,
    Unknown,
}

impl Room {
    pub(super) fn of(kept: &Kept) -> Room {
        Room::of_counts(&kept.counts(), kept)
    }

    /// The same, where so many blocks are in it at the ends of periods: its own and others.
    fn of_counts(counts: &[u64], kept: &Kept) -> Room {
        let floor = from_the_right(counts);
        let before = [0].iter().chain(&floor);
        let rises = before.zip(&floor).enumerate();
        let rises: Vec<usize> = rises.filter(|(_, (a, b))| b > a).map(|(i, _)| i).collect();
        let Some((longest, &last)) = longest_rise(&rises).zip(rises.last()) else {
            return Room::Unknown;
        };
        let quiet = counts.len() - 1 - last;
        let is_flat = counts[last..].iter().all(|&count| count == counts[last]);
        let replaces = kept.survivor_count[last + 1..].iter().any(|&n| n > 0);
        match is_flat && replaces && has_ended(quiet, longest) {
            true if quiet >= MIN_GROWTHS => Room::Full,
            true => Room::JustFull,
            false => Room::Unknown,
        }
    }

    /// The same, also where a variable of the loop holds a block more now and then.
    pub(super) fn beside_a_variable(counts: &[u64], kept: &Kept, births: &[usize]) -> Room {
        match Room::of_counts(counts, kept) {
            Room::Unknown => Room::beneath_its_most(counts, kept, births),
            known => known,
        }
    }

    /// The same, where the number of blocks falls below its maximum now and then: the variable of a
    /// loop holds one block more, if that is not in the buffer. So many `births` as were needed to
    /// make up for this and for a new maximum should have come, and did not raise it.
    fn beneath_its_most(counts: &[u64], kept: &Kept, births: &[usize]) -> Room {
        let mut most = 0;
        let mut rises = Vec::new();
        for (end, &count) in counts.iter().enumerate() {
            if count > most {
                most = count;
                rises.push(end);
            }
        }
        let longest = longest_rise(&rises).zip(longest_gap(births));
        let Some(((rising, born), &last)) = longest.zip(rises.last()) else {
            return Room::Unknown;
        };
        let lowest = counts[last..].iter().min().unwrap_or(&most);
        let dip = ((most - lowest) as usize).max(1);
        let quiet = counts.len() - 1 - last;
        let replaces = kept.survivor_count[last + 1..].iter().any(|&n| n > 0);
        match replaces && has_ended(quiet, rising.max(born).saturating_mul(dip)) {
            true if quiet / dip >= MIN_GROWTHS => Room::Full,
            true => Room::JustFull,
            false => Room::Unknown,
        }
    }
}

/// The longest distance between two rises. A queue may be filled before the first step ends: then
/// each step should have raised it since.
fn longest_rise(rises: &[usize]) -> Option<usize> {
    longest_gap(rises).or_else(|| (*rises == [0]).then_some(1))
}

/// Period 0 counts only when it adds about as much as the others do. Otherwise it holds what first
/// steps allocate for good (optimizer state, workspaces).
pub(super) fn without_special_first<'a>(births: &'a [usize], kept: &Kept) -> &'a [usize] {
    match births {
        [0, rest @ ..] if !rest.is_empty() => {
            let others: u64 = rest.iter().map(|&p| kept.survivors[p]).sum();
            let mean = others / rest.len() as u64;
            let first = kept.survivors[0];
            match first <= mean.saturating_mul(2) && mean <= first.saturating_mul(2) {
                true => births,
                false => rest,
            }
        }
        _ => births,
    }
}

/// A recording with fewer steps may hold one growth of a leak that comes seldom: a validation, a
/// checkpoint.
pub const SHORT: usize = 8;

/// What is kept once in a short recording is told from this size on.
pub const MUCH: Bytes = Bytes::kib(64);

/// One growth that may be the first of many: in the middle of a short recording, or where it has
/// been quiet for no longer since than it was before. What the first step makes, and what the last
/// one may give back, says nothing.
fn once(at: usize, kept: &Kept, proven: usize) -> Finding {
    let (bytes, n) = (kept.survivors[at], kept.live.len());
    let is_workspace = workspaces::is_size(Bytes(kept.survivors_requested[at]));
    let may_come_again = n < SHORT || is_halfway(at, n) && !is_workspace;
    if !may_come_again || at == 0 || at + 1 >= proven || bytes < MUCH.0 {
        return Finding::Bounded;
    }
    too_few(&[at], n, kept)
}

/// Growth that may go on at this distance.
fn too_few(births: &[usize], distance: usize, kept: &Kept) -> Finding {
    Growth::of_few(births, distance, kept).map_or(Finding::Bounded, Finding::TooFew)
}

/// A recording with fewer steps may hold one growth of a rhythm that has shown no second one. In a
/// longer one, what is made once is likelier.
const FEW: usize = 24;

/// Whether one growth of `n` periods came after the first ones, and no later one is overdue: if it
/// comes in a rhythm, the quiet since may be as long as that before.
pub fn is_halfway(at: usize, n: usize) -> bool {
    n < FEW && at >= FIRST_STEPS && n - 1 - at <= at + 1
}

/// Two growths that are equal, or large, are too few to distinguish a slow leak from chance.
fn twice(births: &[usize], kept: &Kept, proven: usize) -> Finding {
    let &[first, second] = births else {
        return Finding::Bounded;
    };
    let gap = second - first;
    let quiet = proven - 1 - second;
    let [a, b] = [first, second].map(|at| kept.survivors_requested[at]);
    // Data of any length are kept in any size; what the first step makes says nothing then.
    let is_usual = first > 0 || kept.ran_before;
    let alike = a == b || is_usual && a.min(b) >= MUCH.0;
    // Where one follows the other, even one quiet period may be the end of a warm-up.
    let most_quiet = if gap < 2 { 0 } else { gap };
    if quiet > most_quiet || !alike {
        return Finding::Bounded;
    }
    too_few(births, gap, kept)
}
