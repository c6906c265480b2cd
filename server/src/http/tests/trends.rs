//! The plain pages that follow numbers from run to run.

use super::{Server, packed_snapshot, snapshot};
use api::compare::{RecordComparison, RecordedComparison};
use api::ids::RunId;
use api::labels::{ChangeLabels, Label};
use api::routes;
use api::runs::FinishedUpload;
use axum::http::{Method, StatusCode};
use std::collections::BTreeMap;

const PR: &str = "https://github.com/o/r/pull/12";

async fn upload(server: &Server, name: &str, file: Vec<u8>) -> RunId {
    let sent = server.put(&routes::upload_named(name), file).await;
    sent.read::<FinishedUpload>().run.id
}

async fn text(server: &Server, path: &str) -> String {
    let answer = server.get(path).await.expect(StatusCode::OK);
    String::from_utf8(answer.body.to_vec()).unwrap()
}

pub(super) async fn label(server: &Server, run: &RunId, key: &str, value: &str) {
    let labels = BTreeMap::from([(key.to_owned(), Some(value.to_owned()))]);
    let body = serde_json::to_string(&ChangeLabels { labels }).unwrap();
    let changed = server
        .json(Method::PATCH, &routes::run_labels(run), &body)
        .await;
    changed.expect(StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_runs_with_a_label_is_a_page() {
    let server = Server::start().await;
    let page = text(&server, routes::HISTORY_PAGE).await;
    assert!(
        page.contains("--label"),
        "an empty page says what to do: {page}"
    );
    for at in 0..3_u8 {
        let mut file = snapshot();
        file.push(at);
        let run = upload(&server, &format!("{at}.pickle"), file).await;
        label(
            &server,
            &run,
            "branch",
            if at == 2 { "other" } else { "main" },
        )
        .await;
    }
    let page = text(&server, routes::HISTORY_PAGE).await;
    let main = Label::new("branch", "main").unwrap();
    let of_main = routes::history_page(&[main]);
    assert!(page.contains(&of_main.replace('&', "&amp;")), "{page}");
    let asked = page.contains("Choose a label") && !page.contains("<path");
    assert!(asked, "these runs have nothing in common: {page}");
    let page = text(&server, &of_main).await;
    assert!(
        page.contains("branch=main ×") && page.contains("Nothing changed for good"),
        "{page}"
    );
    assert_eq!(
        page.matches("<path class=\"trend-dot").count(),
        2 * 4,
        "four numbers of two runs"
    );
    server
        .get("/history?label=none")
        .await
        .expect(StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_push_to_a_pull_request_is_a_row_with_its_verdict() {
    let server = Server::start().await;
    let page = text(&server, routes::PULLS_PAGE).await;
    assert!(
        page.contains("--pr URL"),
        "an empty page says what to do: {page}"
    );
    let base = upload(&server, "base.pickle", packed_snapshot().to_vec()).await;
    let mut same = snapshot();
    same.push(0);
    let new = upload(&server, "%3Cb%3Enew.pickle", same).await;
    let record = async |runs: Vec<RunId>, pr: &str| {
        let recorded = RecordComparison {
            runs,
            pr: Some(pr.to_owned()),
            name: None,
        };
        let body = serde_json::to_string(&recorded).unwrap();
        let answer = server.json(Method::POST, routes::COMPARISONS, &body).await;
        answer.expect(StatusCode::OK);
    };
    record(vec![base.clone(), new.clone()], PR).await;
    record(vec![new.clone(), base.clone()], PR).await;
    let page = text(&server, routes::PULLS_PAGE).await;
    assert!(page.contains("o/r #12"), "{page}");
    let page = text(&server, &routes::pull_page(PR)).await;
    assert_eq!(page.matches("badge").count(), 2, "{page}");
    assert!(page.contains("±0") && page.contains(PR), "{page}");
    assert!(!page.contains("<b>new"), "names are no markup");
    // The page mentions a deleted run; the other pushes stay.
    server.json(Method::DELETE, &routes::run(&new), "").await;
    let page = text(&server, &routes::pull_page(PR)).await;
    assert_eq!(page.matches("a run of it was deleted").count(), 2, "{page}");
    let none = text(&server, &routes::pull_page("javascript:alert(1)")).await;
    assert!(!none.contains("href=\"javascript"), "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_pull_requests_and_old_pushes_are_on_later_pages() {
    let server = Server::start().await;
    let write = server.app.store.write(|writer| {
        // Number 0 is the oldest, and all pushes of another one are newer.
        for at in 0..150_u32 {
            for (pr, ms) in [(format!("{PR}{at}"), at), (PR.to_owned(), 1000 + at)] {
                let recorded = RecordedComparison {
                    id: format!("cmp_{ms}").parse().unwrap(),
                    name: format!("push{ms}x"),
                    runs: vec!["run_gone".parse().unwrap()],
                    pr: Some(pr),
                    created_ms: i64::from(ms),
                };
                writer.record_comparison(&recorded, false)?;
            }
        }
        Ok(())
    });
    write.await.unwrap();
    let pull = routes::pull_page(PR);
    for (address, there, gone) in [
        (routes::PULLS_PAGE.to_owned(), ">150</td>", "#120<"),
        (
            format!("{}?offset=100", routes::PULLS_PAGE),
            "#120<",
            ">150</td>",
        ),
        (pull.clone(), "push1149x", "push1000x"),
        (format!("{pull}&offset=100"), "push1000x", "push1149x"),
    ] {
        let page = text(&server, &address).await;
        assert!(
            page.contains(there) && !page.contains(gone),
            "{address}: {page}"
        );
        let next = if address.contains("offset") {
            ">Newer<"
        } else {
            ">Older<"
        };
        assert!(page.contains(next), "{address}: {page}");
    }
}
