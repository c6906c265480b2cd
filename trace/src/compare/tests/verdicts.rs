//! What is worse, better, or cannot be told.

use super::numbers::part_of;
use super::*;
use crate::device::DeviceIdx;

#[test]
fn too_few_steps_and_wrapped_rings_are_not_judged_unless_nothing_differs() {
    let short = Program {
        steps: 3,
        ..Program::default()
    };
    let verdicts = gated(&Program::default(), &short);
    assert_eq!(verdicts.outcome, Outcome::CannotTell);
    assert!(verdicts.reason.contains("too few"), "{}", verdicts.reason);
    assert_eq!(gated(&short, &short).outcome, Outcome::Pass);
    let mut trace = Program {
        steps: 8,
        ..Program::default()
    }
    .trace();
    let whole = Program::default().profile();
    trace.quality.push(QualityNote {
        code: "ring_wrapped".to_owned(),
        detail: "device 0: the ring wrapped".to_owned(),
    });
    let wrapped = Profile::of(&trace);
    let outcome =
        |base: &Profile, new: &Profile| gate::gate(&compare(base, new), &Limits::default()).outcome;
    assert_eq!(outcome(&whole, &wrapped), Outcome::CannotTell);
    assert_eq!(outcome(&wrapped, &wrapped), Outcome::Pass);
    // A higher peak is a regression whatever came before. Against a wrapped baseline it cannot be
    // judged, but in the steps whose numbers both have.
    let high = Program {
        weights: 300 * MIB,
        ..Program::default()
    }
    .profile();
    assert_eq!(outcome(&wrapped, &high), Outcome::Regression);
    let mut unnumbered = wrapped;
    unnumbered.devices[0].step_source = StepSource::Inferred;
    assert_eq!(outcome(&unnumbered, &high), Outcome::CannotTell);
}

#[test]
fn limits_are_the_users() {
    let base = Program::default();
    let new = Program {
        weights: 210 * MIB,
        ..base.clone()
    };
    let differences = compare(&base.profile(), &new.profile());
    let outcome = |peak_growth| {
        let limits = Limits {
            peak_growth,
            ..Limits::default()
        };
        gate::gate(&differences, &limits).outcome
    };
    assert_eq!(outcome(Allowance::Share(0.02)), Outcome::Regression);
    assert_eq!(outcome(Allowance::Share(0.10)), Outcome::Pass);
    assert_eq!(
        outcome(Allowance::Bytes(Bytes::mib(5))),
        Outcome::Regression
    );
    assert_eq!(outcome(Allowance::Bytes(Bytes::mib(30))), Outcome::Pass);
}

/// Two leaks that count as equally fast may differ by more than the limit.
#[test]
fn the_limit_of_growth_holds_where_both_runs_leak() {
    let leaking = |leak| Program {
        leak,
        ..Program::default()
    };
    let [base, new] = [100 * MIB, 101 * MIB + MIB / 2].map(|leak| leaking(leak).profile());
    let differences = compare(&base, &new);
    assert_eq!(differences[0].leaks, LeakChange::Same);
    let check = |step_growth, expected: Outcome| {
        let limits = Limits {
            step_growth,
            ..Limits::default()
        };
        let verdicts = gate::gate(&differences, &limits);
        assert_eq!(verdicts.outcome, expected, "{step_growth} {verdicts:?}");
    };
    check(Bytes::ZERO, Outcome::Regression);
    check(Bytes::mib(1), Outcome::Regression);
    check(Bytes::mib(2), Outcome::Pass);
}

