//! Rings that wrapped, and steps that are found by their numbers.

use super::words::levels;
use super::*;

/// A ring that wrapped may have held a higher peak.
#[test]
fn a_lower_peak_of_a_ring_that_wrapped_is_not_better() {
    let whole = Program::default().profile();
    let light = Program {
        weights: 100 * MIB,
        ..Program::default()
    };
    let mut wrapped = light.profile();
    wrapped.devices[0].wrapped = true;
    let of = |base: &Profile, new: &Profile| compare(base, new).remove(0);
    let lower = of(&whole, &wrapped);
    assert_eq!(lower.change, Change::NotComparable);
    let says = "at least 264 MiB), but the ring of the new run wrapped";
    assert!(lower.headline.contains(says), "{}", lower.headline);
    let higher = of(&wrapped, &whole);
    assert_eq!(higher.change, Change::NotComparable);
    assert!(higher.headline.contains("the ring of the baseline wrapped"));
    // Of two rings, both tell only a bound.
    let mut both = whole.clone();
    both.devices[0].wrapped = true;
    let rings = of(&wrapped, &both);
    let says = "(at least 264 MiB → at least 464 MiB)";
    assert!(levels(&rings).contains(says), "{}", levels(&rings));
    // The other way round, it needs at least so much more.
    let mut high = whole.clone();
    high.devices[0].wrapped = true;
    assert_eq!(of(&light.profile(), &high).change, Change::Worse);
}

/// A leaking run of steps of these numbers, whose ring wrapped within the first one; or all of it.
pub(super) fn part_of(
    program: &Program,
    numbers: std::ops::Range<usize>,
    wrapped: bool,
) -> Profile {
    let mut profile = program.profile();
    let device = &mut profile.devices[0];
    device.wrapped = wrapped;
    device.whole_steps = numbers.len() as u32;
    device.steps.truncate(numbers.end);
    device.steps.drain(..numbers.start);
    if wrapped {
        let first = &mut device.steps[0];
        first.events = Span::new(EventIdx(0), first.events.end());
        first.peak = first.peak.saturating_sub(Bytes::mib(50));
    }
    let peak = device.steps.iter().map(|step| step.peak).max();
    device.summary[Series::Allocated as usize].peak = peak.unwrap();
    profile
}

/// In a ring that wrapped, step 12 is step 12, and other steps say nothing where memory grows.
#[test]
fn a_ring_that_wrapped_is_compared_by_the_numbers_of_its_steps() {
    let leaking = |weights: u64| Program {
        steps: 21,
        leak: 4 * MIB,
        weights,
        ..Program::default()
    };
    let check = |base: &Profile, new: &Profile, expected: Outcome, says: &str| {
        let differences = compare(base, new);
        let verdicts = gate::gate(&differences, &Limits::default());
        assert_eq!(verdicts.outcome, expected, "{verdicts:?}");
        let mut told = verdicts.findings.iter().map(|finding| &finding.detail);
        assert!(told.any(|told| told.contains(says)), "{verdicts:?}");
        differences[0].change
    };
    let (same, more) = (leaking(200 * MIB), leaking(240 * MIB));
    let [whole, more] = [&same, &more].map(|program| part_of(program, 0..13, false));
    let (ring, later) = (part_of(&same, 11..21, true), part_of(&same, 13..21, true));
    let unknown = "its peak may be in the part that was overwritten";
    let change = check(&whole, &ring, Outcome::CannotTell, unknown);
    assert_ne!(change, Change::Worse);
    assert_ne!(check(&ring, &whole, Outcome::Pass, "leak"), Change::Better);
    let higher = "over step 12 of both, allowed";
    check(&ring, &more, Outcome::Regression, higher);
    let other = "may be of other steps";
    for (base, new) in [
        (&whole, &later),
        (&later, &whole),
        (&more, &later),
        (&later, &more),
    ] {
        let change = check(base, new, Outcome::CannotTell, other);
        assert_eq!(change, Change::NotComparable);
    }
    check(&later, &later, Outcome::Pass, "both runs leak");
}

/// Recorded late: the steps that both have are told by their numbers, and what the program requests
/// at the peaks of whole recordings says nothing of them.
#[test]
fn steps_that_both_have_are_told_by_their_numbers() {
    let leaking = |weights: u64| Program {
        steps: 21,
        leak: 4 * MIB,
        weights,
        ..Program::default()
    };
    let (same, more) = (leaking(200 * MIB), leaking(240 * MIB));
    let late = part_of(&same, 11..21, false);
    let check = |new: &Profile, expected: Outcome, says: &str| {
        let differences = compare(&late, new);
        let verdicts = gate::gate(&differences, &Limits::default());
        assert_eq!(verdicts.outcome, expected, "{verdicts:?}");
        assert!(verdicts.reason.contains(says), "{}", verdicts.reason);
        assert!(
            !verdicts.reason.contains("requests no more"),
            "{verdicts:?}"
        );
        let steps = &differences[0].conditions[0];
        let told = [&steps.base, &steps.new].map(String::as_str);
        assert_eq!(told, ["10 from number 11", "13 from number 0"]);
        assert!(steps.meaning.contains("over steps 11 and 12 of both"));
    };
    check(
        &part_of(&same, 0..13, false),
        Outcome::Pass,
        "over steps 11 and 12 of both",
    );
    let mut more = part_of(&more, 0..13, false);
    let requested = Series::Requested as usize;
    more.devices[0].summary[requested] = late.devices[0].summary[requested];
    check(&more, Outcome::Regression, "over steps 11 and 12 of both");
}

