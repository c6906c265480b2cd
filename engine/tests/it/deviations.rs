//! Negative controls (docs/offloader-rules.md, "Negative controls"): if one rule is broken, the
//! figures that the other tests check must be wrong.

use std::path::Path;

use api::bench::BenchResult;
use engine::bench::{RunSpec, run};
use engine::deviation::Deviation;
use engine::patches::Patch;
use engine::systems::System;
use engine::tape::{self, TapeVersion};

fn row(
    system: &'static System,
    patches: &[&'static Patch],
    steps: u32,
    deviation: Option<Deviation>,
) -> BenchResult {
    let spec = RunSpec {
        steps: Some(steps),
        deviation,
        ..RunSpec::new(system, patches)
    };
    run(&spec, &mut |_| true)
}

fn mismatches(name: &str, version: &str, deviation: Deviation) -> u64 {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tapes");
    let bytes = std::fs::read(folder.join(format!("{name}.jsonl.zst"))).unwrap();
    let text = zstd::decode_all(bytes.as_slice()).unwrap();
    let version = TapeVersion::from_label(version).unwrap();
    tape::replay_deviating(text.as_slice(), version, deviation)
        .unwrap()
        .mismatches
}

/// The gradient on the context must not be taken over; otherwise the growth is 112 MiB for each
/// micro-batch instead of 168.
#[test]
fn stealing_every_gradient_loses_a_third_of_the_leak() {
    let broken = row(System::FAST_LLM, &[], 40, Some(Deviation::StealAlways));
    assert_eq!(broken.growth_per_step.round(), (112 << 20) as f64 + 512.0);
}

#[test]
fn resetting_the_map_every_step_disagrees_with_the_recording() {
    assert!(mismatches("v1_stale", "v1", Deviation::ResetMapEveryStep) > 0);
}

#[test]
fn freeing_previous_tensors_early_disagrees_with_the_recording() {
    assert!(mismatches("v3_stale", "v3", Deviation::FreePreviousEarly) > 0);
}

#[test]
fn a_key_without_the_type_disagrees_with_a_recording() {
    let recordings = [("v0_stash1", "v0"), ("v3_single", "v3"), ("v1_views", "v1")];
    let wrong: u64 = recordings
        .iter()
        .map(|(name, version)| mismatches(name, version, Deviation::KeyWithoutDtype))
        .sum();
    assert!(wrong > 0);
}

/// There is one entry for each vision block instead of two.
#[test]
fn a_checkpoint_without_its_dummy_leaves_half_the_entries() {
    let broken = row(System::VL_QWEN, &[], 2, Some(Deviation::SkipDummy));
    assert_eq!(broken.tracker_end, 27 * 2);
}

/// Other addresses are used again, so other activations count as duplicates.
#[test]
fn segments_that_fit_exactly_change_what_is_offloaded() {
    let right = row(System::VL_QWEN, &[], 8, None);
    let broken = row(System::VL_QWEN, &[], 8, Some(Deviation::ExactFitSegments));
    assert_ne!(broken.d2h_bytes, right.d2h_bytes);
    assert_ne!(broken.peak_reserved, right.peak_reserved);
}

/// Compute gets blocks of the copying stream without an order.
#[test]
fn a_pool_shared_by_all_streams_races() {
    let broken = row(System::VL_QWEN, &[], 2, Some(Deviation::IgnoreStream));
    assert!(broken.races > 0, "{broken:?}");
}
