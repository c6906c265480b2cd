//! A level that never returns to a lower value.

use super::super::report::Pattern;
use super::super::survivors::Kept;
use super::super::thresholds::MIN_GROWTHS;
use super::births::Room;
use super::growth::Risen;
use super::rhythm::Rhythm;
use super::series::{FIRST_STEPS, from_the_right, has_ended, longest_gap};
use super::{Finding, Growth};

/// So many rises make a buffer that is enlarged, if they are of one amount.
pub(super) const MIN_RISES: usize = 5;

/// The same, if they are not: five random sizes are in order once in 120 cases, six in 720.
const MIN_IRREGULAR_RISES: usize = 6;

/// The same, if they are of one amount, but blocks are added, not replaced.
const MIN_ADDED_RISES: usize = 8;

/// So many rises by a factor make a buffer that is doubled again and again.
const MIN_DOUBLINGS: usize = 4;

/// Each of these rises is larger than the one before by this factor or more.
const MIN_FACTOR: f64 = 1.25;

/// How much the factors may differ: sizes are rounded up, and the first one is a program's own.
const FACTOR_SPREAD: f64 = 1.25;

/// Judges by the level: it never returns to a lower value. This finds blocks that are replaced by
/// larger ones, where no block is old.
pub(super) fn by_level(kept: &Kept) -> Finding {
    let floor = from_the_right(&kept.requested);
    let all: Vec<usize> = (1..floor.len())
        .filter(|&i| floor[i] > floor[i - 1])
        .collect();
    match Rises::of(kept, &floor, &all) {
        Some(rises) if rises.go_on() && rises.remain() && !rises.are_bounded() => {
            match rises.are_certain() {
                true => Finding::Grows(rises.growth()),
                false => Finding::TooFew(rises.growth()),
            }
        }
        _ => Finding::Bounded,
    }
}

/// The rises of a level that never returns to a lower value.
struct Rises<'a> {
    kept: &'a Kept,
    /// Per end, the lowest level from there on.
    floor: &'a [u64],
    /// Where `floor` rises, but for the buffer's making.
    at: &'a [usize],
    /// From here on the level is that of the buffer.
    made: usize,
    rhythm: Rhythm,
    /// Whether the rhythm is even and goes on.
    is_even: bool,
    /// How many more blocks there are at the last end than before the first rise.
    more: u64,
    room: Room,
}

impl<'a> Rises<'a> {
    /// `None` if these `all` have no rhythm.
    fn of(kept: &'a Kept, floor: &'a [u64], all: &'a [usize]) -> Option<Rises<'a>> {
        let end = floor.len() - 1;
        let at = without_its_making(all, floor);
        let made = all.first().filter(|_| at.len() < all.len());
        let (rhythm, is_even) = rhythm_of(at, end)?;
        let counts = from_the_right(&kept.counts());
        let more = counts[end].saturating_sub(counts[rhythm.first - 1]);
        Some(Rises {
            kept,
            floor,
            at,
            made: made.copied().unwrap_or(0),
            rhythm,
            is_even,
            more,
            room: Room::of(kept),
        })
    }

    fn level(&self) -> &'a [u64] {
        &self.kept.requested
    }

    fn are_few(&self) -> bool {
        self.at.len() < MIN_RISES
    }

    /// By chance alone, a random series has a few such rises at its end, but seldom in a rhythm
    /// over the whole trace.
    fn go_on(&self) -> bool {
        let (level, at) = (self.level(), self.at);
        let may = rises_throughout(level, at) || is_staircase(level, at);
        (may || !self.are_few()) && !self.rhythm.is_late(level.len())
    }

    /// Bytes from before the first rise to the last end.
    fn bytes(&self) -> u64 {
        self.floor[self.floor.len() - 1] - self.floor[self.rhythm.first - 1]
    }

    /// Whether at least half of the sum of all rises remains.
    fn remain(&self) -> bool {
        let settled = self.level()[self.made..].windows(2);
        let ups: u64 = settled.map(|w| w[1].saturating_sub(w[0])).sum();
        self.bytes() * 2 >= ups
    }

    /// Fewer new blocks than rises: blocks become larger, not more.
    fn are_of_larger_blocks(&self) -> bool {
        (self.more as usize) * 2 < self.at.len()
    }

    /// Sizes may also rise by chance, but then there are falls between or before the rises. The
    /// first steps may differ.
    fn never_fall(&self) -> bool {
        self.level()[FIRST_STEPS.min(self.rhythm.first - 1)..].is_sorted()
    }

    /// If there are more and more blocks and all are young, either the program grows, or a history
    /// is copied again and again: then it never falls, and the rest of the program is constant.
    fn are_of_young_blocks(&self) -> bool {
        let counts = &self.kept.survivor_count;
        let old = counts[1..counts.len() / 2].iter().filter(|&&n| n > 0);
        old.count() < MIN_GROWTHS
    }

    fn are_bounded(&self) -> bool {
        match self.room {
            _ if self.are_of_larger_blocks() => !self.never_fall(),
            // Blocks of other sizes take the place of those in a full buffer.
            Room::Full => self.are_of_young_blocks() || !self.never_fall(),
            Room::JustFull | Room::Unknown => self.are_of_young_blocks() && !self.never_fall(),
        }
    }

    fn may_be_chance(&self) -> bool {
        let is_buffer = self.are_of_larger_blocks() || self.are_of_young_blocks();
        let by_chance =
            || may_be_chance(self.kept, self.at) || was_emptied(self.kept, self.rhythm.first);
        self.are_few() || (is_buffer && by_chance())
    }

    fn are_certain(&self) -> bool {
        let has_room = self.are_of_larger_blocks() || self.room == Room::Unknown;
        has_room && self.is_even && !self.may_be_chance()
    }

