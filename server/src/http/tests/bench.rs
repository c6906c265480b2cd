//! Questions about benches whose rows are already in the database.

use super::Server;
use crate::store::AliveTensor;
use crate::store::{BenchEnd, NewBench, NewBenchRow, Writer};
use crate::tensors::{self, TensorTable};
use api::bench::{Bench, BenchResult, BenchStatus, DeviceKind, TensorChanges};
use api::ids::{BenchRowId, RunId};
use api::problem::ProblemCode;
use api::routes;
use api::runs::{FinishedUpload, RowOfRun, RunDetail};
use axum::http::{Method, StatusCode};
use engine::bench::{RunSpec, run_recorded};
use engine::patches::Patch;
use engine::systems::System;
use serde_json::{Value, json};
use trace::units::Bytes;

const ROWS: [&str; 3] = ["row_base", "row_fixed", "row_lost"];
const BEGAN: [Option<bool>; 3] = [None, Some(true), Some(false)];

fn row(id: &str) -> BenchRowId {
    id.parse().unwrap()
}

/// The tensors that the engine leaves alive after three steps.
fn alive(patches: &[&'static Patch]) -> Vec<AliveTensor> {
    let spec = RunSpec {
        steps: Some(3),
        record_steps: 3,
        ..RunSpec::new(System::TE_ATTENTION, patches)
    };
    let recording = run_recorded(&spec, &mut |_| true).1;
    TensorTable::of(recording.tensors()).alive().collect()
}

fn result(steps: u32) -> BenchResult {
    let mut result = json!({
        "device": "sim", "steps_run": steps, "growth_per_step": 1e3,
        "growth_error": 0.0, "step_seconds": 0.1, "oom_step": null, "crash": null,
    });
    for number in [
        "peak_allocated",
        "peak_reserved",
        "allocated_end",
        "corrupted_tensors",
        "races",
        "tracker_end",
        "bwd_stash_end",
        "host_pinned_end",
        "host_pinned_peak",
        "d2h_bytes",
        "h2d_bytes",
    ] {
        result[number] = Value::from(0);
    }
    serde_json::from_value(result).unwrap()
}

/// Puts a bench of three finished rows into the database; the last one has no recording.
fn insert(writer: &mut Writer, runs: &[RunId; 2], alive: &[Vec<AliveTensor>; 2]) {
    let rows = ROWS.map(|id| NewBenchRow {
        id: row(id),
        config: "te-fused-attention-fp8".to_owned(),
        patches: Vec::new(),
        steps: 8,
    });
    let bench = NewBench {
        id: "ben_1".parse().unwrap(),
        created_ms: 0,
        device: DeviceKind::Sim,
        steps: None,
        capacity: None,
        recorded_steps: 3,
        rows: rows.to_vec(),
    };
    writer.insert_bench(&bench).unwrap();
    for (at, id) in ROWS.into_iter().enumerate() {
        writer.claim_bench_row(0).unwrap();
        let run = runs.get(at).cloned();
        if let Some(run) = &run {
            let version = tensors::VERSION;
            writer.set_tensors(run, version, &[], &alive[at]).unwrap();
        }
        let end = BenchEnd::Done {
            status: BenchStatus::Baseline,
            result: Box::new(BenchResult {
                began: BEGAN[at],
                ..result([8, 2, 2][at])
            }),
            base: "v1".to_owned(),
            run,
        };
        writer.finish_bench_row(&row(id), &end, &[], 0).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_tells_what_its_row_came_to() {
    let server = Server::start().await;
    let sample = async |name| {
        let answer = server.json(Method::POST, &routes::sample(name), "").await;
        answer.read::<FinishedUpload>().run.id
    };
    let runs = [sample("plain_lm").await, sample("streams").await];
    let row_of = async |run: &RunId| {
        let detail: RunDetail = server.get(&routes::run(run)).await.read();
        detail.bench_row
    };
    assert_eq!(row_of(&runs[0]).await, None, "nobody benched it");
    let kept = runs.clone();
    let write = server.app.store.write(move |writer| {
        insert(writer, &kept, &[Vec::new(), Vec::new()]);
        Ok(())
    });
    write.await.unwrap();
    let expected = RowOfRun {
        steps: 8,
        growth_per_step: 1_000,
    };
    assert_eq!(row_of(&runs[0]).await, Some(expected));

    let bench: Bench = server
        .get(&routes::bench(&"ben_1".parse().unwrap()))
        .await
        .read();
    let began = bench
        .rows
        .iter()
        .map(|row| row.result.as_ref().unwrap().began);
    assert_eq!(began.collect::<Vec<_>>(), BEGAN, "as the engine said it");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tensors_behind_a_patch_are_listed() {
    let server = Server::start().await;
    let sample = async |name| {
        let answer = server.json(Method::POST, &routes::sample(name), "").await;
        answer.read::<FinishedUpload>().run.id
    };
    let runs = [sample("plain_lm").await, sample("streams").await];
    let alive = [alive(&[]), alive(&[Patch::CLEAR_CTX_TENSORS])];
    let bytes = alive
        .each_ref()
        .map(|alive| alive.iter().map(|tensor| tensor.bytes).sum::<Bytes>());
    let write = server.app.store.write(move |writer| {
        insert(writer, &runs, &alive);
        Ok(())
    });
    write.await.unwrap();

    let ask = async |after, before| {
        let path = routes::bench_row_tensors(&row(after), &row(before));
        server.get(&path).await
    };
    let found = ask("row_fixed", "row_base").await.expect(StatusCode::OK);
    let found: TensorChanges = found.read();
    assert_eq!((found.steps_before, found.steps_after), (3, 2));
    assert!(
        !found.changes.is_empty() && found.left_out == 0,
        "{found:?}"
    );
    let gone: i64 = found
        .changes
        .iter()
        .map(|change| change.bytes_before.0 as i64 - change.bytes_after.0 as i64)
        .sum();
    assert_eq!(
        gone,
        bytes[0].0 as i64 - bytes[1].0 as i64,
        "all of it is listed"
    );
    let first = &found.changes[0];
    assert!(first.count_before > first.count_after, "{first:?}");
    assert!(
        !first.shape.is_empty() && !first.owner.contains('['),
        "{first:?}"
    );
    let same: TensorChanges = ask("row_base", "row_base").await.read();
    assert!(same.changes.is_empty());
    for (after, before) in [
        ("row_lost", "row_base"),
        ("row_base", "row_lost"),
        ("row_base", "row_nowhere"),
        ("row_nowhere", "row_base"),
    ] {
        let problem = ask(after, before).await.problem();
        assert_eq!(problem.code, ProblemCode::NotFound, "{after} {before}");
    }
}
