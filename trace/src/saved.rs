//! Saved tensors: the activations that forward passes keep for a backward pass.
//!
//! An evaluation without `torch.no_grad()` saves them too, and nobody will ask for them. Memory
//! alone does not tell that from a training that has not come to its backward pass yet. But a
//! program that has trained shows how much a step of it saves.

use crate::categories::{Categories, Category};
use crate::phases::{Phase, Phases};
use crate::trace::{BlockIdx, DeviceTrace};
use crate::units::{Bytes, EventIdx};

/// Saved tensors that wait for a backward pass at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// What was made since the last backward pass, and is still there.
    pub bytes: Bytes,
    /// The most that waited when a backward pass before that moment began; `None` without one.
    pub usual: Option<Bytes>,
}

impl Saved {
    /// What waits at an event.
    pub fn at(
        device: &DeviceTrace,
        (categories, phases): (&Categories, &Phases),
        event: EventIdx,
    ) -> Saved {
        let spans = phases.spans().iter();
        let backward: Vec<u32> = spans
            .filter(|span| span.phase == Phase::Backward && span.events.end() <= event)
            .map(|span| span.events.start().0)
            .collect();
        // What waits at each of these moments was made since the one before.
        let mut waits = vec![Bytes::ZERO; backward.len() + 1];
        let blocks = &device.blocks;
        for index in blocks.n_preexisting..blocks.len() as u32 {
            let (made, gone) = (
                blocks.alloc[index as usize],
                blocks.free_requested[index as usize],
            );
            let pass = backward.partition_point(|&start| start <= made);
            let until = backward.get(pass).copied().unwrap_or(event.0);
            let waits_then = made < until && until <= gone;
            if waits_then && categories.found(BlockIdx(index)) == Category::Activation {
                waits[pass] += blocks.kind(BlockIdx(index)).size;
            }
        }
        let bytes = waits.pop().unwrap_or_default();
        let usual = waits.into_iter().max();
        Saved { bytes, usual }
    }

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
    use crate::phases::program::{MODULE, Program, TENSOR};
    use crate::trace::Trace;

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
            let end = EventIdx(device.events.len());
            let found = Saved::at(device, (&categories, &phases), end);
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