    fn growth(&self) -> Growth {
        let is_copied = self.are_of_young_blocks() && !is_long_queue(self.kept);
        let pattern = match self.are_of_larger_blocks() || is_copied {
            true => Pattern::Enlarged,
            false => self.rhythm.pattern(),
        };
        let risen = Risen {
            bytes: self.bytes(),
            blocks: self.more,
        };
        let mut growth = Growth::of_level(pattern, &self.rhythm, risen, self.kept);
        let is_drained = !self.are_of_larger_blocks() && is_drained(self.kept, self.at);
        growth.drained = is_drained.then(|| self.rhythm.pattern());
        if let Pattern::EveryNth(_) = self.rhythm.pattern() {
            // The next rise may be due soon. So a rate counts from one rise to another.
            let (first, last) = (self.rhythm.first, self.rhythm.last);
            let rise = self.floor[last] - self.floor[first];
            growth.bytes_per_period = rise as f64 / (last - first) as f64;
        }
        growth
    }
}

/// A buffer that is made larger by one factor whenever it is full. What it holds may grow evenly
/// all the while, yet each rise comes later than the one before, and is larger. Nobody knows its
/// bound. `None` if the next rise is overdue, or if it is no such buffer.
pub(super) fn doubling(kept: &Kept) -> Option<Growth> {
    let level = &kept.requested;
    let n = level.len();
    let rises: Vec<usize> = (1..n).filter(|&i| level[i] > level[i - 1]).collect();
    // The first rise may be that the buffer was made.
    let starts = 0..(rises.len() + 1).saturating_sub(MIN_DOUBLINGS);
    let rises = starts
        .map(|from| &rises[from..])
        .find(|rises| is_doubling(level, rises))?;
    let rhythm = Rhythm::spanning(rises, n - 1)?;
    let counts = kept.counts();
    let risen = Risen {
        bytes: level[n - 1] - level[rhythm.first - 1],
        blocks: counts[n - 1].saturating_sub(counts[rhythm.first - 1]),
    };
    let is_replaced = (risen.blocks as usize) * 2 < rises.len();
    is_replaced.then(|| Growth::of_level(Pattern::Enlarged, &rhythm, risen, kept))
}

/// Whether a level does nothing from the first of these rises on but rise by one factor more each
/// time, at longer and longer distances, and the next rise is not overdue.
fn is_doubling(level: &[u64], rises: &[usize]) -> bool {
    let (Some(&first), Some(&last)) = (rises.first(), rises.last()) else {
        return false;
    };
    let amount = |at: usize| (level[at] - level[at - 1]) as f64;
    let factors = || rises.windows(2).map(|w| amount(w[1]) / amount(w[0]));
    let least = factors().fold(f64::INFINITY, f64::min);
    let most = factors().fold(0.0, f64::max);
    let gaps: Vec<usize> = rises.windows(2).map(|w| w[1] - w[0]).collect();
    let (shortest, longest) = (gaps[0], gaps[gaps.len() - 1]);
    // Distances become longer as amounts become larger.
    let due = (longest as f64 * most) as usize;

    level[first - 1..].is_sorted()
        && least >= MIN_FACTOR
        && most <= least * FACTOR_SPREAD
        && gaps.is_sorted()
        && longest > shortest
        && !has_ended(level.len() - 1 - last, due)
}

/// Whether blocks are given back oldest first, later than in the step after their own, and others
/// are still there: a queue. Of a list that is copied, all are replaced.
fn is_drained(kept: &Kept, rises: &[usize]) -> bool {
    kept.in_order && kept.longest_freed > 1 && !is_replaced(kept, rises)
}

/// Whether blocks are given back oldest first, and those that are left come from a quarter of the
/// periods or more. Of a list that is copied again and again, only the last copy is left.
fn is_long_queue(kept: &Kept) -> bool {
    let periods = kept.survivor_count.iter().filter(|&&n| n > 0).count();
    kept.in_order && periods * 4 >= kept.survivor_count.len()
}

/// The rises of a level, without a first one from nothing that is larger than others: then the
/// buffer was made, or replaced one from before the recording, of which nobody knows whose it was.
fn without_its_making<'a>(rises: &'a [usize], floor: &[u64]) -> &'a [usize] {
    let amount = |&at: &usize| floor[at] - floor[at - 1];
    match rises {
        [first, rest @ ..] if floor[first - 1] == 0 && !rest.is_empty() => {
            let mean = rest.iter().map(amount).sum::<u64>() / rest.len() as u64;
            match amount(first) > mean.saturating_mul(2) {
                true => rest,
                false => rises,
            }
        }
        _ => rises,
    }
}

/// The rhythm of the rises of a level, and whether it is even and goes on.
fn rhythm_of(rises: &[usize], end: usize) -> Option<(Rhythm, bool)> {
    let even = Rhythm::of(rises, end).map(|rhythm| {
        let slows = rhythm.slows(rises, end);
        (rhythm, !slows)
    });
    // A list that loses a part now and then, and is longer each time.
    let uneven = || Rhythm::uneven(rises, end).map(|(rhythm, _)| (rhythm, false));
    even.or_else(uneven)
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

/// Whether the level never falls after the first steps, and rises by one amount now and then: a
/// queue whose bound rises, or a result that is made longer once in a few steps. The next rise must
/// not be due yet.
fn is_staircase(level: &[u64], rises: &[usize]) -> bool {
    let due = rises.last().zip(longest_gap(rises)).map(|(a, b)| a + b);
    level[FIRST_STEPS..].is_sorted()
        && is_steady(level, rises)
        && due.is_some_and(|due| level.len() <= due)
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
