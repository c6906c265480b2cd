//! Checks for every request on its way in, and headers for every response on its way out.

use super::super::addresses::is_guarded;
use super::super::audience::{self, Asking};
use super::super::extract::{Client, Host};
use super::super::here::Here;
use super::super::permits;
use super::cors::{Admitted, is_own_page};
use crate::app::App;
use crate::config::Config;
use crate::limits::clients::{ClientAddress, Peer};
use crate::problems::{Deleted, Elsewhere, Error};
use crate::who::access::Entry;
use crate::who::host_names::{Authority, Scheme};
use api::runs::Access;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// Nothing from other sites, no inline code, and no other page may frame this one.
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
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = next.run(request).await;
    if is_api {
        // Whatever says nothing else may be private.
        let entry = response.headers_mut().entry(header::CACHE_CONTROL);
        entry.or_insert(HeaderValue::from_static("no-store"));
    }
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Finds the client: the other end of the connection, or the client that a trusted proxy names.
pub async fn identify(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let client = client_of(&app.config, peer, request.headers());
    request.extensions_mut().insert(client);
    next.run(request).await
}

fn client_of(config: &Config, peer: Option<Peer>, headers: &HeaderMap) -> Client {
    let public = config.public_url.as_ref().map(|url| url.scheme);
    let Some(Peer { remote, local }) = peer else {
        return Client {
            address: ClientAddress::UNKNOWN,
            scheme: public.unwrap_or(Scheme::Http),
            local: None,
            by_proxy: false,
        };
    };
    let values = |name: &'static str| {
        let values = headers.get_all(name).iter();
        values.filter_map(|value| value.to_str().ok())
    };
    let by_proxy = config.proxies.has(remote.ip());
    let said_tls = values("x-forwarded-proto").next_back() == Some("https");
    let scheme = match by_proxy && said_tls {
        true => Scheme::Https,
        false => public.unwrap_or(Scheme::Http),
    };
    Client {
        address: config
            .proxies
            .client(remote.ip(), values("x-forwarded-for")),
        scheme,
        local: Some(local.ip()),
        by_proxy,
    }
}

/// Allows only requests that use a name of this server. A page from elsewhere can let its own name
/// point to this address ("DNS rebinding"), but the browser then sends that name as the host.
/// Allowed names are also written into links.
pub async fn check_host(
    State(app): State<Arc<App>>,
    client: Client,
    Host(host): Host,
    request: Request,
    next: Next,
) -> Result<Response, Error> {
    let named = Authority::parse(&host);
    if named
        .as_ref()
        .is_some_and(|host| is_known(&app, client, host))
    {
        return Ok(next.run(request).await);
    }
    let refused = Error::Foreign(match app.gate.is_open() {
        true => {
            "this server answers to localhost and 127.0.0.1 only; configure an access token to \
             serve it under another name"
        }
        false => {
            "this server does not know itself under this name; start it with --public-url \
             http://NAME:PORT, or https://NAME behind a proxy"
        }
    });
    let mut response = refused.into_response();
    let known = known_address(&app, client, named.and_then(|host| host.port()));
    response.extensions_mut().insert(Elsewhere(known));
    Ok(response)
}

/// An address under which this server answers whoever asks. The port is the one that was asked.
fn known_address(app: &App, client: Client, port: Option<u16>) -> String {
    if let Some(url) = &app.config.public_url {
        return format!("{url}/");
    }
    let host = match client.local {
        Some(ip) if !app.gate.is_open() && ip.is_ipv6() => format!("[{ip}]"),
        Some(ip) if !app.gate.is_open() => ip.to_string(),
        _ => "localhost".to_owned(),
    };
    let port = port.map_or(String::new(), |port| format!(":{port}"));
    format!("{}://{host}{port}/", client.scheme.name())
}

/// The public address and loopback. If there is a token, also the name of this machine, and the
/// address to which the client connected.
fn is_known(app: &App, client: Client, host: &Authority) -> bool {
    let public = app.config.public_url.as_ref();
    if host.is_loopback() || public.is_some_and(|url| host.is_host_of(&url.authority)) {
        return true;
    }
    let listens = app.config.listen.ip();
    let own = |ip: IpAddr| client.local == Some(ip) || !ip.is_unspecified() && ip == listens;
    !app.gate.is_open()
        && public.is_none()
        && (host.ip().is_some_and(own) || host.is_machine(&app.hostname))
}

/// A request that changes something must come from this server's own pages, from a page that the
/// operator named (`cors`), or from a program without a page.
pub async fn check_origin(
    State(app): State<Arc<App>>,
    Host(host): Host,
    request: Request,
    next: Next,
) -> Result<Response, Error> {
    let reads = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    let admitted = request.extensions().get::<Admitted>().is_some();
    match reads || admitted || is_own_page(&app, request.headers(), &host) {
        true => Ok(next.run(request).await),
        false => Err(Error::Foreign(
            "requests from other sites' pages may not change anything",
        )),
    }
}

/// If there is a token, the API and the measurements need it, or a link that opens the requested
/// data. The page itself does not need it, because it asks for it.
pub async fn check_token(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Error> {
    let path = request.uri().path();
    // `here::find` has noted who asks, and for which project.
    let found = request.extensions().get::<Entry>().cloned();
    if is_guarded(path) {
        let entry = found.ok_or(Error::TokenNeeded)?;
        let app = here(&app, &request);
        let audience = audience::of(&app, Asking::of(&request), entry.access).await?;
        if entry.access != Access::TokenNeeded {
            permits::check(&entry, request.method(), request.uri().path())?;
            app.gate.note_use(&entry, app.store.latest_ms()).await;
        }
        let is_of_link = audience.is_of_link();
        request.extensions_mut().insert(audience);
        let response = next.run(request).await;
        return match response.extensions().get::<Deleted>() {
            Some(deleted) if is_of_link => Err(deleted.for_link()),
            _ => Ok(response),
        };
    }
    Ok(next.run(request).await)
}

fn here(main: &Arc<App>, request: &Request) -> Arc<App> {
    let found = request.extensions().get::<Here>();
    found.map_or_else(|| Arc::clone(main), |Here(app)| Arc::clone(app))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::clients::Proxies;

    #[test]
    fn only_a_trusted_proxy_tells_of_tls_and_of_others() {
        let check = |remote: &str, public: Option<&str>, scheme: Scheme, who: &str| {
            let config = Config {
                proxies: Proxies::parse(["10.0.0.1"]).unwrap(),
                public_url: public.map(|url| url.parse().unwrap()),
                ..Config::new(std::path::PathBuf::new())
            };
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
            headers.insert("x-forwarded-for", HeaderValue::from_static("203.0.113.5"));
            let (remote, local) = (remote.parse().unwrap(), "10.0.0.2:80".parse().unwrap());
            let client = client_of(&config, Some(Peer { remote, local }), &headers);
            assert_eq!(
                (client.scheme, client.address.to_string().as_str()),
                (scheme, who)
            );
        };
        check("10.0.0.1:5", None, Scheme::Https, "203.0.113.5");
        check("10.0.0.3:5", None, Scheme::Http, "10.0.0.3");
        check("127.0.0.1:5", None, Scheme::Http, "127.0.0.1");
        check(
            "10.0.0.3:5",
            Some("https://a.example"),
            Scheme::Https,
            "10.0.0.3",
        );
        check(
            "10.0.0.3:5",
            Some("http://a.example"),
            Scheme::Http,
            "10.0.0.3",
        );
    }
}
