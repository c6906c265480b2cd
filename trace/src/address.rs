//! Addresses of events, in four bytes each.
//!
//! Blocks begin at multiples of 512 bytes, and those of one process lie within a few hundred
//! gigabytes. So from row to row only 32 bits of an address change. The other 32 are kept once for
//! all rows that share them. A file of other addresses takes twelve bytes a row.

use crate::footprint::of_vec;
use std::ops::Range;

/// The lowest bit that is kept for each row.
const LOW: u32 = 9;
/// The lowest bit above those that are kept for each row.
const HIGH: u32 = LOW + 32;

/// A column of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressColumn {
    /// The middle bits of each row.
    middle: Vec<u32>,
    /// The other bits, and the first row that has them. Before the first entry they are 0.
    others: Vec<(u32, u32)>,
    /// The other bits of the last row.
    last: u32,
}

impl AddressColumn {
    /// Appends a row.
    #[inline]
    pub fn push(&mut self, addr: u64) {
        let others = others_of(addr);
        if others != self.last {
            self.others.push((self.middle.len() as u32, others));
            self.last = others;
        }
        self.middle.push((addr >> LOW) as u32);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.middle.len()
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.middle.is_empty()
    }

    /// The address of a row.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn get(&self, row: usize) -> u64 {
        joined(self.middle[row], self.others_at(row).1)
    }

    /// All addresses in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.rows(0..self.middle.len())
    }

    /// A range of rows in order.
    ///
    /// # Panics
    /// When the range ends after the last row.
    pub fn rows(&self, rows: Range<usize>) -> impl Iterator<Item = u64> + '_ {
        let (mut next, mut others) = self.others_at(rows.start);
        let middle = self.middle[rows.clone()].iter();
        middle.zip(rows).map(move |(&middle, row)| {
            if let Some(&(at, new)) = self.others.get(next)
                && at as usize == row
            {
                (next, others) = (next + 1, new);
            }
            joined(middle, others)
        })
    }

    /// The first entry of `others` that begins after a row, and the other bits of that row.
    fn others_at(&self, row: usize) -> (usize, u32) {
        let next = self.others.partition_point(|&(at, _)| at as usize <= row);
        let others = next.checked_sub(1).map_or(0, |last| self.others[last].1);
        (next, others)
    }

    /// Gives back memory for rows that never came.
    pub fn shrink(&mut self) {
        self.middle.shrink_to_fit();
        self.others.shrink_to_fit();
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.middle) + of_vec(&self.others)
    }
}

/// The bits that are not kept for each row: the lowest nine, and those from the 42nd on.
fn others_of(addr: u64) -> u32 {
    (addr >> HIGH << LOW) as u32 | (addr as u32 & ((1 << LOW) - 1))
}

fn joined(middle: u32, others: u32) -> u64 {
    let (others, low) = (u64::from(others), u64::from(others) & ((1 << LOW) - 1));
    others >> LOW << HIGH | u64::from(middle) << LOW | low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_back_what_was_pushed(
            addresses in prop::collection::vec(
                prop_oneof![
                    (0..4_u64).prop_map(|n| 0x7f12_3400_0000 + n * 512),
                    Just(0),
                    Just(u64::MAX),
                    any::<u64>(),
                    (0..64_u32).prop_map(|bit| 1 << bit),
                ],
                0..300,
            ),
            from in 0..300_usize,
        ) {
            let mut column = AddressColumn::default();
            addresses.iter().for_each(|&addr| column.push(addr));
            prop_assert_eq!(column.iter().collect::<Vec<_>>(), addresses.clone());
            let from = from.min(addresses.len());
            let rest = column.rows(from..addresses.len());
            prop_assert_eq!(rest.collect::<Vec<_>>(), &addresses[from..]);
            for (row, &addr) in addresses.iter().enumerate() {
                prop_assert_eq!(column.get(row), addr);
            }
        }
    }
}
