//! A level that climbs though old blocks are given back now and then.

use super::super::survivors::Kept;
use super::super::thresholds::MIN_GROWTHS;
use super::Growth;
use super::births::Room;
use super::growth::Risen;
use super::rhythm::Rhythm;
use super::series::from_the_right;
use crate::growth::settled;

/// A level that rises by this share of itself in a third of the time has not come close to a bound.
const STILL_RISING: f64 = 0.1;

/// A level that rises by less is as good as constant.
const HARDLY_RISING: f64 = 0.03;

/// The growth of a site of which no bound was seen, though it gives back old blocks now and then:
/// what it holds, and how many blocks, has risen from each third of the time to the next, in its
/// highest and in its lowest level. A list that loses a fifth of its elements once in a while
/// climbs for long before it stays at a height.
pub(super) fn climbing(kept: &Kept) -> Option<Growth> {
    let counts = kept.counts();
    if Room::of(kept) != Room::Unknown || !climbs(&kept.requested) || !climbs(&counts) {
        return None;
    }
    let floor = from_the_right(&kept.requested);
    let n = floor.len();
    let rhythm = Rhythm::spanning(&rises(&floor), n - 1)?;
    let (from, to) = (rhythm.first - 1, n - 1);
    let risen = Risen {
        bytes: floor[to] - floor[from],
        blocks: counts[to].saturating_sub(counts[from]),
    };
    Some(Growth::of_level(rhythm.pattern(), &rhythm, risen, kept))
}

/// Where the lowest level from there to the last end rises.
fn rises(floor: &[u64]) -> Vec<usize> {
    let ends = 1..floor.len();
    ends.filter(|&at| floor[at] > floor[at - 1]).collect()
}

/// Whether a site holds nothing of what it held before, whenever its level has risen.
pub(super) fn is_made_anew(kept: &Kept) -> bool {
    let mut rises = rises(&from_the_right(&kept.requested)).into_iter();
    rises.all(|end| kept.live_count[end] == kept.new_count[end])
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
