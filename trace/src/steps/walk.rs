//! The program's walk from spot to spot, allocation by allocation.
//!
//! A program of millions of allocations makes the same few thousand *moves*: from the stack of one
//! allocation to the stack of the next. A move shows in which context the program went on (the
//! deepest one that both stacks share) and which contexts it entered anew. So one pass counts the
//! moves, and everything else is computed from the distinct ones.

use super::calls::{Calls, ContextIdx, SpotIdx};
use crate::footprint::{of_map, of_vec};
use crate::stacks::{FxHashMap, StackIdx};
use crate::trace::Blocks;
use crate::watch::{Stopped, Watch};

/// No move: the stack of the allocation does not show where the program is.
pub const NO_MOVE: u32 = u32::MAX;

/// This share of the allocations must have a stack.
const ENOUGH_STACKS: f64 = 0.05;
/// With so many stacks, …
const MANY_STACKS: usize = 64;
/// … more allocations than these, one after the other without a stack, count as these.
const LONG_RUN: usize = 64;

/// From one allocation's stack to the next's, on one thread.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Where the program was; `None` at the thread's first allocation.
    pub from: Option<StackIdx>,
    /// Where it is now.
    pub to: StackIdx,
    /// How often this happens.
    pub count: u32,
    /// The first allocation that it leads to.
    pub first: u32,
    /// The second one; `u32::MAX` when there is none.
    pub second: u32,
}

/// A recording as moves.
#[derive(Debug)]
pub struct Walk {
    /// The distinct moves.
    pub moves: Vec<Move>,
    /// The move that leads to each allocation, or [`NO_MOVE`].
    pub of_alloc: Vec<u32>,
}

/// What the program does in the contexts of the stack that a move leads to.
#[derive(Clone, Copy, Debug)]
pub struct Going {
    /// The depth at which it continues; deeper contexts are entered anew.
    pub depth: usize,
    /// The spot that it leaves there; `None` if that context is entered anew, too.
    pub left: Option<SpotIdx>,
}

impl Walk {
    /// Finds the moves in one pass over the allocations.
    pub fn new(blocks: &Blocks, calls: &Calls, watch: Watch<'_>) -> Result<Walk, Stopped> {
        let kinds = blocks.made_kinds();
        let mut known: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut walk = Walk {
            moves: Vec::new(),
            of_alloc: Vec::with_capacity(kinds.len()),
        };
        // The last stack of each thread: a program has few threads, a hostile file one for each
        // allocation.
        let mut threads: FxHashMap<ContextIdx, StackIdx> = FxHashMap::default();
        watch.look(kinds.len() * size_of::<u32>())?;
        for (alloc, kind) in kinds.iter().enumerate() {
            watch.at_row(alloc, || {
                // Full tables move to larger ones: while they move, both exist.
                let tables = of_map(&known) + of_map(&threads);
                of_vec(&walk.of_alloc) + 2 * of_vec(&walk.moves) + 3 * tables
            })?;
            let stack = blocks.kinds[kind.index()].alloc_stack;
            let Some(root) = calls.root(stack) else {
                walk.of_alloc.push(NO_MOVE);
                continue;
            };
            let from = threads.insert(root, stack);
            let key = (from.map_or(u32::MAX, |f| f.0), stack.0);
            let next = walk.moves.len() as u32;
            let id = *known.entry(key).or_insert(next);
            if id == next {
                walk.moves.push(Move {
                    from,
                    to: stack,
                    count: 0,
                    first: alloc as u32,
                    second: u32::MAX,
                });
            }
            let this = &mut walk.moves[id as usize];
            this.count += 1;
            if this.count == 2 {
                this.second = alloc as u32;
            }
            walk.of_alloc.push(id);
        }
        Ok(walk)
    }

    /// Whether enough allocations show where the program is: one in twenty. A backward pass has no
    /// stacks, and may be long. So where there are many stacks, each run of allocations without any
    /// counts as few.
    pub fn has_enough_stacks(&self) -> bool {
        let shows = |id: &u32| *id != NO_MOVE;
        let walked = self.of_alloc.iter().filter(|id| shows(id)).count();
        let enough = |all: usize| walked > 0 && walked as f64 >= ENOUGH_STACKS * all as f64;
        let runs = self.of_alloc.chunk_by(|a, b| shows(a) == shows(b));
        let silent = runs.filter(|run| !shows(&run[0]));
        let short: usize = silent.map(|run| run.len().min(LONG_RUN)).sum();
        enough(self.of_alloc.len()) || walked >= MANY_STACKS && enough(walked + short)
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.moves) + of_vec(&self.of_alloc)
    }
}

impl Move {
    /// What the program does in the contexts of `to`.
    pub fn going(&self, calls: &Calls) -> Going {
        let to = calls.path(self.to);
        let Some(from) = self.from else {
            return Going {
                depth: 0,
                left: None,
            };
        };
        let from = calls.path(from);
        let same = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        // The stack is the same: the program continued at the allocation itself.
        let depth = same.min(to.len() - 1).min(from.len() - 1);
        Going {
            depth,
            left: Some(from[depth]),
        }
    }
}
