//! Sets of pixels.

use timeline::plot::PxRect;

/// A set of pixels, a bit for each.
#[derive(Clone, Debug)]
pub struct Cover {
    size: (i32, i32),
    /// Words of one column of pixels.
    words: usize,
    /// Column by column, from top to bottom.
    bits: Vec<u64>,
    /// The rectangle around all of them.
    bounds: Option<PxRect>,
}

impl Cover {
    /// An empty set.
    pub fn new(size: (i32, i32)) -> Cover {
        Cover {
            size,
            words: words_of_column(size),
            bits: vec![0; Cover::bytes(size) / size_of::<u64>()],
            bounds: None,
        }
    }

    /// The memory of a set, bytes.
    pub fn bytes(size: (i32, i32)) -> usize {
        words_of_column(size) * size.0.max(0) as usize * size_of::<u64>()
    }

    /// The part of a rectangle that is on the picture.
    fn clipped(&self, rect: PxRect) -> Option<PxRect> {
        let rect = PxRect {
            x0: rect.x0.max(0),
            y0: rect.y0.max(0),
            x1: rect.x1.min(self.size.0),
            y1: rect.y1.min(self.size.1),
        };
        (rect.x0 < rect.x1 && rect.y0 < rect.y1).then_some(rect)
    }

    /// Adds a rectangle.
    pub fn add(&mut self, rect: PxRect) {
        let Some(rect) = self.clipped(rect) else {
            return;
        };
        for x in rect.x0..rect.x1 {
            let column = x as usize * self.words;
            for (word, mask) in masks(rect) {
                self.bits[column + word] |= mask;
            }
        }
        self.bounds = Some(self.bounds.map_or(rect, |bounds| around(bounds, rect)));
    }

    /// The pixels that are not in another set.
    pub fn without(&self, other: &Cover) -> Cover {
        let bits = self.bits.iter().zip(&other.bits);
        Cover {
            bits: bits.map(|(mine, other)| mine & !other).collect(),
            ..self.clone()
        }
    }

    /// Adds all pixels of another set.
    pub fn add_all(&mut self, other: &Cover) {
        for (mine, other) in self.bits.iter_mut().zip(&other.bits) {
            *mine |= other;
        }
        let both = self.bounds.into_iter().chain(other.bounds);
        self.bounds = both.reduce(around);
    }

    /// Whether the set has any pixel of the rectangle.
    pub fn meets(&self, rect: PxRect) -> bool {
        let near = self.bounds.is_some_and(|bounds| {
            rect.x0 < bounds.x1 && bounds.x0 < rect.x1 && rect.y0 < bounds.y1 && bounds.y0 < rect.y1
        });
        let Some(rect) = self.clipped(rect).filter(|_| near) else {
            return false;
        };
        (rect.x0..rect.x1).any(|x| {
            let column = x as usize * self.words;
            masks(rect).any(|(word, mask)| self.bits[column + word] & mask != 0)
        })
    }

    /// Whether the set has a pixel.
    pub fn has(&self, x: i32, y: i32) -> bool {
        let inside = (0..self.size.0).contains(&x) && (0..self.size.1).contains(&y);
        inside && self.bits[x as usize * self.words + y as usize / 64] >> (y % 64) & 1 == 1
    }

    /// The columns that may have pixels.
    pub fn columns(&self) -> std::ops::Range<i32> {
        self.bounds.map_or(0..0, |bounds| bounds.x0..bounds.x1)
    }

    /// First and one past the last pixel of each unbroken stretch of a column.
    pub fn stretches(&self, x: i32) -> Vec<(i32, i32)> {
        let Some(bounds) = self.bounds else {
            return Vec::new();
        };
        let mut stretches: Vec<(i32, i32)> = Vec::new();
        for y in (bounds.y0..bounds.y1).filter(|&y| self.has(x, y)) {
            match stretches.last_mut() {
                Some((_, end)) if *end == y => *end = y + 1,
                _ => stretches.push((y, y + 1)),
            }
        }
        stretches
    }
}

/// Words of one column of pixels.
fn words_of_column(size: (i32, i32)) -> usize {
    (size.1.max(0) as usize).div_ceil(64)
}

/// The words of a column that a rectangle touches, with its bits in each.
fn masks(rect: PxRect) -> impl Iterator<Item = (usize, u64)> {
    let (y0, y1) = (rect.y0 as usize, rect.y1 as usize);
    (y0 / 64..y1.div_ceil(64)).map(move |word| {
        let from = y0.max(word * 64) - word * 64;
        let to = y1.min(word * 64 + 64) - word * 64;
        (word, u64::MAX >> (64 - (to - from)) << from)
    })
}

fn around(a: PxRect, b: PxRect) -> PxRect {
    PxRect {
        x0: a.x0.min(b.x0),
        y0: a.y0.min(b.y0),
        x1: a.x1.max(b.x1),
        y1: a.y1.max(b.y1),
    }
}
