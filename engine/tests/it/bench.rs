//! Compares rows of the bench with what was derived, published or measured.

use api::bench::{BenchResult, BenchStatus, Fate, verdict};
use engine::bench::{Row, RunSpec, run, run_all, run_matrix};
use engine::device::sim::SimSpec;
use engine::patches::Patch;
use engine::systems::{Base, System};
use trace::growth::Growth;
use trace::units::Bytes;

const MIB: u64 = 1 << 20;

pub(crate) fn row(system: &'static System, patches: &[&'static Patch], steps: u32) -> BenchResult {
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
