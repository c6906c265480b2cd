//! A token of a project opens that one, and names no other.

use super::super::{packed_snapshot, request};
use super::{Asks, Team, headed, with};
use api::history::History;
use api::people::{CreatedToken, PersonalToken};
use api::routes;
use api::runs::{FinishedUpload, Sessions};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_project_sends_there_and_nowhere_else() {
    let team = Team::start().await;
    let new = json!({ "name": "CI", "scopes": ["read", "upload"], "project": "vision" });
    let made = team
        .ask(with(&team.ada), Method::POST, "/api/tokens", new)
        .await;
    let ci = made
        .expect(StatusCode::CREATED)
        .read::<CreatedToken>()
        .secret;
    let sent = team.upload(with(&ci), packed_snapshot()).await;
    let run = sent
        .expect(StatusCode::CREATED)
        .read::<FinishedUpload>()
        .run;
    assert_eq!(team.runs(with(&team.ada).of("vision")).await, 1);
    assert_eq!(team.runs(with(&ci)).await, 1);
    // Whoever asks with it has named no project, and links must lead into this one.
    let told: History = team.get(with(&ci), "/api/history").await.read();
    assert_eq!(told.project, Some("vision".parse().unwrap()));
    team.get(with(&ci), &routes::run(&run.id))
        .await
        .expect(StatusCode::OK);
    for project in ["main", "secret"] {
        let refused = team.get(with(&ci).of(project), routes::RUNS).await;
        refused.expect(StatusCode::NOT_FOUND);
    }
    for (method, path) in [
        (Method::GET, "/metrics"),
        (Method::GET, "/api/people"),
        (Method::POST, "/api/projects"),
        (Method::POST, "/api/tokens"),
        (Method::PATCH, "/api/projects/vision"),
        (Method::DELETE, "/api/sessions"),
    ] {
        let body = json!({ "name": "more", "scopes": ["read"] });
        let refused = team.ask(with(&ci), method, path, body).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}");
    }
    // The forms refuse the same: a session of such a token could make one that opens everything.
    for (path, form) in [
        ("/account/tokens", "name=more&read=1&days="),
        ("/account/sessions/end-others", ""),
        ("/projects/vision", "what=access&everybody=member"),
        ("/projects", "name=mine"),
        ("/people", "name=x&role=admin"),
    ] {
        let request = headed(request(Method::POST, path), with(&ci))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let refused = team.server.send(request.body(Body::from(form)).unwrap());
        assert_eq!(refused.await.status, StatusCode::FORBIDDEN, "{path}");
    }
    let not_hers = json!({ "name": "x", "scopes": [], "project": "secret" });
    let refused = team.ask(
        with(&team.bo.token.secret),
        Method::POST,
        "/api/tokens",
        not_hers,
    );
    refused.await.expect(StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_project_ends_itself_and_no_other_one() {
    let team = Team::start().await;
    let new = json!({ "name": "CI", "scopes": ["upload"], "project": "vision" });
    let made = team.ask(with(&team.ada), Method::POST, "/api/tokens", new);
    let made = made.await.expect(StatusCode::CREATED);
    let ci = made.read::<CreatedToken>().secret;
    let own: Vec<PersonalToken> = team.get(with(&ci), "/api/tokens").await.read();
    let bos = team.bo.token.token.id.to_string();
    for (token, expected) in [
        (bos, StatusCode::FORBIDDEN),
        (own[0].id.to_string(), StatusCode::NO_CONTENT),
    ] {
        let path = format!("/api/tokens/{token}");
        let ended = team.ask(with(&ci), Method::DELETE, &path, json!({})).await;
        assert_eq!(ended.status, expected, "{path}");
    }
    team.get(with(&ci), routes::RUNS)
        .await
        .expect(StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_project_names_no_other_one() {
    let team = Team::start().await;
    let make = async |project: &str| {
        let new = json!({ "name": project, "scopes": ["upload"], "project": project });
        let ada = with(&team.ada);
        let made = team.ask(ada, Method::POST, "/api/tokens", new).await;
        made.expect(StatusCode::CREATED).read::<CreatedToken>()
    };
    let (ci, _) = (make("vision").await, make("secret").await);
    let sign_in = async |token: &str| {
        let open = json!({ "token": token });
        let opened = team.ask(Asks::default(), Method::POST, routes::SESSION, open);
        let cookie = opened.await.headers[header::SET_COOKIE].clone();
        let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
        cookie.to_owned()
    };
    sign_in(&team.ada).await;
    let browser = sign_in(&ci.secret).await;
    let browser = Asks {
        cookie: Some(&browser),
        ..Asks::default()
    };
    for (asks, sessions) in [(with(&ci.secret), 0), (browser, 1)] {
        let tokens: Vec<PersonalToken> = team.get(asks, "/api/tokens").await.read();
        let ids: Vec<_> = tokens.iter().map(|token| &token.id).collect();
        assert_eq!(ids, [&ci.token.id]);
        let listed: Sessions = team.get(asks, "/api/sessions").await.read();
        assert_eq!(listed.sessions.len(), sessions);
        let page = team.get(asks, "/account").await.expect(StatusCode::OK);
        let page = String::from_utf8_lossy(&page.body).into_owned();
        assert!(
            page.contains("vision") && !page.contains("secret"),
            "{page}"
        );
    }
    let all: Vec<PersonalToken> = team.get(with(&team.ada), "/api/tokens").await.read();
    assert_eq!(all.len(), 3);
}
