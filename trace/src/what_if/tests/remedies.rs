//! What gets past a failure.

use super::*;

/// What gets past the failure of a device that ran with these settings.
fn found(device: &DeviceTrace, own: &Config) -> Option<Diagnosis> {
    let evidence = evidence(device, own, Watch::nobody()).unwrap();
    let replay = Replay::new(device, &evidence, Watch::nobody());
    remedies(replay, own, Tried::default()).unwrap()
}

proptest! {
    /// A full card tells how much of it there was for the process.
    #[test]
    fn a_full_card_is_as_large_as_it_says(
        ops in ops(2, false),
        own in settings(),
        limit in (150..700_u64).prop_map(|mib| Bytes(mib * MIB)),
    ) {
        let process = Process::run_on(Some(limit), &ops, &own, Some(limit));
        let failed = process.failed.and(process.trace());
        let Some(device) = failed else { return Ok(()) };
        let evidence = evidence(&device, &own, Watch::nobody()).unwrap();
        let seen = evidence.limit.unwrap();
        prop_assert_eq!((seen.taken(), seen.by), (limit, Refuser::Device));
        // A real one may refuse a page for which there is just room.
        prop_assert!(limit.0 - seen.at_least.0 <= oom::NEVER_GIVEN.0);
        prop_assert!(own.expandable_segments || seen.at_least == limit);
        let failure = oom::failures(&device)[0];
        prop_assert_eq!(failure.limit_under(&own), None);
        // So the failure is found again, and what gets past it fits the card.
        let again = outcome(&device, &evidence, &own, Some(seen.limit()));
        prop_assert_eq!(again.failed.map(|failed| failed.event), Some(failure.event));
        for remedy in found(&device, &own).unwrap().remedies {
            prop_assert!(remedy.outcome.peak_reserved <= limit, "{remedy:?}");
            let text = remedy.change.to_string();
            let collects = own.garbage_collection_threshold > 0.0;
            prop_assert!(collects || !text.contains("garbage"), "{text}");
        }
    }

    /// What gets past a failure is told whole: set as it is told, it does.
    #[test]
    fn a_setting_that_is_told_was_computed(
        ops in ops(1, false),
        own in settings(),
        limit in (150..700_u64).prop_map(|mib| Bytes(mib * MIB)),
    ) {
        let process = Process::run(&ops, &own, Some(limit));
        let failed = process.failed.and(process.trace());
        let Some(device) = failed else { return Ok(()) };
        let Some(found) = found(&device, &own) else { return Ok(()) };
        let evidence = evidence(&device, &own, Watch::nobody()).unwrap();
        let under = |text: &str, limit: Limit| {
            let told = Config { ties: own.ties, ..conf::parse(text, None).unwrap() };
            assert_ne!(&told, &own);
            outcome(&device, &evidence, &told, Some(limit))
        };
        let mut is_sure = false;
        for remedy in &found.remedies {
            let Change::Settings(text) = &remedy.change else { continue };
            is_sure = true;
            prop_assert_eq!(under(text, found.limit.smallest()), remedy.outcome);
            // It gets past with the largest limit, too.
            prop_assert_eq!(under(text, found.limit.limit()).reach, remedy.outcome.reach);
        }
        // What is told where nothing helps for sure gets past it under the largest limit alone.
        prop_assert!(!is_sure || found.perhaps.is_empty());
        for remedy in &found.perhaps {
            let Change::Settings(text) = &remedy.change else { continue };
            prop_assert_eq!(under(text, found.limit.limit()), remedy.outcome);
            prop_assert!(matches!(remedy.outcome.reach, Reach::Recorded(_)));
        }
    }
}

/// What is told in place of a file's settings is of the same version of PyTorch: under another one,
/// other blocks of equal size would be handed out.
#[test]
fn simpler_settings_are_of_the_same_version() {
    for ties in [Ties::Address, Ties::BlockAge, Ties::SegmentAge] {
        let own = Config {
            ties,
            ..Config::default()
        };
        let expandable = Config {
            expandable_segments: true,
            ..own.clone()
        };
        assert_eq!(simpler(&own), std::slice::from_ref(&expandable));
        assert_eq!(simpler(&expandable), [own]);
    }
}

/// Where garbage is collected, a larger limit may give no failure. Of 1000 to 1016 MiB, these do.
#[test]
fn a_failure_is_looked_for_under_all_limits_that_fit() {
    let seen = LimitSeen {
        at_least: Bytes(1000 * MIB),
        below: Bytes(1016 * MIB + 1),
        by: Refuser::Process,
    };
    let failed = Failed {
        event: EventIdx(7),
        step: 0,
        segment: None,
        allocated: Bytes::ZERO,
        reserved: Bytes::ZERO,
        retries: 1,
        at_once: false,
        may_be_less: false,
    };
    let check = |from: u64, to: u64, expected: Option<[u64; 2]>| {
        let fails = |limit: Limit| {
            let mib = limit.bytes.0 / MIB;
            Ok((from..=to).contains(&mib).then_some(failed))
        };
        let found = crate::what_if::remedies::reproduced(seen, 16, fails).expect("nobody stops it");
        let limits = found.map(|(_, limits)| [limits.at_least.0, limits.below.0]);
        assert_eq!(limits, expected, "{from} to {to}");
    };
    check(1000, 1016, Some([1000 * MIB, 1016 * MIB + 1]));
    check(1003, 1005, Some([1003 * MIB, 1006 * MIB]));
    check(1000, 1000, Some([1000 * MIB, 1001 * MIB]));
    check(900, 999, None);
}

/// Twenty blocks of 21 MiB with gaps of 19 MiB between them, from before the recording. Requested
/// one after the other they would take 420 MiB; but in a program that had always had expandable
/// segments, no page of 20 MiB of these gaps would be free, either.
#[test]
fn gaps_from_before_the_recording_are_not_wished_away() {
    let limit = Some(Bytes(1000 * MIB));
    let expandable = Config {
        expandable_segments: true,
        ..Config::default()
    };
    let run = |settings: &Config| {
        let mut process = Process::run(&[], settings, limit);
        (0..20).for_each(|_| process.step(&Op::Alloc(40 * MIB, 0)));
        (0..20).for_each(|_| process.step(&Op::FreeNewest));
        for _ in 0..20 {
            process.step(&Op::Alloc(21 * MIB, 0));
            process.step(&Op::Alloc(19 * MIB, 0));
        }
        for at in (1..40).step_by(2).rev() {
            process.request(at);
            process.complete(at);
        }
        let first = process.log.len();
        process.step(&Op::Alloc(250 * MIB, 0));
        assert!(process.failed.is_some(), "{settings:?}");
        process.trace_since(first).unwrap()
    };
    run(&expandable);
    let own = Config::default();
    let found = found(&run(&own), &own).expect("the failure is found again");
    assert_eq!(found.remedies, []);
}
