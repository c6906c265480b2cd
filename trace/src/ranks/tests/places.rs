//! The same allocation site in all ranks.

use super::super::sites::When;
use super::*;

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
        at_end: Bytes::ZERO,
        ..keeping("s1", Bytes(bytes))
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
            at_end: Bytes::mib(at_end),
            ..keeping("s1", Bytes::mib(at_peak))
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
            most: Bytes::mib(most),
            at_end: Bytes::mib(at_end),
            wobble: Bytes::mib(wobbles.0),
            end_wobble: Bytes::mib(wobbles.1),
            ..keeping("s1", Bytes::mib(at_peak))
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

#[test]
fn ranks_that_do_not_say_where_are_not_compared_by_site() {
    let holding = |id: &str| RankProfile {
        sites: vec![RankSite {
            at_end: Bytes::ZERO,
            ..keeping(id, Bytes::mib(8))
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
    let why = "Rank 2 is left out of the comparison by stack: it was recorded without stacks.";
    check(&told, None);
    check(&nameless, Some(why));
    let why = "Rank 2 is left out of the comparison by stack: it lost events.";
    check(&wrapped, Some(why));
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

/// Ranks with these steps, MiB at these sites, and MiB from before their recordings.
fn beginning(steps: u32, sites: &[(&str, u64)], before: u64) -> RankProfile {
    let site = |&(id, mib): &(&str, u64)| keeping(id, Bytes::mib(mib));
    RankProfile {
        whole_steps: steps,
        from_before: Bytes::mib(before),
        sites: sites.iter().map(site).collect(),
        ..peaking(400)
    }
}

/// Whoever begins later holds what others have at a site, and nobody knows that it is the same.
#[test]
fn what_a_rank_holds_from_before_may_belong_to_any_site() {
    let check = |ranks: [&RankProfile; 3], sites: &[(&str, u64)], (same, unclear)| {
        let survey = survey(ranks.map(Clone::clone));
        let rows = survey.sites.iter();
        let rows: Vec<(&str, u64)> = rows
            .map(|site| (site.id.as_str(), site.difference.0 / MIB))
            .collect();
        assert_eq!(rows, sites);
        assert_eq!((survey.sites_same, survey.sites_unclear), (same, unclear));
    };
    let early = beginning(12, &[("s1", 100), ("s2", 20)], 0);
    let late = beginning(9, &[("b4096", 100), ("s2", 20)], 100);
    check([&early, &early, &late], &[], (1, 2));
    check([&late, &late, &early], &[], (1, 2));
    // More than it holds from before.
    let much = beginning(12, &[("s1", 300), ("s2", 20)], 0);
    check([&much, &much, &late], &[("s1", 200)], (1, 1));
    let little = beginning(9, &[("b4096", 100), ("s2", 20)], 40);
    let differ = [("b4096", 60), ("s1", 60)];
    check([&early, &early, &little], &differ, (1, 0));
    // All hold as much from before: they began together.
    let [one, other] = [&early, &late].map(|rank| RankProfile {
        from_before: Bytes::mib(100),
        ..rank.clone()
    });
    check([&one, &one, &other], &[("b4096", 100), ("s1", 100)], (1, 0));
}

#[test]
fn a_rank_that_began_later_is_not_odd_for_its_steps() {
    let check = |ranks: &[(u32, u64)], expected: (&str, &str)| {
        let all = ranks.iter();
        let survey = survey(all.map(|&(steps, before)| beginning(steps, &[], before)));
        let last = survey.sentences.last().cloned().unwrap_or_default();
        assert_eq!(
            (odd(&survey).as_str(), last.as_str()),
            expected,
            "{ranks:?}"
        );
    };
    let later = "Rank 2 may have begun to record later: it held 90.0 MiB then, others as little as \
                 0 B, and what made that is not recorded.";
    check(&[(12, 0), (12, 0), (9, 90)], ("", later));
    let later = "Ranks 1 and 2 may have begun to record later: they held up to 95.0 MiB then, \
                 others as little as 0 B, and what made that is not recorded.";
    check(&[(12, 0), (9, 90), (9, 95)], ("", later));
    // It holds more and is no shorter; no site depends on that.
    let alike = "All 3 ranks peak at about 400 MiB, and none leaks.";
    check(&[(12, 30), (12, 30), (12, 90)], ("", alike));
    let about = "All peak at about 400 MiB.";
    check(&[(12, 30), (12, 30), (9, 30)], ("2 Steps", about));
    check(&[(12, 30), (12, 30), (15, 90)], ("2 Steps", about));
}

/// Recordings of a job end together.
#[test]
fn steps_of_a_rank_that_began_later_lie_at_the_end() {
    let with = |steps: u32, before: u64| RankProfile {
        curve: Curve {
            window: (0.0, f64::from(steps)),
            parts: vec![Some([Bytes::mib(1); 2]); curves::PARTS],
        },
        ..beginning(steps, &[], before)
    };
    let found = survey([with(12, 0), with(6, 90)]);
    assert_eq!(found.band.window, (0.0, 12.0));
    let half = curves::PARTS / 2;
    let there = |part: usize| found.curves[1].parts[part].is_some();
    assert_eq!([half - 1, half].map(there), [false, true]);
}

#[test]
fn what_is_held_from_before_has_no_stack() {
    let script = "weights pre 40MiB\na alloc 4MiB at f f.py:1";
    let trace = crate::testing::trace(script);
    let profile = Watch::undisturbed(|watch| RankProfile::of(&trace, watch, watch));
    assert_eq!(profile.from_before, Bytes::mib(40));
}

/// Gradients that stay, of so many calls of each function; so many blocks more belong to none.
fn backward(calls: &[&str], unknown: u32, from_before: u32) -> Option<String> {
    use crate::testing::{TraceBuilder, block_of};
    use crate::trace::BlockKind;
    let mut b = TraceBuilder::default();
    for _ in 0..from_before {
        b.preexisting(block_of(Bytes::mib(4)));
    }
    for name in calls {
        let saved = BlockKind {
            alloc_stack: b.stack(name, "net.py", 3),
            ..block_of(Bytes::mib(4))
        };
        let saved = b.alloc(saved);
        b.alloc(block_of(Bytes::mib(4)));
        b.free_requested(saved);
        b.free_completed(saved);
    }
    for _ in 0..unknown {
        b.alloc(block_of(Bytes::mib(4)));
    }
    let trace = b.finish();
    let profile = Watch::undisturbed(|watch| RankProfile::of(&trace, watch, watch));
    let mut gradients = profile.sites.iter().filter(|site| site.id.starts_with('b'));
    let place = gradients
        .next()
        .expect("a site without a stack")
        .place
        .clone();
    place.map(|place| place.told())
}

#[test]
fn gradients_are_called_by_their_forward_operation() {
    let check = |calls: &[&str], (unknown, from_before): (u32, u32), expected: Option<&str>| {
        let told = backward(calls, unknown, from_before);
        assert_eq!(
            told.as_deref(),
            expected,
            "{calls:?} {unknown} {from_before}"
        );
    };
    let norm = Some("backward of norm, 4.00 MiB each (net.py:3)");
    check(&["norm"; 3], (0, 0), norm);
    check(&["norm"; 3], (2, 0), norm);
    let both = Some("backward of norm and others, 4.00 MiB each (net.py:3)");
    check(&["norm", "gelu", "norm"], (0, 0), both);
    // Of most it is not known, or of those from before.
    check(&["norm"; 3], (3, 0), None);
    check(&["norm"; 3], (0, 1), None);
}

#[test]
fn rows_of_one_line_name_what_it_called() {
    let site = |id: &str, line: u32, operation: &str, mib: u64| RankSite {
        place: Some(Place {
            name: "step".to_owned(),
            filename: "/srv/train.py".to_owned(),
            line,
        }),
        operation: (!operation.is_empty()).then(|| operation.to_owned()),
        at_end: Bytes::ZERO,
        ..keeping(id, Bytes::mib(mib))
    };
    let rank = |more: u64| RankProfile {
        sites: vec![
            site("s1", 4, "mm", 10 + 4 * more),
            site("s2", 4, "add", 10 + 3 * more),
            site("s3", 4, "", 10 + 2 * more),
            site("s4", 5, "mm", 10 + more),
        ],
        ..peaking(100)
    };
    let survey = survey([rank(0), rank(0), rank(5)]);
    let told: Vec<String> = (survey.sites.iter())
        .map(|site| site.place.as_ref().map(Place::told).unwrap_or_default())
        .collect();
    let expected = [
        "step, mm (train.py:4)",
        "step, add (train.py:4)",
        "step (train.py:4)",
    ];
    assert_eq!(told, [&expected[..], &["step (train.py:5)"]].concat());
}

/// One function fills a buffer on one line, and leaks on another.
#[test]
fn a_site_that_leaks_is_called_by_the_line_that_leaks() {
    let holding = |line: u32, mib: u64, leaks: bool| {
        let place = Place {
            line,
            ..leaking(1).leaks[0].place.clone()
        };
        RankProfile {
            sites: vec![RankSite {
                place: Some(place),
                leaks,
                ..keeping("s0000000000000001", Bytes::mib(mib))
            }],
            ..peaking(100)
        }
    };
    let named = |buffer: u64, line: u32| {
        let others = vec![holding(22, buffer, false); 2];
        let all = [others, vec![holding(line, buffer + 24, true)]].concat();
        let place = survey(all).sites[0].place.clone();
        place.map(|place| place.told())
    };
    // The others hold nothing then, so all of it is of the line that leaks.
    assert_eq!(named(0, 45).as_deref(), Some("keep (train.py:45)"));
    // The bytes are of both lines.
    assert_eq!(named(64, 45).as_deref(), Some("keep (train.py)"));
    assert_eq!(named(64, 22).as_deref(), Some("keep (train.py:22)"));
}
