//! Findings about the data itself.

mod missing;
mod ring;

use super::matching::Anomalies;
use super::simulate::Lost;
use crate::clip::clipped;
use crate::device::DeviceIdx;
use crate::quality_code;
use crate::snapshot::{BlockState, RawAnnotation, RawBlock, RawSegment, Snapshot};
use crate::stacks::{FrameIdx, StackIdx, Stacks};
use crate::trace::{BlockKind, DeviceTrace, QualityNote, Series, StepSource};

pub(super) fn note(code: &'static str, detail: impl Into<String>) -> QualityNote {
    QualityNote {
        code: code.to_owned(),
        detail: detail.into(),
    }
}

/// How many unknown words a note lists, and how many bytes of each it shows.
const WORDS_LISTED: usize = 32;
const WORD_BYTES: usize = 80;

/// Notes on the file as a whole.
pub fn of_file(snapshot: &Snapshot) -> Vec<QualityNote> {
    let mut notes = Vec::new();
    let n_events: usize = snapshot.devices.iter().map(|d| d.kind.len()).sum();
    if n_events == 0 && snapshot.has_segments() && !snapshot.has_traces() {
        notes.push(note(
            quality_code::NO_EVENTS,
            "the file has no list of events: torch.cuda.memory_snapshot() gives none, recorded or \
             not, so dump with torch.cuda.memory._dump_snapshot(); only the state at the end is \
             known",
        ));
    } else if n_events == 0 {
        notes.push(note(
            quality_code::NO_EVENTS,
            "the file holds no events: recording was never started, or was stopped before the \
             dump; only the state at the end is known",
        ));
    } else if snapshot.devices.iter().all(|d| d.kind.len() <= 1) {
        notes.push(note(
            quality_code::STATE_ONLY,
            "the file holds one event a device: it was recorded with _record_memory_history(True), \
             enabled=\"state\", torch 2.0's default or max_entries=1, which keep no history; only \
             the state at the end is known",
        ));
    }
    if !snapshot.has_segments() && n_events > 0 {
        notes.push(note(
            quality_code::NO_SEGMENTS,
            "the file has no segments: memory from before the first event is unknown, and so are \
             true block sizes",
        ));
    }
    if !snapshot.unknown_keys.is_empty() {
        let list = listed(&snapshot.unknown_keys);
        let text = format!("keys that this version ignores: {list}");
        notes.push(note(quality_code::UNKNOWN_KEYS, text));
    }
    if !snapshot.unknown_actions.is_empty() {
        let list = listed(&snapshot.unknown_actions);
        let text = format!(
            "events with actions that this version does not know, and that change nothing here: \
             {list}"
        );
        notes.push(note(quality_code::UNKNOWN_ACTIONS, text));
    }
    if snapshot.trailing_bytes > 0 {
        let bytes = counted(snapshot.trailing_bytes, "byte", "bytes");
        let text = format!("{bytes} after the end of the snapshot");
        notes.push(note(quality_code::TRAILING_BYTES, text));
    }
    if snapshot.host_unread > 0 {
        let text = format!(
            "{} a shape that this version does not know",
            counted(
                snapshot.host_unread,
                "entry of pinned host memory has",
                "entries of pinned host memory have"
            )
        );
        notes.push(note(quality_code::HOST_MEMORY_NOT_SHOWN, text));
    }
    notes
}

/// Unknown words of the file, each with how often it occurred.
fn listed(words: &[(String, u64)]) -> String {
    let shown = words.iter().take(WORDS_LISTED);
    let shown = shown.map(|(word, n)| format!("{} ({n}×)", clipped(word, WORD_BYTES)));
    let list = shown.collect::<Vec<_>>().join(", ");
    match words.len().saturating_sub(WORDS_LISTED) {
        0 => list,
        rest => format!("{list}, and {rest} more"),
    }
}

/// A number with what it counts, in the singular or the plural.
fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// What is known about one device.
pub struct Evidence<'a> {
    pub trace: &'a DeviceTrace,
    pub stacks: &'a Stacks,
    /// Per stack, whether it has a Python frame.
    pub has_python: &'a [bool],
    /// Whether the file has a list of segments at all; it may be empty.
    pub has_segments: bool,
    /// Whether the file was made of a profile, not by an allocator.
    pub of_profile: bool,
    pub segments: &'a [&'a RawSegment],
    pub final_blocks: &'a [RawBlock],
    pub annotations: &'a [RawAnnotation],
    pub anomalies: Anomalies,
    pub simulated: &'a Lost,
    pub resized: u64,
    /// Bytes that are added to each request before it is rounded.
    pub padding: u64,
}

impl Evidence<'_> {
    /// The blocks of the final segments.
    fn final_blocks_of_segments(&self) -> impl Iterator<Item = &RawBlock> {
        let segments = self.segments.iter();
        segments.flat_map(|segment| &self.final_blocks[segment.blocks.clone()])
    }
}

