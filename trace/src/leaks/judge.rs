//! Decides whether the memory that a site keeps grows, and how. The thresholds and their reasons
//! are in the documentation of the parent module.

use super::survivors::{Kept, Survey};
use super::{MAX_GAP_SPREAD, MIN_BYTES, MIN_GROWTHS, MIN_LATE_GROWTHS, Pattern};
use crate::growth::{Line, settled};
use std::collections::HashSet;

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
/// First steps that differ in many programs (optimizer state, workspaces).
const FIRST_STEPS: usize = 2;

/// In this share of the periods that keep something, blocks from before must be given back for new
/// ones to take their place.
const REPLACED: f64 = 0.75;
/// These must be so many bytes, as a share of what is kept: sizes differ by chance.
const MADE_UP_FOR: f64 = 0.6;

/// So many rises make a buffer that is enlarged, if they are of one amount.
const MIN_RISES: usize = 5;
/// The same, if they are not: five random sizes are in order once in 120 cases, six in 720.
const MIN_IRREGULAR_RISES: usize = 6;
/// The same, if they are of one amount, but blocks are added, not replaced.
const MIN_ADDED_RISES: usize = 8;

/// What happens by chance once in so many cases, or more rarely, is no chance.
const MOST_BY_CHANCE: f64 = 1000.0;

/// A level that rises by this share of itself in a third of the time has not come close to a bound.
const STILL_RISING: f64 = 0.1;
/// A level that rises by less is as good as constant.
const HARDLY_RISING: f64 = 0.03;

/// So many growths at random moments are enough to know that they are at random.
const MIN_RANDOM_GROWTHS: usize = 20;
/// Growth whose mean distance is smaller happens in nearly every period.
const NEARLY_EVERY: f64 = 1.25;

/// Luck that is rarer is no luck.
const LUCK: f64 = 0.01;

/// Growth that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// How it grows.
    pub pattern: Pattern,
    /// First period that adds to it.
    pub first: usize,
    /// Last period that adds to it.
    pub last: usize,
    /// Bytes added for each period.
    pub bytes_per_period: f64,
    /// Blocks added for each period.
    pub count_per_period: f64,
    /// Bytes added whenever it grows.
    pub bytes_per_growth: f64,
    /// Half of the 95 % interval of the slope, bytes per period.
    pub slope_error: f64,
    /// How often it could have grown, given its own rhythm.
    pub chances: usize,
    /// How often it did.
    pub growths: usize,
}

impl Growth {
    /// How likely it is that it grows at the next chance too, by Laplace's rule of succession.
    pub fn confidence(&self) -> f64 {
        (self.growths as f64 + 1.0) / (self.chances as f64 + 2.0)
    }
}

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
        found => found,
    }
}

/// What can be said without looking at the rest of the program.
fn alone(kept: &Kept, survey: &Survey) -> Finding {
    let found = match by_survivors(kept) {
        Finding::Bounded => match by_level(kept) {
            Finding::Bounded => climbing(kept).map_or(Finding::Bounded, Finding::TooFew),
            found => found,
        },
        found => found,
    };
    match (Older::of(kept, survey), found) {
        (Older::Replaced, _) => Finding::Bounded,
        (Older::Perhaps, Finding::Grows(growth)) => Finding::TooFew(growth),
        (Older::None, Finding::Grows(growth)) => Finding::Grows(less_older(growth, kept, survey)),
        (Older::Perhaps | Older::None, found) => found,
    }
}

