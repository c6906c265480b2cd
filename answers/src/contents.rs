//! What a recording holds.

use api::contents::{CategoryBytes, Contents, Held, PhaseMark};
use std::cmp::Reverse;
use trace::categories::{self, Categories, Category};
use trace::device::DeviceIdx;
use trace::phases::{Phase, Phases};
use trace::span::Span;
use trace::stacks::Stacks;
use trace::steps::{choices, recording};
use trace::trace::{BlockIdx, DeviceTrace, Series};
use trace::units::{Bytes, EventIdx};
use trace::watch::{Stopped, Watch};

/// What the recording of a device holds.
///
/// # Errors
/// [`Stopped`].
pub fn contents(
    device: &DeviceTrace,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<Contents, Stopped> {
    let allocated = device.summary[Series::Allocated as usize];
    let is_loop = device.steps.len() > 1;
    let peak = |event| {
        let categories = Categories::of_while(device, stacks, watch)?;
        Ok(Held {
            event,
            categories: held(device, stacks, &categories, event),
        })
    };
    Ok(Contents {
        recording: recording::of_device_while(device, stacks, watch)?,
        // The pinned memory of the host has the steps of its devices.
        levels: match device.device {
            DeviceIdx::PINNED => Vec::new(),
            _ => choices::of_device_while(device, stacks, watch)?,
        },
        phases: match is_loop {
            true => Vec::new(),
            false => passes(&Phases::of_while(device, stacks, watch)?),
        },
        peak: match allocated.peak {
            Bytes::ZERO => None,
            _ => Some(peak(allocated.peak_event)?),
        },
    })
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
        passes.sort_by_key(|pass| Reverse(pass.events.len()));
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

/// What is allocated at an event, by category, the largest first; `None`: before the first event.
pub fn held(
    device: &DeviceTrace,
    stacks: &Stacks,
    found: &Categories,
    event: Option<EventIdx>,
) -> Vec<CategoryBytes> {
    held_by(device, stacks, found, categories::alive(device, event))
}

/// What these blocks hold, by category, the largest first.
pub fn held_by(
    device: &DeviceTrace,
    stacks: &Stacks,
    found: &Categories,
    blocks: impl Iterator<Item = BlockIdx>,
) -> Vec<CategoryBytes> {
    let named = (0..found.len()).map(|position| CategoryBytes {
        category: found.name(position),
        bytes: Bytes::ZERO,
        inferred: Bytes::ZERO,
    });
    let mut held: Vec<CategoryBytes> = named.collect();
    for block in blocks {
        let kind = device.blocks.kind(block);
        let share = &mut held[found.position(block)];
        share.bytes += kind.size;
        if categories::is_inferred(stacks, kind, share.category) {
            share.inferred += kind.size;
        }
    }
    held.retain(|share| share.bytes > Bytes::ZERO);
    held.sort_by_key(|share| (Reverse(share.bytes), share.category));
    held
}

/// ` (inferred)` if the recorder did not note what all of this is for, otherwise nothing. That a
/// block is from before the recording is seen, not inferred.
pub fn inferred(categories: &[CategoryBytes]) -> &'static str {
    let is_inferred =
        |share: &CategoryBytes| share.inferred > Bytes::ZERO && share.category != Category::Before;
    match categories.iter().any(is_inferred) {
        true => " (inferred)",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::compare::phase::Rhythm;
    use trace::testing::{TraceBuilder, block_of};

    fn mark(phase: Phase, from: u32, to: u32) -> PhaseMark {
        PhaseMark {
            phase,
            events: Span::new(EventIdx(from), EventIdx(to)),
        }
    }

    /// Stops work at each of its looks, and says how many there are.
    fn looks(work: impl Fn(Watch<'_>) -> Result<(), Stopped>) -> usize {
        let until = |most: usize| {
            let seen = std::cell::Cell::new(0);
            let go_on = |_| seen.replace(seen.get() + 1) < most;
            (work(Watch::new(&go_on)), seen.get())
        };
        let (done, all) = until(usize::MAX);
        assert_eq!(done, Ok(()));
        for most in 0..all {
            assert_eq!(until(most).0, Err(Stopped), "{most} of {all}");
        }
        all
    }

    #[test]
    fn whoever_watches_may_stop_it_at_any_time() {
        let trace = trace::testing::training_run(4000);
        let (device, stacks) = (&trace.devices[0], &trace.stacks);
        let mut pass = device.clone();
        pass.steps.clear();
        let of = |device: &DeviceTrace| looks(|watch| contents(device, stacks, watch).map(drop));
        let n = [of(device), of(&pass)];
        assert!(n.iter().all(|&n| n > 20), "{n:?}");
        let rhythm = |watch: Watch<'_>| Rhythm::of(device, stacks, watch);
        let base = Watch::undisturbed(rhythm);
        let n = looks(|watch| rhythm(watch)?.over(&base, watch).map(drop));
        assert!(n > 3, "{n}");
    }

    #[test]
    fn a_peak_before_the_first_event_has_its_categories() {
        let mut builder = TraceBuilder::default();
        let block = builder.preexisting(block_of(Bytes::mib(4)));
        builder.preexisting(block_of(Bytes::mib(1)));
        builder.pending_before(block_of(Bytes::mib(8)));
        builder.free_requested(block);
        builder.free_completed(block);
        let trace = builder.finish();
        let device = &trace.devices[0];
        let found = Watch::undisturbed(|watch| contents(device, &trace.stacks, watch));
        let peak = found.peak.expect("memory is held");
        let sum: Bytes = peak.categories.iter().map(|share| share.bytes).sum();
        assert_eq!((peak.event, sum), (None, Bytes::mib(5)));
        let nothing = TraceBuilder::default().finish();
        let device = &nothing.devices[0];
        let found = Watch::undisturbed(|watch| contents(device, &nothing.stacks, watch));
        assert_eq!(found.peak, None);
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
