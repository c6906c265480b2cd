//! What is told of a device: the verdict, why, and what accumulates.

use crate::growth::Growth;
use crate::site::SiteKey;
use crate::stacks::{Frame, StackIdx, StrIdx};
use crate::steps::Word;
use crate::trace::BlockIdx;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Whether something leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Something grows with the steps.
    Leak,
    /// Nothing does.
    Clean,
    /// The data does not allow an answer; the reason says why.
    CannotTell,
}

/// How a group grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// In every step, or nearly.
    EveryStep,
    /// In every n-th step.
    EveryNth(u32),
    /// In each part of a step; what was kept is given back at the step's end.
    WithinStep,
    /// One buffer is replaced by a larger one again and again.
    Enlarged,
}

/// Growth that comes several times, then pauses, and then comes as often again, at the same
/// distances: what is kept in the first three of the six steps of each epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// How often it grows in one cycle.
    pub times: u32,
    /// How many periods a cycle has.
    pub periods: u32,
}

/// What the rate of a leak is counted by.
pub const fn rate_unit(within_step: bool) -> &'static str {
    match within_step {
        true => "a part of a step",
        false => "a step",
    }
}

/// The same for a device whose steps are called so: `a request`, `a part of a request`.
pub fn counted_by(within_step: bool, word: Word) -> String {
    match within_step {
        true => format!("a part of {}", word.a()),
        false => word.a(),
    }
}

/// When the bytes of a leak are alive that are told of it. At the end of the recording they may be
/// given back. `counted_by` is what its rate is counted by: `a step`, `a part of a step`.
pub fn alive_when(within_step: bool, counted_by: &str) -> String {
    let step = counted_by
        .split_once(' ')
        .map_or(counted_by, |(_, step)| step);
    match within_step {
        true => "after the last part".to_owned(),
        false => format!("at the end of the last whole {step}"),
    }
}

/// What memory does that leaks so fast; 0 if it grows within steps only.
pub fn in_words(bytes_per_step: Bytes, word: Word) -> String {
    match bytes_per_step {
        Bytes::ZERO => format!("leaks within each {}", word.one()),
        bytes => format!("leaks {bytes} {}", word.a()),
    }
}

/// Allocations of one site that accumulate.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakGroup {
    /// The site: equal in another trace of the same program.
    pub site: SiteKey,
    /// The stack that accounts for most of it ([`StackIdx::NONE`]: none was recorded).
    pub stack: StackIdx,
    /// The stacks that made what it keeps, ascending, if other lines of the site do not leak; if
    /// all of them may, `None`.
    pub lines: Option<Vec<StackIdx>>,
    /// The function that explains it best.
    pub frame: Option<Frame>,
    /// Whether `frame` is taken from the allocations beside it, since these have no stack.
    pub frame_inferred: bool,
    /// Where it was allocated: the innermost frame that a person would recognise.
    pub alloc_frame: Option<Frame>,
    /// How it grows.
    pub pattern: Pattern,
    /// If it grows within steps: the name of the scopes that are the parts of a step.
    pub scope: Option<StrIdx>,
    /// Whether it is optimizer state: why it stays, the weights say that leak with it.
    pub is_state: bool,
    /// Blocks added for each step (for each part, when it grows within steps).
    pub count_per_step: f64,
    /// Bytes added for each step (for each part, when it grows within steps).
    pub bytes_per_step: f64,
    /// Half of the 95 % interval of the slope of its level, bytes per step.
    pub slope_error: f64,
    /// Whether chance seems to decide when it grows: its rate is a mean.
    pub uneven: bool,
    /// Whether it grew faster at first: its rate is that of the settled steps.
    pub slowed: bool,
    /// How it comes and pauses, if it does so again and again.
    pub cycle: Option<Cycle>,
    /// Whether it gives back blocks, oldest first, but fewer than it adds.
    pub is_drained: bool,
    /// Per end, bytes from before the recording that it gives back later, if its rate is without
    /// them; else empty.
    pub older: Vec<Bytes>,
    /// How likely it goes on, from 0 to 1.
    pub confidence: f64,
    /// The first step (its position among the steps) that added to it.
    pub first_step: u32,
    /// The last one.
    pub last_step: u32,
    /// Blocks alive at the end of the last whole step.
    pub live_count: u64,
    /// How many of these are given back before the recording ends.
    pub given_back: u64,
    /// Whether these are all but those that it added last: the variables of a loop may hold them.
    pub all_end: bool,
    /// Bytes alive at the end of the last whole step.
    pub live_bytes: Bytes,
    /// Bytes alive at the end of each step.
    pub per_step: Vec<Bytes>,
    /// Blocks of the site that do not leak and are not counted: workspaces of libraries, and what
    /// was made once before the growth began.
    pub spared: Vec<BlockIdx>,
    /// The blocks, oldest first, at most [`super::MAX_EVIDENCE`]; `live_count` is the number of
    /// all.
    pub evidence: Vec<BlockIdx>,
}

