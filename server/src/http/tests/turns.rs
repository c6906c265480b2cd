//! Turns at questions: whoever waits for one holds no memory.

use super::{Answer, Server, request};
use crate::limits::asking::Asker;
use crate::limits::clients::ClientAddress;
use crate::limits::work;
use crate::samples;
use api::contents::Contents;
use api::ids::{JobId, RunId};
use api::jobs::{JobDetail, JobSummary};
use api::routes;
use api::runs::FinishedUpload;
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use futures_util::future::join_all;
use serde_json::json;
use std::time::Duration;
use trace::alive::Dimension;
use trace::device::DeviceIdx;
use trace::ranks::Rank;
use trace::trace::BlockIdx;
use trace::units::EventIdx;

/// Longer than any step here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn sample(server: &Server, name: &str) -> RunId {
    let answer = server.json(Method::POST, &routes::sample(name), "").await;
    answer.read::<FinishedUpload>().run.id
}

/// A job of one rank, once that was looked at.
async fn job(server: &Server) -> JobId {
    let body = json!({ "name": "ddp" }).to_string();
    let made = server.json(Method::POST, routes::JOBS, &body).await;
    let job: JobSummary = made.expect(StatusCode::CREATED).read();
    let rank = routes::upload_into("rank0.pickle", &job.id, Rank(0));
    let sent = server
        .put(&rank, samples::find("off_v1_moe").unwrap().file)
        .await;
    sent.expect(StatusCode::CREATED);
    let looked_at = async {
        let seen = async || server.get(&routes::job(&job.id)).await.read::<JobDetail>();
        while seen().await.waiting > 0 {}
    };
    let looked_at = tokio::time::timeout(PATIENCE, looked_at).await;
    looked_at.expect("the rank is looked at");
    job.id
}

/// A question, and what is sent with it.
type Question = (Method, String, Option<String>);

/// Each kind of question that reads a recording, or the profiles of many.
fn questions([run, other]: &[RunId; 2], level: &str, job: &JobId) -> Vec<Question> {
    let both = [run.clone(), other.clone()];
    let runs = format!("runs={run},{other}");
    let (block, event) = (BlockIdx(0), EventIdx(0));
    let cut = |path| routes::with_steps(path, Some(level));
    let asked = [
        routes::growth(run, DeviceIdx(0), Dimension::Site),
        routes::alive(run, DeviceIdx(0), event, Dimension::Site),
        routes::memory_map(run, DeviceIdx(0), event),
        routes::room_over_time(run, DeviceIdx(0)),
        routes::beside(run, DeviceIdx(0), block),
        cut(routes::marks(run, DeviceIdx(0))),
        cut(routes::block(run, DeviceIdx(0), block)),
        cut(routes::moment(run, DeviceIdx(0), event)),
        cut(routes::leaks(run, DeviceIdx(0))),
        routes::compare(&both),
        format!("/api/compare/curves?{runs}"),
        routes::compare_markdown(&runs, None, true),
        routes::job(job),
        routes::job_sites(job, 0, 9),
        routes::job_curve(job, Rank(0)),
        routes::redaction_preview(run),
    ];
    let tool = |name: &str, arguments| {
        let call = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": name, "arguments": arguments },
        });
        (Method::POST, routes::MCP.to_owned(), Some(call.to_string()))
    };
    let rules = json!({ "rules": "" }).to_string();
    let sent = [
        (
            Method::POST,
            format!("/api/runs/{run}/categories"),
            Some(rules),
        ),
        tool("inspect", json!({ "recording": run })),
        tool("compare", json!({ "base": run, "new": other })),
    ];
    let asked = asked.map(|path| (Method::GET, path, None));
    asked.into_iter().chain(sent).collect()
}

async fn ask(server: &Server, (method, path, body): Question) -> Answer {
    let request = request(method, &path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream");
    let body = body.map_or_else(Body::empty, Body::from);
    server.send(request.body(body).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_question_takes_memory_before_its_turn() {
    let server = Server::start().await;
    let runs = [
        sample(&server, "leak_hook_cache").await,
        sample(&server, "plain_lm").await,
    ];
    let contents: Contents = server
        .get(&routes::contents(&runs[0], DeviceIdx(0)))
        .await
        .read();
    let level = &contents.levels[0].key;
    let job = job(&server).await;
    let app = &server.app;
    let turns = (0..work::cores()).map(|_| app.asking.turn(Asker::Team, ClientAddress::HERE));
    let turns = join_all(turns).await;
    app.pictures.traces.forget_all();
    let before = app.budget.in_use();
    let mut waiting = Vec::new();
    for question in questions(&runs, level, &job) {
        let shown = format!("{question:?}");
        let mut asked = Box::pin(ask(&server, question));
        let waits = async {
            while app.asking.queue().waiting <= waiting.len() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            answer = &mut asked => panic!("{shown} needed no turn: {}", answer.status),
            waits = tokio::time::timeout(PATIENCE, waits) => waits.expect(&shown),
        }
        assert!(app.budget.in_use() <= before, "{shown} took memory");
        waiting.push(asked);
    }
    drop(turns);
    for answer in join_all(waiting).await {
        answer.expect(StatusCode::OK);
    }
}
