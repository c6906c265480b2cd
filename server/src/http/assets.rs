//! The front end's files.

use super::extract::Client;
use super::here::{self, Here};
use super::packed::accepts;
use super::shell;
use crate::access::{Entry, Place};
use crate::names::Scheme;
use crate::problems::Error;
use crate::site::{Asset, Site};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::borrow::Cow;

/// Answers all addresses without a route of their own: with a file, or with the page for the front
/// end's own router.
pub async fn serve(Here(app): Here, client: Client, request: Request) -> Result<Response, Error> {
    let path = request.uri().path();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if path == "/api" || path.starts_with("/api/") {
        return Err(Error::NoRoute(path.to_owned()));
    }
    if !reads {
        return Err(Error::Method(request.method().to_string()));
    }
    let site = &app.config.site;
    match site.get(path) {
        Some(asset) => Ok(respond(asset, request.headers())),
        None if path.starts_with("/assets/") => Err(Error::NoRoute(path.to_owned())),
        None => Ok(index(
            site,
            request.headers(),
            Showing::of(&request, client),
        )),
    }
}

/// The project that a page shows, on a server that has several, and how the browser came.
pub struct Showing {
    place: Place,
    scheme: Scheme,
}

impl Showing {
    /// Reads this from a request.
    pub fn of(request: &Request, client: Client) -> Option<Showing> {
        Showing::to(request.extensions().get::<Entry>()?, client)
    }

    /// The project of somebody who came in.
    pub fn to(entry: &Entry, client: Client) -> Option<Showing> {
        Some(Showing {
            place: entry.place.clone()?,
            scheme: client.scheme,
        })
    }

    /// The page, of this project. The browser remembers the project for other pages.
    pub fn page(&self, index: &str) -> Response {
        let headers = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
            (header::CACHE_CONTROL, "private, no-cache".to_owned()),
            (
                header::SET_COOKIE,
                here::cookie(&self.place.project, self.scheme),
            ),
        ];
        (headers, shell::page_of_project(index, &self.place)).into_response()
    }
}

/// The page with more in its head, which depends on its address.
pub fn page(site: &Site, head: &str, showing: Option<Showing>) -> Response {
    let index = site.index();
    let page = String::from_utf8_lossy(&index.bytes);
    let page = page.replacen("</head>", &format!("{head}</head>"), 1);
    if let Some(showing) = showing {
        return showing.page(&page);
    }
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "private, no-cache"),
    ];
    (headers, page).into_response()
}

/// The page, which reads from its address what to show.
pub fn index(site: &Site, request: &HeaderMap, showing: Option<Showing>) -> Response {
    let index = site.index();
    match showing {
        None => respond(index, request),
        Some(showing) => showing.page(&String::from_utf8_lossy(&index.bytes)),
    }
}

fn respond(asset: Asset, request: &HeaderMap) -> Response {
    let etag = format!("\"{}\"", &blake3::hash(&asset.bytes).to_hex()[..32]);
    let known = request.get(header::IF_NONE_MATCH);
    if known.is_some_and(|tag| tag.as_bytes() == etag.as_bytes()) {
        return with_headers(StatusCode::NOT_MODIFIED.into_response(), &asset, &etag);
    }
    let brotli = asset.brotli.filter(|_| accepts(request, "br"));
    let content = brotli.map_or_else(|| asset.bytes.clone(), Cow::Borrowed);
    let mut response = Response::new(Body::from(content));
    if brotli.is_some() {
        let coding = HeaderValue::from_static("br");
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, coding);
    }
    with_headers(response, &asset, &etag)
}

fn with_headers(mut response: Response, asset: &Asset, etag: &str) -> Response {
    // The files are the same for everybody, so caches may share them.
    let control = match asset.immutable {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let headers = response.headers_mut();
    if let Ok(mime) = HeaderValue::from_str(&asset.mime) {
        headers.insert(header::CONTENT_TYPE, mime);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(control));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, etag);
    }
    response
}
