//! The list of runs that many open pages read: an answer that did not change is not sent again, and
//! every change of it is.

use super::{Answer, Server, request, snapshot};
use api::ids::RunId;
use api::jobs::JobSummary;
use api::routes;
use api::runs::{FinishedUpload, RunSummary};
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};
use std::collections::BTreeSet;

async fn upload(server: &Server, path: &str, at: u8) -> RunId {
    let mut file = snapshot();
    file.push(at);
    let sent = server.put(path, file).await.expect(StatusCode::CREATED);
    sent.read::<FinishedUpload>().run.id
}

/// The answer to who has one with this tag.
async fn again(server: &Server, path: &str, tag: &HeaderValue) -> Answer {
    let asked = request(Method::GET, path).header(header::IF_NONE_MATCH, tag);
    server.send(asked.body(Body::empty()).unwrap()).await
}

async fn tag(server: &Server, path: &str) -> HeaderValue {
    server.get(path).await.expect(StatusCode::OK).headers[header::ETAG].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_did_not_change_is_not_sent_again_and_each_change_is() {
    let server = Server::start().await;
    let run = upload(&server, "/api/upload/a", 0).await;
    let made = r#"{"name":"job"}"#;
    let job: JobSummary = server
        .json(Method::POST, routes::JOBS, made)
        .await
        .expect(StatusCode::CREATED)
        .read();
    let mut known = server.get(routes::RUNS).await.expect(StatusCode::OK);
    let kept = &known.headers[header::CACHE_CONTROL];
    assert_eq!(kept, "private, no-cache", "a browser asks each time");
    let one = routes::run(&run);
    let of_job = format!("/api/upload/b?job={}&rank=1", job.id);
    let name = r#"{"name":"other"}"#;
    let label = r#"{"labels":{"branch":"main"}}"#;
    let changes = [
        (Method::PATCH, one.clone(), name),
        (Method::PATCH, routes::run_labels(&run), label),
        (Method::DELETE, one, ""),
        (Method::POST, routes::run_restore(&run), ""),
        (Method::PUT, of_job, ""),
        (Method::DELETE, routes::job(&job.id), ""),
    ];
    for (method, path, body) in changes {
        let tag = known.headers[header::ETAG].clone();
        let same = again(&server, routes::RUNS, &tag).await;
        assert_eq!(
            same.status,
            StatusCode::NOT_MODIFIED,
            "before {method} {path}"
        );
        assert!(same.body.is_empty() && same.headers[header::ETAG] == tag);
        match method {
            Method::PUT => drop(upload(&server, &path, 1).await),
            _ => {
                let done = server.json(method.clone(), &path, body).await;
                assert!(done.status.is_success(), "{method} {path}");
            }
        }
        let new = again(&server, routes::RUNS, &tag).await;
        assert_eq!(new.status, StatusCode::OK, "after {method} {path}");
        assert_ne!(new.body, known.body, "after {method} {path}");
        known = new;
    }
    let runs: Vec<RunSummary> = known.read();
    assert_eq!(runs.len(), 2);
    assert!(
        runs.iter()
            .any(|run| run.name == "other" && !run.labels.is_empty())
    );
}

/// Else the pages of a team read all runs again for each report of each training.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_list_shows_does_not_make_it_new() {
    let server = Server::start().await;
    upload(&server, "/api/upload/a", 0).await;
    let known = tag(&server, routes::RUNS).await;
    let begun = server
        .json(Method::POST, "/api/live", r#"{"name":"llama","device":0}"#)
        .await;
    let begun: serde_json::Value = begun.expect(StatusCode::CREATED).read();
    let live = begun["live"].as_str().unwrap();
    for at in 1..4 {
        let steps = format!(r#"{{"steps":[[{at},1,1048576,1048576,2097152,0,0]]}}"#);
        let path = format!("/api/live/{live}/steps");
        server
            .json(Method::POST, &path, &steps)
            .await
            .expect(StatusCode::OK);
    }
    let view = r#"{"name":"v","path":"/history"}"#;
    server
        .json(Method::POST, "/api/views", view)
        .await
        .expect(StatusCode::CREATED);
    let same = again(&server, routes::RUNS, &known).await;
    assert_eq!(same.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_question_has_an_answer_of_its_own_in_each_coding() {
    let server = Server::start().await;
    let run = upload(&server, "/api/upload/a", 0).await;
    upload(&server, "/api/upload/b", 1).await;
    server
        .json(Method::DELETE, &routes::run(&run), "")
        .await
        .expect(StatusCode::OK);
    let paths = [
        "",
        "?deleted=true",
        "?by=ada",
        "?label=a=b",
        "?limit=1",
        "?offset=1",
    ];
    let mut tags = BTreeSet::new();
    for query in paths {
        let path = format!("{}{query}", routes::RUNS);
        let plain = server.get(&path).await.expect(StatusCode::OK);
        tags.insert(plain.headers[header::ETAG].to_str().unwrap().to_owned());
        for coding in ["zstd", "gzip"] {
            let asked = request(Method::GET, &path).header(header::ACCEPT_ENCODING, coding);
            let packed = server.send(asked.body(Body::empty()).unwrap()).await;
            assert_eq!(packed.headers[header::CONTENT_ENCODING], coding, "{path}");
            let body = match coding {
                "zstd" => zstd::decode_all(&packed.body[..]).unwrap(),
                _ => {
                    let mut body = Vec::new();
                    let mut reader = flate2::read::GzDecoder::new(&packed.body[..]);
                    std::io::Read::read_to_end(&mut reader, &mut body).unwrap();
                    body
                }
            };
            assert!(body == plain.body, "{path} {coding}");
        }
    }
    assert_eq!(tags.len(), paths.len(), "{tags:?}");
    let shared = tag(&server, routes::RUNS_SHARED).await;
    assert_eq!(shared, tag(&server, routes::RUNS).await);
}

/// The page of a run asks this after each change. Nothing is decoded for it.
#[tokio::test(flavor = "multi_thread")]
async fn one_run_is_listed_alone_where_it_is() {
    let server = Server::start().await;
    let run = upload(&server, "/api/upload/a", 0).await;
    let other = upload(&server, "/api/upload/b", 1).await;
    let listed = async |path: &str| {
        let runs: Vec<RunSummary> = server.get(path).await.expect(StatusCode::OK).read();
        runs.into_iter().map(|run| run.id).collect::<Vec<RunId>>()
    };
    let (alone, deleted) = (
        routes::run_alone(&run),
        format!("{}&run={run}", routes::DELETED_RUNS),
    );
    let in_page = format!("{alone}&offset=5&by=nobody");
    assert_eq!(listed(&in_page).await, std::slice::from_ref(&run));
    assert!(listed(&deleted).await.is_empty());
    let gone = server.json(Method::DELETE, &routes::run(&run), "").await;
    gone.expect(StatusCode::OK);
    assert!(listed(&alone).await.is_empty());
    assert_eq!(listed(&deleted).await, [run]);
    assert_eq!(listed(&routes::run_alone(&other)).await, [other]);
    let none = format!("{}?run=run_none", routes::RUNS);
    assert!(listed(&none).await.is_empty());
}