/// Two runs may be alike as runs of one program are, and differ by more than a limit allows.
#[test]
fn a_limit_tighter_than_the_noise_of_two_runs_is_held() {
    let base = Program {
        weights: 400 * MIB,
        ..Program::default()
    };
    let new = Program {
        weights: 402 * MIB,
        ..base.clone()
    };
    let differences = compare(&base.profile(), &new.profile());
    assert!(differences[0].alike);
    let outcome = |peak_growth| {
        let limits = Limits {
            peak_growth,
            ..Limits::default()
        };
        gate::gate(&differences, &limits).outcome
    };
    assert_eq!(outcome(Allowance::Share(0.02)), Outcome::Pass);
    assert_eq!(outcome(Allowance::Bytes(Bytes::mib(4))), Outcome::Pass);
    let tight = Bytes::mib(3);
    assert_eq!(outcome(Allowance::Bytes(tight)), Outcome::Regression);
    assert_eq!(outcome(Allowance::Share(0.0)), Outcome::Regression);
    let limits = Limits {
        peak_growth: Allowance::Share(0.0),
        ..Limits::default()
    };
    let reason = gate::gate(&differences, &limits).reason;
    assert!(!reason.contains("requests no more"), "{reason}");
}

/// A run of some steps that then runs out of memory, in a step that is cut off.
fn failing(steps: u32) -> Profile {
    let program = Program {
        steps,
        ..Program::default()
    };
    let mut profile = program.profile();
    let device = &mut profile.devices[0];
    device.oom = Some(OutOfMemory {
        event: EventIdx(device.events),
        step: None,
        wanted: Bytes::mib(64),
    });
    profile
}

#[test]
fn a_run_that_runs_out_of_memory_is_worse_and_earlier_is_worse_still() {
    let check = |base: &Profile, new: &Profile, expected: (Change, Outcome), says: &str| {
        let differences = compare(base, new);
        let verdicts = gate::gate(&differences, &Limits::default());
        assert_eq!((differences[0].change, verdicts.outcome), expected);
        let headline = &differences[0].headline;
        assert!(headline.contains(says), "{headline}");
    };
    let fine = Program::default().profile();
    let (early, late) = (failing(7), failing(11));
    let worse = (Change::Worse, Outcome::Regression);
    let says = "ran out of memory after 7 steps, the baseline did not";
    check(&fine, &early, worse, says);
    let says = "ran out of memory after 7 steps, the baseline after 11 steps";
    check(&late, &early, worse, says);
    let better = (Change::Better, Outcome::Pass);
    check(&early, &fine, better, "the baseline ran out of memory");
    check(
        &early,
        &late,
        better,
        "after 11 steps, the baseline after 7",
    );
    let same = (Change::None, Outcome::Pass);
    check(&late, &late, same, "both ran out of memory");
    // In its first step, a run has not come to its peak.
    let mut first = failing(1);
    first.devices[0].steps.clear();
    first.devices[0].whole_steps = 0;
    first.devices[0].summary[Series::Allocated as usize].peak = Bytes::mib(10);
    check(
        &fine,
        &first,
        worse,
        "ran out of memory, the baseline did not",
    );
    let verdicts = gate::gate(&compare(&early, &first), &Limits::default());
    assert_eq!(verdicts.outcome, Outcome::CannotTell);
    assert!(verdicts.reason.contains("which got further is not known"));
}

/// A process may have next to nothing on a device that it does not use.
#[test]
fn a_device_that_holds_next_to_nothing_takes_nobodys_place() {
    let alone = Program::default().trace();
    let beside = |program: Program| {
        let mut trace = program.trace();
        let mut idle = crate::testing::trace("x alloc 1KiB").devices.remove(0);
        trace.devices[0].device = DeviceIdx(1);
        idle.device = DeviceIdx(0);
        trace.devices.insert(0, idle);
        trace
    };
    let heavier = Program {
        weights: 260 * MIB,
        ..Program::default()
    };
    let outcome = |base: &Trace, new: &Trace| {
        let [base, new] = [base, new].map(Profile::of);
        let differences = compare(&base, &new);
        gate::gate_runs(&base, &new, &differences, &Limits::default()).outcome
    };
    let same = beside(Program::default());
    assert_eq!(outcome(&alone, &same), Outcome::Pass);
    assert_eq!(outcome(&same, &alone), Outcome::Pass);
    assert_eq!(outcome(&alone, &beside(heavier)), Outcome::Regression);
    // Where both have as many, a device stays where it is, however little it holds.
    let load = |mib: u64, events: u32| pairs::Load {
        peak: Bytes::mib(mib),
        events,
    };
    let (idle, less, used) = (load(1, 2), load(90, 50), load(100, 900));
    let check = |base: &[pairs::Load], new: &[pairs::Load], expected: [&[usize]; 2]| {
        assert_eq!(pairs::in_order(base, new), expected.map(<[usize]>::to_vec));
    };
    check(&[used], &[idle, used], [&[0], &[1, 0]]);
    check(&[idle, used], &[less, used], [&[0, 1], &[0, 1]]);
    check(&[less, used], &[used], [&[0, 1], &[0]]);
    check(&[], &[idle], [&[], &[0]]);
}

