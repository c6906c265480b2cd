//! `gate --comment` and `push --comment` against servers that follow the documented protocols of
//! GitHub and GitLab.

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path as FilePath;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

const TOKEN: &str = "a-secret-token";
const HEAD: &str = "0123456789abcdef0123456789abcdef01234567";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    GitHub,
    GitLab,
}

/// A comment: its number, its text, and whether the token's user wrote it.
type Comment = (u64, String, bool);

/// Who the forge says that the token is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// A user, the one with the number 1.
    User,
    /// A program, which may change what others wrote.
    Action,
}

/// Everything that a forge was told.
struct Told {
    kind: Kind,
    whose: Whose,
    comments: Vec<Comment>,
    statuses: Vec<Value>,
}

struct Forge {
    url: String,
    told: Arc<Mutex<Told>>,
    _runtime: tokio::runtime::Runtime,
}

impl Forge {
    /// A forge whose pull request has these comments.
    fn start(kind: Kind, comments: Vec<Comment>) -> Forge {
        Forge::of(kind, Whose::User, comments)
    }

    fn of(kind: Kind, whose: Whose, comments: Vec<Comment>) -> Forge {
        let told = Told {
            kind,
            whose,
            comments,
            statuses: Vec::new(),
        };
        let told = Arc::new(Mutex::new(told));
        let app = Router::new()
            .route("/{*path}", any(answer))
            .with_state(Arc::clone(&told));
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        runtime.spawn(async move { axum::serve(listener, app).await });
        Forge {
            url,
            told,
            _runtime: runtime,
        }
    }

    fn address(&self) -> &'static str {
        match self.told.lock().expect("nobody panicked").kind {
            Kind::GitHub => "https://github.com/me/repo/pull/7",
            Kind::GitLab => "https://gitlab.com/group/sub/repo/-/merge_requests/7",
        }
    }

    /// Runs a command on the fixtures with the address of this forge.
    fn run(&self, args: &[&str], token: &str) -> Output {
        let fixture = |name: &&str| match name.strip_prefix('@') {
            Some(name) => {
                let folder = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
                let file = folder.join(format!("{name}.pickle.zst"));
                file.to_str().expect("a plain name").to_owned()
            }
            None => (*name).to_owned(),
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
        command.args(args.iter().map(fixture));
        command.args(["--pr", self.address(), "--comment", "--pr-api", &self.url]);
        for name in ["GITHUB_TOKEN", "GITLAB_TOKEN"] {
            command.env_remove(name);
        }
        command.env("TIDEMARK_PR_TOKEN", token);
        command.output().expect("it ran")
    }

    fn ours(&self) -> Vec<String> {
        let told = self.told.lock().expect("nobody panicked");
        let comments = told.comments.iter();
        let ours =
            comments.filter(|(_, body, mine)| *mine && body.starts_with("<!-- tidemark -->"));
        ours.map(|(_, body, _)| body.clone()).collect()
    }

    fn last_status(&self) -> Value {
        let told = self.told.lock().expect("nobody panicked");
        told.statuses.last().cloned().unwrap_or_default()
    }
}

