//! A recording's steps are those of the bench: read back, each ends at the same bytes.

use engine::bench::{RunSpec, run_recorded};
use engine::offload::Release;
use engine::patches::Patch;
use engine::systems::{Base, System};
use trace::trace::Series;
use trace::units::Bytes;

const STEPS: u32 = 4;

/// What stood on the device and in pinned memory after each step: as the bench counted it, and as
/// it is read from the recording.
fn check(spec: RunSpec) {
    let name = format!("{} {} {:?}", spec.system.id, spec.base, spec.patches);
    let mut counted: Vec<(Bytes, Bytes, Bytes)> = Vec::new();
    let (row, recording) = run_recorded(&spec, &mut |step| {
        counted.push((step.allocated, step.peak_allocated, step.host_pinned));
        true
    });
    let mut bytes = Vec::new();
    recording.write_pickle(&mut bytes).unwrap();
    let snapshot = trace::reader::read(&bytes, trace::reader::Limits::default()).unwrap();
    let trace = trace::replay::run(snapshot);
    let device = &trace.devices[0];
    let whole = row.steps_run as usize;
    assert_eq!(counted.len(), whole, "{name}");
    let allocated = |at| device.levels_before(at).get(Series::Allocated);
    let ends = device.steps.iter().map(|step| allocated(step.events.end()));
    let ends: Vec<Bytes> = ends.take(whole).collect();
    let of_bench: Vec<Bytes> = counted.iter().map(|step| step.0).collect();
    assert_eq!(ends, of_bench, "{name}");
    let Some(pinned) = &trace.pinned else {
        assert!(counted.iter().all(|step| step.2 == Bytes::ZERO), "{name}");
        return;
    };
    let pinned_at = |at| pinned.levels_before(at).get(Series::Allocated);
    let ends = pinned.steps.iter().map(|step| pinned_at(step.events.end()));
    let ends: Vec<Bytes> = ends.take(whole).collect();
    let of_bench: Vec<Bytes> = counted.iter().map(|step| step.2).collect();
    assert_eq!(ends, of_bench, "{name}: pinned");
}

fn spec(system: &'static System, patches: &[&'static Patch]) -> RunSpec {
    RunSpec {
        steps: Some(STEPS),
        record_steps: STEPS,
        ..RunSpec::new(system, patches)
    }
}

#[test]
fn the_steps_of_a_recording_end_where_the_bench_says() {
    for system in System::ALL {
        check(spec(system, &[]));
    }
    check(spec(System::VL_QWEN, &[Patch::ENTER_RESET]));
    for base in [Base::Release(Release::TRL_1_14), Base::SaveOnCpu] {
        check(RunSpec {
            base,
            ..spec(System::CHUNK_VIEWS, &[])
        });
    }
}
