//! Saved tensors: the activations that forward passes keep for a backward pass.
//!
//! An evaluation without `torch.no_grad()` saves them too, and nobody will ask for them. Memory
//! alone does not tell that from a training that has not come to its backward pass yet. But a
//! program that has trained shows how much a step of it saves.

use crate::phases::{Phase, Phases};
use crate::units::{Bytes, EventIdx};

/// Saved tensors that wait for a backward pass at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// What was made since the last backward pass, and is still there.
    pub bytes: Bytes,
    /// The most that waited when a backward pass before that moment began; `None` without one.
    pub usual: Option<Bytes>,
}

/// Counts what waits when each backward pass before a moment begins, and at that moment.
pub(super) struct Waits {
    moment: EventIdx,
    /// Where the backward passes begin.
    backward: Vec<u32>,
    /// What waits at each of these moments was made since the one before.
    bytes: Vec<Bytes>,
}

impl Waits {
    /// Of the backward passes that ended before this moment.
    pub fn until(phases: &Phases, moment: EventIdx) -> Waits {
        let spans = phases.spans().iter();
        let backward: Vec<u32> = spans
            .filter(|span| span.phase == Phase::Backward && span.events.end() <= moment)
            .map(|span| span.events.start().0)
            .collect();
        Waits {
            moment,
            bytes: vec![Bytes::ZERO; backward.len() + 1],
            backward,
        }
    }

    /// Counts an activation.
    pub fn add(&mut self, made: EventIdx, gone: EventIdx, size: Bytes) {
        let pass = self.backward.partition_point(|&start| start <= made.0);
        let until = self.backward.get(pass).copied().unwrap_or(self.moment.0);
        if made.0 < until && until <= gone.0 {
            self.bytes[pass] += size;
        }
    }

    /// What waits at the moment.
    pub fn saved(mut self) -> Saved {
        let bytes = self.bytes.pop().unwrap_or_default();
        let usual = self.bytes.into_iter().max();
        Saved { bytes, usual }
    }
}

impl Saved {
    /// How many times as much as usual waits, if a step cannot be the reason.
    pub fn times(&self) -> Option<f64> {
        let usual = self.usual.filter(|usual| usual.0 > 0)?;
        let times = self.bytes.0 as f64 / usual.0 as f64;
        (times >= TOO_MUCH).then_some(times)
    }
}

/// From so many times as much as usual on, more than one pass waits.
const TOO_MUCH: f64 = 1.8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categories::{Categories, Category};
    use crate::phases::program::{MODULE, Program, TENSOR};
    use crate::trace::{BlockIdx, Trace};

    const FORWARD: [&str; 2] = ["main t.py:4", "forward net.py:3"];

    /// `f` is a forward pass that saves 1 MiB, and `b` the backward pass that gives all of it back.
    fn recorded(program: &str) -> Trace {
        let mut p = Program::default();
        let module = format!("_call_impl {MODULE}:1");
        let forward = [FORWARD[0], &module, FORWARD[1]];
        let backward = format!("backward {TENSOR}:5");
        let mut saved = Vec::new();
        for pass in program.chars() {
            match pass {
                'f' => {
                    saved.push(p.alloc(1 << 20, &forward));
                    let temporary = p.alloc(1 << 20, &forward);
                    p.free(temporary);
                }
                _ => {
                    p.alloc(4096, &["main t.py:5", &backward]);
                    saved.drain(..).for_each(|block| p.free(block));
                    // Autograd's threads have no stack of Python.
                    p.alloc(4096, &[]);
                }
            }
        }
        p.finish()
    }

    #[test]
    fn passes_without_a_backward_pass_are_seen_after_a_training() {
        let check = |program: &str, mib: u64, usual: Option<u64>, times: Option<f64>| {
            let trace = recorded(program);
            let device = &trace.devices[0];
            let phases = Phases::of(device, &trace.stacks);
            let categories = Categories::of(device, &trace.stacks);
            let blocks = &device.blocks;
            let mut waits = Waits::until(&phases, EventIdx(device.events.len()));
            for block in (0..blocks.len() as u32).map(BlockIdx) {
                if categories.found(block) == Category::Activation {
                    let [made, gone] = [&blocks.alloc, &blocks.free_requested];
                    let [made, gone] = [made, gone].map(|of| EventIdx(of[block.index()]));
                    waits.add(made, gone, blocks.kind(block).size);
                }
            }
            let found = waits.saved();
            let expected = Saved {
                bytes: Bytes::mib(mib),
                usual: usual.map(Bytes::mib),
            };
            assert_eq!((found, found.times()), (expected, times), "{program}");
        };
        check("fbfbfbf", 1, Some(1), None);
        check("fbfbfbffff", 4, Some(1), Some(4.0));
        // Two passes wait for each backward pass, as with a contrastive loss.
        check("ffbffbff", 2, Some(2), None);
        check("fbfb", 0, Some(1), None);
        check("fff", 3, None, None);
    }
}
