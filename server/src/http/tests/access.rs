//! Who gets in.

use super::{Server, request};
use crate::config::Token;
use api::problem::ProblemCode;
use api::runs::{Access, ServerInfo};
use axum::body::Body;
use axum::http::{HeaderName, Method, Request, StatusCode, header};

async fn guarded() -> Server {
    Server::with(|config| config.token = Some(Token::new("correct-horse").unwrap())).await
}

async fn get_with(server: &Server, path: &str, name: HeaderName, value: &str) -> StatusCode {
    let request = request(Method::GET, path).header(name, value);
    server
        .send(request.body(Body::empty()).unwrap())
        .await
        .status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_needed_for_everything_but_the_page() {
    let server = guarded().await;
    let refused = server.get("/api/runs").await;
    assert_eq!(refused.problem().code, ProblemCode::Unauthorized);
    assert_eq!(refused.headers[header::WWW_AUTHENTICATE], "Bearer");
    server
        .put("/api/upload/x", "bytes")
        .await
        .expect(StatusCode::UNAUTHORIZED);
    server
        .get("/api/nothing")
        .await
        .expect(StatusCode::UNAUTHORIZED);
    server.get("/").await.expect(StatusCode::OK);
    let info: ServerInfo = server.get("/api/server").await.read();
    assert_eq!(info.access, Access::TokenNeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_works_as_bearer_and_typed_once() {
    let server = guarded().await;
    let bearer = async |value| get_with(&server, "/api/runs", header::AUTHORIZATION, value).await;
    assert_eq!(bearer("Bearer correct-horse").await, StatusCode::OK);
    assert_eq!(bearer("bearer correct-horse").await, StatusCode::OK);
    assert_eq!(bearer("Bearer wrong-horse").await, StatusCode::UNAUTHORIZED);
    assert_eq!(bearer("correct-horse").await, StatusCode::UNAUTHORIZED);

    let wrong = server
        .json(Method::POST, "/api/session", r#"{"token":"wrong"}"#)
        .await;
    assert_eq!(wrong.problem().code, ProblemCode::Unauthorized);
    let right = server
        .json(Method::POST, "/api/session", r#"{"token":"correct-horse"}"#)
        .await;
    let cookie = right.expect(StatusCode::NO_CONTENT).headers[header::SET_COOKIE].clone();
    let cookie = cookie.to_str().unwrap();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains("correct-horse"), "{cookie}");
    let pair = format!("other=1; {}", cookie.split(';').next().unwrap());
    let status = get_with(&server, "/api/runs", header::COOKIE, &pair).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_get_nothing_done() {
    let server = Server::start().await;
    let post = async |name: &'static str, value: &str| {
        let request = request(Method::POST, "/api/samples/plain_lm").header(name, value);
        server
            .send(request.body(Body::empty()).unwrap())
            .await
            .status
    };
    assert_eq!(
        post("sec-fetch-site", "cross-site").await,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        post("origin", "http://evil.example").await,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        post("origin", "http://localhost:7878").await,
        StatusCode::CREATED
    );
    assert_eq!(post("sec-fetch-site", "same-origin").await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_names_for_this_machine_are_refused_without_a_token() {
    let foreign = |path| {
        let request = Request::get(path).header(header::HOST, "evil.example:7878");
        request.body(Body::empty()).unwrap()
    };
    let server = Server::start().await;
    server
        .send(foreign("/api/runs"))
        .await
        .expect(StatusCode::FORBIDDEN);
    server
        .send(foreign("/"))
        .await
        .expect(StatusCode::FORBIDDEN);
    // With a token, being known by a name is what the server is for.
    guarded()
        .await
        .send(foreign("/"))
        .await
        .expect(StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_is_hardened() {
    let server = Server::start().await;
    for path in ["/", "/api/runs", "/api/nothing", "/api/openapi.json"] {
        let headers = server.get(path).await.headers;
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe-inline"), "{policy}");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::REFERRER_POLICY], "no-referrer");
        assert_eq!(headers["x-robots-tag"], "noindex, nofollow");
        assert!(!headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    }
}