/// Growth without what a queue gives back from before the recording: blocks of the sizes that it
/// keeps, again and again while it grows.
fn less_older(growth: Growth, kept: &Kept, survey: &Survey) -> Growth {
    if growth.pattern == Pattern::Enlarged || kept.longest_freed > 0 {
        // By its level, or its own blocks are given back by now.
        return growth;
    }
    let span = growth.first + 1..=growth.last;
    let (mut count, mut bytes) = (0.0, 0.0);
    let mut gone_in = HashSet::new();
    for (size, &n) in &kept.sizes {
        let periods = survey.replaced.get(size).map_or(&[][..], |periods| periods);
        let inside = periods.iter().filter(|(period, _)| span.contains(period));
        let gone: u32 = inside.clone().map(|(_, gone)| gone).sum();
        count += f64::from(gone.min(n));
        bytes += f64::from(gone.min(n)) * size.0 as f64;
        gone_in.extend(inside.map(|&(period, _)| period));
    }
    let periods = (growth.last - growth.first).max(1) as f64;
    let (count, bytes) = (count / periods, bytes / periods);
    if gone_in.len() < MIN_GROWTHS || bytes >= growth.bytes_per_period {
        return growth;
    }
    Growth {
        bytes_per_period: growth.bytes_per_period - bytes,
        count_per_period: (growth.count_per_period - count).max(0.0),
        ..growth
    }
}

/// The growth of a site of which no bound was seen, though it gives back old blocks now and then:
/// what it holds, and how many blocks, has risen from each third of the time to the next, in its
/// highest and in its lowest level. A list that loses a fifth of its elements once in a while
/// climbs for long before it stays at a height.
fn climbing(kept: &Kept) -> Option<Growth> {
    let counts: Vec<u64> = kept.live_count.iter().map(|&c| u64::from(c)).collect();
    if Room::of(kept) != Room::Unknown || !climbs(&kept.requested) || !climbs(&counts) {
        return None;
    }
    let floor = from_the_right(&kept.requested);
    let n = floor.len();
    let rises: Vec<usize> = (1..n).filter(|&i| floor[i] > floor[i - 1]).collect();
    let rhythm = Rhythm::spanning(&rises, n - 1)?;
    let (from, to) = (rhythm.first - 1, n - 1);
    let span = (n - rhythm.first) as f64;
    let bytes = (floor[to] - floor[from]) as f64;
    Some(Growth {
        pattern: rhythm.pattern(),
        first: rhythm.first,
        last: rhythm.last,
        bytes_per_period: bytes / span,
        count_per_period: counts[to].saturating_sub(counts[from]) as f64 / span,
        bytes_per_growth: bytes / rises.len() as f64,
        slope_error: slope_error(kept, rhythm.first),
        chances: rhythm.chances,
        growths: rises.len(),
    })
}

/// Whether a level rises from each third of the time to the next, in its highest and its lowest
/// points, and goes on to do so: in the last third by about as much as before, or by a tenth of
/// all. What comes close to a bound rises less and less.
fn climbs(level: &[u64]) -> bool {
    let settled = &level[settled(level.len())..];
    let third = settled.len() / 3;
    if third < MIN_GROWTHS {
        return false;
    }
    let (first, rest) = settled.split_at(settled.len() - 2 * third);
    let (second, last) = rest.split_at(third);
    let range = |part: &[u64]| {
        let (low, high) = (part.iter().min(), part.iter().max());
        [low, high].map(|bound| bound.copied().unwrap_or_default())
    };
    let [first, second, last] = [first, second, last].map(range);
    let rises = |bound: usize| {
        let before = second[bound].saturating_sub(first[bound]);
        let now = last[bound].saturating_sub(second[bound]);
        let all = last[bound] as f64;
        let goes_on = now * 2 > before || now as f64 >= STILL_RISING * all;
        before > 0 && goes_on && now as f64 >= HARDLY_RISING * all
    };
    rises(0) && rises(1)
}

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
    let births: Vec<usize> = (0..proven)
        .filter(|&p| kept.survivor_count[p] > 0)
        .collect();
    let births = without_special_first(&births, kept);
    // Where new blocks take the place of others, growth has ended before the last one came.
    if Room::of(kept) != Room::Unknown {
        return None;
    }
    let (&last, longest) = births.last().zip(longest_gap(births))?;
    let bytes: u64 = births.iter().map(|&p| kept.survivors[p]).sum();
    let is_enough = bytes >= MIN_BYTES.0 * births.len() as u64;
    let has_grown = births.len() >= MIN_LATE_GROWTHS && is_enough;
    (has_grown && has_ended(proven - 1 - last, longest)).then_some(Ended { last, bytes })
}

