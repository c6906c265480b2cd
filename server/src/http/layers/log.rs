//! One line in the log for each request, and the id that all lines of a request carry.
//!
//! A proxy or a client may choose the id (`X-Request-Id`), and the answer repeats it. Only the
//! method, the kind of path, the status and the time of a request are logged: all other parts may
//! contain a token or a link's secret.

use super::hang_up;
use crate::identity::request_id;
use crate::problems::Error;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::time::Instant;
use tracing::Instrument;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that somebody else may choose, characters.
const LONGEST: usize = 64;

/// Logs a request, and adds its id to everything that is logged during it.
pub async fn log(request: Request, next: Next) -> Response {
    let id = id_of(request.headers());
    // The span has the highest level, so that no filter removes the id from lines that it keeps.
    let span = tracing::error_span!("request", id = %id);
    let mut response = logged(request, next).instrument(span).await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, id);
    }
    response
}

async fn logged(mut request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = Instant::now();
    let _noticed = hang_up::noticed(&mut request);
    // A panic in a handler is a defect, but the client should still get an answer. And the task
    // goes on when the client has gone: only questions end (`http/layers/hang_up.rs`).
    let handled = tokio::spawn(next.run(request).in_current_span()).await;
    let response = handled.unwrap_or_else(|_| Error::Panicked.into_response());
    let status = response.status().as_u16();
    let duration_ms = began.elapsed().as_millis() as u64;
    tracing::debug!(%method, path = told(&path), status, duration_ms, "request");
    response
}

/// The id in the request, if it is plain; otherwise a new one.
fn id_of(headers: &HeaderMap) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let sent = headers.get(HEADER).and_then(|value| value.to_str().ok());
    let sent = sent.filter(|id| (1..=LONGEST).contains(&id.len()) && id.chars().all(plain));
    sent.map_or_else(request_id, str::to_owned)
}

/// The part of a path that may be logged. Outside of the API and the front end's files, a path may
/// contain a link's secret, so only its kind is logged.
fn told(path: &str) -> &str {
    match path.split('/').nth(1) {
        Some("api" | "assets" | "runs") => path,
        Some("healthz" | "readyz" | "metrics") if path.matches('/').count() == 1 => path,
        Some("s") => "/s/…",
        _ => "/…",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_ids_of_others_are_taken() {
        let check = |sent: &[u8], taken: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_bytes(sent).unwrap());
            let id = id_of(&headers);
            assert_eq!(id.as_bytes() == sent, taken, "{sent:?}: {id}");
            assert!(taken || id.starts_with("req_"), "{id}");
        };
        check(b"7b0c2a1e-5d0f-4a64-9d5e-0a4c8a7f1c11", true);
        check(b"Root.1_a", true);
        check(&[b'a'; 64], true);
        check(&[b'a'; 65], false);
        check(b"", false);
        check(b"two words", false);
        check("\u{202e}".as_bytes(), false);
        check(b"\xff\xfe", false);
        assert_ne!(id_of(&HeaderMap::new()), id_of(&HeaderMap::new()));
    }
}
