//! What a person sees in a browser when a page cannot be shown.

use super::{Answer, Server, request};
use api::people::{AddedPerson, Role};
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use serde_json::json;

/// Asks as a browser does.
async fn browse(
    server: &Server,
    token: Option<&str>,
    (method, path): (Method, &str),
) -> (StatusCode, String) {
    let request = request(method, path)
        .header(header::ACCEPT, "text/html,application/xhtml+xml,*/*;q=0.8")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let request = match token {
        Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
        None => request,
    };
    let answer = server.send(request.body(Body::empty()).unwrap()).await;
    let kind = answer.headers[header::CONTENT_TYPE].to_str().unwrap();
    assert!(kind.starts_with("text/html"), "{path}: {kind}");
    let page = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(page.contains("<h1>"), "{path}: {page}");
    (answer.status, page)
}

async fn add(server: &Server, token: Option<&str>, name: &str, role: Role) -> String {
    let body = json!({ "name": name, "role": role }).to_string();
    let mut request =
        request(Method::POST, "/api/people").header(header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let added = server.send(request.body(Body::from(body)).unwrap()).await;
    let added: AddedPerson = added.expect(StatusCode::CREATED).read();
    added.token.secret
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_of_a_page_is_a_page_with_a_way_back() {
    let server = Server::start().await;
    let check = async |path: &str, status: u16, said: &str, back: &str| {
        let (found, page) = browse(&server, None, (Method::GET, path)).await;
        assert_eq!(found.as_u16(), status, "{path}");
        assert!(page.contains(said), "{path}: {page}");
        assert!(
            page.contains(&format!("class=\"button\" href=\"{back}\"")),
            "{path}: {page}"
        );
    };
    let missing = "run_0000000000000000";
    check("/history?label=foo", 400, "key=value", "/history").await;
    check("/live/live_abc", 404, "live run live_abc", "/live").await;
    check(&format!("/runs/{missing}/labels"), 404, "Not found", "/").await;
    check("/runs/zzz/labels", 404, "Not found", "/").await;
    check("/categories?run=zzz", 404, "run zzz", "/categories").await;
    check("/jobs?offset=x", 400, "offset", "/jobs").await;
    check("/people/per_a", 405, "Only a form", "/people").await;
    check("/account/tokens", 405, "Only a form", "/account").await;
    check(
        "/live/live_abc/capture",
        405,
        "Only a form",
        "/live/live_abc",
    )
    .await;
    let delete = "/live/live_abc/delete";
    check(delete, 405, "Only a form", "/live/live_abc").await;
    check("/views/view_a/badge.svg", 404, "badge", "/views").await;
    let (status, page) = browse(&server, None, (Method::POST, "/live/live_abc/capture")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(page.contains("steps"), "{page}");
    // Programs get the problem.
    server.get("/history?label=foo").await.problem();
    server.get("/people/per_a").await.problem();
}

/// The guards refuse before anybody knows who asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_name_of_the_server_and_a_form_of_another_site_are_told_on_a_page() {
    let server = Server::start().await;
    let ask = async |method: Method, host: &str, path: &str, accept: &str| {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, host)
            .header(header::ACCEPT, accept)
            .header("sec-fetch-site", "cross-site");
        let answer = server.send(request.body(Body::empty()).unwrap()).await;
        answer.expect(StatusCode::FORBIDDEN)
    };
    const PAGE: &str = "text/html,*/*;q=0.8";
    let text = |answer: Answer| String::from_utf8_lossy(&answer.body).into_owned();
    let page = text(ask(Method::GET, "box.example:7000", "/jobs", PAGE).await);
    assert!(page.contains("localhost and 127.0.0.1 only"), "{page}");
    assert!(page.contains("href=\"http://localhost:7000/\""), "{page}");
    let page = text(ask(Method::POST, "localhost", "/categories", PAGE).await);
    assert!(page.contains("Nothing was changed"), "{page}");
    assert!(page.contains("href=\"/categories\""), "{page}");
    // Programs, and requests to the API, get the problem.
    ask(Method::GET, "box.example", "/jobs", "*/*")
        .await
        .problem();
    ask(Method::GET, "box.example", "/api/runs", PAGE)
        .await
        .problem();
    ask(Method::POST, "localhost", "/api/jobs", PAGE)
        .await
        .problem();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_is_told_so_on_a_page() {
    let server = Server::start().await;
    let ada = add(&server, None, "ada", Role::Admin).await;
    let bo = add(&server, Some(&ada), "bo", Role::Reader).await;
    let eve = add(&server, Some(&ada), "eve", Role::Guest).await;
    for path in ["/people", "/audit", "/usage"] {
        let (status, page) = browse(&server, Some(&bo), (Method::GET, path)).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert!(page.contains("Only an admin may do this."), "{page}");
        assert!(page.contains("All runs"), "{page}");
    }
    for path in [
        "/",
        "/bench",
        "/runs/run_0000000000000000",
        "/compare",
        "/history",
        "/jobs",
        "/live",
        "/views",
        "/categories",
        "/pull-requests",
    ] {
        let (status, page) = browse(&server, Some(&eve), (Method::GET, path)).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert!(page.contains("You are in no project yet"), "{page}");
        assert!(
            page.contains("You are in no project yet: ask an admin") && page.contains("add you."),
            "{page}"
        );
        assert!(page.contains("href=\"/projects\""), "{page}");
        // Once: the title says it in other words.
        assert_eq!(page.matches("in no project yet").count(), 1, "{page}");
    }
    // Help holds nothing of a project. No page leads to what would be refused.
    for path in ["/help", "/account", "/projects"] {
        let (status, page) = browse(&server, Some(&eve), (Method::GET, path)).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        for led_to in ["/projects", "/account", "/help"] {
            let link = format!("href=\"{led_to}\"");
            assert!(page.contains(&link), "{path}: {page}");
        }
        for refused in ["/compare", "/bench", "/live", "/jobs", "/history", "/views"] {
            let link = format!("href=\"{refused}\"");
            assert!(!page.contains(&link), "{path}: {page}");
        }
        assert!(!page.contains("href=\"/\">Runs"), "{path}: {page}");
    }
}
