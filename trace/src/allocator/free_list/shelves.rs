//! Free blocks of small sizes, one shelf for each size.
//!
//! A bit for each shelf says whether there is something on it. So the smallest block that is large
//! enough is found without a search.

use super::runs::Runs;
use super::{Key, Slot};

/// Sizes are multiples of this.
const STEP: u64 = 512;
/// Blocks on shelves are smaller than this. Segments of small blocks have 2 MiB.
const END: u64 = N_SHELVES as u64 * STEP;
const N_SHELVES: usize = 4096 + 64;
/// Bytes of the shelves while nothing lies on them.
pub(super) const HEAP_BYTES: usize = size_of::<Shelves>() + N_SHELVES * size_of::<Shelf>();
/// The most blocks of one size: a shelf stays short, because its blocks are moved.
pub(super) const MOST: usize = 64;

/// The blocks of one size: ranks and slots, lowest first.
type Shelf = Vec<(u64, Slot)>;

#[derive(Clone, Debug)]
pub(super) struct Shelves {
    shelves: Vec<Shelf>,
    /// Per shelf, whether a block lies there.
    filled: [u64; N_SHELVES / 64],
    /// Per shelf, whether there were too many: blocks of this size are elsewhere.
    closed: [u64; N_SHELVES / 64],
}

impl Default for Shelves {
    fn default() -> Shelves {
        Shelves {
            shelves: vec![Vec::new(); N_SHELVES],
            filled: [0; N_SHELVES / 64],
            closed: [0; N_SHELVES / 64],
        }
    }
}

impl Shelves {
    /// Whether blocks of this size lie here.
    #[inline]
    pub fn takes(&self, size: u64) -> bool {
        let shelf = (size / STEP) as usize;
        size < END && size.is_multiple_of(STEP) && self.closed[shelf / 64] >> (shelf % 64) & 1 == 0
    }

    /// Adds a block. If there are too many of its size, all of them move `elsewhere`.
    pub fn insert(&mut self, (size, rank): Key, slot: Slot, elsewhere: &mut Runs) {
        let at = (size / STEP) as usize;
        let shelf = &mut self.shelves[at];
        if shelf.len() == MOST {
            for (rank, slot) in std::mem::take(shelf) {
                elsewhere.insert((size, rank), slot);
            }
            elsewhere.insert((size, rank), slot);
            self.filled[at / 64] &= !(1 << (at % 64));
            self.closed[at / 64] |= 1 << (at % 64);
            return;
        }
        let place = shelf.iter().rposition(|&(other, _)| other < rank);
        shelf.insert(place.map_or(0, |place| place + 1), (rank, slot));
        self.filled[at / 64] |= 1 << (at % 64);
    }

    /// Takes a block away, if it is here.
    pub fn remove(&mut self, (size, rank): Key) {
        let at = (size / STEP) as usize;
        let shelf = &mut self.shelves[at];
        if let Some(place) = shelf.iter().position(|&(other, _)| other == rank) {
            shelf.remove(place);
            if shelf.is_empty() {
                self.filled[at / 64] &= !(1 << (at % 64));
            }
        }
    }

    /// The smallest block of at least `size` bytes.
    #[inline]
    pub fn first(&self, size: u64) -> Option<(Key, Slot)> {
        let at = self.next_filled(size.div_ceil(STEP))?;
        let &(rank, slot) = self.shelves[at].first()?;
        Some(((at as u64 * STEP, rank), slot))
    }

    /// The blocks of at least `size` bytes, in order.
    pub fn from(&self, size: u64) -> impl Iterator<Item = (Key, Slot)> + '_ {
        let first = self.next_filled(size.div_ceil(STEP));
        let shelves = std::iter::successors(first, |&at| self.next_filled(at as u64 + 1));
        shelves.flat_map(|at| {
            let shelf = self.shelves[at].iter();
            shelf.map(move |&(rank, slot)| ((at as u64 * STEP, rank), slot))
        })
    }

    /// The first shelf from `at` on with a block on it.
    #[inline]
    fn next_filled(&self, at: u64) -> Option<usize> {
        let at = usize::try_from(at).ok().filter(|&at| at < N_SHELVES)?;
        let here = self.filled[at / 64] >> (at % 64);
        if here != 0 {
            return Some(at + here.trailing_zeros() as usize);
        }
        let later = self.filled[at / 64 + 1..]
            .iter()
            .position(|&word| word != 0)?;
        let word = at / 64 + 1 + later;
        Some(word * 64 + self.filled[word].trailing_zeros() as usize)
    }
}
