//! The log of the real binary: one JSON object in each line, the request's id in each object, no
//! secrets.

use crate::durable::rig::{SNAPSHOTS, Server, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

const TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// A server that logs everything, including every message of every library.
fn talkative(data: &Path, args: &[&str]) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
    command
        .env("TIDEMARK_LOG", "trace")
        .env("TIDEMARK_TOKEN", TOKEN)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(args)
        .arg("--data");
    Server::run_with(command, data)
}

/// Sends a request unchanged; returns the head of the answer and its body.
fn send(server: &Server, head: &str, body: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let (first, rest) = head.split_once('\n').unwrap_or((head, ""));
    let rest: String = rest
        .lines()
        .map(|line| format!("{}\r\n", line.trim()))
        .collect();
    let host = &server.address;
    let length = body.len();
    write!(
        stream,
        "{first} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\nConnection: close\r\n\
         Content-Type: application/json\r\n{rest}\r\n"
    )
    .unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn lines(server: &Server) -> Vec<Value> {
    let log = server.log();
    let parsed = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    parsed.collect()
}

#[test]
fn every_line_of_a_request_carries_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let server = talkative(folder.path(), &["--log-format", "json"]);
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let path = "PUT /api/upload/damaged.pickle";
    let asking = format!("{path}\n{bearer}\nX-Request-Id: build-7.damaged");
    let (head, _) = send(&server, &asking, b"this is no snapshot at all");
    assert!(head.contains("x-request-id: build-7.damaged"), "{head}");
    let of = |id: &str| {
        let lines = lines(&server).into_iter();
        let of_it = lines.filter(|line| line["span"]["id"] == id);
        of_it.collect::<Vec<Value>>()
    };
    let says = |lines: &[Value], what: &str| lines.iter().any(|line| line["message"] == what);
    wait_until("its lines are there", || {
        let lines = of("build-7.damaged");
        // The second line is logged on the upload's own task, so it may come later.
        says(&lines, "request") && says(&lines, "upload failed")
    });
    let (head, _) = send(
        &server,
        &format!("GET /api/nothing\n{bearer}\nX-Request-Id: a b"),
        b"",
    );
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    let made = head
        .lines()
        .find_map(|line| line.strip_prefix("x-request-id: "));
    let made = made.unwrap_or_else(|| panic!("{head}")).to_owned();
    assert!(made.starts_with("req_"), "{made}");
    wait_until("the other one's too", || says(&of(&made), "request"));
    let line = of(&made).remove(0);
    assert!(
        line["timestamp"].is_string() && line["level"].is_string(),
        "{line}"
    );
}

#[test]
fn no_secret_is_in_the_log_at_any_level_in_any_format() {
    for format in ["text", "json"] {
        let folder = tempfile::tempdir().unwrap();
        let server = talkative(folder.path(), &["--log-format", format]);
        let bearer = format!("Authorization: Bearer {TOKEN}");
        let named = format!("PUT /api/upload/a.pickle\n{bearer}");
        let (_, body) = send(&server, &named, SNAPSHOTS[0]);
        let body = &body[body.find('{').unwrap()..=body.rfind('}').unwrap()];
        let uploaded: Value = serde_json::from_str(body).unwrap();
        let run = uploaded["run"]["id"].as_str().unwrap();
        let typed = format!(r#"{{"token":"{TOKEN}"}}"#);
        let (head, _) = send(&server, "POST /api/session", typed.as_bytes());
        let session = head.split("tidemark_session=").nth(1).unwrap();
        let session = session.split(';').next().unwrap().to_owned();
        assert!(session.len() >= 32, "{head}");
        let link = crate::durable::rig::new_share(run);
        let (_, body) = send(
            &server,
            &format!("POST /api/shares\n{bearer}"),
            link.as_bytes(),
        );
        let secret = body
            .split("/s/")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .to_owned();
        assert_eq!(secret.len(), 22, "{body}");
        let opening = format!(r#"{{"token":"{secret}"}}"#);
        let guess = "a-wrong-one-0123456789abcdef";
        for (head, body) in [
            (
                format!("GET /api/runs\nCookie: tidemark_session={session}"),
                "",
            ),
            (format!("GET /s/{secret}"), ""),
            (format!("GET /s/{secret}/card.svg"), ""),
            (format!("GET /{secret}?token={TOKEN}"), ""),
            (format!("GET /metrics/{secret}"), ""),
            (
                format!("GET /api/runs?token={TOKEN}&share={secret}\n{bearer}"),
                "",
            ),
            (format!("GET /api/runs/{run}?key={secret}\n{bearer}"), ""),
            ("POST /api/shares/open".to_owned(), opening.as_str()),
            (format!("GET /api/runs\nAuthorization: Bearer {guess}"), ""),
            (
                format!("POST /api/mcp\n{bearer}"),
                r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            ),
        ] {
            send(&server, &head, body.as_bytes());
        }
        ask_tools(&server, &bearer, &secret);
        send(&server, &format!("GET /metrics\n{bearer}"), b"");
        wait_until("all of it is logged", || {
            server.log().matches("/metrics").count() > 0
        });
        server_says_nothing_of(&server, &[TOKEN, &session, &secret, guess]);
    }
}

/// Names a secret in requests of the Model Context Protocol: as an argument, and as a method.
fn ask_tools(server: &Server, bearer: &str, secret: &str) {
    let head = format!("POST /api/mcp\n{bearer}\nAccept: application/json, text/event-stream");
    let link = json!({ "recording": format!("http://127.0.0.1/s/{secret}") });
    let explain = json!({ "name": "explain", "arguments": link });
    for (method, params) in [("tools/call", explain), (secret, json!({}))] {
        let asked = json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": params });
        let (head, body) = send(server, &head, asked.to_string().as_bytes());
        assert!(head.starts_with("HTTP/1.1 200"), "{head} {body}");
    }
}

fn server_says_nothing_of(server: &Server, secrets: &[&str]) {
    let log = server.log();
    assert!(log.contains("/s/…"), "{log}");
    for secret in secrets {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}
