//! How projects are kept: quota, old runs, closing, and what the audit tells.

use super::super::packed_snapshot;
use super::{Team, with};
use crate::projects::LEAST_QUOTA;
use crate::samples;
use api::ids::RunId;
use api::people::{AuditEntry, Role};
use api::problem::ProblemCode;
use api::projects::{Member, Plan, Project, WhyKept};
use api::routes;
use api::runs::FinishedUpload;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use trace::units::Bytes;

#[tokio::test(flavor = "multi_thread")]
async fn a_project_takes_no_more_than_its_quota() {
    let team = Team::start().await;
    let change = async |asks, body: Value| {
        team.ask(asks, Method::PATCH, "/api/projects/vision", body)
            .await
    };
    // An empty project takes most of the smallest quota, and there is no smaller one.
    let vision = team
        .server
        .app
        .projects
        .app(&team.server.app, &"vision".parse().unwrap());
    let share = vision.unwrap().uploads.share().clone();
    assert!(share.used() < LEAST_QUOTA, "{}", share.used());
    let small = change(with(&team.ada), json!({ "quota": LEAST_QUOTA.get() - 1 })).await;
    small.expect(StatusCode::BAD_REQUEST);
    let new = json!({ "name": "tiny", "quota": 1 });
    let small = team
        .ask(with(&team.ada), Method::POST, routes::PROJECTS, new)
        .await;
    small.expect(StatusCode::BAD_REQUEST);
    change(with(&team.ada), json!({ "quota": LEAST_QUOTA }))
        .await
        .expect(StatusCode::OK);
    share.measured(LEAST_QUOTA, LEAST_QUOTA);
    let refused = team
        .upload(with(&team.ada).of("vision"), packed_snapshot())
        .await;
    let problem = refused.expect(StatusCode::INSUFFICIENT_STORAGE).problem();
    assert_eq!(problem.code, ProblemCode::InsufficientStorage);
    assert_eq!(problem.title, "Over the project's quota");
    assert!(
        problem.detail.contains("admin of the server"),
        "{}",
        problem.detail
    );
    team.run_in("secret").await;
    team.let_in(&team.bo, "vision", "admin").await;
    let bo = with(&team.bo.token.secret);
    let refused = change(bo, json!({ "quota": null })).await;
    let detail = refused.expect(StatusCode::FORBIDDEN).problem().detail;
    assert_eq!(detail, "only an admin of this server may do this");
    change(with(&team.ada), json!({ "quota": null }))
        .await
        .expect(StatusCode::OK);
    let run = team.run_in("vision").await;
    // What is there already takes nothing more; what is new is refused when it has come.
    let used: Vec<Project> = team.get(bo, routes::PROJECTS).await.read();
    let used = used
        .iter()
        .find(|project| project.name.as_str() == "vision")
        .unwrap()
        .used;
    share.limit(Some(Bytes(used.get() + 16)));
    let again = team.upload(bo.of("vision"), packed_snapshot()).await;
    assert_eq!(
        again.expect(StatusCode::OK).read::<FinishedUpload>().run.id,
        run.id
    );
    let other = samples::find("streams").unwrap().file;
    let refused = team.upload(bo.of("vision"), other).await;
    refused.expect(StatusCode::INSUFFICIENT_STORAGE);
    assert_eq!(team.runs(bo.of("vision")).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_runs_are_shown_before_they_are_deleted() {
    let team = Team::start().await;
    let ada = with(&team.ada);
    let old = team.run_in("vision").await;
    let other = samples::find("streams").unwrap().file;
    team.upload(ada.of("vision"), other)
        .await
        .expect(StatusCode::CREATED);
    team.let_in(&team.bo, "vision", "admin").await;
    let bo = with(&team.bo.token.secret);
    let planned = async || {
        let plan = team.get(bo, "/api/projects/vision/plan?newest=1").await;
        plan.expect(StatusCode::OK).read::<Plan>()
    };
    let plan = planned().await;
    assert_eq!((plan.deleted, plan.going), (false, 1));
    assert_eq!(plan.runs[0].run, old.id);
    assert_eq!(plan.kept[&WhyKept::Newest], 1);
    assert_eq!(
        team.runs(bo.of("vision")).await,
        2,
        "nothing is deleted yet"
    );
    let pin = json!({ "labels": { "pinned": "yes" } });
    let path = format!("{}/labels", routes::run(&old.id));
    team.ask(bo.of("vision"), Method::PATCH, &path, pin)
        .await
        .expect(StatusCode::OK);
    assert_eq!(planned().await.kept[&WhyKept::Pinned], 1);
    let keep = json!({ "keep": { "newest": 1, "per": ["branch"] } });
    let kept = team
        .ask(bo, Method::PATCH, "/api/projects/vision", keep)
        .await;
    let kept: Project = kept.expect(StatusCode::OK).read();
    assert_eq!(kept.settings.keep.unwrap().per, ["branch"]);
    let none = json!({ "keep": { "newest": 0 } });
    // With a label that no run can have, all runs would be of one kind.
    let unknown = json!({ "keep": { "newest": 1, "per": ["not a key!!"] } });
    for keep in [none, unknown] {
        let refused = team
            .ask(bo, Method::PATCH, "/api/projects/vision", keep)
            .await;
        refused.expect(StatusCode::BAD_REQUEST);
    }
    let plan = "/api/projects/vision/plan?newest=1&per=";
    let refused = team.get(bo, &format!("{plan}not+a+key!!")).await;
    assert!(refused.problem().detail.contains("“not a key!!”"));
    let plan = team.get(bo, &format!("{plan}brnach")).await;
    assert_eq!(plan.read::<Plan>().absent, ["brnach"]);
}

/// What an earlier push of it showed is kept only for the days that the rule names.
#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_holds_what_it_shows_last() {
    let team = Team::start().await;
    let ada = with(&team.ada).of("vision");
    let mut runs = Vec::new();
    for name in ["plain_lm", "streams", "oom"] {
        let sent = team.upload(ada, samples::find(name).unwrap().file).await;
        let sent: FinishedUpload = sent.expect(StatusCode::CREATED).read();
        runs.push(sent.run.id);
    }
    for compared in [&runs[..2], &runs[1..]] {
        // The second one is the newer one, also by a clock of milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let body = json!({ "runs": compared, "pr": "https://github.com/me/repo/pull/7" });
        let recorded = team.ask(ada, Method::POST, routes::COMPARISONS, body).await;
        recorded.expect(StatusCode::OK);
    }
    let check = async |days: &str, gone: &[&RunId], held: usize| {
        let path = format!("/api/projects/vision/plan?newest=1&pull_request_days={days}");
        let plan = team.get(with(&team.ada), &path).await;
        let plan: Plan = plan.expect(StatusCode::OK).read();
        let goes: Vec<&RunId> = plan.runs.iter().map(|going| &going.run).collect();
        assert_eq!(goes, gone, "{days}");
        assert_eq!(plan.kept[&WhyKept::PullRequest], held, "{days}");
    };
    check("0", &[&runs[0]], 2).await;
    check("30", &[], 3).await;
    check("forever", &[], 3).await;
    check("4294967295", &[], 3).await;
    let path = "/api/projects/vision/plan?newest=1";
    let wrong = team
        .get(with(&team.ada), &format!("{path}&pull_request_days=x"))
        .await;
    let detail = wrong.expect(StatusCode::BAD_REQUEST).problem().detail;
    assert!(detail.contains("or `forever`"), "{detail}");
    // Unless it is asked about other days, it looks ahead with those of the rule.
    let going = async || {
        let plan = team.get(with(&team.ada), path).await;
        plan.expect(StatusCode::OK).read::<Plan>().going
    };
    assert_eq!(going().await, 0, "30 without a rule");
    for (days, gone) in [(json!(0), 1), (Value::Null, 0)] {
        let rule = json!({ "keep": { "newest": 1, "pull_request_days": days } });
        let set = team.ask(with(&team.ada), Method::PATCH, "/api/projects/vision", rule);
        set.await.expect(StatusCode::OK);
        assert_eq!(going().await, gone);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_project_opens_nothing_and_keeps_everything() {
    let team = Team::start().await;
    let ada = with(&team.ada);
    let run = team.run_in("vision").await;
    team.let_in(&team.bo, "vision", "member").await;
    let bo = with(&team.bo.token.secret);
    let path = routes::run(&run.id);
    team.get(bo, &path).await.expect(StatusCode::OK);
    let close = async |closed: bool| {
        let body = json!({ "closed": closed });
        team.ask(ada, Method::PATCH, "/api/projects/vision", body)
            .await
    };
    close(true).await.expect(StatusCode::OK);
    for asks in [bo, ada] {
        team.get(asks, &path).await.expect(StatusCode::NOT_FOUND);
        team.get(asks.of("vision"), routes::RUNS)
            .await
            .expect(StatusCode::NOT_FOUND);
    }
    // The requests that were under way may hold it for a moment.
    let mut opened = close(false).await;
    for _ in 0..100 {
        if opened.status == StatusCode::OK {
            break;
        }
        assert_eq!(opened.status, StatusCode::SERVICE_UNAVAILABLE);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        opened = close(false).await;
    }
    opened.expect(StatusCode::OK);
    team.get(bo, &path).await.expect(StatusCode::OK);
    let refused = team.ask(
        ada,
        Method::PATCH,
        "/api/projects/main",
        json!({ "closed": true }),
    );
    refused.await.expect(StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_to_projects_is_written_down_with_the_project() {
    let team = Team::start().await;
    let run = team.run_in("vision").await;
    team.let_in(&team.bo, "vision", "reader").await;
    let audit: Vec<AuditEntry> = team.get(with(&team.ada), "/api/audit").await.read();
    let said = |action: &str| {
        let entry = audit.iter().find(|entry| entry.action == action).unwrap();
        let project = entry.project.as_ref().map(|project| project.as_str());
        (entry.subject.clone(), project.map(str::to_owned))
    };
    assert_eq!(
        said("upload"),
        (run.id.to_string(), Some("vision".to_owned()))
    );
    assert_eq!(said("set_member").0, "bo (reader) in vision");
    assert_eq!(said("make_project").0, "secret");
    let uploads = async |project: &str| {
        let path = format!("/api/audit?action=upload&project={project}");
        let found: Vec<AuditEntry> = team.get(with(&team.ada), &path).await.read();
        found.len()
    };
    assert_eq!((uploads("vision").await, uploads("secret").await), (1, 0));
    let members = team
        .get(with(&team.bo.token.secret), "/api/projects/vision/members")
        .await;
    let members: Vec<Member> = members.read();
    assert_eq!(
        (members[0].name.as_str(), members[0].role),
        ("bo", Role::Reader)
    );
    let metrics = team
        .get(with(&team.ada), "/metrics")
        .await
        .expect(StatusCode::OK);
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(
        text.contains("tidemark_project_runs{project=\"vision\"} 1"),
        "{text}"
    );
}
