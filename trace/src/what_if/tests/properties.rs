//! What holds for every program, under all settings.

use super::*;

proptest! {
    // One of the properties leaves out programs that run out of memory under the first settings.
    #![proptest_config(ProptestConfig {
        cases: 256,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    })]

    /// Without a limit, a recording replayed under its own settings gives itself: the levels that
    /// the replay measured, and what happened.
    #[test]
    fn under_its_own_settings_a_recording_gives_itself(ops in ops(2, true), own in settings()) {
        let process = Process::run(&ops, &own, None);
        let Some(device) = process.trace() else { return Ok(()) };
        let answer = ask(&device, &own, &Question::default(), Watch::nobody()).unwrap();
        prop_assert_eq!(answer.calibration.addresses.predicted, device.fidelity.allocs);
        prop_assert_eq!(answer.calibration.peak_reserved_error, 0.0);
        let what_if = answer.what_if;
        prop_assert_eq!(what_if.peak_allocated, answer.recorded.peak_allocated);
        prop_assert_eq!((what_if.peak_allocated.0, what_if.peak_reserved.0), peaks(&process));
        prop_assert_eq!((what_if.retries, what_if.failed), (0, None));
    }

    /// The curves reach the peaks, whatever the columns are; *allocated* is as recorded at each
    /// event.
    #[test]
    fn curves_hide_no_peak(ops in ops(2, true), own in settings(), columns in 1..40_u32) {
        let Some(device) = Process::run(&ops, &own, None).trace() else { return Ok(()) };
        let question = |columns| Question { columns, ..Question::default() };
        let ask = |columns| ask(&device, &own, &question(columns), Watch::nobody()).unwrap();
        let answer = ask(columns);
        let curves = answer.curves.unwrap();
        let peak = |levels: &[Bytes]| levels.iter().copied().max();
        let is = |curve: &Curve, allocated, reserved| {
            prop_assert_eq!(peak(&curve.allocated), Some(allocated));
            prop_assert_eq!(peak(&curve.reserved), Some(reserved));
            prop_assert!(curve.reserved.len() <= columns as usize);
            Ok(())
        };
        let (recorded, what_if) = (answer.recorded, answer.what_if);
        is(&curves.recorded, recorded.peak_allocated, recorded.peak_reserved)?;
        is(&curves.what_if, what_if.peak_allocated, what_if.peak_reserved)?;
        let every_event = ask(device.events.len()).curves.unwrap();
        prop_assert_eq!(every_event.recorded.events_per_column, 1);
        prop_assert_eq!(every_event.recorded.allocated, every_event.what_if.allocated);
    }

    /// Blocks that are never requested take nothing, and the others are served as in a program that
    /// never requested them.
    #[test]
    fn what_is_gone_was_never_asked_for(ops in ops(1, false), own in settings()) {
        let asked = ops.iter().filter(|op| matches!(op, Op::Alloc(..)));
        let asked: Vec<Op> = asked.cloned().collect();
        let is_gone = |size: u64| size.is_multiple_of(3);
        let rest: Vec<Op> = asked.iter()
            .filter(|op| matches!(op, Op::Alloc(size, _) if !is_gone(*size)))
            .cloned()
            .collect();
        let Some(device) = Process::run(&asked, &own, None).trace() else { return Ok(()) };
        let early = Early::default().without(&device, |kind| is_gone(kind.requested.0));
        prop_assert_eq!(early.n_gone(), asked.len() - rest.len());
        let question = Question { early, ..Question::default() };
        let answer = ask(&device, &own, &question, Watch::nobody()).unwrap();
        let alone = Process::run(&rest, &own, None);
        let what_if = answer.what_if;
        prop_assert_eq!((what_if.peak_allocated.0, what_if.peak_reserved.0), peaks(&alone));
    }

    /// The same with the limit of the recording, including retries and the failure. If nothing was
    /// collected, the limit that the recording shows is as good as the true one.
    #[test]
    fn under_its_own_limit_too(mut ops in ops(2, true), own in settings(), limit in limit()) {
        // Blocks whose frees complete may be given back before the allocator waits for anything,
        // and no event shows that.
        if own.garbage_collection_threshold > 0.0 || own.max_split_size.is_some() {
            ops.retain(|op| !matches!(op, Op::Request(_)));
        }
        let process = Process::run(&ops, &own, limit);
        let Some(device) = process.trace() else { return Ok(()) };
        let evidence = evidence(&device, &own, Watch::nobody()).unwrap();
        let check = |outcome: Outcome| {
            prop_assert_eq!((outcome.peak_allocated.0, outcome.peak_reserved.0), peaks(&process));
            prop_assert_eq!(outcome.retries, process.allocator.retries());
            let failed = process.failed.map(|_| process.log.len() as u32 - 1);
            prop_assert_eq!(outcome.failed.map(|f| f.event.0), failed);
            Ok(())
        };
        check(outcome(&device, &evidence, &own, limit.map(Limit::of_process)))?;
        if let (Some(seen), Some(limit)) = (evidence.limit, limit) {
            prop_assert!(seen.at_least <= limit && limit < seen.below, "{seen:?} {limit:?}");
        }
        if own.garbage_collection_threshold == 0.0 {
            let seen = evidence.limit.map(LimitSeen::limit);
            check(outcome(&device, &evidence, &own, seen))?;
        }
    }

    /// A recording that begins later, even while memory goes back, shows no limit that is too low.
    #[test]
    fn wherever_it_begins_no_limit_is_too_low(
        ops in ops(2, false),
        own in settings(),
        limit in (150..700_u64).prop_map(|mib| Bytes(mib * MIB)),
        first in any::<prop::sample::Index>(),
    ) {
        let process = Process::run(&ops, &own, Some(limit));
        if process.log.is_empty() { return Ok(()) }
        let device = process.trace_since(first.index(process.log.len()));
        let Some(device) = device else { return Ok(()) };
        let evidence = Evidence::of(&device, &own, Watch::nobody()).unwrap();
        if let Some(seen) = evidence.limit {
            prop_assert!(seen.below > limit, "{seen:?} {limit:?}");
        }
    }

    /// Nothing fits that does not: neither what was requested nor what was there before.
    #[test]
    fn what_fits_stays_below_the_limit(
        ops in ops(2, true),
        first in any::<prop::sample::Index>(),
        own in settings(),
        to in settings(),
        limit in (1..700_u64).prop_map(|mib| Bytes(mib * MIB)),
    ) {
        // PyTorch checks the limit with the size of a normal segment, then maps whole pages.
        let to = Config { expandable_segments: false, ties: own.ties, ..to };
        let process = Process::run(&ops, &own, None);
        let first = first.index(process.log.len() + 1);
        let Some(device) = process.trace_since(first) else { return Ok(()) };
        let evidence = Evidence::of(&device, &own, Watch::nobody()).unwrap();
        let outcome = outcome(&device, &evidence, &to, Some(Limit::of_process(limit)));
        match outcome.failed {
            None => prop_assert!(outcome.peak_reserved <= limit, "{outcome:?}"),
            Some(failed) => {
                let before = failed.segment.is_none();
                prop_assert_eq!(before, failed.reserved > limit, "{:?}", failed);
                prop_assert!(!before || failed.event == EventIdx(0), "{:?}", failed);
            }
        }
    }

    /// A recording may begin late, with gaps of equal size in what was there before. Nothing is
    /// handed out twice: lists are checked after each event.
    #[test]
    fn gaps_from_before_are_handed_out_once(
        before in prop::collection::vec(1..1024_u64, 8..60),
        given_back in prop::collection::vec(any::<prop::sample::Index>(), 4..30),
        ops in ops(1, false),
        own in settings(),
    ) {
        let before: Vec<Op> = before.into_iter().map(|size| Op::Alloc(size, 0)).collect();
        let mut process = Process::run(&before, &own, None);
        given_back.into_iter().for_each(|index| process.step(&Op::Free(index)));
        let first = process.log.len();
        ops.iter().for_each(|op| process.step(op));
        let Some(device) = process.trace_since(first) else { return Ok(()) };
        let evidence = Evidence::of(&device, &own, Watch::nobody()).unwrap();
        let outcome = outcome(&device, &evidence, &own, None);
        let recorded = device.summary[Series::Allocated as usize].peak;
        prop_assert_eq!((outcome.failed, outcome.peak_allocated), (None, recorded));
    }

    /// A recording under any settings predicts what happens to the program under any others.
    #[test]
    fn from_any_settings_to_any_others(
        ops in ops(2, false),
        from in settings(),
        from_limit in limit(),
        to in settings(),
        to_limit in limit(),
    ) {
        let recorded = Process::run(&ops, &from, from_limit);
        prop_assume!(recorded.failed.is_none());
        // The version of torch stays the same.
        let to = Config { ties: from.ties, ..to };
        let Some(device) = recorded.trace() else { return Ok(()) };
        let evidence = Evidence::of(&device, &from, Watch::nobody()).unwrap();
        prop_assert_eq!(&evidence.emptied, &[]);
        let outcome = outcome(&device, &evidence, &to, to_limit.map(Limit::of_process));
        let there = Process::run(&ops, &to, to_limit);
        prop_assert_eq!((outcome.peak_allocated.0, outcome.peak_reserved.0), peaks(&there));
        prop_assert_eq!(outcome.retries, there.allocator.retries());
        let actions = device.events.action.iter();
        let asked = outcome.failed.map(|failed| {
            let before = actions.take(failed.event.index() + 1);
            before.filter(|action| **action == Action::Alloc).count()
        });
        prop_assert_eq!(asked, there.failed);
        let reach = if there.failed.is_some() { Reach::Failure } else { Reach::End };
        prop_assert_eq!(outcome.reach, reach);
    }
}
