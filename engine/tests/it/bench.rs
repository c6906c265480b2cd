//! Compares rows of the bench with what was derived, published or measured.

use api::bench::{BenchResult, BenchStatus, Fate, verdict};
use engine::bench::{Row, RunSpec, run, run_all, run_matrix};
use engine::device::sim::{Faults, SimSpec};
use engine::memory::Role;
use engine::offload::Release;
use engine::patches::Patch;
use engine::recording::TensorInfo;
use engine::systems::{Base, System};
use trace::allocator::Config;
use trace::categories::{Categories, Category};
use trace::growth::Growth;
use trace::trace::{BlockIdx, PINNED, Series};
use trace::units::{Bytes, EventIdx};

const MIB: u64 = 1 << 20;

fn row(system: &'static System, patches: &[&'static Patch], steps: u32) -> BenchResult {
    let spec = RunSpec {
        steps: Some(steps),
        ..RunSpec::new(system, patches)
    };
    run(&spec, &mut |_| true)
}

/// The result of a row of published code.
fn outcome(row: &Row) -> &BenchResult {
    row.outcome.as_ref().expect("its source is public")
}

fn within(value: f64, target: f64, share: f64) -> bool {
    (value - target).abs() <= share * target.abs()
}

/// docs/measurements.md, "The 9B program": 103.8 MB a step, 33.4 MB with P3, nothing with #5730.
#[test]
fn the_vision_run_grows_as_measured() {
    let steps = 30;
    let baseline = row(System::VL_QWEN, &[], steps);
    assert!(
        within(baseline.growth_per_step, 103.8e6, 0.10),
        "{baseline:?}"
    );
    assert_eq!(
        baseline.tracker_end,
        54 * u64::from(steps),
        "two entries a vision block"
    );
    assert_eq!((baseline.races, baseline.corrupted_tensors), (0, 0));

    let p3 = row(System::VL_QWEN, &[Patch::EXIT_SYNC_AND_CLEAR], steps);
    assert!(within(p3.growth_per_step, 33.4e6, 0.10), "{p3:?}");
    assert_eq!(p3.bwd_stash_end, 0);

    let reset = row(
        System::VL_QWEN,
        &[Patch::EXIT_SYNC_AND_CLEAR, Patch::ENTER_RESET],
        steps,
    );
    assert_eq!((reset.growth_per_step, reset.growth_error), (0.0, 0.0));
    assert_eq!(reset.tracker_end, 54);
    // The peak of the run without growth: 10.742 GB measured.
    assert!(
        within(reset.peak_allocated.0 as f64, 10.742e9, 0.02),
        "{reset:?}"
    );

    let keyed = [
        Patch::EXIT_SYNC_AND_CLEAR,
        Patch::ENTER_RESET,
        Patch::RELEASE_DEDUPE_KEY,
    ];
    let keyed = row(System::VL_QWEN, &keyed, 8);
    assert!(
        keyed.peak_allocated < reset.peak_allocated,
        "more is offloaded"
    );
    assert!(keyed.d2h_bytes / 8 > reset.d2h_bytes / u64::from(steps));
    assert!(
        within(keyed.peak_allocated.0 as f64, 10.655e9, 0.02),
        "{keyed:?}"
    );
}

/// docs/offloader-rules.md, "Invariants", 8 and 9: P1 and P2 change nothing, and together they add
/// nothing to P3.
#[test]
fn patches_that_change_nothing_change_nothing() {
    let baseline = row(System::VL_QWEN, &[], 4);
    for patch in [Patch::MATMUL_4BIT_NO_GRAD, Patch::BF16_CROSS_ENTROPY] {
        assert_eq!(row(System::VL_QWEN, &[patch], 4), baseline);
    }
    let p3 = row(System::VL_QWEN, &[Patch::EXIT_SYNC_AND_CLEAR], 4);
    let combined = &Patch::PUBLISHED_FIVE[..3];
    assert_eq!(row(System::VL_QWEN, combined, 4), p3);
    assert_ne!(p3.allocated_end, baseline.allocated_end);
}

