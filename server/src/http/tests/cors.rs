//! Pages of other sites: what the ones that the operator named may do, and all others may not.

use super::{Answer, Server, packed_snapshot, request};
use crate::config::UserHeader;
use crate::limits::clients::{Peer, Proxies};
use api::people::{AuditEntry, NewPerson, Role};
use api::runs::FinishedUpload;
use axum::body::Body;
use axum::http::{HeaderName, Method, StatusCode, header};

const PAGE: &str = "https://pages.example";
const PROXY: &str = "10.0.0.1:5";

/// A server with an admin, whose page of another site is named; and the admin's token.
async fn with_page() -> (Server, String) {
    let server = Server::with(|config| {
        config.pages = vec![
            PAGE.parse().unwrap(),
            "http://127.0.0.1:7900".parse().unwrap(),
        ];
        config.proxies = Proxies::parse(["10.0.0.1"]).unwrap();
        config.user_header = Some(UserHeader {
            name: HeaderName::from_static("x-forwarded-user"),
            newcomers: Role::Member,
        });
    })
    .await;
    let new = NewPerson {
        name: "ada".to_owned(),
        role: Role::Admin,
    };
    let added = server.app.gate.people.add(&new, 0).await.unwrap();
    (server, added.token.secret)
}

/// What a browser shows of the person who looks at a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    Nothing,
    Token,
    Wrong,
    Session,
    Proxy,
}

/// Sends a request as a browser does for a page of this origin.
async fn ask(
    server: &Server,
    (origin, token): (&str, &str),
    (method, path): (Method, &str),
    shows: Shows,
) -> Answer {
    let site = match origin {
        "http://localhost:7878" => "same-origin",
        _ => "cross-site",
    };
    let mut asked = request(method, path)
        .header(header::ORIGIN, origin)
        .header("sec-fetch-site", site)
        .header(header::CONTENT_TYPE, "application/json");
    asked = match shows {
        Shows::Nothing => asked,
        Shows::Token => asked.header(header::AUTHORIZATION, format!("Bearer {token}")),
        Shows::Wrong => asked.header(header::AUTHORIZATION, "Bearer tidemark_wrong"),
        Shows::Session => asked.header(header::COOKIE, session(server, token).await),
        Shows::Proxy => asked.header("x-forwarded-user", "ada"),
    };
    let mut asked = asked.body(Body::empty()).unwrap();
    let local = "10.0.0.2:80".parse().unwrap();
    let remote = match shows {
        Shows::Proxy => PROXY.parse().unwrap(),
        _ => "127.0.0.1:5".parse().unwrap(),
    };
    asked.extensions_mut().insert(Peer { remote, local });
    server.send(asked).await
}

