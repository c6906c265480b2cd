//! How much the work in which memory ran out would have needed in all, as far as the work before
//! shows it.
//!
//! In training that is a pass: from its first forward code to the end of its backward code. Passes
//! need the same again and again, above what they find. So the least that one of them needed above
//! that, and what the failed one found, is less than the failed one needed, if it is like any of
//! them. Without a backward pass it is a step; the first one is left out, in which a program makes
//! much that it makes once.

use crate::categories::{self, Categories, Category};
use crate::phases::{Phase, Phases};
use crate::span::Span;
use crate::trace::{DeviceTrace, Series};
use crate::units::{Bytes, EventIdx};

/// What the work in which an allocation failed would have needed at its peak; `None` if nothing
/// like it was recorded before.
pub fn of(
    device: &DeviceTrace,
    (categories, phases): (&Categories, &Phases),
    failed: EventIdx,
) -> Option<Bytes> {
    let (before, start) = match phases.has(Phase::Backward) {
        true => passes(phases, failed)?,
        false => steps(device, failed)?,
    };
    let found = |event: EventIdx| device.levels_before(event).get(Series::Allocated);
    let above = |span: &Span<EventIdx>| {
        let peak = device.allocated_peak(*span);
        peak.saturating_sub(found(span.start()))
    };
    let least = before.iter().map(above).min()?;
    // The first pass made the gradients that this one may find.
    let gradients = match before.len() {
        1 => gradients(device, categories, start),
        _ => Bytes::ZERO,
    };
    Some((found(start) + least).saturating_sub(gradients))
}

/// The passes that ran to the end of their backward code, and where the one begins that failed.
fn passes(phases: &Phases, failed: EventIdx) -> Option<(Vec<Span<EventIdx>>, EventIdx)> {
    let mut whole = Vec::new();
    let mut start = None;
    let mut back_until = None;
    let spans = phases.spans().iter();
    for span in spans.filter(|span| span.events.start() <= failed) {
        match (span.phase, start, back_until) {
            (Phase::Forward, Some(from), Some(until)) => {
                whole.push(Span::new(from, until));
                (start, back_until) = (Some(span.events.start()), None);
            }
            (Phase::Forward, None, _) => start = Some(span.events.start()),
            (Phase::Backward, Some(_), _) => back_until = Some(span.events.end()),
            _ => {}
        }
    }
    let is_within = matches!(phases.at(failed), Phase::Forward | Phase::Backward);
    Some((whole, start?)).filter(|_| is_within)
}

/// The steps that ran to their end, without the first, and where the one begins that failed.
fn steps(device: &DeviceTrace, failed: EventIdx) -> Option<(Vec<Span<EventIdx>>, EventIdx)> {
    let spans = device.steps.iter().map(|step| step.events);
    let whole: Vec<_> = spans.filter(|span| span.end() <= failed).collect();
    // A step that was cut off is none.
    let start = whole.last()?.end();
    Some((whole[1..].to_vec(), start))
}

fn gradients(device: &DeviceTrace, categories: &Categories, at: EventIdx) -> Bytes {
    let alive = categories::alive(device, Some(at));
    let gradients = alive.filter(|block| categories.found(*block) == Category::Gradient);
    gradients.map(|block| device.blocks.kind(block).size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::program::{ADAM, MODULE, Program, TENSOR};

    const MIB: u64 = 1 << 20;

    /// Passes of these many MiB, the last of which fails in its forward code after 1 MiB; 10 MiB
    /// are there, and an optimizer keeps 4 MiB after the first pass.
    fn recorded(passes: &[u64]) -> Option<Bytes> {
        let mut p = Program::default();
        let module = format!("_call_impl {MODULE}:1");
        let forward = ["main t.py:4", &module, "forward net.py:3"];
        let backward = ["main t.py:5", &format!("backward {TENSOR}:5")];
        p.alloc(10 * MIB, &["main t.py:1"]);
        for (at, pass) in passes.iter().enumerate() {
            let saved = p.alloc(pass * MIB, &forward);
            p.alloc(512, &backward);
            let gradient = p.alloc(MIB, &[]);
            p.free(saved);
            p.free(gradient);
            if at == 0 {
                p.alloc(4 * MIB, &["main t.py:6", &format!("step {ADAM}:7")]);
            }
        }
        p.alloc(MIB, &forward);
        p.builder.out_of_memory(Bytes::mib(40));
        let trace = p.finish();
        let device = &trace.devices[0];
        let phases = Phases::of(device, &trace.stacks);
        let categories = Categories::of(device, &trace.stacks);
        let failed = crate::oom::first(device).expect("a failure");
        of(device, (&categories, &phases), failed.event)
    }

    #[test]
    fn a_pass_needs_what_the_passes_before_needed() {
        let check = |passes: &[u64], mib: Option<u64>| {
            let need = recorded(passes).map(|need| need.0 / MIB);
            assert_eq!(need, mib, "{passes:?}");
        };
        // What a pass saves, the gradient beside it, and what is there.
        check(&[20], Some(20 + 1 + 14));
        check(&[20, 20, 20], Some(20 + 1 + 14));
        // Passes of other sizes show what the smallest needs.
        check(&[20, 30, 25], Some(20 + 1 + 14));
        check(&[], None);
    }
}
