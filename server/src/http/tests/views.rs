//! Tests of saved views.

use super::{Server, request};
use crate::limits::clients::numbers::Share;
use crate::who::server_token::Token;
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

/// A program that shows a badge has nothing but its address.
#[tokio::test(flavor = "multi_thread")]
async fn the_badge_of_a_history_needs_only_its_address() {
    let token = Token::new("correct-horse-battery-staple-0001").unwrap();
    let server = Server::with(|config| config.token = Some(token)).await;
    let saved = |name: &str, path: &str| View {
        id: crate::identity::view_id(),
        name: name.to_owned(),
        path: path.to_owned(),
        created_ms: 0,
        created_by: String::new(),
    };
    let (main, jobs) = (
        saved("main", "/history?label=branch%3Dmain"),
        saved("jobs", "/jobs"),
    );
    let (again, kept) = (saved("Main", "/history?label=branch%3Dtrunk"), main.clone());
    let write = server.app.store.write(move |writer| {
        writer.put_view(&kept)?;
        writer.put_view(&again)?;
        writer.put_view(&jobs).map(|id| (jobs, id))
    });
    let (jobs, _) = write.await.unwrap();
    let badge = async |view: &View| server.get(&api::routes::view_badge(&view.id)).await;
    // A view that replaces another one keeps its address.
    let found = badge(&main).await.expect(StatusCode::OK);
    assert_eq!(found.headers[header::CONTENT_TYPE], "image/svg+xml");
    let svg = String::from_utf8(found.body.to_vec()).unwrap();
    assert!(svg.contains("GPU memory: no runs"), "{svg}");
    badge(&jobs).await.expect(StatusCode::NOT_FOUND);
    badge(&saved("x", "/history"))
        .await
        .expect(StatusCode::NOT_FOUND);
    let id = main.id.clone();
    server
        .app
        .store
        .write(move |writer| writer.forget_view(&id))
        .await
        .unwrap();
    badge(&main).await.expect(StatusCode::NOT_FOUND);
    assert_ne!(server.get("/api/views").await.status, StatusCode::OK);
}

/// It is kept until something changes, and has the places of cards: nobody signs in for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_badge_is_drawn_again_after_a_change_and_takes_a_place_of_cards() {
    let server = Server::start().await;
    assert_eq!(save(&server, "all", "/history").await, StatusCode::CREATED);
    let all: Views = server.get(ROUTE).await.read();
    let badge = api::routes::view_badge(&all.views[0].id);
    let says = async |words: &str| {
        let found = server.get(&badge).await.expect(StatusCode::OK);
        let svg = String::from_utf8(found.body.to_vec()).unwrap();
        assert!(svg.contains(words), "{svg}");
    };
    says("no runs").await;
    says("no runs").await;
    let sample = api::routes::sample("leak_hook_cache");
    let answer = server.json(Method::POST, &sample, "").await;
    assert!(answer.status.is_success());
    says("leaks").await;

    let none = Server::with(|config| config.clients.cards = Share { each: 0, all: 0 }).await;
    assert_eq!(save(&none, "all", "/history").await, StatusCode::CREATED);
    let all: Views = none.get(ROUTE).await.read();
    let badge = api::routes::view_badge(&all.views[0].id);
    none.get(&badge)
        .await
        .expect(StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_forgotten_after_a_question() {
    let server = Server::start().await;
    assert_eq!(save(&server, "a", "/history").await, StatusCode::CREATED);
    let page = server.get("/views").await.expect(StatusCode::OK);
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    let ask = page.find("<summary aria-label=\"Forget a\"").unwrap();
    let button = page[ask..].find("<button").unwrap();
    assert!(
        page[ask..ask + button].contains("Its badge ends for good"),
        "{page}"
    );
}
