//! Steps from the scopes of an optimizer: each up to the end of one, which ends the cycle.

use super::super::loops::has_graph;
use super::super::{MAX_STEPS, STEP_NAME, hooks, skipped};
use super::families::Family;
use crate::clip::clipped;
use crate::span::Span;
use crate::trace::{Action, DeviceTrace, Step};
use crate::units::EventIdx;

/// So many times the longest gap between an optimizer's steps is longer than a step, if forward and
/// backward passes lie in the gaps.
const MUCH_IN_A_GAP: u32 = 10;

/// Makes a step up to the end of each optimizer step, including what belongs directly to it: the
/// following scopes without an allocation in between (`Optimizer.zero_grad`), and the frees after
/// them. An iteration whose optimizer's step was left out is a step, too.
pub(super) fn up_to_each(
    device: &DeviceTrace,
    family: &Family<'_>,
    clears: Option<&Family<'_>>,
) -> Vec<Step> {
    let scopes = hooks::joined(device, runs(device, family));
    let mut skipped = left_out(device, &scopes, family, clears)
        .into_iter()
        .peekable();
    let mut steps: Vec<Step> = Vec::new();
    let (mut start, mut index) = (EventIdx(0), 0);
    for (at, &(scope, name)) in scopes.iter().enumerate() {
        let limit = match scopes.get(at + 1) {
            Some((next, _)) => next.start(),
            None => EventIdx(device.events.len()),
        };
        let end = tail(device, scope.end(), limit).max(start);
        let within = std::iter::from_fn(|| skipped.next_if(|&begin| begin < end));
        for end in within.chain([end]) {
            // Optimizer steps from before the first event keep their number. Frees that follow the
            // last of them are no step.
            if scope.end() > EventIdx(0) && steps.len() < MAX_STEPS {
                let name = name.trim_start_matches("Optimizer.");
                let name = clipped(name, STEP_NAME - "4294967295 ".len());
                steps.push(Step {
                    index,
                    name: format!("{name} {index}"),
                    events: Span::new(start, end),
                });
            }
            (start, index) = (end, index + 1);
        }
    }
    steps
}

/// Where iterations begin that follow one without an optimizer's step. There are none if several
/// scopes are one step.
fn left_out(
    device: &DeviceTrace,
    scopes: &[(Span<EventIdx>, &str)],
    family: &Family<'_>,
    clears: Option<&Family<'_>>,
) -> Vec<EventIdx> {
    let Some(clears) = clears.filter(|_| scopes.len() == family.scopes.len()) else {
        return Vec::new();
    };
    let steps: Vec<Span<EventIdx>> = scopes.iter().map(|(events, _)| *events).collect();
    let clears: Vec<Span<EventIdx>> = clears.scopes.iter().map(|scope| scope.events).collect();
    skipped::begins(device, &steps, &clears)
}

/// The scopes, where scopes that follow each other directly are joined: two optimizers of one class
/// step one after the other. If the gaps hold next to nothing, the optimizer calls the program (as
/// L-BFGS does), and each scope is a step. The replay of a CUDA graph allocates nothing, so where
/// one was captured, the batch that a gap makes shows that it is one.
fn runs<'a>(device: &DeviceTrace, family: &Family<'a>) -> Vec<(Span<EventIdx>, &'a str)> {
    let replays = has_graph(device);
    let between = |from: EventIdx, to: EventIdx| to.0.saturating_sub(from.0);
    let most = |counts: &mut dyn Iterator<Item = u32>| counts.max().unwrap_or(0);
    let pairs = family.scopes.windows(2);
    let mut gaps = pairs.map(|w| between(w[0].events.end(), w[1].events.start()));
    let longest = most(&mut gaps);
    let mut lengths = family
        .scopes
        .iter()
        .map(|s| between(s.events.start(), s.events.end()));
    let works_between = longest.saturating_mul(MUCH_IN_A_GAP) >= most(&mut lengths);
    let mut runs: Vec<(Span<EventIdx>, &'a str)> = Vec::new();
    for scope in &family.scopes {
        let events = scope.events;
        match runs.last_mut() {
            // A forward and a backward pass would take far more events than this gap.
            Some((last, _))
                if works_between
                    && between(last.end(), events.start()) * 20 < longest
                    && !(replays && tail(device, last.end(), events.start()) < events.start()) =>
            {
                *last = Span::new(last.start(), events.end().max(last.end()));
            }
            _ => runs.push((events, scope.name)),
        }
    }
    runs
}

/// The first allocation from `from` on.
fn tail(device: &DeviceTrace, from: EventIdx, limit: EventIdx) -> EventIdx {
    let mut end = from;
    while end < limit && device.events.action[end.index()] != Action::Alloc {
        end = EventIdx(end.0 + 1);
    }
    end
}
