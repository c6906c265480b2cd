//! The word that sums up a row, derived from the results of the row and its baseline.
//!
//! The conditions are defined only here. They are tested in this order, and the first that holds
//! decides:
//!
//! | word | when |
//! |---|---|
//! | FAIL (OOM) | memory ran out |
//! | FAIL (CRASH) | it raised |
//! | FAIL (CORRUPTION) | restored bytes are not the packed ones, or a race leaves it open |
//! | BASELINE | no patch |
//! | CANNOT TELL | the baseline has no result |
//! | PREVENTS CRASH | the baseline raised |
//! | CANNOT TELL | the row or its baseline has too few steps to show growth |
//! | MOVES THE LEAK TO THE HOST | half is left at most, but on the host it began or rose by half |
//! | MAKES IT WORSE | growth on the device or on the host began or rose by half |
//! | ROOT CAUSE FIX | half of the growth of the baseline is left at most, or it keeps less |
//! | PREVENTS CORRUPTION | the baseline failed so, this did not |
//! | LOWERS PEAK | the peak is lower by 1 MiB or more, or the baseline ran out |
//! | NOT REPRODUCIBLE | else |
//!
//! Growth shows from [`FEWEST_STEPS`] on. PREVENTS CORRUPTION needs no growth, and neither does
//! LOWERS PEAK where the baseline ran out sooner: what grows there is unknown, but the row needs
//! less. A row *keeps less* where nothing grew, and the baseline kept more than one and a half
//! times as much at its end.
//!
//! FAIL words depend on the row alone, with or without patches. So the same program fails in the
//! same way under every baseline, and as a baseline.

use super::outcome::BenchResult;
use serde::{Deserialize, Serialize};
use trace::units::Bytes;

/// Growth up to this does not count, bytes a step: scalars and labels.
pub const GROWS: f64 = 1e5;

/// With fewer steps nothing can be said about growth: the first five differ from the rest, because
/// they make optimizer state and workspaces (docs/measurements.md, "The 9B program").
pub const FEWEST_STEPS: u32 = 6;

/// A root-cause fix leaves at most this share of the baseline's growth.
const LEFT: f64 = 0.5;

/// From this multiple of the baseline's growth on, a patch makes things worse.
const WORSE: f64 = 1.5;

/// A difference between two peaks counts from this size on.
const PEAK: Bytes = Bytes::mib(1);

/// The word that sums a row up; BASELINE to FAIL (OOM) are those of the published table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BenchStatus {
    /// The run without patches.
    #[serde(rename = "BASELINE")]
    Baseline,
    /// The patch does not change what it should change.
    #[serde(rename = "NOT REPRODUCIBLE")]
    NotReproducible,
    /// There are too few steps to say what grows, or the baseline has no result.
    #[serde(rename = "CANNOT TELL")]
    CannotTell,
    /// It takes away most of the growth.
    #[serde(rename = "ROOT CAUSE FIX")]
    RootCauseFix,
    /// The baseline raises, the patched run does not.
    #[serde(rename = "PREVENTS CRASH")]
    PreventsCrash,
    /// It ran out of memory.
    #[serde(rename = "FAIL (OOM)")]
    OutOfMemory,
    /// It raised.
    #[serde(rename = "FAIL (CRASH)")]
    Crash,
    /// Restored tensors hold other bytes than were packed, or may: nothing orders a write of
    /// them and another access.
    #[serde(rename = "FAIL (CORRUPTION)")]
    Corruption,
    /// Less memory, but the growth stays, or is not known.
    #[serde(rename = "LOWERS PEAK")]
    LowersPeak,
    /// The baseline's restored bytes are wrong, these are right.
    #[serde(rename = "PREVENTS CORRUPTION")]
    PreventsCorruption,
    /// More is left behind than without the patch.
    #[serde(rename = "MAKES IT WORSE")]
    MakesItWorse,
    /// Device memory grows less, pinned host memory grows more.
    #[serde(rename = "MOVES THE LEAK TO THE HOST")]
    MovesToHost,
    /// A patch in it has no public source, so nothing can be said of it.
    #[serde(rename = "SOURCE UNAVAILABLE")]
    SourceUnavailable,
}

