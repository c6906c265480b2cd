//! Leaks of two runs: new ones, faster ones, and what hides them.

use super::*;
use crate::leaks::Pattern;

/// Makes the leaks of a device grow within its steps.
fn within_steps(device: &mut profile::DeviceProfile) {
    let rates = &mut device.leaks.rates;
    rates.by_parts = std::mem::take(&mut rates.by_steps);
    for group in &mut device.leaks.groups {
        group.pattern = Pattern::WithinStep;
    }
}

#[test]
fn a_new_leak_is_a_regression_that_names_its_place() {
    let (base, new) = (
        Program::default(),
        Program {
            leak: 8 * MIB,
            ..Program::default()
        },
    );
    let difference = difference(&base, &new);
    assert_eq!(
        (difference.change, difference.leaks),
        (Change::Worse, LeakChange::Appeared)
    );
    let [row] = &difference.sites[..] else {
        panic!("one site differs: {:?}", difference.sites)
    };
    assert_eq!((row.change, row.matched), (SiteChange::New, Matched::Alone));
    assert_eq!(row.at_end, 96 * MIB as i64);
    assert_eq!(row.place().unwrap().name, "keep");
    let growth = difference.new.growth.unwrap();
    assert!((growth.slope - 8.0 * MIB as f64).abs() < 1.0);
    let verdicts = gated(&base, &new);
    assert_eq!(verdicts.outcome, Outcome::Regression);
    assert!(
        verdicts.reason.contains("in keep (cache.py:10)"),
        "{}",
        verdicts.reason
    );
    assert_eq!(gated(&new, &base).outcome, Outcome::Pass);
}

#[test]
fn small_leaks_fail_too() {
    let new = Program {
        leak: 4096,
        ..Program::default()
    };
    assert_eq!(
        gated(&Program::default(), &new).outcome,
        Outcome::Regression
    );
}

/// Three steps prove no leak, but two runs whose ends part with every step do not agree.
#[test]
fn runs_whose_ends_part_do_not_agree_in_everything() {
    let of = |leak: u64| Program {
        leak,
        steps: 3,
        ..Program::default()
    };
    let outcome = |base: u64, new: u64| gated(&of(base), &of(new)).outcome;
    assert_eq!(outcome(0, 0), Outcome::Pass);
    assert_eq!(outcome(0, 20 << 10), Outcome::CannotTell);
    assert_eq!(outcome(20 << 10, 40 << 10), Outcome::CannotTell);
}

/// Two of three steps are settled, and a line through two ends has no error: the gradients of the
/// last step, which the next one clears, are such a rise.
#[test]
fn growth_from_two_ends_is_not_told() {
    let of = |leak: u64| Program {
        leak,
        steps: 3,
        ..Program::default()
    };
    let difference = difference(&of(0), &of(40 * MIB));
    let growth = difference.new.growth.expect("two settled steps");
    assert!(growth.slope > 30.0 * MIB as f64, "{growth:?}");
    assert_eq!((growth.error, difference.new.growth_told), (None, None));
    let headline = &difference.headline;
    assert!(!headline.contains("growth"), "{headline}");
    assert!(!difference.sites.is_empty());
    assert!(difference.sites.iter().all(|site| site.growth == 0.0));
}

#[test]
fn a_leak_that_both_have_is_warned_about_and_a_faster_one_fails() {
    let leaky = |leak: u64, steps: u32| Program {
        leak,
        steps,
        ..Program::default()
    };
    let base = leaky(8 * MIB, 12);
    // A run with more steps holds more, which is not a difference.
    for new in [base.clone(), leaky(8 * MIB, 20), leaky(4 * MIB, 12)] {
        let verdicts = gated(&base, &new);
        assert_eq!(verdicts.outcome, Outcome::Pass, "{}", verdicts.reason);
        let warned = verdicts
            .findings
            .iter()
            .any(|f| f.weight == Weight::Warn && f.code == "leak");
        assert!(warned, "{verdicts:?}");
    }
    let verdicts = gated(&base, &leaky(9 * MIB, 12));
    assert_eq!(verdicts.outcome, Outcome::Regression);
    assert!(
        verdicts.reason.contains("the leak is faster"),
        "{}",
        verdicts.reason
    );
}

