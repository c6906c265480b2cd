//! Which ranks are odd, and in what order.

use super::super::odd::OddKind;
use super::*;

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
    let told = "Ranks 1 and 2 leak 5.00 MiB a step in keep (train.py:41); ranks 0, 3 and 4 leak \
                50.0 MiB a part of a step in keep (train.py:41).";
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
    // Ranks whose steps differ as much are not odd; one that stands high in one step alone is.
    let wobbly = |mib| RankProfile {
        wobble: Bytes::mib(20),
        ..peaking(mib)
    };
    check(with(1, wobbly(110), peaking(100)), "0 PeakHigh");
    check(with(1, wobbly(110), wobbly(100)), "");
    check(with(1, wobbly(104), peaking(100)), "");
    check(with(1, wobbly(150), wobbly(100)), "0 PeakHigh");
    // Other settings of the allocator round the same requests otherwise.
    let rounded = RankProfile {
        peak_requested: Bytes::mib(100),
        ..peaking(110)
    };
    check(with(1, rounded, peaking(100)), "");
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
    let expected = "Rank 3 ran 1 step; most ran 10.".to_owned();
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

/// A rank whose sites are called like this.
fn running(code: &str, mib: u64) -> RankProfile {
    let site = |at: u32| RankSite {
        at_end: Bytes::ZERO,
        ..keeping(&format!("s{code}{at}"), Bytes::mib(1))
    };
    RankProfile {
        sites: (0..6).map(site).collect(),
        ..peaking(mib)
    }
}

#[test]
fn ranks_are_held_against_those_that_run_the_same_code() {
    let check = |profiles: Vec<RankProfile>, expected: (&str, &[&str])| {
        let survey = survey(profiles);
        assert_eq!(odd(&survey), expected.0);
        let said: Vec<&str> = survey.sentences.iter().map(String::as_str).collect();
        assert_eq!(&said[..expected.1.len()], expected.1);
    };
    let many = |n: usize, code: &str, mib: u64| vec![running(code, mib); n];
    let odd_rollout = [many(4, "a", 360), many(3, "b", 76), many(1, "b", 108)].concat();
    check(
        odd_rollout,
        (
            "7 PeakHigh",
            &[
                "Rank 7 peaks at 108 MiB; the median of 4 ranks is 76.0 MiB.",
                "Ranks 0, 1, 2 and 3 and ranks 4, 5, 6 and 7 run different code: in the median \
                 they peak at 360 MiB and 76.0 MiB.",
            ],
        ),
    );
    // Of one rank that runs other code, nobody can tell whether it is odd.
    check([many(3, "a", 360), many(1, "b", 76)].concat(), ("", &[]));
    check(
        [many(3, "a", 360), many(1, "a", 76)].concat(),
        ("3 PeakLow", &[]),
    );
    // Half of what it runs is the same: it runs something more.
    let mut more = running("a", 500);
    more.sites.extend(running("b", 1).sites);
    check(
        [many(3, "a", 360), vec![more]].concat(),
        ("3 PeakHigh", &[]),
    );
    let unknown = RankProfile {
        sites: Vec::new(),
        ..peaking(500)
    };
    check(
        [many(3, "a", 360), vec![unknown]].concat(),
        ("3 PeakHigh", &[]),
    );
    let each = (0..12)
        .map(|at| running(&format!("{at}x"), 100 + at))
        .collect();
    check(
        each,
        (
            "",
            &[
                "No rank is odd: the peaks of 12 ranks lie between 100 MiB (rank 0) and \
                        111 MiB (rank 11), and none leaks.",
            ],
        ),
    );
}

/// What the peaks of all ranks lie between says nothing where they run different code.
#[test]
fn what_peaks_lie_between_is_told_of_each_kind_of_code() {
    let uneven =
        |code: &str, mib: u64| [mib, mib + 40, mib + 20, mib + 60].map(|n| running(code, n));
    let survey = survey([uneven("a", 360), uneven("b", 76)].concat());
    assert_eq!(odd(&survey), "");
    let expected = [
        "No rank is odd, and none leaks.",
        "Ranks 0, 1, 2 and 3 and ranks 4, 5, 6 and 7 run different code: in the median they peak \
         at 390 MiB and 106 MiB.",
        "Peaks of ranks 0, 1, 2 and 3 lie between 360 MiB (rank 0) and 420 MiB (rank 3), those of \
         ranks 4, 5, 6 and 7 between 76.0 MiB (rank 4) and 136 MiB (rank 7).",
    ];
    assert_eq!(survey.sentences[..3], expected);
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
