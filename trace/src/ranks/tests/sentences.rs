//! What is said first of some ranks.

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

/// Sites whose names are numbers, each with so many MiB, in a rank that peaks at as many.
fn holding(peak: u64, sites: &[(u32, u64)]) -> RankProfile {
    let site = |&(id, mib): &(u32, u64)| RankSite {
        place: Some(Place {
            name: "main".to_owned(),
            filename: "/srv/train.py".to_owned(),
            line: id,
        }),
        at_end: Bytes::ZERO,
        wobble: Bytes::mib(if peak == mib { 0 } else { 1 }),
        ..keeping(&format!("s{id}"), Bytes::mib(mib))
    };
    RankProfile {
        sites: sites.iter().map(site).collect(),
        ..peaking(peak)
    }
}

#[test]
fn all_sites_do_not_hold_the_same_where_the_peaks_differ() {
    let check = |ranks: &[RankProfile], expected: Option<&str>| {
        let found = survey(ranks.to_vec()).none_differs;
        assert_eq!(found.as_deref(), expected);
    };
    let [one, more] = [100, 200].map(|peak| holding(peak, &[(1, 8), (2, 8)]));
    let single = holding(100, &[(1, 8)]);
    check(
        &[peaking(100), peaking(200)],
        Some("there is nothing to compare"),
    );
    let told = "the only site holds the same in all ranks";
    check(&[single.clone(), single], Some(told));
    let told = "all 2 sites hold the same in all ranks";
    check(&[one.clone(), one.clone()], Some(told));
    let told = "the peaks differ, but none of 2 sites differs between ranks by more than between \
                the steps of one";
    check(&[one.clone(), more.clone()], Some(told));
    check(&[one.clone(), holding(100, &[(1, 9), (2, 80)])], None);
    // A rank that is left out of the comparison is none of those that hold the same.
    let ring = RankProfile {
        wrapped: true,
        ..more
    };
    let told = "all 2 sites hold the same in ranks 1 and 2";
    check(&[ring, one.clone(), one.clone()], Some(told));
    let late = RankProfile {
        from_before: Bytes::mib(50),
        ..holding(100, &[(2, 8)])
    };
    let told = "of 2 sites 1 hold the same in all ranks, others may: it is not known what ranks \
                hold from before their recordings";
    check(&[late.clone(), one.clone()], Some(told));
    let late = RankProfile {
        from_before: Bytes::mib(50),
        ..holding(100, &[])
    };
    let told = "nothing can be compared: it is not known what ranks hold from before their \
                recordings";
    check(&[late, one], Some(told));
}

#[test]
fn the_place_that_makes_a_peak_is_told() {
    let usual = holding(100, &[(1, 8), (2, 40)]);
    let check = |odd: RankProfile, expected: &str| {
        let survey = survey([odd, usual.clone(), usual.clone(), usual.clone()]);
        assert_eq!(survey.sentences[0], expected);
    };
    check(
        holding(150, &[(1, 8), (2, 40), (3, 45)]),
        "Rank 0 peaks at 150 MiB; the median of 4 ranks is 100 MiB. At its peak, main \
         (train.py:3) holds 45.0 MiB, against a median of 0 B.",
    );
    check(
        holding(70, &[(1, 8), (2, 10)]),
        "Rank 0 peaks at 70.0 MiB; the median of 4 ranks is 100 MiB. At its peak, main \
         (train.py:2) holds 10.0 MiB, against a median of 40.0 MiB.",
    );
    // Only a small part.
    check(
        holding(150, &[(1, 10), (2, 40)]),
        "Rank 0 peaks at 150 MiB; the median of 4 ranks is 100 MiB.",
    );
}

#[test]
fn other_settings_of_an_allocator_are_told() {
    let with = |settings: &str| RankProfile {
        settings: Some(settings.to_owned()),
        ..peaking(100)
    };
    let unknown = peaking(100);
    let check = |ranks: &[&RankProfile], expected: Option<&str>| {
        let ranks = ranks.iter().map(|&rank| rank.clone());
        let told = survey(ranks).sentences;
        let told = told.iter().find(|told| told.contains(" ran with"));
        assert_eq!(told.map(String::as_str), expected);
    };
    let [none, expands, split] = ["", "expandable_segments:True", "max_split_size_mb:64"].map(with);
    check(&[&none, &none], None);
    check(&[&unknown, &expands], None);
    let one = "Rank 1 ran with expandable_segments:True, the others with the allocator's default \
               settings.";
    check(&[&none, &expands, &none, &none], Some(one));
    let two = "Rank 0 ran with expandable_segments:True, rank 1 ran with max_split_size_mb:64, \
               the others with the allocator's default settings.";
    check(&[&expands, &split, &none, &none, &none], Some(two));
    let two = "Rank 0 ran with the allocator's default settings, rank 1 ran with \
               expandable_segments:True.";
    check(&[&none, &expands], Some(two));
    let four = ["a", "b", "c", "d"].map(with);
    let many = "The ranks ran with 4 different allocator settings.";
    check(&four.each_ref(), Some(many));
}

