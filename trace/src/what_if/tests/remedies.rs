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
        prop_assert_eq!((seen.at_least, seen.taken(), seen.by), (limit, limit, Refuser::Device));
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
        let found = found(&device, &own);
        let evidence = evidence(&device, &own, Watch::nobody()).unwrap();
        for remedy in found.iter().flat_map(|found| &found.remedies) {
            let Change::Settings(text) = &remedy.change else { continue };
            let told = Config { ties: own.ties, ..conf::parse(text, None).unwrap() };
            let limit = evidence.limit.map(LimitSeen::smallest);
            prop_assert_eq!(outcome(&device, &evidence, &told, limit), remedy.outcome);
            // It gets past with the largest limit, too.
            let limit = evidence.limit.map(LimitSeen::limit);
            let at_largest = outcome(&device, &evidence, &told, limit);
            prop_assert_eq!(at_largest.reach, remedy.outcome.reach);
            prop_assert_ne!(&told, &own);
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