/// Invariants 8 and 9 for every event: not only the figures are the same.
#[test]
fn patches_that_change_nothing_leave_every_event_as_it_was() {
    let events = |system: &'static System, patches: &[&'static Patch]| {
        let spec = RunSpec {
            steps: Some(2),
            record_steps: 2,
            ..RunSpec::new(system, patches)
        };
        engine::bench::run_recorded(&spec, &mut |_| true).1
    };
    let baseline = events(System::VL_QWEN, &[]);
    for patch in [Patch::MATMUL_4BIT_NO_GRAD, Patch::BF16_CROSS_ENTROPY] {
        assert!(events(System::VL_QWEN, &[patch]) == baseline, "{patch:?}");
    }
    let p3 = events(System::VL_QWEN, &[Patch::EXIT_SYNC_AND_CLEAR]);
    assert!(events(System::VL_QWEN, &Patch::PUBLISHED_FIVE[..3]) == p3);
    assert!(p3 != baseline);
    // No tensor in this chain is a view, so P4 has nothing to copy.
    let chain = events(System::REUSE, &[]);
    assert!(events(System::REUSE, &[Patch::PACK_CONTIGUOUS]) == chain);
}

/// #5694 alone: the memory is the same, but bytes may be wrong.
#[test]
fn the_clone_on_the_side_stream_is_seen_and_the_one_on_the_compute_stream_is_clean() {
    let racy = row(System::VL_QWEN, &[Patch::PACK_CONTIGUOUS], 2);
    assert!(racy.races >= 2 && racy.corrupted_tensors > 0, "{racy:?}");
    assert_eq!(verdict(&racy, true, None), BenchStatus::Corruption);
    let clean = row(
        System::VL_QWEN,
        &[Patch::PACK_CONTIGUOUS, Patch::COMPUTE_STREAM_CLONE],
        2,
    );
    assert_eq!((clean.races, clean.corrupted_tensors), (0, 0));
}

/// docs/measurements.md, "The 9B program", TEXT: no leak with any version; 10.712 GB.
#[test]
fn the_text_run_is_flat() {
    let baseline = row(System::TEXT_QWEN, &[], 12);
    assert_eq!((baseline.tracker_end, baseline.bwd_stash_end), (0, 0));
    assert!(baseline.growth_per_step.abs() < 1.0, "{baseline:?}");
    assert!(
        within(baseline.peak_allocated.0 as f64, 10.712e9, 0.02),
        "{baseline:?}"
    );
    let p3 = row(System::TEXT_QWEN, &[Patch::EXIT_SYNC_AND_CLEAR], 12);
    assert_eq!(p3.peak_allocated, baseline.peak_allocated);
    assert_eq!(p3.allocated_end, baseline.allocated_end);
}

/// docs/scenarios.md, "Losses that are kept": three tensors of 56 MiB a micro-batch, static 46.62
/// GiB, out of memory at 111 to 115.
#[test]
fn kept_losses_cost_168_mib_a_micro_batch() {
    let rows = run_matrix(System::FAST_LLM, None, SimSpec::default());
    let baseline = outcome(&rows[0]);
    assert!(
        within(baseline.growth_per_step, 168.0 * MIB as f64, 0.001),
        "{baseline:?}"
    );
    // Invariant 11: the growth is a line, and not only its slope is right.
    assert!(baseline.growth_error < 1e-4 * baseline.growth_per_step);
    let oom = baseline.oom_step.unwrap();
    assert!((108..=116).contains(&oom), "{oom}");
    assert_eq!(rows[0].status, BenchStatus::OutOfMemory);
    let detached = outcome(&rows[1]);
    assert_eq!(rows[1].status, BenchStatus::RootCauseFix);
    assert_eq!(detached.steps_run, 128);
    assert!(detached.growth_per_step < 1024.0);
    let gib = detached.allocated_end.0 as f64 / (1u64 << 30) as f64;
    assert!(within(gib, 46.62, 0.003), "{gib}");
    let peak = detached.peak_allocated.0 as f64 / (1u64 << 30) as f64;
    assert!(within(peak, 60.54, 0.02), "{peak}");
}

/// docs/scenarios.md, "Tensors kept by contexts": three layers of four fp8 tensors of 65.5 MiB.
#[test]
fn contexts_that_outlive_backward_hold_786_mib() {
    let rows = run_matrix(System::TE_ATTENTION, None, SimSpec::default());
    let ends = [0, 1].map(|row| outcome(&rows[row]).allocated_end);
    assert_eq!(ends[0] - ends[1], Bytes::mib(786));
    assert_eq!(rows[1].status, BenchStatus::RootCauseFix);
}

