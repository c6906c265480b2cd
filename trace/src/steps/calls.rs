//! Turns each stack into the calls that the program made: a tree of calling contexts.
//!
//! A *context* is a function called from one place; the same function called from two lines is two
//! contexts. In a context the program is always at a *spot*: a line, together with what the line
//! calls there (a further context, or the allocation itself). A stack has one spot in each context
//! from the outermost function to the allocation. A program is a walk from spot to spot.
//!
//! Frames of C++ and the wrappers of `torch.nn.Module` are left out. The contexts after a wrapper
//! are marked as inside a module, and so is a module's `forward` that is called without one.

use super::frames::{Frames, Place};
use crate::footprint::{of_map, of_vec};
use crate::stacks::{FxHashMap, StackIdx, Stacks, dense_index};
use crate::watch::{Stopped, Watch};
use serde::{Deserialize, Serialize};

dense_index!(
    /// A calling context.
    ContextIdx
);
dense_index!(
    /// A spot of a context.
    SpotIdx
);

/// A function, as it was called from one place.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Who called it; `None` for the outermost function of a thread.
    pub parent: Option<ContextIdx>,
    /// The function, as a position in [`Frames`].
    pub function: u32,
    /// The line of the parent that calls it.
    pub called_at: u32,
    /// What is known about the function's surroundings.
    pub place: Place,
}

/// Where the program is in a context.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// The context.
    pub context: ContextIdx,
    /// The line.
    pub line: u32,
    /// Whether the line allocates here by itself, not in a function that it calls.
    pub is_allocation: bool,
}

/// The contexts, spots and stacks of a recording.
#[derive(Debug)]
pub struct Calls {
    /// The contexts.
    pub contexts: Vec<Context>,
    /// The spots.
    pub spots: Vec<Spot>,
    /// Back to back, the spots of each stack, outermost first.
    members: Vec<SpotIdx>,
    /// Where each stack's begin in `members`; one more than there are stacks.
    starts: Vec<u32>,
}

/// A key for what the line of a spot leads to: a context, or an allocation of this stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Target {
    Context(u32),
    Stack(u32),
}

/// Puts the tree together.
struct Builder<'a> {
    frames: &'a Frames,
    calls: Calls,
    context_of: FxHashMap<(u32, u32, u32, bool), ContextIdx>,
    spot_of: FxHashMap<(u32, u32, Target), SpotIdx>,
}

impl Calls {
    /// The calls that the stacks show. Stacks without a Python frame, and stacks of autograd's
    /// threads, have no calls.
    pub fn new(stacks: &Stacks, frames: &Frames, watch: Watch<'_>) -> Result<Calls, Stopped> {
        let mut builder = Builder {
            frames,
            calls: Calls {
                contexts: Vec::new(),
                spots: Vec::new(),
                members: Vec::new(),
                starts: vec![0],
            },
            context_of: FxHashMap::default(),
            spot_of: FxHashMap::default(),
        };
        for stack in 0..stacks.len() {
            watch.at_row(stack, || builder.heap_bytes())?;
            builder.add(stacks, StackIdx(stack as u32));
        }
        Ok(builder.calls)
    }

    /// Heap bytes that they use.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.contexts) + of_vec(&self.spots) + of_vec(&self.members) + of_vec(&self.starts)
    }

    /// The spots of a stack, outermost first; empty if the stack says nothing about the program.
    pub fn path(&self, stack: StackIdx) -> &[SpotIdx] {
        let (from, to) = (self.starts[stack.index()], self.starts[stack.index() + 1]);
        &self.members[from as usize..to as usize]
    }

    /// A context.
    pub fn context(&self, idx: ContextIdx) -> &Context {
        &self.contexts[idx.index()]
    }

    /// A spot.
    pub fn spot(&self, idx: SpotIdx) -> &Spot {
        &self.spots[idx.index()]
    }

    /// Whether the program comes back to a line's own allocation from a function that the line
    /// called, as in `softplus(model(randn(16))).mean()`. Nothing else shows that the line began
    /// anew.
    pub fn returns_to_line(&self, from: SpotIdx, to: SpotIdx) -> bool {
        let (from, to) = (self.spot(from), self.spot(to));
        to.is_allocation && !from.is_allocation && from.line == to.line
    }

    /// Whether a context is another one, or was called from it.
    pub fn is_in(&self, inner: ContextIdx, outer: ContextIdx) -> bool {
        let parent = |&context: &ContextIdx| self.context(context).parent;
        std::iter::successors(Some(inner), parent).any(|context| context == outer)
    }

    /// The outermost context of a stack: a thread of the program.
    pub fn root(&self, stack: StackIdx) -> Option<ContextIdx> {
        let first = self.path(stack).first()?;
        Some(self.spot(*first).context)
    }
}

impl Builder<'_> {
    /// Heap bytes that it uses if every table moves next.
    fn heap_bytes(&self) -> usize {
        2 * self.calls.heap_bytes() + 3 * (of_map(&self.context_of) + of_map(&self.spot_of))
    }

    fn add(&mut self, stacks: &Stacks, stack: StackIdx) {
        let mut place = Place::default();
        let mut parent: Option<(ContextIdx, u32)> = None;
        // What autograd's threads run is not part of the program's walk.
        let is_walked = !self.frames.is_of_autograd(stacks, stack);
        let outermost_first = stacks.frames(stack).iter().rev();
        for &frame in outermost_first.take_while(|_| is_walked) {
            let info = self.frames.of(frame);
            if info.is_module_call || info.is_forward {
                place.in_module = true;
            }
            if !info.is_call() {
                continue;
            }
            place = place.inside(info);
            let context = self.context(parent, info.function, place);
            if let Some((caller, line)) = parent {
                let spot = self.spot(caller, line, Target::Context(context.0));
                self.calls.members.push(spot);
            }
            parent = Some((context, info.line));
        }
        if let Some((context, line)) = parent {
            let spot = self.spot(context, line, Target::Stack(stack.0));
            self.calls.members.push(spot);
        }
        self.calls.starts.push(self.calls.members.len() as u32);
    }

    fn context(
        &mut self,
        parent: Option<(ContextIdx, u32)>,
        function: u32,
        place: Place,
    ) -> ContextIdx {
        let (caller, line) = parent.map_or((u32::MAX, 0), |(c, line)| (c.0, line));
        let contexts = &mut self.calls.contexts;
        let key = (caller, line, function, place.in_module);
        *self.context_of.entry(key).or_insert_with(|| {
            contexts.push(Context {
                parent: parent.map(|(c, _)| c),
                function,
                called_at: line,
                place,
            });
            ContextIdx((contexts.len() - 1) as u32)
        })
    }

    fn spot(&mut self, context: ContextIdx, line: u32, target: Target) -> SpotIdx {
        let spots = &mut self.calls.spots;
        let entry = self.spot_of.entry((context.0, line, target));
        *entry.or_insert_with(|| {
            spots.push(Spot {
                context,
                line,
                is_allocation: matches!(target, Target::Stack(_)),
            });
            SpotIdx((spots.len() - 1) as u32)
        })
    }
}
