//! *Allocated* of the ranks of a job on one scale, and which ranks are odd.

use api::compare;
use api::jobs::{JobDetail, JobRank, RankCurve};
use trace::ranks::Rank;
use trace::units::Bytes;

/// The content of a picture: ranges of levels over one axis.
pub fn pictured(job: &JobDetail, runs: Vec<Vec<Option<[u64; 3]>>>) -> compare::Curves {
    let curve = |parts| compare::Curve {
        parts,
        events: Vec::new(),
        steps: Vec::new(),
    };
    compare::Curves {
        whole: job.band.window,
        window: job.band.window,
        begins: Vec::new(),
        runs: runs.into_iter().map(curve).collect(),
    }
}

/// The median of the ranks that run the same code as this one, the baseline of its picture: what
/// others hold says nothing of it. Empty for the only one of its kind.
pub fn median_for(job: &JobDetail, rank: &JobRank) -> Vec<Option<[u64; 3]>> {
    match job.band.medians.get(rank.row.group as usize) {
        Some(own) => own
            .parts
            .iter()
            .map(|part| part.map(|Bytes(n)| [n; 3]))
            .collect(),
        None => median(job),
    }
}

/// The median of all ranks.
pub fn median(job: &JobDetail) -> Vec<Option<[u64; 3]>> {
    let parts = job.band.parts.iter();
    parts
        .map(|part| part.map(|[_, Bytes(n), _]| [n; 3]))
        .collect()
}

/// What the grey line of each picture is. Of two ranks, no one is the median.
pub fn baseline(job: &JobDetail) -> String {
    let which = of_which(job);
    match job.ranks.len() {
        _ if !job.band.medians.is_empty() => {
            format!("the median of the ranks that run the same code{which}")
        }
        2 => format!("halfway between the two ranks{which}"),
        _ => format!("the median rank{which}"),
    }
}

/// Of which ranks the median is, where it is not of all at each place: some ran fewer steps.
pub fn of_which(job: &JobDetail) -> &'static str {
    of_steps(job.ranks.iter().map(|rank| rank.row.steps))
}

fn of_steps(mut steps: impl Iterator<Item = u32>) -> &'static str {
    let first = steps.next();
    match steps.all(|steps| Some(steps) == first) {
        true => "",
        false => " of those that ran that long",
    }
}

/// From the rank whose highest level is lowest to that whose is highest: flat where all are equal.
pub fn band(job: &JobDetail) -> Vec<Option<[u64; 3]>> {
    let parts = job.band.parts.iter();
    let part = |[low, _, high]: [Bytes; 3]| [low.0, high.0, high.0];
    parts.map(|p| p.map(part)).collect()
}

/// The highest levels of a rank. What lies between ranks is of their highest levels, so that a line
/// of other levels would leave it.
pub fn line(curve: &RankCurve) -> Vec<Option<[u64; 3]>> {
    let parts = curve.parts.iter();
    parts
        .map(|part| part.map(|[_, Bytes(high)]| [high; 3]))
        .collect()
}

/// From the lowest to the highest level of a rank.
pub fn reach(curve: &RankCurve) -> Vec<Option<[u64; 3]>> {
    let parts = curve.parts.iter();
    let part = |[low, high]: [Bytes; 2]| [low.0, high.0, high.0];
    parts.map(|p| p.map(part)).collect()
}

/// The highest level of all ranks, bytes.
pub fn highest(job: &JobDetail) -> u64 {
    let parts = job.band.parts.iter().flatten();
    parts.map(|part| part[2].0).max().unwrap_or(0)
}

/// A rank's entry on this page.
pub fn rank_of(job: &JobDetail, rank: Rank) -> Option<&JobRank> {
    job.ranks.iter().find(|one| one.row.rank == rank)
}

/// The ranks, the oddest first.
pub fn oddest_first(job: &JobDetail) -> Vec<&JobRank> {
    let mut order = vec![None; job.ranks.len()];
    for rank in &job.ranks {
        if let Some(place) = order.get_mut(rank.row.by_oddness as usize) {
            *place = Some(rank);
        }
    }
    order.into_iter().flatten().collect()
}

/// Their numbers.
pub fn by_oddness(job: &JobDetail) -> Vec<Rank> {
    oddest_first(job).iter().map(|one| one.row.rank).collect()
}

/// Why a rank is odd; empty if it is not.
pub fn why(rank: &JobRank) -> String {
    let odd: Vec<&str> = rank.row.odd.iter().map(|odd| odd.why.as_str()).collect();
    odd.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_some_of_the_ranks_says_so() {
        let check = |steps: &[u32], expected: &str| {
            assert_eq!(of_steps(steps.iter().copied()), expected, "{steps:?}");
        };
        check(&[], "");
        check(&[8, 8, 8], "");
        check(&[8, 5, 8], " of those that ran that long");
    }

    #[test]
    fn the_line_of_a_rank_lies_in_the_band_of_all() {
        let curve = RankCurve {
            rank: Rank(0),
            parts: vec![Some([Bytes(2), Bytes(9)]), None],
        };
        // Ranks that are equal have a band without height, and so has the line of one.
        assert_eq!(line(&curve), [Some([9, 9, 9]), None]);
        assert_eq!(reach(&curve), [Some([2, 9, 9]), None]);
    }
}