/// docs/scenarios.md, "Mixture of experts": 60 entries a micro-batch exactly, and a growth below
/// 1.289 GiB a step.
#[test]
fn unrecomputed_checkpoints_leave_sixty_entries_a_micro_batch() {
    let baseline = row(System::MOE_GEMMA, &[], 3);
    assert_eq!(baseline.tracker_end, 60 * 4 * 3);
    assert_eq!(baseline.bwd_stash_end, 0, "nothing is ever restored");
    let gib = baseline.growth_per_step / (1u64 << 30) as f64;
    assert!((0.3..1.289).contains(&gib), "{gib}");
    let fixed = row(System::MOE_GEMMA, &[Patch::ENTER_RESET], 3);
    assert_eq!((fixed.tracker_end, fixed.growth_per_step), (60, 0.0));
}

/// docs/scenarios.md, "De-duplication": without false duplicates, more is offloaded and less stays.
#[test]
fn released_keys_lower_the_peak() {
    let rows = run_matrix(System::REUSE, None, SimSpec::default());
    let (before, after) = (outcome(&rows[0]), outcome(&rows[1]));
    assert!(after.peak_allocated < before.peak_allocated);
    assert!(after.d2h_bytes > before.d2h_bytes);
    assert_eq!(rows[1].status, BenchStatus::LowersPeak);
}

/// Reads a recording like anybody who gets the file.
fn read_back(recording: &engine::recording::Recording) -> trace::trace::Trace {
    let mut bytes = Vec::new();
    recording.write_pickle(&mut bytes).unwrap();
    let snapshot = trace::reader::read(&bytes, trace::reader::Limits::default());
    trace::replay::run(snapshot.unwrap())
}

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

/// The list of runs and a run's page judge the same levels.
#[test]
fn a_row_grows_by_the_rule_for_every_recording() {
    for steps in [6, 8, 12, 24] {
        let spec = RunSpec {
            steps: Some(steps),
            ..RunSpec::new(System::VL_QWEN, &[])
        };
        let mut ends = Vec::new();
        let out = run(&spec, &mut |facts| {
            ends.push(facts.allocated.0);
            true
        });
        let growth = Growth::of(&ends).map(|growth| growth.slope);
        assert_eq!(growth, Some(out.growth_per_step), "{steps} steps");
    }
}

#[test]
fn progress_can_end_a_run() {
    let mut seen = 0;
    let out = run(&RunSpec::new(System::REUSE, &[]), &mut |facts| {
        seen += 1;
        facts.step < 2
    });
    assert_eq!((seen, out.steps_run, out.crash), (3, 3, None));
}

#[test]
fn the_json_of_a_row_has_the_documented_fields() {
    let spec = RunSpec {
        steps: Some(1),
        ..RunSpec::new(System::REUSE, &[])
    };
    let json = serde_json::to_value(&run_all(&[spec])[0]).unwrap();
    let documented = [
        "config",
        "base",
        "patches",
        "steps_run",
        "peak_allocated",
        "peak_reserved",
        "allocated_end",
        "growth_per_step",
        "growth_error",
        "oom_step",
        "crash",
        "corrupted_tensors",
        "races",
        "tracker_end",
        "bwd_stash_end",
        "host_pinned_end",
        "host_pinned_peak",
        "d2h_bytes",
        "h2d_bytes",
        "status",
        "published",
        "measured",
        "engine_on_card",
    ];
    for field in documented {
        assert!(json.get(field).is_some(), "{field}");
    }
    assert_eq!(json["patches"], serde_json::json!([]));
    assert_eq!(json["status"], "BASELINE");
}

