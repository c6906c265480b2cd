//! Counts requests.

use crate::app::App;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::time::Instant;

/// Counts a request under the template of its route, so that clients cannot make new labels.
pub async fn measure(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let began = Instant::now();
    let response = next.run(request).await;
    let (status, took) = (response.status().as_u16(), began.elapsed());
    let route = route.as_ref().map(MatchedPath::as_str);
    app.requests.count(route, method.as_str(), status, took);
    response
}
