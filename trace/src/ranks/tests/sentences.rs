//! What is said first of some ranks.

use super::super::words::none_differs;
use super::*;

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