/// Lengths vary from step to step. That is no excuse for steps of equal work that need more.
#[test]
fn steps_of_equal_work_that_need_more_are_worse() {
    let base = Program {
        lengths: vec![8 * MIB, 40 * MIB, 24 * MIB],
        ..Program::default()
    }
    .profile();
    let mut new = base.clone();
    let device = &mut new.devices[0];
    let more = |bytes: Bytes| Bytes(bytes.0 + bytes.0 / 20);
    device.steps.iter_mut().for_each(|s| s.peak = more(s.peak));
    let peak = &mut device.summary[Series::Allocated as usize].peak;
    *peak = more(*peak);
    let [worse, better] = [(&base, &new), (&new, &base)].map(|(a, b)| compare(a, b).remove(0));
    // The highest step alone says nothing.
    assert!(!worse.peaks_differ());
    assert_eq!(
        (worse.change, better.change),
        (Change::Worse, Change::Better)
    );
    let outcome = |difference| gate::gate(&[difference], &Limits::default()).outcome;
    assert_eq!(outcome(worse), Outcome::Regression);
    assert_eq!(outcome(better), Outcome::Pass);
}

/// What a baseline would have needed for far longer steps, nobody knows.
#[test]
fn a_step_of_far_more_work_is_compared_with_none() {
    let of = |lengths: &[u64]| Program {
        lengths: lengths.iter().map(|mib| mib * MIB).collect(),
        weights: 10 * MIB,
        ..Program::default()
    };
    let base = of(&[20, 30, 40]);
    let check = |new: &Program, expected: Outcome, says: &str| {
        let verdicts = gated(&base, new);
        assert_eq!(verdicts.outcome, expected, "{}", verdicts.reason);
        let found = verdicts.findings.iter();
        let peak: Vec<_> = found.filter(|finding| finding.code == "peak").collect();
        let is_said = peak.iter().any(|finding| finding.detail.contains(says));
        assert!(is_said || says.is_empty(), "{peak:?}");
    };
    let unknown = "in a step that does 2.00 times the work of the baseline's largest";
    check(&of(&[20, 30, 80]), Outcome::CannotTell, unknown);
    check(&of(&[20, 30, 41]), Outcome::Pass, "does more work");
    check(&of(&[20, 30, 52]), Outcome::CannotTell, "");
    check(&of(&[40, 20, 30]), Outcome::Pass, "");
    let heavier = Program {
        weights: 40 * MIB,
        ..of(&[20, 30, 80])
    };
    check(&heavier, Outcome::Regression, "steps of equal work");
    let differences = compare(&base.profile(), &of(&[20, 30, 80]).profile());
    agrees_with_the_gate(&differences);
}

/// A comparison says "cannot tell" where the gate does, in the same words.
fn agrees_with_the_gate(differences: &[Difference]) {
    let verdicts = gate::gate(differences, &Limits::default());
    assert_eq!(verdicts.outcome, Outcome::CannotTell);
    let [difference] = differences else {
        panic!("one device");
    };
    assert_eq!(difference.change, Change::NotComparable);
    assert_eq!(difference.headline, verdicts.reason);
}

