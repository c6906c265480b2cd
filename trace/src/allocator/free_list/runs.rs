//! Free blocks of any size.
//!
//! Short sorted runs are faster here than a B-tree: two binary searches find an entry, and one
//! short copy moves it.

use super::{Key, Slot};
use std::cell::Cell;

/// Longest run. So a copy moves two kilobytes at most, and a thousand entries are about twenty
/// runs.
const LONGEST: usize = 96;
/// A run shorter than this joins its neighbour where both fit into half a run.
const SHORTEST: usize = 12;

/// Whether one key comes before another. As one number each, they are compared without a branch.
fn before((size, rank): Key, (other_size, other_rank): Key) -> bool {
    let wide = |size: u64, rank: u64| u128::from(size) << 64 | u128::from(rank);
    wide(size, rank) < wide(other_size, other_rank)
}

/// Sorted entries, and the greatest key of each run.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// None of them is empty.
    runs: Vec<Vec<(Key, Slot)>>,
    greatest: Vec<Key>,
    /// Run and position of the last best fit, which is usually the next entry to be removed.
    fitted: Cell<(usize, usize)>,
}

impl Runs {
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds an entry; it must not be listed yet.
    pub fn insert(&mut self, key: Key, slot: Slot) {
        if self.runs.is_empty() {
            self.runs.push(vec![(key, slot)]);
            self.greatest.push(key);
            return;
        }
        let at = self.run_of(key).min(self.runs.len() - 1);
        let run = &mut self.runs[at];
        let place = run.partition_point(|(other, _)| before(*other, key));
        run.insert(place, (key, slot));
        self.greatest[at] = self.greatest[at].max(key);
        if run.len() > LONGEST {
            let upper = run.split_off(LONGEST / 2);
            self.greatest[at] = run[run.len() - 1].0;
            self.greatest.insert(at + 1, upper[upper.len() - 1].0);
            self.runs.insert(at + 1, upper);
        }
    }

    /// Takes a free block out, if it is listed.
    pub fn remove(&mut self, key: Key) {
        let Some((at, place)) = self.find(key) else {
            return;
        };
        let run = &mut self.runs[at];
        run.remove(place);
        match run.last() {
            Some((last, _)) => self.greatest[at] = *last,
            None => self.drop_run(at),
        }
        if self.runs.get(at).is_some_and(|run| run.len() < SHORTEST) {
            self.join_next(at);
        }
    }

    /// Gives an entry another key and another block: what is left of it, or what it became part of.
    /// Mostly it stays in its run, and only what lies between the two places moves.
    pub fn replace(&mut self, old: Key, new: Key, slot: Slot) {
        let Some((at, place)) = self.find(old) else {
            return self.insert(new, slot);
        };
        let after_lower = at == 0 || before(self.greatest[at - 1], new);
        let upper = self.runs.get(at + 1);
        let before_upper = upper.is_none_or(|upper| before(new, upper[0].0));
        if !(after_lower && before_upper) {
            self.remove(old);
            return self.insert(new, slot);
        }
        let run = &mut self.runs[at];
        let target = if before(new, old) {
            let target = run[..place].partition_point(|(other, _)| before(*other, new));
            run.copy_within(target..place, target + 1);
            target
        } else {
            let later = &run[place + 1..];
            let target = place + later.partition_point(|(other, _)| before(*other, new));
            run.copy_within(place + 1..=target, place);
            target
        };
        run[target] = (new, slot);
        self.greatest[at] = run[run.len() - 1].0;
    }

    /// The smallest block of at least `size` bytes, the lowest rank on ties: key and slot.
    pub fn best_fit(&self, size: u64) -> Option<(Key, Slot)> {
        let key = (size, 0);
        let at = self.run_of(key);
        let run = self.runs.get(at)?;
        let place = run.partition_point(|(other, _)| before(*other, key));
        self.fitted.set((at, place));
        run.get(place).copied()
    }

