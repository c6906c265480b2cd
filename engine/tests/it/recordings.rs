//! What a recording of a run says, read back like a file that somebody else made.

use engine::bench::RunSpec;
use engine::memory::Role;
use engine::recording::TensorInfo;
use engine::systems::System;
use trace::categories::{Categories, Category};
use trace::trace::{BlockIdx, Series};
use trace::units::{Bytes, EventIdx};

const MIB: u64 = 1 << 20;

/// Reads a recording like anybody who gets the file.
pub(crate) fn read_back(recording: &engine::recording::Recording) -> trace::trace::Trace {
    let mut bytes = Vec::new();
    recording.write_pickle(&mut bytes).unwrap();
    let snapshot = trace::reader::read(&bytes, trace::reader::Limits::default());
    trace::replay::run(snapshot.unwrap())
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
    let segments = segments.filter(|segment| !segment.device.is_pinned());
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
    assert_eq!(Some(reserved), row.host_pinned_peak);
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
