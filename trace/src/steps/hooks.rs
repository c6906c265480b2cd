//! Optimizers that step within the backward pass, one for each parameter.
//!
//! A hook of each parameter calls its optimizer as soon as there is a gradient, so that no
//! gradients have to be kept. Then there are as many scopes in a step as there are parameters.
//! Memory shows it: what the forward pass saves waits through several of these scopes. Where an
//! optimizer steps after the backward pass, next to nothing of that is left.

use super::MIN_STEPS;
use crate::median;
use crate::span::Span;
use crate::trace::{Action, DeviceTrace};
use crate::units::EventIdx;

/// So much of what is allocated before the first scope of a step waits for the third one.
const WAITS: f64 = 0.3;
/// So many times a usual gap between two scopes of a step is shorter than that between two steps.
const SHORTER: u32 = 4;
/// A step has so many scopes, or more.
const FEWEST: usize = 3;

/// Scopes with their names, where those of one backward pass are joined. Those that ended before
/// the first event are then left out.
pub fn joined<'a>(
    device: &DeviceTrace,
    scopes: Vec<(Span<EventIdx>, &'a str)>,
) -> Vec<(Span<EventIdx>, &'a str)> {
    let lost = scopes.partition_point(|(events, _)| events.end() == EventIdx(0));
    let recorded: Vec<Span<EventIdx>> = scopes[lost..].iter().map(|(events, _)| *events).collect();
    let Some(firsts) = first_of_each(device, &recorded) else {
        return scopes;
    };
    let ends = firsts.iter().skip(1).copied().chain([recorded.len()]);
    let steps = firsts.iter().zip(ends).map(|(&first, end)| {
        let events = Span::new(recorded[first].start(), recorded[end - 1].end());
        (events, scopes[lost + first].1)
    });
    steps.collect()
}

/// The first scope of each step; `None` if the scopes are not parts of backward passes.
fn first_of_each(device: &DeviceTrace, scopes: &[Span<EventIdx>]) -> Option<Vec<usize>> {
    let gaps = Gaps::new(device, scopes)?;
    let usual = median::upper(gaps.made.iter().copied())?;
    let long = usual.max(1).saturating_mul(SHORTER);
    let begins = |&at: &usize| gaps.made[at] >= long && gaps.wait(at);
    let mut firsts: Vec<usize> = (1..scopes.len()).filter(begins).collect();
    let lengths: Vec<usize> = firsts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let length = *lengths.first()?;
    let are_equal = lengths.iter().all(|&one| one == length) && length >= FEWEST;
    // A ring may begin within a step, and a recording may end in one.
    let before = firsts[0];
    let after = scopes.len() - firsts[firsts.len() - 1];
    let are_parts = before <= length && after <= length;
    firsts.insert(0, 0);
    (are_equal && are_parts && firsts.len() >= MIN_STEPS).then_some(firsts)
}

/// What is allocated before each scope, since the one before it.
struct Gaps {
    /// Blocks.
    made: Vec<u32>,
    /// Those of them that are given back only after the next scope, too.
    waits: Vec<u32>,
}

impl Gaps {
    fn new(device: &DeviceTrace, scopes: &[Span<EventIdx>]) -> Option<Gaps> {
        if scopes.len() < FEWEST * MIN_STEPS {
            return None;
        }
        let (mut made, mut waits) = (vec![0; scopes.len()], vec![0; scopes.len()]);
        let (blocks, events) = (&device.blocks, &device.events);
        for at in 0..events.len() {
            if events.action[at as usize] != Action::Alloc {
                continue;
            }
            let next = scopes.partition_point(|scope| scope.start().0 <= at);
            let is_inside = next > 0 && scopes[next - 1].end().0 > at;
            if next == scopes.len() || is_inside {
                continue;
            }
            made[next] += 1;
            let gone = blocks.free_requested[events.target[at as usize] as usize];
            let after = scopes.get(next + 1).map(|scope| scope.end().0);
            let waited = after.is_some_and(|end| (end..events.len()).contains(&gone));
            waits[next] += u32::from(waited);
        }
        Some(Gaps { made, waits })
    }

    /// Whether a forward pass lies before a scope: much of what it saves waits.
    fn wait(&self, at: usize) -> bool {
        f64::from(self.waits[at]) >= WAITS * f64::from(self.made[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TraceBuilder, block_of};
    use crate::trace::BlockIdx;
    use crate::units::Bytes;

    /// Each step saves blocks. Its backward pass makes a gradient for each of five layers, calls an
    /// optimizer, and gives back all saved blocks but so many for each layer that is left.
    fn check(waits: usize, first_layer: usize, expected: usize) {
        let mut builder = TraceBuilder::default();
        let (mut scopes, mut events) = (Vec::new(), 0);
        for step in 0..6 {
            let saved = if step == 0 { 5 * first_layer } else { 20 };
            let mut saved: Vec<BlockIdx> = (0..saved)
                .map(|_| builder.alloc(block_of(Bytes(4096))))
                .collect();
            events += saved.len() as u32;
            let layers = if step == 0 { first_layer } else { 5 };
            for left in (0..layers).rev() {
                let gradient = builder.alloc(block_of(Bytes(4096)));
                builder.mark();
                let scope = Span::new(EventIdx(events + 1), EventIdx(events + 2));
                scopes.push((scope, "Optimizer.step#SGD.step"));
                let gone = saved.split_off((left * waits).min(saved.len()));
                events += 2 + 2 * (gone.len() as u32 + 1);
                for block in gone.into_iter().chain([gradient]) {
                    builder.free_requested(block);
                    builder.free_completed(block);
                }
            }
        }
        let trace = builder.finish();
        assert_eq!(joined(&trace.devices[0], scopes).len(), expected);
    }

    #[test]
    fn optimizers_that_step_in_one_backward_pass_make_one_step() {
        check(4, 5, 6);
        // The recording begins within a step.
        check(4, 2, 6);
    }

    #[test]
    fn where_nothing_waits_each_optimizer_makes_a_step() {
        check(0, 5, 30);
    }
}
