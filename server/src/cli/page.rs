//! `tidemark page`: serves the page that needs no server (`docs/local.md`) on this machine. It
//! opens no data folder, and has no API: the files stay in the browser.

use super::CliError;
use crate::who::host_names::WebOrigin;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use clap::Args;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;

const EXAMPLES: &str = "\
Examples:
  ./run --page DIR                           build the page (in a clone of the repository)
  tidemark page DIR                          serve it at http://127.0.0.1:7878
  tidemark page DIR --server https://tidemark.example
                                             Share may send files there (docs/local.md)

Any web server can serve the folder, at the root of a host. Addresses that are no file (that of a
run) show index.html; most hosts do that with 404.html.";

/// The part of the page's policy that says where it may send anything; `webbuild` writes it.
const CONNECTS: &str = "connect-src 'self'";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PageArgs {
    /// The folder that `./run --page` wrote
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The server that Share may send files to, in place of the one that the page was built with;
    /// that server must name this page (`serve --allow-page`)
    #[arg(long, value_name = "URL")]
    server: Option<WebOrigin>,
    /// Where to listen; only this machine can reach it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
}

/// Serves the folder until the process is stopped.
///
/// # Errors
/// When the folder has no page, or the address is not of this machine or in use.
pub fn page(args: &PageArgs) -> Result<(), CliError> {
    if !args.listen.ip().is_loopback() {
        return Err(CliError::Usage(format!(
            "{} can be reached by others. This is for one machine: let a web server serve the \
             folder to others",
            args.listen
        )));
    }
    if args.server.as_ref().is_some_and(WebOrigin::is_ipv6) {
        let why = "--server: a page cannot be allowed to ask an IPv6 address; give the name";
        return Err(CliError::Usage(why.to_owned()));
    }
    if !args.folder.join("index.html").is_file() {
        return Err(CliError::BadInput {
            path: args.folder.clone(),
            why: "there is no index.html: build the page with `./run --page DIR`".to_owned(),
        });
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let failed = |error: std::io::Error| CliError::Failed(format!("cannot serve: {error}"));
    runtime.map_err(failed)?.block_on(async {
        let listener = TcpListener::bind(args.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // Fails only if nobody reads stderr any more.
        let _ = writeln!(std::io::stderr(), "listening on http://{address}");
        let site = Arc::new(Site {
            folder: args.folder.clone(),
            server: args.server.clone(),
        });
        let served = Router::new().fallback(file).with_state(site);
        axum::serve(listener, served).await.map_err(failed)
    })
}

/// What is served.
struct Site {
    folder: PathBuf,
    server: Option<WebOrigin>,
}

/// A file of the folder; the page for an address that is none.
async fn file(State(site): State<Arc<Site>>, uri: Uri) -> Response {
    let Some(name) = named(uri.path()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Ok(mut bytes) = tokio::fs::read(site.folder.join(&name)).await else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if let (Some(server), true) = (&site.server, name.ends_with(".html")) {
        bytes = with_server(&String::from_utf8_lossy(&bytes), server).into_bytes();
    }
    let keep = match name.starts_with("assets/") {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let mut response = Body::from(bytes).into_response();
    for (header, value) in [
        (header::CONTENT_TYPE, kind(&name)),
        (header::CACHE_CONTROL, keep),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(header, value);
    }
    response
}

/// The page with another server in its content security policy. The page itself reads there where
/// it may send files, so it can never try another one.
fn with_server(page: &str, server: &WebOrigin) -> String {
    match page.split_once(CONNECTS) {
        Some((before, rest)) => {
            let after = rest.find(';').map_or("", |end| &rest[end..]);
            format!("{before}{CONNECTS} {server}{after}")
        }
        None => page.to_owned(),
    }
}

/// The name of the file for an address; `None` where a file cannot be.
fn named(path: &str) -> Option<String> {
    let is_name = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(plain)
    };
    let name = path.trim_matches('/');
    let last = name.rsplit('/').next().unwrap_or_default();
    match () {
        // Addresses of the page have no dots, and may be anything else.
        () if !last.contains('.') => Some("index.html".to_owned()),
        () if name.split('/').all(is_name) => Some(name.to_owned()),
        () => None,
    }
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_may_ask_one_server_and_no_other() {
        let server = "https://new.example".parse().unwrap();
        let check = |policy: &str, expected: &str| {
            let page = |policy: &str| format!("<meta content=\"img-src 'self'; {policy}\"><p>;");
            assert_eq!(with_server(&page(policy), &server), page(expected));
        };
        let after = "connect-src 'self' https://new.example; font-src 'self'";
        check("connect-src 'self'; font-src 'self'", after);
        check(
            "connect-src 'self' https://old.example; font-src 'self'",
            after,
        );
        check("font-src 'self'", "font-src 'self'");
    }

    #[test]
    fn an_address_names_a_file_below_the_folder_or_the_page() {
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(named(path).as_deref(), expected, "{path}");
        };
        check("/", Some("index.html"));
        check("/runs/run_abc", Some("index.html"));
        check("/assets/0f/worker.js", Some("assets/0f/worker.js"));
        check("/../secret.txt", None);
        check("/assets/..", None);
        check("/assets/%2e%2e/secret.txt", None);
        check("/.git/config.txt", None);
    }
}