#[test]
fn a_leak_traded_for_another_fails() {
    let base = Program {
        leak: 8 * MIB,
        ..Program::default()
    };
    // A different size, so that it is not taken for a renamed function.
    let new = Program {
        leaker: ("hoard", "other.py"),
        leak: 8 * MIB + 512,
        ..base.clone()
    };
    let verdicts = gated(&base, &new);
    assert_eq!(verdicts.outcome, Outcome::Regression, "{}", verdicts.reason);
    let told = "8.00 MiB a step in hoard";
    assert!(verdicts.reason.contains(told), "{}", verdicts.reason);
    // Where it grows within steps, its rate is that of a part of a step.
    let within = |program: &Program| {
        let mut profile = program.profile();
        within_steps(&mut profile.devices[0]);
        profile
    };
    let [base, new] = [within(&base), within(&new)];
    let verdicts = gate::gate_runs(&base, &new, &compare(&base, &new), &Limits::default());
    let told = "8.00 MiB a part of a step in hoard";
    assert!(verdicts.reason.contains(told), "{}", verdicts.reason);
}

/// What is leaked where the other run has nothing to compare it with, or on the host.
#[test]
fn leaks_outside_of_the_pairs_are_judged() {
    let clean = Program::default().profile();
    let leaking = Program {
        leak: 4 * MIB,
        ..Program::default()
    };
    let leaking = leaking.profile();
    let second = |first: &Profile, second: &Profile| Profile {
        devices: [&first.devices[..], &second.devices].concat(),
        ..first.clone()
    };
    let host = |pinned: &Profile| Profile {
        pinned: Some(pinned.devices[0].clone()),
        ..clean.clone()
    };
    let check = |base: &Profile, new: &Profile, expected, says: &str| {
        let verdicts = gate::gate_runs(base, new, &compare(base, new), &Limits::default());
        assert_eq!(verdicts.outcome, expected, "{}", verdicts.reason);
        let mut told = verdicts.findings.iter().map(|finding| &finding.detail);
        assert!(
            says.is_empty() || told.any(|told| told.contains(says)),
            "{:?}",
            verdicts.findings
        );
    };
    let leaks = "which the baseline does not have, leaks 4.00 MiB a step in keep";
    check(
        &clean,
        &second(&clean, &leaking),
        Outcome::Regression,
        leaks,
    );
    check(
        &clean,
        &second(&clean, &clean),
        Outcome::Pass,
        "devices: 1 → 2",
    );
    let leaks = "pinned host memory leaks, and does not in the baseline: 4.00 MiB a step in keep";
    check(&host(&clean), &host(&leaking), Outcome::Regression, leaks);
    // Something else grows, too.
    let mut more = leaking.clone();
    more.devices[0].leaks.rates.by_steps.bytes += (2 * MIB) as f64;
    let leaks = "does not in the baseline: 6.00 MiB a step, 4.00 MiB of them in keep";
    check(&host(&clean), &host(&more), Outcome::Regression, leaks);
    check(
        &host(&leaking),
        &host(&leaking),
        Outcome::Pass,
        "leaks in both runs",
    );
    check(&clean, &host(&leaking), Outcome::CannotTell, "is not known");
    check(&host(&leaking), &host(&clean), Outcome::Pass, "");
}

/// Without stacks, a leak of blocks of any size is no row of the table of sites.
#[test]
fn a_leak_without_stacks_is_not_new_beside_itself() {
    let mut run = Program {
        leak: 4 * MIB,
        ..Program::default()
    }
    .profile();
    run.devices[0].leaks.groups[0].key = SiteKey::ANY_SIZE;
    for site in &mut run.devices[0].sites {
        site.leaks = false;
    }
    // Something else differs, so that the two are not merely alike.
    let mut other = run.clone();
    other.devices[0].sites[0].at_end += Bytes(4096);
    let verdicts = gate::gate(&compare(&run, &other), &Limits::default());
    assert_eq!(verdicts.outcome, Outcome::Pass, "{}", verdicts.reason);
}

/// The pair with the worst news is shown, though another one changed more.
#[test]
fn a_new_leak_is_shown_before_a_larger_change() {
    let clean = Program::default().profile();
    let of = |program: Program| program.profile().devices.remove(0);
    let leaks = of(Program {
        leak: MIB,
        ..Program::default()
    });
    let smaller = of(Program {
        weights: 20 * MIB,
        ..Program::default()
    });
    let two = |devices: [&profile::DeviceProfile; 2]| Profile {
        devices: devices.map(Clone::clone).to_vec(),
        ..clean.clone()
    };
    let larger = of(Program {
        weights: 205 * MIB,
        ..Program::default()
    });
    let mut unknown = smaller.clone();
    unknown.wrapped = true;
    let same = &clean.devices[0];
    let base = two([same, same]);
    let check = |new: [&profile::DeviceProfile; 2], expected: usize| {
        let found = compare(&base, &two(new));
        let changes: Vec<Change> = found.iter().map(|one| one.change).collect();
        assert_eq!(foremost(&found), Some(expected), "{changes:?}");
    };
    check([&smaller, &leaks], 1);
    check([&leaks, &larger], 0);
    // What is worse is told before what is better, however much that is.
    check([&smaller, &larger], 1);
    check([&larger, &smaller], 0);
    check([&smaller, &unknown], 1);
    check([&unknown, &larger], 1);
    check([same, &smaller], 1);
    check([same, same], 0);
}

