//! Slow and greedy clients over real sockets. Other clients must not notice them.

use super::{Server, packed_snapshot};
use crate::http::{Listening, serve};
use crate::limits::clients::numbers::Share;
use crate::limits::work;
use api::bench::StartBench;
use api::problem::ProblemCode;
use api::routes;
use api::runs::{FinishedUpload, RunDetail};
use axum::http::{Method, StatusCode, header};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use trace::alive::Dimension;
use trace::device::DeviceIdx;

/// Longer than any step here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn listen(server: &Server) -> SocketAddr {
    let listening = Listening::on(SocketAddr::from(([127, 0, 0, 1], 0))).await;
    let listening = listening.unwrap();
    let address = listening.address;
    tokio::spawn(serve(listening, Arc::clone(&server.app)));
    address
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

async fn ask(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// The beginning of the answer.
async fn head(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 1024];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut bytes)).await;
    let length = read.expect("an answer comes").unwrap_or(0);
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_no_answers_is_dropped() {
    let server = Server::with(|config| config.clients.pace.over = Duration::from_millis(500));
    let server = server.await;
    let address = listen(&server).await;
    // More than the buffers between the two can hold.
    let mut stream = ask(address, &get(routes::OPENAPI).repeat(400)).await;
    let dropped = async {
        while stream.write_all(b"G").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let dropped = tokio::time::timeout(PATIENCE, dropped).await;
    dropped.expect("the server closes the connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_make_room_and_busy_ones_do_not() {
    let most = Share { each: 3, all: 3 };
    let server = Server::with(|config| config.clients.connections = most).await;
    let address = listen(&server).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = ask(address, &get(routes::EVENTS)).await;
        let answer = head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        streams.push(stream);
    }
    let mut refused = TcpStream::connect(address).await.unwrap();
    let answer = head(&mut refused).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("retry-after: 5"), "{answer}");
    assert!(answer.contains("all 3 connections are in use"), "{answer}");
    streams.pop();
    let served = async {
        loop {
            let mut stream = ask(address, &get(routes::SERVER)).await;
            if head(&mut stream).await.starts_with("HTTP/1.1 200") {
                return;
            }
        }
    };
    let served = tokio::time::timeout(PATIENCE, served).await;
    served.expect("the place of a closed connection is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_events_and_exports_have_their_own_places() {
    let server = Server::with(|config| {
        config.clients.event_streams = Share { each: 1, all: 2 };
    });
    let server = server.await;
    let address = listen(&server).await;
    let mut streams = Vec::new();
    for expected in ["200", "200", "503"] {
        let mut stream = ask(address, &get(routes::EVENTS)).await;
        let answer = head(&mut stream).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected}")),
            "{answer}"
        );
        streams.push(stream);
    }
    let sent = server.put("/api/upload/a", packed_snapshot()).await;
    let run = sent.read::<FinishedUpload>().run.id;
    let path = format!("/api/runs/{run}/export?format=pickle");
    let here = crate::limits::clients::ClientAddress::HERE;
    let taken: Vec<_> = std::iter::from_fn(|| server.app.exports.take(here).ok()).collect();
    assert_eq!(taken.len(), server.app.config.clients.exports.all);
    let refused = server.get(&path).await;
    assert_eq!(refused.problem().code, ProblemCode::Busy);
    assert_eq!(refused.headers[header::RETRY_AFTER], "5");
    drop(taken);
    // Each of them gives its place back, and there are more of them than places.
    for _ in 0..9 {
        let exported = async {
            while server.get(&path).await.status != StatusCode::OK {
                tokio::task::yield_now().await;
            }
        };
        let exported = tokio::time::timeout(PATIENCE, exported).await;
        exported.expect("an export finds a place");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_body_that_does_not_come_ends_the_request() {
    let server = Server::with(|config| config.clients.body_within = Duration::from_millis(200));
    let address = listen(&server.await).await;
    for (path, kind) in [
        (routes::UPLOADS, "application/json"),
        (routes::SIGN_IN_PAGE, "application/x-www-form-urlencoded"),
        (routes::MCP, "application/json"),
    ] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n\
             Content-Length: 20\r\n\r\n{{"
        );
        let answer = head(&mut ask(address, &request).await).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{path}: {answer}");
    }
}

/// Over a real connection: below it, every layer must pass on that the client has gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_ends_when_its_client_hangs_up_and_a_change_does_not() {
    let server = Server::start().await;
    let sample = server
        .json(Method::POST, &routes::sample("leak_hook_cache"), "")
        .await;
    let run = sample.read::<FinishedUpload>().run.id;
    let address = listen(&server).await;
    // All turns are taken, so that every question waits for one.
    let (free, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    for _ in 0..work::cores() {
        let held = Arc::clone(&held);
        tokio::spawn(work::answer(move || held.lock().unwrap().recv()));
    }
    let waiting = async |expected: usize| {
        let reached = async {
            while work::answers().waiting != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "{expected} wait for a turn");
    };
    for by in [Dimension::Category, Dimension::Site] {
        let asks = ask(address, &get(&routes::growth(&run, DeviceIdx(0), by))).await;
        waiting(1).await;
        drop(asks);
        waiting(0).await;
    }
    drop(free);
    // Hyper drops the future of a request when its connection closes.
    let path = routes::run(&run);
    let renames = server.json(Method::PATCH, &path, r#"{"name":"renamed"}"#);
    tokio::select! {
        biased;
        _ = renames => {}
        () = async {} => {}
    }
    let renamed = async {
        while server
            .get(&routes::run(&run))
            .await
            .read::<RunDetail>()
            .summary
            .name
            != "renamed"
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let renamed = tokio::time::timeout(PATIENCE, renamed).await;
    renamed.expect("what was asked for is done");
}

#[tokio::test(flavor = "multi_thread")]
async fn benches_wait_in_a_queue_of_limited_length() {
    let server = Server::with(|config| {
        config.clients.bench_rows = 3;
        // Rows that are taken up end at once.
        config.bench.program = Some(PathBuf::from("/bin/false"));
    });
    let server = server.await;
    let start = async |configs: &[&str]| {
        let rows: Vec<_> = configs
            .iter()
            .map(|config| serde_json::json!({ "config": config, "patches": [] }))
            .collect();
        let body = serde_json::json!({ "rows": rows, "device": "sim" }).to_string();
        serde_json::from_str::<StartBench>(&body).expect("a request for a bench");
        server.json(Method::POST, routes::BENCHES, &body).await
    };
    let all = [
        "vl-qwen3.5-9b",
        "text-qwen3.5-9b",
        "dedupe-reuse",
        "te-fused-attention-fp8",
    ];
    let refused = start(&all).await;
    let problem = refused.problem();
    assert_eq!(problem.code, ProblemCode::Busy);
    assert!(
        problem.detail.contains("the 3 that may"),
        "{}",
        problem.detail
    );
    assert_eq!(refused.headers[header::RETRY_AFTER], "60");
    start(&all[..2]).await.expect(StatusCode::CREATED);
}

/// Collects the log, for a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Two subscribers that live as long as the process, and to which nothing is told. Of each place
/// that logs, `tracing` keeps whether any subscriber wants to hear of it. As long as there is no
/// more than one, it asks only that of the thread which comes there first: in one process with
/// other tests, that may be a thread without any, and then the place is silent for all.
static OTHERS: LazyLock<[tracing::Dispatch; 2]> = LazyLock::new(|| {
    [(); 2].map(|()| {
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
        tracing::Dispatch::new(subscriber.with_writer(std::io::sink).finish())
    })
});

impl Log {
    /// Takes what this thread logs, down to a level, until the guard is dropped.
    fn listen(&self, level: tracing::Level) -> tracing::subscriber::DefaultGuard {
        LazyLock::force(&OTHERS);
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

// On one thread, so that everything is logged to the test's log.
#[tokio::test]
async fn wrong_guesses_are_told_once_in_a_while_without_what_was_guessed() {
    let log = Log::default();
    // The usual level of the log.
    let _guard = log.listen(tracing::Level::INFO);
    let token = crate::who::server_token::Token::random();
    let server = Server::with(|config| config.token = Some(token)).await;
    let guess = r#"{"token":"zq-a-guess-xj"}"#;
    for _ in 0..30 {
        server.json(Method::POST, "/api/session", guess).await;
    }
    let text = log.text();
    assert_eq!(
        text.matches("wrong tokens, links or sessions").count(),
        1,
        "{text}"
    );
    assert!(
        text.contains("WARN") && !text.contains("zq-a-guess"),
        "{text}"
    );
}

#[test]
fn a_test_hears_of_what_another_thread_came_to_first() {
    let place = || tracing::info!("a place that logs");
    let log = Log::default();
    let _guard = log.listen(tracing::Level::INFO);
    std::thread::spawn(place).join().unwrap();
    assert_eq!(log.text(), "");
    place();
    assert!(log.text().contains("a place that logs"), "{}", log.text());
}

// On one thread, as above.
#[tokio::test]
async fn the_secret_of_a_link_is_never_in_the_log() {
    let (log, secret) = (Log::default(), "0123456789abcdefghijkl");
    let _guard = log.listen(tracing::Level::TRACE);
    let server = Server::start().await;
    for path in [
        format!("/s/{secret}"),
        format!("/s/{secret}/card.svg"),
        format!("/{secret}"),
        format!("//s/{secret}"),
        format!("/S/{secret}?x={secret}"),
        format!("/api/runs?share={secret}"),
    ] {
        server.get(&path).await;
    }
    let text = log.text();
    assert!(text.contains("/s/…"), "{text}");
    assert!(!text.contains(secret), "{text}");
}