/// Whether blocks are given back oldest first, or at about the same age: a queue that is filled
/// faster than it is emptied, or one beside what is kept.
fn is_queue(kept: &Kept) -> bool {
    let given_back: u32 = kept.freed_ages.iter().sum();
    let youngest = kept.freed_ages.iter().position(|&n| n > 0);
    let at_one_age = youngest.is_some_and(|youngest| youngest * 4 >= kept.longest_freed * 3);
    given_back > 1 && (kept.in_order || given_back as usize >= MIN_GROWTHS && at_one_age)
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
        _ => Together::Bounded,
    }
}

/// What blocks of the same sizes from before the recording, which were given back, say of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Older {
    /// There are none, or now there are more blocks than there ever were with them.
    None,
    /// They were given back, and after that the number of blocks rises again. So this is a buffer
    /// that is emptied now and then, or they have the same size by chance.
    Perhaps,
    /// New blocks take their place: a buffer that was full already.
    Replaced,
}

impl Older {
    fn of(kept: &Kept, survey: &Survey) -> Older {
        let total: u32 = kept.sizes.values().sum();
        let (mut matched, mut gone) = (0, vec![0_u64; kept.live.len()]);
        for (size, &n) in &kept.sizes {
            let periods = survey.replaced.get(size).map_or(&[][..], |periods| periods);
            matched += periods.iter().map(|(_, gone)| gone).sum::<u32>().min(n);
            for &(period, n) in periods {
                gone[period] += u64::from(n);
            }
        }
        if matched == 0 || matched * 2 < total {
            return Older::None;
        }
        let mut left: u64 = gone.iter().sum();
        let together = kept.live_count.iter().zip(&gone).map(|(&own, gone)| {
            left -= gone;
            u64::from(own) + left
        });
        let together: Vec<u64> = together.collect();
        let n = together.len();
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

/// How many ends a block may outlive before it counts as kept for good. If blocks were given back
/// at three or more ages, of up to three periods and more, something collects them now and then
/// (garbage collection). Its next round may come after twice the longest age.
fn patience(kept: &Kept) -> usize {
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

/// Whether a site collects blocks now and then, and also has many that are older than any that it
/// gave back. Perhaps one line of it collects, and another one keeps.
pub fn is_mixed(kept: &Kept) -> bool {
    patience(kept) > kept.longest_freed
}

/// The growth of one line of such a site, if `line` alone grows and was kept for longer than
/// anything that the site gave back, or keeps all where the other lines keep next to nothing, or is
/// a queue.
pub fn of_line(line: &Kept, site: &Kept, survey: &Survey) -> Option<Growth> {
    match judge(line, survey) {
        Finding::Grows(growth)
            if n_older(line, site) >= MIN_LATE_GROWTHS
                || keeps_what_others_drop(line, site)
                || is_queue(line) =>
        {
            Some(growth)
        }
        _ => None,
    }
}

/// Whether chance cannot be why a line of a site never gave anything back: if it gave back at
/// random as the other lines do, all that it made in the first half would be there once in
/// [`MOST_BY_CHANCE`] cases at most.
fn keeps_what_others_drop(line: &Kept, site: &Kept) -> bool {
    let half = site.live.len() / 2;
    let sum = |column: &[u32]| column[1..half].iter().map(|&n| f64::from(n)).sum::<f64>();
    let made = sum(&site.new_count) - sum(&line.new_count);
    let kept = sum(&site.survivor_count) - sum(&line.survivor_count);
    let times = (1..half).filter(|&p| line.survivor_count[p] > 0).count();
    // By Laplace's rule of succession, so that few blocks prove little.
    let share = (kept + 1.0) / (made + 2.0);
    line.longest_freed == 0 && share.powi(times as i32) * MOST_BY_CHANCE <= 1.0
}

/// In how many periods `kept` made survivors that are older than what `site` gave back.
fn n_older(kept: &Kept, site: &Kept) -> usize {
    let older = kept.live.len().saturating_sub(site.longest_freed);
    kept.survivor_count[..older]
        .iter()
        .filter(|&&n| n > 0)
        .count()
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
    births.len() >= MIN_GROWTHS
        && replaced as f64 >= REPLACED * births.len() as f64
        && sum(|b| b.1) >= MADE_UP_FOR * sum(|b| b.0)
}

/// Looks for survivors that are older than any block that the site ever gave back, and that appear
/// again and again.
fn by_survivors(kept: &Kept) -> Finding {
    let n = kept.live.len();
    let patience = patience(kept);
    // A block of period p has outlived n - p ends.
    let proven = n.saturating_sub(patience);
    let births: Vec<usize> = (0..proven)
        .filter(|&p| kept.survivor_count[p] > 0)
        .collect();
    let births = without_special_first(&births, kept);
    let end = proven.saturating_sub(1);
    let even = Rhythm::of(births, end).map(|rhythm| (rhythm, true));
    // Where a site gives back what is older, chance decides what stays.
    let uneven = || Rhythm::uneven(births, end).filter(|_| patience <= 1);
    let Some((rhythm, goes_on)) = even.or_else(uneven) else {
        return match patience {
            // Two equal growths, and then a quiet time that is shorter than the distance between
            // them.
            0 | 1 => twice(births, kept, proven),
            _ => Finding::Bounded,
        };
    };
    let bytes = |p: &usize| kept.survivors[*p] as f64;
    let count = |p: &usize| f64::from(kept.survivor_count[*p]);
    let span = (rhythm.last - rhythm.first) as f64;
    // The first growth is the start of the span; only the later ones count for the rate.
    let after = &births[1..];
    let growth = Growth {
        pattern: rhythm.pattern(),
        first: rhythm.first,
        last: rhythm.last,
        bytes_per_period: after.iter().map(bytes).sum::<f64>() / span,
        count_per_period: after.iter().map(count).sum::<f64>() / span,
        bytes_per_growth: births.iter().map(bytes).sum::<f64>() / births.len() as f64,
        slope_error: slope_error(kept, rhythm.first),
        chances: rhythm.chances,
        growths: births.len(),
    };
    let room = match Room::of(kept) {
        Room::Unknown => Room::beneath_its_most(kept, births),
        known => known,
    };
    match (room, rhythm.is_late(n) || !goes_on) {
        (Room::Full, _) => Finding::Bounded,
        (Room::JustFull, _) | (_, true) => Finding::TooFew(growth),
        (Room::Unknown, false) => Finding::Grows(growth),
    }
}

/// Whether a site is a buffer that is full: the number of its blocks rose, and then stays the same
/// to the block, while new ones take the place of others. Which ones is not known: where chance or
/// a score decides, blocks that are kept may be older than any that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Full,
    /// It has been full for so short a time that chance may be the reason.
    JustFull,
    Unknown,
}

impl Room {
    fn of(kept: &Kept) -> Room {
        let counts: Vec<u64> = kept.live_count.iter().map(|&c| u64::from(c)).collect();
        let floor = from_the_right(&counts);
        let before = [0].iter().chain(&floor);
        let rises = before.zip(&floor).enumerate();
        let rises: Vec<usize> = rises.filter(|(_, (a, b))| b > a).map(|(i, _)| i).collect();
        let Some((longest, &last)) = longest_gap(&rises).zip(rises.last()) else {
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

    /// The same, where the number of blocks falls below its maximum now and then: the variable of a
    /// loop holds one block more, if that is not in the buffer. So many `births` as were needed to
    /// make up for this and for a new maximum should have come, and did not raise it.
    fn beneath_its_most(kept: &Kept, births: &[usize]) -> Room {
        let counts = &kept.live_count;
        let mut most = 0;
        let mut rises = Vec::new();
        for (end, &count) in counts.iter().enumerate() {
            if count > most {
                most = count;
                rises.push(end);
            }
        }
        let longest = longest_gap(&rises).zip(longest_gap(births));
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

/// The longest distance between growths.
fn longest_gap(births: &[usize]) -> Option<usize> {
    births.windows(2).map(|w| w[1] - w[0]).max()
}

/// If it has been quiet for longer than ever before, growth has ended (a warm-up, a buffer that is
/// full).
fn has_ended(quiet: usize, longest: usize) -> bool {
    quiet > longest + longest / 2
}

/// Period 0 counts only when it adds about as much as the others do. Otherwise it holds what first
/// steps allocate for good (optimizer state, workspaces).
fn without_special_first<'a>(births: &'a [usize], kept: &Kept) -> &'a [usize] {
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

/// Two equal growths are too few to distinguish a slow leak from chance.
fn twice(births: &[usize], kept: &Kept, proven: usize) -> Finding {
    let &[first, second] = births else {
        return Finding::Bounded;
    };
    let gap = second - first;
    let quiet = proven - 1 - second;
    let alike = kept.survivors_requested[first] == kept.survivors_requested[second];
    // Where one follows the other, even one quiet period may be the end of a warm-up.
    let most_quiet = if gap < 2 { 0 } else { gap };
    if quiet > most_quiet || !alike {
        return Finding::Bounded;
    }
    let bytes = kept.survivors[first] as f64;
    Finding::TooFew(Growth {
        pattern: Pattern::EveryNth(gap as u32),
        first,
        last: second,
        bytes_per_period: bytes / gap as f64,
        count_per_period: f64::from(kept.survivor_count[first]) / gap as f64,
        bytes_per_growth: bytes,
        slope_error: slope_error(kept, 0),
        chances: 2,
        growths: 2,
    })
}

/// Judges by the level: it never returns to a lower value. This finds blocks that are replaced by
/// larger ones, where no block is old.
fn by_level(kept: &Kept) -> Finding {
    let level = &kept.requested;
    let n = level.len();
    let floor = from_the_right(level);
    let rises: Vec<usize> = (1..n).filter(|&i| floor[i] > floor[i - 1]).collect();
    let even = Rhythm::of(&rises, n - 1).map(|rhythm| (rhythm, true));
    // A list that loses a part now and then, and is longer each time.
    let uneven = || Rhythm::uneven(&rises, n - 1).map(|(rhythm, _)| (rhythm, false));
    let Some((rhythm, is_even)) = even.or_else(uneven) else {
        return Finding::Bounded;
    };
    // By chance alone, a random series has a few such rises at its end, but seldom in a rhythm over
    // the whole trace.
    let is_short = rises.len() < MIN_RISES;
    if (is_short && !rises_throughout(level, &rises)) || rhythm.is_late(n) {
        return Finding::Bounded;
    }
    let ups: u64 = level.windows(2).map(|w| w[1].saturating_sub(w[0])).sum();
    let (from, to) = (floor[rhythm.first - 1], floor[n - 1]);
    // At least half of the sum of all rises must remain.
    if (to - from) * 2 < ups {
        return Finding::Bounded;
    }
    let counts: Vec<u64> = kept.live_count.iter().map(|&c| u64::from(c)).collect();
    let count_floor = from_the_right(&counts);
    let more = count_floor[n - 1].saturating_sub(count_floor[rhythm.first - 1]);
    // Fewer new blocks than rises: blocks become larger, not more.
    let replaced = (more as usize) * 2 < rises.len();
    // Sizes may also rise by chance, but then there are falls between or before the rises. The
    // first steps may differ.
    let never_falls = level[FIRST_STEPS.min(rhythm.first - 1)..].is_sorted();
    // If there are more and more blocks and all are young, either the program grows, or a history
    // is copied again and again: then it never falls, and the rest of the program is constant.
    let old = kept.survivor_count[1..n / 2].iter().filter(|&&n| n > 0);
    let is_young = old.count() < MIN_GROWTHS;
    let room = Room::of(kept);
    let is_bounded = match room {
        _ if replaced => !never_falls,
        // Blocks of other sizes take the place of those in a full buffer.
        Room::Full => is_young || !never_falls,
        Room::JustFull | Room::Unknown => is_young && !never_falls,
    };
    if is_bounded {
        return Finding::Bounded;
    }
    let span = (n - rhythm.first) as f64;
    let bytes_per_period = (to - from) as f64 / span;
    let growth = Growth {
        pattern: match replaced || is_young {
            true => Pattern::Enlarged,
            false => rhythm.pattern(),
        },
        first: rhythm.first,
        last: rhythm.last,
        bytes_per_period,
        count_per_period: more as f64 / span,
        bytes_per_growth: (to - from) as f64 / rises.len() as f64,
        slope_error: slope_error(kept, rhythm.first),
        chances: rhythm.chances,
        growths: rises.len(),
    };
    let is_chance = may_be_chance(kept, &rises) || was_emptied(kept, rhythm.first);
    let is_chance = is_short || ((replaced || is_young) && is_chance);
    match (replaced || room == Room::Unknown) && !is_chance && is_even {
        true => Finding::Grows(growth),
        false => Finding::TooFew(growth),
    }
}

/// Whether sizes and lives at random may have made a level rise like this. Blocks of random lives
/// pile up before the first of them are given back, and then random sizes rise a few times.
fn may_be_chance(kept: &Kept, rises: &[usize]) -> bool {
    let needed = match (is_replaced(kept, rises), is_steady(&kept.requested, rises)) {
        (true, true) => MIN_RISES,
        (true, false) => MIN_IRREGULAR_RISES,
        // A queue that is filled faster than it is emptied.
        (false, true) => MIN_ADDED_RISES,
        (false, false) => return true,
    };
    rises.len() < needed
}

/// Whether the level rises at each end of a short recording, and by one amount.
fn rises_throughout(level: &[u64], rises: &[usize]) -> bool {
    rises.len() + 1 == level.len() && is_steady(level, rises)
}

/// Whether many blocks are given back at once, once or twice since the period `first`. A list that
/// is emptied may be collected again, and so may be what was made of it: then the level falls in
/// the next round only.
fn was_emptied(kept: &Kept, first: usize) -> bool {
    let counts = kept.live_count[first..].windows(2);
    let falls = counts.filter(|w| w[1] as usize + MIN_GROWTHS <= w[0] as usize);
    (1..=2).contains(&falls.count())
}

/// Whether in at least three quarters of the `rises`, blocks are replaced by larger ones or by more
/// of them: as many are alive as before, or none of those before is, but for what always stays.
fn is_replaced(kept: &Kept, rises: &[usize]) -> bool {
    let old = |&end: &usize| kept.live_count[end] - kept.new_count[end];
    let stay = rises.iter().map(old).min();
    let replaces = |end: &&usize| {
        let is_as_many = kept.live_count[**end] == kept.live_count[**end - 1];
        is_as_many || Some(old(end)) == stay
    };
    rises.iter().filter(replaces).count() * 4 >= rises.len() * 3
}

/// Whether the level rises by one amount in at least three quarters of the `rises`.
fn is_steady(level: &[u64], rises: &[usize]) -> bool {
    let mut amounts: Vec<u64> = rises.iter().map(|&i| level[i] - level[i - 1]).collect();
    amounts.sort_unstable();
    let alike = amounts.chunk_by(|a, b| a == b);
    let most = alike.map(<[u64]>::len).max().unwrap_or_default();
    most * 4 >= rises.len() * 3
}

/// A buffer may make the program's work grow (it is searched in every step), or the program's data
/// the buffer.
pub fn is_ambiguous(kept: &Kept, survey: &Survey, growth: &Growth) -> bool {
    Rest::beside(kept, survey, growth) != Rest::Constant
}

/// What the rest of the program does while a buffer is enlarged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Constant,
    GrowsALittle,
    GrowsToo,
}

impl Rest {
    /// Of all other sites, if the growth of this one is a buffer's. A buffer that is enlarged
    /// several times in a step leaves smaller copies of itself, which are no other site's.
    fn beside(kept: &Kept, survey: &Survey, growth: &Growth) -> Rest {
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
    fn of(kept: &Kept, growth: &Growth, rest: &[u64]) -> Rest {
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

/// For each end, the lowest level from there to the last end.
fn from_the_right(live: &[u64]) -> Vec<u64> {
    let mut floor = live.to_vec();
    for i in (1..floor.len()).rev() {
        floor[i - 1] = floor[i - 1].min(floor[i]);
    }
    floor
}

/// The rhythm of something that happens in some periods.
struct Rhythm {
    first: usize,
    last: usize,
    /// Mean distance, in periods.
    mean_gap: f64,
    growths: usize,
    chances: usize,
}

impl Rhythm {
    /// The rhythm of growth, if it has one and goes on until period `end`.
    fn of(births: &[usize], end: usize) -> Option<Rhythm> {
        let rhythm = Rhythm::spanning(births, end)?;
        let longest = longest_gap(births)?;
        let ended = has_ended(end.saturating_sub(rhythm.last), longest);
        // Few growths must have about equal distances; many may come at random.
        let spread = match births.len() {
            3 | 4 => 1.5,
            _ => MAX_GAP_SPREAD,
        };
        let irregular = longest as f64 > spread * rhythm.mean_gap.max(1.0) + 0.5;
        let settles = births.len() >= MIN_GROWTHS + 2 && rhythm.is_rarer(births, end, 0.25);
        (!ended && !irregular && !settles).then_some(rhythm)
    }

    /// The rhythm of growth that has none as [`Rhythm::of`] asks for, and whether it is sure to go
    /// on. `None` if it seems to have ended.
    ///
    /// The longest of `n` distances at random is about `ln n` times the mean, so it is the longer,
    /// the more there are. And growth that was in nearly every period has not ended for good if it
    /// is quiet for a few.
    fn uneven(births: &[usize], end: usize) -> Option<(Rhythm, bool)> {
        let rhythm = Rhythm::spanning(births, end)?;
        let longest = longest_gap(births)?;
        if births.len() < MIN_LATE_GROWTHS || rhythm.is_rarer(births, end, 0.25) {
            return None;
        }
        let (quiet, span) = (end.saturating_sub(rhythm.last), rhythm.last - rhythm.first);
        if has_ended(quiet, longest) {
            let is_short = quiet <= (MIN_GROWTHS + 1).max(span / 10) && quiet * 2 <= span;
            return (is_short && rhythm.mean_gap < NEARLY_EVERY).then_some((rhythm, false));
        }
        // A cache that fills: fewer in the later half, and the longest distance there.
        let middle = rhythm.first + (end - rhythm.first) / 2;
        let mut gaps = births.windows(2).filter(|w| w[1] - w[0] == longest);
        let slows = gaps.all(|w| w[1] > middle) && rhythm.is_rarer(births, end, 0.4);
        if slows {
            return None;
        }
        let n = births.len();
        let spread = 2.0 * (n as f64).ln() + 1.0;
        let at_random = longest as f64 <= spread * rhythm.mean_gap.max(1.0);
        Some((rhythm, at_random && n >= MIN_RANDOM_GROWTHS))
    }

    /// From the first growth to the last one; `None` if they are too few.
    fn spanning(births: &[usize], end: usize) -> Option<Rhythm> {
        let [first, .., last] = *births else {
            return None;
        };
        if births.len() < MIN_GROWTHS {
            return None;
        }
        let mean_gap = (last - first) as f64 / (births.len() - 1) as f64;
        let chances = ((end - first) as f64 / mean_gap).floor() as usize + 1;
        Some(Rhythm {
            first,
            last,
            mean_gap,
            growths: births.len(),
            chances: chances.max(births.len()),
        })
    }

    /// Whether less than this share of the growths is in the later half of the time. Growth that
    /// becomes rarer and rarer will end (caches that fill).
    fn is_rarer(&self, births: &[usize], end: usize, share: f64) -> bool {
        let middle = self.first + (end - self.first) / 2;
        let late = births.iter().filter(|&&p| p > middle).count();
        (late as f64) < share * births.len() as f64
    }

    /// Whether growth begins late and does not happen often after that. Perhaps it is a buffer that
    /// is not full yet.
    fn is_late(&self, n: usize) -> bool {
        self.first > 2 && (self.last - self.first) * 2 < n && self.growths < MIN_LATE_GROWTHS
    }

    fn pattern(&self) -> Pattern {
        match self.mean_gap {
            gap if gap < 1.5 => Pattern::EveryStep,
            gap => Pattern::EveryNth(gap.round() as u32),
        }
    }
}

/// Half of the 95 % interval of the slope of the level from `first` on; 0 if there are too few ends
/// to compute it.
fn slope_error(kept: &Kept, first: usize) -> f64 {
    let line = Line::fit(&kept.live[first..]);
    line.and_then(|line| line.error).unwrap_or(0.0)
}