/// The reader of uploads can read a recording, which names the holders of what leaked.
#[test]
fn a_recording_is_a_snapshot_that_says_who_holds_the_leak() {
    let spec = RunSpec {
        steps: Some(4),
        record_steps: 4,
        ..RunSpec::new(System::VL_QWEN, &[])
    };
    let (row, recording) = engine::bench::run_recorded(&spec, &mut |_| true);
    assert_eq!(recording.steps().len(), 4);
    let mut bytes = Vec::new();
    recording.write_pickle(&mut bytes).unwrap();
    let each = bytes.len() / recording.events();
    assert!(
        each < 90,
        "{each} bytes an event: strings and stacks are written once"
    );
    let snapshot = trace::reader::read(&bytes, trace::reader::Limits::default()).unwrap();
    assert_eq!(snapshot.devices.len(), 1);
    assert_eq!(snapshot.devices[0].addr.len(), recording.events());
    assert_eq!(snapshot.annotations.len(), 8);
    assert!(
        snapshot.unknown_keys.is_empty(),
        "{:?}",
        snapshot.unknown_keys
    );
    let segments = snapshot.segments.iter();
    let segments = segments.filter(|segment| segment.device != PINNED);
    let reserved: Bytes = segments.map(|segment| segment.total_size).sum();
    assert!(reserved <= row.peak_reserved && reserved > row.allocated_end);
    // Events and segments are from the same moment: at its end the trace agrees with the segments.
    let trace = trace::replay::run(snapshot);
    let notes = &trace.quality;
    let disagree = ["segments_newer", "end_differs", "addresses_not_predicted"];
    assert!(
        !notes.iter().any(|n| disagree.contains(&n.code.as_str())),
        "{notes:?}"
    );
    // What the engine knows about each block need not be inferred.
    let device = &trace.devices[0];
    let alive = Categories::of(device, &trace.stacks).alive(device, None);
    let unknown = [Category::Unknown, Category::Before].map(|category| alive.get(category).get());
    let parameters = alive.get(Category::Parameter).get();
    assert!(parameters > 6 << 30, "{alive:?}");
    assert!(unknown.iter().sum::<u64>() < 64 * MIB, "{alive:?}");
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("held by bwd_tensor_stash["));
    assert!(text.contains("since step 3"));
    assert!(row.bwd_stash_end > 0);
}

/// The pinned memory of a recording is that of the run, after each step and at its highest. And
/// what left the device is there: each block is as large as the copy that it was taken for,
/// rounded up.
#[test]
fn the_pinned_memory_of_a_recording_is_that_of_the_run() {
    let spec = RunSpec {
        steps: Some(4),
        record_steps: 4,
        ..RunSpec::new(System::VL_QWEN, &[])
    };
    let mut counted = Vec::new();
    let (row, recording) = engine::bench::run_recorded(&spec, &mut |step| {
        counted.push(step.host_pinned);
        true
    });
    let trace = read_back(&recording);
    let pinned = trace.pinned.as_ref().expect("pinned memory");
    let ends = pinned.steps.iter().map(|step| {
        let end = pinned.levels_before(step.events.end());
        end.get(Series::Allocated)
    });
    assert_eq!(ends.collect::<Vec<_>>(), counted);
    let reserved = pinned.summary[Series::Reserved as usize].peak;
    assert_eq!(reserved, row.host_pinned_peak);
    let blocks = &pinned.blocks;
    let taken = (0..blocks.len() as u32).map(|block| blocks.kind(BlockIdx(block)).size);
    let taken: Bytes = taken.sum();
    assert!(
        taken >= row.d2h_bytes,
        "{taken} for {} copied out",
        row.d2h_bytes
    );
    assert!(
        taken.get() < 2 * row.d2h_bytes.get(),
        "{taken} for {}",
        row.d2h_bytes
    );
    // A tensor that comes back was on the host until then.
    let device = &trace.devices[0];
    let stays: Vec<_> = trace.host_stays(device).collect();
    let restored = (0..device.blocks.len() as u32).filter(|&block| {
        let stack = device.blocks.kind(BlockIdx(block)).alloc_stack;
        let frame = trace.stacks.headline(stack);
        frame.is_some_and(|frame| trace.stacks.str(frame.name) == "offload: restore")
    });
    let restored: Vec<u32> = restored.collect();
    assert!(!restored.is_empty(), "nothing came back");
    for block in restored {
        let kind = device.blocks.kind(BlockIdx(block));
        let (event, size) = (
            EventIdx(device.blocks.alloc[block as usize]),
            kind.requested,
        );
        let source = stays.iter().find(|stay| {
            let is_there = stay.from.is_some_and(|from| from <= event)
                && stay.until.is_none_or(|until| until >= event);
            is_there && stay.bytes.get() == size.get().next_power_of_two()
        });
        assert!(source.is_some(), "{size} at event {}", event.0);
    }
    let alike = ["end_differs", "segments_newer", "host_events_before"];
    let found = trace
        .quality
        .iter()
        .find(|note| alike.contains(&note.code.as_str()));
    assert_eq!(found, None);
}

