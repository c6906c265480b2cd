//! Jobs made of made-up programs and of profiles written by hand.

mod devices;
mod oddness;
mod peaks;
mod places;
mod sentences;

use super::*;
use crate::compare::profile::Place;
use crate::compare::tests::Program;
use crate::units::EventIdx;
use crate::watch::Watch;
use proptest::prelude::*;
use rank_site::RankSite;

const MIB: u64 = 1 << 20;

fn survey(profiles: impl IntoIterator<Item = RankProfile>) -> Survey {
    let mut surveyor = Surveyor::default();
    for (rank, profile) in (0..).map(Rank).zip(profiles) {
        surveyor.add(rank, profile);
    }
    surveyor.finish()
}

/// A site that holds as much at the peak and at the end as at any other moment.
fn keeping(id: &str, bytes: Bytes) -> RankSite {
    RankSite {
        id: id.to_owned(),
        place: None,
        caller: None,
        operation: None,
        at_peak: bytes,
        most: bytes,
        at_end: bytes,
        wobble: Bytes::ZERO,
        end_wobble: Bytes::ZERO,
        leaks: false,
    }
}

fn of(program: &Program) -> RankProfile {
    Watch::undisturbed(|watch| RankProfile::of(&program.trace(), watch, watch))
}

/// A clean rank that peaks at so many MiB.
fn peaking(mib: u64) -> RankProfile {
    RankProfile {
        peak_allocated: Bytes::mib(mib),
        peak_reserved: Bytes::mib(mib),
        peak_requested: Bytes::mib(mib),
        whole_steps: 10,
        at_least: false,
        verdict: Verdict::Clean,
        ..Watch::undisturbed(|watch| RankProfile::of(&crate::trace::Trace::default(), watch, watch))
    }
}

fn leaking(mib: u64) -> RankProfile {
    RankProfile {
        verdict: Verdict::Leak,
        leaked_per_step: (mib * MIB) as f64,
        leaks: vec![RankPlace {
            site: "s1".to_owned(),
            place: Place {
                name: "keep".to_owned(),
                filename: "/srv/train.py".to_owned(),
                line: 41,
            },
            caller: None,
            bytes_per_step: (mib * MIB) as f64,
            within_step: false,
        }],
        ..peaking(100)
    }
}

/// Half a survey would say wrong things of the ranks that it had seen.
#[test]
fn whoever_watches_may_stop_a_survey_at_any_time() {
    let surveyor = || {
        let mut surveyor = Surveyor::default();
        for rank in 0..16 {
            surveyor.add(Rank(rank), leaking(u64::from(rank) + 1));
        }
        surveyor
    };
    for looks in [0, 1, 9, 17] {
        let seen = std::cell::Cell::new(0);
        let go_on = |_| seen.replace(seen.get() + 1) < looks;
        let stopped = surveyor().finish_while(Watch::new(&go_on));
        assert_eq!(stopped, Err(Stopped), "{looks}");
    }
    assert_eq!(
        surveyor().finish_while(Watch::nobody()),
        Ok(surveyor().finish())
    );
}

fn unclear() -> RankProfile {
    RankProfile {
        verdict: Verdict::CannotTell,
        ..peaking(100)
    }
}

fn failed() -> RankProfile {
    RankProfile {
        oom: Some(RankFailure {
            event: EventIdx(7),
            step: Some(5),
            wanted: Bytes::mib(64),
            is_last: true,
            ..RankFailure::default()
        }),
        ..peaking(100)
    }
}

/// The odd ranks and why, as text: `1 Leaks, 3 PeakHigh Steps`.
fn odd(survey: &Survey) -> String {
    let rows = survey.ranks.iter().filter(|row| !row.odd.is_empty());
    let told = rows.map(|row| {
        let kinds = row.odd.iter().map(|odd| format!("{:?}", odd.kind));
        format!("{} {}", row.rank, kinds.collect::<Vec<_>>().join(" "))
    });
    told.collect::<Vec<_>>().join(", ")
}

/// A rank whose ring wrapped: it may have stood higher before.
fn wrapped(mib: u64) -> RankProfile {
    RankProfile {
        wrapped: true,
        at_least: true,
        ..peaking(mib)
    }
}

/// Its first step lies over the step of the same number, not over the first of the others.
#[test]
fn a_ring_that_wrapped_lies_at_the_numbers_of_its_steps() {
    let steps = |numbers: std::ops::Range<u32>| {
        let names: Vec<String> = numbers.clone().map(|n| format!("step {n}")).collect();
        let level = Some([Bytes(1), Bytes(u64::from(numbers.start) + 1)]);
        RankProfile {
            numbering: Numbering::of(StepSource::Annotations, names.iter().map(String::as_str)),
            curve: Curve {
                window: (0.0, numbers.len() as f64),
                parts: vec![level; curves::PARTS],
            },
            ..wrapped(100)
        }
    };
    let found = survey([steps(0..12), steps(6..12)]);
    assert_eq!(found.band.window, (0.0, 12.0));
    let there = |part: usize| found.curves[1].parts[part].is_some();
    let half = curves::PARTS / 2;
    assert_eq!([there(0), there(half - 1)], [false, false]);
    assert_eq!([there(half), there(curves::PARTS - 1)], [true, true]);
}

#[test]
fn ranks_below_the_highest_that_are_not_there_are_missing() {
    let check = |present: &[u32], expected: &[u32], told: Option<&str>| {
        let missing = missing(present.iter().copied().map(Rank));
        let expected: Vec<Rank> = expected.iter().copied().map(Rank).collect();
        assert_eq!(missing, expected, "{present:?}");
        assert_eq!(missing_in_words(&missing).as_deref(), told, "{present:?}");
    };
    check(&[], &[], None);
    check(&[0], &[], None);
    check(&[1, 0, 2], &[], None);
    check(&[0, 1, 3], &[2], Some("Rank 2 is missing."));
    check(&[3, 0], &[1, 2], Some("Ranks 1 and 2 are missing."));
    let told = "6 ranks (0, 1, 2, 3, …) are missing.";
    check(&[6], &[0, 1, 2, 3, 4, 5], Some(told));
    // What no job can have is not missing.
    let most: Vec<u32> = (0..MAX_RANKS).collect();
    let told = "4096 ranks (0, 1, 2, 3, …) are missing.";
    check(&[u32::MAX], &most, Some(told));
    // Who sends a job knows of more ranks than there are.
    let of_eight = |present: &[u32]| missing_of(8, present.iter().copied().map(Rank));
    assert_eq!(of_eight(&[0, 1, 3, 4]), [2, 5, 6, 7].map(Rank));
    assert_eq!(of_eight(&[0, 9]), [1, 2, 3, 4, 5, 6, 7, 8].map(Rank));
}