/// A run fails in the step of a number, whether its ring wrapped or not.
#[test]
fn how_far_a_ring_got_is_told_by_the_numbers_of_its_steps() {
    let failed = |numbers: std::ops::Range<usize>, wrapped: bool| {
        let program = Program {
            steps: 21,
            ..Program::default()
        };
        let end = numbers.end as u32;
        let mut profile = part_of(&program, numbers.clone(), wrapped);
        let device = &mut profile.devices[0];
        device.whole_steps -= 1;
        device.oom = Some(OutOfMemory {
            event: EventIdx(device.events - end),
            step: Some(numbers.len() as u32 - 1),
            wanted: Bytes::mib(64),
        });
        profile
    };
    let unnumbered = |mut profile: Profile| {
        profile.devices[0].step_source = StepSource::Inferred;
        profile
    };
    let check = |base: &Profile, new: &Profile, expected: Outcome, says: &str| {
        let verdicts = gate::gate(&compare(base, new), &Limits::default());
        let is_this = |found: &&gate::Finding| found.code == "out_of_memory";
        let found = verdicts.findings.iter().find(is_this).expect("it failed");
        assert!(found.detail.contains(says), "{found:?}");
        let outcome = match found.weight {
            Weight::Fail => Outcome::Regression,
            Weight::Unknown => Outcome::CannotTell,
            _ => Outcome::Pass,
        };
        assert_eq!(outcome, expected, "{found:?}");
    };
    let (early, late) = (failed(0..13, false), failed(0..21, false));
    let (ring, far) = (failed(11..21, true), failed(15..21, true));
    let further = "in step 12: a request for 64.0 MiB failed; the baseline got further";
    for base in [&late, &ring, &far] {
        check(base, &early, Outcome::Regression, further);
    }
    let not_less = "in step 20: a request for 64.0 MiB failed; so is the baseline";
    for new in [&late, &ring, &far] {
        check(&early, new, Outcome::Pass, not_less);
    }
    let unknown = "which got further is not known";
    check(
        &early,
        &unnumbered(ring.clone()),
        Outcome::CannotTell,
        unknown,
    );
    check(
        &unnumbered(ring.clone()),
        &early,
        Outcome::CannotTell,
        unknown,
    );
    // Recorded late, or gone on from a checkpoint.
    check(&failed(15..21, false), &early, Outcome::CannotTell, unknown);
    let itself = unnumbered(ring);
    check(&itself, &itself, Outcome::Pass, "so is the baseline");
}

/// Step 5 of a ring is compared with step 5, not with the first.
#[test]
fn steps_are_compared_by_their_numbers() {
    let whole = Program::default().profile();
    let mut ring = whole.clone();
    ring.devices[0].wrapped = true;
    ring.devices[0].steps.drain(..5);
    ring.devices[0].whole_steps -= 5;
    let numbers = |base: &Profile, new: &Profile| -> Vec<(u32, bool, bool)> {
        let there = |step: &StepDelta| (step.index, step.base.is_some(), step.new.is_some());
        compare(base, new)[0].steps.iter().map(there).collect()
    };
    let both: Vec<(u32, bool, bool)> = (0..12).map(|n| (n, true, n >= 5)).collect();
    assert_eq!(numbers(&whole, &ring), both);
    let back: Vec<(u32, bool, bool)> = both.iter().map(|&(n, b, w)| (n, w, b)).collect();
    assert_eq!(numbers(&ring, &whole), back);
}

/// A ring begins within step 11: its peak is only a bound, and so tells no change.
#[test]
fn a_step_without_its_beginning_is_told_as_that() {
    let program = Program {
        steps: 21,
        ..Program::default()
    };
    let (whole, ring) = (
        part_of(&program, 0..21, false),
        part_of(&program, 11..21, true),
    );
    for (base, new) in [(&whole, &ring), (&ring, &whole)] {
        let difference = compare(base, new).remove(0);
        let is_cut = |step: &&StepDelta| {
            let mut sides = [&step.base, &step.new].into_iter().flatten();
            sides.any(|side| side.is_cut)
        };
        let cut: Vec<&StepDelta> = difference.steps.iter().filter(is_cut).collect();
        let [step] = cut[..] else {
            panic!("one step: {cut:?}")
        };
        assert_eq!((step.index, step.of_whole_steps()), (11, None));
        assert!(difference.steps[12].of_whole_steps().is_some());
        let told = [&step.base, &step.new].map(|side| side.as_ref().map(StepSide::told_peak));
        let bounds = told
            .iter()
            .flatten()
            .filter(|told| told.starts_with("at least "));
        assert_eq!(bounds.count(), 1, "{told:?}");
    }
}

/// What a baseline reserved before its ring begins is not known.
#[test]
fn more_reserved_than_a_ring_still_tells_is_no_warning() {
    let mut base = Program::default().profile();
    let mut new = base.clone();
    let reserved = Series::Reserved as usize;
    base.devices[0].summary[reserved].peak = Bytes::gib(1);
    new.devices[0].summary[reserved].peak = Bytes::gib(4);
    let mut check = |wrapped: bool, warns: bool| {
        base.devices[0].wrapped = wrapped;
        let verdicts = gate::gate(&compare(&base, &new), &Limits::default());
        let mut codes = verdicts.findings.iter().map(|found| found.code.as_str());
        assert_eq!(codes.any(|code| code == "reserved"), warns, "{verdicts:?}");
    };
    check(false, true);
    check(true, false);
}
