//! Questions about benches whose rows are already in the database.

use super::Server;
use crate::store::AliveTensor;
use crate::store::{BenchEnd, NewBench, NewBenchRow, Writer};
use crate::tensors::{self, TensorTable};
use api::bench::{
    Bench, BenchResult, BenchStatus, BenchStep, DeviceKind, Fault, RowOfRun, TensorChanges, verdict,
};
use api::compare::{Against, Comparison};
use api::compare_view::CompareState;
use api::history::History;
use api::ids::{BenchRowId, RunId};
use api::leaks::Verdict;
use api::problem::ProblemCode;
use api::routes;
use api::runs::{FinishedUpload, RunDetail, RunSummary};
use axum::http::{HeaderValue, Method, StatusCode, header};
use engine::bench::{RunSpec, run_recorded};
use engine::patches::Patch;
use engine::systems::System;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trace::compare::Change;
use trace::compare::gate::Outcome;
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
            note: None,
        };
        writer.finish_bench_row(&row(id), &end, &[], 0).unwrap();
    }
}

/// Puts a bench into the database of which two rows made these runs, and ended so. Each was to do
/// ten steps.
pub(super) async fn benched(server: &Server, ends: [(RunId, BenchResult); 2]) {
    let rows = ["row_first", "row_second"];
    let bench = NewBench {
        id: "ben_2".parse().unwrap(),
        created_ms: 0,
        device: DeviceKind::Sim,
        steps: None,
        capacity: None,
        recorded_steps: 3,
        rows: rows
            .map(|id| NewBenchRow {
                id: row(id),
                config: "te-fused-attention-fp8".to_owned(),
                patches: Vec::new(),
                steps: 10,
            })
            .to_vec(),
    };
    let write = server.app.store.write(move |writer| {
        writer.insert_bench(&bench)?;
        for (id, (run, result)) in rows.into_iter().zip(ends) {
            writer.claim_bench_row(0)?;
            let end = BenchEnd::Done {
                status: verdict(&result, false, None),
                result: Box::new(result),
                base: "v1".to_owned(),
                run: Some(run),
                note: None,
            };
            writer.finish_bench_row(&row(id), &end, &[], 0)?;
        }
        Ok(())
    });
    write.await.unwrap();
}

/// A server with a run that leaks and one in which that is mended, of which two rows of a bench
/// ended so.
async fn ended(ends: [BenchResult; 2]) -> (Server, [RunId; 2]) {
    let server = Server::start().await;
    let mut runs = Vec::new();
    for name in ["off_v1_moe", "off_v3_moe"] {
        let answer = server.json(Method::POST, &routes::sample(name), "").await;
        runs.push(answer.read::<FinishedUpload>().run.id);
    }
    let runs: [RunId; 2] = runs.try_into().unwrap();
    // By their recordings alone, the second is better: tests of comparisons say so.
    let tag = etag(&server, &runs).await;
    let [first, second] = ends;
    benched(
        &server,
        [(runs[0].clone(), first), (runs[1].clone(), second)],
    )
    .await;
    assert_ne!(etag(&server, &runs).await, tag, "the card is another one");
    (server, runs)
}

fn view(runs: &[RunId; 2]) -> String {
    let state = CompareState {
        runs: runs.to_vec(),
        ..CompareState::default()
    };
    state.to_string()
}

/// The tag of a comparison's card.
async fn etag(server: &Server, runs: &[RunId; 2]) -> HeaderValue {
    let path = routes::compare_card(&view(runs), "svg");
    let answer = server.get(&path).await.expect(StatusCode::OK);
    answer.headers[header::ETAG].clone()
}

async fn text(server: &Server, path: &str) -> String {
    let answer = server.get(path).await.expect(StatusCode::OK);
    String::from_utf8(answer.body.to_vec()).unwrap()
}

async fn compared(server: &Server, runs: &[RunId; 2]) -> Against {
    let answer = server.get(&routes::compare(runs)).await;
    let comparison: Comparison = answer.expect(StatusCode::OK).read();
    comparison.against.into_iter().next().unwrap()
}

