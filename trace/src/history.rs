//! Where a number changed for good, from one recording of a program to the next.
//!
//! The recordings are cut into stretches of one level each. The best cut has the smallest sum of
//! the distances of all values from their stretch's median, plus a price for each further stretch
//! (optimal partitioning: Jackson et al., "An algorithm for optimal partitioning of data on an
//! interval", 2005; medians, so that one odd recording moves no level). The price comes from the
//! data: from the smallest change that counts, and from the usual distance between neighbours.

use crate::median;

/// A change from one level to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Position of the first value on the new level.
    pub at: usize,
    /// The level before: the median of its values.
    pub before: u64,
    /// The level since.
    pub after: u64,
    /// Values on the new level.
    pub values: usize,
}

/// The largest number of values that are looked at: the work grows with their cube.
pub const MOST: usize = 400;

/// A level has at least this many values, unless it is the newest: one odd value is no level.
const LASTS: usize = 2;

/// A further level must save this many times the usual distance between neighbours.
const NOISE: f64 = 3.0;

/// The changes of a series, oldest first; none is smaller than `least`. If there are more than
/// [`MOST`] values, only the newest are looked at.
pub fn changes(values: &[u64], least: u64) -> Vec<Change> {
    let skipped = values.len().saturating_sub(MOST);
    let values = &values[skipped..];
    let starts = levels(values, price(values, least));
    let ends = starts.iter().skip(1).copied().chain([values.len()]);
    let stretches = starts.iter().copied().zip(ends);
    // A stretch whose level is too near to the level before is joined with it.
    let mut kept: Vec<(usize, usize)> = Vec::new();
    for (from, to) in stretches {
        match kept.last_mut() {
            Some((start, end)) if near(&values[*start..*end], &values[from..to], least) => {
                *end = to;
            }
            _ => kept.push((from, to)),
        }
    }
    let pairs = kept.windows(2).map(|pair| {
        let [(a, b), (from, to)] = [pair[0], pair[1]];
        Change {
            at: from + skipped,
            before: level(&values[a..b]),
            after: level(&values[from..to]),
            values: to - from,
        }
    });
    pairs.collect()
}

/// The level of a stretch: the lower median of its values.
fn level(values: &[u64]) -> u64 {
    median::lower(values.iter().copied()).unwrap_or(0)
}

fn near(before: &[u64], after: &[u64], least: u64) -> bool {
    level(before).abs_diff(level(after)) < least
}

/// The price of a further level.
fn price(values: &[u64], least: u64) -> f64 {
    let steps = values.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
    let usual = median::lower(steps).unwrap_or(0) as f64;
    least as f64 + NOISE * usual * (1.0 + (values.len().max(1) as f64).ln())
}

/// Where levels begin, the first at 0.
fn levels(values: &[u64], price: f64) -> Vec<usize> {
    let n = values.len();
    // For the first `end` values: the lowest cost, and where the last level then begins.
    let mut best = vec![(0.0, 0); n + 1];
    for end in 1..=n {
        let least_long = if end == n { 1 } else { LASTS };
        let mut sorted: Vec<u64> = Vec::new();
        let mut found = (f64::INFINITY, 0);
        for start in (0..end).rev() {
            let value = values[start];
            sorted.insert(sorted.partition_point(|&other| other < value), value);
            if end - start < least_long {
                continue;
            }
            let middle = sorted[(sorted.len() - 1) / 2];
            let apart: f64 = sorted.iter().map(|&v| v.abs_diff(middle) as f64).sum();
            let further = if start == 0 { 0.0 } else { price };
            let cost = best[start].0 + apart + further;
            // Among equal costs, the longest level.
            if cost <= found.0 {
                found = (cost, start);
            }
        }
        best[end] = found;
    }
    let mut starts = Vec::new();
    let mut end = n;
    while end > 0 {
        end = best[end].1;
        starts.push(end);
    }
    starts.reverse();
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(values: &[u64], least: u64, expected: &[(usize, u64, u64, usize)]) {
        let found = changes(values, least);
        let found: Vec<_> = found
            .iter()
            .map(|c| (c.at, c.before, c.after, c.values))
            .collect();
        assert_eq!(found, expected, "{values:?}");
    }

    #[test]
    fn a_level_that_changes_is_found_where_it_does() {
        check(&[], 10, &[]);
        check(&[5], 10, &[]);
        check(&[100, 100, 100, 100], 10, &[]);
        check(&[100, 100, 100, 200, 200], 10, &[(3, 100, 200, 2)]);
        check(&[100, 100, 100, 100, 200], 10, &[(4, 100, 200, 1)]);
        check(&[100, 100, 200], 10, &[(2, 100, 200, 1)]);
        check(&[200, 200, 100, 100, 100], 10, &[(2, 200, 100, 3)]);
        check(
            &[100, 100, 160, 160, 160, 90, 90],
            10,
            &[(2, 100, 160, 3), (5, 160, 90, 2)],
        );
    }

    #[test]
    fn what_is_too_little_or_only_odd_is_no_change() {
        check(&[100, 100, 105, 105, 105], 10, &[]);
        // Two values do not show how far apart neighbours usually are.
        check(&[100, 200], 10, &[]);
        check(&[100, 100, 900, 100, 100], 10, &[]);
        // The first value, too, may be the odd one.
        check(&[1000, 200, 200, 200, 200], 10, &[]);
        check(&[1000, 200, 200, 200, 300, 300], 10, &[(4, 200, 300, 2)]);
        // A slow drift of small steps counts as a change once it adds up. It is reported halfway.
        let drift: Vec<u64> = (0..20).map(|n| 1000 + n).collect();
        check(&drift, 30, &[]);
        // Noise of ten around a level, and a step of two hundred.
        let noisy = |level: u64| (0..12_u64).map(move |n| level + n * 7 % 10);
        let steady: Vec<u64> = noisy(1000).collect();
        check(&steady, 5, &[]);
        let steps: Vec<u64> = noisy(1000).chain(noisy(1200)).collect();
        assert_eq!(changes(&steps, 5).len(), 1);
        assert_eq!(changes(&steps, 5)[0].at, 12);
    }

    #[test]
    fn only_the_newest_of_many_are_looked_at() {
        let mut values = vec![1_u64; 10];
        values.extend(vec![100; MOST - 1]);
        values.push(900);
        check(&values, 10, &[(MOST + 9, 100, 900, 1)]);
    }

    proptest! {
        /// Steps that stand out are found in the right places, and nothing else is found.
        #[test]
        fn steps_are_found_where_they_are(
            lengths in prop::collection::vec(2_usize..12, 1..6),
            noise in 0_u64..20,
            seed in any::<u64>(),
        ) {
            let mut values = Vec::new();
            let mut expected = Vec::new();
            for (n, length) in lengths.iter().enumerate() {
                if n > 0 {
                    expected.push(values.len());
                }
                // Up and down, by much more than the noise.
                let level = 100_000 + 50_000 * (n as u64 % 2) + 7_000 * n as u64;
                let jitter = |k: usize| (seed.rotate_left(k as u32 % 64) % (noise + 1)) / 2;
                values.extend((0..*length).map(|k| level + jitter(k)));
            }
            let found: Vec<usize> = changes(&values, 1000).iter().map(|c| c.at).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