impl BenchStatus {
    /// All of them.
    pub const ALL: [BenchStatus; 13] = [
        BenchStatus::Baseline,
        BenchStatus::NotReproducible,
        BenchStatus::CannotTell,
        BenchStatus::RootCauseFix,
        BenchStatus::PreventsCrash,
        BenchStatus::PreventsCorruption,
        BenchStatus::LowersPeak,
        BenchStatus::MovesToHost,
        BenchStatus::MakesItWorse,
        BenchStatus::OutOfMemory,
        BenchStatus::Crash,
        BenchStatus::Corruption,
        BenchStatus::SourceUnavailable,
    ];

    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            BenchStatus::Baseline => "BASELINE",
            BenchStatus::NotReproducible => "NOT REPRODUCIBLE",
            BenchStatus::CannotTell => "CANNOT TELL",
            BenchStatus::RootCauseFix => "ROOT CAUSE FIX",
            BenchStatus::PreventsCrash => "PREVENTS CRASH",
            BenchStatus::PreventsCorruption => "PREVENTS CORRUPTION",
            BenchStatus::LowersPeak => "LOWERS PEAK",
            BenchStatus::MovesToHost => "MOVES THE LEAK TO THE HOST",
            BenchStatus::MakesItWorse => "MAKES IT WORSE",
            BenchStatus::OutOfMemory => "FAIL (OOM)",
            BenchStatus::Crash => "FAIL (CRASH)",
            BenchStatus::Corruption => "FAIL (CORRUPTION)",
            BenchStatus::SourceUnavailable => "SOURCE UNAVAILABLE",
        }
    }
}

/// Whether a slope, in bytes a step, is growth.
pub fn grows(bytes_per_step: f64) -> bool {
    bytes_per_step > GROWS
}

/// Whether a run has enough steps to show what grows.
pub fn shows_growth(run: &BenchResult) -> bool {
    run.steps_run >= FEWEST_STEPS
}

/// The verdict on a row with patches (`baseline` is the run without them, where it is known), or on
/// a baseline (`patched` is false).
pub fn verdict(row: &BenchResult, patched: bool, baseline: Option<&BenchResult>) -> BenchStatus {
    if row.oom_step.is_some() {
        return BenchStatus::OutOfMemory;
    }
    if row.crash.is_some() {
        return BenchStatus::Crash;
    }
    if corrupts(row) {
        return BenchStatus::Corruption;
    }
    if !patched {
        return BenchStatus::Baseline;
    }
    let Some(baseline) = baseline else {
        return BenchStatus::CannotTell;
    };
    beside(row, baseline)
}

/// Whether restored bytes are wrong, or may be.
pub fn corrupts(row: &BenchResult) -> bool {
    row.corrupted_tensors > 0 || row.races > 0
}

/// The verdict on a row that did not fail.
fn beside(row: &BenchResult, baseline: &BenchResult) -> BenchStatus {
    if baseline.crash.is_some() {
        return BenchStatus::PreventsCrash;
    }
    // A run that completes needs less than one that ran out, whatever grows in them.
    let completes = baseline.oom_step.is_some();
    if !shows_growth(row) || !shows_growth(baseline) {
        return match (corrupts(baseline), completes && shows_growth(row)) {
            (true, _) => BenchStatus::PreventsCorruption,
            (false, true) => BenchStatus::LowersPeak,
            (false, false) => BenchStatus::CannotTell,
        };
    }
    let device = Growth::of(row.growth_per_step, baseline.growth_per_step);
    let host = Growth::of(row.host_growth_per_step, baseline.host_growth_per_step);
    let lower = baseline.peak_allocated.saturating_sub(row.peak_allocated) >= PEAK;
    if device == Growth::Less && host == Growth::More {
        BenchStatus::MovesToHost
    } else if device == Growth::More || host == Growth::More {
        BenchStatus::MakesItWorse
    } else if device == Growth::Less || keeps_less(row, baseline) {
        BenchStatus::RootCauseFix
    } else if corrupts(baseline) {
        BenchStatus::PreventsCorruption
    } else if completes || lower {
        BenchStatus::LowersPeak
    } else {
        BenchStatus::NotReproducible
    }
}

