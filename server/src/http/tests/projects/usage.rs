//! What takes the disk, and who may know it.

use super::super::request;
use super::{Asks, Team, headed, with};
use crate::samples;
use api::ids::RunId;
use api::jobs::JobSummary;
use api::projects::{ProjectName, WhyKept};
use api::routes;
use api::runs::FinishedUpload;
use api::usage::{ProjectUsage, Usage};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use trace::ranks::Rank;
use trace::units::Bytes;

/// Three runs of bo in one project, of which a rule keeps two, and a deleted one in another.
async fn filled(team: &Team) -> Vec<RunId> {
    let (ada, bo) = (with(&team.ada), with(&team.bo.token.secret).of("vision"));
    team.let_in(&team.bo, "vision", "member").await;
    let mut runs = Vec::new();
    for name in ["plain_lm", "streams", "oom"] {
        // The last one is the newest, also by a clock of milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let sent = team.upload(bo, samples::find(name).unwrap().file).await;
        let sent: FinishedUpload = sent.expect(StatusCode::CREATED).read();
        runs.push(sent.run.id);
    }
    let pin = json!({ "labels": { "pinned": "yes" } });
    let labels = routes::run_labels(&runs[0]);
    let pinned = team.ask(bo, Method::PATCH, &labels, pin);
    pinned.await.expect(StatusCode::OK);
    let rule = json!({ "keep": { "newest": 1 } });
    let ruled = team.ask(ada, Method::PATCH, "/api/projects/vision", rule);
    ruled.await.expect(StatusCode::OK);
    let gone = routes::run(&team.run_in("secret").await.id);
    let gone = team.ask(ada.of("secret"), Method::DELETE, &gone, Value::Null);
    gone.await.expect(StatusCode::OK);
    runs
}

async fn usage(team: &Team) -> Usage {
    let usage = team.get(with(&team.ada), routes::USAGE).await;
    usage.expect(StatusCode::OK).read()
}

