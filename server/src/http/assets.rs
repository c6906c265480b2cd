//! The front end's files.

use super::cookies;
use super::extract::Client;
use super::here::Here;
use super::packed::{accepts, is_known};
use super::permits;
use super::shell;
use crate::page_files::{Asset, Site};
use crate::problems::Error;
use crate::who::access::{Entry, Membership};
use crate::who::host_names::Scheme;
use api::people::Scope;
use api::runs::Access;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
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
        None => {
            let entry = request.extensions().get::<Entry>();
            // In no project, every request of the page would be refused.
            entry.map_or(Ok(()), permits::in_a_project)?;
            let showing = entry.and_then(|entry| Showing::to(entry, client));
            Ok(index(site, request.headers(), showing))
        }
    }
}

/// What a page depends on besides its files: the project that it shows, on a server that has
/// several, what whoever looks at it may not do, and how the browser came.
pub struct Showing {
    membership: Option<Membership>,
    may_not: Vec<Scope>,
    scheme: Scheme,
}

impl Showing {
    /// The page for somebody who came in; `None` if it is the same as for most.
    pub fn to(entry: &Entry, client: Client) -> Option<Showing> {
        let is_in = entry.access == Access::Granted;
        let needed = [Scope::Upload, Scope::Manage].into_iter();
        let may_not: Vec<Scope> = needed.filter(|s| is_in && !entry.may(*s)).collect();
        let is_special = entry.membership.is_some() || !may_not.is_empty();
        is_special.then(|| Showing {
            membership: entry.membership.clone(),
            may_not,
            scheme: client.scheme,
        })
    }

    /// The page. The browser remembers its project for other pages.
    pub fn page(&self, index: &str) -> Response {
        let headers = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CACHE_CONTROL, "private, no-cache"),
        ];
        let cookie = self.membership.as_ref().map(|membership| {
            let cookie = cookies::of_project(&membership.project, self.scheme);
            AppendHeaders([(header::SET_COOKIE, cookie)])
        });
        let page = shell::page_for(index, self.membership.as_ref(), &self.may_not);
        (headers, cookie, page).into_response()
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
    if is_known(request, &etag) {
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
