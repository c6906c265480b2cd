//! What the tokens of people are good for.

use super::super::{Server, packed_snapshot, request};
use super::{add, cookie_of, form, get, page, secret_in, send, token_for, with_admin};
use api::compare::RecordedComparison;
use api::ids::RunId;
use api::people::{CreatedToken, PersonalToken, Role};
use api::problem::ProblemCode;
use api::routes;
use api::runs::{FinishedUpload, Sessions};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_may_only_send_reads_nothing_of_what_others_sent() {
    let (server, ada) = with_admin().await;
    let bo = add(&server, Some(&ada), "bo", Role::Member)
        .await
        .token
        .secret;
    let new = r#"{"name":"CI","scopes":["upload"]}"#;
    let made = send(&server, Some(&bo), Method::POST, "/api/tokens", new).await;
    let ci = made.read::<CreatedToken>().secret;
    let sample = send(
        &server,
        Some(&ada),
        Method::POST,
        &routes::sample("plain_lm"),
        "",
    )
    .await;
    let of_ada = sample.read::<FinishedUpload>().run.id;
    let of_ci: RunId = run_of(&server, &ci).await.parse().unwrap();
    let label = async |run: &RunId| {
        let path = routes::run_labels(run);
        send(
            &server,
            Some(&ci),
            Method::PATCH,
            &path,
            r#"{"labels":{"a":"b"}}"#,
        )
        .await
    };
    assert_eq!(label(&of_ci).await.status, StatusCode::OK);
    assert_eq!(label(&of_ada).await.status, StatusCode::FORBIDDEN);
    let pair = format!(r#"{{"runs":["{of_ada}","{of_ci}"]}}"#);
    let recorded = send(&server, Some(&ci), Method::POST, "/api/comparisons", &pair).await;
    assert_eq!(recorded.read::<RecordedComparison>().name, "");
    let read = send(&server, Some(&ada), Method::POST, "/api/comparisons", &pair).await;
    assert!(read.read::<RecordedComparison>().name.contains(" → "));
    // Nor who else is in its project.
    for (secret, status) in [(&ci, StatusCode::FORBIDDEN), (&bo, StatusCode::OK)] {
        let project = send(&server, Some(secret), Method::GET, "/projects/main", "").await;
        assert_eq!(project.status, status);
    }
}
