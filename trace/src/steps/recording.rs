//! What a recording holds: a loop, one pass, a model being loaded.
//!
//! Half of the snapshots that people publish are a single pass. A pass has no steps and no verdict;
//! its page says what it is.

use super::choices::memory_needed;
use super::frames::Work;
use super::loops::Analysis;
use super::word::Word;
use super::work;
use crate::categories::{Categories, Category};
use crate::oom;
use crate::span::Span;
use crate::stacks::{StackIdx, Stacks};
use crate::trace::{Action, BlockIdx, DeviceTrace, Series, SeriesSummary};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};
use serde::{Deserialize, Serialize};

/// A recording of a model being loaded has at least this share of such allocations.
const LOADS: f64 = 0.8;
/// This share of the peak must wait for a backward pass to be mentioned.
const WAITS: f64 = 0.1;
/// So much of what a pass adds to the memory at its peak may stay where all of it is said to go.
const STAYS: f64 = 0.05;

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
    /// A backward pass and a step of the optimizer: the forward pass before was lost.
    StepEnd,
    /// A whole step, and the optimizer makes its state.
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
            Kind::StepEnd => Some("the end of one step"),
            Kind::FirstOptimizerStep => Some("one whole step, the first"),
            Kind::ModelLoading => Some("a model being loaded"),
            Kind::StateOnly => Some("state only"),
            Kind::Empty => Some("empty"),
            Kind::Loop | Kind::Unknown => None,
        }
    }

    /// All of them.
    pub const ALL: [Kind; 11] = [
        Kind::Loop,
        Kind::ForwardPass,
        Kind::ForwardThenDump,
        Kind::ForwardBackward,
        Kind::WholeStep,
        Kind::StepEnd,
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
            Kind::StepEnd => "step_end",
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
    Watch::undisturbed(|watch| of_device_while(device, stacks, watch))
}

