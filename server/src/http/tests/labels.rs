//! Labels: adding, changing and removing them, and listing by them.

use super::jobs::{job, recorded, send};
use super::{Server, request, snapshot};
use api::history::History;
use api::jobs::JobSummary;
use api::labels::{ChangeLabels, Label, Labels, MOST};
use api::problem::ProblemCode;
use api::routes;
use api::runs::{FinishedUpload, RunDetail, RunSummary};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use std::collections::BTreeMap;

/// Three runs that differ by one byte after the snapshot's end.
async fn runs(server: &Server) -> Vec<RunSummary> {
    let mut runs = Vec::new();
    for at in 0..3_u8 {
        let mut file = snapshot();
        file.push(at);
        let sent = server
            .put(&routes::upload_named(&format!("{at}.pickle")), file)
            .await;
        runs.push(
            sent.expect(StatusCode::CREATED)
                .read::<FinishedUpload>()
                .run,
        );
    }
    runs
}

fn change(labels: &[(&str, Option<&str>)]) -> String {
    let labels = labels
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.map(str::to_owned)));
    let labels: BTreeMap<_, _> = labels.collect();
    serde_json::to_string(&ChangeLabels { labels }).unwrap()
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
    pairs.iter().map(owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_put_on_changed_and_taken_off() {
    let server = Server::start().await;
    let run = runs(&server).await.remove(0);
    assert_eq!(run.labels, labels(&[]));
    let check = async |asked: &[(&str, Option<&str>)], expected: &[(&str, &str)]| {
        let path = routes::run_labels(&run.id);
        let answer = server.json(Method::PATCH, &path, &change(asked)).await;
        let changed: RunSummary = answer.expect(StatusCode::OK).read();
        assert_eq!(changed.labels, labels(expected));
        let detail: RunDetail = server.get(&routes::run(&run.id)).await.read();
        assert_eq!(detail.summary, changed);
    };
    let main = ("branch", "main");
    check(
        &[("branch", Some("main")), ("commit", Some("1f"))],
        &[main, ("commit", "1f")],
    )
    .await;
    check(&[("commit", Some(" 2a "))], &[main, ("commit", "2a")]).await;
    check(&[("commit", None), ("gone", None)], &[main]).await;
    check(&[], &[main]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_label_changes_nothing() {
    let server = Server::start().await;
    let run = runs(&server).await.remove(0);
    let path = routes::run_labels(&run.id);
    let many: Vec<String> = (0..MOST).map(|n| format!("k{n}")).collect();
    let many: Vec<(&str, Option<&str>)> =
        many.iter().map(|key| (key.as_str(), Some("v"))).collect();
    let answer = server.json(Method::PATCH, &path, &change(&many)).await;
    let full: RunSummary = answer.expect(StatusCode::OK).read();
    for (asked, status, code) in [
        (
            change(&[("one more", Some("v"))]),
            400,
            ProblemCode::BadRequest,
        ),
        (change(&[("k1", Some(""))]), 400, ProblemCode::BadRequest),
        (
            change(&[("k1", Some("a\u{202e}b"))]),
            400,
            ProblemCode::BadRequest,
        ),
        (
            change(&[("another", Some("v"))]),
            409,
            ProblemCode::Conflict,
        ),
        (
            r#"{"labels":{"k1":7}}"#.to_owned(),
            422,
            ProblemCode::BadRequest,
        ),
    ] {
        let problem = server.json(Method::PATCH, &path, &asked).await.problem();
        assert_eq!((problem.status, problem.code), (status, code), "{asked}");
    }
    let detail: RunDetail = server.get(&routes::run(&run.id)).await.read();
    assert_eq!(detail.summary, full);
    server.json(Method::DELETE, &routes::run(&run.id), "").await;
    let gone = server
        .json(Method::PATCH, &path, &change(&[("k1", None)]))
        .await;
    assert_eq!(gone.problem().status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_ranks_of_a_job_are_labelled_at_once_or_none() {
    let server = Server::start().await;
    let wide = job(&server, "wide").await;
    let path = routes::job_labels(&wide.id);
    let set = async |asked: &[(&str, Option<&str>)]| {
        server.json(Method::PATCH, &path, &change(asked)).await
    };
    let pinned = [("pinned", Some("yes"))];
    // Without ranks there is nothing to label.
    let problem = set(&pinned).await.problem();
    assert_eq!(problem.code, ProblemCode::Conflict);
    let mut runs = Vec::new();
    for rank in 0..2 {
        runs.push(send(&server, &wide, rank, recorded(rank, 8)).await);
    }
    let all = async || {
        let mut all = Vec::new();
        for run in &runs {
            let detail: RunDetail = server.get(&routes::run(&run.id)).await.read();
            all.push(detail.summary.labels);
        }
        all
    };
    let told: JobSummary = set(&pinned).await.expect(StatusCode::OK).read();
    assert_eq!((told.id, told.n_ranks), (wide.id.clone(), 2));
    assert_eq!(
        all().await,
        [labels(&[("pinned", "yes")]), labels(&[("pinned", "yes")])]
    );
    set(&[("pinned", None), ("team", Some("vision"))])
        .await
        .expect(StatusCode::OK);
    assert_eq!(
        all().await,
        [labels(&[("team", "vision")]), labels(&[("team", "vision")])]
    );

    // One of them has no room: the other does not get it either.
    let many: Vec<String> = (1..MOST).map(|n| format!("k{n}")).collect();
    let many: Vec<(&str, Option<&str>)> =
        many.iter().map(|key| (key.as_str(), Some("v"))).collect();
    let full = routes::run_labels(&runs[1].id);
    let full = server.json(Method::PATCH, &full, &change(&many)).await;
    full.expect(StatusCode::OK);
    set(&pinned).await.expect(StatusCode::CONFLICT);
    assert_eq!(all().await[0], labels(&[("team", "vision")]));
    set(&[("no key", Some("v"))])
        .await
        .expect(StatusCode::BAD_REQUEST);
    let unknown = routes::job_labels(&"job_none".parse().unwrap());
    let unknown = server.json(Method::PATCH, &unknown, &change(&pinned)).await;
    unknown.expect(StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_by_all_labels_that_are_named() {
    let server = Server::start().await;
    let runs = runs(&server).await;
    let given: [&[(&str, &str)]; 3] = [
        &[("branch", "main"), ("config", "a=b, c")],
        &[("branch", "main"), ("config", "small")],
        &[("branch", "fix/leak & more")],
    ];
    for (run, labels) in runs.iter().zip(given) {
        let all: Vec<_> = labels.iter().map(|&(k, v)| (k, Some(v))).collect();
        let path = routes::run_labels(&run.id);
        let answer = server.json(Method::PATCH, &path, &change(&all)).await;
        answer.expect(StatusCode::OK);
    }
    let check = async |asked: &[(&str, &str)], expected: &[usize]| {
        let wanted = asked.iter().map(|(k, v)| Label::new(k, v).unwrap());
        let path = routes::runs_with(&wanted.collect::<Vec<_>>());
        let found: Vec<RunSummary> = server.get(&path).await.expect(StatusCode::OK).read();
        let mut found: Vec<&str> = found.iter().map(|run| run.name.as_str()).collect();
        found.sort_unstable();
        let expected: Vec<String> = expected.iter().map(|at| format!("{at}.pickle")).collect();
        assert_eq!(found, expected, "{path}");
    };
    check(&[], &[0, 1, 2]).await;
    check(&[("branch", "main")], &[0, 1]).await;
    check(&[("branch", "main"), ("branch", "main")], &[0, 1]).await;
    check(&[("branch", "main"), ("config", "a=b, c")], &[0]).await;
    check(&[("branch", "main"), ("branch", "fix/leak & more")], &[]).await;
    check(&[("branch", "fix/leak & more")], &[2]).await;
    check(&[("branch", "\" OR 1 --")], &[]).await;
    check(&[("config", "main")], &[]).await;
    let main = [Label::new("branch", "main").unwrap()];
    let history: History = server.get(&routes::history(&main)).await.read();
    let names: Vec<&str> = history.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["0.pickle", "1.pickle"], "the oldest first");
    assert_eq!(history.changes, []);
    let deleted = routes::run(&runs[0].id);
    server.json(Method::DELETE, &deleted, "").await;
    check(&[("branch", "main")], &[1]).await;
    let wrong = server.get("/api/runs?label=branch").await.problem();
    assert!(wrong.detail.contains("key=value"), "{}", wrong.detail);
}

/// What a browser sends when a form of the page is sent off.
async fn form(server: &Server, run: &RunSummary, fields: &str) -> (StatusCode, String) {
    let request = request(Method::POST, &routes::labels_page(&run.id))
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from(fields.to_owned()));
    let answer = server.send(request.unwrap()).await;
    let page = String::from_utf8(answer.body.to_vec()).unwrap();
    (answer.status, page)
}

#[tokio::test]
async fn labels_are_changed_on_a_page() {
    let server = Server::start().await;
    let [first, second, _] = &runs(&server).await[..] else {
        panic!("three runs");
    };
    let of = async |run: &RunSummary| {
        let answer = server.get(&routes::run(&run.id)).await;
        answer.read::<RunDetail>().summary.labels
    };
    let (status, _) = form(&server, first, "add=config%3Dqlora").await;
    assert_eq!(status, StatusCode::SEE_OTHER);
    form(&server, first, "add=team%3D%3Cb%3E").await;
    form(&server, first, "add=config%3Dfull").await;
    assert_eq!(
        of(first).await,
        labels(&[("config", "full"), ("team", "<b>")])
    );

    // What one label is called is offered for another run.
    let page = server.get(&routes::labels_page(&second.id)).await;
    let page = String::from_utf8(page.expect(StatusCode::OK).body.to_vec()).unwrap();
    assert!(page.contains(r#"<option value="config=full">"#), "{page}");
    assert!(
        page.contains("no labels yet") && !page.contains("<b>"),
        "{page}"
    );

    let (status, page) = form(&server, first, "add=nothing").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let told = page.contains("key=value") && page.contains(r#"value="nothing""#);
    assert!(told, "it says why, and what was typed stays: {page}");

    form(&server, first, "remove=team").await;
    assert_eq!(of(first).await, labels(&[("config", "full")]));
    let gone = server
        .get("/runs/run_00000000000000000000000000/labels")
        .await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
}
