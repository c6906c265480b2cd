//! Requests to the whole router, without a socket.

mod access;
mod bench;
mod called;
mod cards;
mod categories;
mod clients;
mod compare;
mod contents;
mod cors;
mod damage;
mod deleted;
mod document;
mod explain;
mod history;
mod jobs;
mod labels;
mod live;
mod metrics;
#[cfg(feature = "oidc")]
mod oidc;
mod people;
mod pictures;
mod pinned;
mod problem_pages;
mod projects;
mod questions;
mod redaction;
mod run_lists;
mod runs;
mod shares;
mod trends;
mod turns;
mod uploads;
mod views;
mod what_if;

use super::router;
use crate::app::App;
use crate::config::Config;
use crate::samples;
use api::problem::{Problem, ProblemCode};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tower::ServiceExt;

/// A server with a data folder of its own.
pub struct Server {
    pub app: Arc<App>,
    /// Made once, because it takes 30 ms without optimisation: the API document comes with it.
    router: Router,
    _folder: TempDir,
}

/// An answer, read completely.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Server {
    pub async fn start() -> Server {
        Server::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Config)) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::new(folder.path().join("data"));
        change(&mut config);
        Server::of(App::open(config).await.unwrap(), folder)
    }

    /// The server of an open app, whose data lie in this folder.
    pub fn of(app: Arc<App>, folder: TempDir) -> Server {
        Server {
            router: router(Arc::clone(&app)),
            app,
            _folder: folder,
        }
    }

    pub fn data(&self) -> &Path {
        &self.app.config.data
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(request(Method::GET, path).body(Body::empty()).unwrap())
            .await
    }

    pub async fn json(&self, method: Method, path: &str, json: &str) -> Answer {
        let request = request(method, path).header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(Body::from(json.to_owned())).unwrap())
            .await
    }

    pub async fn put(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.send(request(Method::PUT, path).body(body.into()).unwrap())
            .await
    }

    /// Files in the blob store, including half-arrived ones.
    pub fn stored_files(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let sizes = entries.map(|entry| match entry.path() {
                path if path.is_dir() => count(&path),
                // The mark that names the owner of the blobs.
                path if path.ends_with("owner") => 0,
                _ => 1,
            });
            sizes.sum()
        }
        count(&self.data().join("blobs"))
    }
}

impl Answer {
    pub fn read<T: DeserializeOwned>(&self) -> T {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:.300}"))
    }

    /// The problem, after checking that it is a proper one.
    pub fn problem(&self) -> Problem {
        assert_eq!(
            self.headers[header::CONTENT_TYPE],
            "application/problem+json"
        );
        let problem: Problem = self.read();
        assert_eq!(problem.status, self.status.as_u16());
        assert!(!problem.title.is_empty() && !problem.detail.is_empty());
        // Programs match on either.
        let is_forbidden = problem.code == ProblemCode::Forbidden;
        assert_eq!(problem.status == 403, is_forbidden, "{problem:?}");
        problem
    }

    pub fn expect(self, status: StatusCode) -> Answer {
        let body = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{body:.300}");
        self
    }
}

pub fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "localhost:7878")
}

/// A small real snapshot, packed and plain.
pub fn packed_snapshot() -> &'static [u8] {
    samples::find("leak_hook_cache").unwrap().file
}

pub fn snapshot() -> Vec<u8> {
    zstd::decode_all(packed_snapshot()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_error_is_a_problem() {
    let server = Server::start().await;
    let check = async |method: Method, path: &str, body: &str, status: u16, code| {
        let answer = server.json(method, path, body).await;
        let problem = answer.problem();
        assert_eq!((problem.status, problem.code), (status, code), "{path}");
    };
    use ProblemCode::{BadRequest, NotFound};
    let missing = "/api/runs/run_0000000000000000";
    check(Method::GET, "/api/nothing", "", 404, NotFound).await;
    check(Method::GET, "/api/runs/not-an-id", "", 404, NotFound).await;
    check(Method::GET, missing, "", 404, NotFound).await;
    check(Method::PATCH, missing, r#"{"name":"x"}"#, 404, NotFound).await;
    check(Method::PATCH, missing, r#"{"name":"  "}"#, 400, BadRequest).await;
    check(Method::PATCH, missing, "{", 400, BadRequest).await;
    check(Method::PATCH, missing, "{}", 422, BadRequest).await;
    check(Method::DELETE, "/api/runs", "", 405, BadRequest).await;
    check(Method::POST, "/api/samples/none", "", 404, NotFound).await;
    check(
        Method::GET,
        &format!("{missing}/devices/x/series/0/0"),
        "",
        400,
        BadRequest,
    )
    .await;
    check(
        Method::GET,
        &format!("{missing}/devices/0/series/99/0"),
        "",
        404,
        NotFound,
    )
    .await;
    check(
        Method::GET,
        &format!("{missing}/devices/0/mountain/x/0/0"),
        "",
        400,
        BadRequest,
    )
    .await;
    check(
        Method::GET,
        &format!("{missing}/devices/0/marks"),
        "",
        404,
        NotFound,
    )
    .await;
    check(Method::GET, "/api/runs?deleted=maybe", "", 400, BadRequest).await;
    check(Method::DELETE, "/somewhere", "", 405, BadRequest).await;
    check(Method::GET, "/assets/none.js", "", 404, NotFound).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_at_every_address_of_its_router() {
    let server = Server::start().await;
    for path in ["/", "/runs/run_abc"] {
        let answer = server.get(path).await.expect(StatusCode::OK);
        assert!(
            answer.headers[header::CONTENT_TYPE]
                .to_str()
                .unwrap()
                .starts_with("text/html")
        );
        let known = answer.headers[header::ETAG].to_str().unwrap();
        for known in [known, &format!("W/{known}"), "*"] {
            let again = request(Method::GET, path).header(header::IF_NONE_MATCH, known);
            let again = server.send(again.body(Body::empty()).unwrap()).await;
            assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{known}");
        }
    }
}