/// An optimizer may be common to two programs. That is too little to compare them.
#[test]
fn two_programs_are_not_compared() {
    let (base, other) = (Program::default().profile(), {
        let builder = Program {
            trainer: ("serve", "server.py"),
            weights: 20 * MIB,
            ..Program::default()
        };
        let mut profile = builder.profile();
        for (at, site) in (0..).zip(&mut profile.devices[0].sites) {
            site.key = SiteKey::Shape(at);
            site.functions.clear();
        }
        profile
    });
    // Also where only one was recorded with C++ frames.
    let mut native = other.clone();
    native.devices[0].has_native = true;
    let pairs = [
        (&base, &other),
        (&other, &base),
        (&base, &native),
        (&native, &base),
    ];
    for (base, new) in pairs {
        let differences = compare(base, new);
        let verdicts = gate::gate(&differences, &Limits::default());
        assert_eq!(verdicts.outcome, Outcome::CannotTell);
        agrees_with_the_gate(&differences);
        let says = "they look like two programs, and their peaks";
        assert!(verdicts.reason.contains(says), "{}", verdicts.reason);
        let conditions = &differences[0].conditions;
        let mut meanings = conditions.iter().map(|condition| &condition.meaning);
        assert!(meanings.any(|meaning| meaning.contains("levels are not comparable")));
        assert!(!meanings.any(|meaning| meaning.contains("the same tensors")));
    }
}

/// How fast another program leaks says nothing of this one, nor what it needs.
#[test]
fn a_leak_of_another_program_is_told_without_the_baseline() {
    let leaky = |leak: u64| Program {
        leak,
        ..Program::default()
    };
    let base = leaky(8 * MIB);
    let check = |leak: u64, known: bool, says: &str| {
        let mut difference = difference(&base, &leaky(leak));
        difference.facts.is_other_program = true;
        for place in &mut difference.new.leaks.places {
            (place.in_both, place.known) = (known, known);
        }
        judge(&mut difference, None);
        let verdicts = gate::gate(std::slice::from_ref(&difference), &Limits::default());
        assert!(verdicts.reason.contains(says), "{}", verdicts.reason);
        let headline = difference.headline;
        for word in ["peak ", "faster", "slower", "growth"] {
            assert!(!headline.contains(word), "{headline}");
            assert!(!verdicts.reason.contains(word), "{}", verdicts.reason);
        }
        headline
    };
    let fresh = "a leak in another place: 62.0 MiB a step in keep (cache.py:10), where the \
                 baseline allocates nothing";
    let told = check(62 * MIB, false, fresh);
    assert!(
        told.starts_with("leaks 62.0 MiB a step in keep (cache.py:10); "),
        "{told}"
    );
    let own = "the new run leaks 62.0 MiB a step, in keep (cache.py:10)";
    check(62 * MIB, true, own);
    // One that is no faster is no news, nor is its place: every place is another one.
    for known in [true, false] {
        check(4 * MIB, known, "they look like two programs");
    }
}

/// Whatever another program allocates, the baseline does not; and how far it got before it failed
/// is no bad news.
#[test]
fn another_program_is_no_worse_for_places_of_its_own_or_for_more_steps() {
    let other = |base: &Profile, new: &Profile| {
        let mut difference = compare(base, new).remove(0);
        difference.facts.is_other_program = true;
        for place in &mut difference.new.leaks.places {
            (place.in_both, place.known) = (false, false);
        }
        judge(&mut difference, None);
        difference
    };
    let leaky = |steps: u32| {
        let program = Program {
            steps,
            leak: 8 * MIB,
            ..Program::default()
        };
        program.profile()
    };
    // Nobody knows whether three steps leak.
    let short = Program {
        steps: 3,
        ..Program::default()
    };
    let unknown = other(&short.profile(), &leaky(12));
    assert_eq!(
        unknown.change,
        Change::NotComparable,
        "{}",
        unknown.headline
    );
    let mut further = leaky(16);
    let device = &mut further.devices[0];
    let event = EventIdx(device.events);
    let failed = failing(16).devices[0].oom;
    device.oom = failed.map(|oom| OutOfMemory { event, ..oom });
    let found = other(&failing(12), &further);
    assert_eq!(found.change, Change::Worse);
    let headline = &found.headline;
    assert!(headline.starts_with("a new leak in keep"), "{headline}");
    assert!(!headline.contains("ran out of memory"), "{headline}");
    let back = other(&further, &failing(12));
    let says = "ran out of memory after 12 steps, the baseline after 16 steps; ";
    assert_eq!(back.change, Change::Worse);
    assert!(back.headline.starts_with(says), "{}", back.headline);
}

