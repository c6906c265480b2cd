//! The tag of an answer opens nothing: who may not see a list does not learn whether it changed.

use super::super::{Answer, request};
use super::{Asks, Team, headed, with};
use api::routes;
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};

/// The runs, for who may have an answer with this tag.
async fn list(team: &Team, asks: Asks<'_>, tag: Option<&HeaderValue>) -> Answer {
    let asked = headed(request(Method::GET, routes::RUNS), asks);
    let asked = match tag {
        Some(tag) => asked.header(header::IF_NONE_MATCH, tag),
        None => asked,
    };
    team.server.send(asked.body(Body::empty()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_one_project_is_never_that_of_another_or_of_a_stranger() {
    let team = Team::start().await;
    for project in ["secret", "vision"] {
        team.run_in(project).await;
    }
    team.let_in(&team.eve, "vision", "reader").await;
    let (ada, eve) = (with(&team.ada), with(&team.eve.token.secret));
    let secret = list(&team, ada.of("secret"), None).await;
    let tag = secret.headers[header::ETAG].clone();
    let same = list(&team, ada.of("secret"), Some(&tag)).await;
    assert_eq!(same.status, StatusCode::NOT_MODIFIED);
    for other in [ada.of("vision"), ada.of("main"), eve.of("vision")] {
        let own = list(&team, other, Some(&tag)).await.expect(StatusCode::OK);
        assert_ne!(own.headers[header::ETAG], tag, "{:?}", other.project);
    }
    let nobody = Asks::default();
    for stranger in [eve, nobody, with("wrong")] {
        let refused = list(&team, stranger.of("secret"), Some(&tag)).await;
        assert!(refused.status.is_client_error(), "{}", refused.status);
        assert!(!refused.headers.contains_key(header::ETAG));
    }
    // Who is let in sees what all see who may.
    team.let_in(&team.eve, "secret", "reader").await;
    let seen = list(&team, eve.of("secret"), None).await;
    assert_eq!(seen.body, secret.body);
}
