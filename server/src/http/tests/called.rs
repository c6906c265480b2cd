//! What a run is called beside others: a rank by its job.

use super::jobs::{job, recorded, send};
use super::shares::{TOKEN, create, guarded, session, slug, stranger, team};
use super::{Server, request};
use crate::projects::retention::{Candidate, Holders, plan};
use api::compare::{Comparison, RecordComparison, RecordedComparison};
use api::compare_view::CompareState;
use api::ids::RunId;
use api::jobs::JobSummary;
use api::projects::Keep;
use api::routes;
use api::runs::FinishedUpload;
use api::shares::{NewShare, Redaction, ShareKind, ShareTarget};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::json;
use trace::ranks::Rank;

const PR: &str = "https://github.com/o/r/pull/12";

fn view(runs: &[RunId]) -> String {
    let state = CompareState {
        runs: runs.to_vec(),
        ..CompareState::default()
    };
    state.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_others_a_rank_is_called_by_its_job() {
    let server = Server::start().await;
    let [old, new] = [job(&server, "old").await, job(&server, "new").await];
    let old = send(&server, &old, 0, recorded(0, 4)).await;
    let new = send(&server, &new, 0, recorded(1, 8)).await;
    assert_eq!(old.name, new.name, "their files have one name");
    let runs = [old.id.clone(), new.id.clone()];
    let (before, after) = ("old, rank 0", "new, rank 0");
    let compared: Comparison = server.get(&routes::compare(&runs)).await.read();
    let names: Vec<&str> = compared.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, [before, after]);
    let text = async |path: &str| {
        let answer = server.get(path).await.expect(StatusCode::OK);
        String::from_utf8(answer.body.to_vec()).unwrap()
    };
    for path in [
        routes::compare_markdown(&view(&runs), None, true),
        routes::compare_page(&runs),
        routes::history(&[]),
    ] {
        let told = text(&path).await;
        assert!(
            told.contains(before) && told.contains(after),
            "{path}: {told}"
        );
    }
    let wanted = RecordComparison {
        runs: runs.to_vec(),
        pr: Some(PR.to_owned()),
        name: None,
    };
    let body = serde_json::to_string(&wanted).unwrap();
    let kept = server.json(Method::POST, routes::COMPARISONS, &body).await;
    let kept: RecordedComparison = kept.expect(StatusCode::OK).read();
    assert_eq!(kept.name, "old, rank 0 → new, rank 0");
    let pushes = text(&routes::pull_page(PR)).await;
    assert!(pushes.contains(after), "{pushes}");
    let keep = Keep {
        newest: 1,
        per: Vec::new(),
        pull_request_days: None,
    };
    let planned = plan(&[new, old].map(Candidate::from), &Holders::default(), &keep);
    let going: Vec<&str> = planned.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(going, [before]);
}

/// A job belongs to the team, as labels do; a redacted link hides the names of runs, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_does_not_tell_which_jobs_its_runs_are_of() {
    let (server, _) = guarded().await;
    let mut runs = Vec::new();
    for (at, name) in ["hidden-old", "hidden-new"].into_iter().enumerate() {
        let body = json!({ "name": name }).to_string();
        let made = team(&server, Method::POST, routes::JOBS, &body).await;
        let made: JobSummary = made.expect(StatusCode::CREATED).read();
        let route = routes::upload_into("rank0.json", &made.id, Rank(0));
        let upload =
            request(Method::PUT, &route).header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
        let file = Body::from(recorded(at as u32, 4));
        let sent = server.send(upload.body(file).unwrap()).await;
        let sent: FinishedUpload = sent.expect(StatusCode::CREATED).read();
        runs.push(sent.run.id);
    }
    let view = view(&runs);
    let (compared, block) = (
        routes::compare(&runs),
        routes::compare_markdown(&view, None, true),
    );
    for redaction in [Redaction::None, Redaction::Redacted] {
        let wanted = NewShare {
            kind: ShareKind::Capability,
            target: ShareTarget::Comparison { runs: runs.clone() },
            query: view.clone(),
            redaction,
            note: String::new(),
            created_by: "Kim".to_owned(),
            expires_in_s: Some(3600),
        };
        let created = create(&server, &wanted).await;
        let cookie = session(&server, &created).await;
        let above = routes::compare_markdown(&view, Some(slug(&created)), true);
        let seen = [
            stranger(&server, Method::GET, &compared, &cookie).await,
            stranger(&server, Method::GET, &block, &cookie).await,
            team(&server, Method::GET, &above, "").await,
            server.get(&routes::share_page(slug(&created))).await,
        ];
        for answer in seen {
            let body = answer.expect(StatusCode::OK).body;
            let text = String::from_utf8_lossy(&body);
            assert!(!text.contains("hidden-"), "{redaction:?}: {text}");
        }
    }
    for path in [&compared, &block] {
        let body = team(&server, Method::GET, path, "").await.body;
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains("hidden-old, rank 0"), "{path}: {text}");
    }
}
