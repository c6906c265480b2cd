//! What of stretches that are painted one after the other can be seen.

use std::collections::BTreeMap;
use std::ops::Range;

/// What of each stretch no later one of the same lane covers, from left to right. So all stretches
/// together have no more parts than their lanes have pixels.
pub fn uncovered(stretches: &[(u16, Range<i32>)]) -> Vec<Vec<Range<i32>>> {
    let mut lanes: BTreeMap<u16, Covered> = BTreeMap::new();
    let seen = stretches.iter().rev().map(|(lane, stretch)| {
        let covered = lanes.entry(*lane).or_default();
        covered.add(stretch.clone())
    });
    let mut seen: Vec<Vec<Range<i32>>> = seen.collect();
    seen.reverse();
    seen
}

/// Pixels of a lane that are covered: where each unbroken stretch begins, and where it ends.
#[derive(Default)]
struct Covered(BTreeMap<i32, i32>);

impl Covered {
    /// Covers a stretch; the parts of it that were free.
    fn add(&mut self, stretch: Range<i32>) -> Vec<Range<i32>> {
        let Range { mut start, mut end } = stretch;
        let touched = self.0.range(..=end).rev();
        let touched = touched.take_while(|(_, covered)| **covered >= start);
        let mut touched: Vec<(i32, i32)> = touched.map(|(x0, x1)| (*x0, *x1)).collect();
        touched.reverse();
        let mut free = Vec::new();
        let mut at = start;
        for &(x0, x1) in &touched {
            if at < x0.min(end) {
                free.push(at..x0.min(end));
            }
            at = at.max(x1);
        }
        if at < end {
            free.push(at..end);
        }
        for (x0, x1) in touched {
            self.0.remove(&x0);
            (start, end) = (start.min(x0), end.max(x1));
        }
        if start < end {
            self.0.insert(start, end);
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_lies_in_front_hides() {
        let check = |stretches: &[(u16, Range<i32>)], expected: &[&[(i32, i32)]]| {
            let seen = uncovered(stretches);
            let ends = |parts: &Vec<Range<i32>>| -> Vec<(i32, i32)> {
                parts.iter().map(|part| (part.start, part.end)).collect()
            };
            let seen: Vec<_> = seen.iter().map(ends).collect();
            assert_eq!(seen, expected, "{stretches:?}");
        };
        check(&[(0, 0..5), (0, 5..9)], &[&[(0, 5)], &[(5, 9)]]);
        check(&[(0, 0..9), (0, 3..5)], &[&[(0, 3), (5, 9)], &[(3, 5)]]);
        check(&[(0, 3..5), (0, 0..9)], &[&[], &[(0, 9)]]);
        check(&[(0, 3..5), (1, 0..9)], &[&[(3, 5)], &[(0, 9)]]);
    }

    proptest! {
        #[test]
        fn every_pixel_belongs_to_the_last_one_there(
            stretches in prop::collection::vec((0..2_u16, 0..40_i32, 0..20_i32), 0..30)
        ) {
            let stretches: Vec<_> = stretches
                .into_iter()
                .map(|(lane, x0, width)| (lane, x0..x0 + width))
                .collect();
            let seen = uncovered(&stretches);
            for lane in 0..2 {
                for x in 0..60 {
                    let is_there = |(of, range): &(u16, Range<i32>)| {
                        *of == lane && range.contains(&x)
                    };
                    let last = stretches.iter().rposition(is_there);
                    let said: Vec<usize> = (0..stretches.len())
                        .filter(|at| stretches[*at].0 == lane)
                        .filter(|at| seen[*at].iter().any(|part| part.contains(&x)))
                        .collect();
                    prop_assert_eq!(said, last.into_iter().collect::<Vec<_>>());
                }
            }
        }
    }
}
