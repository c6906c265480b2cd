//! Cards: pictures and Markdown.

use super::{Answer, Server, request};
use api::routes;
use api::runs::{FinishedUpload, RunSummary};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};

async fn sample(server: &Server, name: &str) -> RunSummary {
    let answer = server.json(Method::POST, &routes::sample(name), "").await;
    answer.read::<FinishedUpload>().run
}

async fn file(server: &Server, path: &str) -> Answer {
    server.get(path).await.expect(StatusCode::OK)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_is_the_same_bytes_each_time() {
    let server = Server::start().await;
    let run = sample(&server, "leak_hook_cache").await.id;
    let mut seen = Vec::new();
    for format in ["svg", "png"] {
        for theme in ["light", "dark"] {
            let path = format!("{}?theme={theme}", routes::card(&run, format));
            let first = file(&server, &path).await;
            server.app.pictures.traces.forget_all();
            assert_eq!(file(&server, &path).await.body, first.body, "{path}");
            assert!(!seen.contains(&first.body), "{path}");
            let tag = first.headers[header::ETAG].clone();
            let again = request(Method::GET, &path).header(header::IF_NONE_MATCH, tag);
            let again = server.send(again.body(Body::empty()).unwrap()).await;
            assert_eq!(again.status, StatusCode::NOT_MODIFIED);
            seen.push(first.body);
        }
    }
    let zoomed = format!("{}?v=1&from=0&to=100", routes::card(&run, "svg"));
    assert_ne!(file(&server, &zoomed).await.body, seen[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_says_what_the_run_page_says() {
    let server = Server::start().await;
    let run = sample(&server, "leak_hook_cache").await;
    let card = file(&server, &routes::card(&run.id, "svg")).await;
    let card = String::from_utf8(card.body.to_vec()).unwrap();
    let peak = run.devices[0].series[1].peak.to_string();
    for part in [
        run.name.as_str(),
        &peak,
        "Leak",
        "+8.00 MiB a step",
        "gen2.py",
    ] {
        assert!(card.contains(part), "{part}");
    }
    let clean = sample(&server, "plain_lm").await;
    let card = file(&server, &routes::card(&clean.id, "svg")).await;
    let card = String::from_utf8(card.body.to_vec()).unwrap();
    assert!(card.contains("No leak") && card.contains("The largest of "));
    let png = file(&server, &routes::card(&clean.id, "png")).await.body;
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(&png[16..24], [0, 0, 4, 176, 0, 0, 2, 118]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_markdown_of_a_run_is_the_reviewed_one() {
    let server = Server::start().await;
    let run = sample(&server, "leak_hook_cache").await;
    let text = async |query: &str| {
        let path = format!("{}{query}", routes::card(&run.id, "md"));
        String::from_utf8(file(&server, &path).await.body.to_vec()).unwrap()
    };
    insta::assert_snapshot!("card_md", text("").await);
    let private = text("?numbers_only=1").await;
    insta::assert_snapshot!("card_md_numbers_only", private);
    assert!(!private.contains("gen2") && !private.contains("!["));
    assert!(
        text("?link=abc")
            .await
            .contains("http://localhost:7878/s/abc/card.png")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_events_has_a_card_too() {
    let server = Server::start().await;
    for name in ["oom", "streams"] {
        let run = sample(&server, name).await.id;
        file(&server, &routes::card(&run, "png")).await;
        file(&server, &routes::card(&run, "md")).await;
    }
    let missing = "run_0000000000000000".parse().unwrap();
    let answer = server.get(&routes::card(&missing, "png")).await;
    answer.expect(StatusCode::NOT_FOUND);
}