/// Answers one request as the documentation of GitHub or GitLab says.
async fn answer(
    State(told): State<Arc<Mutex<Told>>>,
    Query(query): Query<HashMap<String, String>>,
    Path(_): Path<String>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut told = told.lock().expect("nobody panicked");
    if !is_signed_in(&parts.headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    told.answer(&parts.method, &parts.uri, &query, &body)
}

fn is_signed_in(headers: &HeaderMap) -> bool {
    let value = headers.get("authorization");
    value.is_some_and(|value| value == &format!("Bearer {TOKEN}"))
}

impl Told {
    fn answer(
        &mut self,
        method: &Method,
        uri: &Uri,
        query: &HashMap<String, String>,
        body: &Value,
    ) -> Response {
        let (thread, one, pull, statuses) = match self.kind {
            Kind::GitHub => (
                "/repos/me/repo/issues/7/comments",
                "/repos/me/repo/issues/comments/",
                "/repos/me/repo/pulls/7",
                "/repos/me/repo/statuses/",
            ),
            Kind::GitLab => (
                "/projects/group%2Fsub%2Frepo/merge_requests/7/notes",
                "/projects/group%2Fsub%2Frepo/merge_requests/7/notes/",
                "/projects/group%2Fsub%2Frepo/merge_requests/7",
                "/projects/group%2Fsub%2Frepo/statuses/",
            ),
        };
        let change = match self.kind {
            Kind::GitHub => Method::PATCH,
            Kind::GitLab => Method::PUT,
        };
        let path = uri.path();
        let number = path.strip_prefix(one).and_then(|id| id.parse::<u64>().ok());
        let at = self
            .comments
            .iter()
            .position(|(id, ..)| Some(*id) == number);
        match (method, at) {
            (&Method::GET, None) if path == thread => self.page(query),
            (&Method::GET, None) if path == "/user" => match self.whose {
                Whose::User => Json(json!({"id": 1})).into_response(),
                Whose::Action => StatusCode::FORBIDDEN.into_response(),
            },
            (&Method::POST, None) if path == thread => {
                let id = self.comments.len() as u64 + 1000;
                let text = body["body"].as_str().expect("a text").to_owned();
                self.comments.push((id, text, true));
                (StatusCode::CREATED, Json(json!({"id": id}))).into_response()
            }
            // With the right to write to a repository, GitHub lets a token change all comments.
            (method, Some(at)) if *method == change => {
                self.comments[at].1 = body["body"].as_str().expect("a text").to_owned();
                Json(json!({"id": number})).into_response()
            }
            (&Method::GET, None) if path == pull => match self.kind {
                Kind::GitHub => Json(json!({"head": {"sha": HEAD}})).into_response(),
                Kind::GitLab => Json(json!({"sha": HEAD})).into_response(),
            },
            (&Method::POST, None) if path == format!("{statuses}{HEAD}") => {
                self.statuses.push(body.clone());
                (StatusCode::CREATED, Json(json!({}))).into_response()
            }
            _ => StatusCode::NOT_FOUND.into_response(),
        }
    }

    fn page(&self, query: &HashMap<String, String>) -> Response {
        let number = |name: &str| query[name].parse::<usize>().expect("a number");
        let (size, page) = (number("per_page"), number("page"));
        let comments = self.comments.iter().skip(size * (page - 1)).take(size);
        let author = match self.kind {
            Kind::GitHub => "user",
            Kind::GitLab => "author",
        };
        let comments = comments.map(|(id, body, mine)| {
            let kind = if *mine && self.whose == Whose::Action {
                "Bot"
            } else {
                "User"
            };
            let by = json!({"id": if *mine { 1 } else { 2 }, "type": kind});
            json!({"id": id, "body": body, author: by})
        });
        Json(comments.collect::<Vec<_>>()).into_response()
    }
}

/// Many comments by people, one of whom has copied our mark.
fn talk() -> Vec<Comment> {
    let says = |id| (id, format!("looks good to me {id}"), false);
    let mut talk: Vec<Comment> = (1..=120).map(says).collect();
    talk[3].1 = "<!-- tidemark -->\nnot mine".to_owned();
    talk
}

#[test]
fn a_pull_request_has_one_comment_that_is_kept_up_to_date() {
    for (kind, whose) in [
        (Kind::GitHub, Whose::User),
        (Kind::GitHub, Whose::Action),
        (Kind::GitLab, Whose::User),
    ] {
        let forge = Forge::of(kind, whose, talk());
        let worse = forge.run(&["gate", "@off_v3_moe", "@off_v1_moe"], TOKEN);
        assert_eq!(worse.status.code(), Some(1), "{worse:?}");
        let [first] = &forge.ours()[..] else {
            panic!("one comment: {:?}", forge.ours());
        };
        assert!(first.contains("egression"), "{first}");
        let state = match kind {
            Kind::GitHub => ("failure", "context"),
            Kind::GitLab => ("failed", "name"),
        };
        let status = forge.last_status();
        assert_eq!(
            (&status["state"], &status[state.1]),
            (&json!(state.0), &json!("tidemark"))
        );
        let better = forge.run(&["gate", "@off_v1_moe", "@off_v3_moe"], TOKEN);
        assert_eq!(better.status.code(), Some(0), "{better:?}");
        let [second] = &forge.ours()[..] else {
            panic!("one comment: {:?}", forge.ours());
        };
        assert_ne!(first, second);
        assert_eq!(forge.last_status()["state"], "success");
        // The comments of people are unchanged.
        let told = forge.told.lock().expect("nobody panicked");
        assert_eq!(told.comments[..120], talk()[..]);
    }
}

#[test]
fn a_forge_that_says_no_changes_no_verdict_and_is_told_of() {
    let forge = Forge::start(Kind::GitHub, Vec::new());
    let refused = forge.run(&["gate", "@off_v1_moe", "@off_v3_moe"], "wrong");
    assert_eq!(refused.status.code(), Some(0), "{refused:?}");
    let said = String::from_utf8(refused.stderr).expect("text");
    assert!(
        said.contains("answered 401") && said.contains("token is wrong"),
        "{said}"
    );
    assert!(forge.ours().is_empty());
    let none = forge.run(&["gate", "@off_v1_moe", "@off_v3_moe"], "");
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let said = String::from_utf8(none.stderr).expect("text");
    assert!(
        said.contains("set TIDEMARK_PR_TOKEN or GITHUB_TOKEN"),
        "{said}"
    );
}

/// What a webhook was sent by a command: each request as it arrived.
fn hooked(status: &'static str, args: &[&str]) -> (Output, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let requests = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = String::new();
            let mut buffer = [0; 4096];
            while !request.contains("\"labels\"") {
                let n = stream.read(&mut buffer).expect("a request");
                assert!(n > 0, "half a request: {request}");
                request += &String::from_utf8_lossy(&buffer[..n]);
            }
            kept.lock().expect("nobody panicked").push(request);
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).expect("an answer");
        }
    });
    let fixture = |name: &str| {
        let folder = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
        folder.join(format!("{name}.pickle.zst"))
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
    command
        .arg("gate")
        .args(args.iter().map(|name| fixture(name)));
    command.env(
        "TIDEMARK_ALERT",
        format!("http://{address}/hooks/a-secret-path"),
    );
    let branch = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_REF_NAME", "main"),
        ("GITHUB_HEAD_REF", ""),
        ("GITHUB_SHA", HEAD),
    ];
    command.envs(branch);
    let output = command.output().expect("it ran");
    let requests = requests.lock().expect("nobody panicked").clone();
    (output, requests)
}