fn of<'u>(usage: &'u Usage, project: &str) -> &'u ProjectUsage {
    let mut all = usage.projects.iter();
    all.find(|one| one.project.as_str() == project).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_learns_what_takes_the_disk_and_why_it_stays() {
    let team = Team::start().await;
    let runs = filled(&team).await;
    let usage = usage(&team).await;
    let vision = of(&usage, "vision");
    let rule = vision.rule.unwrap();
    assert_eq!((vision.runs, rule.runs, vision.deleted.runs), (3, 1, 0));
    let large = |run: &RunId| {
        usage
            .largest
            .iter()
            .find(|large| large.run == *run)
            .unwrap()
    };
    assert_eq!(usage.largest.len(), 3, "deleted runs are not among them");
    assert!(
        usage
            .largest
            .is_sorted_by_key(|run| std::cmp::Reverse(run.stored))
    );
    assert_eq!(rule.stored, large(&runs[1]).stored);
    assert_eq!(large(&runs[0]).held, [WhyKept::Pinned]);
    assert!(large(&runs[2]).held.is_empty());
    assert_eq!(large(&runs[2]).uploaded_by.as_deref(), Some("bo"));
    let of_runs: Bytes = usage.largest.iter().map(|run| run.stored).sum();
    let parts = vision.parts;
    assert_eq!(of_runs, parts.files + parts.events + parts.pictures);
    assert!(
        parts.events.get() > 1000 && parts.live.get() > 0,
        "{parts:?}"
    );
    let of_person = |name: &str| {
        let mut people = usage.people.iter();
        let found = people.find(|person| person.uploaded_by.as_deref() == Some(name));
        found.map(|person| (person.runs, person.stored))
    };
    assert_eq!(of_person("bo"), Some((3, of_runs)));
    let gone = of(&usage, "secret").deleted.stored;
    assert_eq!(
        of_person("ada"),
        Some((1, gone)),
        "deleted runs are among them"
    );
    let secret = of(&usage, "secret");
    assert_eq!(
        (secret.runs, secret.deleted.runs, secret.rule),
        (0, 1, None)
    );
    assert!(secret.deleted.stored > secret.parts.files && secret.parts.files.get() > 0);
    assert!(secret.deleted.until_ms > Some(usage.at_ms), "{secret:?}");
    let all: Bytes = usage.projects.iter().map(|one| one.parts.all()).sum();
    assert_eq!(usage.parts.all(), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_a_rank_holds_its_job() {
    let team = Team::start().await;
    let ada = with(&team.ada).of("vision");
    let job = team.ask(ada, Method::POST, "/api/jobs", json!({ "name": "wide" }));
    let job: JobSummary = job.await.expect(StatusCode::CREATED).read();
    let mut ranks = Vec::new();
    for (rank, name) in (0..).zip(["plain_lm", "streams"]) {
        let path = routes::upload_into(&format!("{name}.pickle"), &job.id, Rank(rank));
        let file = Body::from(samples::find(name).unwrap().file);
        let sent = headed(request(Method::PUT, &path), ada).body(file);
        let sent = team.server.send(sent.unwrap()).await;
        let sent: FinishedUpload = sent.expect(StatusCode::CREATED).read();
        ranks.push(sent.run.id);
    }
    let pin = json!({ "labels": { "pinned": "yes" } });
    let labels = routes::run_labels(&ranks[0]);
    let pinned = team.ask(ada, Method::PATCH, &labels, pin);
    pinned.await.expect(StatusCode::OK);
    let usage = usage(&team).await;
    assert_eq!(usage.largest.len(), 2);
    for run in &usage.largest {
        assert_eq!(run.held, [WhyKept::Pinned], "{}", run.name);
        assert!(run.name.contains("wide"), "{}", run.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_measured_once_a_minute_and_of_closed_projects_too() {
    let team = Team::start().await;
    filled(&team).await;
    let ada = with(&team.ada);
    let before = usage(&team).await;
    team.run_in("vision").await;
    let close = json!({ "closed": true });
    let closed = team.ask(ada, Method::PATCH, "/api/projects/secret", close);
    closed.await.expect(StatusCode::OK);
    let after = usage(&team).await;
    assert_eq!(of(&after, "vision"), of(&before, "vision"));
    assert!(after.unknown.is_empty());
    let secret = of(&after, "secret");
    assert_eq!(secret.parts.files, of(&before, "secret").parts.files);
    assert_eq!(secret.deleted.runs, 1);
    // Another rule frees something else.
    let rule = json!({ "keep": { "newest": 2 } });
    let ruled = team.ask(ada, Method::PATCH, "/api/projects/vision", rule);
    ruled.await.expect(StatusCode::OK);
    let vision = of(&usage(&team).await, "vision").clone();
    assert_eq!((vision.runs, vision.rule.unwrap().runs), (4, 1));
}

/// One database that cannot be read hides nothing of the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_cannot_be_measured_is_named_and_the_others_are_measured() {
    let team = Team::start().await;
    filled(&team).await;
    let main = &team.server.app;
    let vision = main.projects.app(main, &"vision".parse().unwrap()).unwrap();
    let broken = vision.store.write(|writer| writer.overflow_blobs());
    assert_eq!(broken.await.unwrap(), 3);
    let usage = usage(&team).await;
    let unknown: Vec<&str> = usage.unknown.iter().map(ProjectName::as_str).collect();
    assert_eq!(unknown, ["vision"]);
    assert_eq!(usage.parts.files, of(&usage, "secret").parts.files);
    assert!(usage.parts.files.get() > 0);
    let ada = with(&team.ada);
    let text = async |path: &str| {
        let page = team.get(ada, path).await.expect(StatusCode::OK);
        String::from_utf8(page.body.to_vec()).unwrap()
    };
    let page = text(routes::USAGE_PAGE).await;
    for said in ["All but 1 project", "not counted anywhere here: vision."] {
        assert!(page.to_lowercase().contains(&said.to_lowercase()), "{page}");
    }
    let metrics = text(routes::METRICS).await;
    for said in [
        "tidemark_project_unreadable{project=\"vision\"} 1\n",
        "tidemark_project_unreadable{project=\"secret\"} 0\n",
        "tidemark_project_runs{project=\"secret\"} 0\n",
        "tidemark_project_disk_bytes{project=\"vision\"} ",
        "tidemark_database_unreadable 0\n",
        "tidemark_runs 0\n",
    ] {
        assert!(metrics.contains(said), "{said}: {metrics}");
    }
    assert!(!metrics.contains("tidemark_project_runs{project=\"vision\"}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_of_the_server_learns_it() {
    let team = Team::start().await;
    filled(&team).await;
    let text = async |asks: Asks<'_>, path: &str| {
        let page = team.get(asks, path).await;
        (page.status, String::from_utf8(page.body.to_vec()).unwrap())
    };
    team.let_in(&team.bo, "vision", "admin").await;
    let bo = with(&team.bo.token.secret);
    for path in [routes::USAGE, routes::USAGE_PAGE] {
        assert_eq!(text(bo, path).await.0, StatusCode::FORBIDDEN, "{path}");
    }
    let leads = |page: &str| page.contains("href=\"/usage");
    assert!(!leads(&text(bo, routes::PROJECTS_PAGE).await.1));
    let ada = with(&team.ada);
    assert!(leads(&text(ada, routes::PROJECTS_PAGE).await.1));
    let (status, page) = text(ada, routes::USAGE_PAGE).await;
    assert_eq!(status, StatusCode::OK);
    for said in [
        "Tensors of benches",
        "Uploaded by",
        "Largest runs",
        ">pinned<",
        "(1 run), until ",
        "project=vision",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let metrics = text(ada, routes::METRICS).await.1;
    let part = "tidemark_project_part_bytes{project=\"vision\",part=\"events\"} ";
    assert!(metrics.contains(part), "{metrics}");
}
