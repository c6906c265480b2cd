//! The front end's files.

use super::packed::accepts;
use crate::problems::Error;
use crate::web_assets::{self, Asset};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Whatever no route takes: a file, or the page for the front end's own router.
pub async fn serve(request: Request) -> Result<Response, Error> {
    let path = request.uri().path();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    // Programs ask for measurements there: the page would only mislead them.
    if path == "/api" || path.starts_with("/api/") || path == "/metrics" {
        return Err(Error::NoRoute(path.to_owned()));
    }
    if !reads {
        return Err(Error::Method(request.method().to_string()));
    }
    match web_assets::get(path) {
        Some(asset) => Ok(respond(asset, request.headers())),
        None if path.starts_with("/assets/") => Err(Error::NoRoute(path.to_owned())),
        None => Ok(index(request.headers())),
    }
}

/// The page, which finds out from its address what it shows.
pub fn index(request: &HeaderMap) -> Response {
    respond(web_assets::index(), request)
}

fn respond(asset: &'static Asset, request: &HeaderMap) -> Response {
    let etag = format!("\"{}\"", &blake3::hash(asset.bytes).to_hex()[..32]);
    let known = request.get(header::IF_NONE_MATCH);
    if known.is_some_and(|tag| tag.as_bytes() == etag.as_bytes()) {
        return with_headers(StatusCode::NOT_MODIFIED.into_response(), asset, &etag);
    }
    let brotli = asset.brotli.filter(|_| accepts(request, "br"));
    let mut response = Response::new(Body::from(brotli.unwrap_or(asset.bytes)));
    if brotli.is_some() {
        let coding = HeaderValue::from_static("br");
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, coding);
    }
    with_headers(response, asset, &etag)
}

fn with_headers(mut response: Response, asset: &'static Asset, etag: &str) -> Response {
    // The files are the same for everybody: caches may share them.
    let control = match asset.immutable {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.mime));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(control));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, etag);
    }
    response
}