#[test]
fn a_webhook_is_told_of_a_regression_and_of_nothing_else() {
    let (output, requests) = hooked("200 OK", &["ddp_rank0", "ddp_rank1"]);
    assert_eq!(output.status.code(), Some(1));
    let [request] = &requests[..] else {
        panic!("one message: {requests:?}");
    };
    assert!(
        request.starts_with("POST /hooks/a-secret-path "),
        "{request}"
    );
    let body = request.split("\r\n\r\n").nth(1).expect("a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    let text = body["text"].as_str().expect("a text");
    assert!(
        text.starts_with("GPU memory became worse on main: "),
        "{text}"
    );
    assert_eq!(body["labels"]["commit"], HEAD);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("sent an alert to 127.0.0.1"), "{told}");

    let (output, requests) = hooked("200 OK", &["ddp_rank0", "ddp_rank0"]);
    assert_eq!((output.status.code(), requests.len()), (Some(0), 0));
}

#[test]
fn a_webhook_that_says_no_changes_no_verdict_and_its_address_stays_secret() {
    let (output, requests) = hooked("410 Gone", &["ddp_rank0", "ddp_rank1"]);
    assert_eq!((output.status.code(), requests.len()), (Some(1), 1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("cannot send an alert to 127.0.0.1: it answered 410"),
        "{told}"
    );
    assert!(!told.contains("a-secret-path"), "{told}");
}