/// One rule for both: nothing is better where the gate cannot tell, and what fails there is worse.
#[test]
fn a_comparison_and_the_gate_say_the_same() {
    let program = |leaker: &'static str, leak: u64, weights: u64| Program {
        steps: 21,
        leaker: (leaker, "cache.py"),
        leak: leak * MIB,
        weights: weights * MIB,
        ..Program::default()
    };
    let check = |base: &Profile, new: &Profile, expected: (Change, Outcome), says: &[&str]| {
        let differences = compare(base, new);
        let verdicts = gate::gate(&differences, &Limits::default());
        let headline = &differences[0].headline;
        let found = (differences[0].change, verdicts.outcome);
        assert_eq!(found, expected, "{headline}; {verdicts:?}");
        for says in says {
            assert!(headline.contains(says), "{headline}");
        }
    };
    let cannot_tell = (Change::NotComparable, Outcome::CannotTell);
    let leaking = program("keep", 4, 200);
    let [whole, ring] = [(0..13, false), (11..21, true)]
        .map(|(numbers, wrapped)| part_of(&leaking, numbers, wrapped));
    let clean = part_of(&program("keep", 0, 200), 11..21, true);
    let overwritten = "its peak may be in the part that was overwritten";
    let gone = "record more (max_entries); the leak in keep (cache.py:10) is gone";
    check(&whole, &clean, cannot_tell, &[overwritten, gone]);
    check(
        &whole,
        &ring,
        cannot_tell,
        &["; still leaking in keep (cache.py:10)"],
    );
    let short = |weights: u64| Program {
        steps: 3,
        ..program("keep", 0, weights)
    };
    let says = ["peak −100 MiB (", "but whether it leaks is not known: "];
    let lighter = short(150).profile();
    check(
        &program("keep", 0, 200).profile(),
        &lighter,
        cannot_tell,
        &says,
    );
    let says = [
        "peak −",
        "; the new run leaks (",
        "whether the baseline does is not known",
    ];
    let mut since_when = program("keep", 1, 120).profile();
    since_when.devices[0].has_stacks = false;
    since_when.devices[0]
        .leaks
        .groups
        .iter_mut()
        .for_each(|group| group.place = None);
    check(&short(200).profile(), &since_when, cannot_tell, &says);
    let mixed = (Change::Mixed, Outcome::Regression);
    let traded = program("hoard", 2, 150).profile();
    let says = "leaking in hoard (cache.py:10), where the baseline does not leak";
    check(&leaking.profile(), &traded, mixed, &[says, "peak −"]);
    let says = "a leak in hoard (cache.py:10), where the baseline allocates nothing";
    check(&short(200).profile(), &traded, mixed, &[says, "peak −"]);
}

/// What is held at the dump is no peak.
#[test]
fn two_states_without_history_cannot_be_judged_unless_they_agree() {
    let state = |weights: u64| {
        let program = Program {
            weights,
            ..Program::default()
        };
        let mut profile = program.profile();
        let device = &mut profile.devices[0];
        device.events = 0;
        device.steps.clear();
        device.whole_steps = 0;
        profile
    };
    let (base, more) = (state(200 * MIB), state(216 * MIB));
    for (base, new) in [(&base, &more), (&more, &base)] {
        let differences = compare(base, new);
        assert_eq!(differences[0].change, Change::NotComparable);
        let verdicts = gate::gate(&differences, &Limits::default());
        assert_eq!(verdicts.outcome, Outcome::CannotTell, "{verdicts:?}");
        let says = "held at the dump: ";
        assert!(verdicts.reason.starts_with(says), "{}", verdicts.reason);
        assert!(
            verdicts.reason.ends_with("so no peak is known"),
            "{}",
            verdicts.reason
        );
    }
    let verdicts = gate::gate(&compare(&base, &base), &Limits::default());
    assert_eq!(verdicts.outcome, Outcome::Pass, "{verdicts:?}");
}

