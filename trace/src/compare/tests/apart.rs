//! Recordings that begin at different steps, what is kept between steps, and what is no difference.

use super::numbers::part_of;
use super::profile::{DeviceProfile, Requested, SiteProfile};
use super::sites::{Matching, SiteChange};
use super::*;

/// The steps of these positions, of a program that gives them no numbers.
fn recorded(program: &Program, steps: std::ops::Range<usize>) -> Profile {
    let before = steps.start.checked_sub(1);
    let whole = program.profile();
    let start = before.map_or(Bytes::ZERO, |at| whole.devices[0].steps[at].end);
    let mut profile = part_of(program, steps, false);
    let device = &mut profile.devices[0];
    device.step_source = StepSource::Inferred;
    device.summary[Series::Allocated as usize].start = start;
    profile
}

fn told(base: &Profile, new: &Profile) -> (Difference, Verdicts) {
    let differences = compare(base, new);
    let verdicts = gate::gate(&differences, &Limits::default());
    (differences.into_iter().next().unwrap(), verdicts)
}

#[test]
fn a_recording_that_begins_later_lies_where_its_levels_agree() {
    let leaking = |weights: u64| Program {
        leak: 8 * MIB,
        weights,
        ..Program::default()
    };
    let same = leaking(200 * MIB);
    let (whole, late) = (recorded(&same, 0..12), recorded(&same, 4..12));
    for (base, new) in [(&whole, &late), (&late, &whole)] {
        let (difference, verdicts) = told(base, new);
        assert_eq!(verdicts.outcome, Outcome::Pass, "{verdicts:?}");
        assert!(!difference.peaks_differ(), "{}", difference.headline);
        let mut conditions = difference.conditions.iter();
        let begins = |one: &conditions::Condition| one.meaning.contains("begins 4 steps later");
        assert!(conditions.any(begins), "{:?}", difference.conditions);
    }
    // Each step needs more, and nothing says which step is which.
    let more = recorded(&leaking(203 * MIB), 0..12);
    for (base, new) in [(&late, &more), (&more, &late)] {
        let (difference, verdicts) = told(base, new);
        assert_eq!(verdicts.outcome, Outcome::CannotTell, "{verdicts:?}");
        assert!(verdicts.reason.contains("begins later"), "{verdicts:?}");
        assert_eq!(difference.change, Change::NotComparable);
    }
}

#[test]
fn of_a_leak_that_is_gone_or_new_the_steps_need_not_be_known() {
    let (clean, leaking) = (
        Program::default(),
        Program {
            leak: 8 * MIB,
            ..Program::default()
        },
    );
    for base in [0..12, 4..12] {
        let new = if base.start == 0 { 4..12 } else { 0..12 };
        let of = |base: &Program, new: &Program, steps: [&std::ops::Range<usize>; 2]| {
            let [at, then] = steps.map(Clone::clone);
            told(&recorded(base, at), &recorded(new, then))
        };
        let (fixed, verdicts) = of(&leaking, &clean, [&base, &new]);
        assert_eq!(verdicts.outcome, Outcome::Pass, "{verdicts:?}");
        assert_eq!(fixed.change, Change::Better, "{}", fixed.headline);
        // The steps without the leak are all alike, so it is known how much lower they are.
        let less = "peak −96.0 MiB";
        assert!(fixed.headline.contains(less), "{}", fixed.headline);
        let (_, verdicts) = of(&clean, &leaking, [&base, &new]);
        assert_eq!(verdicts.outcome, Outcome::Regression, "{verdicts:?}");
    }
}

#[test]
fn what_is_kept_between_steps_is_told_and_warned_about() {
    let base = Program::default();
    // As high as the other one, but for other reasons.
    let keeps = Program {
        weights: 230 * MIB,
        lengths: vec![MIB],
        ..base.clone()
    };
    let (more, verdicts) = told(&base.profile(), &keeps.profile());
    assert_eq!(verdicts.outcome, Outcome::Pass, "{verdicts:?}");
    assert_eq!(more.change, Change::Worse);
    let says = "at the ends of steps +60.0 MiB (400 MiB → 460 MiB)";
    assert!(more.headline.contains(says), "{}", more.headline);
    let mut warned = verdicts.findings.iter();
    assert!(warned.any(|f| f.weight == Weight::Warn && f.code == "kept"));
    let (less, verdicts) = told(&keeps.profile(), &base.profile());
    assert_eq!(
        (less.change, verdicts.outcome),
        (Change::Better, Outcome::Pass)
    );
    assert!(less.headline.contains("at the ends of steps −60.0 MiB"));
    assert!(!verdicts.findings.iter().any(|f| f.code == "kept"));
}

