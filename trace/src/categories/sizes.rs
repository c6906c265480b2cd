//! How many blocks of each size there are: a parameter, its gradient and its optimizer state are
//! equally large.

use crate::footprint::of_map;
use crate::stacks::FxHashMap;
use crate::units::Bytes;

/// Counts of blocks by requested bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    counts: FxHashMap<Bytes, u32>,
}

impl Sizes {
    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_map(&self.counts)
    }

    pub fn add(&mut self, requested: Bytes) {
        *self.counts.entry(requested).or_default() += 1;
    }

    pub fn count(&self, requested: Bytes) -> u32 {
        self.counts.get(&requested).copied().unwrap_or(0)
    }

    pub fn has(&self, requested: Bytes) -> bool {
        self.counts.contains_key(&requested)
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Takes the larger count for each size.
    pub fn at_least(&mut self, other: &Sizes) {
        for (size, count) in &other.counts {
            self.at_least_of(*size, *count);
        }
    }

    /// Takes the larger count for one size.
    pub fn at_least_of(&mut self, size: Bytes, count: u32) {
        let known = self.counts.entry(size).or_default();
        *known = (*known).max(count);
    }

    /// What is left if each block of the others takes one of the same size.
    pub fn without(&self, others: &Sizes) -> Sizes {
        let mut left = self.clone();
        for (size, count) in &mut left.counts {
            *count = count.saturating_sub(others.count(*size));
        }
        left
    }

    /// Bytes of all of them. A hostile file may hold sizes whose sum has more than 64 bits.
    pub fn bytes(&self) -> u128 {
        let all = self.counts.iter();
        all.map(|(size, n)| of_alike(*size, *n)).sum()
    }

    /// Bytes of the blocks here that also exist in `others`; each size is compared with `factor`
    /// times that size.
    pub fn bytes_in(&self, others: &Sizes, factor: u64) -> u128 {
        let shared = |(size, n): (&Bytes, &u32)| {
            let there = others.count(Bytes(size.0.saturating_mul(factor)));
            of_alike(*size, (*n).min(there))
        };
        self.counts.iter().map(shared).sum()
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> u64 {
        self.counts.values().map(|&n| u64::from(n)).sum()
    }

    /// How many blocks here also exist in `others`, as in [`Sizes::bytes_in`].
    pub fn blocks_in(&self, others: &Sizes, factor: u64) -> u64 {
        let shared = |(size, n): (&Bytes, &u32)| {
            let there = others.count(Bytes(size.0.saturating_mul(factor)));
            u64::from((*n).min(there))
        };
        self.counts.iter().map(shared).sum()
    }

    /// Takes one away, if there is one.
    pub fn take(&mut self, requested: Bytes) -> bool {
        match self.counts.get_mut(&requested) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }

    /// Forgets the sizes that the others do not hold, unless they hold none at all.
    pub fn retain_in(&mut self, others: &Sizes) {
        if !others.is_empty() {
            self.counts.retain(|size, _| others.has(*size));
        }
    }

    /// Whether `others` has exactly as many blocks of each size, for nine tenths of the bytes.
    pub fn equal_in(&self, others: &Sizes) -> bool {
        self.times_in(others, 1)
    }

    /// The same, so many times as many.
    pub fn times_in(&self, others: &Sizes, times: u32) -> bool {
        let equal = |(size, n): (&Bytes, &u32)| match others.count(*size) == n.saturating_mul(times)
        {
            true => of_alike(*size, *n),
            false => 0,
        };
        self.counts.iter().map(equal).sum::<u128>() * 10 >= self.bytes() * 9
    }
}

/// Bytes of so many blocks of one size.
fn of_alike(size: Bytes, count: u32) -> u128 {
    u128::from(size.0) * u128::from(count)
}