/// The cookie of a browser that signed in.
async fn session(server: &Server, token: &str) -> String {
    let body = format!(r#"{{"token":"{token}"}}"#);
    let opened = server.json(Method::POST, "/api/session", &body).await;
    let cookie = &opened.expect(StatusCode::NO_CONTENT).headers[header::SET_COOKIE];
    let pair = cookie.to_str().unwrap().split(';').next().unwrap();
    pair.to_owned()
}

/// The origin that may read an answer.
fn reader(answer: &Answer) -> Option<&str> {
    let headers = &answer.headers;
    assert!(!headers.contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS));
    let allowed = headers.get(header::ACCESS_CONTROL_ALLOW_ORIGIN)?;
    let mut varies = headers.get_all(header::VARY).iter();
    assert!(varies.any(|name| name == "origin"), "{headers:?}");
    Some(allowed.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_page_may_do_five_things_with_a_token_and_nothing_without() {
    let (server, token) = with_page().await;
    let check = async |origin: &str, what: (&str, &str), shows: Shows, status: u16, read: bool| {
        let (method, path) = what;
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let answer = ask(&server, (origin, &token), (method, path), shows).await;
        let words = format!("{origin} {what:?} {shows:?}");
        assert_eq!(answer.status.as_u16(), status, "{words}");
        assert_eq!(reader(&answer), read.then_some(origin), "{words}");
    };
    let run = "/api/runs/run_0000000000000000";
    let open = [
        // The status once it is let in: the bodies are empty.
        (("GET", "/api/server"), 200),
        (("GET", "/api/projects"), 200),
        (("GET", run), 404),
        (("PUT", "/api/upload/a.pickle"), 422),
        (("POST", "/api/shares"), 400),
    ];
    for (what, status) in open {
        for page in [PAGE, "http://127.0.0.1:7900"] {
            check(page, what, Shows::Token, status, true).await;
        }
        for shows in [Shows::Nothing, Shows::Session, Shows::Proxy] {
            check(PAGE, what, shows, 401, true).await;
        }
        let wrong = if what.1 == "/api/server" { 200 } else { 401 };
        check(PAGE, what, Shows::Wrong, wrong, true).await;
        // Others read nothing, and change nothing, whatever they show.
        for other in ["https://evil.example", "http://pages.example", "null"] {
            let refused = if what.0 == "GET" { status } else { 403 };
            check(other, what, Shows::Token, refused, false).await;
        }
        // The server's own page is who it was.
        check("http://localhost:7878", what, Shows::Session, status, false).await;
    }
    let closed = [
        (("GET", "/api/runs"), 200),
        (("GET", "/api/shares"), 200),
        (("GET", "/api/me"), 200),
        (("PATCH", run), 403),
        (("DELETE", run), 403),
        (("POST", "/api/uploads"), 403),
        (("POST", "/api/shares/open"), 403),
        (("POST", "/api/session"), 403),
        (("POST", "/api/tokens"), 403),
        (("POST", "/api/people"), 403),
        (("POST", "/sign-in"), 403),
    ];
    for (what, status) in closed {
        check(PAGE, what, Shows::Token, status, false).await;
    }
}

/// A browser's question before it sends a request.
async fn preflight(server: &Server, origin: &str, method: &str, path: &str) -> Answer {
    let asked = request(Method::OPTIONS, path)
        .header(header::ORIGIN, origin)
        .header("sec-fetch-site", "cross-site")
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, method);
    server.send(asked.body(Body::empty()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_hears_that_a_named_page_may_do_this_and_no_more() {
    let (server, _) = with_page().await;
    let check = async |origin: &str, method: &str, path: &str, allowed: bool| {
        let answer = preflight(&server, origin, method, path).await;
        assert_eq!(
            reader(&answer),
            allowed.then_some(origin),
            "{method} {path}"
        );
        if allowed {
            assert_eq!(answer.status, StatusCode::NO_CONTENT);
            assert_eq!(answer.headers[header::ACCESS_CONTROL_ALLOW_METHODS], method);
            let sent = &answer.headers[header::ACCESS_CONTROL_ALLOW_HEADERS];
            let may = "authorization, content-encoding, content-type, tidemark-project";
            assert_eq!(sent, may);
        }
    };
    check(PAGE, "PUT", "/api/upload/a.pickle", true).await;
    check(PAGE, "POST", "/api/shares", true).await;
    check(PAGE, "GET", "/api/runs/run_0000000000000000", true).await;
    check(PAGE, "GET", "/api/server", true).await;
    check(PAGE, "GET", "/api/projects", true).await;
    check(PAGE, "POST", "/api/projects", false).await;
    check(PAGE, "DELETE", "/api/runs/run_0000000000000000", false).await;
    check(PAGE, "GET", "/api/shares", false).await;
    check(PAGE, "PUT", "/api/uploads/upl_a", false).await;
    check(PAGE, "POST", "/api/session", false).await;
    check("https://evil.example", "POST", "/api/shares", false).await;
    check("https://pages.example:444", "POST", "/api/shares", false).await;
    check(
        "https://pages.example.evil.example",
        "POST",
        "/api/shares",
        false,
    )
    .await;
    let unnamed = Server::start().await;
    let answer = preflight(&unnamed, PAGE, "POST", "/api/shares").await;
    assert_eq!(reader(&answer), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_signs_in_no_page_of_another_site_does_anything() {
    let server = Server::with(|config| config.pages = vec![PAGE.parse().unwrap()]).await;
    for shows in [Shows::Nothing, Shows::Token] {
        let what = (Method::PUT, "/api/upload/a.pickle");
        let answer = ask(&server, (PAGE, "any"), what, shows).await;
        assert_eq!(reader(&answer), Some(PAGE));
        let detail = answer.expect(StatusCode::FORBIDDEN).problem().detail;
        assert!(detail.contains("add a person"), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_from_a_named_page_becomes_a_run_of_whose_token_it_is() {
    let (server, token) = with_page().await;
    let sent = request(Method::PUT, "/api/upload/leak.pickle.zst")
        .header(header::ORIGIN, PAGE)
        .header("sec-fetch-site", "cross-site")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(Body::from(packed_snapshot()))
        .unwrap();
    let sent = server.send(sent).await.expect(StatusCode::CREATED);
    let run = sent.read::<FinishedUpload>().run.id;
    let audit = request(Method::GET, "/api/audit")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(Body::empty())
        .unwrap();
    let audit: Vec<AuditEntry> = server.send(audit).await.read();
    let first = &audit[0];
    assert_eq!(
        (first.who.as_str(), first.action.as_str()),
        ("ada", "upload")
    );
    assert_eq!(first.subject, run.to_string());
}