/// `head(hidden(x))` takes the place of `model(x)`, whose function is still called elsewhere.
#[test]
fn a_call_left_out_of_the_middle_is_no_other_site() {
    let (linear, hidden) = (("linear", "linear.py"), ("hidden", "model.py"));
    let (forward, step) = (("forward", "model.py"), ("step", "train.py"));
    let program = Program::default();
    let run = |stack: &[(&str, &str)], bytes: u64| {
        let mut running = Running {
            program: &program,
            builder: TraceBuilder::default(),
            n_events: 0,
        };
        running.alloc(stack, bytes);
        running.alloc(&[("norm", "linear.py"), forward, step], MIB);
        Profile::of(&running.builder.finish())
    };
    let base = run(&[linear, hidden, forward, step], 8 * MIB);
    let left_over = |new: &Profile| {
        let sites = |run: &Profile| run.devices[0].sites.clone();
        let found = Matching::of(&sites(&base), &sites(new), Watch::nobody());
        let found = found.unwrap();
        (found.gone.len(), found.new.len())
    };
    assert_eq!(left_over(&run(&[linear, hidden, step], 8 * MIB)), (0, 0));
    // Other sizes, or another function of the program.
    assert_eq!(left_over(&run(&[linear, hidden, step], 9 * MIB)), (1, 1));
    assert_eq!(left_over(&run(&[linear, forward, step], 9 * MIB)), (1, 1));
}

/// A trace of blocks that are held: what each stack holds, innermost function first.
fn holding(blocks: &[(&[(&str, &str)], u64)]) -> Profile {
    let program = Program::default();
    let mut running = Running {
        program: &program,
        builder: TraceBuilder::default(),
        n_events: 0,
    };
    for &(stack, bytes) in blocks {
        running.alloc(stack, bytes);
    }
    Profile::of(&running.builder.finish())
}

#[test]
fn a_function_that_was_inlined_or_became_a_module_is_no_difference() {
    let (linear, feed) = (("linear", "linear.py"), ("feed", "model.py"));
    let (block, step) = (("block", "model.py"), ("step", "train.py"));
    let rows = |base: &[(&[(&str, &str)], u64)], new: &[(&[(&str, &str)], u64)]| {
        told(&holding(base), &holding(new)).0.sites.len()
    };
    let qkv: (&[(&str, &str)], u64) = (&[linear, block, step], 3 * MIB);
    let base = [
        qkv,
        (&[linear, feed, block, step], 8 * MIB),
        (&[feed, block, step], 5 * MIB),
    ];
    let inlined = [
        qkv,
        (&[linear, block, step], 8 * MIB),
        (&[block, step], 5 * MIB),
    ];
    assert_eq!(rows(&base, &inlined), 0);
    assert_eq!(rows(&inlined, &base), 0);
    // As many bytes, of other sizes.
    let other = [qkv, (&[linear, block, step], 13 * MIB)];
    assert!(rows(&base, &other) > 0);
    // The same sizes, of another function.
    let norm = ("norm", "linear.py");
    let moved = [
        qkv,
        (&[norm, block, step], 8 * MIB),
        (&[feed, block, step], 5 * MIB),
    ];
    assert!(rows(&base, &moved) > 0);
    // The innermost function is called from another one.
    let called = [
        qkv,
        (&[linear, step], 8 * MIB),
        (&[feed, block, step], 5 * MIB),
    ];
    assert_eq!(rows(&base, &called), 0);
}

/// What one recording holds from before it began, the other one holds with stacks.
#[test]
fn blocks_from_before_a_recording_cancel_what_the_other_tells_with_stacks() {
    let leaking = Program {
        leak: 8 * MIB,
        ..Program::default()
    };
    let whole = leaking.profile();
    let is_leak = |site: &SiteProfile| {
        let headline = site
            .headline
            .map(|frame| whole.devices[0].names.place(frame));
        headline.is_some_and(|place| place.name == leaking.leaker.0)
    };
    let late = |lost: u64| {
        let mut late = recorded(&leaking, 4..12);
        let device = &mut late.devices[0];
        let at = device.sites.iter().position(is_leak).expect("it leaks");
        let mut before = device.sites[at].clone();
        let site = &mut device.sites[at];
        for level in [
            &mut site.at_peak,
            &mut site.at_end,
            &mut site.requested.at_peak,
            &mut site.requested.at_end,
        ] {
            level.0 -= 4 * leaking.leak;
        }
        before.key = SiteKey::Size(Bytes(leaking.leak));
        (before.headline, before.leaks, before.growth) = (None, false, 0.0);
        before.functions.clear();
        before.peak = Bytes(4 * leaking.leak - lost);
        (before.at_peak, before.at_end) = (before.peak, before.peak);
        before.requested = super::profile::Requested {
            peak: before.peak,
            at_peak: before.peak,
            at_end: before.peak,
        };
        device.sites.push(before);
        late
    };
    let rows = |base: &Profile, new: &Profile| told(base, new).0.sites.len();
    assert_eq!(rows(&whole, &late(0)), 0);
    assert_eq!(rows(&late(0), &whole), 0);
    // It held less than the other one made until then.
    assert!(rows(&whole, &late(16 * MIB)) > 0);
}

