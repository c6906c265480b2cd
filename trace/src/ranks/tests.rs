//! Jobs made of made-up programs and of profiles written by hand.

use super::*;
use crate::compare::profile::Place;
use crate::compare::tests::Program;
use crate::units::EventIdx;
use crate::watch::Watch;
use moment::{Apart, Moment};
use odd::OddKind;
use profile::RankSite;
use proptest::prelude::*;
use sites::When;

const MIB: u64 = 1 << 20;

fn survey(profiles: impl IntoIterator<Item = RankProfile>) -> Survey {
    let mut surveyor = Surveyor::default();
    for (rank, profile) in (0..).map(Rank).zip(profiles) {
        surveyor.add(rank, profile);
    }
    surveyor.finish()
}

fn of(program: &Program) -> RankProfile {
    Watch::undisturbed(|watch| RankProfile::of(&program.trace(), watch, watch))
}

/// A clean rank that peaks at so many MiB.
fn peaking(mib: u64) -> RankProfile {
    RankProfile {
        peak_allocated: Bytes::mib(mib),
        peak_reserved: Bytes::mib(mib),
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

/// A rank that leaks within its steps only.
fn within(mib: u64) -> RankProfile {
    let mut profile = leaking(mib);
    profile.leaks[0].within_step = true;
    profile
}

/// However large the number is, a part of a step is no step.
#[test]
fn rates_within_steps_are_not_compared_with_rates_from_step_to_step() {
    let survey = survey([within(50), leaking(5), leaking(5), within(50), within(50)]);
    let told = "All 5 ranks leak, rank 1 fastest: 5.00 MiB a step in keep (train.py:41).";
    assert!(
        survey.sentences.iter().any(|said| said == told),
        "{:?}",
        survey.sentences
    );
    assert!(survey.ranks.iter().all(|row| row.odd.is_empty()));
    let ranks = [within(50), within(5), within(5), within(5), leaking(5)];
    let odd = &self::survey(ranks).ranks[0].odd;
    let told = "leaks 45.0 MiB a part of a step faster than the median of 5.00 MiB";
    assert_eq!(odd.first().map(|odd| odd.why.as_str()), Some(told));
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
        oom: Some(OutOfMemory {
            event: EventIdx(7),
            step: Some(5),
            wanted: Bytes::mib(64),
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

#[test]
fn the_odd_ranks_are_the_fewer_and_those_far_from_the_median() {
    let check = |profiles: Vec<RankProfile>, expected: &str| {
        assert_eq!(odd(&survey(profiles)), expected);
    };
    let many = |n: usize, profile: RankProfile| vec![profile; n];
    let with = |n: usize, profile: RankProfile, others: RankProfile| {
        [many(n, profile), many(7, others)].concat()
    };
    check(vec![], "");
    check(vec![peaking(5)], "");
    check(vec![leaking(5)], "");
    check(many(8, leaking(5)), "");
    // Two ranks: the leak is the problem. Nobody can tell which peak is odd.
    check(vec![peaking(100), leaking(5)], "1 Leaks");
    check(vec![peaking(100), peaking(200)], "");
    check(vec![peaking(100), failed()], "1 OutOfMemory");
    // The smaller group is odd, whether it leaks or not.
    check(with(1, leaking(5), peaking(100)), "0 Leaks");
    check(with(1, peaking(100), leaking(5)), "0 NoLeak");
    check(with(1, peaking(100), failed()), "0 NotOutOfMemory");
    // Ranks without a verdict belong to neither group.
    check(with(1, leaking(5), unclear()), "");
    check(vec![unclear(), leaking(5), peaking(100)], "1 Leaks");
    // Rates are compared only among ranks that leak.
    check(with(1, leaking(50), leaking(5)), "0 LeakRate");
    // One percent is no difference. A spread that all ranks share is none either.
    check(with(1, peaking(101), peaking(100)), "");
    check(with(1, peaking(110), peaking(100)), "0 PeakHigh");
    check(with(1, peaking(10), peaking(100)), "0 PeakLow");
    let stages = [400, 300, 280, 450].map(peaking);
    check(stages.to_vec(), "");
    // A rank whose own steps differ as much is not odd.
    let wobbly = RankProfile {
        wobble: Bytes::mib(20),
        ..peaking(110)
    };
    check(with(1, wobbly, peaking(100)), "");
    // Steps: most agree.
    let steps = |whole_steps| RankProfile {
        whole_steps,
        ..peaking(100)
    };
    check(vec![steps(10), steps(10), steps(7)], "2 Steps");
    check(vec![steps(10), steps(9), steps(8)], "");
    check(vec![steps(10), steps(7)], "");
    let wrapped = RankProfile {
        wrapped: true,
        ..steps(7)
    };
    check(vec![steps(10), steps(10), wrapped.clone()], "");
    // Which number is usual is not asked of a rank that does not count.
    let told = survey([wrapped, steps(10), steps(10), steps(1)]).sentences;
    let expected = "Rank 3 ran 1 whole step; most ran 10.".to_owned();
    assert!(told.contains(&expected), "{told:?}");
}

#[test]
fn the_gravest_comes_first() {
    let mut profiles = vec![peaking(100); 8];
    profiles[2] = peaking(300);
    profiles[4] = leaking(5);
    profiles[5] = leaking(9);
    profiles[6] = failed();
    let survey = survey(profiles);
    let mut order: Vec<_> = survey
        .ranks
        .iter()
        .map(|r| (r.by_oddness, r.rank.0))
        .collect();
    order.sort_unstable();
    let order: Vec<u32> = order.into_iter().map(|(_, rank)| rank).collect();
    assert_eq!(order, [6, 5, 4, 2, 0, 1, 3, 7]);
    assert_eq!(survey.ranks[2].odd[0].kind, OddKind::PeakHigh);
}

/// A rank whose ring wrapped: it may have stood higher before.
fn wrapped(mib: u64) -> RankProfile {
    RankProfile {
        wrapped: true,
        at_least: true,
        ..peaking(mib)
    }
}

#[test]
fn a_peak_of_a_ring_that_wrapped_is_only_known_to_be_no_lower() {
    let check = |profiles: Vec<RankProfile>, expected: &str| {
        assert_eq!(odd(&survey(profiles)), expected);
    };
    let with = |more: RankProfile| [vec![peaking(100); 3], vec![more]].concat();
    check(with(wrapped(10)), "");
    check(with(wrapped(200)), "3 PeakHigh");
    // What is not known is held against nothing.
    let low = [vec![wrapped(100); 3], vec![peaking(200); 2]].concat();
    check(low, "");
    let says = |profiles: Vec<RankProfile>, expected: &str| {
        assert_eq!(survey(profiles).sentences[0], expected);
    };
    says(
        with(wrapped(200)),
        "Rank 3 reaches at least 200 MiB; the median of 3 ranks is 100 MiB.",
    );
    says(
        vec![peaking(100), wrapped(50)],
        "The peaks of the two ranks are at least 50.0 MiB (rank 1) and 100 MiB (rank 0), and none \
         leaks; of two that differ nobody can tell which is the odd one.",
    );
    says(
        vec![wrapped(100); 2],
        "Both ranks reach at least 100 MiB, and none leaks.",
    );
    says(
        vec![wrapped(100)],
        "One rank, which reaches at least 100 MiB and does not leak.",
    );
    let row = &survey(vec![wrapped(100)]).ranks[0];
    assert_eq!(row.told(row.peak_reserved), "at least 100 MiB");
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

/// The first steps of a ring that wrapped are no first steps of the program, whose optimizer has no
/// state yet.
#[test]
fn a_peak_at_the_beginning_of_a_ring_is_not_early() {
    let mut trace = Program::default().trace();
    let steps = &mut trace.devices[0].steps;
    steps
        .iter_mut()
        .for_each(|step| step.name = "pass".to_owned());
    let peak = trace.devices[0].summary[1].peak;
    let mut profile = crate::compare::profile::Profile::of(&trace);
    let device = &mut profile.devices[0];
    for step in &mut device.steps[1..] {
        step.peak = Bytes(peak.0 / 2);
    }
    let moment = |device: &crate::compare::profile::DeviceProfile| {
        let mut raised = trace.clone();
        let first = EventIdx(raised.devices[0].steps[0].events.end().0 - 1);
        for summary in &mut raised.devices[0].summary {
            summary.peak_event = Some(first);
        }
        Moment::of_peak(device, &raised.devices[0], &raised.stacks).early
    };
    assert_eq!(moment(device), Some(0));
    device.wrapped = true;
    assert_eq!(moment(device), None);
}

/// What is said first of some ranks.
fn says(profiles: Vec<RankProfile>, expected: &[&str]) {
    assert_eq!(survey(profiles).sentences, expected);
}

#[test]
fn two_ranks_are_both_ranks() {
    says(
        vec![leaking(12), leaking(14)],
        &[
            "Both ranks leak, rank 1 fastest: 14.0 MiB a step in keep (train.py:41).",
            "Both peak at about 100 MiB.",
        ],
    );
    says(
        vec![peaking(100); 2],
        &["Both ranks peak at about 100 MiB, and none leaks."],
    );
    says(
        vec![peaking(100), peaking(200)],
        &[
            "The two ranks peak at 100 MiB (rank 0) and 200 MiB (rank 1), and none leaks; of two \
             that differ nobody can tell which is the odd one.",
        ],
    );
}

#[test]
fn all_sites_do_not_hold_the_same_where_the_peaks_differ() {
    let check = |same, peaks: [u64; 2], expected: &str| {
        let survey = survey(peaks.map(peaking));
        assert_eq!(none_differs(same, survey.allocated.as_ref()), expected);
    };
    check(0, [100, 200], "there is nothing to compare");
    check(1, [100, 100], "the only site holds the same in all ranks");
    check(9, [100, 100], "all 9 sites hold the same in all ranks");
    let told = "the peaks differ, but none of 9 sites differs between ranks by more than between \
                the steps of one";
    check(9, [100, 200], told);
}

#[test]
fn a_leak_in_a_package_is_told_with_the_line_that_called_it() {
    let site = "v/lib/python3.12/site-packages/acc/operations.py";
    let gathering = Program {
        leak: 3 * MIB,
        leaker: ("gather", site),
        ..Program::default()
    };
    let told = &survey([of(&gathering), of(&gathering)]).sentences[0];
    let expected = "Both ranks leak 3.00 MiB a step in gather (operations.py:10), called by \
                    train_step (train.py:10).";
    assert_eq!(told, expected);
}

#[test]
fn what_ranks_reserve_is_told_where_only_that_differs() {
    let reserving = |mib, allocated| RankProfile {
        peak_reserved: Bytes::mib(mib),
        ..peaking(allocated)
    };
    let check = |ranks: &[RankProfile], expected: Option<&str>| {
        let said = survey(ranks.to_vec()).sentences;
        let about = said.iter().find(|said| said.starts_with("Reserved"));
        assert_eq!(about.map(String::as_str), expected);
    };
    let told = "Reserved is 300 MiB (rank 1) and 442 MiB (rank 0).";
    check(&[reserving(442, 199), reserving(300, 199)], Some(told));
    let told = "Reserved lies between 300 MiB (rank 1) and 442 MiB (rank 0).";
    let three = [442, 300, 310].map(|mib| reserving(mib, 199));
    check(&three, Some(told));
    // One segment more, a twentieth more, and more because more is allocated.
    check(&[reserving(120, 80), reserving(100, 80)], None);
    check(&[reserving(8400, 80), reserving(8000, 80)], None);
    check(&[reserving(442, 299), reserving(300, 199)], None);
    check(&[reserving(442, 199), wrapped(199)], None);
}

#[test]
fn sentences_say_who_and_where() {
    let check = says;
    let and = |n: usize, profile: RankProfile| {
        let mut profiles = vec![peaking(100); 8 - n];
        profiles.extend(vec![profile; n]);
        profiles
    };
    check(vec![], &[]);
    check(
        and(0, peaking(0)),
        &["All 8 ranks peak at about 100 MiB, and none leaks."],
    );
    check(
        and(1, leaking(12)),
        &[
            "Rank 7 leaks 12.0 MiB a step in keep (train.py:41); the other 7 ranks do not.",
            "All peak at about 100 MiB.",
        ],
    );
    check(
        and(2, leaking(12)),
        &[
            "Ranks 6 and 7 leak 12.0 MiB a step in keep (train.py:41); the other 6 ranks do not.",
            "All peak at about 100 MiB.",
        ],
    );
    check(
        and(8, leaking(12)),
        &[
            "All 8 ranks leak 12.0 MiB a step in keep (train.py:41).",
            "All peak at about 100 MiB.",
        ],
    );
    check(
        and(1, failed()),
        &[
            "Rank 7 ran out of memory in step 5; the other 7 ranks did not.",
            "All peak at about 100 MiB.",
        ],
    );
    check(
        and(1, peaking(900)),
        &["Rank 7 peaks at 900 MiB; the median of 8 ranks is 100 MiB."],
    );
    check(
        and(1, unclear()),
        &[
            "All 8 ranks peak at about 100 MiB.",
            "Of rank 7 it cannot be told whether it leaks.",
        ],
    );
    check(
        vec![leaking(1), unclear(), unclear()],
        &[
            "Rank 0 leaks 1.00 MiB a step in keep (train.py:41).",
            "All peak at about 100 MiB.",
            "Of 2 ranks it cannot be told whether they leak.",
        ],
    );
}

#[test]
fn a_rank_that_leaks_is_found_with_its_site() {
    let clean = Program::default();
    let leaks = Program {
        leak: 3 * MIB,
        leaker: ("keep_on_rank", "ddp.py"),
        ..Program::default()
    };
    let survey = survey([of(&clean), of(&clean), of(&leaks), of(&clean)]);
    assert_eq!(odd(&survey), "2 Leaks PeakHigh");
    let first = &survey.sentences[0];
    assert!(
        first.starts_with("Rank 2 leaks 3.00 MiB a step in keep_on_rank (ddp.py:10)"),
        "{first}"
    );
    let site = &survey.sites[0];
    let place = site.place.as_ref().map(|place| place.name.as_str());
    assert_eq!(place, Some("keep_on_rank"));
    assert_eq!((site.ranks, site.leaks), (1, 1));
    assert_eq!(site.at_end, [Bytes(0), Bytes(0), Bytes(12 * 3 * MIB)]);
    let named: Vec<u32> = site.farthest.iter().map(|holds| holds.rank.0).collect();
    assert_eq!(named, [2]);
    assert_eq!(survey.ranks[2].leaks[0].site, site.id);
    // The other sites hold the same in all ranks.
    assert_eq!(survey.sites.len(), 1);
    assert!(survey.sites_same >= 2);
    let highest = survey.band.parts.iter().flatten().map(|part| part[2]).max();
    assert_eq!(highest, survey.allocated.map(|spread| spread.max));
}

/// Two files of Inductor; each is called by what is in it.
const INDUCTOR: [&str; 2] = [
    "7d/c7dkyl7yo4tpxxylxgglj5oolpzbldnxmirpfnhuvvl3wwzjaice.py",
    "uw/cuw7zwf75bshsvlnjcq43ymxsyiqt6cvk3owbc5fjtbcxvq64oww.py",
];

#[test]
fn code_that_torch_compile_wrote_is_the_same_in_all_ranks() {
    let compiled = |file| Program {
        leak: 3 * MIB,
        leaker: ("call", file),
        ..Program::default()
    };
    let survey = survey(INDUCTOR.map(|file| of(&compiled(file))));
    assert_eq!((survey.sites.len(), survey.moments_differ), (0, false));
    let first = &survey.sentences[0];
    let told = "Both ranks leak 3.00 MiB a step in train_step (train.py:10)";
    assert!(first.starts_with(told), "{first}");
    // Where it was called is not known.
    let written = |file: &str| {
        let mut profile = leaking(3);
        profile.leaks[0].place.filename = format!("/cache/{file}");
        profile
    };
    let told = &self::survey(INDUCTOR.map(written)).sentences[0];
    assert!(told.starts_with("Both ranks leak 3.00 MiB"), "{told}");
}

#[test]
fn the_graphs_of_one_call_are_one_site_of_a_rank() {
    let [one, two] = INDUCTOR.map(|file| format!("call /cache/{file}"));
    let script = format!(
        "a alloc 4MiB at {one}:1\nb alloc 2MiB at {two}:1\na free\nc alloc 3MiB at {two}:1"
    );
    let trace = crate::testing::trace(&script);
    let profile = Watch::undisturbed(|watch| RankProfile::of(&trace, watch, watch));
    let [site] = &profile.sites[..] else {
        panic!("{:?}", profile.sites)
    };
    let levels = [site.at_peak, site.most, site.at_end];
    assert_eq!(levels, [6, 6, 5].map(Bytes::mib));
    let line = site.place.as_ref().map(|place| place.filename.as_str());
    assert_eq!(line, Some(&two["call ".len()..]));
}

#[test]
fn a_site_that_was_too_small_to_keep_is_no_difference() {
    let site = |bytes: u64| RankSite {
        id: "s1".to_owned(),
        place: None,
        at_peak: Bytes(bytes),
        most: Bytes(bytes),
        at_end: Bytes::ZERO,
        wobble: Bytes::ZERO,
        end_wobble: Bytes::ZERO,
        leaks: false,
    };
    let holding = |bytes: u64| RankProfile {
        sites: vec![site(bytes)],
        ..peaking(100)
    };
    let without = |floor: u64| RankProfile {
        floor: Bytes(floor),
        ..peaking(100)
    };
    let rows = |profiles: [RankProfile; 3]| survey(profiles).sites.len();
    assert_eq!(rows([holding(MIB), without(0), without(0)]), 1);
    assert_eq!(rows([holding(MIB), without(2 * MIB), without(0)]), 0);
    assert_eq!(rows([holding(MIB), holding(MIB), holding(MIB)]), 0);
}

/// At the peaks two ranks are equally far from the median on either side of it; at the end one rank
/// is farther, though all of them lie closer together.
#[test]
fn a_site_is_compared_where_a_rank_is_farthest_from_the_others() {
    let holding = |at_peak: u64, at_end: u64| RankProfile {
        sites: vec![RankSite {
            id: "s1".to_owned(),
            place: None,
            at_peak: Bytes::mib(at_peak),
            most: Bytes::mib(at_peak),
            at_end: Bytes::mib(at_end),
            wobble: Bytes::ZERO,
            end_wobble: Bytes::ZERO,
            leaks: false,
        }],
        ..peaking(100)
    };
    let site_of = |levels: [(u64, u64); 3]| {
        let survey = survey(levels.map(|(at_peak, at_end)| holding(at_peak, at_end)));
        survey.sites.into_iter().next().expect("the ranks differ")
    };
    let farther = site_of([(40, 5), (50, 5), (60, 20)]);
    assert_eq!(
        (farther.when, farther.difference),
        (When::End, Bytes::mib(15))
    );
    // The others differ by less, and the difference is one of the numbers that are shown.
    let named: Vec<u32> = farther.farthest.iter().map(|held| held.rank.0).collect();
    assert_eq!(named, [2]);
    let at_peak = site_of([(40, 5), (50, 5), (80, 10)]);
    assert_eq!(
        (at_peak.when, at_peak.difference),
        (When::Peak, Bytes::mib(30))
    );
    let named: Vec<u32> = at_peak.farthest.iter().map(|held| held.rank.0).collect();
    assert_eq!(named, [2, 0]);
}

/// What is kept and replaced, as a copy of the weights is, holds twice as much for a moment: its
/// steps differ by more than it holds.
#[test]
fn what_one_rank_alone_keeps_is_not_lost_among_its_own_steps() {
    let holding = |[at_peak, at_end, most]: [u64; 3], wobbles: (u64, u64)| RankProfile {
        sites: vec![RankSite {
            id: "s1".to_owned(),
            place: None,
            at_peak: Bytes::mib(at_peak),
            most: Bytes::mib(most),
            at_end: Bytes::mib(at_end),
            wobble: Bytes::mib(wobbles.0),
            end_wobble: Bytes::mib(wobbles.1),
            leaks: false,
        }],
        ..peaking(100)
    };
    let check = |first: RankProfile, other: [u64; 3], expected: Option<When>| {
        for ranks in [2, 4] {
            let others = vec![holding(other, (0, 0)); ranks - 1];
            let found = survey([vec![first.clone()], others].concat()).sites;
            let when = found.first().map(|site| site.when);
            assert_eq!(when, expected, "{ranks} ranks, {other:?}");
            let named = found.first().map(|site| site.farthest[0].rank);
            assert_eq!(named, expected.map(|_| Rank(0)));
        }
    };
    let kept = holding([14, 14, 28], (28, 0));
    check(kept.clone(), [0, 0, 0], Some(When::Peak));
    // Others hold as much at times, but not at the end.
    check(kept, [14, 4, 28], Some(When::End));
    // Only at the peak, where others never do.
    let at_peak = holding([14, 0, 28], (28, 0));
    check(at_peak.clone(), [0, 0, 1], Some(When::Peak));
    // Batches of other lengths.
    check(at_peak.clone(), [0, 0, 10], None);
    check(at_peak, [10, 0, 20], None);
    check(holding([14, 14, 28], (28, 28)), [14, 4, 28], None);
    // One that never holds half of what most do at their peaks.
    let less = survey([4, 20, 20, 20].map(|n| holding([n, 0, n], (30, 0)))).sites;
    assert_eq!(less.len(), 1);
}

/// Two moments stand almost equally high, and chance decides which is the peak of a rank.
#[test]
fn peaks_at_different_moments_are_no_difference_between_ranks() {
    let site = |id: &str, at_peak: u64, most: u64| RankSite {
        id: id.to_owned(),
        place: None,
        at_peak: Bytes::mib(at_peak),
        at_end: Bytes::ZERO,
        most: Bytes::mib(most),
        wobble: Bytes::ZERO,
        end_wobble: Bytes::ZERO,
        leaks: false,
    };
    let at = |name: &str, logits: (u64, u64), gradient: (u64, u64)| RankProfile {
        moment: Moment {
            site: name.to_owned(),
            ..Moment::default()
        },
        sites: vec![
            site("s1", logits.0, logits.1),
            site("s2", gradient.0, gradient.1),
        ],
        ..peaking(100)
    };
    let forward = at("s1", (80, 80), (0, 80));
    let backward = at("s2", (0, 80), (80, 80));
    let survey_of = |profiles: [&RankProfile; 3]| survey(profiles.into_iter().cloned());
    let alike = survey_of([&forward, &forward, &forward]);
    assert_eq!((alike.sites.len(), alike.moments_differ), (0, false));
    let differ = survey_of([&forward, &backward, &forward]);
    assert_eq!((differ.sites.len(), differ.moments_differ), (0, true));
    // What is really different is told, and when.
    let more = at("s2", (0, 80), (90, 90));
    let differ = survey_of([&forward, &more, &forward]);
    let [site] = &differ.sites[..] else {
        panic!("{:?}", differ.sites)
    };
    assert_eq!((site.id.as_str(), site.when), ("s2", When::Most));
    assert_eq!(site.shown(), [80, 80, 90].map(Bytes::mib));
    assert_eq!(site.difference, Bytes::mib(10));
    assert_eq!(site.farthest[0].held(site.when), Bytes::mib(90));
    // At the same moment, what is still alive then counts, though the site never holds more.
    let keeps = at("s1", (80, 80), (80, 80));
    let differ = survey_of([&forward, &keeps, &forward]);
    assert_eq!((differ.sites.len(), differ.moments_differ), (1, false));
    assert_eq!(differ.sites[0].when, When::Peak);
}

/// The first rank is the odd one as any other would be.
#[test]
fn the_rank_that_peaks_elsewhere_is_named_and_not_all_others() {
    let at = |site: &str, part: u32| RankProfile {
        moment: Moment {
            site: site.to_owned(),
            part,
            early: None,
        },
        ..peaking(100)
    };
    let check = |places: &[(&str, u32)], differ: bool, expected: &[&str]| {
        let found = survey(places.iter().map(|(site, part)| at(site, *part)));
        assert_eq!(found.moments_differ, differ, "{places:?}");
        let about = |text: &&String| text.contains("of the program than most");
        let about: Vec<&String> = found.sentences.iter().filter(about).collect();
        assert_eq!(about, expected, "{places:?}");
    };
    let rank_0 = ["Rank 0 peaks at another moment of the program than most."];
    let [a, b] = [("s1", 300), ("s2", 300)];
    check(&[b, a, a, a], true, &rank_0);
    check(&[("s1", 900), a, a, a], true, &rank_0);
    let two = ["Ranks 0 and 3 peak at other moments of the program than most."];
    check(&[b, a, a, b, a], true, &two);
    // Near enough to the usual one, though not to one another.
    check(&[("s1", 260), a, ("s1", 340)], false, &[]);
    check(&[("s1", 260), ("s1", 340)], true, &[]);
    check(&[a, b], true, &[]);
    check(&[a, a, b, b], true, &[]);
}

proptest! {
    #[test]
    fn other_numbers_of_the_ranks_change_nothing_but_the_numbers(
        places in prop::collection::vec((0..3_u32, 0..5_u32, prop::option::of(0..2_u32)), 1..12),
        by in prop::collection::vec(any::<u32>(), 12),
    ) {
        let moment = |(site, part, early): (u32, u32, Option<u32>)| Moment {
            site: format!("s{site}"),
            part: part * 40,
            early,
        };
        let before: Vec<Moment> = places.into_iter().map(moment).collect();
        let mut order: Vec<usize> = (0..before.len()).collect();
        order.sort_by_key(|&at| by[at]);
        let after: Vec<Moment> = order.iter().map(|&at| before[at].clone()).collect();
        let (before, after) = (Apart::of(&before), Apart::of(&after));
        prop_assert_eq!(before.differ, after.differ);
        let mut odd: Vec<usize> = after.odd.iter().map(|&at| order[at]).collect();
        odd.sort_unstable();
        prop_assert_eq!(before.odd, odd);
    }
}

#[test]
fn the_moment_of_a_peak_is_where_in_the_step_it_is_and_not_which_step() {
    let leaking = |steps: u32, leak: u64, leaker| Program {
        steps,
        leak: leak * MIB,
        leaker: (leaker, "ddp.py"),
        ..Program::default()
    };
    // Each stands highest in its last step, after what it alone keeps.
    let moments = [leaking(12, 3, "keep_on_rank"), leaking(9, 5, "keep_too")];
    let [first, second] = moments.map(|program| of(&program).moment);
    assert!(!first.site.is_empty());
    assert_eq!((first.early, second.early), (None, None));
    assert!(first.is_like(&second), "{first:?} {second:?}");
    let elsewhere = Moment {
        part: (first.part + 500) % 1000,
        ..first.clone()
    };
    assert!(!first.is_like(&elsewhere));
}

#[test]
fn ranks_that_do_not_say_where_are_not_compared_by_site() {
    let holding = |id: &str| RankProfile {
        sites: vec![RankSite {
            id: id.to_owned(),
            place: None,
            at_peak: Bytes::mib(8),
            most: Bytes::mib(8),
            at_end: Bytes::ZERO,
            wobble: Bytes::ZERO,
            end_wobble: Bytes::ZERO,
            leaks: false,
        }],
        ..peaking(100)
    };
    let (told, nameless) = (holding("s0000000000000001"), holding("b8388608"));
    let wrapped = RankProfile {
        wrapped: true,
        ..nameless.clone()
    };
    let check = |third: &RankProfile, sentence: Option<&str>| {
        let survey = survey([told.clone(), told.clone(), third.clone()]);
        assert_eq!((survey.sites.len(), survey.sites_same), (0, 1));
        let last = survey.sentences.last().map(String::as_str);
        assert_eq!(last.filter(|last| last.contains("left out")), sentence);
    };
    let sentence = "Rank 2 is left out of the comparison by stack: it lost events, or was recorded \
                    without stacks.";
    check(&told, None);
    check(&nameless, Some(sentence));
    check(&wrapped, Some(sentence));
    // Without stacks in any rank, sizes are compared.
    let sizes = [nameless.clone(), nameless.clone(), holding("b4194304")];
    let survey = survey(sizes);
    let words: Vec<String> = survey
        .sites
        .iter()
        .map(|site| site.without_stack())
        .collect();
    assert_eq!(
        words,
        ["no stack, 4.00 MiB each", "no stack, 8.00 MiB each"]
    );
    // One rank that tells has nothing to be compared with.
    let lone = self::survey([nameless.clone(), told.clone()]);
    assert_eq!((lone.sites.len(), lone.sites_same), (0, 0));
    // The ranks that are named are those that stay.
    let other = holding("s0000000000000002");
    let survey = self::survey([nameless, told.clone(), told, other]);
    let named: Vec<u32> = survey.sites[0].farthest.iter().map(|h| h.rank.0).collect();
    assert_eq!((survey.sites[0].ranks, named), (2, vec![3]));
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
}

proptest! {
    #[test]
    fn peaks_alone_make_fewer_than_half_odd(
        peaks in prop::collection::vec(1_u64..5000, 0..24),
    ) {
        let n = peaks.len();
        let survey = survey(peaks.into_iter().map(peaking));
        let odd = survey.ranks.iter().filter(|row| !row.odd.is_empty()).count();
        prop_assert!(2 * odd <= n, "{odd} of {n}");
        let mut order: Vec<u32> = survey.ranks.iter().map(|row| row.by_oddness).collect();
        order.sort_unstable();
        prop_assert_eq!(order, (0..n as u32).collect::<Vec<_>>());
        prop_assert_eq!(survey.sentences.is_empty(), n == 0);
    }
}