impl LeakGroup {
    /// At the end of each step, what the site holds of what its rate is about: its own blocks, and
    /// older ones whose place these take.
    pub(super) fn levels(&self) -> impl Iterator<Item = Bytes> {
        let none = std::iter::repeat(&Bytes::ZERO);
        let both = self.per_step.iter().zip(self.older.iter().chain(none));
        both.map(|(own, older)| Bytes(own.0.saturating_add(older.0)))
    }

    /// Whether blocks of its site that have this stack are of the lines that leak.
    pub(super) fn has_line(&self, stack: StackIdx) -> bool {
        let lines = self.lines.as_deref();
        lines.is_none_or(|lines| lines.binary_search(&stack).is_ok())
    }

    /// Whether it grows within steps: then its rate is bytes a part of a step.
    pub fn is_within(&self) -> bool {
        self.pattern == Pattern::WithinStep
    }

    /// How often it has grown, by its rhythm.
    pub(super) fn growths_seen(&self) -> usize {
        let span = self.last_step - self.first_step;
        let times = match self.pattern {
            Pattern::EveryNth(n) => span / n.max(1),
            _ => span,
        };
        times as usize + 1
    }
}

/// Growth of *reserved* beyond what *allocated* needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedGrowth {
    /// How much, since when, and why: a sentence without its full stop.
    pub seen: String,
    /// What to do, as the end of such a sentence.
    pub advice: &'static str,
    /// Whether streams explain it: then no setting of the allocator changes it.
    pub by_streams: bool,
}

impl ReservedGrowth {
    /// What was seen and what to do, in one sentence without its full stop.
    pub fn sentence(&self) -> String {
        format!("{}; {}", self.seen, self.advice)
    }
}

/// What was found about one device.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakReport {
    /// The answer.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// What limits the answer, a sentence each.
    pub caveats: Vec<String>,
    /// What accumulates: first what does so from step to step, then what does within steps; of
    /// both, most bytes first, but optimizer state last.
    pub groups: Vec<LeakGroup>,
    /// Bytes that accumulate with each step, as [`Growth::proven`] gives it: the sum of all groups,
    /// less if they take turns, or more if something else makes the level rise too. 0 unless it
    /// leaks from step to step.
    pub bytes_per_step: f64,
    /// Growth of *allocated* at the ends of whole steps. If something leaks from step to step, its
    /// slope is `bytes_per_step`.
    pub growth: Option<Growth>,
    /// Growth of *reserved* that *allocated* does not need; it is no part of the verdict.
    pub reserved_growth: Option<ReservedGrowth>,
}

impl LeakReport {
    /// The leak that is told where only one is: the fastest from step to step that is no optimizer
    /// state, or within steps if nothing outlives its step. Its rate, its unit and its place belong
    /// together.
    pub fn told(&self) -> Option<&LeakGroup> {
        self.groups.first()
    }

    /// How fast everything accumulates that is counted as [`LeakReport::told`] is.
    pub fn rate(&self) -> f64 {
        match self.told().is_some_and(LeakGroup::is_within) {
            true => self.groups.iter().map(|group| group.bytes_per_step).sum(),
            false => self.bytes_per_step,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_leak_is_alive_when_its_last_step_ends() {
        let when = |word| alive_when(false, &counted_by(false, word));
        assert_eq!(when(Word::Step), "at the end of the last whole step");
        assert_eq!(when(Word::Epoch), "at the end of the last whole epoch");
        let many = "at the end of the last whole denoising step";
        assert_eq!(when(Word::DenoisingStep), many);
        let within = alive_when(true, &counted_by(true, Word::Step));
        assert_eq!(within, "after the last part");
    }
}