/// The same, with a `watch` that may stop it.
///
/// # Errors
/// [`Stopped`].
pub fn of_device_while(
    device: &DeviceTrace,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<Recording, Stopped> {
    let (kind, sentence) = described(device, stacks, watch)?;
    Ok(Recording { kind, sentence })
}

fn described(
    device: &DeviceTrace,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<(Kind, String), Stopped> {
    let allocs = device.blocks.made().len();
    let level = device.summary[Series::Allocated as usize];
    if allocs == 0 && device.events.len() <= 1 {
        return Ok(match level.end {
            Bytes::ZERO => (Kind::Empty, "nothing is recorded".to_owned()),
            end => (
                Kind::StateOnly,
                format!("only the state at the end: {end}, without history"),
            ),
        });
    }
    if device.steps.len() > 1 {
        let word = Word::of(&device.steps);
        return Ok((Kind::Loop, word.counted(device.steps.len())));
    }
    let most = memory_needed(device, stacks);
    let told = watch.within(most, |watch| {
        let analysis = Analysis::new(device, stacks, watch)?;
        analysis
            .map(|analysis| pass(&analysis, stacks, watch))
            .transpose()
    })?;
    Ok(told.flatten().unwrap_or_else(|| {
        let sentence = "no steps, and no stacks that say what was done";
        (Kind::Unknown, sentence.to_owned())
    }))
}

/// What a recording without a loop holds, by the work that its stacks show.
fn pass(
    analysis: &Analysis<'_>,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<(Kind, String), Stopped> {
    let device = analysis.device;
    let allocs = device.blocks.made().len();
    let kept = kept(analysis, stacks);
    let total = analysis.total;
    let level = device.summary[Series::Allocated as usize];
    let peak = level.peak.0 as f64;
    // A large model whose first pass fails allocates little else.
    let fails_later = matches!(
        failed(analysis, stacks),
        Some(Work::Forward | Work::Backward)
    );
    if f64::from(analysis.total.setup) >= LOADS * allocs as f64 && !fails_later {
        let sentence = format!("a model is made or loaded: {} stay", Bytes(kept.any));
        return Ok((Kind::ModelLoading, sentence));
    }
    Ok(
        match (total.forward > 0, total.backward > 0, total.optimizer > 0) {
            (_, true, true) if kept.optimizer as f64 >= WAITS * peak => {
                let state = Bytes(kept.optimizer);
                let sentence = format!(
                    "one whole step: forward, backward and the optimizer's first step, which keeps \
                 {state} as its state"
                );
                (Kind::FirstOptimizerStep, sentence)
            }
            (false, backward, true) if begins_late(analysis) => {
                let before = if backward { "backward, " } else { "" };
                (
                    Kind::StepEnd,
                    format!("the end of one step: {before}optimizer"),
                )
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
                let much = Bytes((WAITS * peak) as u64);
                forward_that_keeps(device, stacks, (Bytes(kept.forward), much), watch)?
            }
            // What is given back then is given back by the exception.
            (true, false, _) if device.events.action.contains(&Action::Oom) => {
                let sentence = "one forward pass, which runs out of memory";
                (Kind::ForwardPass, sentence.to_owned())
            }
            (true, false, _) => (Kind::ForwardPass, one_forward(Bytes(kept.any), level)),
            (false, false, _) => {
                let sentence = "no steps: no loop is seen that covers the recording";
                (Kind::Unknown, sentence.to_owned())
            }
        },
    )
}

/// A forward pass that waits for nothing, of which so much stays.
fn one_forward(stays: Bytes, level: SeriesSummary) -> String {
    let risen = level.peak.saturating_sub(level.start);
    match stays > Bytes::ZERO && stays.0 as f64 >= STAYS * risen.0 as f64 {
        true => format!("one forward pass: {stays} of what it allocates stay"),
        false => "one forward pass: what it allocates is given back".to_owned(),
    }
}

/// What the first allocation that failed was part of. If its stack was not recorded, it was what
/// the one before it was.
fn failed(analysis: &Analysis<'_>, stacks: &Stacks) -> Option<Work> {
    let failure = oom::first(analysis.device)?;
    let blocks = &analysis.device.blocks;
    let before = blocks.allocated_in(Span::new(EventIdx(0), failure.event));
    let before = before
        .last()
        .map(|at| blocks.kind(BlockIdx(at)).alloc_stack);
    let recorded = Some(failure.stack).filter(|&stack| stack != StackIdx::NONE);
    let stack = recorded.or(before)?;
    Some(work::at_stack(stacks, &analysis.frames, stack))
}

/// Whether the recording begins after the forward pass: its first allocation is of the backward
/// pass or of the optimizer.
fn begins_late(analysis: &Analysis<'_>) -> bool {
    let blocks = &analysis.device.blocks;
    let first = blocks.made_kinds().first();
    let work = first.map(|kind| analysis.works.of_kind[kind.index()]);
    matches!(work, Some(Work::Backward | Work::Optimizer))
}

/// A forward pass without a backward pass, much of which stays. Whether that waits for a backward
/// pass, the categories say: what they do not call an activation is not called one here.
fn forward_that_keeps(
    device: &DeviceTrace,
    stacks: &Stacks,
    (stays, much): (Bytes, Bytes),
    watch: Watch<'_>,
) -> Result<(Kind, String), Stopped> {
    let categories = Categories::of_while(device, stacks, watch)?;
    let is_activation = |&at: &usize| categories.found(BlockIdx(at as u32)) == Category::Activation;
    let size = |at: usize| device.blocks.kind(BlockIdx(at as u32)).size;
    let waits: Bytes = staying(device).filter(is_activation).map(size).sum();
    Ok(match waits >= much {
        true => {
            let sentence =
                format!("one forward pass: {waits} of activations wait for their backward");
            (Kind::ForwardThenDump, sentence)
        }
        false => {
            let sentence = format!("one forward pass: {stays} of what it allocates stay");
            (Kind::ForwardPass, sentence)
        }
    })
}

/// The blocks that were allocated in the recording and are alive at its end.
fn staying(device: &DeviceTrace) -> impl Iterator<Item = usize> + '_ {
    let (blocks, n) = (&device.blocks, device.events.len());
    let made = blocks.made().map(|block| block as usize);
    made.filter(move |&at| blocks.free_requested[at] >= n)
}

/// Bytes that were allocated in the recording and are alive at its end. An optimizer that makes its
/// state anew in each step gives back what it had before: that much is not counted.
fn kept(analysis: &Analysis<'_>, stacks: &Stacks) -> Kept {
    let blocks = &analysis.device.blocks;
    let mut kept = Kept::default();
    for index in staying(analysis.device) {
        let kind = blocks.kind[index].index();
        let size = blocks.kinds[kind].size.0;
        kept.any += size;
        match analysis.works.of_kind[kind] {
            Work::Forward => kept.forward += size,
            Work::Optimizer => kept.optimizer += size,
            _ => {}
        }
    }
    let from_before = &blocks.kind[..blocks.n_preexisting as usize];
    let replaced = from_before.iter().map(|kind| &blocks.kinds[kind.index()]);
    let replaced = replaced.filter(|kind| {
        let free = kind.free_stack;
        free != StackIdx::NONE && analysis.frames.work(stacks, free) == Work::Optimizer
    });
    let replaced: u64 = replaced.map(|kind| kind.size.0).sum();
    kept.optimizer = kept.optimizer.saturating_sub(replaced);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::program::{ADAM, MODULE, Program};

    /// A forward pass of this many blocks, of which every `keeps`th stays.
    fn forward(n: u32, keeps: u32) -> (Kind, String, Bytes) {
        let mut p = Program::default();
        for at in 0..n {
            let call = format!("_call_impl {MODULE}:1");
            let line = format!("forward net.py:{at}");
            let block = p.alloc(2048, &["<module> train.py:9", &call, &line]);
            if at % keeps != 0 {
                p.free(block);
            }
        }
        let trace = p.finish();
        let (device, stacks) = (&trace.devices[0], &trace.stacks);
        let held = Categories::of(device, stacks).alive(device, Some(last(device)));
        let Recording { kind, sentence } = of_device(device, stacks);
        (kind, sentence, held.get(Category::Activation))
    }

    #[test]
    fn what_an_exception_gives_back_was_not_given_back_by_the_pass() {
        let mut p = Program::default();
        let call = format!("_call_impl {MODULE}:1");
        let frames = ["<module> train.py:9", &call, "forward net.py:1"];
        let blocks = [0; 8].map(|_| p.alloc(2048, &frames));
        p.builder.out_of_memory(Bytes(4096));
        blocks.into_iter().for_each(|block| p.free(block));
        let trace = p.finish();
        let Recording { kind, sentence } = of_device(&trace.devices[0], &trace.stacks);
        let expected = "one forward pass, which runs out of memory";
        assert_eq!((kind, sentence.as_str()), (Kind::ForwardPass, expected));
    }

    /// A large model allocates little in the pass that fails.
    #[test]
    fn a_pass_that_fails_is_no_model_that_is_loaded() {
        let check = |passes: u32, expected| {
            let mut p = Program::default();
            for at in 0..40 {
                let line = format!("__init__ net.py:{at}");
                p.alloc(2048, &["<module> train.py:3", &line]);
            }
            let call = format!("_call_impl {MODULE}:1");
            for _ in 0..passes {
                p.alloc(2048, &["<module> train.py:9", &call, "forward net.py:50"]);
            }
            p.builder.out_of_memory(Bytes(4096));
            let trace = p.finish();
            assert_eq!(of_device(&trace.devices[0], &trace.stacks).kind, expected);
        };
        check(0, Kind::ModelLoading);
        check(2, Kind::ForwardPass);
    }

    fn last(device: &DeviceTrace) -> crate::units::EventIdx {
        crate::units::EventIdx(device.events.len() - 1)
    }

    /// The table of categories stands right below the sentence.
    #[test]
    fn what_is_called_an_activation_has_that_category() {
        for (n, keeps) in [(9, 1), (9, 2), (40, 5), (40, 8), (40, 9), (40, 40)] {
            let (kind, sentence, activations) = forward(n, keeps);
            let claims = sentence.contains("activations");
            assert_eq!(
                claims,
                kind == Kind::ForwardThenDump,
                "{n}, {keeps}: {sentence}"
            );
            match activations {
                Bytes::ZERO => assert!(!claims, "{n}, {keeps}: {sentence}"),
                held => assert!(sentence.contains(&held.to_string()), "{held}: {sentence}"),
            }
        }
        // What stays need not be made by a module.
        let mut p = Program::default();
        let call = format!("_call_impl {MODULE}:1");
        for bytes in [8192, 8192] {
            let block = p.alloc(bytes, &["<module> train.py:9", &call, "forward net.py:1"]);
            p.free(block);
        }
        p.alloc(4096, &["<module> train.py:10"]);
        let trace = p.finish();
        let told = of_device(&trace.devices[0], &trace.stacks).sentence;
        assert_eq!(told, "one forward pass: 4.00 KiB of what it allocates stay");
        let (kind, sentence, _) = forward(40, 9);
        assert_eq!(kind, Kind::ForwardPass);
        assert_eq!(
            sentence,
            "one forward pass: 10.0 KiB of what it allocates stay"
        );
    }

    /// A forward pass, a backward pass and a step of AdamW by hand, which keeps new state and gives
    /// back what it had before.
    #[test]
    fn state_that_replaces_older_state_is_not_of_the_first_step() {
        let check = |gives_back: u32, expected| {
            let mut p = Program::default();
            let adam = p.stack(&["<module> train.py:11", &format!("step {ADAM}:20")]);
            for _ in 0..gives_back {
                p.builder.preexisting(crate::trace::BlockKind {
                    free_stack: adam,
                    ..crate::testing::block_of(Bytes(2048))
                });
            }
            let call = format!("_call_impl {MODULE}:1");
            p.alloc(2048, &["<module> train.py:9", &call, "forward net.py:1"]);
            p.alloc(2048, &[]);
            for _ in 0..4 {
                p.alloc(2048, &["<module> train.py:11", &format!("step {ADAM}:20")]);
            }
            for block in 0..gives_back {
                p.free(BlockIdx(block));
            }
            let trace = p.finish();
            assert_eq!(of_device(&trace.devices[0], &trace.stacks).kind, expected);
        };
        check(0, Kind::FirstOptimizerStep);
        check(4, Kind::WholeStep);
    }

    #[test]
    fn a_ring_that_lost_the_forward_pass_holds_the_end_of_a_step() {
        let check = |(forward, backward): (u32, u32), expected| {
            let mut p = Program::default();
            for line in 0..forward {
                let call = format!("_call_impl {MODULE}:1");
                let line = format!("forward net.py:{line}");
                p.alloc(2048, &["<module> train.py:9", &call, &line]);
            }
            for _ in 0..backward {
                // It has no Python stack.
                p.alloc(2048, &[]);
            }
            let adam = format!("step {ADAM}:20");
            for _ in 0..4 {
                let block = p.alloc(2048, &["<module> train.py:11", &adam]);
                p.free(block);
            }
            let trace = p.finish();
            let Recording { kind, sentence } = of_device(&trace.devices[0], &trace.stacks);
            assert_eq!((kind, sentence.as_str()), expected);
        };
        let end = "the end of one step: optimizer";
        let whole = "one whole step: forward, backward, optimizer";
        check((4, 1), (Kind::WholeStep, whole));
        let with_backward = "the end of one step: backward, optimizer";
        check((0, 1), (Kind::StepEnd, with_backward));
        check((0, 0), (Kind::StepEnd, end));
    }
}
