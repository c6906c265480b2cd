//! Tidemark's own offloader, which copies in both directions at once: its cost, what it saves, and
//! that every byte comes back.

use api::bench::FrontierPoint;
use engine::bench::frontier;
use engine::device::sim::{CostModel, SimDevice, SimSpec};
use engine::memory::Role;
use engine::offload::{HostCopyShape, Runtime};
use engine::session::{Around, ModuleOffload, Session};
use engine::tensor::DType;
use engine::workload::{DuplexStack, MlpStack, Workload};
use trace::units::Bytes;

use crate::late_device::{Late, LateDevice};

/// The smallest sample in which every activation is large enough to be moved.
const TOKENS: u64 = 128;
/// How many blocks of the stack move (the last one stays), and how many tensors each of them saves.
const MOVED: u64 = 23;
const SAVED: u64 = 3;

fn on(device: Box<dyn engine::device::Device>) -> (Session, DuplexStack) {
    let mut session = Session::new(device);
    let around = Around::Modules(ModuleOffload::Duplex);
    session.surround(around).unwrap();
    let stack = MlpStack::new(&mut session, TOKENS, 1).unwrap();
    session.accelerator.watch_races();
    (session, DuplexStack::new(stack))
}

/// Every tensor that left is compared with the packed one, with the worst timing on either side.
#[test]
fn every_restored_tensor_is_what_was_packed() {
    for late in [Late::Side, Late::Default] {
        let (mut session, mut stack) = on(Box::new(LateDevice::new(late)));
        for step in 0..6 {
            stack.step(&mut session).unwrap();
            let hardware = session.heap().borrow_mut().device.hardware();
            let seen = hardware.unwrap().unwrap();
            let restored = (seen.verified_tensors, seen.corrupted_tensors);
            assert_eq!(restored, (step * MOVED * SAVED, 0), "{late:?}");
        }
    }
}

/// Two streams never use the same bytes without an order; this includes pinned memory. The first
/// step only copies out, and the held memory does not grow.
#[test]
fn steps_are_alike_and_do_not_race() {
    let (mut session, mut stack) = on(Box::new(SimDevice::new(SimSpec::default())));
    let mut ends = Vec::new();
    let mut copied = session.accelerator.copied();
    for step in 0..8 {
        stack.step(&mut session).unwrap();
        let now = session.accelerator.copied();
        let out = now.to_host - copied.to_host;
        let back = now.to_device - copied.to_device;
        assert_eq!(back, if step == 0 { Bytes::ZERO } else { out });
        copied = now;
        let heap = session.heap().borrow();
        let stats = heap.caching.stats();
        ends.push((stats.allocated, stats.peak_allocated, heap.host.in_use()));
    }
    assert!(ends[4..].iter().all(|end| *end == ends[3]), "{ends:?}");
    let races = session.accelerator.detector().unwrap().races();
    assert_eq!(races.count(), 0);
}

/// If a buffer is given up while it is still read, this races with the next copy into it.
#[test]
fn pinned_memory_is_watched() {
    let check = |waits: bool, expected: usize| {
        let mut session = Session::new(Box::new(SimDevice::new(SimSpec::default())));
        let [out, back] = [(); 2].map(|()| session.accelerator.new_stream().unwrap());
        session.accelerator.watch_races();
        session.accelerator.watch_pinned_memory();
        let tensor = session.empty_as(&[1024], DType::Float32, Role::Activation);
        let tensor = tensor.unwrap();
        let accelerator = &mut session.accelerator;
        let shape = HostCopyShape::View;
        let copy = accelerator.copy_to_host(&tensor, shape, out).unwrap();
        accelerator.wait_stream(back, out).unwrap();
        accelerator.copy_to_device(&copy, back).unwrap();
        drop(copy);
        if waits {
            accelerator.wait_stream(out, back).unwrap();
        }
        accelerator.copy_to_host(&tensor, shape, out).unwrap();
        let races = accelerator.detector().unwrap().races();
        assert_eq!(races.count(), expected);
    };
    check(true, 0);
    check(false, 1);
}

/// Both directions together have the rate that was measured.
#[test]
fn the_link_carries_both_ways_what_was_measured() {
    let both = CostModel::default().both_ways();
    let sum = both.to_host_rate + both.to_device_rate;
    assert!((sum - 101.1e9).abs() < 1.0, "{sum}");
}

/// Where copies limit TRL's steps, this offloader runs at least 1.6 times as many steps in the same
/// time. Its peak is less than two gigabytes higher, and it has no race.
#[test]
fn it_outruns_the_newest_release_where_copies_bound_it() {
    let check = |points: &[FrontierPoint]| {
        let of = |label: &str| points.iter().find(|point| point.label == label).unwrap();
        let (ours, trl) = (of("duplex"), of("trl-1.14"));
        let faster = trl.step_seconds / ours.step_seconds;
        assert!(faster >= 1.6, "{faster}");
        let more = ours.peak_allocated.0 as f64 - trl.peak_allocated.0 as f64;
        assert!(more < 2e9, "{more}");
        assert_eq!(ours.corrupted_tensors, 0);
        assert!(ours.to_host > trl.to_host * 9 / 10);
    };
    check(&frontier().points);
    // The same on a card, with products of cuBLASLt.
    check(&frontier().card.points);
}
