//! Which function to name for a site that leaks.
//!
//! The innermost frame made the tensor, but is seldom the reason that it stays: `linear` makes
//! thousands that go. Two questions about all allocations after the first period find the
//! function that explains it best:
//!
//! * *How much of the stack must be known to know that it leaks?* Outward from the innermost
//!   frame, until the share that is kept is that of the whole stack: `forward` keeps 4 % of what
//!   it makes, `forward` called by `collect_validation` keeps a quarter, and so does the whole.
//! * *Is more than this site kept?* The outermost function of which most is kept, then inward as
//!   long as all of it comes from one callee: where a graph is retained, hundreds of sites leak,
//!   and the function that built the graph is the answer.
//!
//! The outer of the two is named; if that is PyTorch's own code, its first caller that is not.
//! Sites that add less than [`super::MIN_BYTES`] have no say.

use crate::site::{is_framework, is_in_optimizer, is_module_call, is_python};
use crate::stacks::{Frame, FrameIdx, FxHashMap, StackIdx, Stacks, StrIdx, fx_hash};
use std::hash::Hash;

/// Of a function, "most of it" is kept from this share on.
const MOST: f64 = 0.5;
/// The share of a whole stack is reached from this part of it on.
const NEARLY: f64 = 0.9;
/// "All" comes from one callee from this share on.
const ALL: f64 = 0.999;

/// Bytes allocated and kept.
#[derive(Clone, Copy, Default)]
pub struct Amount {
    /// Allocated after the first period.
    pub made: u64,
    /// Of that, alive at the last end in a site that leaks.
    pub kept: u64,
}

impl Amount {
    fn add(&mut self, other: Amount) {
        self.made += other.made;
        self.kept += other.kept;
    }

    fn share(self) -> f64 {
        self.kept as f64 / self.made.max(1) as f64
    }
}

/// Amounts by the inner and by the outer part of stacks.
pub struct Culprits<'a> {
    stacks: &'a Stacks,
    /// By hash of the frames, with their lines, from the innermost up to one: several classes of
    /// a file have a `forward`.
    inner: FxHashMap<u64, Amount>,
    /// By hash of the functions from the outermost frame down to one.
    outer: FxHashMap<u64, Amount>,
}

impl<'a> Culprits<'a> {
    /// From what each stack made and kept.
    pub fn new(stacks: &'a Stacks, amounts: &FxHashMap<StackIdx, Amount>) -> Culprits<'a> {
        let mut culprits = Culprits {
            stacks,
            inner: FxHashMap::default(),
            outer: FxHashMap::default(),
        };
        for (&stack, &amount) in amounts {
            let functions = culprits.functions(stack);
            if is_in_optimizer(stacks, stack) && amount.kept == 0 {
                // Scratch space of the update says nothing about who keeps a graph.
                continue;
            }
            let frames = culprits.python(stack);
            for hash in prefixes(frames.iter()) {
                culprits.inner.entry(hash).or_default().add(amount);
            }
            for hash in prefixes(functions.iter().rev()) {
                culprits.outer.entry(hash).or_default().add(amount);
            }
        }
        culprits
    }

    /// The frame to name for a stack of a site that leaks; `None` without Python frames.
    pub fn frame(&self, stack: StackIdx) -> Option<Frame> {
        let frames = self.python(stack);
        let functions = self.functions(stack);
        let needed = self.needed(&frames)?;
        let whole = self.whole(&functions).unwrap_or(0);
        let explained = needed.max(whole);
        let frame = |idx: &FrameIdx| self.stacks.frame(*idx);
        let own = |f: &Frame| !is_framework(self.stacks, *f);
        let mut outward = frames[explained..].iter().map(frame);
        let inward = frames[..explained].iter().rev().map(frame);
        let nearest = outward.find(own).or_else(|| inward.into_iter().find(own));
        nearest.or_else(|| frames.get(explained).map(frame))
    }

    /// The innermost position at which the stack is specific.
    fn needed(&self, frames: &[FrameIdx]) -> Option<usize> {
        let shares: Vec<f64> = prefixes(frames.iter())
            .map(|hash| self.inner.get(&hash).map_or(0.0, |a| a.share()))
            .collect();
        let full = *shares.last()?;
        shares.iter().position(|&share| share >= NEARLY * full)
    }

    /// The position of the function most of whose memory is kept.
    fn whole(&self, functions: &[Function]) -> Option<usize> {
        let n = functions.len();
        let amounts: Vec<Amount> = prefixes(functions.iter().rev())
            .map(|hash| self.outer.get(&hash).copied().unwrap_or_default())
            .collect();
        let mut at = amounts.iter().position(|a| a.share() >= MOST)?;
        while let Some(callee) = amounts.get(at + 1)
            && callee.kept as f64 >= ALL * amounts[at].kept as f64
        {
            at += 1;
        }
        Some(n - 1 - at)
    }

    fn python(&self, stack: StackIdx) -> Vec<FrameIdx> {
        let frames = self.stacks.frames(stack).iter().copied();
        frames
            .filter(|&f| {
                let frame = self.stacks.frame(f);
                is_python(self.stacks, frame) && !is_module_call(self.stacks, frame)
            })
            .collect()
    }

    fn functions(&self, stack: StackIdx) -> Vec<Function> {
        let function = |idx: &FrameIdx| {
            let frame = self.stacks.frame(*idx);
            (frame.filename, frame.name)
        };
        self.python(stack).iter().map(function).collect()
    }
}

/// File and name of a function.
type Function = (StrIdx, StrIdx);

/// The hash of each beginning of a sequence, shortest first.
fn prefixes<'f, T: Hash + 'f>(items: impl Iterator<Item = &'f T>) -> impl Iterator<Item = u64> {
    items.scan(0_u64, |hash, item| {
        *hash = fx_hash(&(*hash, item));
        Some(*hash)
    })
}
