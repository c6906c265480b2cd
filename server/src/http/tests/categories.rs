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
use std::sync::Arc;
use tokio::task::JoinSet;
use trace::device::DeviceIdx;
use trace::naming::Rules;
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
    let answer = server.get(&routes::contents(&run.id, DeviceIdx(0))).await;
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
async fn of_changes_at_once_the_one_that_is_kept_is_used() {
    let server = Arc::new(Server::start().await);
    for round in 0..20 {
        let mut changes = JoinSet::new();
        for n in 0..8 {
            let server = Arc::clone(&server);
            changes.spawn(async move { rules(&server, &format!("r{round}n{n} size>=1")).await });
        }
        changes.join_all().await;
        let kept: OwnCategories = server.get(ROUTE).await.read();
        let used = server.app.pictures.traces.own_rules();
        assert_eq!(
            Rules::parse(&kept.rules).unwrap().key(),
            used.key(),
            "{round}"
        );
    }
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
    let leaks: Leaks = server
        .get(&routes::leaks(&run.id, DeviceIdx(0)))
        .await
        .read();
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
    let path = routes::for_link(&routes::contents(&run.id, DeviceIdx(0)), &link);
    let seen: Contents = server.get(&path).await.expect(StatusCode::OK).read();
    let seen = seen.peak.unwrap().categories;
    let names: Vec<_> = seen
        .iter()
        .map(|share| share.category.name().to_owned())
        .collect();
    let expected: Vec<_> = ours.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_are_refused_or_tried_stay_in_the_form() {
    let server = Server::start().await;
    step(&server).await;
    rules(&server, "old size>=0").await;
    let check = async |body: &str, status: StatusCode, shown: &[&str]| {
        let request = request(Method::POST, routes::CATEGORIES_PAGE)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let page = server.send(request).await.expect(status);
        let text = String::from_utf8_lossy(&page.body).into_owned();
        // The rules that hold are beside what was typed, so that the page can tell them apart.
        for part in shown.iter().chain(&["data-kept=\"old size&gt;=0\""]) {
            assert!(text.contains(part), "{body}: no {part} in {text}");
        }
    };
    let typed = "\nmine size&gt;=0</textarea>";
    let bad = StatusCode::BAD_REQUEST;
    let choose = [typed, "Choose a run", "name=\"run\" aria-invalid=\"true\""];
    check("rules=mine+size%3E%3D0&run=&action=try", bad, &choose).await;
    let gone = [typed, "There is no run zzz."];
    let body = "rules=mine+size%3E%3D0&run=zzz&action=try";
    check(body, StatusCode::NOT_FOUND, &gone).await;
    let wrong = ["\nmine colour=red</textarea>", "Line 1"];
    check("rules=mine+colour%3Dred&action=keep", bad, &wrong).await;
    let kept: OwnCategories = server.get(ROUTE).await.read();
    assert_eq!(kept.rules, "old size>=0");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_run_stays_the_one_that_rules_are_tried_on() {
    let server = Server::start().await;
    let old = step(&server).await;
    for at in 0..50 {
        let event = json!({ "action": "alloc", "addr": 4096, "size": 512 * (at + 1), "stream": 0 });
        let file = json!({ "segments": [], "device_traces": [[event]] }).to_string();
        let path = routes::upload_named("b.json");
        let answer = server.put(&path, file.into_bytes()).await;
        answer.expect(StatusCode::CREATED);
    }
    let page = server.get(&routes::categories_page(old.id.as_str())).await;
    let page = String::from_utf8_lossy(&page.expect(StatusCode::OK).body).into_owned();
    let chosen = format!("<option value=\"{}\" selected>", old.id);
    assert!(page.contains(&chosen), "{page}");
}

/// *Numbers only* is for private projects with public pull requests.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_of_numbers_only_does_not_tell_them() {
    let server = Server::start().await;
    let run = step(&server).await;
    let sample = routes::sample("plain_lm");
    let other = server.json(Method::POST, &sample, "").await;
    let other = other.read::<FinishedUpload>().run;
    rules(&server, "apollo size>=0").await;
    let compared = format!("v=1&runs={},{}", run.id, other.id);
    for told in [true, false] {
        for path in [
            routes::card_markdown(&run.id, "v=1", None, told),
            routes::compare_markdown(&compared, None, told),
        ] {
            let block = server.get(&path).await.expect(StatusCode::OK).body;
            let block = String::from_utf8_lossy(&block).into_owned();
            assert_eq!(block.contains("apollo"), told, "{path}: {block}");
        }
    }
}
