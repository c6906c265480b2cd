//! One line of a site, beside its other lines.

use super::super::survivors::{Kept, Survey};
use super::super::thresholds::MIN_LATE_GROWTHS;
use super::births::{Room, patience};
use super::filling::is_queue;
use super::{Finding, Growth, judge};

/// What happens by chance once in so many cases, or more rarely, is no chance.
const MOST_BY_CHANCE: f64 = 1000.0;

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

/// Whether a site has given back blocks of its own that outlived their step, so often that one of
/// its lines may be bounded.
pub fn gives_back_its_own(kept: &Kept) -> bool {
    kept.freed_ages.iter().sum::<u32>() > 1
}

/// Whether one line of a site that grows shows that it is bounded: it does not grow, and gives back
/// what it made. All that it keeps is no older than what it gave back, or takes the place of
/// others in a buffer that is full. What the first period made may be data, which are bounded, too.
pub fn is_bounded(line: &Kept, survey: &Survey) -> bool {
    let proven = line.live.len().saturating_sub(patience(line)).max(1);
    let keeps_nothing_old = || line.survivor_count[1..proven].iter().all(|&n| n == 0);
    gives_back_its_own(line)
        && (keeps_nothing_old() || Room::of(line) == Room::Full)
        && judge(line, survey) == Finding::Bounded
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
