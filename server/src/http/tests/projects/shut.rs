//! Projects that are not there for somebody: what they are told.

use super::*;
use crate::system::data_folder::RESTORING;
use api::people::CreatedToken;

/// A token of ada's or bo's.
async fn token(team: &Team, of: &str, body: Value) -> String {
    let made = team.ask(with(of), Method::POST, "/api/tokens", body).await;
    made.expect(StatusCode::CREATED)
        .read::<CreatedToken>()
        .secret
}

async fn close(team: &Team, closed: bool) -> Answer {
    let (path, change) = ("/api/projects/vision", json!({ "closed": closed }));
    team.ask(with(&team.ada), Method::PATCH, path, change).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_closed_project_says_so() {
    let team = Team::start().await;
    let body = json!({ "name": "CI", "scopes": ["read"], "project": "vision" });
    let bound = token(&team, &team.ada, body).await;
    let runs = async || team.get(with(&bound), routes::RUNS).await;
    runs().await.expect(StatusCode::OK);
    close(&team, true).await.expect(StatusCode::OK);
    let refused = runs().await.problem();
    assert_eq!(refused.status, 403);
    let said = "this token opens only the project vision, and that one is closed";
    assert!(refused.detail.starts_with(said), "{}", refused.detail);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_only_sends_does_not_read_who_is_a_member() {
    let team = Team::start().await;
    let members = "/api/projects/vision/members";
    let of = |scope: &str| json!({ "name": "CI", "scopes": [scope] });
    let (sends, reads) = (
        token(&team, &team.ada, of("upload")).await,
        token(&team, &team.ada, of("read")).await,
    );
    team.get(with(&reads), members).await.expect(StatusCode::OK);
    team.get(with(&sends), members)
        .await
        .expect(StatusCode::FORBIDDEN);
    let none = json!({ "name": "CI", "scopes": ["read"], "expires_in_s": 0 });
    team.ask(with(&team.ada), Method::POST, "/api/tokens", none)
        .await
        .expect(StatusCode::BAD_REQUEST);
}

/// Neither empty nor unknown: those who may enter learn that it cannot be opened.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_cannot_be_opened_answers_503() {
    let team = Team::start().await;
    let path = format!("/api/projects/vision/members/{}", team.eve.person.id);
    let role = json!({ "role": "member" });
    team.ask(with(&team.ada), Method::PUT, &path, role)
        .await
        .expect(StatusCode::NO_CONTENT);
    close(&team, true).await.expect(StatusCode::OK);
    let mark = team.server.data().join("projects/vision").join(RESTORING);
    std::fs::write(mark, "").unwrap();
    close(&team, false)
        .await
        .expect(StatusCode::SERVICE_UNAVAILABLE);
    let eve = with(&team.eve.token.secret);
    for asks in [eve, eve.of("vision"), with(&team.ada).of("vision")] {
        let refused = team.get(asks, routes::RUNS).await.problem();
        assert_eq!(
            (refused.status, refused.code),
            (503, ProblemCode::Unavailable)
        );
        assert!(
            refused.detail.contains("the project vision"),
            "{}",
            refused.detail
        );
    }
    let refused = team.get(with(&team.bo.token.secret).of("vision"), routes::RUNS);
    refused.await.expect(StatusCode::NOT_FOUND);
    let listed: Vec<Project> = team.get(with(&team.ada), routes::PROJECTS).await.read();
    let vision = listed
        .iter()
        .find(|it| it.name.as_str() == "vision")
        .unwrap();
    assert!(vision.trouble.is_some());
    says_once_that_it_is_shut(&team).await;
    let metrics = team.get(with(&team.ada), routes::METRICS).await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(text.contains("tidemark_projects_shut 1"), "{text}");
}

/// Also after another try. Which old runs would be deleted cannot be told.
async fn says_once_that_it_is_shut(team: &Team) {
    for (method, form, expected) in [
        (Method::GET, "", "It cannot be opened: "),
        (Method::POST, "what=open", "It still cannot be opened: "),
    ] {
        let request = headed(request(method, "/projects/vision"), with(&team.ada))
            .header(header::ACCEPT, "text/html,*/*;q=0.8")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let page = team.server.send(request.body(Body::from(form)).unwrap());
        let page = String::from_utf8_lossy(&page.await.body).into_owned();
        assert_eq!(page.matches("cannot be opened").count(), 1, "{page}");
        assert!(page.contains(expected), "{page}");
        assert!(!page.contains("Delete old runs"), "{page}");
    }
}
