//! Packed answers: those that never change, or seldom, are sent with an ETag and kept by browsers.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use std::io::Write;

/// Smaller answers are not packed.
const WORTH_PACKING: usize = 1024;

/// A packed answer, and how long it may be kept.
pub struct Packed {
    /// zstd of the body.
    pub zstd: Vec<u8>,
    /// The media type of the body.
    pub media_type: &'static str,
    /// Identifies the content.
    pub etag: String,
    /// Whether its address includes its version.
    pub keep: Keep,
}

/// How a browser may use its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Use it for ever: the address changes when the content does.
    Forever,
    /// Ask each time whether it is still the same.
    Ask,
}

/// How the bytes of an answer are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// As zstd, which is the fastest.
    Zstd,
    /// As gzip, which browsers take without TLS, too.
    Gzip,
    /// Not at all.
    Identity,
}

impl Packed {
    /// The answer to a request with these headers.
    pub fn respond(self, request: &HeaderMap) -> Response {
        let response = match is_known(request, &self.etag) {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => self.body(coding(request)),
        };
        with_validators(response, &self.etag, self.keep)
    }

    fn body(&self, coding: Coding) -> Response {
        let bytes = match coding {
            Coding::Zstd => Ok(self.zstd.clone()),
            Coding::Gzip => zstd::decode_all(&self.zstd[..]).and_then(|body| gzip(&body)),
            Coding::Identity => zstd::decode_all(&self.zstd[..]),
        };
        match bytes {
            Ok(bytes) => coded(bytes, coding, self.media_type),
            Err(_) => crate::problems::Error::Panicked.into_response(),
        }
    }
}

/// The answer "still the same", when the request names this content. Nothing needs to be looked up
/// for it, so `*`, which asks whether there is anything, does not count yet.
pub fn not_modified(request: &HeaderMap, etag: &str, keep: Keep) -> Option<Response> {
    is_named(request, etag).then(|| unchanged(etag, keep))
}

fn unchanged(etag: &str, keep: Keep) -> Response {
    with_validators(StatusCode::NOT_MODIFIED.into_response(), etag, keep)
}

/// JSON that may change at any time; packed if that is worth it.
pub fn json(request: &HeaderMap, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).expect("responses are plain data");
    let coding = coding(request);
    let packed = match coding {
        _ if body.len() < WORTH_PACKING => None,
        Coding::Zstd => zstd::bulk::compress(&body, 1).ok(),
        Coding::Gzip => gzip(&body).ok(),
        Coding::Identity => None,
    };
    let mut response = match packed {
        Some(packed) => coded(packed, coding, "application/json"),
        None => coded(body, Coding::Identity, "application/json"),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// JSON in one coding, for an answer that is kept here and sent to many.
///
/// # Errors
/// When there is no memory to pack it.
pub fn encoded(coding: Coding, value: &impl Serialize) -> std::io::Result<Bytes> {
    let body = serde_json::to_vec(value).expect("responses are plain data");
    let bytes = match coding {
        Coding::Zstd => zstd::bulk::compress(&body, 1)?,
        Coding::Gzip => gzip(&body)?,
        Coding::Identity => body,
    };
    Ok(Bytes::from(bytes))
}

/// The answer with JSON that was [`encoded`]; browsers ask each time whether it is still the same.
pub fn encoded_json(bytes: Bytes, coding: Coding, etag: &str) -> Response {
    with_validators(coded(bytes, coding, "application/json"), etag, Keep::Ask)
}

/// JSON that never changes, with its entity tag.
pub fn immutable_json(
    request: &HeaderMap,
    value: &impl Serialize,
    etag: String,
    keep: Keep,
) -> Response {
    match is_known(request, &etag) {
        true => unchanged(&etag, keep),
        false => with_validators(json(request, value), &etag, keep),
    }
}

fn coded(bytes: impl Into<Body>, coding: Coding, media_type: &'static str) -> Response {
    let mut response = Response::new(bytes.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    let name = match coding {
        Coding::Zstd => Some("zstd"),
        Coding::Gzip => Some("gzip"),
        Coding::Identity => None,
    };
    if let Some(name) = name {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    response
}

fn with_validators(mut response: Response, etag: &str, keep: Keep) -> Response {
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, etag);
    }
    // Private: a shared cache must not give it to somebody without the token.
    let control = match keep {
        Keep::Forever => "private, max-age=31536000, immutable",
        Keep::Ask => "private, no-cache",
    };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(control));
    response
}

/// Whether a request needs no body of something that exists and has this entity tag.
pub fn is_known(request: &HeaderMap, etag: &str) -> bool {
    none_match(request).any(|value| value.trim() == "*") || is_named(request, etag)
}

/// Whether a request names this entity tag. Weak tags and strong ones are compared alike.
fn is_named(request: &HeaderMap, etag: &str) -> bool {
    // What stands between quotation marks; `W/` stands before them, and nothing escapes them.
    let between = |text| str::split(text, '"').skip(1).step_by(2);
    let own = between(etag).next();
    own.is_some_and(|own| none_match(request).flat_map(between).any(|tag| tag == own))
}

fn none_match(request: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = request.get_all(header::IF_NONE_MATCH).iter();
    values.filter_map(|value| value.to_str().ok())
}

/// The best coding that the client accepts.
pub fn coding(request: &HeaderMap) -> Coding {
    let accepts = |name: &str| accepts(request, name);
    match () {
        () if accepts("zstd") => Coding::Zstd,
        () if accepts("gzip") => Coding::Gzip,
        () => Coding::Identity,
    }
}

/// Whether the client accepts a coding. Of all weights, only a refusal (`;q=0`) matters here.
pub fn accepts(request: &HeaderMap, coding: &str) -> bool {
    let values = request.get_all(header::ACCEPT_ENCODING).iter();
    let mut offers = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    offers.any(|offer| {
        let (name, weight) = offer.split_once(';').unwrap_or((offer, ""));
        let weight = weight.trim().strip_prefix("q=").map(str::parse::<f32>);
        name.trim().eq_ignore_ascii_case(coding) && !matches!(weight, Some(Ok(0.0)))
    })
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let level = flate2::Compression::new(4);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn the_best_coding_that_the_client_takes_is_used() {
        let check = |accepted: &'static str, expected: Coding| {
            let request = headers(header::ACCEPT_ENCODING, accepted);
            assert_eq!(coding(&request), expected, "{accepted}");
        };
        check("gzip, deflate, br, zstd", Coding::Zstd);
        check("gzip, zstd;q=0", Coding::Gzip);
        check("br", Coding::Identity);
        check("", Coding::Identity);
    }

    #[test]
    fn a_known_tag_needs_no_body() {
        let check = |sent: &'static str, etag: &str, expected: [bool; 2]| {
            let request = headers(header::IF_NONE_MATCH, sent);
            let found = [is_named(&request, etag), is_known(&request, etag)];
            assert_eq!(found, expected, "{sent} {etag}");
        };
        check(r#""a", "b""#, r#""b""#, [true, true]);
        check(r#""a", "b""#, r#""c""#, [false, false]);
        check(r#"W/"a", "b""#, r#""a""#, [true, true]);
        check(r#""a""#, r#"W/"a""#, [true, true]);
        check(r#""x", W/"a,b""#, r#"W/"a,b""#, [true, true]);
        check(r#""a,b""#, r#"W/"a""#, [false, false]);
        check("*", r#""c""#, [false, true]);
        check(r#""*""#, r#""c""#, [false, false]);
        check("c", r#""c""#, [false, false]);
    }
}