#[test]
fn leaks_in_several_places_are_told_one_by_one() {
    let at = |mib: u64, line: u32| {
        let mut profile = leaking(mib);
        profile.leaks[0].place.line = line;
        profile
    };
    let check = |ranks: Vec<RankProfile>, expected: &str| {
        assert_eq!(survey(ranks).sentences[0], expected);
    };
    check(
        vec![peaking(100), at(1, 21), at(2, 23), peaking(100)],
        "Rank 1 leaks 1.00 MiB a step in keep (train.py:21); rank 2 leaks 2.00 MiB a step in keep \
         (train.py:23); the other 2 ranks do not.",
    );
    check(
        vec![at(1, 21), at(2, 23), at(9, 21)],
        "Ranks 0 and 2 leak, rank 2 fastest: 9.00 MiB a step in keep (train.py:21); rank 1 leaks \
         2.00 MiB a step in keep (train.py:23).",
    );
    let mut native = at(2, 0);
    native.leaks[0].place.filename = "??".to_owned();
    check(vec![native], "Rank 0 leaks 2.00 MiB a step in keep.");
    let many = (1..=4).map(|line| at(u64::from(line), line)).collect();
    check(
        many,
        "All 4 ranks leak, rank 3 fastest: 4.00 MiB a step in keep (train.py:4).",
    );
}

#[test]
fn a_failure_is_told_with_its_step_and_what_was_asked_for() {
    let at = |after: u32, line: u32| RankProfile {
        oom: Some(RankFailure {
            step: None,
            after: Some(after),
            place: Some(Place {
                name: "loss_of".to_owned(),
                filename: "/srv/net.py".to_owned(),
                line,
            }),
            ..failed().oom.unwrap_or_default()
        }),
        ..peaking(100)
    };
    let check = |ranks: Vec<RankProfile>, expected: &str| {
        assert_eq!(survey(ranks).sentences[0], expected);
    };
    check(
        vec![at(12, 46), peaking(100), peaking(100)],
        "Rank 0 ran out of memory after step 12 on 64.0 MiB in loss_of (net.py:46); the other 2 \
         ranks did not.",
    );
    // Only what all that failed have in common.
    check(
        vec![at(12, 46), at(13, 46)],
        "Both ranks ran out of memory on 64.0 MiB in loss_of (net.py:46).",
    );
    check(
        vec![at(12, 46), at(12, 19), peaking(100)],
        "Ranks 0 and 1 ran out of memory after step 12; the other rank did not.",
    );
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

/// Ranks that nobody could read may leak, or have failed.
#[test]
fn of_a_part_of_the_ranks_nothing_is_said_of_all() {
    let check = |profiles: Vec<RankProfile>, expected: &[&str]| {
        let mut surveyor = Surveyor::default();
        for (rank, profile) in (0..).map(Rank).zip(profiles) {
            surveyor.add(rank, profile);
        }
        surveyor.lacks_some();
        assert_eq!(surveyor.finish().sentences, expected);
    };
    check(
        vec![peaking(100); 5],
        &["The 5 ranks that were read peak at about 100 MiB, and none leaks."],
    );
    check(
        vec![peaking(100); 2],
        &["The 2 ranks that were read peak at about 100 MiB, and none leaks."],
    );
    check(
        vec![leaking(12); 3],
        &[
            "The 3 ranks that were read leak 12.0 MiB a step in keep (train.py:41).",
            "Those that were read peak at about 100 MiB.",
        ],
    );
    check(
        vec![peaking(100), failed(), peaking(100)],
        &[
            "Rank 1 ran out of memory in step 5 on 64.0 MiB; the other 2 ranks that were read did \
             not.",
            "Those that were read peak at about 100 MiB.",
        ],
    );
    let mut surveyor = Surveyor::default();
    for rank in 0..2 {
        surveyor.add(Rank(rank), holding(100, &[(1, 8)]));
    }
    surveyor.lacks_some();
    let told = "the only site holds the same in all ranks that were read";
    assert_eq!(surveyor.finish().none_differs.as_deref(), Some(told));
}

#[test]
fn ranks_that_cannot_be_read_are_counted_and_named() {
    let check = |read: usize, unread: &[u32], expected: Option<&str>| {
        let unread: Vec<Rank> = unread.iter().copied().map(Rank).collect();
        assert_eq!(unread_in_words(read, &unread).as_deref(), expected);
    };
    check(8, &[], None);
    let told = "5 of 8 ranks could be read; ranks 5, 6 and 7 could not.";
    check(5, &[5, 6, 7], Some(told));
    let told = "1 of 2 ranks could be read; rank 1 could not.";
    check(1, &[1], Some(told));
    let told = "3 of 9 ranks could be read; 6 ranks (3, 4, 5, 6, …) could not.";
    check(3, &[3, 4, 5, 6, 7, 8], Some(told));
    check(0, &[0, 1], Some("Ranks 0 and 1 could not be read."));
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
            "Rank 7 ran out of memory in step 5 on 64.0 MiB; the other 7 ranks did not.",
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
