//! Which function to name for a site that leaks.
//!
//! The innermost frame made the tensor, but is seldom the reason that it stays: `linear` makes
//! thousands of tensors that are given back. Two questions about all allocations after the first
//! period find the function that explains the leak best:
//!
//! * *How much of the stack must be known to see that it leaks?* Go outward from the innermost
//!   frame, until the share of bytes that is kept equals that of the whole stack. For example,
//!   `forward` keeps 4 % of what it makes; `forward` called by `collect_validation` keeps a
//!   quarter, and so does the whole stack.
//! * *Is more than this site kept?* Take the outermost function that keeps most of its bytes, then
//!   go inward as long as all of them come from one callee. Where a graph is retained, hundreds of
//!   sites leak, and the function that built the graph is the answer.
//!
//! Of these two functions the outer one is named. If it is PyTorch's own code, the first caller
//! outside of PyTorch is named. If that is a package's, and a function of the program that it calls
//! lies further in, that one is named: a training loop calls the program's `compute_loss`. Sites
//! that add less than [`super::MIN_BYTES`] do not count.

use crate::code::{is_generated, is_installed};
use crate::phases::{Role, Roles};
use crate::site::{is_framework, is_module_call, is_python};
use crate::stacks::{Frame, FrameIdx, FxHashMap, StackIdx, Stacks, StrIdx, fx_hash};
use crate::watch::{Stopped, Watch};
use std::hash::Hash;

/// A function keeps "most of it" from this share on.
const MOST: f64 = 0.5;
/// A part of a stack explains it if it keeps at least this part of the whole stack's share.
const NEARLY: f64 = 0.9;
/// "All" comes from one callee if its share is at least this.
const ALL: f64 = 0.999;

/// Bytes allocated and kept.
#[derive(Clone, Copy, Default)]
pub struct Amount {
    /// Allocated after the first period.
    pub made: u64,
    /// Of these, bytes that are alive at the last end and belong to a site that leaks.
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

/// The program's innermost line in a stack, for a place in a package.
pub fn caller(stacks: &Stacks, stack: StackIdx, place: Frame) -> Option<Frame> {
    let is_package = |frame: &Frame| is_installed(stacks.str(frame.filename));
    is_package(&place).then_some(())?;
    let frames = stacks.frames(stack).iter();
    let mut frames = frames.map(|&frame| stacks.frame(frame));
    frames.find(|frame| {
        let is_written = !is_framework(stacks, *frame) && !is_generated(stacks.str(frame.filename));
        is_written && !is_package(frame)
    })
}

/// Amounts by the inner and by the outer parts of stacks.
pub struct Culprits<'a> {
    stacks: &'a Stacks,
    /// By the hash of the frames, with lines, from the innermost outward. Lines are needed because
    /// several classes of a file have a `forward`.
    inner: FxHashMap<u64, Amount>,
    /// By the hash of the functions, from the outermost inward.
    outer: FxHashMap<u64, Amount>,
}

impl<'a> Culprits<'a> {
    /// Sums up what each stack made and kept.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn new(
        stacks: &'a Stacks,
        roles: &Roles,
        amounts: &FxHashMap<StackIdx, Amount>,
        watch: Watch<'_>,
    ) -> Result<Culprits<'a>, Stopped> {
        let mut culprits = Culprits {
            stacks,
            inner: FxHashMap::default(),
            outer: FxHashMap::default(),
        };
        for (at, (&stack, &amount)) in amounts.iter().enumerate() {
            watch.at_row(at, || 0)?;
            let functions = culprits.functions(stack);
            if amount.kept == 0 && roles.get(stack) == Role::Optimizer {
                // Scratch memory of the optimizer's update says nothing about who keeps a graph.
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
        Ok(culprits)
    }

    /// The frame to name for a stack of a site that leaks; `None` without Python frames.
    pub fn frame(&self, stack: StackIdx) -> Option<Frame> {
        let frames = self.python(stack);
        let functions = self.functions(stack);
        let needed = self.needed(&frames)?;
        let whole = self.whole(&functions).unwrap_or(0);
        let explained = needed.max(whole);
        let frame = |idx: &FrameIdx| self.stacks.frame(*idx);
        let own = |f: &Frame| {
            !is_framework(self.stacks, *f) && !is_generated(self.stacks.str(f.filename))
        };
        let mut outward = frames[explained..].iter().map(frame);
        let mut inward = frames[..explained].iter().rev().map(frame);
        let of_program = |f: &Frame| own(f) && !is_installed(self.stacks.str(f.filename));
        let called = inward.clone().find(of_program);
        match outward.find(own) {
            Some(nearest) if of_program(&nearest) => Some(nearest),
            Some(nearest) => called.or(Some(nearest)),
            None => inward.find(own),
        }
        .or_else(|| frames.get(explained).map(frame))
    }

    /// The innermost position from which on the stack explains the leak.
    fn needed(&self, frames: &[FrameIdx]) -> Option<usize> {
        let shares: Vec<f64> = prefixes(frames.iter())
            .map(|hash| self.inner.get(&hash).map_or(0.0, |a| a.share()))
            .collect();
        let full = *shares.last()?;
        shares.iter().position(|&share| share >= NEARLY * full)
    }

    /// The position of the function that keeps most of its memory.
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

/// The hash of each prefix of a sequence, shortest first.
fn prefixes<'f, T: Hash + 'f>(items: impl Iterator<Item = &'f T>) -> impl Iterator<Item = u64> {
    items.scan(0_u64, |hash, item| {
        *hash = fx_hash(&(*hash, item));
        Some(*hash)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::program::Program;

    const TRAIN: &str = "training_step /v/site-packages/transformers/trainer.py:14";
    const EVALUATE: &str = "prediction_step /v/site-packages/transformers/trainer.py:40";
    const MODEL: &str = "forward /v/site-packages/transformers/bert.py:5";

    /// The place and its caller, where what training makes within `inside` is kept, and what an
    /// evaluation makes there is not.
    fn named(inside: &[&str]) -> [Option<String>; 2] {
        let mut program = Program::default();
        let mut stack = |step: &'static str| {
            program.stack(&[&["main train.py:30", step], inside, &[MODEL]].concat())
        };
        let (kept, given_back) = (stack(TRAIN), stack(EVALUATE));
        let stacks = &program.builder.stacks;
        let amount = |kept: u64| Amount { made: 100, kept };
        let amounts = [(kept, amount(100)), (given_back, amount(0))];
        let roles = Roles::of(stacks);
        let culprits = Culprits::new(
            stacks,
            &roles,
            &amounts.into_iter().collect(),
            Watch::nobody(),
        );
        let place = culprits
            .expect("nobody stops it")
            .frame(kept)
            .expect("it has frames");
        let told = |frame: Frame| format!("{}:{}", stacks.str(frame.name), frame.line);
        [Some(place), caller(stacks, kept, place)].map(|frame| frame.map(told))
    }

    #[test]
    fn the_program_is_named_where_a_package_calls_it() {
        let check = |inside: &[&str], place: &str, caller: Option<&str>| {
            let [named, calls] = named(inside);
            assert_eq!((named.as_deref(), calls.as_deref()), (Some(place), caller));
        };
        // A package's loop calls the package's model: the program's line is further out.
        check(&[], "training_step:14", Some("main:30"));
        // It calls the program's function: that is the place.
        check(&["compute_loss train.py:8"], "compute_loss:8", None);
    }
}
