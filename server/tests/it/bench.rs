//! Benches in real child processes: the results of rows that succeed, and of rows that fail.

use api::bench::{
    Bench, BenchChoice, BenchRow, BenchRowState, BenchStatus, DeviceKind, StartBench,
};
use api::ids::BenchId;
use api::progress::ServerEvent;
use api::runs::RunSource;
use service::app::App;
use service::bench::{BenchSettings, Fault};
use service::config::Config;
use service::store::Slice;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace::units::Bytes;

const SMALL: &str = "dedupe-reuse";
const OTHER: &str = "te-fused-attention-fp8";

async fn open(folder: &Path, change: impl FnOnce(&mut BenchSettings)) -> Arc<App> {
    let mut config = Config::new(folder.join("data"));
    config.bench.program = Some(env!("CARGO_BIN_EXE_tidemark").into());
    change(&mut config.bench);
    App::open(config).await.unwrap()
}

fn request(rows: &[(&str, &[&str])]) -> StartBench {
    let choice = |&(config, patches): &(&str, &[&str])| BenchChoice {
        config: config.to_owned(),
        patches: patches.iter().map(|&id| id.to_owned()).collect(),
    };
    StartBench {
        rows: rows.iter().map(choice).collect(),
        device: DeviceKind::Sim,
        steps: Some(8),
        capacity: None,
        recorded_steps: Some(3),
    }
}

