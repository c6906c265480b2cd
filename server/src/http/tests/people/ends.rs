//! Access that ends while something is going on.

use super::super::{Server, packed_snapshot, request};
use super::{access_ends, add, cookie_of, form, get, send, token_for, with_admin};
use api::people::{CreatedToken, PersonalToken, Role};
use api::progress::ServerEvent;
use api::routes;
use api::runs::AnnouncedUpload;
use axum::body::Body;
use axum::http::{HeaderName, Method, StatusCode, header};
use http_body_util::BodyExt;
use std::time::Duration;
use tower::ServiceExt;

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
    let a_week_later = crate::system::clock::now_ms() + 7 * 24 * 3_600_000;
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
    let file = packed_snapshot();
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