/// Notes on one device.
pub fn of_device(evidence: &Evidence<'_>) -> Vec<QualityNote> {
    let mut notes = Vec::new();
    if evidence.of_profile {
        stacks(evidence, &mut notes);
        return notes;
    }
    notes.extend(ring::note_of(evidence));
    stacks(evidence, &mut notes);
    times(evidence, &mut notes);
    allocator(evidence, &mut notes);
    notes
}

/// Per stack, whether it has a Python frame.
pub fn stacks_with_python(stacks: &Stacks) -> Vec<bool> {
    let is_python = |idx: &FrameIdx| {
        let frame = stacks.frame(*idx);
        frame.line > 0 && stacks.str(frame.filename).ends_with(".py")
    };
    let all = (0..stacks.len()).map(|stack| stacks.frames(StackIdx(stack as u32)));
    all.map(|frames| frames.iter().any(is_python)).collect()
}

/// What the stack of an allocation says of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    /// There is none.
    Nothing,
    /// It has no Python frame.
    NoPython,
    /// It has one.
    Python,
}

fn stacks(evidence: &Evidence<'_>, notes: &mut Vec<QualityNote>) {
    let blocks = &evidence.trace.blocks;
    let made = blocks.made_kinds();
    let n = made.len();
    if n == 0 {
        return;
    }
    let said = |kind: &BlockKind| match kind.alloc_stack {
        StackIdx::NONE => Said::Nothing,
        stack if evidence.has_python[stack.index()] => Said::Python,
        _ => Said::NoPython,
    };
    let said: Vec<Said> = blocks.kinds.iter().map(said).collect();
    let of_blocks = || made.iter().map(|kind| said[kind.index()]);
    let without = of_blocks().filter(|&said| said == Said::Nothing).count();
    let without_python = of_blocks().filter(|&said| said == Said::NoPython).count();
    if without > 0 {
        let text = format!("{} % of allocations have no stack", percent(without, n));
        notes.push(note(quality_code::NO_STACKS, text));
    }
    // Where no stack has one, the program is not written in Python, as the bench's: none is
    // missing.
    if without_python > 0 && evidence.has_python.contains(&true) {
        let text = format!(
            "{} % of allocations have no Python frame (made by autograd's threads)",
            percent(without_python, n)
        );
        notes.push(note(quality_code::NO_PYTHON_FRAMES, text));
    }
}

/// A part of `n` in whole percent, rounded up, so that little is not 0 %. Only all are 100 %.
fn percent(part: usize, n: usize) -> usize {
    match part < n {
        true => (part * 100).div_ceil(n).min(99),
        false => 100,
    }
}

fn times(evidence: &Evidence<'_>, notes: &mut Vec<QualityNote>) {
    let time = &evidence.trace.events.time;
    let n = time.len();
    if n == 0 {
        return;
    }
    if time.get(n - 1).0 == 0 {
        notes.push(note(
            quality_code::NO_TIMES,
            "events have no times (torch before 2.2, and torch_npu, write none)",
        ));
        return;
    }
    let mut last = time.get(0);
    let mut backwards = 0_u64;
    for now in time.iter() {
        backwards += u64::from(now < last);
        last = now;
    }
    if backwards > 0 {
        let events = counted(backwards, "event", "events");
        let text = format!("time runs backwards at {events}; order is by event");
        notes.push(note(quality_code::TIME_BACKWARDS, text));
    }
}

/// Notes how far the simulated allocator agrees with the recorded one.
fn allocator(evidence: &Evidence<'_>, notes: &mut Vec<QualityNote>) {
    let trace = evidence.trace;
    if evidence.padding > 0 {
        let text = format!(
            "each request is made {} B larger before it is rounded, as torch_npu does for \
             Huawei's devices: sizes follow from that",
            evidence.padding
        );
        notes.push(note(quality_code::PADDED_REQUESTS, text));
    }
    let missed = trace.fidelity.allocs - trace.fidelity.predicted;
    if missed > 0 {
        let text = format!(
            "the allocator's rules predict {} of {} addresses; the recorded ones are used",
            trace.fidelity.predicted, trace.fidelity.allocs
        );
        notes.push(note(quality_code::ADDRESSES_NOT_PREDICTED, text));
    }
    let of_segments = missing::segments(evidence, missed, notes);
    notes.extend(of_segments);
    if evidence.resized > 0 {
        let blocks = counted(evidence.resized, "block", "blocks");
        let text = match evidence.resized {
            1 => "its neighbours",
            _ => "their neighbours",
        };
        let text =
            format!("the true size of {blocks} from before the trace was inferred from {text}");
        notes.push(note(quality_code::SIZES_INFERRED, text));
    }
    let Lost { outside, segments } = *evidence.simulated;
    if outside > 0 {
        let text = match outside {
            1 => "1 block lies at an address that was not free in any segment".to_owned(),
            n => format!("{n} blocks lie at addresses that were not free in any segment"),
        };
        notes.push(note(quality_code::OUTSIDE_SEGMENTS, text));
    }
    if segments > 0 {
        let text = match segments {
            1 => "1 segment event names a segment that was in use or unknown".to_owned(),
            n => format!("{n} segment events name segments that were in use or unknown"),
        };
        notes.push(note(quality_code::SEGMENT_EVENTS_UNEXPLAINED, text));
    }
    of_the_end(evidence, notes);
}

