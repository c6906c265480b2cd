//! Which of several free blocks of equal size comes first: what they are listed under, and the ages
//! of segments and blocks. [`Ties`] says what counts.

use super::{Arena, MIN_BLOCK, MOST_SHELVED, Slot, Ties};

impl Arena {
    /// Lists a block that became free.
    pub(super) fn list(&mut self, slot: Slot) {
        let searches = self.searches;
        self.block_mut(slot).listed_at = searches;
        let (size, rank) = self.key(slot);
        let pool = self.block(slot).pool;
        let free = &mut self.pools[usize::from(pool)].free;
        free.insert(size, rank, slot);
        if free.is_busy() && self.shelved < MOST_SHELVED {
            self.shelved += 1;
            free.put_on_shelves();
        }
    }

    /// What a free block is listed under: its size, and its rank among those of equal size. No two
    /// blocks of a pool have the same (`free_list`): addresses differ, blocks have ages of their
    /// own, and in one segment the address decides.
    pub(super) fn key(&self, slot: Slot) -> (u64, u64) {
        /// Address bits above the granule of 512 B.
        const GRANULES: u32 = 40;
        let block = self.block(slot);
        let age = u64::from(block.age);
        let rank = match self.config.ties {
            Ties::Address => block.addr,
            Ties::BlockAge => age,
            Ties::SegmentAge => age << GRANULES | (block.addr / MIN_BLOCK) & ((1 << GRANULES) - 1),
        };
        (block.size, rank)
    }

    /// The age of what is made now.
    pub(super) fn next_age(&mut self) -> u32 {
        self.numbered = self.numbered.saturating_add(1);
        self.numbered
    }

    /// Lists a free block of the same pool in the place of another entry.
    pub(super) fn relist(&mut self, listed: (u64, u64), slot: Slot) {
        let searches = self.searches;
        self.block_mut(slot).listed_at = searches;
        let key = self.key(slot);
        let pool = self.block(slot).pool;
        self.pools[usize::from(pool)]
            .free
            .replace(listed, key, slot);
    }

    /// Takes a block off its list.
    pub(super) fn unlist(&mut self, slot: Slot) {
        let (size, rank) = self.key(slot);
        let pool = self.block(slot).pool;
        self.pools[usize::from(pool)].free.remove(size, rank);
    }

    /// The age of pages that are mapped in a pool: all of them are one segment.
    pub(super) fn age_of_pages(&mut self, pool: u16) -> u32 {
        let age = self.next_age();
        let segment = &mut self.pools[usize::from(pool)].expandable;
        match self.config.ties {
            Ties::SegmentAge => *segment.get_or_insert(age),
            Ties::Address | Ties::BlockAge => age,
        }
    }

    /// That no two free blocks of a pool are listed under the same key, and none that is in use.
    #[cfg(test)]
    pub(crate) fn check_lists(&self) {
        for pool in &self.pools {
            let listed: Vec<Slot> = pool.free.fits(0).collect();
            assert!(listed.is_sorted_by_key(|&slot| self.key(slot)));
            let keys = listed
                .windows(2)
                .map(|pair| [self.key(pair[0]), self.key(pair[1])]);
            keys.for_each(|[one, other]| assert_ne!(one, other));
            assert!(
                listed
                    .iter()
                    .all(|&slot| self.block(slot).state == super::State::Free)
            );
        }
    }
}