/// The steps of both leak; what becomes of it is judged by each kind of leak.
#[test]
fn a_leak_across_steps_is_not_compared_with_one_within_steps() {
    let leaking = |leak: u64, leaker| {
        let program = Program {
            leak,
            leaker: (leaker, "cache.py"),
            ..Program::default()
        };
        program.profile()
    };
    let within = |leak: u64| {
        let mut profile = leaking(leak, "gather");
        within_steps(&mut profile.devices[0]);
        profile
    };
    let both = |across: u64, inside: u64| {
        let (mut profile, other) = (leaking(across, "keep"), within(inside));
        let other = &other.devices[0].leaks;
        let leaks = &mut profile.devices[0].leaks;
        leaks.rates.by_parts = other.rates.by_parts;
        leaks.groups.extend(other.groups.clone());
        profile
    };
    let host = |profile: Profile| Profile {
        pinned: Some(profile.devices[0].clone()),
        ..Program::default().profile()
    };
    let check = |base: Profile, new: Profile, expected: Outcome, says: &str| {
        let differences = compare(&base, &new);
        for [base, new] in [[base.clone(), new.clone()], [host(base), host(new)]] {
            let verdicts = gate::gate_runs(&base, &new, &compare(&base, &new), &Limits::default());
            assert_eq!(verdicts.outcome, expected, "{verdicts:?}");
            let mut told = verdicts.findings.iter().map(|finding| &finding.detail);
            assert!(told.any(|told| told.contains(says)), "{verdicts:?}");
        }
        differences[0].leaks
    };
    let new = "a leak that the baseline does not have: 1.00 MiB a step";
    let change = check(
        within(8 * MIB),
        leaking(MIB, "keep"),
        Outcome::Regression,
        new,
    );
    assert_eq!(change, LeakChange::Appeared);
    let new = "a leak that the baseline does not have: 1.00 MiB a part of a step";
    let change = check(
        leaking(8 * MIB, "keep"),
        within(MIB),
        Outcome::Regression,
        new,
    );
    assert_eq!(change, LeakChange::Appeared);
    let gone = "8.00 MiB a part of a step";
    let change = check(
        both(MIB, 8 * MIB),
        leaking(MIB, "keep"),
        Outcome::Pass,
        gone,
    );
    assert_eq!(change, LeakChange::Slower);
    let faster = "2.00 MiB a step";
    let change = check(
        both(MIB, 8 * MIB),
        both(2 * MIB, 4 * MIB),
        Outcome::Regression,
        faster,
    );
    assert_eq!(change, LeakChange::Faster);
}

/// A place that the baseline has, and where it does not leak, is a new place of a leak.
#[test]
fn a_leak_that_moves_to_a_known_place_fails_however_slow_it_is() {
    let leaking = |leak: u64, leaker, shift| Program {
        leak,
        leaker: (leaker, "cache.py"),
        shift,
        ..Program::default()
    };
    let mut base = leaking(8 * MIB, "keep", 0).profile();
    let mut known = leaking(4 * MIB, "hoard", 0)
        .profile()
        .devices
        .remove(0)
        .sites;
    known.retain(|site| site.leaks);
    base.devices[0]
        .sites
        .extend(known.into_iter().map(|site| profile::SiteProfile {
            leaks: false,
            ..site
        }));
    let check = |new: &Program, expected: Outcome, says: &str| {
        let verdicts = gate::gate(&compare(&base, &new.profile()), &Limits::default());
        assert_eq!(verdicts.outcome, expected, "{verdicts:?}");
        let mut told = verdicts.findings.iter().map(|finding| &finding.detail);
        assert!(told.any(|told| told.contains(says)), "{verdicts:?}");
    };
    for leak in [8 * MIB, 4 * MIB] {
        let says = "where the baseline does not leak";
        check(&leaking(leak, "hoard", 0), Outcome::Regression, says);
        // Its lines may move.
        check(&leaking(leak, "keep", 7), Outcome::Pass, "leak");
    }
    let says = "where the baseline allocates nothing";
    check(&leaking(2 * MIB, "store", 0), Outcome::Regression, says);
}
