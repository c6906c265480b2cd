//! The `tidemark` binary.

mod web_assets;

use std::env;

use axum::Router;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

const CSP: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; object-src 'none'; \
                   base-uri 'none'; frame-ancestors 'none'";

async fn asset(uri: Uri) -> Response {
    let path = uri.path();
    let asset = match web_assets::get(path) {
        Some(asset) => asset,
        None if path.starts_with("/assets/") => return StatusCode::NOT_FOUND.into_response(),
        None => web_assets::index(),
    };
    let headers = [
        (header::CONTENT_TYPE, asset.mime),
        (header::CONTENT_SECURITY_POLICY, CSP),
    ];
    (headers, asset.bytes).into_response()
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let args: Vec<String> = env::args().collect();
    let listen = args.iter().position(|arg| arg == "--listen");
    let address = listen.map_or("127.0.0.1:7878", |at| args[at + 1].as_str());
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, Router::new().fallback(asset)).await
}
