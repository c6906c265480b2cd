//! What a recording holds.

use api::contents::{CategoryBytes, Contents, Held, PhaseMark};
use std::collections::HashMap;
use trace::categories::{self, Categories};
use trace::phases::{Phase, Phases};
use trace::span::Span;
use trace::stacks::Stacks;
use trace::steps::{levels, recording};
use trace::trace::{DeviceTrace, PINNED, Series};
use trace::units::{Bytes, EventIdx};

/// What the recording of a device holds.
pub fn contents(device: &DeviceTrace, stacks: &Stacks) -> Contents {
    let peak = device.summary[Series::Allocated as usize].peak_event;
    let is_loop = device.steps.len() > 1;
    Contents {
        recording: recording::of_device(device, stacks),
        // The pinned memory of the host has the steps of its devices.
        levels: match device.device {
            PINNED => Vec::new(),
            _ => levels::of_device(device, stacks),
        },
        phases: match is_loop {
            true => Vec::new(),
            false => passes(&Phases::of(device, stacks)),
        },
        peak: peak.map(|event| Held {
            event,
            categories: held(device, stacks, &Categories::of(device, stacks), event),
        }),
    }
}

/// The passes among the phases. Anything inside of a pass (an input, a line of logging) is part of
/// it.
fn passes(phases: &Phases) -> Vec<PhaseMark> {
    let is_pass = |phase| !matches!(phase, Phase::Other | Phase::Unknown);
    let spans = phases.spans().iter().filter(|span| is_pass(span.phase));
    let mut passes = joined(spans.map(|span| PhaseMark {
        phase: span.phase,
        events: span.events,
    }));
    if passes.len() > Contents::MAX_PHASES {
        let length = |pass: &PhaseMark| pass.events.end().0 - pass.events.start().0;
        passes.sort_by_key(|pass| std::cmp::Reverse(length(pass)));
        passes.truncate(Contents::MAX_PHASES);
        passes.sort_by_key(|pass| pass.events.start());
        passes = joined(passes.into_iter());
    }
    passes
}

/// Joins neighbours of the same phase into one pass.
fn joined(passes: impl Iterator<Item = PhaseMark>) -> Vec<PhaseMark> {
    let mut found: Vec<PhaseMark> = Vec::new();
    for pass in passes {
        match found.last_mut() {
            Some(last) if last.phase == pass.phase => {
                last.events = Span::new(last.events.start(), pass.events.end());
            }
            _ => found.push(pass),
        }
    }
    found
}

/// What is allocated at an event, by category, the largest first.
pub fn held(
    device: &DeviceTrace,
    stacks: &Stacks,
    found: &Categories,
    event: EventIdx,
) -> Vec<CategoryBytes> {
    let mut inferred = vec![Bytes::ZERO; found.len()];
    for block in categories::alive(device, Some(event)) {
        let kind = device.blocks.kind(block);
        let position = found.position(block);
        if categories::is_inferred(stacks, kind, found.name(position)) {
            inferred[position] += kind.size;
        }
    }
    let positions = 0..found.len();
    let inferred: HashMap<_, _> = positions.map(|at| (found.name(at), inferred[at])).collect();
    let shares = found.alive(device, Some(event)).largest_first();
    let shares = shares.into_iter().map(|(category, bytes)| CategoryBytes {
        category,
        bytes,
        inferred: inferred[&category],
    });
    shares.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(phase: Phase, from: u32, to: u32) -> PhaseMark {
        PhaseMark {
            phase,
            events: Span::new(EventIdx(from), EventIdx(to)),
        }
    }

    #[test]
    fn neighbours_of_one_phase_are_one_pass() {
        let parts = [
            mark(Phase::Forward, 0, 10),
            mark(Phase::Forward, 12, 20),
            mark(Phase::Backward, 20, 30),
            mark(Phase::Forward, 30, 31),
        ];
        let expected = [
            mark(Phase::Forward, 0, 20),
            mark(Phase::Backward, 20, 30),
            mark(Phase::Forward, 30, 31),
        ];
        assert_eq!(joined(parts.into_iter()), expected);
    }
}