/// The site that holds most at its own peak.
fn largest(device: &mut DeviceProfile) -> &mut SiteProfile {
    let sites = device.sites.iter_mut();
    sites.max_by_key(|site| site.peak).expect("a site")
}

/// What the allocator does not split off belongs to a block, and depends on addresses.
#[test]
fn a_site_is_judged_by_what_it_asks_for() {
    let base = Program::default().profile();
    let mut new = base.clone();
    let device = &mut new.devices[0];
    let largest = largest(device);
    largest.peak.0 += 6 * MIB;
    largest.at_peak.0 += 6 * MIB;
    device.summary[Series::Allocated as usize].peak.0 += 6 * MIB;
    let (difference, _) = told(&base, &new);
    assert!(difference.sites.is_empty(), "{:?}", difference.sites);
    assert_eq!(difference.unsplit, 6 * MIB as i64);
}

/// It holds as much as before, but no longer when the run holds most.
#[test]
fn a_row_that_differs_only_at_the_peak_is_neither_grown_nor_shrunk() {
    let base = Program::default().profile();
    let mut new = base.clone();
    let device = &mut new.devices[0];
    let largest = largest(device);
    largest.at_peak = Bytes::ZERO;
    largest.requested.at_peak = Bytes::ZERO;
    for step in &mut device.steps {
        step.peak.0 -= 64 * MIB;
    }
    device.summary[Series::Allocated as usize].peak.0 -= 64 * MIB;
    let (difference, _) = told(&base, &new);
    let changes: Vec<SiteChange> = difference.sites.iter().map(|row| row.change).collect();
    assert_eq!(changes, [SiteChange::Shifted]);
}

/// A compiler writes other code for the same tensors.
#[test]
fn what_stays_between_steps_says_whether_it_is_one_program() {
    let base = Program::default().profile();
    let mut new = base.clone();
    for (at, site) in new.devices[0].sites.iter_mut().enumerate() {
        site.key = SiteKey::Shape(at as u64);
        site.functions.clear();
    }
    assert_eq!(told(&base, &new).1.outcome, Outcome::Pass);
    new.devices[0].stays = vec![(Bytes::mib(7), 3)];
    let (_, verdicts) = told(&base, &new);
    assert_eq!(verdicts.outcome, Outcome::CannotTell);
    assert!(verdicts.reason.contains("two programs"), "{verdicts:?}");
}

#[test]
fn a_changed_peak_has_a_place() {
    let base = Program::default();
    let longer = Program {
        lengths: vec![32 * MIB],
        ..base.clone()
    };
    let place = ", most of it in run (model.py:10)";
    let (more, verdicts) = told(&base.profile(), &longer.profile());
    assert!(more.headline.contains(place), "{}", more.headline);
    assert!(verdicts.reason.contains(place), "{}", verdicts.reason);
    let (less, _) = told(&longer.profile(), &base.profile());
    assert!(less.headline.contains(place), "{}", less.headline);
}

/// Without stacks, a size that only one run makes has no row where its steps differ by as much. It
/// is not the same for that, and what it holds is told.
#[test]
fn with_what_no_row_tells_the_rows_add_up_to_the_change_of_the_peak() {
    let base = Program::default().profile();
    let mut new = base.clone();
    let device = &mut new.devices[0];
    let mut lone = largest(device).clone();
    lone.key = SiteKey::Size(Bytes::mib(40));
    lone.functions.clear();
    lone.wobble = Bytes::mib(40);
    (lone.peak, lone.at_peak, lone.at_end) = (Bytes::mib(40), Bytes::mib(40), Bytes::ZERO);
    lone.requested = Requested {
        peak: lone.peak,
        at_peak: lone.at_peak,
        at_end: lone.at_end,
    };
    device.sites.push(lone);
    for series in [Series::Allocated, Series::Requested] {
        device.summary[series as usize].peak.0 += 40 * MIB;
    }
    let check = |base: &Profile, new: &Profile, by: i64, says: &str| {
        let (difference, _) = told(base, new);
        assert!(difference.sites.is_empty(), "{:?}", difference.sites);
        assert_eq!(difference.unlisted, by * MIB as i64);
        assert_eq!((difference.unsplit, difference.unlisted_at_end), (0, 0));
        let lines = difference.told_rest();
        assert!(lines.len() == 1 && lines[0].starts_with(says), "{lines:?}");
        difference.sites_same as usize
    };
    let same = base.devices[0].sites.len();
    assert_eq!(
        check(&base, &new, 40, "+40.0 MiB at sites that are not listed"),
        same
    );
    assert_eq!(
        check(&new, &base, -40, "−40.0 MiB at sites that are not listed"),
        same
    );
}
