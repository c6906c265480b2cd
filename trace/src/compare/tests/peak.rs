//! Where the change of a peak is, and in which steps.

use super::*;

fn of(text: &str) -> Profile {
    Profile::of(&crate::testing::trace(text))
}

fn says(base: &Profile, new: &Profile, told: &str) {
    let headline = compare(base, new).remove(0).headline;
    assert!(headline.contains(told), "{headline}");
}

/// One function holds most of its bytes at another time than the run, and in other lines.
#[test]
fn the_line_that_is_told_holds_something_at_the_peak() {
    let base = of("w pre 100MiB\nl alloc 80MiB at forward model.py:3\nl free");
    let before = "w pre 100MiB\na alloc 60MiB at clip train.py:6\nb alloc 40MiB at clip train.py:7";
    let peak = "l alloc 80MiB at forward model.py:3\nl free\na free\nb free";
    let after =
        "c alloc 90MiB at clip train.py:9\nd alloc 50MiB at clip train.py:9\nc free\nd free";
    let new = of(&format!("{before}\n{peak}\n{after}"));
    says(&base, &new, "most of it in clip (train.py:6)");
    says(&new, &base, "most of it in clip (train.py:6)");
    // The other run has that line further up.
    let moved = "a alloc 60MiB at clip train.py:4\n";
    let base = of(&format!("w pre 100MiB\n{moved}{peak}").replace("\nb free", ""));
    says(&base, &new, "most of it in clip (train.py:7)");
}

/// An evaluation in each third step makes more blocks in one of two programs.
#[test]
fn steps_that_differ_in_a_rhythm_are_no_luck() {
    let every = |n: usize, mib: u64, more: u32| {
        let mut lengths = vec![16 * MIB; n];
        lengths[n - 1] = mib * MIB;
        let program = Program {
            lengths,
            ..Program::default()
        };
        let mut profile = program.profile();
        let steps = profile.devices[0].steps.iter_mut();
        for step in steps.skip(n - 1).step_by(n) {
            step.allocs += more;
        }
        profile
    };
    let check = |base: &Profile, new: &Profile, change: Change, outcome: Outcome| {
        let found = compare(base, new);
        assert_eq!(found[0].change, change, "{}", found[0].headline);
        let gated = gate::gate(&found, &Limits::default());
        assert_eq!(gated.outcome, outcome, "{gated:?}");
        found[0].headline.clone()
    };
    let (usual, long) = (every(3, 16, 0), every(3, 64, 1));
    let told = check(&usual, &long, Change::Worse, Outcome::Regression);
    assert!(told.contains(", in 4 of 12 steps only"), "{told}");
    let told = check(&long, &usual, Change::Better, Outcome::Pass);
    assert!(told.contains(", in 4 of 12 steps only"), "{told}");
    // Longer data make as many blocks, and two steps have one distance.
    let data = every(3, 64, 0);
    check(&data, &usual, Change::Moved, Outcome::Pass);
    check(&every(6, 64, 1), &usual, Change::Moved, Outcome::Pass);
}

/// The first step is one of a kind, and hides what all the others need.
#[test]
fn steps_that_differ_below_the_peak_are_told() {
    let others = |mib: &[u64]| {
        let mut lengths = vec![64 * MIB];
        lengths.extend(mib.iter().cycle().take(11).map(|mib| mib * MIB));
        let program = Program {
            lengths,
            ..Program::default()
        };
        program.profile()
    };
    let check = |base: &[u64], new: &[u64], told: Option<&str>| {
        let found = compare(&others(base), &others(new));
        let gated = gate::gate(&found, &Limits::default());
        assert_eq!(gated.outcome, Outcome::Pass, "{gated:?}");
        let found = &found[0];
        assert_eq!(found.change == Change::Moved, told.is_some());
        let below = found
            .headline
            .split(", ")
            .find(|part| part.starts_with("but "));
        assert_eq!(below, told, "{}", found.headline);
    };
    let higher = "but 11 of 12 steps peak higher (464 MiB → 496 MiB at the median)";
    check(&[16], &[24], Some(higher));
    let lower = "but 11 of 12 steps peak lower (496 MiB → 464 MiB at the median)";
    check(&[24], &[16], Some(lower));
    check(&[16], &[16], None);
    // Steps that vary as much by themselves.
    check(&[16, 32], &[20, 36], None);
    check(&[16, 24], &[24, 16], None);
    // Only some.
    check(&[16, 16, 16], &[16, 16, 24], None);
}