    /// The blocks of at least `size` bytes, in the order in which best fit looks at them.
    pub fn from(&self, size: u64) -> impl Iterator<Item = (Key, Slot)> + '_ {
        let key = (size, 0);
        let at = self.run_of(key);
        let first = self.runs.get(at);
        let place = first.map_or(0, |run| run.partition_point(|(other, _)| *other < key));
        let rest = self.runs[at.min(self.runs.len())..].iter().flatten();
        rest.skip(place).copied()
    }

    /// Run and place of an entry.
    fn find(&self, key: Key) -> Option<(usize, usize)> {
        let (at, place) = self.fitted.get();
        let fitted = self.runs.get(at).and_then(|run| run.get(place));
        if fitted.is_some_and(|(other, _)| *other == key) {
            return Some((at, place));
        }
        let at = self.run_of(key);
        let run = self.runs.get(at)?;
        let place = run.binary_search_by_key(&key, |(other, _)| *other).ok()?;
        Some((at, place))
    }

    /// The first run whose greatest key is not below `key`.
    fn run_of(&self, key: Key) -> usize {
        self.greatest
            .partition_point(|greatest| before(*greatest, key))
    }

    fn drop_run(&mut self, at: usize) {
        self.runs.remove(at);
        self.greatest.remove(at);
    }

    fn join_next(&mut self, at: usize) {
        let Some(next) = self.runs.get(at + 1) else {
            return;
        };
        if self.runs[at].len() + next.len() > LONGEST / 2 {
            return;
        }
        let next = self.runs.remove(at + 1);
        self.runs[at].extend(next);
        self.greatest.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few sizes and addresses, so that equal entries, splits and joins of runs all happen.
        #[test]
        fn it_is_a_sorted_map(
            steps in prop::collection::vec((0..4_u8, 0..40_u64, 0..40_u64), 1..3000)
        ) {
            let mut list = Runs::default();
            let mut model: BTreeMap<Key, Slot> = BTreeMap::new();
            for (number, (what, size, addr)) in steps.into_iter().enumerate() {
                let slot = Slot(number as u32);
                // Twice as many entries are added as removed, so that the list grows over many
                // runs.
                if what == 3 {
                    let some = model.range((addr, 0)..).next().map(|(key, _)| *key);
                    if let Some(old) = some.filter(|_| !model.contains_key(&(size, addr))) {
                        model.remove(&old);
                        model.insert((size, addr), slot);
                        list.replace(old, (size, addr), slot);
                    }
                } else if what < 2 {
                    if model.insert((size, addr), slot).is_some() {
                        list.remove((size, addr));
                    }
                    list.insert((size, addr), slot);
                } else {
                    model.remove(&(size, addr));
                    list.remove((size, addr));
                }
                let all: Vec<(Key, Slot)> = list.from(size).collect();
                let expected = model.range((size, 0)..).map(|(key, slot)| (*key, *slot));
                let expected: Vec<(Key, Slot)> = expected.collect();
                prop_assert_eq!(list.best_fit(size), expected.first().copied());
                prop_assert_eq!(all, expected);
                prop_assert!(list.runs.iter().all(|run| !run.is_empty()));
            }
            let listed: Vec<(Key, Slot)> = list.runs.into_iter().flatten().collect();
            let expected: Vec<(Key, Slot)> = model.into_iter().collect();
            prop_assert_eq!(listed, expected);
        }

        /// Everything is removed again: runs join and disappear until the list is empty.
        #[test]
        fn it_shrinks_to_nothing(sizes in prop::collection::vec(0..1000_u64, 1..600)) {
            let mut list = Runs::default();
            for (addr, &size) in sizes.iter().enumerate() {
                list.insert((size, addr as u64), Slot(addr as u32));
            }
            for (addr, &size) in sizes.iter().enumerate() {
                list.remove((size, addr as u64));
            }
            prop_assert!(list.runs.is_empty() && list.greatest.is_empty());
            prop_assert_eq!(list.best_fit(0), None);
        }
    }
}