/// Whether the patched run no longer keeps what the baseline keeps for nothing after its last step.
/// Nothing grows in the patched run, and the baseline kept more than it, by at least half of what
/// the patched run holds in all.
fn keeps_less(row: &BenchResult, baseline: &BenchResult) -> bool {
    let kept = baseline.allocated_end.saturating_sub(row.allocated_end);
    !grows(baseline.growth_per_step) && kept > row.allocated_end / 2
}

/// The growth of a row compared with the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// There is growth, and it is new or larger by half.
    More,
    /// There was growth, and at most half of it is left.
    Less,
    /// Neither more nor less.
    Alike,
}

impl Growth {
    fn of(now: f64, before: f64) -> Growth {
        let before = if grows(before) { before } else { 0.0 };
        if grows(now) && now > WORSE * before {
            Growth::More
        } else if before > 0.0 && now < LEFT * before {
            Growth::Less
        } else {
            Growth::Alike
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> BenchResult {
        BenchResult {
            device: "sim".to_owned(),
            steps_run: 100,
            peak_allocated: Bytes::gib(10),
            peak_reserved: Bytes::gib(10),
            allocated_end: Bytes::gib(9),
            step_seconds: 0.1,
            ..BenchResult::default()
        }
    }

    fn with(change: impl FnOnce(&mut BenchResult)) -> BenchResult {
        let mut run = run();
        change(&mut run);
        run
    }

    #[test]
    fn a_status_is_written_as_its_word() {
        for status in BenchStatus::ALL {
            let json = serde_json::to_value(status).unwrap();
            assert_eq!(json, status.word());
        }
    }

    #[test]
    fn each_predicate_has_its_word() {
        let check = |row: BenchResult, baseline: BenchResult, expected: BenchStatus| {
            assert_eq!(verdict(&row, true, Some(&baseline)), expected);
        };
        let leaks = || with(|r| r.growth_per_step = 1e8);
        let corrupts = || with(|r| r.corrupted_tensors = 2);
        check(run(), run(), BenchStatus::NotReproducible);
        check(leaks(), leaks(), BenchStatus::NotReproducible);
        check(run(), leaks(), BenchStatus::RootCauseFix);
        check(
            with(|r| r.growth_per_step = 3e7),
            leaks(),
            BenchStatus::RootCauseFix,
        );
        check(leaks(), run(), BenchStatus::MakesItWorse);
        check(
            with(|r| r.growth_per_step = 6.5e8),
            leaks(),
            BenchStatus::MakesItWorse,
        );
        check(
            with(|r| r.host_growth_per_step = 2e9),
            leaks(),
            BenchStatus::MovesToHost,
        );
        check(
            with(|r| r.host_growth_per_step = 2e9),
            run(),
            BenchStatus::MakesItWorse,
        );
        check(corrupts(), leaks(), BenchStatus::Corruption);
        check(corrupts(), corrupts(), BenchStatus::Corruption);
        check(run(), corrupts(), BenchStatus::PreventsCorruption);
        let raised = with(|r| r.crash = Some("RuntimeError".to_owned()));
        check(run(), raised.clone(), BenchStatus::PreventsCrash);
        check(raised, run(), BenchStatus::Crash);
        check(
            with(|r| r.peak_allocated -= PEAK),
            run(),
            BenchStatus::LowersPeak,
        );
        check(
            with(|r| r.peak_allocated -= PEAK - Bytes(1)),
            run(),
            BenchStatus::NotReproducible,
        );
        let kept = with(|r| r.allocated_end = Bytes::gib(3));
        check(kept, run(), BenchStatus::RootCauseFix);
    }

    #[test]
    fn few_steps_say_nothing_of_growth() {
        let check = |steps: u32, of_baseline: u32, baseline: BenchResult, expected: BenchStatus| {
            let row = with(|r| r.steps_run = steps);
            let baseline = BenchResult {
                steps_run: of_baseline,
                ..baseline
            };
            let said = verdict(&row, true, Some(&baseline));
            assert_eq!(said, expected, "{steps} and {of_baseline} steps");
        };
        let leaks = || with(|r| r.growth_per_step = 1e8);
        for few in 1..FEWEST_STEPS {
            check(few, few, leaks(), BenchStatus::CannotTell);
            check(few, few, run(), BenchStatus::CannotTell);
            check(few, 100, leaks(), BenchStatus::CannotTell);
            check(100, few, leaks(), BenchStatus::CannotTell);
        }
        check(
            FEWEST_STEPS,
            FEWEST_STEPS,
            leaks(),
            BenchStatus::RootCauseFix,
        );
        let raised = with(|r| r.crash = Some("raised".to_owned()));
        check(2, 1, raised, BenchStatus::PreventsCrash);
        let corrupts = with(|r| r.corrupted_tensors = 2);
        check(2, 2, corrupts, BenchStatus::PreventsCorruption);
    }

    /// A baseline that ran out needs more than a run that completes. Whether it grew is only known
    /// from enough steps.
    #[test]
    fn a_baseline_that_ran_out_says_what_its_steps_show() {
        let check = |row: BenchResult, steps: u32, growth: f64, expected: BenchStatus| {
            let baseline = with(|r| {
                (r.steps_run, r.oom_step) = (steps, Some(steps));
                r.growth_per_step = growth;
            });
            let said = verdict(&row, true, Some(&baseline));
            assert_eq!(said, expected, "{steps} steps, {growth}");
        };
        let grows = |device: f64, host: f64| {
            with(|r| (r.growth_per_step, r.host_growth_per_step) = (device, host))
        };
        for few in 0..FEWEST_STEPS {
            check(run(), few, 0.0, BenchStatus::LowersPeak);
            check(grows(1e8, 0.0), few, 0.0, BenchStatus::LowersPeak);
            check(grows(0.0, 2e9), few, 0.0, BenchStatus::LowersPeak);
            let short = with(|r| r.steps_run = 5);
            check(short, few, 0.0, BenchStatus::CannotTell);
        }
        check(run(), 19, 1e8, BenchStatus::RootCauseFix);
        check(grows(0.0, 2e9), 19, 1e8, BenchStatus::MovesToHost);
        check(grows(9.6e7, 0.0), 19, 1e8, BenchStatus::LowersPeak);
        check(grows(1.6e8, 0.0), 19, 1e8, BenchStatus::MakesItWorse);
        check(run(), 19, 0.0, BenchStatus::LowersPeak);
        let ran_out = with(|r| r.oom_step = Some(19));
        check(ran_out, 100, 0.0, BenchStatus::OutOfMemory);
    }

    /// Whether bytes are wrong depends on the row alone, so the same program has the same verdict
    /// under every baseline.
    #[test]
    fn wrong_bytes_are_said_under_every_baseline() {
        let row = with(|r| r.corrupted_tensors = 1);
        let baselines = [
            run(),
            with(|r| r.growth_per_step = 1e8),
            with(|r| r.corrupted_tensors = 7),
            with(|r| r.crash = Some("raised".to_owned())),
        ];
        for baseline in &baselines {
            assert_eq!(verdict(&row, true, Some(baseline)), BenchStatus::Corruption);
        }
        assert_eq!(verdict(&row, true, None), BenchStatus::Corruption);
        assert_eq!(verdict(&row, false, None), BenchStatus::Corruption);
        let raced = with(|r| r.races = 1);
        assert_eq!(verdict(&raced, true, Some(&run())), BenchStatus::Corruption);
    }

    /// A baseline that took too long, or was cancelled, says nothing of a patch.
    #[test]
    fn without_a_baseline_nothing_is_said_of_a_patch() {
        assert_eq!(verdict(&run(), true, None), BenchStatus::CannotTell);
        let leaks = with(|r| r.growth_per_step = 1e8);
        assert_eq!(verdict(&leaks, true, None), BenchStatus::CannotTell);
        let raised = with(|r| r.crash = Some("raised".to_owned()));
        assert_eq!(verdict(&raised, true, None), BenchStatus::Crash);
    }

    #[test]
    fn without_patches_a_row_is_the_baseline_unless_it_ended_early() {
        assert_eq!(verdict(&run(), false, None), BenchStatus::Baseline);
        let ran_out = with(|r| r.oom_step = Some(3));
        assert_eq!(verdict(&ran_out, false, None), BenchStatus::OutOfMemory);
    }
}
