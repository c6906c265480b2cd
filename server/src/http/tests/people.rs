//! People, what their tokens may do, and what the audit records.

use super::super::audited;
use super::{Answer, Server, packed_snapshot, request, snapshot};
use crate::clients::{Peer, Proxies};
use crate::config::UserHeader;
use api::ids::PersonId;
use api::people::{AddedPerson, AuditEntry, CreatedToken, Me, Person, PersonalToken, Role};
use api::problem::ProblemCode;
use api::progress::ServerEvent;
use api::routes;
use api::runs::{
    Access, AnnouncedUpload, FinishedUpload, RunDetail, RunSummary, ServerInfo, Sessions,
};
use axum::body::Body;
use axum::http::{HeaderName, Method, StatusCode, header};
use http_body_util::BodyExt;
use std::time::Duration;
use tower::ServiceExt;

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
async fn a_token_is_good_for_what_it_says_and_no_more() {
    let (server, ada) = with_admin().await;
    let manages = token_for(&server, &ada, r#""manage""#).await;
    let reads = token_for(&server, &ada, r#""read""#).await;
    let sends = token_for(&server, &ada, r#""upload""#).await;
    get(&server, &reads, "/api/runs")
        .await
        .expect(StatusCode::OK);
    let refused = get(&server, &sends, "/api/runs").await;
    let problem = refused.expect(StatusCode::FORBIDDEN).problem();
    assert_eq!(problem.code, ProblemCode::Forbidden);
    assert_eq!(
        problem.detail,
        "this takes a token that may `read`; this one may: upload"
    );
    let upload = async |token: &str| {
        let request = request(Method::PUT, "/api/upload/x.pickle")
            .header(header::AUTHORIZATION, format!("Bearer {token}"));
        let body = Body::from(packed_snapshot());
        server.send(request.body(body).unwrap()).await
    };
    upload(&reads).await.expect(StatusCode::FORBIDDEN);
    let sent: api::runs::FinishedUpload = upload(&sends).await.expect(StatusCode::CREATED).read();
    let run = format!("/api/runs/{}", sent.run.id);
    for token in [&reads, &sends] {
        let refused = send(&server, Some(token), Method::DELETE, &run, "").await;
        refused.expect(StatusCode::FORBIDDEN);
    }
    // A token cannot make one that may do more than itself, and no secret is shown twice.
    let more = r#"{"name":"more","scopes":["read","manage"]}"#;
    let refused = send(&server, Some(&manages), Method::POST, "/api/tokens", more).await;
    assert!(refused.problem().detail.contains("more than itself"));
    let listed = get(&server, &ada, "/api/tokens").await;
    let text = String::from_utf8(listed.body.to_vec()).unwrap();
    assert!(!text.contains(&reads) && !text.contains("secret"), "{text}");
    let tokens: Vec<PersonalToken> = listed.read();
    assert_eq!(tokens.len(), 4);
    let path = format!("/api/tokens/{}", tokens[0].id);
    let ended = send(&server, Some(&ada), Method::DELETE, &path, "").await;
    ended.expect(StatusCode::NO_CONTENT);
    get(&server, &sends, "/api/me")
        .await
        .expect(StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_says_who_uploaded_it() {
    let server = Server::start().await;
    let upload = async |token: Option<&str>, name: &str, more: u8| {
        let mut request = request(Method::PUT, &routes::upload_named(name));
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let mut file = snapshot();
        file.push(more);
        let sent = server.send(request.body(Body::from(file)).unwrap()).await;
        assert!(sent.status.is_success());
        sent.read::<FinishedUpload>().run.id
    };
    upload(None, "of-before.pickle", 0).await;
    let ada = add(&server, None, "ada", Role::Admin).await.token.secret;
    let bo = add(&server, Some(&ada), "bo", Role::Member).await;
    let bo = bo.token.secret.as_str();
    let of_bo = upload(Some(bo), "of-bo.pickle", 1).await;
    upload(Some(&ada), "of-ada.pickle", 2).await;
    // Who sends the same file again has not made the run.
    assert_eq!(upload(Some(&ada), "again.pickle", 1).await, of_bo);
    let change = r#"{"labels":{"branch":"main"}}"#;
    let labels = routes::run_labels(&of_bo);
    send(&server, Some(bo), Method::PATCH, &labels, change).await;

    let check = async |query: &str, expected: &[(&str, Option<&str>)]| {
        let listed = get(&server, bo, &format!("/api/runs?{query}")).await;
        let listed: Vec<RunSummary> = listed.expect(StatusCode::OK).read();
        let said = listed
            .iter()
            .map(|run| (run.name.as_str(), run.uploaded_by.as_deref()));
        let mut said: Vec<_> = said.collect();
        said.sort_unstable();
        assert_eq!(said, expected, "{query}");
    };
    let (by_ada, by_bo) = (("of-ada.pickle", Some("ada")), ("of-bo.pickle", Some("bo")));
    check("", &[by_ada, ("of-before.pickle", None), by_bo]).await;
    check("by=ada", &[by_ada]).await;
    check("by=BO", &[by_bo]).await;
    check("by=bo&label=branch=main", &[by_bo]).await;
    check("by=ada&label=branch=main", &[]).await;
    check("by=", &[]).await;
    check("by=%27%20OR%201%20--", &[]).await;
    check("by=bo&deleted=true", &[]).await;
    let one = get(&server, bo, &routes::run(&of_bo)).await;
    let one: RunDetail = one.read();
    assert_eq!(one.summary.uploaded_by.as_deref(), Some("bo"));
    let page = get(&server, bo, &routes::labels_page(&of_bo)).await;
    let page = String::from_utf8(page.expect(StatusCode::OK).body.to_vec()).unwrap();
    assert!(page.contains("Uploaded by bo."), "{page}");
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

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_is_written_down_with_a_name() {
    let (server, ada) = with_admin().await;
    let bo = add(&server, Some(&ada), "bo", Role::Member).await;
    let upload = request(Method::PUT, "/api/upload/x.pickle")
        .header(header::AUTHORIZATION, format!("Bearer {}", bo.token.secret));
    let body = Body::from(packed_snapshot());
    let sent = server.send(upload.body(body).unwrap()).await;
    let sent: api::runs::FinishedUpload = sent.expect(StatusCode::CREATED).read();
    let run = format!("/api/runs/{}", sent.run.id);
    send(&server, Some(&ada), Method::DELETE, &run, "").await;
    // Failed requests are not recorded, and neither are requests that change nothing.
    send(
        &server,
        Some(&ada),
        Method::DELETE,
        "/api/runs/run_none",
        "",
    )
    .await;
    get(&server, &ada, "/api/runs").await;
    let body = format!(r#"{{"token":"{}"}}"#, bo.token.secret);
    server.json(Method::POST, "/api/session", &body).await;
    // Requests of strangers are not recorded either.
    server.json(Method::DELETE, "/api/session", "").await;
    form(&server, "", "/sign-out", "").await;
    let audit: Vec<AuditEntry> = get(&server, &ada, "/api/audit").await.read();
    let said: Vec<String> = audit
        .iter()
        .map(|entry| format!("{} {} {}", entry.who, entry.action, entry.subject))
        .collect();
    let expected = [
        "bo sign_in ".to_owned(),
        format!("ada delete_run {}", sent.run.id),
        format!("bo upload {}", sent.run.id),
        "ada add_person bo (member)".to_owned(),
        "somebody on this machine add_person ada (admin)".to_owned(),
    ];
    assert_eq!(said, expected);
    let own: Vec<AuditEntry> = get(&server, &ada, "/api/audit?who=bo&limit=1").await.read();
    assert_eq!(own[0].action, "sign_in");
    let text = serde_json::to_string(&audit).unwrap();
    assert!(!text.contains("tidemark_"), "no secret is written down");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_pages_lead_to_help_which_says_how_to_send_a_snapshot() {
    let (server, ada) = with_admin().await;
    let lo = add(&server, Some(&ada), "lo", Role::Reader).await;
    let signed_in = async |token: &str| {
        cookie_of(&form(&server, "", "/sign-in", &format!("token={token}")).await)
    };
    let (ada, lo) = (signed_in(&ada).await, signed_in(&lo.token.secret).await);
    let (_, text) = page(&server, &ada, "/account").await;
    assert!(
        text.contains("href=\"/help\""),
        "every plain page leads to it"
    );
    let (_, text) = page(&server, &ada, "/help").await;
    for said in [
        "-T snapshot.pickle http://",
        "tidemark push",
        "Bearer $TIDEMARK_TOKEN",
    ] {
        assert!(
            text.replace("&quot;", "\"").contains(said),
            "{said}: {text}"
        );
    }
    let (_, text) = page(&server, &lo, "/help").await;
    assert!(
        text.contains("Find your way") && !text.contains("curl"),
        "{text}"
    );
}

/// The store's clock goes on; that of the machine is behind it from then on.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_stays_ended_when_the_clock_is_set_back() {
    let (server, ada) = with_admin().await;
    let body = r#"{"name":"ci","scopes":["read"],"expires_in_s":60}"#;
    let made = send(&server, Some(&ada), Method::POST, "/api/tokens", body).await;
    let ci = made
        .expect(StatusCode::CREATED)
        .read::<CreatedToken>()
        .secret;
    let body = format!(r#"{{"token":"{ada}"}}"#);
    let opened = server.json(Method::POST, "/api/session", &body).await;
    let cookie = opened.headers[header::SET_COOKIE].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let with_cookie = async || {
        let request = request(Method::GET, "/api/me").header(header::COOKIE, &cookie);
        server
            .send(request.body(Body::empty()).unwrap())
            .await
            .status
    };
    let store = &server.app.store;
    let remembered = async || {
        let read = store.read(|reader| reader.database());
        read.await.unwrap().map_or(0, |(_, latest_ms)| latest_ms)
    };
    assert_eq!(get(&server, &ci, "/api/me").await.status, StatusCode::OK);
    assert_eq!(with_cookie().await, StatusCode::OK);
    store.pass_ms(3_600_000);
    let ended = get(&server, &ci, "/api/me").await.status;
    assert_eq!(ended, StatusCode::UNAUTHORIZED);
    assert_eq!(with_cookie().await, StatusCode::OK);
    store.pass_ms(8 * 24 * 3_600_000);
    assert_eq!(with_cookie().await, StatusCode::UNAUTHORIZED);
    // A server that starts after that knows it, too.
    let a_week_later = crate::clock::now_ms() + 7 * 24 * 3_600_000;
    let begun = std::time::Instant::now();
    while remembered().await < a_week_later {
        assert!(begun.elapsed().as_secs() < 20, "it is not remembered");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// An upload may take long: the access of its sender may end meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_ends_with_the_access_of_its_sender() {
    let (server, ada) = with_admin().await;
    let bo = add(&server, Some(&ada), "bo", Role::Member).await;
    let file = super::packed_snapshot();
    let (half, rest) = file.split_at(file.len() / 2);
    let (sender, body) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(2);
    sender.send(Ok(half.to_vec())).await.unwrap();
    let pieces = futures_util::stream::unfold(body, async |mut body| {
        let piece = body.recv().await?;
        Some((piece, body))
    });
    let upload = request(Method::PUT, "/api/upload/late.pickle.zst")
        .header(header::AUTHORIZATION, format!("Bearer {}", bo.token.secret))
        .body(Body::from_stream(pieces))
        .unwrap();
    let sent = server.send(upload);
    let ends = async {
        while server.app.uploads.unfinished().is_empty() {
            tokio::task::yield_now().await;
        }
        let left = access_ends(&server, &ada, &bo.person.id).await;
        left.expect(StatusCode::OK);
        // Nobody takes it any more if the upload has ended already.
        let _ = sender.send(Ok(rest.to_vec())).await;
        drop(sender);
    };
    let (answer, ()) = tokio::join!(sent, ends);
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(
        answer.problem().detail.split(',').next(),
        Some("your access ended while the file came")
    );
    let runs: Vec<api::runs::RunSummary> = get(&server, &ada, "/api/runs").await.read();
    assert!(runs.is_empty());
    assert_eq!(server.stored_files(), 0);
}

/// What is made has no id in the address to which it is sent.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_is_written_down_with_its_name() {
    let (server, ada) = with_admin().await;
    let view = r#"{"name":"nightly","path":"/runs?v=1&q=nightly"}"#;
    let training = r#"{"name":"llama","device":0}"#;
    let made = [
        ("/api/views", view, "save_view nightly"),
        ("/api/live", training, "begin_live llama (live_"),
        ("/api/jobs", r#"{"name":"wide"}"#, "make_job job_"),
        ("/api/samples/oom", "", "open_sample run_"),
    ];
    for (path, body, _) in made {
        let answer = send(&server, Some(&ada), Method::POST, path, body).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.status);
    }
    let audit: Vec<AuditEntry> = get(&server, &ada, "/api/audit").await.read();
    for (entry, (.., expected)) in audit.iter().zip(made.iter().rev()) {
        let said = format!("{} {}", entry.action, entry.subject);
        assert!(said.starts_with(expected), "{said}");
    }
}

/// No route that changes something may be missing: a new route is listed, or listed as changing
/// nothing.
#[test]
fn every_route_that_changes_something_is_written_down() {
    const NOT: [(&str, &str); 5] = [
        ("post", "/api/uploads"),
        ("post", "/api/shares/open"),
        ("post", "/api/mcp"),
        // The training was noted when it began.
        ("post", "/api/live/{live}/steps"),
        // A question: nothing is kept.
        ("post", "/api/runs/{run}/categories"),
    ];
    let document = serde_json::to_value(super::super::api().into_openapi()).unwrap();
    let mut forgotten = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, _) in item.as_object().unwrap() {
            let upper = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let noted = audited::action(&upper, path).is_some();
            let exempt = upper == Method::GET || NOT.contains(&(method, path));
            if noted == exempt {
                forgotten.push(format!("{method} {path}"));
            }
        }
    }
    assert!(forgotten.is_empty(), "{forgotten:?}");
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

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_lead_from_the_first_person_to_a_token_and_out() {
    let server = Server::start().await;
    // On this machine nobody needs to sign in: the first person is added, and is then signed in.
    let added = form(&server, "", "/people", "name=ada&role=admin").await;
    let (ada, first) = (cookie_of(&added), secret_in(&added));
    let (status, _) = page(&server, "", "/account").await;
    assert_eq!(
        status,
        StatusCode::SEE_OTHER,
        "who has not signed in is sent to"
    );
    let (status, text) = page(&server, &ada, "/account").await;
    assert!(
        status.is_success() && text.contains("You are <strong>ada"),
        "{text}"
    );
    // Signing in with the token leads on to the wanted page.
    let body = format!("token={first}&next=%2Fruns%2Frun_a%3Fat%3D3");
    let signed_in = form(&server, "", "/sign-in", &body).await;
    assert_eq!(signed_in.headers[header::LOCATION], "/runs/run_a?at=3");
    // Who is signed in and shows a wrong token has not signed in again.
    let wrong = form(&server, &ada, "/sign-in", "token=wrong&next=//evil.example").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    let audit: Vec<AuditEntry> = get(&server, &first, "/api/audit").await.read();
    let sign_ins = audit.iter().filter(|entry| entry.action == "sign_in");
    assert_eq!(sign_ins.count(), 1);
    let text = String::from_utf8(wrong.body.to_vec()).unwrap();
    assert!(
        text.contains("not a token of this server") && !text.contains("evil"),
        "{text}"
    );
    // A token for a program; it is shown once.
    let made = form(&server, &ada, "/account/tokens", "name=CI&upload=1&days=30").await;
    let secret = secret_in(&made);
    let me: Me = get(&server, &secret, "/api/me").await.read();
    assert_eq!(me.scopes.to_string(), "upload");
    let (_, text) = page(&server, &ada, "/account").await;
    assert!(text.contains("CI") && !text.contains(&secret), "{text}");
    // Another person who is no admin sees only their own page.
    let added = form(&server, &ada, "/people", "name=%3Cb%3Ebo&role=member").await;
    let text = String::from_utf8(added.body.to_vec()).unwrap();
    assert!(
        text.contains("&lt;b&gt;bo") && !text.contains("<b>bo"),
        "names are no markup"
    );
    let body = format!("token={}", secret_in(&added));
    let bo = cookie_of(&form(&server, "", "/sign-in", &body).await);
    for path in ["/people", "/audit"] {
        assert_eq!(
            page(&server, &bo, path).await.0,
            StatusCode::FORBIDDEN,
            "{path}"
        );
    }
    let (_, text) = page(&server, &ada, "/audit").await;
    assert!(
        text.contains("make token") && text.contains("CI (upload)"),
        "{text}"
    );
    let sessions: Sessions = get(&server, &first, "/api/sessions").await.read();
    assert_eq!(sessions.sessions.len(), 3);
    let out = form(&server, &bo, "/sign-out", "").await;
    assert_eq!(out.status, StatusCode::SEE_OTHER);
    assert_eq!(
        page(&server, &bo, "/account").await.0,
        StatusCode::SEE_OTHER
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_ends_the_token_of_this_browser_is_asked_before() {
    let server = Server::start().await;
    let added = form(&server, "", "/people", "name=ada&role=admin").await;
    let body = format!("token={}", secret_in(&added));
    let signed_in = cookie_of(&form(&server, "", "/sign-in", &body).await);
    form(
        &server,
        &signed_in,
        "/account/tokens",
        "name=CI&read=1&days=30",
    )
    .await;
    let (_, text) = page(&server, &signed_in, "/account").await;
    assert_eq!(
        text.matches("You are signed in with this token").count(),
        1,
        "{text}"
    );
    assert_eq!(
        text.matches("End the token").count(),
        3,
        "its question and its button, and CI's"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_in_no_project_is_offered_no_token() {
    let server = Server::start().await;
    let ada = cookie_of(&form(&server, "", "/people", "name=ada&role=admin").await);
    let account = async |role: &str| {
        let added = form(
            &server,
            &ada,
            "/people",
            &format!("name={role}&role={role}"),
        )
        .await;
        let body = format!("token={}", secret_in(&added));
        let cookie = cookie_of(&form(&server, "", "/sign-in", &body).await);
        page(&server, &cookie, "/account").await.1
    };
    let guest = account("guest").await;
    let told = "You may do nothing until somebody adds you to a project.";
    assert!(
        guest.contains(told) && guest.contains("nothing now"),
        "{guest}"
    );
    assert!(!guest.contains("Make a token"), "{guest}");
    let reader = account("reader").await;
    assert!(reader.contains("This browser may: read."), "{reader}");
    assert!(reader.contains("Make a token"), "{reader}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_sent_too_late_leads_back_to_its_page() {
    let (server, _) = with_admin().await;
    for (path, page) in [
        ("/people/person_a", "/people"),
        ("/people/person_a/token", "/people"),
        ("/account/tokens/token_a/end", "/account"),
        ("/views/view_a/forget", "/views"),
        ("/projects", "/projects"),
        ("/projects/vision", "/projects/vision"),
        ("/projects/vision/members", "/projects/vision"),
        ("/live/live_a/capture", "/live/live_a"),
    ] {
        let answer = form(&server, "", path, "x=y").await;
        let to = answer.headers[header::LOCATION].to_str().unwrap();
        assert_eq!(to, routes::sign_in_page(page), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_keeps_what_was_typed() {
    let server = Server::start().await;
    let ada = cookie_of(&form(&server, "", "/people", "name=ada&role=admin").await);
    let none = form(&server, &ada, "/account/tokens", "name=CI&days=30").await;
    assert_eq!(none.status, StatusCode::BAD_REQUEST);
    let text = String::from_utf8(none.body.to_vec()).unwrap();
    assert!(
        text.contains("value=\"CI\"") && text.contains("value=\"30\" selected"),
        "{text}"
    );
    assert!(
        text.contains("A token must be good for something"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_let_in_again_gets_a_token_to_sign_in_with() {
    let server = Server::start().await;
    let ada = cookie_of(&form(&server, "", "/people", "name=ada&role=admin").await);
    let added = form(&server, &ada, "/people", "name=bo&role=reader").await;
    let first = secret_in(&added);
    let (_, text) = page(&server, &ada, "/people").await;
    let ask = text
        .find("<summary aria-label=\"End access of bo\"")
        .unwrap();
    let end = text[ask..].find("name=\"left\" value=\"true\"").unwrap();
    assert!(
        text[ask..ask + end].contains("shut out at once"),
        "it is asked first"
    );
    let me: Me = get(&server, &first, "/api/me").await.read();
    let bo = format!("/people/{}", me.person.unwrap().id);
    let token = format!("{bo}/token");
    let second = secret_in(&form(&server, &ada, &token, "").await);
    for secret in [&first, &second] {
        assert!(get(&server, secret, "/api/me").await.status.is_success());
    }
    let ended = form(&server, &ada, &bo, "left=true").await;
    assert_eq!(ended.status, StatusCode::SEE_OTHER);
    let none = form(&server, &ada, &token, "").await;
    assert_eq!(none.status, StatusCode::BAD_REQUEST);
    let again = form(&server, &ada, &bo, "left=false").await;
    assert_eq!(again.status, StatusCode::OK);
    let third = secret_in(&again);
    let me: Me = get(&server, &third, "/api/me").await.read();
    assert_eq!(me.person.unwrap().name, "bo");
    let refused = get(&server, &first, "/api/me").await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    // What was typed stays, and the error stands at the name.
    let twice = form(&server, &ada, "/people", "name=bo&role=guest").await;
    assert_eq!(twice.status, StatusCode::CONFLICT);
    let text = String::from_utf8(twice.body.to_vec()).unwrap();
    assert!(
        text.contains("value=\"bo\" aria-invalid=\"true\""),
        "{text}"
    );
    let form = &text[text.find("Add a person").unwrap()..];
    assert!(form.contains("value=\"guest\" selected"), "{form}");
    let (_, text) = page(&server, &ada, "/audit").await;
    assert!(text.contains("sign in of bo"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_does_not_manage_changes_no_token_and_no_session() {
    let (server, ada) = with_admin().await;
    let bo = add(&server, Some(&ada), "bo", Role::Member).await;
    let whole = bo.token.secret.as_str();
    let signed_in = form(&server, "", "/sign-in", &format!("token={whole}")).await;
    let browser = cookie_of(&signed_in);
    let run = run_of(&server, &ada).await;
    for scopes in [r#""read""#, r#""upload""#, r#""read","upload""#] {
        let token = token_for(&server, whole, scopes).await;
        let sessions: Sessions = get(&server, whole, "/api/sessions").await.read();
        let session = sessions.sessions[0].id.to_string();
        let make = r#"{"name":"for ever","scopes":["read"]}"#;
        for (method, path, body) in [
            (Method::POST, "/api/tokens".to_owned(), make),
            (
                Method::DELETE,
                format!("/api/tokens/{}", bo.token.token.id),
                "",
            ),
            (Method::DELETE, "/api/sessions".to_owned(), ""),
            (Method::DELETE, format!("/api/sessions/{session}"), ""),
        ] {
            let refused = send(&server, Some(&token), method, &path, body).await;
            let detail = refused.expect(StatusCode::FORBIDDEN).problem().detail;
            assert!(detail.contains("`manage`"), "{path}: {detail}");
        }
        assert_eq!(page(&server, &browser, "/account").await.0, StatusCode::OK);
        // It can end itself.
        let tokens: Vec<PersonalToken> = get(&server, whole, "/api/tokens").await.read();
        let path = format!("/api/tokens/{}", tokens[0].id);
        let ended = send(&server, Some(&token), Method::DELETE, &path, "").await;
        ended.expect(StatusCode::NO_CONTENT);
    }
    // A comparison is recorded by who may upload, and written down.
    let record = format!(r#"{{"runs":["{run}","{run}"]}}"#);
    let reads = token_for(&server, whole, r#""read""#).await;
    let refused = send(
        &server,
        Some(&reads),
        Method::POST,
        routes::COMPARISONS,
        &record,
    )
    .await;
    refused.expect(StatusCode::FORBIDDEN);
    // A reader's own token, and a browser that signed in with it, still make tokens.
    let cy = add(&server, Some(&ada), "cy", Role::Reader).await;
    token_for(&server, &cy.token.secret, r#""read""#).await;
}

async fn run_of(server: &Server, token: &str) -> String {
    let request = request(Method::PUT, "/api/upload/x.pickle")
        .header(header::AUTHORIZATION, format!("Bearer {token}"));
    let body = Body::from(packed_snapshot());
    let sent = server.send(request.body(body).unwrap()).await;
    sent.read::<FinishedUpload>().run.id.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_no_later_than_the_one_that_made_it() {
    let (server, ada) = with_admin().await;
    let make = async |token: &str, life: &str| {
        let body = format!(r#"{{"name":"x","scopes":["read","manage"]{life}}}"#);
        let made = send(&server, Some(token), Method::POST, "/api/tokens", &body).await;
        made.expect(StatusCode::CREATED).read::<CreatedToken>()
    };
    let short = make(&ada, r#","expires_in_s":60"#).await;
    let ends = short.token.expires_ms.unwrap();
    for (life, expected) in [("", ends), (r#","expires_in_s":86400"#, ends)] {
        let made = make(&short.secret, life).await;
        assert_eq!(made.token.expires_ms, Some(expected), "{life}");
        // And so on.
        let next = make(&made.secret, "").await;
        assert_eq!(next.token.expires_ms, Some(ends));
    }
    let shorter = make(&short.secret, r#","expires_in_s":1"#).await;
    assert!(shorter.token.expires_ms.unwrap() < ends);
    assert_eq!(make(&ada, "").await.token.expires_ms, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_adds_a_person_hands_over_no_more_than_itself() {
    let (server, ada) = with_admin().await;
    let short = r#"{"name":"x","scopes":["manage"],"expires_in_s":60}"#;
    let short = send(&server, Some(&ada), Method::POST, "/api/tokens", short).await;
    let short: CreatedToken = short.expect(StatusCode::CREATED).read();
    let said = |token: &PersonalToken| (token.scopes.to_string(), token.expires_ms);
    let limited = ("manage".to_owned(), short.token.expires_ms);
    let bo = add(&server, Some(&short.secret), "bo", Role::Admin).await;
    assert_eq!(said(&bo.token.token), limited);
    // So is who was added, and who is added on the page.
    let cy = add(&server, Some(&bo.token.secret), "cy", Role::Admin).await;
    assert_eq!(said(&cy.token.token), limited);
    let signed_in = format!("token={}", short.secret);
    let browser = cookie_of(&form(&server, "", "/sign-in", &signed_in).await);
    let added = form(&server, &browser, "/people", "name=di&role=admin").await;
    let tokens = get(&server, &secret_in(&added), "/api/tokens").await;
    assert_eq!(said(&tokens.read::<Vec<PersonalToken>>()[0]), limited);
    let ed = add(&server, Some(&ada), "ed", Role::Member).await;
    let whole = ("read, upload, manage".to_owned(), None);
    assert_eq!(said(&ed.token.token), whole);
}

/// A stream of events of whoever shows this.
async fn listen(server: &Server, name: HeaderName, value: &str) -> Body {
    let asked = request(Method::GET, routes::EVENTS).header(name, value);
    let asked = asked.body(Body::empty()).unwrap();
    let response = server.router.clone().oneshot(asked).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body()
}

/// An upload that one's own token began is listened to with another one that then ends. Each state
/// is a reason to look again.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_an_upload_ends_with_the_access() {
    let (server, ada) = with_admin().await;
    let bo = add(&server, Some(&ada), "bo", Role::Member).await;
    let body = r#"{"name":"x.pickle","size":1}"#;
    let announced = send(&server, Some(&ada), Method::POST, routes::UPLOADS, body).await;
    let AnnouncedUpload { upload } = announced.expect(StatusCode::CREATED).read();
    let path = format!("{}/events", routes::upload(&upload));
    let listen = async |token: &str| {
        let asked = request(Method::GET, &path);
        let asked = asked.header(header::AUTHORIZATION, format!("Bearer {token}"));
        let asked = asked.body(Body::empty()).unwrap();
        let response = server.router.clone().oneshot(asked).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body()
    };
    let mut ends = listen(&bo.token.secret).await;
    let mut stays = listen(&ada).await;
    assert!(comes(&mut ends).await && comes(&mut stays).await);
    let done = access_ends(&server, &ada, &bo.person.id).await;
    assert!(done.status.is_success());
    let cancelled = routes::upload(&upload);
    let cancelled = send(&server, Some(&ada), Method::DELETE, &cancelled, "").await;
    assert!(cancelled.status.is_success());
    assert!(!comes(&mut ends).await, "it says what became of the upload");
    assert!(comes(&mut stays).await);
}

/// Whether the next event comes; `false`: the stream has ended.
async fn comes(stream: &mut Body) -> bool {
    let next = tokio::time::timeout(Duration::from_secs(20), stream.frame()).await;
    next.expect("either comes soon").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_events_ends_with_the_access() {
    let (server, ada) = with_admin().await;
    let bo = add(&server, Some(&ada), "bo", Role::Member).await;
    let cy = add(&server, Some(&ada), "cy", Role::Member).await;
    let token = token_for(&server, &bo.token.secret, r#""read","manage""#).await;
    let signed_in = form(
        &server,
        "",
        "/sign-in",
        &format!("token={}", bo.token.secret),
    )
    .await;
    let bearer = |token: &str| format!("Bearer {token}");
    let auth = header::AUTHORIZATION;
    let mut streams = [
        listen(&server, auth.clone(), &bearer(&token)).await,
        listen(&server, header::COOKIE, &cookie_of(&signed_in)).await,
        listen(&server, auth.clone(), &bearer(&cy.token.secret)).await,
    ];
    let mut stays = listen(&server, auth, &bearer(&ada)).await;
    server.app.events.send(ServerEvent::RunsChanged).unwrap();
    for stream in &mut streams {
        assert!(comes(stream).await);
    }
    assert!(comes(&mut stays).await);
    let tokens: Vec<PersonalToken> = get(&server, &bo.token.secret, "/api/tokens").await.read();
    let left = format!("/api/people/{}", cy.person.id);
    for (token, method, path, body) in [
        (
            &bo.token.secret,
            Method::DELETE,
            format!("/api/tokens/{}", tokens[0].id),
            "",
        ),
        (
            &bo.token.secret,
            Method::DELETE,
            "/api/sessions".to_owned(),
            "",
        ),
        (&ada, Method::PATCH, left, r#"{"left":true}"#),
    ] {
        let done = send(&server, Some(token), method, &path, body).await;
        assert!(done.status.is_success(), "{path}");
    }
    server.app.events.send(ServerEvent::RunsChanged).unwrap();
    for (at, stream) in streams.iter_mut().enumerate() {
        assert!(!comes(stream).await, "stream {at} goes on");
    }
    assert!(comes(&mut stays).await);
}
