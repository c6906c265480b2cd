//! Tests about who may come in.

use super::{Answer, Server, packed_snapshot, request};
use crate::limits::clients::{Peer, Proxies};
use crate::who::server_token::Token;
use api::problem::ProblemCode;
use api::routes;
use api::runs::{Access, FinishedUpload, ServerInfo, Sessions};
use axum::body::Body;
use axum::http::{HeaderName, Method, Request, StatusCode, header};
use std::sync::Arc;
use tokio::task::JoinSet;

const TOKEN: &str = "correct-horse-battery-staple-0001";

async fn guarded() -> Server {
    Server::with(|config| config.token = Some(Token::new(TOKEN).unwrap())).await
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
    let bearer =
        async |value: &str| get_with(&server, "/api/runs", header::AUTHORIZATION, value).await;
    assert_eq!(bearer(&format!("Bearer {TOKEN}")).await, StatusCode::OK);
    assert_eq!(bearer(&format!("bearer {TOKEN}")).await, StatusCode::OK);
    assert_eq!(bearer("Bearer wrong-horse").await, StatusCode::UNAUTHORIZED);
    assert_eq!(bearer(TOKEN).await, StatusCode::UNAUTHORIZED);

    let wrong = server
        .json(Method::POST, "/api/session", r#"{"token":"wrong"}"#)
        .await;
    assert_eq!(wrong.problem().code, ProblemCode::Unauthorized);
    let cookie = sign_in(&server).await;
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains(TOKEN), "{cookie}");
    let pair = format!("other=1; {}", pair_of(&cookie));
    let status = get_with(&server, "/api/runs", header::COOKIE, &pair).await;
    assert_eq!(status, StatusCode::OK);
}

