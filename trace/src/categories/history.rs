//! What became of the blocks that a place made before: the fate of those that are still there when
//! the recording ends.

use super::Category;
use crate::footprint::of_map;
use crate::stacks::FxHashMap;
use crate::units::Bytes;

/// A place in the model and a size.
pub(super) type Place = (u64, Bytes);

/// Which of a pass's blocks of a place: `x = f(x)` twice makes one that stays and one that goes.
pub(super) type Nth = u32;

/// What became of blocks, by place; the last pass counts.
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
    /// Bytes behind it.
    pub fn heap_bytes(&self) -> usize {
        of_map(&self.fates) + of_map(&self.any) + of_map(&self.stays)
    }

    pub fn note(&mut self, place: Place, nth: Nth, category: Category, pass: u32) {
        let fate = Fate { category, pass };
        self.fates.insert((place, nth), fate);
        // What is kept somewhere counts more than what goes.
        let any = self.any.entry(place).or_insert(fate);
        if any.category == Category::Temporary && category != Category::Temporary {
            *any = fate;
        }
    }

    /// A block that is there at the end.
    pub fn stays(&mut self, place: Place, pass: u32) {
        let (first, again) = self.stays.entry(place).or_insert((pass, false));
        *again |= *first != pass;
    }

    /// Whether more than one pass left a block of the place: the program collects them.
    pub fn is_collected(&self, place: Place) -> bool {
        self.stays.get(&place).is_some_and(|&(_, again)| again)
    }

    /// The fate of the same block of an earlier pass, else of any of its place.
    pub fn recall(&self, place: Place, nth: Nth, pass: u32) -> Option<Category> {
        let earlier = |fate: &&Fate| fate.pass < pass;
        let same = self.fates.get(&(place, nth)).filter(earlier);
        let fate = same.or_else(|| self.any.get(&place).filter(earlier));
        fate.map(|fate| fate.category)
    }
}
