//! Ranks that use more than the device that is compared.

use super::*;
use crate::ranks::other_devices::OtherDevice;

/// Memory on another device: its peak, what is there at the end, and how fast it leaks.
fn other(device: u32, [peak, end, leaks]: [u64; 3]) -> OtherDevice {
    let own = leaking(leaks);
    OtherDevice {
        device: DeviceIdx(device),
        peak_allocated: Bytes::mib(peak),
        end: Bytes::mib(end),
        place: Some(own.leaks[0].place.clone()),
        verdict: if leaks > 0 {
            Verdict::Leak
        } else {
            Verdict::Clean
        },
        reason: String::new(),
        leaked_per_step: own.leaked_per_step,
        leaks: own.leaks,
        sites: Vec::new(),
    }
}

fn with(device: u32, others: Vec<OtherDevice>, own: RankProfile) -> RankProfile {
    let own = RankProfile {
        device: DeviceIdx(device),
        others,
        ..own
    };
    own.judged_over_devices()
}

#[test]
fn a_leak_on_another_device_is_a_leak_of_the_rank() {
    let leaks = vec![other(0, [90, 80, 2])];
    let found = survey([
        with(0, Vec::new(), peaking(100)),
        with(1, leaks, peaking(100)),
    ]);
    assert_eq!(odd(&found), "1 Leaks");
    assert_eq!(
        found.sentences,
        [
            "Rank 1 leaks 2.00 MiB a step on device 0 in keep (train.py:41); the other rank does \
             not.",
            "Both peak at about 100 MiB.",
            "Rank 1 also used device 0, the one of rank 0: up to 90.0 MiB, of which 80.0 MiB are \
             still there at the end, most of it in keep (train.py:41).",
        ]
    );
}

#[test]
fn a_rank_may_leak_on_several_devices() {
    let others = (1..4).map(|device| other(device, [384, 384, 16])).collect();
    let ranks = (1..4).map(|rank| with(rank, Vec::new(), peaking(100)));
    let found = survey([with(0, others, leaking(16))].into_iter().chain(ranks));
    assert_eq!(
        found.sentences[..2],
        [
            "Rank 0 leaks 16.0 MiB a step in keep (train.py:41); the other 3 ranks do not.",
            "Rank 0 leaks on devices 1, 2 and 3, too: up to 16.0 MiB a step, in keep \
             (train.py:41).",
        ]
    );
    let used = "Rank 0 also used devices 1, 2 and 3: up to 384 MiB on each, of which up to 384 MiB \
                are still there at the end, most of it in keep (train.py:41).";
    assert!(
        found.sentences.iter().any(|told| told == used),
        "{:?}",
        found.sentences
    );
}

#[test]
fn what_ranks_left_on_one_device_is_told() {
    let left = |rank| with(rank, vec![other(0, [65, 65, 0])], peaking(100));
    let ranks = [with(0, Vec::new(), peaking(100)), left(1), left(2), left(3)];
    assert_eq!(
        survey(ranks).sentences,
        [
            "All 4 ranks peak at about 100 MiB, and none leaks.",
            "Ranks 1, 2 and 3 also used device 0, the one of rank 0: up to 65.0 MiB each, of which \
             up to 65.0 MiB are still there at the end, most of it in keep (train.py:41).",
        ]
    );
    let unknown = |rank| {
        let mut other = other(0, [65, 65, 0]);
        other.verdict = Verdict::CannotTell;
        with(rank, vec![other], peaking(100))
    };
    let found = survey([with(0, Vec::new(), peaking(100)), unknown(1)]);
    let told = "Both ranks peak at about 100 MiB, and none leaks on the device that is compared.";
    assert_eq!(found.sentences[0], told);
}

/// Processes with two devices each, or that all use another number of device.
#[test]
fn many_ranks_with_other_devices_are_told_in_one_sentence() {
    let two = |rank: u32| {
        with(
            2 * rank,
            vec![other(2 * rank + 1, [90, 0, 0])],
            peaking(100),
        )
    };
    let told = survey((0..8).map(two)).sentences;
    let all = "8 ranks (0, 1, 2, 3, …) also used other devices: up to 90.0 MiB (rank 0 on device \
               1).";
    assert_eq!(told[1], all);
    let one = survey([two(0), with(2, Vec::new(), peaking(100))]).sentences;
    let left = "Rank 0 also used device 1: up to 90.0 MiB, most of it in keep (train.py:41); \
                little is left at the end.";
    assert_eq!(one[1], left);
}

/// The same line holds as much in both ranks: in one of them on the device of the other.
#[test]
fn a_site_on_another_device_is_not_called_nothing() {
    let site = |mib| RankSite {
        place: Some(leaking(1).leaks[0].place.clone()),
        ..keeping("s1", Bytes::mib(mib))
    };
    let holding = |device, mib, others| RankProfile {
        sites: vec![site(mib)],
        ..with(device, others, peaking(100))
    };
    let mut foreign = other(0, [793, 0, 0]);
    foreign.sites = vec![("s1".to_owned(), Bytes::mib(793))];
    let apart = survey([holding(0, 793, vec![]), holding(1, 1, vec![])]);
    assert_eq!((apart.sites.len(), apart.sites_unclear), (1, 0));
    let found = survey([holding(0, 793, vec![]), holding(1, 1, vec![foreign])]);
    assert_eq!((found.sites.len(), found.sites_unclear), (0, 1));
}

/// Rank 1 keeps one large tensor on the device of rank 0, and trains on its own.
#[test]
fn a_rank_is_compared_by_the_device_that_it_works_on() {
    let program = Program::default();
    let mut trace = program.trace();
    trace.devices[0].device = DeviceIdx(1);
    let mut stray = crate::testing::trace("m alloc 9000MiB").devices.remove(0);
    // Annotations mark its steps, too, and nothing happens in them.
    stray.steps = trace.devices[0].steps.clone();
    for step in &mut stray.steps {
        step.events = crate::span::Span::new(EventIdx(1), EventIdx(1));
    }
    trace.devices.insert(0, stray);
    let profile = Watch::undisturbed(|watch| RankProfile::of(&trace, watch, watch));
    assert_eq!(profile.device, DeviceIdx(1));
    assert_eq!(profile.peak_allocated, of(&program).peak_allocated);
    let others: Vec<_> = profile.others.iter().map(|other| other.device).collect();
    assert_eq!(others, [DeviceIdx(0)]);
}