async fn wait_for(app: &App, id: &BenchId, what: &str, holds: impl Fn(&Bench) -> bool) -> Bench {
    let began = Instant::now();
    loop {
        let bench = app.benches.bench(id).await.unwrap();
        if holds(&bench) {
            return bench;
        }
        let states: Vec<_> = bench.rows.iter().map(|row| &row.state).collect();
        let waited = began.elapsed() < Duration::from_secs(90);
        assert!(waited, "waited in vain until {what}: {states:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn is_finished(row: &BenchRow) -> bool {
    !matches!(
        row.state,
        BenchRowState::Queued { .. } | BenchRowState::Running { .. }
    )
}

async fn finished(app: &App, id: &BenchId) -> Bench {
    let all = |bench: &Bench| bench.rows.iter().all(is_finished);
    wait_for(app, id, "every row is finished", all).await
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_become_results_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let app = open(folder.path(), |_| {}).await;
    let mut events = app.events.subscribe();
    let asked = request(&[(SMALL, &["release-dedupe-key"])]);
    let started = app.benches.start(&asked).await.unwrap();
    assert_eq!(started.rows.len(), 2, "the baseline runs in any case");
    let bench = finished(&app, &started.id).await;
    let [baseline, patched] = &bench.rows[..] else {
        panic!("{bench:?}");
    };
    let (base, fixed) = (
        baseline.result.as_ref().unwrap(),
        patched.result.as_ref().unwrap(),
    );
    assert_eq!(baseline.status, Some(BenchStatus::Baseline));
    assert_eq!((base.steps_run, base.device.as_str()), (8, "sim"));
    assert!(
        fixed.peak_allocated < base.peak_allocated,
        "the patch helps"
    );
    assert_ne!(patched.status, Some(BenchStatus::Baseline));
    assert_eq!(baseline.spark.len(), 8);
    let steps = app.benches.steps(baseline.id.clone()).await.unwrap();
    assert_eq!(steps.len(), 8, "every step is a row");
    assert_eq!(steps.last().unwrap().allocated, base.allocated_end);

    let runs = app
        .store
        .read(|reader| reader.runs(service::store::Which::Live, &[], Slice::ALL));
    let runs = runs.await.unwrap();
    assert_eq!(runs.len(), 2);
    for (row, name) in [(baseline, "baseline"), (patched, "release-dedupe-key")] {
        let run = runs.iter().find(|run| Some(&run.id) == row.run.as_ref());
        let run = run.unwrap_or_else(|| panic!("{row:?}"));
        assert_eq!(run.name, format!("{SMALL} · {name}"));
        assert_eq!(run.source, RunSource::Engine);
        assert_eq!(run.devices[0].steps, 3, "as many as were to be recorded");
    }
    let tensors = app
        .tensors
        .get(baseline.run.as_ref().unwrap())
        .await
        .unwrap();
    let kept = tensors
        .expect("the engine knows its tensors")
        .alive()
        .count();
    assert!(kept > 0, "something is alive at the end");
    let behind = app
        .benches
        .tensors_between(baseline.id.clone(), patched.id.clone());
    let behind = behind.await.unwrap();
    assert_eq!((behind.steps_before, behind.steps_after), (3, 3));
    assert!(behind.changes.is_empty(), "it lowers the peak: {behind:?}");
    let mut progress = 0;
    while let Ok(event) = events.try_recv() {
        progress += usize::from(matches!(event, ServerEvent::BenchProgress { .. }));
    }
    assert!(progress >= 2, "each row says how far it is");
    let left = std::fs::read_dir(folder.path().join("data/bench")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "recordings do not pile up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_process_dies_fails_and_the_next_one_runs() {
    let check = async |fault: Fault, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let app = open(folder.path(), |settings| {
            settings.faults = vec![(SMALL.to_owned(), fault.clone())];
            settings.memory = Bytes::mib(400);
            // Long enough for a row that ends by itself, however busy the machine is.
            settings.time = Duration::from_secs(match fault {
                Fault::Hang { .. } => 3,
                _ => 60,
            });
        });
        let app = app.await;
        let asked = request(&[(SMALL, &[]), (OTHER, &[])]);
        let started = app.benches.start(&asked).await.unwrap();
        let bench = finished(&app, &started.id).await;
        match &bench.rows[0].state {
            BenchRowState::Failed { reason } => {
                assert!(reason.contains(expected), "{fault:?}: {reason}");
            }
            other => panic!("{fault:?}: {other:?}"),
        }
        assert_eq!(bench.rows[0].run, None);
        assert_eq!(bench.rows[1].state, BenchRowState::Done, "{fault:?}");
        let steps = app.benches.steps(bench.rows[0].id.clone()).await.unwrap();
        assert!(!steps.is_empty(), "what was done is kept");
    };
    check(Fault::Panic { step: 1 }, "a fault was injected").await;
    check(Fault::Abort { step: 1 }, "crashed (aborted, signal 6)").await;
    check(Fault::Devour { step: 1 }, "took more than 400 MiB").await;
    check(Fault::Hang { step: 1 }, "took longer than 3 s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_out_of_device_memory_is_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let app = open(folder.path(), |_| {}).await;
    let asked = StartBench {
        capacity: Some(Bytes::mib(64)),
        ..request(&[(SMALL, &[])])
    };
    let started = app.benches.start(&asked).await.unwrap();
    let bench = finished(&app, &started.id).await;
    let result = bench.rows[0].result.as_ref().unwrap();
    assert_eq!(bench.rows[0].status, Some(BenchStatus::OutOfMemory));
    assert_eq!(result.oom_step, Some(0));
    assert!(
        bench.rows[0].run.is_some(),
        "what led there can be looked at"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_cancelled_and_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let app = open(folder.path(), |settings| {
        settings.faults = vec![(SMALL.to_owned(), Fault::Slow { by_ms: 500 })];
    });
    let app = app.await;
    let started = app
        .benches
        .start(&request(&[(SMALL, &[]), (OTHER, &[])]))
        .await
        .unwrap();
    let under_way = |bench: &Bench| {
        let states = (&bench.rows[0].state, &bench.rows[1].state);
        matches!(states, (BenchRowState::Running { progress }, BenchRowState::Queued { ahead: 1 })
                 if progress.step > 0)
    };
    let bench = wait_for(&app, &started.id, "the first row is under way", under_way).await;
    assert!(app.benches.delete(&bench.id).await.is_err(), "it is busy");
    let (first, second) = (bench.rows[0].id.clone(), bench.rows[1].id.clone());
    app.benches.cancel_row(second.clone()).await.unwrap();
    app.benches.cancel_row(first.clone()).await.unwrap();
    let bench = finished(&app, &started.id).await;
    for row in &bench.rows {
        assert_eq!(row.state, BenchRowState::Cancelled);
    }
    let again = app.benches.cancel_row(first).await;
    assert!(again.is_err(), "it is finished");
    app.benches.rerun(second).await.unwrap();
    let bench = finished(&app, &started.id).await;
    assert_eq!(bench.rows[1].state, BenchRowState::Done);
    app.benches.delete(&bench.id).await.unwrap();
    assert!(app.benches.list(Slice::ALL).await.unwrap().is_empty());
    let runs = app
        .store
        .read(|reader| reader.runs(service::store::Which::Live, &[], Slice::ALL));
    assert_eq!(runs.await.unwrap().len(), 1, "runs outlive their bench");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_card_the_reason_is_told_and_a_bench_on_it_refused() {
    let folder = tempfile::tempdir().unwrap();
    let app = open(folder.path(), |_| {}).await;
    let devices = app.benches.catalog().await.devices;
    let find = |kind| devices.iter().find(|device| device.kind == kind).unwrap();
    assert_eq!(find(DeviceKind::Sim).unavailable, None);
    let Some(why) = &find(DeviceKind::Cuda).unavailable else {
        // This machine has a GPU: another test covers its rows.
        return;
    };
    assert!(why.len() > 10, "{why}");
    let asked = StartBench {
        device: DeviceKind::Cuda,
        ..request(&[(SMALL, &[])])
    };
    let refused = app.benches.start(&asked).await.unwrap_err().to_string();
    assert!(refused.contains(why.as_str()), "{refused}");
}
