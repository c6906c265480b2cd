//! Projects over HTTP: what is in one cannot be seen, changed or guessed from another.

mod keeping;
mod pages;
mod shut;

use super::{Answer, Server, packed_snapshot, request};
use api::history::History;
use api::people::{AddedPerson, CreatedToken, PersonalToken, Role};
use api::problem::ProblemCode;
use api::progress::ServerEvent;
use api::projects::{HEADER, Project};
use api::routes;
use api::runs::{FinishedUpload, RunSummary, Sessions};
use api::shares::CreatedShare;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_link_opens_its_run_for_anybody_whatever_their_projects() {
    let team = Team::start().await;
    let run = team.run_in("secret").await;
    let new = |kind: &str| {
        json!({ "kind": kind, "target": { "kind": "run", "run": run.id },
            "query": "v=1", "redaction": "none", "note": "", "created_by": "",
            "expires_in_s": null })
    };
    let make = async |kind: &str| {
        let ada = with(&team.ada).of("secret");
        let made = team.ask(ada, Method::POST, routes::SHARES, new(kind)).await;
        made.expect(StatusCode::CREATED).read::<CreatedShare>()
    };
    let made = make("capability").await;
    let slug = made.url.rsplit('/').next().unwrap().to_owned();
    let open = json!({ "token": slug });
    let opened = team
        .ask(Asks::default(), Method::POST, routes::OPEN_SHARE, open)
        .await;
    let cookie = opened.expect(StatusCode::OK).headers[header::SET_COOKIE].clone();
    let cookie = cookie
        .to_str()
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let path = format!("{}?share={}", routes::run(&run.id), made.share.id);
    let stranger = Asks {
        cookie: Some(&cookie),
        ..Asks::default()
    };
    let bo = Asks {
        cookie: Some(&cookie),
        ..with(&team.bo.token.secret)
    };
    for asks in [stranger, bo] {
        team.get(asks, &path).await.expect(StatusCode::OK);
        let list = team
            .get(asks, &format!("/api/runs?share={}", made.share.id))
            .await;
        assert!(list.status.is_client_error(), "{}", list.status);
    }
    team.get(stranger, &routes::run(&run.id))
        .await
        .expect(StatusCode::OK);
    let without = team.get(with(&team.bo.token.secret), &path).await;
    assert!(without.status.is_client_error(), "only with the secret");
    let card = team
        .get(Asks::default(), &format!("/s/{slug}/card.svg"))
        .await;
    card.expect(StatusCode::OK);
    // A team link is for the people of the project.
    let made = make("team").await;
    let slug = made.url.rsplit('/').next().unwrap().to_owned();
    let open = async |asks| {
        let open = json!({ "token": slug });
        team.ask(asks, Method::POST, routes::OPEN_SHARE, open)
            .await
            .status
    };
    assert_eq!(open(with(&team.ada)).await, StatusCode::OK);
    assert_eq!(
        open(with(&team.bo.token.secret)).await,
        StatusCode::NOT_FOUND
    );
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

/// What the tool `inspect` answers about a recording.
async fn inspected(team: &Team, asks: Asks<'_>, recording: &str) -> String {
    let question = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "inspect", "arguments": { "recording": recording } },
    });
    let asking = headed(request(Method::POST, routes::MCP), asks)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream");
    let asking = asking.body(Body::from(question.to_string())).unwrap();
    let answer = team.server.send(asking).await.expect(StatusCode::OK);
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// The same file may be a run of several projects, so only a link that names one leads there. A
/// tool opens every link that it may have told, whichever project the question is asked in.
#[tokio::test(flavor = "multi_thread")]
async fn the_links_of_tools_lead_into_the_project() {
    let team = Team::start().await;
    let run = team.run_in("vision").await;
    let page = format!("{}?v=", routes::run_page(&run.id));
    let link_in = |answer: &str| {
        let (_, link) = answer.split_once(&page)?;
        let end = link.split(['"', '\\', ' ', ')']).next();
        end.map(str::to_owned)
    };
    let (ada, bo) = (with(&team.ada), with(&team.bo.token.secret));
    let id = run.id.to_string();
    let linked = |project: &str| format!("http://localhost:7878/runs/{id}?project={project}");
    let check = async |asks: Asks<'_>, recording: &str, project: Option<&str>| {
        let answer = inspected(&team, asks, recording).await;
        let found = link_in(&answer);
        let leads = found
            .as_deref()
            .and_then(|link| link.split_once("&project="));
        assert_eq!(
            leads.map(|(_, project)| project),
            project,
            "{recording}: {answer}"
        );
    };
    check(ada.of("vision"), &id, Some("vision")).await;
    check(ada, &id, Some("vision")).await;
    check(ada, &linked("vision"), Some("vision")).await;
    check(ada, &linked("secret"), None).await;
    // Who may not enter a project is told nothing of what is in it.
    check(bo, &id, None).await;
    check(bo, &linked("vision"), None).await;
    team.run_in("secret").await;
    check(ada.of("vision"), &linked("secret"), Some("secret")).await;
    check(ada.of("vision"), &id, Some("vision")).await;
}

/// All addresses of pages and of pictures that answers tell.
#[tokio::test(flavor = "multi_thread")]
async fn the_addresses_in_answers_lead_into_the_project() {
    let team = Team::start().await;
    let admin = with(&team.ada);
    team.upload(admin, packed_snapshot()).await;
    for (asks, project) in [(admin.of("vision"), "vision"), (admin, "main")] {
        let sent = team.upload(asks, packed_snapshot()).await;
        let FinishedUpload { run, url, .. } = sent.read();
        let page = format!("http://localhost:7878{}", routes::run_page(&run.id));
        assert_eq!(url, format!("{page}?project={project}"));

        let sample = team.ask(asks, Method::POST, "/api/samples/plain_lm", Value::Null);
        let sample: FinishedUpload = sample.await.read();
        assert!(sample.url.ends_with(&format!("?project={project}")));

        let new = json!({ "name": "training", "device": 0 });
        let made = team.ask(asks, Method::POST, "/api/live", new).await;
        let page_of_live = made.read::<Value>()["page"].to_string();
        let end = format!("?project={project}\"");
        assert!(page_of_live.ends_with(&end), "{page_of_live}");

        let both = format!("{},{}", run.id, sample.run.id);
        for card in [
            format!("/api/runs/{}/card.md", run.id),
            format!("/api/runs/{}/card.md?from=2&to=9", run.id),
            format!("/api/compare/card.md?runs={both}"),
            format!("/api/compare/card.md?runs={both}&numbers_only=1"),
        ] {
            let card = team.get(asks, &card).await.expect(StatusCode::OK);
            let card = String::from_utf8_lossy(&card.body);
            let links = card.split("http://localhost:7878").skip(1);
            let links: Vec<&str> = links
                .filter_map(|link| link.split([')', '"']).next())
                .collect();
            assert!(!links.is_empty(), "{card}");
            let leads = |link: &&str| link.contains(&format!("project={project}"));
            assert!(links.iter().all(leads), "{links:?}");
        }
    }
}