/// A base that has wrong bytes says so, and does not hide what a patch on it does.
#[test]
fn a_racy_base_fails_and_its_patches_are_judged_by_what_they_change() {
    let sets = [
        vec![],
        vec![Patch::ENTER_RESET],
        vec![Patch::COMPUTE_STREAM_CLONE],
    ];
    let rows = engine::bench::run_rows(System::QLORA_BNB, &sets, Some(8), SimSpec::default());
    let status: Vec<BenchStatus> = rows.iter().map(|row| row.status).collect();
    assert_eq!(
        status,
        [
            BenchStatus::Corruption,
            BenchStatus::Corruption,
            BenchStatus::PreventsCorruption
        ]
    );
    let corrupted = |row: &Row| outcome(row).corrupted_tensors;
    assert!(corrupted(&rows[0]) > 0 && corrupted(&rows[2]) == 0);
}

/// The same code has the same status, whichever base and patches it is made from.
#[test]
fn the_same_program_has_the_same_verdict_everywhere() {
    let patched = [
        Patch::EXIT_SYNC_AND_CLEAR,
        Patch::PACK_CONTIGUOUS,
        Patch::ENTER_RESET,
    ];
    let sets = [vec![], patched.to_vec()];
    let vision = engine::bench::run_rows(System::VL_QWEN, &sets, Some(3), SimSpec::default());
    let sets = [vec![], vec![Patch::ENTER_RESET]];
    let quantised = engine::bench::run_rows(System::QLORA_BNB, &sets, Some(3), SimSpec::default());
    assert_eq!(vision[1].status, BenchStatus::Corruption);
    assert_eq!(quantised[1].status, vision[1].status);
}

/// If something races in each step, it is counted in each step, however many there are.
#[test]
fn corruption_is_counted_over_all_steps() {
    let p4 = [Patch::PACK_CONTIGUOUS];
    let counted = [3, 7].map(|steps| row(System::TEXT_QWEN, &p4, steps).corrupted_tensors);
    assert_eq!(counted, [3, 7], "the labels, once a step");
}

/// #5694 ends the crash of #4247 and brings another fault. With #7195 both are gone.
#[test]
fn chunk_views_crash_then_corrupt_then_run() {
    let copied_before = [Patch::PACK_CONTIGUOUS, Patch::CLONE_BEFORE_WAIT];
    let sets = [vec![], vec![Patch::PACK_CONTIGUOUS], copied_before.to_vec()];
    let rows = engine::bench::run_rows(System::CHUNK_VIEWS, &sets, Some(3), SimSpec::default());
    let status: Vec<BenchStatus> = rows.iter().map(|row| row.status).collect();
    let expected = [
        BenchStatus::Crash,
        BenchStatus::Corruption,
        BenchStatus::PreventsCrash,
    ];
    assert_eq!(status, expected);
    let crash = outcome(&rows[0]).crash.as_deref().unwrap_or_default();
    assert!(crash.starts_with("setStorage"), "{crash}");
}

/// `release-dedupe-key` alone ends the growth on the device and begins one on the host.
#[test]
fn a_leak_that_moves_to_the_host_is_no_fix() {
    let sets = [vec![], vec![Patch::RELEASE_DEDUPE_KEY]];
    let rows = engine::bench::run_rows(System::MOE_GEMMA, &sets, Some(6), SimSpec::default());
    assert_eq!(rows[1].status, BenchStatus::MovesToHost, "{:?}", rows[1]);
}

/// The same patch on a system where it makes the leak larger, the vision run.
#[test]
fn a_patch_that_leaves_more_behind_makes_it_worse() {
    let sets = [vec![], vec![Patch::RELEASE_DEDUPE_KEY]];
    let rows = engine::bench::run_rows(System::VL_QWEN, &sets, Some(12), SimSpec::default());
    assert_eq!(rows[1].status, BenchStatus::MakesItWorse, "{:?}", rows[1]);
}

