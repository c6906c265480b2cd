//! What of stretches that are painted one after the other can be seen.

use std::ops::Range;

/// What of each stretch no later one of the same lane covers, from left to right. So all stretches
/// together have no more parts than their lanes have pixels.
pub fn uncovered(stretches: &[(u16, Range<i32>)]) -> Vec<Vec<Range<i32>>> {
    let lanes = stretches.iter().map(|(lane, _)| usize::from(*lane) + 1);
    let mut lanes = vec![Covered::default(); lanes.max().unwrap_or(0)];
    let mut seen = vec![Vec::new(); stretches.len()];
    for (seen, (lane, stretch)) in seen.iter_mut().zip(stretches).rev() {
        *seen = lanes[usize::from(*lane)].add(stretch.clone());
    }
    seen
}

/// Pixels of a lane that are covered: unbroken stretches, from left to right. A sorted list,
/// because there are never more than a lane has pixels, and the front end has no room for a tree.
#[derive(Clone, Default)]
struct Covered(Vec<Range<i32>>);

impl Covered {
    /// Covers a stretch; the parts of it that were free.
    fn add(&mut self, stretch: Range<i32>) -> Vec<Range<i32>> {
        let first = self
            .0
            .partition_point(|covered| covered.end < stretch.start);
        let last = self
            .0
            .partition_point(|covered| covered.start <= stretch.end);
        let mut whole = stretch.clone();
        let mut free = Vec::new();
        let mut at = stretch.start;
        for covered in &self.0[first..last] {
            if at < covered.start {
                free.push(at..covered.start);
            }
            at = at.max(covered.end);
            whole = whole.start.min(covered.start)..whole.end.max(covered.end);
        }
        if at < stretch.end {
            free.push(at..stretch.end);
        }
        if !whole.is_empty() {
            self.0.splice(first..last, [whole]);
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
