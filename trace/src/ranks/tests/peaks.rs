//! The moments of the program at which ranks peak.

use super::super::moment::{Apart, Moment};
use super::super::sites::When;
use super::*;

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

/// Two moments stand almost equally high, and chance decides which is the peak of a rank.
#[test]
fn peaks_at_different_moments_are_no_difference_between_ranks() {
    let site = |id: &str, at_peak: u64, most: u64| RankSite {
        at_end: Bytes::ZERO,
        most: Bytes::mib(most),
        ..keeping(id, Bytes::mib(at_peak))
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
    // Where a rank ran out of memory is told, and stages of a pipeline differ by design.
    for quiet in [
        RankProfile {
            oom: failed().oom,
            ..at("s2", 300)
        },
        RankProfile {
            is_stage: true,
            ..at("s2", 300)
        },
    ] {
        let others = [at("s1", 300), at("s1", 300), at("s1", 300)];
        let found = survey([quiet].into_iter().chain(others));
        assert!(found.moments_differ);
        let about = |text: &String| text.contains("of the program than most");
        assert!(!found.sentences.iter().any(about), "{:?}", found.sentences);
    }
}

#[test]
fn stages_of_a_pipeline_differ_by_design() {
    let stage = |mib: u64| RankProfile {
        is_stage: true,
        ..peaking(mib)
    };
    let check = |ranks: &[RankProfile], expected: &str| {
        let found = survey(ranks.to_vec());
        assert!(found.ranks.iter().all(|row| row.odd.is_empty()));
        assert_eq!(found.sentences, [expected]);
    };
    check(
        &[stage(358), stage(290), stage(290), stage(552)],
        "No rank is odd: the peaks of 4 stages of a pipeline lie between 290 MiB (rank 1) and 552 \
         MiB (rank 3), and none leaks.",
    );
    check(
        &[stage(290), stage(552)],
        "The two ranks peak at 290 MiB (rank 0) and 552 MiB (rank 1), and none leaks; stages of a \
         pipeline differ by design.",
    );
    let leak = RankProfile {
        is_stage: true,
        peak_allocated: Bytes::mib(300),
        ..leaking(4)
    };
    let found = survey([stage(290), leak, stage(290), stage(552)]);
    assert_eq!(odd(&found), "1 Leaks");
    let peaks = "Peaks of a pipeline's stages lie between 290 MiB (rank 0) and 552 MiB (rank 3).";
    assert_eq!(found.sentences[1], peaks);
    // One rank that runs no stage shows that the others are not all that there is.
    let found = survey([peaking(290), stage(290), stage(290), stage(552)]);
    assert_eq!(odd(&found), "3 PeakHigh");
}

/// A schedule calls what a stage makes.
#[test]
fn a_schedule_shows_a_stage() {
    let of = |file: &str| {
        let text = format!("a alloc 2MiB at step {file}:12\na free");
        let trace = crate::testing::trace(&text);
        Watch::undisturbed(|watch| RankProfile::of(&trace, watch, watch)).is_stage
    };
    assert!(of(
        "/x/site-packages/torch/distributed/pipelining/schedules.py"
    ));
    assert!(!of("/x/site-packages/torch/distributed/fsdp/api.py"));
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
