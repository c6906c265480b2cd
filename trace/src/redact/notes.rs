//! Findings about the data are our own sentences, stored with the run by the version that found
//! them. A stored sentence that this version no longer uses is recognised only by its kind.

use crate::quality_code;
use crate::trace::QualityNote;

/// The parts of our sentences; `#` stands for each number.
const CLAUSES: &[&str] = &[
    // With several devices, a finding begins with the one that it is about.
    "device #",
    "pinned host memory",
    "the file holds no events",
    "recording was never started, or was stopped before the dump",
    "the file has no list of events",
    "torch.cuda.memory_snapshot() gives none, recorded or not, so dump with \
     torch.cuda.memory._dump_snapshot()",
    "only the state at the end is known",
    "the file holds a single event",
    "the file holds one event a device",
    "it was recorded with enabled=\"state\" (or torch #.#'s default), which keeps no history",
    "it was recorded with enabled=\"state\" (or torch #.#'s default, or max_entries=#), which \
     keeps no history",
    "it was recorded with _record_memory_history(True), enabled=\"state\", torch #.#'s default or \
     max_entries=#, which keep no history",
    "the file has no segments",
    "memory from before the first event is unknown, and so are true block sizes",
    "# byte after the end of the snapshot",
    "# bytes after the end of the snapshot",
    // As earlier versions said it.
    "# entries of pinned host memory are in the file and not shown",
    "# entry of pinned host memory has a shape that this version does not know",
    "# entries of pinned host memory have a shape that this version does not know",
    "# event before the first event of a device is left out",
    "PyTorch does not clear such events when a recording begins, and some between are missing",
    "# events before the first event of a device are left out",
    "PyTorch does not clear them when a recording begins, and some between are missing",
    "the ring of events probably wrapped",
    "# frees have no allocation",
    "# free has no allocation",
    "there are exactly # events",
    "the first event completes a free whose request was not recorded",
    "a scope ended before the first event",
    // As earlier versions said it.
    "# frees have no allocation, and there are # events",
    "# frees have no allocation, and there are exactly # events",
    "# scopes ended before the first event",
    "What was freed unseen before the first event is missing",
    "raise max_entries",
    "recording began after # blocks had been allocated that were freed later",
    "where they were allocated is unknown",
    "recording began after # block had been allocated that was freed later",
    "where it was allocated is unknown",
    "# % of allocations have no stack",
    "# % of allocations have no Python frame (made by autograd's threads)",
    "events have no times (torch before #.#)",
    "events have no times (torch before #.#, and torch_npu, write none)",
    "time runs backwards at # event",
    "time runs backwards at # events",
    "order is by event",
    "each request is made # B larger before it is rounded, as torch_npu does for Huawei's devices",
    "sizes follow from that",
    "the allocator's rules predict # of # addresses",
    "the recorded ones are used",
    "the true size of # block from before the trace was inferred from its neighbours",
    "the true size of # blocks from before the trace was inferred from their neighbours",
    "how much was asked for # block from before the trace is not in the file",
    "its whole size counts as requested",
    "how much was asked for # blocks from before the trace is not in the file",
    "their whole size counts as requested",
    "# block lies at an address that was not free in any segment",
    "# blocks lie at addresses that were not free in any segment",
    "# segment event names a segment that was in use or unknown",
    "# segment events name segments that were in use or unknown",
    "# address was handed out again without having been freed",
    "# addresses were handed out again without having been freed",
    "# block was given back again without having become free",
    "# blocks were given back again without having become free",
    "# block at the end of the trace differs from the segments",
    "# blocks at the end of the trace differ from the segments",
    "another thread allocated while the snapshot was taken",
    "these hold nothing, so the last events of the trace are missing",
    "requested ends at # bytes by the trace and # by the segments",
    "allocated ends at # bytes by the trace and # by the segments",
    "active ends at # bytes by the trace and # by the segments",
    "reserved ends at # bytes by the trace and # by the segments",
    "no annotation marks the steps",
    "they were inferred from what repeats",
    "the clock was set back, so leaks there are not looked for",
    "made of a profile of torch.profiler",
    "device # is the CPU, sizes are those of tensors, and what was reserved is not known",
    "no event tells of a segment, yet # addresses are not those that the allocator's rules give \
     with the segments of the end",
    "events were left out (skip_actions), so what was reserved before the end is not known",
    "no event tells of a new segment, yet # address is not the one that the allocator's rules give \
     with the segments of the end",
    "no event tells of a new segment, yet # addresses are not those that the allocator's rules \
     give with the segments of the end",
    "no event tells of a segment that went back, yet fewer are left",
    "events were left out (skip_actions), so what was reserved is not known",
    "no event tells of an allocation, yet there were some",
    "no event tells of a free, yet there were some",
    "events were left out (skip_actions), so only the state at the end is known",
    "no event tells when a free was completed",
    "events were left out (skip_actions), so each counts as completed when it was requested",
    "allocated reaches # bytes, and only # are reserved",
    "# events contradict others",
    "events are missing, so levels are not certain and leaks cannot be judged",
];

/// The part of a finding that is shown.
pub fn note(finding: &QualityNote) -> QualityNote {
    let code = match quality_code::ALL.contains(&finding.code.as_str()) {
        true => finding.code.clone(),
        false => "other_finding".to_owned(),
    };
    let detail = match code.as_str() {
        _ if is_ours(&finding.detail) => finding.detail.clone(),
        quality_code::UNKNOWN_KEYS => "the file has keys that this version ignores".to_owned(),
        quality_code::UNKNOWN_ACTIONS => {
            "the file has actions that this version does not know".to_owned()
        }
        code => code.replace('_', " "),
    };
    QualityNote { code, detail }
}

fn is_ours(detail: &str) -> bool {
    let pattern = crate::steps::family_name(detail);
    let mut clauses = pattern.split("; ").flat_map(|part| part.split(": "));
    clauses.all(|clause| clause.split(". ").all(|part| CLAUSES.contains(&part)))
}