/// Levels of a recording that lacks events are not certain.
#[test]
fn a_run_that_contradicts_itself_is_not_compared() {
    let base = Program::default().profile();
    let heavy = Program {
        weights: 400 * MIB,
        ..Program::default()
    };
    let mut heavy = heavy.profile();
    heavy.devices[0].contradictory = true;
    for (base, new, which) in [
        (&base, &heavy, "the new run"),
        (&heavy, &base, "the baseline"),
    ] {
        let differences = compare(base, new);
        assert_eq!(differences[0].change, Change::NotComparable);
        let verdicts = gate::gate(&differences, &Limits::default());
        assert_eq!(verdicts.outcome, Outcome::CannotTell, "{verdicts:?}");
        let says = format!("{which} contradicts itself: events are missing");
        let found = verdicts
            .findings
            .iter()
            .any(|f| f.detail.starts_with(&says));
        assert!(found, "{verdicts:?}");
    }
}

/// A figure that reads like the limit is told by how much it is not.
#[test]
fn what_reads_alike_and_is_not_is_told() {
    let of = |weights: u64, leak: u64| Program {
        weights,
        leak,
        ..Program::default()
    };
    let check = |new: Program, limits: Limits, says: &str| {
        let base = of(400 * MIB, 2 * MIB);
        let differences = compare(&base.profile(), &new.profile());
        let verdicts = gate::gate(&differences, &limits);
        let mut told = verdicts.findings.iter().map(|finding| &finding.detail);
        let headline = &differences[0].headline;
        assert!(
            headline.contains(says) || told.any(|told| told.contains(says)),
            "{headline} {verdicts:?}"
        );
    };
    let peak = Limits {
        peak_growth: Allowance::Bytes(Bytes(16 * MIB - 1024)),
        ..Limits::default()
    };
    let says = "allowed 16.0 MiB, which is 1.00 KiB less)";
    check(of(408 * MIB, 2 * MIB), peak, says);
    let step = Limits {
        step_growth: Bytes(511),
        ..Limits::default()
    };
    let says = "2.00 MiB in the baseline (512 B more; allowed 511 B more)";
    check(of(400 * MIB, 2 * MIB + 512), step, says);
    let says = "no change beyond what runs of one program differ by: peak +2.00 MiB";
    check(of(401 * MIB, 2 * MIB), Limits::default(), says);
}

/// A snapshot without history has no peak.
#[test]
fn a_state_is_not_held_against_a_history() {
    let run = Program::default().profile();
    let mut state = run.clone();
    state.devices[0].events = 0;
    for (base, new, says) in [
        (&state, &run, "the baseline holds no history"),
        (&run, &state, "the new run holds no history"),
    ] {
        let differences = compare(base, new);
        assert_eq!(differences[0].change, Change::NotComparable);
        let verdicts = gate::gate(&differences, &Limits::default());
        assert_eq!(verdicts.outcome, Outcome::CannotTell);
        assert!(verdicts.reason.starts_with(says), "{}", verdicts.reason);
    }
}

/// What a state is made of is compared as what a peak is.
#[test]
fn a_peak_before_the_first_event_has_categories() {
    let state = Profile::of(&crate::testing::trace("a pre 10MiB"));
    let falls = Profile::of(&crate::testing::trace("a pre 10MiB\na free"));
    for profile in [state, falls] {
        let held: Bytes = profile.devices[0]
            .at_peak
            .iter()
            .map(|(_, bytes)| *bytes)
            .sum();
        assert_eq!(held, Bytes::mib(10));
    }
}

#[test]
fn no_devices_cannot_be_judged() {
    let verdicts = gate::gate(&[], &Limits::default());
    assert_eq!(verdicts.outcome, Outcome::CannotTell);
    assert_eq!(foremost(&[]), None);
}