/// Signs in with the token; returns the cookie.
async fn sign_in(server: &Server) -> String {
    let body = format!(r#"{{"token":"{TOKEN}"}}"#);
    let right = server.json(Method::POST, "/api/session", &body).await;
    let cookie = right.expect(StatusCode::NO_CONTENT).headers[header::SET_COOKIE].clone();
    cookie.to_str().unwrap().to_owned()
}

fn pair_of(cookie: &str) -> &str {
    cookie.split(';').next().unwrap()
}

async fn send_with(server: &Server, method: Method, path: &str, cookie: &str) -> Answer {
    let request = request(method, path).header(header::COOKIE, pair_of(cookie));
    server.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_browser_has_a_session_of_its_own_that_can_be_ended() {
    let server = guarded().await;
    let (one, two) = (sign_in(&server).await, sign_in(&server).await);
    assert_ne!(one, two);
    let list = send_with(&server, Method::GET, "/api/sessions", &one).await;
    let sessions = list.expect(StatusCode::OK).read::<Sessions>().sessions;
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions.iter().filter(|session| session.current).count(), 1);
    // One ends its own session by signing out, and another's by revoking it.
    let out = send_with(&server, Method::DELETE, "/api/session", &one).await;
    let gone = out.expect(StatusCode::NO_CONTENT).headers[header::SET_COOKIE].clone();
    assert!(gone.to_str().unwrap().contains("Max-Age=0"));
    let status = async |cookie: &str| {
        let answer = send_with(&server, Method::GET, "/api/runs", cookie).await;
        answer.status
    };
    assert_eq!(status(&one).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&two).await, StatusCode::OK);
    let list: Sessions = send_with(&server, Method::GET, "/api/sessions", &two)
        .await
        .read();
    let path = routes::session(&list.sessions[0].id);
    let revoked = send_with(&server, Method::DELETE, &path, &two).await;
    revoked.expect(StatusCode::NO_CONTENT);
    assert_eq!(status(&two).await, StatusCode::UNAUTHORIZED);
    let again = send_with(&server, Method::DELETE, &path, &sign_in(&server).await).await;
    again.expect(StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_other_sessions_can_be_ended_at_once() {
    let server = guarded().await;
    let mut cookies = Vec::new();
    for _ in 0..3 {
        cookies.push(sign_in(&server).await);
    }
    let ended = send_with(&server, Method::DELETE, "/api/sessions", &cookies[1]).await;
    ended.expect(StatusCode::NO_CONTENT);
    let mut statuses = Vec::new();
    for cookie in &cookies {
        let answer = send_with(&server, Method::GET, "/api/runs", cookie).await;
        statuses.push(answer.status);
    }
    let refused = StatusCode::UNAUTHORIZED;
    assert_eq!(statuses, [refused, StatusCode::OK, refused]);
    let list: Sessions = send_with(&server, Method::GET, "/api/sessions", &cookies[1])
        .await
        .read();
    assert_eq!(list.sessions.len(), 1);
    assert!(list.sessions[0].current && list.sessions[0].seen_ms >= list.sessions[0].created_ms);
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_are_secure_where_the_public_address_is() {
    assert!(!sign_in(&guarded().await).await.contains("Secure"));
    let server = Server::with(|config| {
        config.token = Some(Token::new(TOKEN).unwrap());
        config.public_url = Some("https://tidemark.example".parse().unwrap());
    });
    assert!(sign_in(&server.await).await.ends_with("; Secure"));
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_is_slowed_and_counted_and_holds_up_no_session() {
    let server = guarded().await;
    let cookie = sign_in(&server).await;
    let (server, mut tries) = (Arc::new(server), JoinSet::new());
    for n in 0..200 {
        let server = Arc::clone(&server);
        tries.spawn(async move {
            if n % 2 == 0 {
                let value = format!("Bearer wrong-{n}");
                return get_with(&server, "/api/runs", header::AUTHORIZATION, &value).await;
            }
            let body = format!(r#"{{"token":"wrong-{n}"}}"#);
            server
                .json(Method::POST, "/api/session", &body)
                .await
                .status
        });
    }
    let answers = tries.join_all().await;
    let count = |status| answers.iter().filter(|&&answer| answer == status).count();
    let looked_at = count(StatusCode::UNAUTHORIZED);
    assert!((10..25).contains(&looked_at), "{looked_at}");
    assert_eq!(looked_at + count(StatusCode::TOO_MANY_REQUESTS), 200);
    // Nothing is looked at now, but the right one, which was right from here before.
    let right = format!("Bearer {TOKEN}");
    let right = get_with(&server, "/api/runs", header::AUTHORIZATION, &right).await;
    assert_eq!(right, StatusCode::OK);
    let late = request(Method::GET, "/api/runs").header(header::AUTHORIZATION, "Bearer late");
    let late = server.send(late.body(Body::empty()).unwrap()).await;
    assert_eq!(late.problem().code, ProblemCode::TooMany);
    let wait: u64 = late.headers[header::RETRY_AFTER]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=660).contains(&wait), "{wait}");
    let list = send_with(&server, Method::GET, "/api/sessions", &cookie).await;
    let list: Sessions = list.expect(StatusCode::OK).read();
    assert_eq!(list.wrong as usize, looked_at);
    assert!(list.refused as usize > 200 - looked_at);
}

/// A request of a client with this address, as a trusted proxy reports it.
async fn tried(server: &Server, client: &str, token: &str) -> Answer {
    let (remote, local) = (
        "10.0.0.1:9".parse().unwrap(),
        "10.0.0.2:80".parse().unwrap(),
    );
    let bearer = format!("Bearer {token}");
    let request = request(Method::GET, "/api/runs")
        .header("x-forwarded-for", client)
        .header(header::AUTHORIZATION, bearer)
        .extension(Peer { remote, local });
    server.send(request.body(Body::empty()).unwrap()).await
}

/// Guesses wrong until one is checked.
async fn wrong_guess_checked(server: &Server, client: &str) {
    loop {
        let answer = tried(server, client, "wrong").await;
        if answer.problem().code == ProblemCode::Unauthorized {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_from_many_addresses_are_slowed_in_all() {
    let server = Server::with(|config| {
        config.token = Some(Token::new(TOKEN).unwrap());
        config.public_url = Some("http://localhost:7878".parse().unwrap());
        config.proxies = Proxies::parse(["10.0.0.1"]).unwrap();
    });
    let server = server.await;
    // A client that showed the right one before.
    let known = "192.0.2.7";
    tried(&server, known, TOKEN).await.expect(StatusCode::OK);
    let cookie = sign_in(&server).await;
    let mut looked_at = 0;
    for n in 0..300 {
        // No address guesses more than three times.
        let client = format!("198.51.100.{}", n % 100);
        let answer = tried(&server, &client, &format!("wrong-{n}")).await;
        match answer.problem().code {
            ProblemCode::Unauthorized => looked_at += 1,
            ProblemCode::TooMany => assert!(answer.headers.contains_key(header::RETRY_AFTER)),
            other => panic!("{other:?}"),
        }
    }
    // A hundred at once, and a few more during the time of the test.
    assert!((100..250).contains(&looked_at), "{looked_at}");
    // Right after a guess that was checked, nobody else's is for up to 0.6 s, not even a right one.
    // A busy machine may need longer than that between the two.
    let mut refused = 0;
    for n in 0..5 {
        wrong_guess_checked(&server, &format!("203.0.113.{}", 100 + n)).await;
        looked_at += 1;
        let stranger = tried(&server, &format!("203.0.113.{n}"), TOKEN).await;
        refused += u32::from(stranger.status == StatusCode::TOO_MANY_REQUESTS);
    }
    assert!(refused > 0, "nobody was refused");
    tried(&server, known, TOKEN).await.expect(StatusCode::OK);
    let list = send_with(&server, Method::GET, "/api/sessions", &cookie).await;
    let list: Sessions = list.expect(StatusCode::OK).read();
    assert_eq!(list.wrong, looked_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_to_sign_in_says_how_long_to_wait() {
    let server = guarded().await;
    let wrong = async || {
        let form = request(Method::POST, routes::SIGN_IN_PAGE)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let answer = server.send(form.body(Body::from("token=wrong")).unwrap());
        answer.await
    };
    let first = wrong().await.expect(StatusCode::UNAUTHORIZED);
    assert_eq!(first.headers[header::WWW_AUTHENTICATE], "Bearer");
    for _ in 0..200 {
        let answer = wrong().await;
        let text = String::from_utf8_lossy(&answer.body);
        assert!(
            text.contains("role=\"alert\"") && text.contains("Your token"),
            "{text}"
        );
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            let wait = answer.headers[header::RETRY_AFTER].to_str().unwrap();
            assert!((1..=660).contains(&wait.parse::<u64>().unwrap()), "{wait}");
            return;
        }
    }
    panic!("the form can be guessed at for ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_cannot_be_guessed_quickly_either() {
    let server = guarded().await;
    let mut refused = 0;
    for n in 0..30 {
        let path = format!("/s/{n:022}/card.svg");
        let answer = server.get(&path).await;
        match answer.problem().code {
            ProblemCode::NotFound => assert_eq!(refused, 0),
            ProblemCode::TooMany => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(refused >= 15, "{refused}");
    let body = format!(r#"{{"token":"{:022}"}}"#, 77);
    let open = server.json(Method::POST, "/api/shares/open", &body).await;
    assert_eq!(open.problem().code, ProblemCode::TooMany);
}

/// `<img src="https://tidemark.example/s/000…">` in a page of another site.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_makes_nobody_guess() {
    let server = guarded().await;
    let from = async |site: &'static str, dest: &'static str, path: &str| {
        let asked = request(Method::GET, path)
            .header("sec-fetch-site", site)
            .header("sec-fetch-dest", dest);
        server.send(asked.body(Body::empty()).unwrap()).await
    };
    for n in 0..200 {
        let (page, card) = (format!("/s/{n:022}"), format!("/s/{n:022}/card.png"));
        assert_eq!(
            from("cross-site", "image", &page).await.status,
            StatusCode::OK
        );
        let card = from("same-site", "image", &card).await;
        assert_eq!(card.problem().code, ProblemCode::NotFound);
    }
    assert_eq!(server.app.gate.tally().wrong, 0);
    // A person who follows a link, and this server's own page, show what they have.
    from("cross-site", "document", &format!("/s/{:022}", 7)).await;
    from("same-origin", "image", &format!("/s/{:022}/card.png", 7)).await;
    assert_eq!(server.app.gate.tally().wrong, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_links_keep_no_token_out_and_a_token_that_was_right_here_passes() {
    let server = guarded().await;
    let bearer = |token: &str| format!("Bearer {token}");
    let with = async |token: &str| {
        get_with(&server, "/api/runs", header::AUTHORIZATION, &bearer(token)).await
    };
    for n in 0..30 {
        server.get(&format!("/s/{n:022}")).await;
    }
    let link = server.get("/s/0000000000000000000077/card.svg").await;
    assert_eq!(link.problem().code, ProblemCode::TooMany);
    assert_eq!(with(TOKEN).await, StatusCode::OK);
    while with("wrong").await != StatusCode::TOO_MANY_REQUESTS {}
    assert_eq!(with(TOKEN).await, StatusCode::OK);
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
    for host in [
        "[::1]evil.example",
        "localhost:1@evil",
        "localhost.evil.example",
    ] {
        let request = Request::get("/api/runs").header(header::HOST, host);
        let answer = server.send(request.body(Body::empty()).unwrap()).await;
        answer.expect(StatusCode::FORBIDDEN);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_names_one_host() {
    let server = Server::start().await;
    let check = async |uri: &str, hosts: &[&str], expected| {
        let request = hosts.iter().fold(Request::get(uri), |request, host| {
            request.header(header::HOST, *host)
        });
        let answer = server.send(request.body(Body::empty()).unwrap()).await;
        answer.expect(expected);
    };
    check("/api/runs", &["localhost"], StatusCode::OK).await;
    check("http://localhost/api/runs", &["localhost"], StatusCode::OK).await;
    let two = ["localhost", "evil.example"];
    check("/api/runs", &two, StatusCode::BAD_REQUEST).await;
    for uri in [
        "http://evil.example/api/runs",
        "http://a:b@evil.example/api/runs",
    ] {
        check(uri, &["localhost"], StatusCode::BAD_REQUEST).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_only_names_of_this_server_pass_and_links_have_the_public_one() {
    let get = |host: &str, path: &str| {
        let request = Request::get(path).header(header::HOST, host);
        request.body(Body::empty()).unwrap()
    };
    let server = guarded().await;
    for host in [
        "evil.example",
        "6.6.6.6",
        "localhost:1@evil",
        "[::1]evil.example",
    ] {
        let refused = server.send(get(host, "/")).await;
        let problem = refused.expect(StatusCode::FORBIDDEN).problem();
        assert!(
            problem.detail.contains("--public-url"),
            "{}",
            problem.detail
        );
    }
    let own = crate::who::host_names::hostname();
    server.send(get(&own, "/")).await.expect(StatusCode::OK);
    let server = Server::with(|config| {
        config.token = Some(Token::new(TOKEN).unwrap());
        config.public_url = Some("https://tidemark.example".parse().unwrap());
    });
    let server = server.await;
    let named = server.send(get("tidemark.example", "/")).await;
    named.expect(StatusCode::OK);
    let other = server.send(get(&own, "/")).await;
    other.expect(StatusCode::FORBIDDEN);
    let upload = request(Method::PUT, "/api/upload/a")
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
        .body(Body::from(packed_snapshot()));
    let finished: FinishedUpload = server.send(upload.unwrap()).await.read();
    assert!(
        finished.url.starts_with("https://tidemark.example/runs/"),
        "{}",
        finished.url
    );
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

/// A browser or a proxy that keeps an answer would show it to the next one who asks.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_of_the_api_is_kept_by_accident() {
    let server = Server::start().await;
    let document: serde_json::Value = server.get(api::routes::OPENAPI).await.read();
    let paths = document["paths"].as_object().unwrap();
    let asked = paths.iter().filter(|(path, item)| {
        item.get("get").is_some() && !path.contains('{') && !path.ends_with("/events")
    });
    for (path, _) in asked {
        let answer = server.get(path).await;
        let told = answer.headers.contains_key(header::CACHE_CONTROL);
        assert!(told, "{path}: {}", answer.status);
    }
    for path in ["/api/nothing", "/api/uploads/upload_none"] {
        let answer = server.get(path).await;
        assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store", "{path}");
    }
}
