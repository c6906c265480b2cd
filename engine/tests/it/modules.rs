//! Offloaders that move modules: ms-swift's and Megatron-LM's.

use api::bench::{BenchResult, BenchStatus, Trouble};
use engine::bench::{RunSpec, run, run_rows};
use engine::device::sim::SimSpec;
use engine::patches::Patch;
use engine::session::{Around, HostKey, Limits, ModuleOffload, Session, Share};
use engine::systems::{Base, System};
use trace::units::Bytes;

use crate::late_device::{Late, LateDevice};

/// How many layers of `transposed-views` leave the device: all but the last one.
const MOVED: u64 = 7;

/// The number of restored tensors, and how many of them had other contents than the packed ones:
/// for the first pass, and for all passes.
fn restored(system: &System, offload: ModuleOffload, late: Late) -> [(u64, u64); 2] {
    let mut session = Session::new(Box::new(LateDevice::new(late)));
    session.surround(Around::Modules(offload)).unwrap();
    let mut program = system.spec.build(&[], &mut session).unwrap();
    let mut seen = || {
        program.step(&mut session).unwrap();
        let hardware = session.heap().borrow_mut().device.hardware();
        let seen = hardware.unwrap().unwrap();
        (seen.verified_tensors, seen.corrupted_tensors)
    };
    let first = seen();
    seen();
    [first, seen()]
}

/// ms-swift before #10157: if a tensor and its transpose are saved, the second one gets the
/// elements of the first in the wrong order. The simulated device counts this, and the contents
/// show it.
#[test]
fn a_shared_host_copy_of_a_transpose_is_seen() {
    let sets = [vec![], vec![Patch::DISTINGUISH_VIEWS]];
    let rows = run_rows(System::TRANSPOSED_VIEWS, &sets, None, SimSpec::default());
    let [shared, apart] = [&rows[0], &rows[1]].map(|row| row.outcome.as_ref().unwrap());
    assert_eq!(rows[0].status, BenchStatus::Corruption);
    assert_eq!(
        shared.corrupted_tensors,
        MOVED * u64::from(shared.steps_run)
    );
    assert_eq!(rows[1].status, BenchStatus::PreventsCorruption);
    assert_eq!(
        (apart.corrupted_tensors, apart.races, shared.races),
        (0, 0, 0)
    );
    assert!(shared.d2h_bytes < apart.d2h_bytes);

    for late in [Late::Side, Late::Default] {
        let of = |key| restored(System::TRANSPOSED_VIEWS, ModuleOffload::MsSwift(key), late);
        let [_, (_, wrong)] = of(HostKey::Start);
        assert_eq!(wrong, 3 * MOVED, "{late:?}");
        let [_, (verified, wrong)] = of(HostKey::View);
        assert!(verified >= 3 * 2 * MOVED, "{verified}");
        assert_eq!(wrong, 0, "{late:?}");
    }
}

/// The halves of a chunk have different starts, so ms-swift brings them back right.
#[test]
fn views_with_an_offset_do_not_share_a_copy() {
    for late in [Late::Side, Late::Default] {
        let offload = ModuleOffload::MsSwift(HostKey::Start);
        let [_, (verified, wrong)] = restored(System::CHUNK_VIEWS, offload, late);
        assert!(
            verified > 50 && wrong == 0,
            "{late:?}: {wrong} of {verified}"
        );
    }
}

fn megatron(system: &'static System, limits: Limits) -> BenchResult {
    let spec = RunSpec {
        base: Base::MegatronLm,
        limits,
        steps: Some(6),
        ..RunSpec::new(system, &[])
    };
    let result = run(&spec, &mut |_| true);
    assert_eq!(Trouble::of(&result), [], "{limits:?}: {result:?}");
    result
}

/// If more modules move, more bytes move and the peak is not higher. With none, the run equals one
/// without the offloader.
#[test]
fn a_fraction_of_modules_moves_a_fraction_of_the_bytes() {
    for system in [System::CHUNK_VIEWS, System::TRANSPOSED_VIEWS] {
        let shares = [0, 25, 50, 75, 100].map(|percent| Share::percent(percent).unwrap());
        let rows = shares.map(|share| {
            let limits = Limits {
                share,
                ..Limits::NONE
            };
            megatron(system, limits)
        });
        for pair in rows.windows(2) {
            assert!(pair[0].d2h_bytes < pair[1].d2h_bytes, "{system:?}");
            assert!(pair[0].allocated_end >= pair[1].allocated_end, "{system:?}");
        }
        // Only the first pass moves anything, because it learns the modules.
        let first = RunSpec {
            base: Base::MegatronLm,
            steps: Some(1),
            ..RunSpec::new(system, &[])
        };
        let first = run(&first, &mut |_| true);
        assert_eq!(rows[0].d2h_bytes, first.d2h_bytes);
        assert!(rows[4].d2h_bytes > first.d2h_bytes * 4);
    }
}

/// If fewer copies may be under way, the computing stream waits longer.
#[test]
fn a_cap_on_copies_under_way_costs_time() {
    let of = |in_flight| {
        let limits = Limits {
            in_flight,
            ..Limits::NONE
        };
        megatron(System::CHUNK_VIEWS, limits)
    };
    let [none, one, many] = [Some(0), Some(1), None].map(of);
    assert!(none.step_seconds > one.step_seconds, "{none:?} {one:?}");
    assert!(one.step_seconds >= many.step_seconds, "{one:?} {many:?}");
    assert_eq!(none.d2h_bytes, many.d2h_bytes);
}

/// After the pass that learns, everything comes back right, whatever the timing. In that pass,
/// nothing orders reading the last modules back after their copies. This was read in the source;
/// nobody has measured it.
#[test]
fn modules_come_back_as_they_were() {
    let offload = ModuleOffload::Megatron(Limits::NONE);
    for system in [
        System::CHUNK_VIEWS,
        System::TRANSPOSED_VIEWS,
        System::VL_QWEN,
    ] {
        let [_, (verified, wrong)] = restored(system, offload, Late::Default);
        assert!(
            verified > 50 && wrong == 0,
            "{system:?}: {wrong} of {verified}"
        );
        let [(_, first), (verified, all)] = restored(system, offload, Late::Side);
        assert!(
            verified > 50 && all == first,
            "{system:?}: {all} of {verified}"
        );
    }
    let [(_, first), _] = restored(System::CHUNK_VIEWS, offload, Late::Side);
    assert!(first > 0);
}

/// Tensors that backward never asks for stay on the host for one step only.
#[test]
fn what_backward_never_asks_for_does_not_add_up() {
    let spec = RunSpec {
        base: Base::MegatronLm,
        steps: Some(12),
        ..RunSpec::new(System::VL_QWEN, &[])
    };
    let result = run(&spec, &mut |_| true);
    let growth = (result.growth_per_step, result.host_growth_per_step);
    assert_eq!(growth, (0.0, 0.0));
    assert!(result.d2h_bytes > Bytes::ZERO && result.host_pinned_end > Bytes::ZERO);
}
