//! Events that are missing from a recording, as the others show.

use super::{Evidence, note};
use crate::quality_code;
use crate::trace::{Action, QualityNote, Series};

/// From so many addresses on that the rules do not give, a recording without new segments has lost
/// the events of them.
const UNEXPLAINED: u64 = 8;

/// From so many events on, and from this share of the allocations on, events that contradict others
/// are no accident.
const CONTRADICTING: u64 = 8;
const CONTRADICTING_SHARE: u64 = 100;

/// *Allocated* cannot pass *reserved*. Less than this, or than this share of it, may be a block
/// whose size is not known to the byte.
const EXCESS: u64 = 1 << 20;
const EXCESS_SHARE: u64 = 20;

/// The note where no event tells of a new segment, although there was one: `missed` addresses are
/// not those that the rules give with the segments of the end.
pub fn segments(
    evidence: &Evidence<'_>,
    missed: u64,
    notes: &[QualityNote],
) -> Option<QualityNote> {
    let trace = evidence.trace;
    let is_new = |action: &Action| matches!(action, Action::SegmentAlloc | Action::SegmentMap);
    let is_ring = notes
        .iter()
        .any(|note| note.code == quality_code::RING_WRAPPED);
    // If nothing was in use before the first event, all memory is known to be free there, and the
    // rules give each address.
    let is_known = trace.blocks.n_preexisting == 0 && evidence.simulated.outside == 0;
    let needed = if is_known { 1 } else { UNEXPLAINED };
    if missed < needed || is_ring || trace.events.action.iter().any(is_new) {
        return None;
    }
    let addresses = match missed {
        1 => "1 address is not the one".to_owned(),
        n => format!("{n} addresses are not those"),
    };
    let text = format!(
        "no event tells of a new segment, yet {addresses} that the allocator's rules give with \
         the segments of the end: events were left out (skip_actions), so what was reserved \
         before the end is not known"
    );
    Some(note(quality_code::SEGMENTS_NOT_RECORDED, text))
}

/// The note where no event tells of a segment that went back, although fewer are left than there
/// were. Trace and segments must be of the same moment, as what is allocated shows.
pub fn segment_frees(evidence: &Evidence<'_>) -> Option<QualityNote> {
    let trace = evidence.trace;
    let goes_back = |action: &Action| matches!(action, Action::SegmentFree | Action::SegmentUnmap);
    let stated: u64 = evidence.segments.iter().map(|s| s.total_size.0).sum();
    let is_more = trace.summary[Series::Reserved as usize].end.0 > stated;
    let is_same_moment = evidence.anomalies.not_in_segments == 0;
    if !is_more || !is_same_moment || trace.events.action.iter().any(goes_back) {
        return None;
    }
    let text = "no event tells of a segment that went back, yet fewer are left: events were left \
                out (skip_actions), so what was reserved is not known";
    Some(note(quality_code::SEGMENT_FREES_NOT_RECORDED, text))
}

/// The note where events of any kind are missing, since the others contradict one another.
pub fn any(evidence: &Evidence<'_>, notes: &[QualityNote]) -> Option<QualityNote> {
    let trace = evidence.trace;
    if trace.device.is_pinned() {
        return None;
    }
    let anomalies = evidence.anomalies;
    let contradicting = anomalies.double_allocs + anomalies.double_frees;
    let peak = |series: Series| trace.summary[series as usize].peak.0;
    let [allocated, reserved] = [Series::Allocated, Series::Reserved].map(peak);
    // Without events of segments it is known what is allocated, but not what is reserved.
    let says = |note: &QualityNote| {
        let codes = [
            quality_code::SEGMENTS_NOT_RECORDED,
            quality_code::SEGMENT_FREES_NOT_RECORDED,
        ];
        codes.contains(&note.code.as_str())
    };
    let is_told = reserved > 0 && !notes.iter().any(says);
    let excess = allocated.saturating_sub(reserved);
    let seen = if contradicting >= CONTRADICTING
        && contradicting * CONTRADICTING_SHARE >= trace.fidelity.allocs
    {
        format!("{contradicting} events contradict others")
    } else if is_told && excess > EXCESS.max(reserved / EXCESS_SHARE) {
        format!("allocated reaches {allocated} bytes, and only {reserved} are reserved")
    } else {
        return None;
    };
    let text =
        format!("{seen}: events are missing, so levels are not certain and leaks cannot be judged");
    Some(note(quality_code::CONTRADICTORY, text))
}
