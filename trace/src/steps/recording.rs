//! What a recording holds: a loop, one pass, a model being loaded.
//!
//! Half of the snapshots that people publish are a single pass. A pass has no steps and no verdict;
//! its page says what it is.

use super::choose::Analysis;
use super::frames::Work;
use super::levels::memory_needed;
use crate::stacks::Stacks;
use crate::trace::{DeviceTrace, Series};
use crate::units::Bytes;
use crate::watch::Watch;
use serde::{Deserialize, Serialize};

/// A recording of a model being loaded has at least this share of such allocations.
const LOADS: f64 = 0.8;
/// This share of the peak must wait for a backward pass to be mentioned.
const WAITS: f64 = 0.1;

/// What a recording holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Kind {
    /// Iterations of a loop.
    Loop,
    /// One forward pass.
    ForwardPass,
    /// One forward pass that a backward pass was to follow.
    ForwardThenDump,
    /// One forward and one backward pass.
    ForwardBackward,
    /// One forward pass, backward pass and step of the optimizer.
    WholeStep,
    /// The same, and the optimizer makes its state.
    FirstOptimizerStep,
    /// A model is made or loaded.
    ModelLoading,
    /// What is allocated, and no history.
    StateOnly,
    /// Nothing.
    Empty,
    /// Neither steps nor stacks that say more.
    Unknown,
}

impl Kind {
    /// Whether it is a part of a program's work without a loop: then leaks cannot be judged.
    pub const fn is_pass(self) -> bool {
        self.word().is_some()
    }

    /// In a word or two; `None` for a loop and for an unknown recording.
    pub const fn word(self) -> Option<&'static str> {
        match self {
            Kind::ForwardPass | Kind::ForwardThenDump => Some("one forward pass"),
            Kind::ForwardBackward => Some("one forward and backward pass"),
            Kind::WholeStep => Some("one whole step"),
            Kind::FirstOptimizerStep => Some("one whole step, the first"),
            Kind::ModelLoading => Some("a model being loaded"),
            Kind::StateOnly => Some("state only"),
            Kind::Empty => Some("empty"),
            Kind::Loop | Kind::Unknown => None,
        }
    }

    /// All of them.
    pub const ALL: [Kind; 10] = [
        Kind::Loop,
        Kind::ForwardPass,
        Kind::ForwardThenDump,
        Kind::ForwardBackward,
        Kind::WholeStep,
        Kind::FirstOptimizerStep,
        Kind::ModelLoading,
        Kind::StateOnly,
        Kind::Empty,
        Kind::Unknown,
    ];

    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Loop => "loop",
            Kind::ForwardPass => "forward_pass",
            Kind::ForwardThenDump => "forward_then_dump",
            Kind::ForwardBackward => "forward_backward",
            Kind::WholeStep => "whole_step",
            Kind::FirstOptimizerStep => "first_optimizer_step",
            Kind::ModelLoading => "model_loading",
            Kind::StateOnly => "state_only",
            Kind::Empty => "empty",
            Kind::Unknown => "unknown",
        }
    }
}

/// What a recording holds, in a sentence too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Recording {
    /// What it is.
    pub kind: Kind,
    /// The same for a person.
    pub sentence: String,
}

/// Bytes, by what allocated them.
#[derive(Default)]
struct Kept {
    forward: u64,
    optimizer: u64,
    any: u64,
}

/// What the recording of a device holds.
pub fn of_device(device: &DeviceTrace, stacks: &Stacks) -> Recording {
    let (kind, sentence) = described(device, stacks);
    Recording { kind, sentence }
}

fn described(device: &DeviceTrace, stacks: &Stacks) -> (Kind, String) {
    let allocs = device.blocks.len() - device.blocks.n_preexisting as usize;
    let level = device.summary[Series::Allocated as usize];
    if allocs == 0 && device.events.len() <= 1 {
        return match level.end {
            Bytes::ZERO => (Kind::Empty, "nothing is recorded".to_owned()),
            end => (
                Kind::StateOnly,
                format!("only the state at the end: {end}, without history"),
            ),
        };
    }
    if device.steps.len() > 1 {
        return (Kind::Loop, format!("{} steps", device.steps.len()));
    }
    let most = memory_needed(device, stacks);
    let go_on = |bytes| bytes <= most;
    let Ok(Some(analysis)) = Analysis::new(device, stacks, Watch::new(&go_on)) else {
        let sentence = "no steps, and no stacks that say what was done";
        return (Kind::Unknown, sentence.to_owned());
    };
    let kept = kept(&analysis);
    let total = analysis.total;
    let peak = level.peak.0 as f64;
    if f64::from(analysis.setup) >= LOADS * allocs as f64 {
        let sentence = format!("a model is made or loaded: {} stay", Bytes(kept.any));
        return (Kind::ModelLoading, sentence);
    }
    match (total.forward > 0, total.backward > 0, total.optimizer > 0) {
        (_, true, true) if kept.optimizer as f64 >= WAITS * peak => {
            let state = Bytes(kept.optimizer);
            let sentence = format!(
                "one whole step: forward, backward and the optimizer's first step, which keeps \
                 {state} as its state"
            );
            (Kind::FirstOptimizerStep, sentence)
        }
        (_, true, true) => {
            let sentence = "one whole step: forward, backward, optimizer";
            (Kind::WholeStep, sentence.to_owned())
        }
        (_, true, false) => {
            let sentence = "one forward and one backward pass";
            (Kind::ForwardBackward, sentence.to_owned())
        }
        (true, false, _) if kept.forward as f64 >= WAITS * peak => {
            let waits = Bytes(kept.forward);
            let sentence =
                format!("one forward pass: {waits} of activations wait for their backward");
            (Kind::ForwardThenDump, sentence)
        }
        (true, false, _) => {
            let sentence = "one forward pass: what it allocates is given back";
            (Kind::ForwardPass, sentence.to_owned())
        }
        (false, false, _) => {
            let sentence = "no steps: no loop is seen that covers the recording";
            (Kind::Unknown, sentence.to_owned())
        }
    }
}

/// Bytes that were allocated in the recording and are alive at its end.
fn kept(analysis: &Analysis<'_>) -> Kept {
    let (blocks, n) = (&analysis.device.blocks, analysis.device.events.len());
    let mut kept = Kept::default();
    for index in blocks.n_preexisting as usize..blocks.len() {
        if blocks.free_requested[index] < n {
            continue;
        }
        let kind = blocks.kind[index].index();
        let size = blocks.kinds[kind].size.0;
        kept.any += size;
        match analysis.works.of_kind[kind] {
            Work::Forward => kept.forward += size,
            Work::Optimizer => kept.optimizer += size,
            _ => {}
        }
    }
    kept
}
