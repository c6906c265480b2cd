//! Free blocks of one pool, in the order in which best fit looks at them: by size, then by a rank
//! among those of equal size (`Arena::key`).
//!
//! An entry is found by its key alone. So no two blocks of a pool may have the same size and the
//! same rank: one would be removed in place of the other, and be handed out again and again.
//!
//! Every allocation takes an entry out and most put one back. A pool holds tens to thousands of
//! entries, of any size: these are in `runs`. In a busy pool most entries have one of a few small
//! sizes: these are in `shelves`, one short shelf for each size, and a bit that says whether
//! something lies on it.

mod runs;
mod shelves;

use super::Slot;
use runs::Runs;
use shelves::Shelves;

/// Size of a free block, and its rank among those of equal size: no other block has both.
type Key = (u64, u64);

/// Entries that are added to a pool before it counts as busy.
const BUSY: u32 = 4096;

/// Sorted entries. Each is either on a shelf or in the runs.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeList {
    runs: Runs,
    shelves: Option<Box<Shelves>>,
    /// How many entries were added, up to [`BUSY`].
    added: u32,
}

impl FreeList {
    /// Bytes of the shelves of a busy pool.
    pub const BYTES_OF_SHELVES: usize = shelves::HEAP_BYTES;

    /// Adds a free block; it must not be listed yet.
    pub fn insert(&mut self, size: u64, rank: u64, slot: Slot) {
        self.added = BUSY.min(self.added + 1);
        if let Some(shelves) = &mut self.shelves
            && shelves.takes(size)
        {
            return shelves.insert((size, rank), slot, &mut self.runs);
        }
        self.runs.insert((size, rank), slot);
    }

    /// Takes a free block out, if it is listed.
    pub fn remove(&mut self, size: u64, rank: u64) {
        match &mut self.shelves {
            Some(shelves) if shelves.takes(size) => shelves.remove((size, rank)),
            _ => self.runs.remove((size, rank)),
        }
    }

    /// Gives an entry another key and another block: what is left of it, or what it became part of.
    pub fn replace(&mut self, old: Key, new: Key, slot: Slot) {
        let of_runs = |key: Key| {
            self.shelves
                .as_ref()
                .is_none_or(|shelves| !shelves.takes(key.0))
        };
        if of_runs(old) && of_runs(new) {
            return self.runs.replace(old, new, slot);
        }
        self.remove(old.0, old.1);
        self.insert(new.0, new.1, slot);
    }

    /// The smallest block of at least `size` bytes, the lowest rank on ties: size and slot.
    pub fn best_fit(&self, size: u64) -> Option<(u64, Slot)> {
        let shelved = self
            .shelves
            .as_ref()
            .and_then(|shelves| shelves.first(size));
        let found = match (shelved, self.runs.is_empty()) {
            (Some(_), true) => shelved,
            (None, _) => self.runs.best_fit(size),
            (Some(one), false) => match self.runs.best_fit(size) {
                Some(other) if other.0 < one.0 => Some(other),
                _ => Some(one),
            },
        };
        found.map(|((size, _), slot)| (size, slot))
    }

    /// The blocks of at least `size` bytes, in the order in which best fit looks at them.
    pub fn fits(&self, size: u64) -> impl Iterator<Item = Slot> + '_ {
        let shelved = self
            .shelves
            .iter()
            .flat_map(move |shelves| shelves.from(size));
        merged(shelved, self.runs.from(size)).map(|(_, slot)| slot)
    }

    /// Whether shelves would make it faster.
    pub fn is_busy(&self) -> bool {
        self.added == BUSY && self.shelves.is_none()
    }

    /// Puts small sizes on shelves from now on.
    pub fn put_on_shelves(&mut self) {
        let entries = std::mem::take(&mut self.runs);
        self.shelves = Some(Box::default());
        for ((size, rank), slot) in entries.from(0) {
            self.insert(size, rank, slot);
        }
    }
}

/// Two sorted sequences as one.
fn merged(
    one: impl Iterator<Item = (Key, Slot)>,
    other: impl Iterator<Item = (Key, Slot)>,
) -> impl Iterator<Item = (Key, Slot)> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some((key, _)), Some((later, _))) if later < key => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn sizes() -> impl Strategy<Value = u64> {
        prop_oneof![
            // Few sizes, so that a shelf gets too many blocks.
            8 => (1..4_u64).prop_map(|n| n * 512),
            2 => (1..5000_u64).prop_map(|n| n * 512),
            // Sizes that have no shelf.
            1 => 1..4000_u64,
            1 => (1..9_u64).prop_map(|n| n << 20),
        ]
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_map(
            steps in prop::collection::vec((0..4_u8, sizes(), 0..200_u64), 1..1500),
            on_shelves_at in 0..1500_usize,
        ) {
            let mut list = FreeList::default();
            let mut model: BTreeMap<Key, Slot> = BTreeMap::new();
            for (number, (what, size, addr)) in steps.into_iter().enumerate() {
                if number == on_shelves_at {
                    list.put_on_shelves();
                }
                let slot = Slot(number as u32);
                let listed = model.range((size, addr)..).next().map(|(key, _)| *key);
                match (what, listed) {
                    (0, Some(old)) => {
                        model.remove(&old);
                        list.remove(old.0, old.1);
                    }
                    (1, Some(old)) if !model.contains_key(&(size, addr)) => {
                        model.remove(&old);
                        model.insert((size, addr), slot);
                        list.replace(old, (size, addr), slot);
                    }
                    _ => {
                        if model.insert((size, addr), slot).is_some() {
                            list.remove(size, addr);
                        }
                        list.insert(size, addr, slot);
                    }
                }
                let from = size - size % 700;
                let expected = model.range((from, 0)..).map(|(key, slot)| (key.0, *slot));
                let expected: Vec<(u64, Slot)> = expected.collect();
                prop_assert_eq!(list.best_fit(from), expected.first().copied());
                let all: Vec<Slot> = list.fits(from).collect();
                let expected: Vec<Slot> = expected.into_iter().map(|(_, slot)| slot).collect();
                prop_assert_eq!(all, expected);
            }
        }
    }

    #[test]
    fn a_shelf_with_too_many_blocks_is_closed() {
        let mut list = FreeList::default();
        list.put_on_shelves();
        let n = shelves::MOST as u64 + 10;
        (0..n).for_each(|addr| list.insert(512, addr, Slot(addr as u32)));
        let shelves = list.shelves.as_ref().expect("it has shelves");
        assert!(!shelves.takes(512) && shelves.takes(1024));
        assert_eq!(shelves.first(0), None);
        let all: Vec<u32> = list.fits(0).map(|slot| slot.0).collect();
        assert_eq!(all, (0..n as u32).collect::<Vec<_>>());
    }

    #[test]
    fn it_is_busy_once() {
        let mut list = FreeList::default();
        for addr in 0..u64::from(BUSY) {
            assert!(!list.is_busy());
            list.insert(512, addr, Slot(0));
            list.remove(512, addr);
        }
        assert!(list.is_busy());
        list.put_on_shelves();
        assert!(!list.is_busy());
    }
}
