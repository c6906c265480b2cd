//! Whether what was packed comes back: checked in contents, not inferred from an order.

use api::bench::DeviceKind;
use engine::bench::{RunSpec, run};
use engine::deviation::Deviation;
use engine::device::cuda;
use engine::offload::{Changes, OffloadConfig, Release};
use engine::patches::{self, Patch};
use engine::session::{RunError, Session};
use engine::systems::System;
use trace::units::Bytes;

use crate::late_device::{Late, LateDevice};

/// The number of restored tensors, and how many of them had other contents than the packed ones.
fn restored(
    system: &System,
    patches: &[&'static Patch],
    steps: u32,
    late: Late,
    deviation: Option<Deviation>,
) -> (u64, u64) {
    let mut session = Session::new(Box::new(LateDevice::new(late)));
    session.deviate(deviation);
    let base = system.base.changes().unwrap_or_default();
    let changes = patches::changes(base, patches);
    run_steps(&mut session, system, changes, patches, steps).unwrap();
    seen(&session)
}

fn run_steps(
    session: &mut Session,
    system: &System,
    changes: Changes,
    patches: &[&'static Patch],
    steps: u32,
) -> Result<(), RunError> {
    session.install_offloader(OffloadConfig::new(changes))?;
    let mut program = system.spec.build(patches, session)?;
    for _ in 0..steps {
        program.step(session)?;
    }
    Ok(())
}

fn seen(session: &Session) -> (u64, u64) {
    let hardware = session.heap().borrow_mut().device.hardware().unwrap();
    let seen = hardware.unwrap();
    (seen.verified_tensors, seen.corrupted_tensors)
}

/// If nothing races, the simulation counts exactly those tensors as wrong that have other contents.
/// No release changes one: a transposed tensor's copy keeps its strides, and what cannot come back
/// raises (docs/offloader-rules.md, "Copies of views").
#[test]
fn wrong_tensors_without_a_race_are_those_with_other_contents() {
    let mut wrong = Vec::new();
    for system in [
        System::TRANSPOSED_VIEWS,
        System::CHUNK_VIEWS,
        System::REUSE,
        System::VL_QWEN,
    ] {
        for release in Release::ALL {
            let mut session = Session::new(Box::new(LateDevice::new(Late::Side)));
            session.accelerator.watch_races();
            // If a release cannot run the program, the tensors restored before the error count.
            let _ = run_steps(&mut session, system, release.changes(), &[], 2);
            let (verified, corrupted) = seen(&session);
            let watched = session.accelerator.detector().unwrap();
            if watched.races().count() > 0 {
                continue;
            }
            let name = format!("{} {}", system.id, release.label);
            assert!(verified > 0, "{name}");
            assert_eq!(watched.spoilt(), corrupted, "{name}");
            if corrupted > 0 {
                wrong.push((system.id, release.label, corrupted));
            }
        }
    }
    assert_eq!(wrong, []);
}

/// docs/measurements.md, "The 9B program": the shifted labels are read from the clone before it is
/// written.
#[test]
fn the_clone_on_the_side_stream_is_seen_in_the_contents() {
    for system in [System::VL_QWEN, System::TEXT_QWEN] {
        let (verified, corrupted) =
            restored(system, &[Patch::PACK_CONTIGUOUS], 2, Late::Side, None);
        assert!(verified > 30 && corrupted >= 2, "{verified} {corrupted}");
        let clean = [Patch::PACK_CONTIGUOUS, Patch::COMPUTE_STREAM_CLONE];
        for late in [Late::Side, Late::Default] {
            assert_eq!(restored(system, &clean, 2, late, None).1, 0, "{late:?}");
        }
    }
}

/// Before #5694, and with every other patch, even the worst timing changes nothing.
#[test]
fn ordered_offloaders_bring_back_what_was_packed() {
    for patches in [
        &[][..],
        &[Patch::EXIT_SYNC_AND_CLEAR],
        &[Patch::ENTER_RESET],
        &[Patch::RELEASE_DEDUPE_KEY],
        &[Patch::AXOLOTL_BACKPORT],
    ] {
        for late in [Late::Side, Late::Default] {
            let (verified, corrupted) = restored(System::VL_QWEN, patches, 2, late, None);
            assert!(verified > 20, "{verified}");
            assert_eq!(corrupted, 0, "{patches:?} {late:?}");
        }
    }
    let (_, corrupted) = restored(System::REUSE, &[], 3, Late::Side, None);
    assert_eq!(corrupted, 0);
}

/// A pool that all streams share reuses memory without an order; the check must see that.
#[test]
fn a_pool_shared_by_all_streams_corrupts() {
    let broken = Some(Deviation::IgnoreStream);
    assert!(restored(System::VL_QWEN, &[], 2, Late::Default, broken).1 > 0);
}

/// If there is no card, the row has run nothing and says why.
#[test]
fn a_row_without_a_card_says_why_and_invents_nothing() {
    let Err(why) = cuda::probe() else { return };
    let spec = RunSpec {
        device: DeviceKind::Cuda,
        ..RunSpec::new(System::REUSE, &[])
    };
    let row = run(&spec, &mut |_| true);
    assert_eq!(
        (row.steps_run, row.peak_allocated, row.peak_reserved),
        (0, Bytes::ZERO, Bytes::ZERO)
    );
    assert_eq!(row.crash, Some(why.to_string()));
    assert!(row.crash.is_some() && row.card.is_none());
}