/// Where data are wrong, memory may look better than ever.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_data_are_told_before_a_better_memory() {
    let wrong = BenchResult {
        corrupted_tensors: 2,
        races: 1,
        ..result(10)
    };
    let (server, runs) = ended([result(10), wrong]).await;
    let told = "2 kernels or copies may have worked on wrong bytes (1 pair of places races)";
    let against = compared(&server, &runs).await;
    let difference = against.difference().unwrap();
    assert_eq!(
        (against.gate.outcome, difference.change),
        (Outcome::Regression, Change::Worse)
    );
    let begin = format!("corrupted data: {told}; the baseline did not, in as many steps");
    assert_eq!(against.gate.reason, begin);
    assert_eq!(Fault::or_regression(&against.gate), "corrupted data");
    let headline = &difference.headline;
    assert!(headline.starts_with(&begin), "{headline}");
    for names in [true, false] {
        let block = text(
            &server,
            &routes::compare_markdown(&view(&runs), None, names),
        )
        .await;
        assert!(block.contains("**Worse**"), "{block}");
        assert!(block.contains(&begin), "{block}");
        let block = routes::card_markdown(&runs[1], "v=5", None, names);
        let block = text(&server, &block).await;
        let first = format!("\n\n**Corrupted data.** {told}.\n\n| |");
        assert!(block.contains(&first), "{block}");
    }
    let card = text(&server, &routes::compare_card(&view(&runs), "svg")).await;
    assert!(
        card.contains("Worse") && card.contains("Corrupted data"),
        "{card}"
    );
    let card = text(&server, &routes::card(&runs[1], "svg")).await;
    assert!(card.contains("Corrupted data"), "{card}");
    let page = text(&server, &format!("/api/runs/{}/explain", runs[1])).await;
    let (_, below) = page.split_once("\n\n").unwrap();
    assert!(below.starts_with("**Corrupted data.** 2 kernels"), "{page}");
    // As a baseline it is no measure for the other one.
    let [base, wrong] = runs;
    let against = compared(&server, &[wrong, base]).await;
    assert_eq!(against.gate.outcome, Outcome::CannotTell);
    let change = against.difference().unwrap().change;
    assert_eq!(change, Change::NotComparable);
    let end = "so its memory is no measure for this run, which corrupted none in its 10 steps";
    assert!(against.gate.reason.contains(end), "{:?}", against.gate);
}

/// Before migration 15, nothing of the host's memory was stored beside the steps.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_result_tells_how_its_steps_grew_and_no_peak_of_the_host() {
    let server = Server::start().await;
    let bench = NewBench {
        id: "ben_3".parse().unwrap(),
        created_ms: 0,
        device: DeviceKind::Sim,
        steps: None,
        capacity: None,
        recorded_steps: 3,
        rows: vec![NewBenchRow {
            id: row("row_old"),
            config: "te-fused-attention-fp8".to_owned(),
            patches: Vec::new(),
            steps: 12,
        }],
    };
    let page = routes::bench(&bench.id);
    let step = |at: u32| BenchStep {
        step: at,
        allocated: Bytes(1),
        peak_allocated: Bytes(1),
        reserved: Bytes(1),
        tracker: 0,
        bwd_stash: 0,
        host_pinned: Bytes(4096 * u64::from(at)),
        seconds: 0.1,
    };
    let steps: Vec<BenchStep> = (0..12).map(step).collect();
    let write = server.app.store.write(move |writer| {
        writer.insert_bench(&bench)?;
        writer.claim_bench_row(0)?;
        let end = BenchEnd::Done {
            status: BenchStatus::Baseline,
            result: Box::new(BenchResult {
                d2h_bytes: Bytes(1),
                host_pinned_peak: None,
                ..result(12)
            }),
            base: "v1".to_owned(),
            run: None,
            note: None,
        };
        writer.finish_bench_row(&row("row_old"), &end, &steps, 0)
    });
    write.await.unwrap();
    let told: Bench = server.get(&page).await.expect(StatusCode::OK).read();
    let told = told.rows[0].result.as_ref().expect("it is done");
    assert_eq!(told.host_pinned_peak, None);
    let growth = told.host_growth_per_step;
    assert!((growth - 4096.0).abs() < 1e-6, "{growth}");
}

/// No recording shows it, so each list of runs does.
#[tokio::test(flavor = "multi_thread")]
async fn lists_say_what_went_wrong_in_a_row() {
    let wrong = BenchResult {
        crash: Some("RuntimeError: setStorage".to_owned()),
        corrupted_tensors: 2,
        ..result(3)
    };
    let (server, [sound, wrong]) = ended([result(10), wrong]).await;
    let both = vec![Fault::Crash, Fault::Corruption];
    let expected = BTreeMap::from([(sound, Vec::new()), (wrong, both)]);
    let listed: Vec<RunSummary> = server.get(routes::RUNS).await.expect(StatusCode::OK).read();
    let listed = listed.into_iter().map(|run| (run.id, run.faults));
    assert_eq!(listed.collect::<BTreeMap<_, _>>(), expected);
    let history: History = server.get(&routes::history(&[])).await.read();
    let told = history.runs.into_iter().map(|run| (run.run, run.faults));
    assert_eq!(told.collect::<BTreeMap<_, _>>(), expected);
}

