//! What axolotl changed in TRL's offloader, and what the changes did.

use api::bench::{BenchResult, BenchStatus};
use engine::bench::run_matrix;
use engine::device::sim::SimSpec;
use engine::patches::Patch;
use engine::systems::System;

/// Statuses and results of a system's matrix, by patches.
fn matrix(system: &'static System) -> impl Fn(&[&Patch]) -> (BenchStatus, BenchResult) {
    let rows = run_matrix(system, None, SimSpec::default());
    move |patches| {
        let row = rows.iter().find(|row| row.patches == patches);
        let row = row.expect("the matrix has the row");
        (
            row.status,
            row.outcome.clone().expect("its source is public"),
        )
    }
}

/// axolotl b04d0c860 called its own reset strictly worse than TRL 1.5's, and the cause of Xid 43.
/// Neither can be reproduced: the same tensors race with both, nothing grows with either, and
/// axolotl's has no higher peak.
#[test]
fn the_backport_is_not_worse_than_what_it_shadows() {
    let row = matrix(System::AXOLOTL_BNB);
    let (status, upstream) = row(&[]);
    assert_eq!(status, BenchStatus::Corruption);
    let (status, backport) = row(&[Patch::AXOLOTL_BACKPORT]);
    assert_eq!(status, BenchStatus::Corruption);
    let wrong = |run: &BenchResult| (run.races, run.corrupted_tensors);
    assert_eq!(wrong(&upstream), wrong(&backport));
    let growth = |run: &BenchResult| (run.growth_per_step, run.host_growth_per_step);
    assert_eq!(growth(&backport), (0.0, 0.0));
    assert_eq!(backport.allocated_end, upstream.allocated_end);
    assert!(backport.peak_allocated <= upstream.peak_allocated);
    assert!(backport.peak_reserved <= upstream.peak_reserved);

    let (status, _) = row(&[Patch::COMPUTE_STREAM_CLONE]);
    assert_eq!(status, BenchStatus::PreventsCorruption);
    // Here both passes run on the default stream.
    let (status, live) = row(&[Patch::LIVE_STREAM]);
    assert_eq!((status, live), (BenchStatus::Corruption, upstream));
}

/// axolotl 93a94e0d7: on any stream but the default one, restored tensors are read too early.
#[test]
fn the_live_stream_orders_what_another_stream_reads() {
    let row = matrix(System::OWN_STREAM);
    let (status, captured) = row(&[]);
    assert_eq!(status, BenchStatus::Corruption);
    assert!(captured.corrupted_tensors > 0 && captured.races > 0);
    let (status, live) = row(&[Patch::LIVE_STREAM]);
    assert_eq!(status, BenchStatus::PreventsCorruption);
    assert_eq!((live.corrupted_tensors, live.races), (0, 0));
}
