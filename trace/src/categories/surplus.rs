//! Blocks of a workspace's size where tensors of the same size come and go, so that counting all of
//! them tells nothing.
//!
//! * A backward pass leaves one gradient for each parameter, and a gradient that lasts takes the
//!   place of the next one. So where later passes leave as many blocks of a size as there are
//!   parameters of it, one that lasts from the first pass on is none: autograd's thread has taken
//!   its workspace. No code in Python stands on that stack.
//! * A line that makes a parameter, or data that is kept, does not run in training. If it runs
//!   there, and only its first run left a block of such a size, that is a workspace.

use super::facts::Fact;
use super::sizes::Sizes;
use crate::footprint::{of_map, of_vec};
use crate::phases::Role;
use crate::stacks::{FxHashMap, StackIdx};
use crate::trace::BlockKind;
use crate::units::Bytes;
use crate::workspaces;

/// What is counted of blocks that have the size of a workspace.
#[derive(Default)]
pub(super) struct Surplus {
    /// The backward pass that first left a block of a size behind.
    first: FxHashMap<Bytes, u32>,
    /// The most blocks of a size that a later pass left.
    again: Sizes,
    /// How many blocks modules moved to the device, by the line of `Module._apply`.
    applied: FxHashMap<(u32, Bytes), u32>,
    /// Those of them that are buffers.
    buffers: Sizes,
    /// The last event at which a stack made a block.
    last_made: Vec<u32>,
    /// How many blocks that stay a stack made: before the first backward pass ended, and at all.
    stay: FxHashMap<(StackIdx, Bytes), [u32; 2]>,
    /// Where the first backward pass ends.
    first_pass: Option<u32>,
}

impl Surplus {
    /// Of so many stacks, where the first backward pass ends at an event.
    pub fn new(stacks: usize, first_pass: Option<u32>) -> Surplus {
        Surplus {
            last_made: vec![0; stacks],
            first_pass,
            ..Surplus::default()
        }
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        let maps = of_map(&self.first) + of_map(&self.applied) + of_map(&self.stay);
        let sizes = self.again.heap_bytes() + self.buffers.heap_bytes();
        maps + sizes + of_vec(&self.last_made)
    }

    /// Notes a block that was made at an event, in order.
    pub fn made(&mut self, kind: &BlockKind, alloc: u32, stays: bool) {
        self.last_made[kind.alloc_stack.index()] = alloc;
        if stays && workspaces::is_size(kind.requested) {
            let line = (kind.alloc_stack, kind.requested);
            let is_early = u32::from(self.is_early(alloc));
            let [early, all] = self.stay.entry(line).or_default();
            *early += is_early;
            *all += 1;
        }
    }

    /// Notes a block that was made as part of a module and stays.
    pub fn of_module(&mut self, fact: &Fact, requested: Bytes) {
        if let Some(line) = fact.apply_line.filter(|_| workspaces::is_size(requested)) {
            *self.applied.entry((line, requested)).or_default() += 1;
        }
    }

    /// Notes what a backward pass left behind.
    pub fn left(&mut self, pass: u32, left: &Sizes) {
        for size in workspaces::SIZES.into_iter().filter(|&size| left.has(size)) {
            match self.first.get(&size) {
                Some(_) => self.again.at_least_of(size, left.count(size)),
                None => _ = self.first.insert(size, pass),
            }
        }
    }

    /// Notes which line of `Module._apply` moves buffers.
    pub fn buffers_at(&mut self, line: Option<u32>) {
        let of_line = |&((at, _), _): &(&(u32, Bytes), &u32)| Some(*at) == line;
        for (&(_, size), &count) in self.applied.iter().filter(of_line) {
            self.buffers.at_least_of(size, count);
        }
    }

    /// Whether a block that lasts, of the first pass that left such a block, is one more than there
    /// can be gradients. `parameters` are all that may be one.
    pub fn is_beyond(&self, pass: u32, requested: Bytes, parameters: &Sizes) -> bool {
        let buffers = self.buffers.count(requested);
        let trained = parameters.count(requested).saturating_sub(buffers);
        self.first.get(&requested) == Some(&pass) && self.again.count(requested) >= trained
    }

    /// Whether a line of the program runs in training, and only its first run left a block of that
    /// size, at an event. A variable may hold the newest one.
    pub fn is_left_once(&self, kind: &BlockKind, role: Role, alloc: u32) -> bool {
        let stay = self.stay.get(&(kind.alloc_stack, kind.requested));
        let last = self.last_made[kind.alloc_stack.index()];
        role == Role::Program
            && self.is_early(alloc)
            && self.first_pass.is_some_and(|end| last > end)
            && stay.is_some_and(|&[early, all]| early == 1 && all <= 2)
    }

    fn is_early(&self, alloc: u32) -> bool {
        self.first_pass.is_some_and(|end| alloc < end)
    }
}
