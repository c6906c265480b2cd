//! The queue, with a test in place of its loop.

use super::*;
use crate::app::App;
use crate::config::Config;
use crate::limits::turns::Turn;
use api::bench::{BenchResult, BenchStatus};
use serde_json::json;
use std::path::Path;
use trace::units::Bytes;

/// A server with one row that has just been taken up, by the test in place of the queue.
async fn taken_up(folder: &Path) -> (Arc<App>, Turn, BenchJob, CancellationToken) {
    taken_up_to_run(folder, BenchSettings::default()).await
}

/// The same, where rows are run so.
async fn taken_up_to_run(
    folder: &Path,
    settings: BenchSettings,
) -> (Arc<App>, Turn, BenchJob, CancellationToken) {
    let mut config = Config::new(folder.join("data"));
    config.bench = settings;
    let app = App::open(config).await.unwrap();
    let turn = app.benches.turn().take().await;
    let request = json!({
        "device": "sim", "rows": [{ "config": "te-fused-attention-fp8", "patches": [] }],
    });
    let request = serde_json::from_value(request).unwrap();
    app.benches.start(&request).await.unwrap();
    let (job, cancel) = app.benches.take_up().await.unwrap().unwrap();
    (app, turn, job, cancel)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_just_taken_up_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _turn, job, cancel) = taken_up(folder.path()).await;
    app.benches.cancel_row(job.row.clone()).await.unwrap();
    assert!(cancel.is_cancelled());
}

/// What lists of runs say of a row goes with its result, and with its bench.
#[tokio::test(flavor = "multi_thread")]
async fn lists_of_runs_are_told_when_a_row_is_run_again_or_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _turn, job, _) = taken_up(folder.path()).await;
    let benches = &app.benches;
    let end = (BenchEnd::Cancelled, Vec::new());
    benches.keep_end(&job, end).await;
    let mut told = app.events.subscribe();
    let mut times_told = || {
        let events = std::iter::from_fn(|| told.try_recv().ok());
        let of_runs = events.filter(|event| matches!(event, ServerEvent::RunsChanged));
        of_runs.count()
    };
    benches.rerun(job.row.clone()).await.unwrap();
    assert_eq!(times_told(), 1);
    benches.cancel(&job.bench).await.unwrap();
    assert_eq!(times_told(), 0);
    benches.delete(&job.bench).await.unwrap();
    assert_eq!(times_told(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_row_is_written_down_once_the_database_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _turn, job, _) = taken_up(folder.path()).await;
    let store = &app.store;
    store.write(|writer| writer.end_no_rows()).await.unwrap();
    let keeping = app
        .benches
        .keep_end(&job, (BenchEnd::Cancelled, Vec::new()));
    let again = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        store.write(|writer| writer.end_rows_again()).await.unwrap();
    };
    tokio::join!(keeping, again);
    let bench = app.benches.bench(&job.bench).await.unwrap();
    assert_eq!(bench.rows[0].state, BenchRowState::Cancelled);
}

fn step(at: u32) -> BenchStep {
    BenchStep {
        step: at,
        allocated: Bytes(10),
        peak_allocated: Bytes(20),
        reserved: Bytes(30),
        tracker: 0,
        bwd_stash: 0,
        host_pinned: Bytes(0),
        seconds: 0.1,
    }
}

fn done() -> BenchEnd {
    let result = BenchResult {
        device: "sim".to_owned(),
        steps_run: 1,
        peak_allocated: Bytes(20),
        ..BenchResult::default()
    };
    BenchEnd::Done {
        status: BenchStatus::Baseline,
        result: Box::new(result),
        base: "v1".to_owned(),
        run: None,
        note: None,
    }
}

