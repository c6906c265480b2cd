//! What is in a project is out of reach of whoever may not enter it, at every address.

use super::{Team, with};
use api::routes;
use api::shares::CreatedShare;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

/// Makes one of each thing in a project. Returns what fills the parameters of an address with their
/// ids.
async fn things_in(team: &Team, project: &'static str) -> impl Fn(&str) -> String + use<> {
    let ada = with(&team.ada).of(project);
    let run = team.run_in(project).await;
    let share = json!({ "kind": "team", "target": { "kind": "run", "run": run.id }, "query": "v=1",
        "redaction": "none", "note": "", "created_by": "", "expires_in_s": null });
    let share = team.ask(ada, Method::POST, routes::SHARES, share).await;
    let share: CreatedShare = share.expect(StatusCode::CREATED).read();
    let job = team
        .ask(ada, Method::POST, routes::JOBS, json!({ "name": "j" }))
        .await;
    let job: Value = job.expect(StatusCode::CREATED).read();
    let view = json!({ "name": "v", "path": "/history" });
    let view = team
        .ask(ada, Method::POST, "/api/views", view)
        .await
        .read::<Value>();
    let live = json!({ "name": "l" });
    let live = team
        .ask(ada, Method::POST, "/api/live", live)
        .await
        .read::<Value>();
    let id = |value: &Value, key: &str| value[key].as_str().unwrap_or("none_a").to_owned();
    move |path: &str| {
        let parts = path.split('/').map(|part| match part {
            "{run}" => run.id.to_string(),
            "{share}" => share.share.id.to_string(),
            "{job}" => id(&job, "id"),
            "{view}" => id(&view, "id"),
            "{live}" => id(&live, "live"),
            "{group}" => "stack".to_owned(),
            "{project}" => project.to_owned(),
            part if part.starts_with('{') => "0".to_owned(),
            part => part.to_owned(),
        });
        parts.collect::<Vec<_>>().join("/")
    }
}

/// Every address of the API, filled with what is in another project.
#[tokio::test(flavor = "multi_thread")]
async fn no_address_answers_with_something_of_another_project() {
    let team = Team::start().await;
    team.let_in(&team.eve, "vision", "admin").await;
    // The first project is behind every handler: eve, a guest, may not enter it.
    for (project, stranger) in [("secret", &team.bo), ("main", &team.eve)] {
        let fill = things_in(&team, project).await;
        let answered = nothing_is_answered(&team, project, &stranger.token.secret, &fill).await;
        assert!(
            answered >= 22,
            "{answered} addresses answer to ada: the ids are wrong"
        );
        let run = fill("{run}");
        for query in [format!("runs={run},{run}"), format!("run={run}")] {
            for path in ["/api/compare", "/api/compare/curves", "/api/shares"] {
                let answer = team
                    .get(with(&stranger.token.secret), &format!("{path}?{query}"))
                    .await;
                let empty = answer.body.as_ref() == b"[]";
                assert!(empty || answer.status.is_client_error(), "{path}?{query}");
            }
        }
        let runs = team.runs(with(&team.ada).of(project)).await;
        assert_eq!(runs, 1, "nothing was changed in {project}");
    }
}

/// Asks every address that is about one thing, as a stranger to its project. Returns how many
/// answer to an admin.
async fn nothing_is_answered(
    team: &Team,
    project: &str,
    stranger: &str,
    fill: &impl Fn(&str) -> String,
) -> u32 {
    let document: Value = team.get(with(&team.ada), routes::OPENAPI).await.read();
    let (mut asked, mut answered) = (0, 0);
    for (path, methods) in document["paths"].as_object().unwrap() {
        let is_of_one = ["{run}", "{share}", "{job}", "{view}", "{live}", "{project}"];
        if !is_of_one.iter().any(|name| path.contains(name)) {
            continue;
        }
        for (method, _) in methods.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            if method == Method::GET {
                let granted = team.get(with(&team.ada).of(project), &fill(path)).await;
                answered += u32::from(granted.status.is_success());
            }
            let stranger = with(stranger);
            for asks in [stranger, stranger.of("vision"), stranger.of(project)] {
                let body = match method {
                    Method::GET | Method::DELETE => Value::Null,
                    _ => json!({ "name": "x", "role": "reader", "by": "" }),
                };
                let refused = team.ask(asks, method.clone(), &fill(path), body).await;
                let status = refused.status;
                assert!(status.is_client_error(), "{method} {path}: {status}");
                asked += 1;
            }
        }
    }
    assert!(asked > 100, "only {asked} addresses were asked");
    answered
}
