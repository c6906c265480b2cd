//! Projects over HTTP: what is in one cannot be seen, changed or guessed from another.

mod keeping;
mod links;
mod lists;
mod pages;
mod shut;
mod strangers;
mod tokens;
mod usage;

use super::{Answer, Server, packed_snapshot, request};
use api::people::{AddedPerson, Role};
use api::problem::ProblemCode;
use api::progress::ServerEvent;
use api::projects::{HEADER, Project};
use api::routes;
use api::runs::{FinishedUpload, RunSummary};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;

/// A server with an admin (ada), a member (bo) and a guest (eve), and two projects that only ada
/// may enter.
struct Team {
    server: Server,
    ada: String,
    bo: AddedPerson,
    eve: AddedPerson,
}

/// Who asks, and for which project.
#[derive(Clone, Copy, Default)]
struct Asks<'a> {
    token: Option<&'a str>,
    project: Option<&'a str>,
    cookie: Option<&'a str>,
}

fn with(token: &str) -> Asks<'_> {
    Asks {
        token: Some(token),
        ..Asks::default()
    }
}

impl<'a> Asks<'a> {
    fn of(self, project: &'a str) -> Asks<'a> {
        Asks {
            project: Some(project),
            ..self
        }
    }
}

impl Team {
    async fn start() -> Team {
        let server = Server::start().await;
        let add = async |token: Option<&str>, name: &str, role: Role| {
            let asks = Asks {
                token,
                ..Asks::default()
            };
            let body = json!({ "name": name, "role": role });
            let added = send(&server, asks, Method::POST, "/api/people", &body).await;
            added.expect(StatusCode::CREATED).read::<AddedPerson>()
        };
        let ada = add(None, "ada", Role::Admin).await.token.secret;
        let bo = add(Some(&ada), "bo", Role::Member).await;
        let eve = add(Some(&ada), "eve", Role::Guest).await;
        for name in ["vision", "secret"] {
            let new = json!({ "name": name });
            let made = send(&server, with(&ada), Method::POST, routes::PROJECTS, &new);
            made.await.expect(StatusCode::CREATED);
        }
        Team {
            server,
            ada,
            bo,
            eve,
        }
    }

    async fn get(&self, asks: Asks<'_>, path: &str) -> Answer {
        send(&self.server, asks, Method::GET, path, &Value::Null).await
    }

    async fn ask(&self, asks: Asks<'_>, method: Method, path: &str, body: Value) -> Answer {
        send(&self.server, asks, method, path, &body).await
    }

    async fn upload(&self, asks: Asks<'_>, file: &'static [u8]) -> Answer {
        let request = headed(request(Method::PUT, "/api/upload/a.pickle"), asks);
        self.server
            .send(request.body(Body::from(file)).unwrap())
            .await
    }

    async fn run_in(&self, project: &str) -> RunSummary {
        let sent = self
            .upload(with(&self.ada).of(project), packed_snapshot())
            .await;
        sent.expect(StatusCode::CREATED)
            .read::<FinishedUpload>()
            .run
    }

    async fn runs(&self, asks: Asks<'_>) -> usize {
        let listed = self.get(asks, routes::RUNS).await.expect(StatusCode::OK);
        listed.read::<Vec<RunSummary>>().len()
    }

