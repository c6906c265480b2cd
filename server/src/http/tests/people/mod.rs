//! People, what their tokens may do, and what the audit records.

mod audit;
mod ends;
mod pages;
mod tokens;

use super::{Answer, Server, request};
use crate::config::UserHeader;
use crate::limits::clients::{Peer, Proxies};
use api::ids::PersonId;
use api::people::{AddedPerson, CreatedToken, Me, Person, Role};
use api::problem::ProblemCode;
use api::runs::{Access, ServerInfo};
use axum::body::Body;
use axum::http::{HeaderName, Method, StatusCode, header};

/// A server with one admin, and the admin's token.
async fn with_admin() -> (Server, String) {
    let server = Server::start().await;
    let ada = add(&server, None, "ada", Role::Admin).await;
    (server, ada.token.secret)
}

async fn add(server: &Server, token: Option<&str>, name: &str, role: Role) -> AddedPerson {
    let body = format!(r#"{{"name":"{name}","role":"{role}"}}"#);
    let added = send(server, token, Method::POST, "/api/people", &body).await;
    added.expect(StatusCode::CREATED).read()
}

async fn send(
    server: &Server,
    token: Option<&str>,
    method: Method,
    path: &str,
    body: &str,
) -> Answer {
    let mut request = request(method, path);
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    if !body.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let body = Body::from(body.to_owned());
    server.send(request.body(body).unwrap()).await
}

/// Both come in while nobody needs to sign in.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_first_people_at_once_one_wins_and_the_other_is_told() {
    let server = Server::start().await;
    let add = async |name: &str| {
        let body = format!(r#"{{"name":"{name}","role":"admin"}}"#);
        send(&server, None, Method::POST, "/api/people", &body).await
    };
    let (one, two) = tokio::join!(add("ada"), add("bo"));
    let (won, lost) = match one.status {
        StatusCode::CREATED => (one, two),
        _ => (two, one),
    };
    let token = won.expect(StatusCode::CREATED).read::<AddedPerson>().token;
    let code = lost.problem().code;
    // The gate was closed already, or only the door behind it.
    let is_told = matches!(code, ProblemCode::Conflict | ProblemCode::Unauthorized);
    assert!(is_told, "{code:?}");
    let people = get(&server, &token.secret, "/api/people").await;
    assert_eq!(people.read::<Vec<Person>>().len(), 1);
}

async fn get(server: &Server, token: &str, path: &str) -> Answer {
    send(server, Some(token), Method::GET, path, "").await
}

/// An admin ends the access of a person.
async fn access_ends(server: &Server, admin: &str, person: &PersonId) -> Answer {
    let path = format!("/api/people/{person}");
    let end = r#"{"left":true}"#;
    send(server, Some(admin), Method::PATCH, &path, end).await
}

async fn token_for(server: &Server, token: &str, scopes: &str) -> String {
    let body = format!(r#"{{"name":"a test","scopes":[{scopes}]}}"#);
    let made = send(server, Some(token), Method::POST, "/api/tokens", &body).await;
    made.expect(StatusCode::CREATED)
        .read::<CreatedToken>()
        .secret
}

#[tokio::test(flavor = "multi_thread")]
async fn from_the_first_person_on_everybody_signs_in() {
    let server = Server::start().await;
    let me: Me = server.get("/api/me").await.read();
    assert!(me.person.is_none() && me.admin);
    let refused = send(
        &server,
        None,
        Method::POST,
        "/api/people",
        r#"{"name":"bo","role":"member"}"#,
    );
    let detail = refused.await.problem().detail;
    assert_eq!(detail, "the first person must be an admin");
    let ada = add(&server, None, "ada", Role::Admin).await;
    server
        .get("/api/runs")
        .await
        .expect(StatusCode::UNAUTHORIZED);
    let info: ServerInfo = server.get("/api/server").await.read();
    assert_eq!(info.access, Access::TokenNeeded);
    let me: Me = get(&server, &ada.token.secret, "/api/me").await.read();
    assert_eq!(me.person.map(|person| person.name), Some("ada".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_says_who_may() {
    let (server, ada) = with_admin().await;
    let bo = add(&server, Some(&ada), "bo", Role::Member).await;
    let token = bo.token.secret.as_str();
    for path in ["/api/people", "/api/audit"] {
        let refused = get(&server, token, path)
            .await
            .expect(StatusCode::FORBIDDEN);
        assert_eq!(refused.problem().detail, "only an admin may do this");
    }
    let ada_id = get(&server, &ada, "/api/me")
        .await
        .read::<Me>()
        .person
        .unwrap()
        .id;
    let hers = format!("/api/tokens?person={ada_id}");
    get(&server, token, &hers)
        .await
        .expect(StatusCode::FORBIDDEN);
    // An admin's token with only `read` does not have an admin's rights.
    let reads = token_for(&server, &ada, r#""read""#).await;
    get(&server, &reads, "/api/people")
        .await
        .expect(StatusCode::FORBIDDEN);
    // A person who leaves is locked out at once.
    let left = access_ends(&server, &ada, &bo.person.id).await;
    assert!(
        left.expect(StatusCode::OK)
            .read::<Person>()
            .left_ms
            .is_some()
    );
    get(&server, token, "/api/runs")
        .await
        .expect(StatusCode::UNAUTHORIZED);
    let last = format!("/api/people/{ada_id}");
    let refused = send(
        &server,
        Some(&ada),
        Method::PATCH,
        &last,
        r#"{"role":"reader"}"#,
    )
    .await;
    assert!(refused.problem().detail.contains("stay an admin"));
}

fn proxied(from: &str, path: &str, user: &str) -> axum::http::Request<Body> {
    let name = HeaderName::from_static("x-forwarded-user");
    let mut request = request(Method::GET, path)
        .header(name, user)
        .body(Body::empty())
        .unwrap();
    let [remote, local] = [format!("{from}:40000"), "127.0.0.1:7878".to_owned()];
    request.extensions_mut().insert(Peer {
        remote: remote.parse().unwrap(),
        local: local.parse().unwrap(),
    });
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_is_trusted_names_people_and_nobody_else_does() {
    let server = Server::with(|config| {
        config.proxies = Proxies::parse(["10.0.0.1"]).unwrap();
        config.user_header = Some(UserHeader {
            name: HeaderName::from_static("x-forwarded-user"),
            newcomers: Role::Reader,
        });
    });
    let server = server.await;
    server
        .get("/api/runs")
        .await
        .expect(StatusCode::UNAUTHORIZED);
    let me = async |from: &str, user: &str| {
        let answer = server.send(proxied(from, "/api/me", user)).await;
        let known = answer.status == StatusCode::OK;
        known.then(|| answer.read::<Me>().person.unwrap())
    };
    let ada = me("10.0.0.1", "ada@example").await.unwrap();
    assert_eq!(ada.role, Role::Admin, "the very first");
    let bo = me("10.0.0.1", "bo@example").await.unwrap();
    assert_eq!(bo.role, Role::Reader);
    assert_eq!(me("10.0.0.1", "bo@example").await.unwrap().id, bo.id);
    assert_eq!(me("10.0.0.2", "ada@example").await, None, "not a proxy");
    let bad = server
        .send(proxied("10.0.0.1", "/api/me", "a\u{202e}b"))
        .await;
    assert!(bad.status.is_client_error());
    let left = api::people::ChangePerson {
        left: Some(true),
        role: None,
    };
    server
        .app
        .gate
        .change_person(&bo.id, &left, 1)
        .await
        .unwrap();
    assert_eq!(me("10.0.0.1", "bo@example").await, None, "has left");
}

async fn form(server: &Server, cookie: &str, path: &str, body: &str) -> Answer {
    let request = request(Method::POST, path)
        .header(header::COOKIE, cookie)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let body = Body::from(body.to_owned());
    server.send(request.body(body).unwrap()).await
}

async fn page(server: &Server, cookie: &str, path: &str) -> (StatusCode, String) {
    let request = request(Method::GET, path).header(header::COOKIE, cookie);
    let answer = server.send(request.body(Body::empty()).unwrap()).await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    (answer.status, text)
}

fn cookie_of(answer: &Answer) -> String {
    let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

fn secret_in(answer: &Answer) -> String {
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let secret = text.split('"').find(|part| part.starts_with("tidemark_"));
    secret.expect("the token is shown").to_owned()
}
