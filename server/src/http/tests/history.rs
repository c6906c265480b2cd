//! Histories: which runs they are of, and their parts.

use super::Server;
use super::jobs::{job, recorded, send};
use super::trends::label;
use api::history::History;
use api::ids::RunId;
use api::labels::Label;
use api::problem::ProblemCode;
use api::routes;
use api::runs::FinishedUpload;
use axum::http::StatusCode;
use std::collections::BTreeSet;

/// The history of a label is that of all jobs of which a rank has it: what a job is measured by
/// does not depend on which rank that is.
#[tokio::test(flavor = "multi_thread")]
async fn a_label_of_one_rank_is_of_the_whole_job() {
    let server = Server::start().await;
    let [dev, other] = [job(&server, "dev").await, job(&server, "other").await];
    let low = send(&server, &dev, 0, recorded(0, 4)).await.id;
    let high = send(&server, &dev, 1, recorded(1, 9)).await.id;
    send(&server, &other, 0, recorded(2, 7)).await;
    label(&server, &low, "branch", "dev").await;
    for rank in [&low, &high] {
        label(&server, rank, "team", "vision").await;
    }
    let wanted = [Label::new("branch", "dev").unwrap()];
    let history: History = server.get(&routes::history(&wanted)).await.read();
    let shown = history.runs.iter().map(|run| (&run.run, run.name.as_str()));
    assert_eq!(shown.collect::<Vec<_>>(), [(&high, "dev, rank 1")]);
    assert_eq!((history.total, history.older), (1, None));
    // A job counts once, however many of its ranks have a label.
    let read = server.app.store.read(|reader| reader.history_labels(&[]));
    let counted = read.await.unwrap().into_iter();
    let counted: Vec<String> = counted.map(|(label, n)| format!("{label}: {n}")).collect();
    assert_eq!(counted, ["branch=dev: 1", "team=vision: 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_parts_of_a_history_are_all_of_it() {
    let server = Server::start().await;
    let mut expected = BTreeSet::new();
    for at in 0..5 {
        let route = routes::upload_named(&format!("{at}.json"));
        let sent = server.put(&route, recorded(at, 4)).await;
        expected.insert(sent.read::<FinishedUpload>().run.id);
    }
    let pair = job(&server, "pair").await;
    send(&server, &pair, 0, recorded(10, 4)).await;
    expected.insert(send(&server, &pair, 1, recorded(11, 6)).await.id);
    let read = server.app.store.read(|reader| reader.history_length(&[]));
    assert_eq!(read.await.unwrap(), 6);
    let (mut seen, mut parts, mut before) = (BTreeSet::new(), 0, None::<RunId>);
    loop {
        let asked = before.clone();
        let read = server
            .app
            .store
            .read(move |reader| reader.history(&[], asked.as_ref(), 3));
        let part = read.await.unwrap();
        let runs: BTreeSet<RunId> = part.runs.into_iter().map(|run| run.id).collect();
        let shared = runs.intersection(&seen).count();
        assert_eq!(shared, parts.min(1), "two parts have a run in common");
        seen.extend(runs);
        parts += 1;
        match part.older {
            Some(run) => before = Some(run),
            None => break,
        }
    }
    assert_eq!((seen, parts), (expected, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn older_runs_are_those_before_a_run() {
    let server = Server::start().await;
    for at in 0..3 {
        let route = routes::upload_named(&format!("{at}.json"));
        let sent = server.put(&route, recorded(at, 4)).await;
        let run = sent.read::<FinishedUpload>().run.id;
        label(&server, &run, "branch", "main").await;
    }
    let main = [Label::new("branch", "main").unwrap()];
    let (api, page) = (routes::history(&main), routes::history_page(&main));
    let newest: History = server.get(&api).await.read();
    assert_eq!(
        (newest.runs.len(), newest.total, newest.older),
        (3, 3, None)
    );
    let [oldest, middle] = [0, 1].map(|at: usize| newest.runs[at].run.clone());
    let older: History = server.get(&routes::before(&api, &middle)).await.read();
    let shown: Vec<&RunId> = older.runs.iter().map(|run| &run.run).collect();
    assert_eq!((shown, older.total, older.older), (vec![&oldest], 3, None));
    let text = async |path: &str| {
        let answer = server.get(path).await.expect(StatusCode::OK);
        String::from_utf8(answer.body.to_vec()).unwrap()
    };
    assert!(!text(&page).await.contains("Parts of the history"));
    let shown = text(&routes::before(&page, &middle)).await;
    let says = shown.contains("Older runs: 1 of 3.") && shown.contains("branch=main ×");
    assert!(says && shown.contains(">Newest<"), "{shown}");
    let none = text(&routes::before(&page, &oldest)).await;
    assert!(none.contains("There are no older runs."), "{none}");
    let missing = "run_0000000000000000".parse().unwrap();
    let refused = server.get(&routes::before(&api, &missing)).await.problem();
    assert_eq!(refused.code, ProblemCode::NotFound);
    let twice = routes::before(&routes::before(&api, &middle), &oldest);
    let refused = server.get(&twice).await.problem();
    assert_eq!(refused.code, ProblemCode::BadRequest);
}