/// docs/measurements.md, "The 9B program": the peak of `save_on_cpu` is 11.410 GB, more than
/// without offloading, because the head's weight comes back while the gradients of the logits are
/// alive.
#[test]
fn save_on_cpu_peaks_where_the_real_one_does() {
    let with = |base| RunSpec {
        base,
        steps: Some(3),
        ..RunSpec::new(System::VL_QWEN, &[])
    };
    let saved = run(&with(Base::SaveOnCpu), &mut |_| true);
    let none = run(&with(Base::NoOffloading), &mut |_| true);
    assert!(
        within(saved.peak_allocated.0 as f64, 11.410e9, 0.001),
        "{saved:?}"
    );
    assert!(
        within(none.peak_allocated.0 as f64, 10.788_899_840e9, 0.001),
        "{none:?}"
    );
    assert_eq!((saved.races, saved.host_growth_per_step), (0, 0.0));
    assert_eq!(saved.d2h_bytes.0 % 3, 0, "the same every step");
    let hidden = run(&with(Base::HiddenStates), &mut |_| true);
    assert!(hidden.d2h_bytes < saved.d2h_bytes && hidden.peak_allocated < none.peak_allocated);
}

/// If nobody has the source of a patch, its row shows what was published about it, and the result
/// for the assumption. It shows no number of this engine.
#[test]
fn a_patch_without_source_has_no_numbers_of_ours() {
    let sets = [vec![Patch::TORCH_MEMORY_FIX]];
    let judged = |steps: Option<u32>, capacity: Option<Bytes>| {
        let sim = SimSpec {
            capacity,
            ..SimSpec::default()
        };
        let mut rows = engine::bench::run_rows(System::VL_QWEN, &sets, steps, sim);
        let row = rows.remove(0);
        assert_eq!(row.status, BenchStatus::SourceUnavailable);
        (row.hypothesis.as_ref().unwrap().fate, row)
    };
    // What somebody else's steps and card give is no test of it.
    assert_eq!(judged(Some(3), None).0, Fate::Untested);
    assert_eq!(judged(None, Some(Bytes(9_000_000_000))).0, Fate::Untested);
    let (fate, row) = judged(None, None);
    assert_eq!(fate, Fate::Refuted);
    assert!(row.outcome.is_none() && row.known.measured.is_none());
    assert!(row.known.published.is_some() && row.known.engine_on_card.is_none());
    let json = serde_json::to_value(row).unwrap();
    assert_eq!(json["status"], "SOURCE UNAVAILABLE");
    assert!(json.get("peak_allocated").is_none(), "{json}");
}

/// The side table has a name for every allocation, and an owner for each one that is still alive.
#[test]
fn the_tensors_of_a_recording_have_names_roles_and_owners() {
    let spec = RunSpec {
        steps: Some(3),
        record_steps: 2,
        ..RunSpec::new(System::VL_QWEN, &[])
    };
    let (_, recording) = engine::bench::run_recorded(&spec, &mut |_| true);
    let tensors: Vec<TensorInfo> = recording.tensors().collect();
    let alive = tensors.iter().filter(|tensor| tensor.freed.is_none());
    for tensor in alive.clone() {
        assert!(tensor.owner.is_some(), "{tensor:?}");
    }
    let find = |name: &str| tensors.iter().find(|tensor| tensor.name == name);
    let weight = find("layers.3.self_attn.q_proj.lora_A.weight").unwrap();
    assert_eq!((weight.event, weight.role), (None, Role::Parameter));
    assert_eq!(weight.shape, [16, 4096]);
    assert_eq!(weight.dtype.as_deref(), Some("torch.float32"));
    let moment = find("optimizer.state[0].exp_avg").unwrap();
    assert_eq!((moment.step, moment.role), (Some(0), Role::OptimizerState));
    let leaked = alive.filter(|tensor| {
        let owner = tensor.owner.as_deref().unwrap_or_default();
        owner.starts_with("held by bwd_tensor_stash[") && owner.ends_with("since step 1")
    });
    let leaked: Vec<&TensorInfo> = leaked.collect();
    assert!(!leaked.is_empty());
    assert!(leaked.iter().all(|tensor| tensor.role == Role::Restored));
    assert!(leaked.iter().any(|tensor| tensor.shape == [1, 512, 4096]));
    let made = tensors.iter().filter(|tensor| tensor.event.is_some());
    assert!(made.clone().any(|tensor| tensor.role == Role::Recomputed));
    assert!(
        made.clone()
            .any(|tensor| tensor.module == "visual.blocks.26")
    );
    let table = serde_json::to_string(&tensors[0]).unwrap();
    assert_eq!(
        serde_json::from_str::<TensorInfo>(&table).unwrap(),
        tensors[0]
    );
}
