//! Recordings in which kinds of events were left out, compared with what the process counted itself
//! (`tests/fixtures/left_out`).

use crate::recordings::{fixtures, replayed};
use trace::known::{Point, Unknown};
use trace::leaks::{self, LeakReport, Verdict};
use trace::trace::{Series, Trace};
use trace::units::Bytes;

const LEAK_PEAK: Bytes = Bytes(118_016_512);
const LEAK_END: Bytes = Bytes(101_218_304);
const CLEAN_PEAK: Bytes = Bytes(110_938_624);
const CLEAN_END: Bytes = Bytes(93_353_984);

fn trace(name: &str) -> Trace {
    replayed(&fixtures().join(format!("left_out/{name}.pickle.zst")))
}

fn report(trace: &Trace) -> LeakReport {
    leaks::find(&trace.devices[0], &trace.stacks, &trace.quality)
}

fn unknown(trace: &Trace) -> Unknown {
    Unknown::of(trace.devices[0].device, &trace.quality)
}

fn says(trace: &Trace, code: &str) -> bool {
    trace.quality.iter().any(|note| note.code == code)
}

fn peak_and_end(trace: &Trace, series: Series) -> [Bytes; 2] {
    let summary = trace.devices[0].summary[series as usize];
    [summary.peak, summary.end]
}

#[test]
fn without_allocations_or_frees_only_the_end_is_known() {
    let check = |name: &str, allocated: Bytes| {
        let trace = trace(name);
        assert!(
            says(&trace, "events_left_out"),
            "{name}: {:?}",
            trace.quality
        );
        let [_, end] = peak_and_end(&trace, Series::Allocated);
        assert_eq!(end, allocated, "{name}");
        let unknown = unknown(&trace);
        let told = unknown.told(Series::Allocated, Point::Peak, end);
        assert_eq!(told, format!("≥ {end}"), "{name}");
        assert!(unknown.has(Series::Reserved, Point::Start), "{name}");
        let report = report(&trace);
        assert_eq!(report.verdict, Verdict::CannotTell, "{name}");
        assert!(
            report.reason.contains("`skip_actions`"),
            "{}",
            report.reason
        );
    };
    check("leak_no_alloc", LEAK_END);
    check("leak_no_alloc_or_free", LEAK_END);
    check("clean_no_free", CLEAN_END);
    check("clean_no_alloc_or_free_completed", CLEAN_END);
}

#[test]
fn a_free_that_is_only_requested_is_completed_at_once() {
    let check = |name: &str, [peak, end]: [Bytes; 2], verdict: Verdict| {
        let trace = trace(name);
        assert!(says(&trace, "frees_completed_at_once"), "{name}");
        assert!(
            !says(&trace, "double_allocs"),
            "{name}: {:?}",
            trace.quality
        );
        for series in [Series::Allocated, Series::Active] {
            assert_eq!(peak_and_end(&trace, series), [peak, end], "{name}");
        }
        assert!(unknown(&trace).is_empty(), "{name}");
        let report = report(&trace);
        assert_eq!(report.verdict, verdict, "{name}: {}", report.reason);
    };
    check(
        "leak_no_free_completed",
        [LEAK_PEAK, LEAK_END],
        Verdict::Leak,
    );
    check(
        "clean_no_free_completed",
        [CLEAN_PEAK, CLEAN_END],
        Verdict::Clean,
    );
}

/// What is allocated follows without events of segments, and so does the verdict.
#[test]
fn without_events_of_segments_what_was_reserved_is_not_known() {
    let check = |name: &str, code: &str| {
        let trace = trace(name);
        assert!(says(&trace, code), "{name}: {:?}", trace.quality);
        let allocated = peak_and_end(&trace, Series::Allocated);
        assert_eq!(allocated, [CLEAN_PEAK, CLEAN_END], "{name}");
        let unknown = unknown(&trace);
        assert!(unknown.has(Series::Reserved, Point::Peak), "{name}");
        assert!(!unknown.has(Series::Allocated, Point::Peak), "{name}");
        assert_eq!(report(&trace).verdict, Verdict::Clean, "{name}");
    };
    check("clean_no_segment_alloc", "segments_not_recorded");
    check("clean_no_segment_free", "segment_frees_not_recorded");
}

#[test]
fn a_whole_recording_lacks_nothing() {
    let trace = trace("leak_whole");
    assert!(unknown(&trace).is_empty(), "{:?}", trace.quality);
    let allocated = peak_and_end(&trace, Series::Allocated);
    assert_eq!(allocated, [LEAK_PEAK, LEAK_END]);
    assert_eq!(report(&trace).verdict, Verdict::Leak);
}
