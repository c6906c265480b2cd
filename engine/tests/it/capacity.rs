//! What a run does on a card that is too small, refuses memory or copies slowly.

use api::bench::{BenchStatus, verdict};
use engine::bench::{RunSpec, run};
use engine::device::sim::{Faults, SimSpec};
use engine::offload::Release;
use engine::systems::{Base, System};
use trace::allocator::Config;
use trace::trace::Series;
use trace::units::Bytes;

use crate::bench::row;
use crate::recordings::read_back;

#[test]
fn a_small_card_runs_out_and_says_when() {
    let sim = SimSpec {
        capacity: Some(Bytes(11_000_000_000)),
        ..SimSpec::default()
    };
    let spec = RunSpec {
        sim,
        steps: Some(30),
        record_steps: 30,
        ..RunSpec::new(System::VL_QWEN, &[])
    };
    let (out, recording) = engine::bench::run_recorded(&spec, &mut |_| true);
    let step = out.oom_step.expect("the leak does not fit");
    assert!(step > 1 && out.steps_run == step, "{out:?}");
    let device = &read_back(&recording).devices[0];
    let failures = trace::oom::failures(device);
    assert_eq!(failures.len(), 1, "the run ends there");
    assert_eq!(failures[0].step, Some(step));
    let free = failures[0].free.expect("the engine tells it");
    assert!(free < failures[0].asked, "{failures:?}");
    let limit = failures[0].limit_under(&Config::default());
    assert_eq!(limit, None, "the device refused it");
    assert_eq!(verdict(&out, false, None), BenchStatus::OutOfMemory);
    assert_eq!(out.crash, None);
}

/// What was there when the model did not fit is the peak, and is recorded.
#[test]
fn a_model_that_does_not_fit_has_a_peak_and_a_recording() {
    for capacity in [Bytes(4_000_000_000), Bytes(6_000_000_000)] {
        let sim = SimSpec {
            capacity: Some(capacity),
            ..SimSpec::default()
        };
        let spec = RunSpec {
            sim,
            record_steps: 2,
            ..RunSpec::new(System::VL_QWEN, &[])
        };
        let (out, recording) = engine::bench::run_recorded(&spec, &mut |_| true);
        assert_eq!(
            (out.steps_run, out.oom_step, &out.crash),
            (0, Some(0), &None)
        );
        assert_eq!(verdict(&out, false, None), BenchStatus::OutOfMemory);
        assert_eq!(out.at_end(), None);
        assert_eq!(out.ended(9), "before step 1 of 9");
        assert!(out.peak_allocated > Bytes::ZERO && out.peak_allocated <= capacity);
        assert!(recording.steps().is_empty() && recording.events() > 1);
        let device = &read_back(&recording).devices[0];
        let peak = device.summary[Series::Allocated as usize].peak;
        assert_eq!(peak, out.peak_allocated);
        let failures = trace::oom::failures(device);
        assert_eq!(failures.len(), 1, "it is built once");
        assert_eq!(failures[0].step, None);
        let free = failures[0].free.expect("the engine tells it");
        assert!(free < failures[0].asked, "{failures:?}");
        // Without a recording the figures are the same.
        let plain = RunSpec {
            record_steps: 0,
            ..spec
        };
        assert_eq!(run(&plain, &mut |_| true), out);
    }
}

/// The model fits and its first step does not. Nothing is copied out without an offloader, so only
/// the run itself can tell.
#[test]
fn a_first_step_that_does_not_fit_is_told_from_building() {
    let sim = SimSpec {
        capacity: Some(Bytes(9_200_000_000)),
        ..SimSpec::default()
    };
    let spec = RunSpec {
        sim,
        base: Base::NoOffloading,
        ..RunSpec::new(System::VL_QWEN, &[])
    };
    let out = run(&spec, &mut |_| true);
    assert_eq!((out.oom_step, out.d2h_bytes), (Some(0), Bytes::ZERO));
    assert_eq!(out.ended(9), "in step 1 of 9");
}

/// No loop waits for the device here, so the host runs ahead until the launch queue is full. What
/// waits for copies meanwhile is bounded.
#[test]
fn memory_that_waits_for_copies_does_not_grow_with_the_steps() {
    let reserved = |steps| {
        let spec = RunSpec {
            base: Base::Release(Release::TRL_0_18),
            steps: Some(steps),
            ..RunSpec::new(System::REUSE, &[])
        };
        run(&spec, &mut |_| true).peak_reserved
    };
    assert!(reserved(1) < reserved(10));
    assert_eq!(reserved(10), reserved(60));
}

#[test]
fn an_injected_failure_is_retried_with_an_empty_cache() {
    // The last segment that the run asks for: at that time there is a cache to give back.
    let faults = Faults {
        fail_segment: Some(3),
        ..Faults::default()
    };
    let sim = SimSpec {
        faults,
        ..SimSpec::default()
    };
    let spec = RunSpec {
        sim,
        ..RunSpec::new(System::REUSE, &[])
    };
    let hit = run(&spec, &mut |_| true);
    assert_eq!((hit.oom_step, hit.crash), (None, None));
}

#[test]
fn slow_copies_make_slow_steps_and_the_same_memory() {
    let faults = Faults {
        copy_slowdown: 20.0,
        ..Faults::default()
    };
    let sim = SimSpec {
        faults,
        ..SimSpec::default()
    };
    let slow = run(
        &RunSpec {
            sim,
            ..RunSpec::new(System::REUSE, &[])
        },
        &mut |_| true,
    );
    let usual = row(System::REUSE, &[], 10);
    assert!(slow.step_seconds > 3.0 * usual.step_seconds);
    assert_eq!(slow.peak_allocated, usual.peak_allocated);
}