/// There are no more steps to record, as its page says.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_does_not_advise_to_record_more_of_a_row_that_ended_early() {
    let server = Server::start().await;
    let spec = RunSpec {
        steps: Some(2),
        record_steps: 2,
        ..RunSpec::new(System::TE_ATTENTION, &[])
    };
    let mut file = Vec::new();
    let recording = run_recorded(&spec, &mut |_| true).1;
    recording.write_pickle(&mut file).unwrap();
    let sent = server.put("/api/upload/short.pickle", file).await;
    let short = sent.read::<FinishedUpload>().run.id;
    let sample = routes::sample("streams");
    let sent = server.json(Method::POST, &sample, "");
    let other = sent.await.read::<FinishedUpload>().run.id;
    let listed = async || {
        let listed: Vec<RunSummary> = server.get(routes::RUNS).await.read();
        let found = listed.into_iter().find(|run| run.id == short).unwrap();
        found.leaks.expect("it is judged when it comes")
    };
    let alone = listed().await;
    assert_eq!(alone.verdict, Verdict::CannotTell, "{alone:?}");
    assert!(!alone.reason.starts_with("the run crashed"), "{alone:?}");
    let crashed = BenchResult {
        crash: Some("RuntimeError: setStorage".to_owned()),
        ..result(2)
    };
    benched(&server, [(short.clone(), crashed), (other, result(10))]).await;
    let beside = listed().await;
    let begin = "the run crashed in step 2 (after 2 of 10 steps): there are 2 whole steps";
    assert!(beside.reason.starts_with(begin), "{beside:?}");
}

/// A baseline that raised in its first step needs little, and what it would need is not known.
#[tokio::test(flavor = "multi_thread")]
async fn a_baseline_that_crashed_is_no_measure() {
    let crashed = BenchResult {
        began: Some(true),
        crash: Some("RuntimeError: setStorage".to_owned()),
        ..result(0)
    };
    let (server, runs) = ended([crashed, result(10)]).await;
    let against = compared(&server, &runs).await;
    let difference = against.difference().unwrap();
    assert_eq!(
        (against.gate.outcome, difference.change),
        (Outcome::CannotTell, Change::NotComparable)
    );
    let place = "crashed in step 0 (after none of 10 steps)";
    let end = ", so its memory is no measure for this run, which did not crash in its 10 steps";
    let begin = format!("the baseline {place}: RuntimeError: setStorage{end}");
    let (headline, reason) = (&difference.headline, &against.gate.reason);
    assert!(headline.starts_with(&begin), "{headline}");
    assert!(reason.starts_with(&begin), "{reason}");
    let block = async |names| {
        let path = routes::compare_markdown(&view(&runs), None, names);
        text(&server, &path).await
    };
    let told = block(true).await;
    assert!(
        told.contains("**Cannot tell**") && told.contains(&begin),
        "{told}"
    );
    let private = block(false).await;
    assert!(private.contains(place), "{private}");
    assert!(!private.contains("setStorage"), "{private}");
    let block = async |names| {
        let path = routes::card_markdown(&runs[0], "v=5", None, names);
        text(&server, &path).await
    };
    let said = "**Crashed.** In step 0 (after none of 10 steps)";
    let told = block(true).await;
    assert!(
        told.contains(&format!("{said}: RuntimeError: setStorage.")),
        "{told}"
    );
    let private = block(false).await;
    assert!(private.contains(&format!("{said}.")), "{private}");
    // The other way round, it got past the step.
    let [crashed, base] = runs;
    let against = compared(&server, &[base, crashed]).await;
    assert_eq!(against.gate.outcome, Outcome::Regression);
    let reason = &against.gate.reason;
    assert!(
        reason.contains("the baseline got past that step"),
        "{reason}"
    );
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
        planned: 8,
        device: Some(DeviceKind::Sim),
        status: Some(BenchStatus::Baseline),
        ..RowOfRun::default()
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
