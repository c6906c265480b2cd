//! Links into projects: those that are shared, and those in answers.

use super::super::{packed_snapshot, request};
use super::{Asks, Team, headed, with};
use api::routes;
use api::runs::FinishedUpload;
use api::shares::CreatedShare;
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::{Value, json};

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