/// Notes where the trace and the final segments disagree, or do not say enough.
fn of_the_end(evidence: &Evidence<'_>, notes: &mut Vec<QualityNote>) {
    let anomalies = evidence.anomalies;
    if anomalies.double_allocs > 0 {
        let addresses = counted(anomalies.double_allocs, "address was", "addresses were");
        let text = format!("{addresses} handed out again without having been freed");
        notes.push(note(quality_code::DOUBLE_ALLOCS, text));
    }
    if anomalies.double_frees > 0 {
        let blocks = counted(anomalies.double_frees, "block was", "blocks were");
        let text = format!("{blocks} given back again without having become free");
        notes.push(note(quality_code::DOUBLE_FREES, text));
    }
    if anomalies.requested_unknown > 0 {
        let text = match anomalies.requested_unknown {
            1 => "how much was asked for 1 block from before the trace is not in the file; its \
                  whole size counts as requested"
                .to_owned(),
            n => format!(
                "how much was asked for {n} blocks from before the trace is not in the file; \
                 their whole size counts as requested"
            ),
        };
        notes.push(note(quality_code::REQUESTED_UNKNOWN, text));
    }
    if !evidence.has_segments {
        return;
    }
    let disagree = anomalies.not_in_segments + anomalies.size_mismatches;
    if disagree > 0 {
        let blocks = counted(disagree, "block", "blocks");
        let differ = if disagree == 1 { "differs" } else { "differ" };
        // Threads add a block or two. If no block at all is left, there is more between.
        let in_use = |block: &RawBlock| block.state != BlockState::Inactive;
        let any_left = evidence.final_blocks_of_segments().any(in_use);
        let why = match any_left || anomalies.not_in_segments < 2 {
            true => "another thread allocated while the snapshot was taken",
            false => "these hold nothing, so the last events of the trace are missing",
        };
        let text = format!("{blocks} at the end of the trace {differ} from the segments: {why}");
        notes.push(note(quality_code::SEGMENTS_NEWER, text));
    }
    end_levels(evidence, notes);
    notes.extend(missing::segment_frees(evidence));
    let of_any = missing::any(evidence, notes);
    notes.extend(of_any);
}

/// Compares the levels after the last event with the sums of the final segments.
fn end_levels(evidence: &Evidence<'_>, notes: &mut Vec<QualityNote>) {
    let blocks = || evidence.final_blocks_of_segments();
    let in_use = || blocks().filter(|b| b.state != BlockState::Inactive);
    let allocated = blocks().filter(|b| b.state == BlockState::ActiveAllocated);
    let stated = [
        (
            Series::Requested,
            in_use().map(|b| b.requested.0).sum::<u64>(),
        ),
        (Series::Allocated, allocated.map(|b| b.size.0).sum()),
        (Series::Active, in_use().map(|b| b.size.0).sum()),
        (
            Series::Reserved,
            evidence.segments.iter().map(|s| s.total_size.0).sum(),
        ),
    ];
    // Without every size that was asked for, the segments state no sum of them.
    let all_known = in_use().all(|block| block.requested_known);
    let compared = stated.iter().skip(usize::from(!all_known));
    for &(series, stated) in compared {
        let replayed = evidence.trace.summary[series as usize].end.0;
        if replayed != stated {
            let text = format!(
                "{} ends at {replayed} bytes by the trace and {stated} by the segments",
                series.name()
            );
            notes.push(note(quality_code::END_DIFFERS, text));
        }
    }
}

/// Notes on the steps, once they are found.
pub fn of_steps(devices: &[DeviceTrace]) -> Vec<QualityNote> {
    let inferred = devices
        .iter()
        .any(|d| d.step_source == StepSource::Inferred);
    let text = "no annotation marks the steps: they were inferred from what repeats";
    if inferred {
        vec![note(quality_code::STEPS_INFERRED, text)]
    } else {
        Vec::new()
    }
}

/// The note where nothing says which step of the devices an event of pinned memory is of.
pub fn of_lost_steps() -> QualityNote {
    let text = "the clock was set back, so leaks there are not looked for";
    note(quality_code::PINNED_NOT_JUDGED, text).of_device(DeviceIdx::PINNED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_of_them_are_a_hundred_percent() {
        let check = |part: usize, expected: usize| assert_eq!(percent(part, 1000), expected);
        check(1, 1);
        check(10, 1);
        check(11, 2);
        check(990, 99);
        check(991, 99);
        check(999, 99);
        check(1000, 100);
    }
}