/// Two steps with one number cannot be stored, today or tomorrow.
#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_be_stored_is_left_out_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _turn, job, _) = taken_up(folder.path()).await;
    let ended = (done(), vec![step(0), step(0)]);
    app.benches.keep_end(&job, ended).await;
    let bench = app.benches.bench(&job.bench).await.unwrap();
    let row = &bench.rows[0];
    assert_eq!(row.state, BenchRowState::Done);
    let result = row.result.as_ref().expect("its numbers stay");
    assert_eq!(result.peak_allocated, Bytes(20));
    let note = row.note.as_deref().unwrap_or_default();
    assert!(
        note.starts_with("its steps are missing") && note.contains("UNIQUE"),
        "{note}"
    );
    assert!(app.benches.steps(job.row).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_written_down_is_told_as_failed_until_it_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _turn, job, _) = taken_up(folder.path()).await;
    let (store, benches) = (&app.store, &app.benches);
    store.write(|writer| writer.end_no_rows()).await.unwrap();
    benches.moved_on(&step(0));
    let keeping = benches.keep_end(&job, (done(), vec![step(0)]));
    let asking = async {
        let failed = loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let bench = benches.bench(&job.bench).await.unwrap();
            if let BenchRowState::Failed { reason } = &bench.rows[0].state {
                break reason.clone();
            }
        };
        assert!(failed.contains("the disk is full"), "{failed}");
        let listed = benches
            .list(Slice {
                offset: 0,
                limit: 9,
            })
            .await
            .unwrap();
        assert_eq!((listed[0].rows.running, listed[0].rows.failed), (0, 1));
        assert_eq!(benches.steps(job.row.clone()).await.unwrap(), [step(0)]);
        store.write(|writer| writer.end_rows_again()).await.unwrap();
    };
    let both = async { tokio::join!(keeping, asking) };
    let in_time = tokio::time::timeout(Duration::from_secs(60), both).await;
    in_time.expect("it ends");
    let bench = benches.bench(&job.bench).await.unwrap();
    assert_eq!(bench.rows[0].state, BenchRowState::Done);
    assert!(bench.rows[0].result.is_some() && bench.rows[0].note.is_none());
    assert_eq!(benches.steps(job.row.clone()).await.unwrap(), [step(0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_are_told_while_a_row_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _turn, job, _) = taken_up(folder.path()).await;
    let steps = async || app.benches.steps(job.row.clone()).await.unwrap();
    assert_eq!(steps().await, []);
    for at in [0, 1] {
        app.benches.moved_on(&step(at));
    }
    assert_eq!(steps().await, [step(0), step(1)]);
    let ended = (BenchEnd::Cancelled, vec![step(0), step(1), step(2)]);
    app.benches.keep_end(&job, ended).await;
    assert_eq!(steps().await, [step(0), step(1), step(2)]);
}

/// A child that tells its numbers and leaves no recording.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_stay_where_the_recording_cannot_be_stored() {
    let folder = tempfile::tempdir().unwrap();
    let BenchEnd::Done { result, base, .. } = done() else {
        unreachable!("it is done");
    };
    let line = json!({ "said": "done", "base": base, "result": result });
    let program = folder.path().join("row");
    // A shell writes it: a file that this process has open for writing cannot be run.
    let write =
        "printf '#!/bin/sh\nread spec\necho '\\''%s'\\''\n' \"$1\" >\"$0\"; chmod +x \"$0\"";
    let mut shell = std::process::Command::new("sh");
    let written = shell.args(["-c", write]).arg(&program);
    let written = written.arg(line.to_string()).status();
    assert!(written.unwrap().success());
    let settings = BenchSettings {
        program: Some(program),
        ..BenchSettings::default()
    };
    let (app, _turn, job, cancel) = taken_up_to_run(folder.path(), settings).await;
    let ended = app.benches.run(&job, &cancel).await;
    app.benches.keep_end(&job, ended).await;
    let bench = app.benches.bench(&job.bench).await.unwrap();
    let row = &bench.rows[0];
    assert_eq!(row.state, BenchRowState::Done);
    let result = row.result.as_ref().expect("its numbers stay");
    assert_eq!((result.peak_allocated, &row.run), (Bytes(20), &None));
    let note = row.note.as_deref().unwrap_or_default();
    assert!(note.starts_with("its recording is missing"), "{note}");
    // Run again, it has everything to say anew.
    app.benches.rerun(job.row).await.unwrap();
    let bench = app.benches.bench(&job.bench).await.unwrap();
    assert_eq!(bench.rows[0].note, None);
}
