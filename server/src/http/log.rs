//! One line in the log for each request, and the id that all lines of a request carry.
//!
//! A proxy or a client may choose the id (`X-Request-Id`); the answer says which it is. What is
//! logged of a request is its method, the kind of its path, its status and its time: a token or a
//! link's secret may be in everything else.

use crate::identity::request_id;
use crate::problems::Error;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::time::Instant;
use tracing::Instrument;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Characters of an id that somebody else chose, at most.
const LONGEST: usize = 64;

/// Logs a request, and gives everything that is logged on the way its id.
pub async fn log(request: Request, next: Next) -> Response {
    let id = id_of(request.headers());
    // Of the highest level, so that a filter leaves it to the lines that it lets through.
    let span = tracing::error_span!("request", id = %id);
    let mut response = logged(request, next).instrument(span).await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, id);
    }
    response
}

async fn logged(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = Instant::now();
    // A panic in a handler is a defect, but not a reason to drop the connection without a word.
    let handled = tokio::spawn(next.run(request).in_current_span()).await;
    let response = handled.unwrap_or_else(|_| Error::Panicked.into_response());
    let status = response.status().as_u16();
    let duration_ms = began.elapsed().as_millis() as u64;
    tracing::debug!(%method, path = told(&path), status, duration_ms, "request");
    response
}

/// The id that came along, if it is a plain one; else a new one.
fn id_of(headers: &HeaderMap) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let sent = headers.get(HEADER).and_then(|value| value.to_str().ok());
    let sent = sent.filter(|id| (1..=LONGEST).contains(&id.len()) && id.chars().all(plain));
    sent.map_or_else(request_id, str::to_owned)
}

/// What the log may show of a path. Outside of the API and the front end's files it may hold a
/// link's secret, so only its kind is shown.
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
