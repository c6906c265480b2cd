//! What became of the blocks that a place made in earlier passes. That tells what the blocks are
//! that are still there when the recording ends.

use super::Category;
use crate::footprint::of_map;
use crate::stacks::FxHashMap;
use crate::units::Bytes;

/// A place in the model and a size.
pub(super) type Place = (u64, Bytes);

/// Counts the blocks of a place within a pass: of the two blocks of a repeated `x = f(x)`, one
/// stays and one goes.
pub(super) type Nth = u32;

/// What became of blocks, by place; the latest pass replaces earlier ones.
#[derive(Default)]
pub(super) struct History {
    fates: FxHashMap<(Place, Nth), Fate>,
    any: FxHashMap<Place, Fate>,
    /// Per place, the pass of the first block that stays, and whether another pass left one too.
    stays: FxHashMap<Place, (u32, bool)>,
}

#[derive(Clone, Copy)]
struct Fate {
    category: Category,
    pass: u32,
}

impl History {
    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_map(&self.fates) + of_map(&self.any) + of_map(&self.stays)
    }

    pub fn note(&mut self, place: Place, nth: Nth, category: Category, pass: u32) {
        let fate = Fate { category, pass };
        self.fates.insert((place, nth), fate);
        // If one block of a place is kept, that counts more than others that are given back.
        let any = self.any.entry(place).or_insert(fate);
        if any.category == Category::Temporary && category != Category::Temporary {
            *any = fate;
        }
    }

    /// Notes a block that is still there at the end.
    pub fn stays(&mut self, place: Place, pass: u32) {
        let (first, again) = self.stays.entry(place).or_insert((pass, false));
        *again |= *first != pass;
    }

    /// Whether more than one pass left a block of the place: the program collects them.
    pub fn is_collected(&self, place: Place) -> bool {
        self.stays.get(&place).is_some_and(|&(_, again)| again)
    }

    /// What became of the same block in an earlier pass; if that is unknown, of any block of its
    /// place.
    pub fn recall(&self, place: Place, nth: Nth, pass: u32) -> Option<Category> {
        let earlier = |fate: &&Fate| fate.pass < pass;
        let same = self.fates.get(&(place, nth)).filter(earlier);
        let fate = same.or_else(|| self.any.get(&place).filter(earlier));
        fate.map(|fate| fate.category)
    }
}
