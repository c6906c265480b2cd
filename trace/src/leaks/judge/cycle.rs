//! Growth that comes in bursts of one kind.

use super::super::report::Cycle;
use super::super::survivors::Kept;

impl Cycle {
    /// Of growth whose distances come again at least once; `None` if they do not, or if all of
    /// them are equal.
    pub(super) fn of(births: &[usize]) -> Option<Cycle> {
        let gaps: Vec<usize> = births.windows(2).map(|w| w[1] - w[0]).collect();
        let comes_again = |times: &usize| {
            let mut pairs = gaps.iter().zip(&gaps[*times..]);
            pairs.all(|(a, b)| a == b)
        };
        let times = (1..=gaps.len() / 2).find(comes_again)?;
        let periods = gaps[..times].iter().sum::<usize>() as u32;
        (times > 1).then_some(Cycle {
            times: times as u32,
            periods,
        })
    }

    /// What each period keeps, in bytes and in blocks: over whole cycles, the last ones. From the
    /// first growth to the last, there would be one pause too few.
    pub(super) fn rate(self, births: &[usize], kept: &Kept) -> Option<(f64, f64)> {
        let times = self.times as usize;
        let whole = births.len().checked_sub(1)? / times * times;
        let (before, counted) = births.split_at(births.len() - whole);
        let span = (counted.last()? - before.last()?) as f64;
        let bytes: u64 = counted.iter().map(|&p| kept.survivors[p]).sum();
        let count: u32 = counted.iter().map(|&p| kept.survivor_count[p]).sum();
        Some((bytes as f64 / span, f64::from(count) / span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_seen_and_their_rate_is_that_of_whole_cycles() {
        let of = |births: &[usize]| Cycle::of(births).map(|cycle| (cycle.times, cycle.periods));
        let bursts = [0, 1, 2, 6, 7, 8, 12, 13, 14];
        assert_eq!(of(&bursts), Some((3, 6)));
        assert_eq!(of(&bursts[1..]), Some((3, 6)));
        assert_eq!(of(&[0, 1, 5, 6, 10]), Some((2, 5)));
        // At even distances, at any, or once only.
        assert_eq!(of(&[0, 2, 4, 6, 8]), None);
        assert_eq!(of(&[0, 1, 3, 8, 9, 15]), None);
        assert_eq!(of(&[0, 1, 2, 6]), None);
        assert_eq!(of(&[]), None);

        let amounts: Vec<u64> = (0..18).map(|at| 100 * u64::from(at % 6 < 3)).collect();
        let kept = Kept::of_survivors(&amounts);
        let cycle = Cycle::of(&bursts).unwrap();
        assert_eq!(cycle.rate(&bursts, &kept), Some((50.0, 0.5)));
        assert_eq!(cycle.rate(&bursts[1..], &kept), Some((50.0, 0.5)));
    }
}
