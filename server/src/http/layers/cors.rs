//! Pages of other sites that the operator named (`serve --allow-page`): a page without a server
//! (`docs/local.md`) sends its recordings here and asks for a link to them. It can do nothing else.
//!
//! Such a page shows a token. What the browser adds by itself, because its user is signed in here
//! or at a proxy, is taken away before anybody looks at it.

use super::super::extract::Host;
use crate::app::App;
use crate::config::Config;
use crate::problems::Error;
use crate::who::host_names::WebOrigin;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// All that such a page may ask.
const OPEN: [(&str, &str); 5] = [
    ("GET", "/api/server"),
    ("GET", "/api/projects"),
    ("GET", "/api/runs/{run}"),
    ("PUT", "/api/upload/{name}"),
    ("POST", "/api/shares"),
];

/// The headers that it may send.
const SENT: &str = "authorization, content-encoding, content-type, tidemark-project";

/// How long a browser remembers that it may, seconds.
const REMEMBERED: &str = "600";

/// Marks a request of such a page.
#[derive(Clone, Copy, Debug)]
pub struct Admitted;

/// Answers the browser's question whether a page may ask, lets in what it may ask, and lets the
/// page read the answer. Everything else is treated as from any other site.
pub async fn admit(
    State(app): State<Arc<App>>,
    Host(host): Host,
    request: Request,
    next: Next,
) -> Response {
    let Some(page) = page_of(&app.config, request.headers()) else {
        return next.run(request).await;
    };
    if is_own_page(&app, request.headers(), &host) {
        return next.run(request).await;
    }
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = asked(&request);
    let may = |(of, path): &(&str, &str)| {
        *of == method && route.as_ref().is_some_and(|route| *path == route.as_str())
    };
    let Some((method, _)) = OPEN.iter().find(|open| may(open)) else {
        return next.run(request).await;
    };
    let mut response = match request.method() {
        &Method::OPTIONS => allowed(method),
        _ => match shown(&app, request) {
            Ok(request) => next.run(request).await,
            Err(error) => error.into_response(),
        },
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    response
}

/// The page's origin, as the header has it, if the operator named it.
fn page_of(config: &Config, headers: &HeaderMap) -> Option<HeaderValue> {
    let mut sent = headers.get_all(header::ORIGIN).iter();
    let origin = sent.next().filter(|_| sent.next().is_none())?;
    let text = origin.to_str().ok()?;
    let is = |page: &WebOrigin| page.is(text);
    config.pages.iter().any(is).then(|| origin.clone())
}

/// The method of a request, or the one that a browser asks about before it sends the request.
fn asked(request: &Request) -> String {
    let named = request.headers().get(header::ACCESS_CONTROL_REQUEST_METHOD);
    match (request.method(), named) {
        (&Method::OPTIONS, Some(named)) => named.to_str().unwrap_or_default().to_owned(),
        (method, _) => method.to_string(),
    }
}

fn allowed(method: &'static str) -> Response {
    let headers: [(HeaderName, &str); 3] = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, method),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, SENT),
        (header::ACCESS_CONTROL_MAX_AGE, REMEMBERED),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// The request with nothing but its token to show for itself.
///
/// # Errors
/// When it has no token, and when this server knows none: then anybody on this machine may do
/// everything, and a page of another site is not on this machine.
fn shown(app: &App, mut request: Request) -> Result<Request, Error> {
    if app.gate.is_open() {
        return Err(Error::Foreign(
            "here nobody signs in, so pages of other sites may do nothing; add a person (`tidemark \
             people add`), and show that person's token",
        ));
    }
    let headers = request.headers_mut();
    if !headers.contains_key(header::AUTHORIZATION) {
        return Err(Error::TokenNeeded);
    }
    headers.remove(header::COOKIE);
    if let Some(user) = &app.config.user_header {
        headers.remove(&user.name);
    }
    request.extensions_mut().insert(Admitted);
    Ok(request)
}

/// Whether a request comes from this server's own pages, or from no page at all.
pub fn is_own_page(app: &App, headers: &HeaderMap, host: &str) -> bool {
    let public = app.config.public_url.as_ref().map(ToString::to_string);
    is_own(headers, host, public.as_deref())
}

fn is_own(headers: &HeaderMap, host: &str, public: Option<&str>) -> bool {
    let text = |name: &str| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap_or_default())
    };
    // Browsers say where a request comes from; other programs do not.
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => site == "same-origin" || site == "none",
        (None, Some(origin)) => {
            let same = |(_, from): (&str, &str)| from.eq_ignore_ascii_case(host);
            let is_public = public.is_some_and(|url| url.eq_ignore_ascii_case(origin));
            is_public || origin.split_once("://").is_some_and(same)
        }
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_pages_and_programs_may_change_anything() {
        let check = |pairs: &[(&'static str, &'static str)], ok: bool| {
            let pairs = pairs.iter();
            let headers = pairs
                .map(|&(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v)))
                .collect();
            let own = is_own(&headers, "localhost:7878", Some("https://a.example"));
            assert_eq!(own, ok, "{headers:?}");
        };
        check(&[], true);
        check(&[("sec-fetch-site", "same-origin")], true);
        check(&[("sec-fetch-site", "cross-site")], false);
        check(&[("sec-fetch-site", "same-site")], false);
        check(&[("origin", "http://localhost:7878")], true);
        check(&[("origin", "https://a.example")], true);
        check(&[("origin", "http://a.example")], false);
        check(&[("origin", "http://evil.example")], false);
        check(&[("origin", "null")], false);
    }
}
