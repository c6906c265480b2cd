//! Several devices of one host: the result of each one, what they use of the host together, and
//! which recording belongs to which device. The test is simulated; on cards the same code runs.

use std::collections::BTreeSet;

use api::bench::DeviceKind;
use engine::bench::{
    FrontierSpec, Row, RunSpec, hosts, on_devices, run, run_all, run_frontiers, run_recorded,
};
use engine::device::Ordinal;
use engine::systems::System;
use trace::units::Bytes;

const STEPS: u32 = 3;

fn spec() -> RunSpec {
    RunSpec {
        steps: Some(STEPS),
        ..RunSpec::new(System::REUSE, &[])
    }
}

fn rows(devices: u16) -> Vec<Row> {
    run_all(&on_devices(&spec(), devices))
}

/// Each simulated device is its own machine, so each gives the same result as one device alone.
#[test]
fn every_device_runs_the_row() {
    let alone = run(&spec(), &mut |_| true);
    let rows = rows(3);
    let ordinals: Vec<u16> = rows.iter().map(|row| row.device_index.0).collect();
    assert_eq!(ordinals, [0, 1, 2]);
    for row in &rows {
        assert_eq!(row.outcome.as_ref(), Some(&alone));
    }
}

/// Pinned memory belongs to the host: it is the sum over the devices. With one device there is no
/// sum.
#[test]
fn pinned_memory_is_summed_over_the_devices() {
    let alone = run(&spec(), &mut |_| true);
    let taken = alone.host_pinned_peak.expect("a new result tells it");
    assert!(taken > Bytes::ZERO, "{alone:?}");
    assert_eq!(hosts(&rows(1)), []);
    let of_two = hosts(&rows(2));
    let [host] = &of_two[..] else {
        panic!("{of_two:?}")
    };
    assert_eq!(host.devices, 2);
    assert_eq!(host.host_pinned_peak, taken * 2);
    assert_eq!(host.host_pinned_end, Some(alone.host_pinned_end * 2));
    assert_eq!(host.step_seconds, alone.step_seconds);
    // A row that was asked for twice is no further device.
    let twice = [rows(2), rows(2)].concat();
    assert_eq!(hosts(&twice)[0].devices, 2);
    assert_eq!(hosts(&twice)[0].host_pinned_peak, host.host_pinned_peak);
    assert_eq!(hosts(&[rows(1), rows(1)].concat()), []);
}

/// The device of each event, segment and step of a recording, once.
fn devices_of(ordinal: u16) -> [Vec<u32>; 3] {
    let spec = RunSpec {
        record_steps: STEPS,
        ordinal: Ordinal(ordinal),
        ..spec()
    };
    let (_, recording) = run_recorded(&spec, &mut |_| true);
    let mut pickle = Vec::new();
    recording.write_pickle(&mut pickle).unwrap();
    let read = trace::reader::read(&pickle, trace::reader::Limits::default()).unwrap();
    let traces = (0..).zip(&read.devices);
    let with_events = traces.filter(|(_, events)| !events.addr.is_empty());
    let segments = read.segments.iter().map(|segment| segment.device);
    let segments = segments.filter(|device| !device.is_pinned());
    let segments = segments.map(|device| device.0);
    let steps = read.annotations.iter().map(|mark| mark.device.0);
    [
        with_events.map(|(device, _)| device).collect(),
        BTreeSet::from_iter(segments).into_iter().collect(),
        BTreeSet::from_iter(steps).into_iter().collect(),
    ]
}

/// A recording says which device it is of, in the same way as PyTorch: by the position of its
/// trace, in each segment and in each step.
#[test]
fn a_recording_carries_its_device() {
    for ordinal in [0, 2] {
        let expected = || vec![u32::from(ordinal)];
        assert_eq!(devices_of(ordinal), [expected(), expected(), expected()]);
    }
}

/// Each device runs all points, and the results have its number.
#[test]
fn the_frontier_runs_on_every_device() {
    let spec = FrontierSpec {
        device: DeviceKind::Sim,
        steps: 1,
        ordinal: Ordinal(0),
    };
    let tables = run_frontiers(&spec, 2).unwrap();
    let ordinals: Vec<u16> = tables.iter().map(|table| table.device_index.0).collect();
    assert_eq!(ordinals, [0, 1]);
    assert_eq!(tables[0].points, tables[1].points);
}
