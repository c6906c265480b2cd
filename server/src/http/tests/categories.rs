//! Tests of a team's own categories.

use super::{Server, request};
use api::categories::{Kept, OwnCategories, TakenOfRun};
use api::contents::Contents;
use api::explain::Explanation;
use api::ids::ShareId;
use api::leaks::Leaks;
use api::routes;
use api::runs::{FinishedUpload, RunSummary};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::{Value, json};
use trace::units::Bytes;

const ROUTE: &str = "/api/categories";

async fn step(server: &Server) -> RunSummary {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let file = std::fs::read(folder.join("plain/single_forward.pickle.zst")).unwrap();
    let answer = server
        .put(&routes::upload_named("a.pickle.zst"), file)
        .await;
    answer.read::<FinishedUpload>().run
}

/// What the peak of a run is made of.
async fn at_peak(server: &Server, run: &RunSummary) -> Vec<(String, Bytes)> {
    let answer = server.get(&routes::contents(&run.id, 0)).await;
    let contents: Contents = answer.expect(StatusCode::OK).read();
    let shares = contents.peak.unwrap().categories.into_iter();
    shares
        .map(|share| (share.category.name().to_owned(), share.bytes))
        .collect()
}

async fn rules(server: &Server, rules: &str) -> OwnCategories {
    let answer = server
        .json(Method::PUT, ROUTE, &json!({ "rules": rules }).to_string())
        .await;
    answer.expect(StatusCode::OK).read()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_s_own_names_stand_everywhere_at_once() {
    let server = Server::start().await;
    let run = step(&server).await;
    let before = at_peak(&server, &run).await;
    let first: OwnCategories = server.get(ROUTE).await.read();
    assert_eq!((first.kept, first.rules.as_str()), (Kept::Here, ""));

    // Tried, nothing is kept.
    let path = format!("/api/runs/{}/categories", run.id);
    let body = json!({ "rules": "big size>=1MiB\nrest size>=0" });
    let taken: TakenOfRun = server
        .json(Method::POST, &path, &body.to_string())
        .await
        .read();
    let [big, rest] = &taken.devices[0].rules[..] else {
        panic!("{taken:?}")
    };
    assert_eq!(big.bytes + rest.bytes, run.peak_allocated);
    assert_eq!(at_peak(&server, &run).await, before);

    let kept = rules(&server, "big size>=1MiB\nrest size>=0").await;
    assert_eq!(kept.names.len(), 2);
    let mut expected = vec![
        ("big".to_owned(), big.bytes),
        ("rest".to_owned(), rest.bytes),
    ];
    expected.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    assert_eq!(at_peak(&server, &run).await, expected);
    let explained = format!("/api/runs/{}/explain", run.id);
    let asked = request(Method::GET, &explained).header(header::ACCEPT, "application/json");
    let explained: Explanation = server.send(asked.body(Body::empty()).unwrap()).await.read();
    let peak = explained.device.unwrap().peak.unwrap();
    assert_eq!(peak.categories[0].category.name(), expected[0].0);
    // Verdicts do not depend on names.
    let leaks: Leaks = server.get(&routes::leaks(&run.id, 0)).await.read();
    assert_eq!(leaks.steps, run.steps);

    // Without rules everything is as it was.
    rules(&server, "# none\n").await;
    assert_eq!(at_peak(&server, &run).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_rule_is_refused_with_its_line() {
    let server = Server::start().await;
    let body = json!({ "rules": "fine function=a\nx colour=red" });
    let refused = server
        .json(Method::PUT, ROUTE, &body.to_string())
        .await
        .problem();
    assert_eq!(refused.status, 400);
    assert!(
        refused
            .detail
            .starts_with("line 2: \"colour=red\" is not a condition")
    );
    let kept: OwnCategories = server.get(ROUTE).await.read();
    assert_eq!(kept.rules, "");
}

/// The names are the team's: a link without names shows Tidemark's categories.
#[tokio::test(flavor = "multi_thread")]
async fn a_redacted_link_does_not_show_them() {
    let server = Server::start().await;
    let run = step(&server).await;
    let ours = at_peak(&server, &run).await;
    rules(&server, "secret-project size>=0").await;
    let link = json!({
        "kind": "capability", "target": {"kind": "run", "run": run.id}, "query": "v=5",
        "redaction": "redacted", "note": "", "created_by": "", "expires_in_s": 3600,
    });
    let link = link.to_string();
    let made = server.json(Method::POST, "/api/shares", &link);
    let made: Value = made.await.expect(StatusCode::CREATED).read();
    let link: ShareId = serde_json::from_value(made["share"]["id"].clone()).expect("a link");
    let path = routes::for_link(&routes::contents(&run.id, 0), &link);
    let seen: Contents = server.get(&path).await.expect(StatusCode::OK).read();
    let seen = seen.peak.unwrap().categories;
    let names: Vec<_> = seen
        .iter()
        .map(|share| share.category.name().to_owned())
        .collect();
    let expected: Vec<_> = ours.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, expected);
}
