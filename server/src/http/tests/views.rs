//! Tests of saved views.

use super::{Server, request};
use api::views::{View, Views};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::json;

const ROUTE: &str = "/api/views";

async fn save(server: &Server, name: &str, path: &str) -> StatusCode {
    let body = json!({ "name": name, "path": path }).to_string();
    server.json(Method::POST, ROUTE, &body).await.status
}

async fn names(server: &Server) -> Vec<(String, String)> {
    let all: Views = server.get(ROUTE).await.expect(StatusCode::OK).read();
    let views = all.views.into_iter();
    views.map(|view| (view.name, view.path)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_saved_replaced_and_forgotten() {
    let server = Server::start().await;
    assert_eq!(save(&server, "b", "/jobs").await, StatusCode::CREATED);
    assert_eq!(save(&server, "A", "/history").await, StatusCode::CREATED);
    assert_eq!(
        save(&server, "B", "/jobs?offset=100").await,
        StatusCode::CREATED
    );
    let pair = |name: &str, path: &str| (name.to_owned(), path.to_owned());
    let expected = [pair("A", "/history"), pair("B", "/jobs?offset=100")];
    assert_eq!(names(&server).await, expected);
    assert_eq!(
        save(&server, "x", "//elsewhere.example").await,
        StatusCode::BAD_REQUEST
    );

    let all: Views = server.get(ROUTE).await.read();
    let View { id, .. } = &all.views[0];
    let path = format!("{ROUTE}/{id}");
    let delete = || server.send(request(Method::DELETE, &path).body(Body::empty()).unwrap());
    assert_eq!(delete().await.status, StatusCode::NO_CONTENT);
    assert_eq!(delete().await.status, StatusCode::NOT_FOUND);
    assert_eq!(names(&server).await, expected[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_keeps_what_was_typed_and_says_what_is_wrong() {
    let server = Server::start().await;
    let form = |body: &str| {
        let form = request(Method::POST, "/views");
        let form = form.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        server.send(form.body(Body::from(body.to_owned())).unwrap())
    };
    let refused = form("name=mine&path=nowhere")
        .await
        .expect(StatusCode::BAD_REQUEST);
    let page = String::from_utf8(refused.body.to_vec()).unwrap();
    assert!(page.contains("value=\"mine\"") && page.contains("value=\"nowhere\""));
    assert!(page.contains("one of a page of this dashboard"));
    form("name=mine&path=%2Fhistory")
        .await
        .expect(StatusCode::SEE_OTHER);
    let page = server.get("/views").await.expect(StatusCode::OK);
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(page.contains("<a href=\"/history\">mine</a>"));
}