    async fn let_in(&self, person: &AddedPerson, project: &str, role: &str) {
        let path = format!("/api/projects/{project}/members/{}", person.person.id);
        let set = self.ask(with(&self.ada), Method::PUT, &path, json!({ "role": role }));
        set.await.expect(StatusCode::NO_CONTENT);
    }
}

fn headed(request: axum::http::request::Builder, asks: Asks<'_>) -> axum::http::request::Builder {
    let token = asks
        .token
        .map(|token| (header::AUTHORIZATION.as_str(), format!("Bearer {token}")));
    let project = asks.project.map(|project| (HEADER, project.to_owned()));
    let cookie = asks
        .cookie
        .map(|cookie| (header::COOKIE.as_str(), cookie.to_owned()));
    let all = [token, project, cookie].into_iter().flatten();
    all.fold(request, |request, (name, value)| {
        request.header(name, value)
    })
}

async fn send(server: &Server, asks: Asks<'_>, method: Method, path: &str, body: &Value) -> Answer {
    let request = headed(request(method, path), asks);
    let request = match body {
        Value::Null => request.body(Body::empty()),
        body => request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string())),
    };
    server.send(request.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_project_has_runs_of_its_own_and_the_same_file_may_be_in_both() {
    let team = Team::start().await;
    let ada = with(&team.ada);
    let (here, there) = (team.run_in("vision").await, team.run_in("secret").await);
    assert_eq!(here.id, there.id, "an id says what the file is, not where");
    assert_eq!(team.runs(ada.of("vision")).await, 1);
    assert_eq!(team.runs(ada.of("main")).await, 0);
    assert_eq!(
        team.runs(ada).await,
        0,
        "the first one, unless something is named"
    );
    let path = routes::run(&here.id);
    let renamed = team.ask(
        ada.of("vision"),
        Method::PATCH,
        &path,
        json!({ "name": "mine" }),
    );
    renamed.await.expect(StatusCode::OK);
    let name = async |project| {
        let run = team
            .get(ada.of(project), &path)
            .await
            .expect(StatusCode::OK);
        run.read::<Value>()["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(name("vision").await, "mine");
    assert_eq!(name("secret").await, "a.pickle");
    let deleted = team
        .ask(ada.of("secret"), Method::DELETE, &path, Value::Null)
        .await;
    deleted.expect(StatusCode::OK);
    assert_eq!(team.runs(ada.of("vision")).await, 1);
    team.get(ada.of("main"), &path)
        .await
        .expect(StatusCode::NOT_FOUND);
    // The project that the browser showed last comes before the others.
    let showed = Asks {
        cookie: Some("tidemark_project=vision"),
        ..ada
    };
    assert_eq!(team.runs(showed).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_see_the_projects_that_let_them_in() {
    let team = Team::start().await;
    let run = team.run_in("secret").await;
    let (bo, eve) = (with(&team.bo.token.secret), with(&team.eve.token.secret));
    let path = routes::run(&run.id);
    for asks in [bo, eve] {
        for asks in [asks, asks.of("secret"), asks.of("vision"), asks.of("none")] {
            let refused = team.get(asks, &path).await;
            assert!(refused.status.is_client_error(), "{}", refused.status);
        }
    }
    let refused = team.get(bo.of("secret"), routes::RUNS).await.problem();
    let unknown = team.get(bo.of("no-such"), routes::RUNS).await.problem();
    assert_eq!(refused.code, ProblemCode::NotFound);
    assert_eq!(
        refused.detail.replace("secret", "no-such"),
        unknown.detail,
        "a project that one may not enter is like one that is not there"
    );
    let scope = team
        .get(eve, routes::RUNS)
        .await
        .expect(StatusCode::FORBIDDEN);
    assert_eq!(
        scope.problem().code,
        ProblemCode::Forbidden,
        "a guest without any project"
    );
    let labels = format!("/runs/{}/labels", run.id);
    for page in [
        "/jobs",
        "/history",
        "/views",
        "/categories",
        "/live",
        &labels,
    ] {
        let closed = team.get(eve, page).await;
        assert_eq!(closed.status, StatusCode::FORBIDDEN, "{page}");
    }
    team.let_in(&team.eve, "secret", "reader").await;
    team.get(eve, &path).await.expect(StatusCode::OK);
    assert_eq!(team.runs(eve).await, 1, "her only project");
    let changed = team.ask(eve, Method::DELETE, &path, Value::Null).await;
    assert!(changed.problem().detail.contains("`manage`"));
    team.upload(eve, packed_snapshot())
        .await
        .expect(StatusCode::FORBIDDEN);
    let seen: Vec<Project> = team.get(eve, routes::PROJECTS).await.read();
    assert_eq!(seen.len(), 1);
    assert_eq!(
        (seen[0].name.as_str(), seen[0].role, seen[0].runs),
        ("secret", Role::Reader, 1)
    );
    assert!(seen[0].used.get() > 0);
    // What is about the whole server stays closed to guests.
    for path in ["/metrics", "/api/people", "/api/audit"] {
        team.get(eve, path).await.expect(StatusCode::FORBIDDEN);
    }
    let path = format!("/api/projects/secret/members/{}", team.eve.person.id);
    let out = team
        .ask(with(&team.ada), Method::DELETE, &path, Value::Null)
        .await;
    out.expect(StatusCode::NO_CONTENT);
    team.get(eve, &routes::run(&run.id))
        .await
        .expect(StatusCode::FORBIDDEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn measurements_name_projects_only_to_admins() {
    let team = Team::start().await;
    let text = async |token: &str| {
        let answer = team
            .get(with(token), routes::METRICS)
            .await
            .expect(StatusCode::OK);
        String::from_utf8(answer.body.to_vec()).unwrap()
    };
    assert!(text(&team.ada).await.contains("secret"));
    let seen = text(&team.bo.token.secret).await;
    assert!(
        !seen.contains("secret") && !seen.contains("vision"),
        "{seen}"
    );
    assert!(seen.contains("tidemark_runs"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_events_ends_with_the_membership_and_the_project() {
    let team = Team::start().await;
    let listen = async |person: &AddedPerson, project: &str| {
        team.let_in(person, project, "reader").await;
        let asks = with(&person.token.secret).of(project);
        let asked = headed(request(Method::GET, routes::EVENTS), asks);
        let asked = asked.body(Body::empty()).unwrap();
        let response = team.server.router.clone().oneshot(asked).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body()
    };
    let comes = async |stream: &mut Body| {
        let next = tokio::time::timeout(Duration::from_secs(20), stream.frame()).await;
        next.expect("either comes soon").is_some()
    };
    let mut streams = [
        listen(&team.eve, "secret").await,
        listen(&team.bo, "vision").await,
    ];
    let happen = |project: &str| {
        let app = team
            .server
            .app
            .projects
            .app(&team.server.app, &project.parse().unwrap());
        app.unwrap().events.send(ServerEvent::RunsChanged).unwrap();
    };
    for (stream, project) in streams.iter_mut().zip(["secret", "vision"]) {
        happen(project);
        assert!(comes(stream).await);
    }
    let vision = team
        .server
        .app
        .projects
        .app(&team.server.app, &"vision".parse().unwrap());
    let vision = vision.unwrap();
    let ada = with(&team.ada);
    let path = format!("/api/projects/secret/members/{}", team.eve.person.id);
    let left = team.ask(ada, Method::DELETE, &path, Value::Null).await;
    assert!(left.status.is_success());
    let closed = json!({ "closed": true });
    let closed = team
        .ask(ada, Method::PATCH, "/api/projects/vision", closed)
        .await;
    assert!(closed.status.is_success());
    happen("secret");
    // A closed project may have ended its streams by itself.
    let _ = vision.events.send(ServerEvent::RunsChanged);
    for stream in &mut streams {
        assert!(!comes(stream).await);
    }
}
