//! Ends the work for a client that has gone.
//!
//! Hyper drops a request's future when its connection closes. The guards must not end there: they
//! change memory after the database. So they, and every request that changes something, run in a
//! task of their own (`http/layers/log.rs`) and to their end. Only the handler of a question is
//! dropped, and with it what the question waits for.

use super::super::audited;
use crate::limits::answering::Refused;
use crate::problems::Error;
use api::routes;
use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Tells a request's task that its client has gone.
#[derive(Clone)]
struct Gone(CancellationToken);

/// Gives a request the way to learn that its client has gone: whoever answers the connection keeps
/// what this returns, and drops it when the connection closes.
pub fn noticed(request: &mut Request) -> DropGuard {
    let gone = CancellationToken::new();
    request.extensions_mut().insert(Gone(gone.clone()));
    gone.drop_guard()
}

/// Drops the handler of a question whose client has gone.
pub async fn end_questions(request: Request, next: Next) -> Response {
    let gone = request.extensions().get::<Gone>().cloned();
    let Some(Gone(gone)) = gone.filter(|_| only_asks(&request)) else {
        return next.run(request).await;
    };
    tokio::select! {
        biased;
        response = next.run(request) => response,
        // Nobody reads this.
        () = gone.cancelled() => Error::from(Refused::NobodyWaits).into_response(),
    }
}

/// Whether a request leaves nothing behind that it must finish.
fn only_asks(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("", MatchedPath::as_str);
    match *request.method() {
        Method::GET | Method::HEAD => audited::action(request.method(), route).is_none(),
        Method::POST => ASKED_BY_POST.contains(&route),
        _ => false,
    }
}

/// Questions whose parameters are in the body.
const ASKED_BY_POST: [&str; 2] = [routes::MCP, "/api/runs/{run}/categories"];
