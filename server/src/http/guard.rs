//! What every request passes on its way in, and every response on its way out.

use super::audience::{self, Asking};
use super::error::Error;
use super::extract::Host;
use crate::access::COOKIE;
use crate::app::App;
use api::routes;
use api::runs::Access;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;

/// Nothing from elsewhere; no inline code; nobody may frame the page.
const CSP: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
                   img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; \
                   form-action 'self'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CSP),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Adds the headers that every response carries.
pub async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Without a token, only requests to a loopback name: a page from elsewhere can make its own name
/// mean 127.0.0.1 ("DNS rebinding"), but it cannot make the browser write another one here.
pub async fn check_host(
    State(app): State<Arc<App>>,
    Host(host): Host,
    request: Request,
    next: Next,
) -> Result<Response, Error> {
    match !app.gate.is_open() || is_loopback(&host) {
        true => Ok(next.run(request).await),
        false => Err(Error::Foreign(
            "this server answers to localhost and 127.0.0.1 only; configure an access token to \
             serve it under another name",
        )),
    }
}

/// Requests that change something must come from this server's own pages or from no page at all.
pub async fn check_origin(
    Host(host): Host,
    request: Request,
    next: Next,
) -> Result<Response, Error> {
    let reads = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    match reads || is_own_page(request.headers(), &host) {
        true => Ok(next.run(request).await),
        false => Err(Error::Foreign(
            "requests from other sites' pages may not change anything",
        )),
    }
}

/// The API needs the token, if there is one, or a link that opens what is asked for; the page
/// itself does not, for it asks for it.
pub async fn check_token(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Error> {
    let path = request.uri().path();
    let public = [routes::SERVER, routes::SESSION, routes::OPEN_SHARE];
    if path.starts_with("/api/") && !public.contains(&path) {
        let access = access(&app, request.headers());
        let audience = audience::of(&app, Asking::of(&request), access).await?;
        request.extensions_mut().insert(audience);
    }
    Ok(next.run(request).await)
}

/// What the sender of these headers may do.
pub fn access(app: &App, headers: &HeaderMap) -> Access {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim())
    });
    let session = cookies(headers).find(|(name, _)| *name == COOKIE);
    app.gate.check(bearer, session.map(|(_, value)| value))
}

/// Names and values of the cookies.
pub fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let cookies = headers.get_all(header::COOKIE).iter();
    cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address = name.parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
}

fn is_own_page(headers: &HeaderMap, host: &str) -> bool {
    let text = |name: &str| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap_or_default())
    };
    // Browsers say where a request comes from; other programs say nothing.
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => site == "same-origin" || site == "none",
        (None, Some(origin)) => origin
            .split_once("://")
            .is_some_and(|(_, from)| from.eq_ignore_ascii_case(host)),
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_with_any_port_are_own() {
        let check = |host: &str, ok: bool| assert_eq!(is_loopback(host), ok, "{host}");
        check("localhost:7878", true);
        check("127.0.0.1", true);
        check("[::1]:7878", true);
        check("evil.example:7878", false);
        check("127.0.0.1.evil.example", false);
        check("localhost.evil.example:7878", false);
        check("", false);
    }

    #[test]
    fn only_own_pages_and_programs_may_change_anything() {
        let check = |pairs: &[(&'static str, &'static str)], ok: bool| {
            let pairs = pairs.iter();
            let headers = pairs
                .map(|&(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v)))
                .collect();
            assert_eq!(is_own_page(&headers, "localhost:7878"), ok, "{headers:?}");
        };
        check(&[], true);
        check(&[("sec-fetch-site", "same-origin")], true);
        check(&[("sec-fetch-site", "cross-site")], false);
        check(&[("sec-fetch-site", "same-site")], false);
        check(&[("origin", "http://localhost:7878")], true);
        check(&[("origin", "http://evil.example")], false);
        check(&[("origin", "null")], false);
    }
}
