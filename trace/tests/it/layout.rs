//! The layout of memory, compared with the counter of the process itself (`inactive_split_bytes`).

use crate::recordings::{fixtures, replayed, shared};
use serde_json::Value;
use std::path::{Path, PathBuf};
use trace::layout::{self, Layout, PoolRoom, Room};
use trace::trace::{Action, DeviceTrace, Series};
use trace::units::{Bytes, EventIdx};

/// Recordings of a folder with the counters of their processes after each step.
fn counted(folder: &Path) -> Vec<(PathBuf, Value)> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let files = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let truth = folder.join(format!("{}.truth.json", name.strip_suffix(".pickle.zst")?));
        let truth: Value = serde_json::from_str(&std::fs::read_to_string(truth).ok()?).ok()?;
        truth["steps"].is_array().then(|| (entry.path(), truth))
    });
    files.collect()
}

/// At moments spread over the recording, the sums of a layout equal the values of the series.
fn check_sums(name: &str, device: &DeviceTrace) {
    let events = device.events.len();
    for event in (0..events).step_by((events as usize / 50).max(1)) {
        let at = EventIdx(event);
        let layout =
            Layout::at(device, at).unwrap_or_else(|| panic!("{name}: no layout at {event}"));
        let levels = device.levels_at(at);
        let pools = layout.pools();
        let used: Bytes = pools.iter().map(|pool| pool.used).sum();
        let all: Bytes = pools.iter().map(|pool| pool.used + pool.free()).sum();
        assert_eq!(
            used,
            levels.get(Series::Active),
            "{name}: in use at {event}"
        );
        assert_eq!(
            all,
            levels.get(Series::Reserved),
            "{name}: reserved at {event}"
        );
        for pool in &pools {
            assert!(pool.largest_gap <= pool.free(), "{name}: {pool:?}");
        }
    }
}

/// The layout over time agrees with the layout at each moment. In a stretch, no moment has more
/// unused memory than the moment that stands for the stretch.
fn check_over_time(name: &str, device: &DeviceTrace) {
    let rooms = layout::over_time(device);
    assert!(!rooms.is_empty() || device.events.is_empty(), "{name}");
    let unused = |at: EventIdx| {
        let levels = device.levels_at(at);
        let [reserved, active] = [Series::Reserved, Series::Active].map(|s| levels.get(s));
        reserved.saturating_sub(active)
    };
    for room in &rooms {
        let layout = Layout::at(device, room.event).expect("all segments are recorded");
        let pools = layout.pools();
        let sum = |of: fn(&PoolRoom) -> Bytes| pools.iter().map(of).sum::<Bytes>();
        let expected = Room {
            event: room.event,
            reserved: sum(|pool| pool.reserved),
            used: sum(|pool| pool.used),
            cached: sum(|pool| pool.cached),
            split: sum(|pool| pool.split),
            kept: sum(|pool| pool.kept),
            largest_gap: pools
                .iter()
                .map(|pool| pool.largest_gap)
                .max()
                .unwrap_or_default(),
            segments: layout.segments.len() as u32,
        };
        assert_eq!(*room, expected, "{name}");
        assert_eq!(room.cached + room.split, unused(room.event), "{name}");
    }
    let most = (0..device.events.len())
        .map(|at| unused(EventIdx(at)))
        .max();
    let shown = rooms.iter().map(|room| room.cached + room.split).max();
    assert_eq!(shown, most, "{name}");
}

/// Compares the free bytes of partly used segments at the end of each step with the counter.
/// Returns how many steps were compared.
fn check_split(name: &str, device: &DeviceTrace, truth: &Value) -> usize {
    let expands = device.events.action.contains(&Action::SegmentMap)
        || device
            .segments_before
            .iter()
            .any(|segment| segment.expandable);
    if expands {
        return 0;
    }
    let counted = truth["steps"].as_array().expect("steps");
    let mut checked = 0;
    for (step, counted) in device.steps.iter().zip(counted) {
        let Some(split) = counted["inactive_split"].as_u64() else {
            continue;
        };
        let last = EventIdx(step.events.end().0 - 1);
        // The process may have read its counters a little later; then the step is skipped.
        if counted["allocated"].as_u64() != Some(device.levels_at(last).get(Series::Allocated).0) {
            continue;
        }
        let layout = Layout::at(device, last).expect("all segments are recorded");
        // The counter leaves out whole segments that a private pool keeps.
        let partly = layout.segments.iter().filter(|s| s.used > Bytes::ZERO);
        let ours: Bytes = partly.map(trace::layout::Segment::free).sum();
        assert_eq!(ours, Bytes(split), "{name}: {}", step.name);
        checked += 1;
    }
    checked
}

fn check_folder(folder: &Path) -> usize {
    let mut checked = 0;
    for (path, truth) in counted(folder) {
        let name = path.display().to_string();
        let trace = replayed(&path);
        // After the ring wrapped, segments are missing and the process ran more steps than are
        // recorded.
        if trace.quality.iter().any(|note| note.code == "ring_wrapped") {
            continue;
        }
        for device in &trace.devices {
            check_over_time(&name, device);
            check_sums(&name, device);
            checked += check_split(&name, device, &truth);
        }
    }
    checked
}

#[test]
fn gaps_are_what_the_process_counted() {
    let checked = check_folder(&fixtures());
    assert!(checked > 20, "{checked} steps");
}

#[test]
#[ignore = "needs ../shared"]
fn gaps_of_the_shared_recordings_are_what_the_processes_counted() {
    let shared = shared();
    let checked: usize = ["snapshots", "settings", "qwen9b"]
        .iter()
        .map(|folder| check_folder(&shared.join(folder)))
        .sum();
    assert!(checked > 200, "{checked} steps");
}
