//! What was done is written down.

use super::super::super::audited;
use super::super::{Server, packed_snapshot, request, snapshot};
use super::{add, form, get, send, with_admin};
use api::jobs::JobSummary;
use api::live::LiveMade;
use api::people::{AuditEntry, CreatedToken, Role};
use api::routes;
use api::runs::{FinishedUpload, RunDetail, RunSummary};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_says_who_uploaded_it() {
    let server = Server::start().await;
    let upload = async |token: Option<&str>, name: &str, more: u8| {
        let mut request = request(Method::PUT, &routes::upload_named(name));
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let mut file = snapshot();
        file.push(more);
        let sent = server.send(request.body(Body::from(file)).unwrap()).await;
        assert!(sent.status.is_success());
        sent.read::<FinishedUpload>().run.id
    };
    upload(None, "of-before.pickle", 0).await;
    let ada = add(&server, None, "ada", Role::Admin).await.token.secret;
    let bo = add(&server, Some(&ada), "bo", Role::Member).await;
    let bo = bo.token.secret.as_str();
    let of_bo = upload(Some(bo), "of-bo.pickle", 1).await;
    upload(Some(&ada), "of-ada.pickle", 2).await;
    // Who sends the same file again has not made the run.
    assert_eq!(upload(Some(&ada), "again.pickle", 1).await, of_bo);
    let change = r#"{"labels":{"branch":"main"}}"#;
    let labels = routes::run_labels(&of_bo);
    send(&server, Some(bo), Method::PATCH, &labels, change).await;

    let check = async |query: &str, expected: &[(&str, Option<&str>)]| {
        let listed = get(&server, bo, &format!("/api/runs?{query}")).await;
        let listed: Vec<RunSummary> = listed.expect(StatusCode::OK).read();
        let said = listed
            .iter()
            .map(|run| (run.name.as_str(), run.uploaded_by.as_deref()));
        let mut said: Vec<_> = said.collect();
        said.sort_unstable();
        assert_eq!(said, expected, "{query}");
    };
    let (by_ada, by_bo) = (("of-ada.pickle", Some("ada")), ("of-bo.pickle", Some("bo")));
    check("", &[by_ada, ("of-before.pickle", None), by_bo]).await;
    check("by=ada", &[by_ada]).await;
    check("by=BO", &[by_bo]).await;
    check("by=bo&label=branch=main", &[by_bo]).await;
    check("by=ada&label=branch=main", &[]).await;
    check("by=", &[]).await;
    check("by=%27%20OR%201%20--", &[]).await;
    check("by=bo&deleted=true", &[]).await;
    let one = get(&server, bo, &routes::run(&of_bo)).await;
    let one: RunDetail = one.read();
    assert_eq!(one.summary.uploaded_by.as_deref(), Some("bo"));
    let page = get(&server, bo, &routes::labels_page(&of_bo)).await;
    let page = String::from_utf8(page.expect(StatusCode::OK).body.to_vec()).unwrap();
    assert!(page.contains("Uploaded by bo."), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_is_written_down_with_a_name() {
    let (server, ada) = with_admin().await;
    let bo = add(&server, Some(&ada), "bo", Role::Member).await;
    let upload = request(Method::PUT, "/api/upload/x.pickle")
        .header(header::AUTHORIZATION, format!("Bearer {}", bo.token.secret));
    let body = Body::from(packed_snapshot());
    let sent = server.send(upload.body(body).unwrap()).await;
    let sent: api::runs::FinishedUpload = sent.expect(StatusCode::CREATED).read();
    let run = format!("/api/runs/{}", sent.run.id);
    send(&server, Some(&ada), Method::DELETE, &run, "").await;
    // Failed requests are not recorded, and neither are requests that change nothing.
    send(
        &server,
        Some(&ada),
        Method::DELETE,
        "/api/runs/run_none",
        "",
    )
    .await;
    get(&server, &ada, "/api/runs").await;
    let body = format!(r#"{{"token":"{}"}}"#, bo.token.secret);
    server.json(Method::POST, "/api/session", &body).await;
    // Requests of strangers are not recorded either.
    server.json(Method::DELETE, "/api/session", "").await;
    form(&server, "", "/sign-out", "").await;
    let audit: Vec<AuditEntry> = get(&server, &ada, "/api/audit").await.read();
    let said: Vec<String> = audit
        .iter()
        .map(|entry| format!("{} {} {}", entry.who, entry.action, entry.subject))
        .collect();
    let expected = [
        "bo sign_in ".to_owned(),
        format!("ada delete_run x.pickle ({})", sent.run.id),
        format!("bo upload {}", sent.run.id),
        "ada add_person bo (member)".to_owned(),
        "somebody on this machine add_person ada (admin)".to_owned(),
    ];
    assert_eq!(said, expected);
    let own: Vec<AuditEntry> = get(&server, &ada, "/api/audit?who=bo&limit=1").await.read();
    assert_eq!(own[0].action, "sign_in");
    let text = serde_json::to_string(&audit).unwrap();
    assert!(!text.contains("tidemark_"), "no secret is written down");
}

/// What is made has no id in the address to which it is sent.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_is_written_down_with_its_name() {
    let (server, ada) = with_admin().await;
    let view = r#"{"name":"nightly","path":"/runs?v=1&q=nightly"}"#;
    let training = r#"{"name":"llama","device":0}"#;
    let made = [
        ("/api/views", view, "save_view nightly"),
        ("/api/live", training, "begin_live llama (live_"),
        ("/api/jobs", r#"{"name":"wide"}"#, "make_job job_"),
        ("/api/samples/oom", "", "open_sample run_"),
    ];
    for (path, body, _) in made {
        let answer = send(&server, Some(&ada), Method::POST, path, body).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.status);
    }
    let audit: Vec<AuditEntry> = get(&server, &ada, "/api/audit").await.read();
    for (entry, (.., expected)) in audit.iter().zip(made.iter().rev()) {
        let said = format!("{} {}", entry.action, entry.subject);
        assert!(said.starts_with(expected), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_says_what_was_done_to_a_thing() {
    let (server, ada) = with_admin().await;
    let upload = request(Method::PUT, "/api/upload/x.pickle")
        .header(header::AUTHORIZATION, format!("Bearer {ada}"));
    let sent = server.send(upload.body(Body::from(packed_snapshot())).unwrap());
    let run = sent.await.read::<FinishedUpload>().run.id;
    let path = routes::run(&run);
    let named = r#"{"name":"Exp299"}"#;
    for (method, body) in [(Method::PATCH, named), (Method::DELETE, "")] {
        let done = send(&server, Some(&ada), method, &path, body).await;
        done.expect(StatusCode::OK);
    }
    send(&server, Some(&ada), Method::POST, "/api/samples/oom", "").await;
    let check = async |query: &str, expected: &[&str]| {
        let audit = get(&server, &ada, &format!("/api/audit?{query}")).await;
        let audit: Vec<AuditEntry> = audit.expect(StatusCode::OK).read();
        let said: Vec<&str> = audit.iter().map(|entry| entry.action.as_str()).collect();
        assert_eq!(said, expected, "{query}");
    };
    let of_run = ["delete_run", "rename_run", "upload"];
    check(&format!("about={run}"), &of_run).await;
    check(&format!("about={run}&who=ada&limit=1"), &of_run[..1]).await;
    check("about=exp299&action=delete_run", &of_run[..1]).await;
    // The upload has only its id.
    check("about=exp299", &of_run).await;
    check("about=exp299&project=main", &of_run).await;
    check("about=exp299&who=bo", &[]).await;
    check("about=none", &[]).await;
    check("action=open_sample", &["open_sample"]).await;
    check("action=upload&project=main", &["upload"]).await;
    let misspelt = get(&server, &ada, "/api/audit?action=delete_runs").await;
    let detail = misspelt.expect(StatusCode::BAD_REQUEST).problem().detail;
    assert!(detail.contains("`delete_runs`; there are "), "{detail}");
    assert!(
        detail.contains("delete_job, delete_live, delete_run,"),
        "{detail}"
    );

    let page = async |query: &str| {
        let page = get(&server, &ada, &format!("/audit?{query}")).await;
        String::from_utf8(page.expect(StatusCode::OK).body.to_vec()).unwrap()
    };
    let rows = |text: &str| text.matches("data-label=\"From\"").count();
    let found = page("about=Exp299&action=delete_run").await;
    assert_eq!(rows(&found), 1, "{found}");
    assert!(found.contains("value=\"delete_run\" selected"), "{found}");
    assert!(found.contains("value=\"Exp299\""), "{found}");
    let none = page("action=end_token").await;
    assert!(none.contains("Nothing like that was done."), "{none}");
}

/// The ranks of large trainings would push out what everybody else did.
#[tokio::test(flavor = "multi_thread")]
async fn a_training_is_written_down_once_and_not_for_each_rank() {
    let (server, ada) = with_admin().await;
    let mut ranks = Vec::new();
    for rank in 0..4 {
        let body = format!(r#"{{"name":"llama","job":"night","rank":{rank},"device":0}}"#);
        let made = send(&server, Some(&ada), Method::POST, "/api/live", &body).await;
        let made: LiveMade = made.expect(StatusCode::CREATED).read();
        ranks.push(made.live);
    }
    for live in &ranks {
        let (path, done) = (format!("/api/live/{live}/end"), r#"{"outcome":"done"}"#);
        let ended = send(&server, Some(&ada), Method::POST, &path, done).await;
        ended.expect(StatusCode::NO_CONTENT);
    }
    let audit = get(&server, &ada, "/api/audit?about=llama").await;
    let audit: Vec<AuditEntry> = audit.read();
    let said = audit.iter();
    let said = said.map(|entry| format!("{} {}", entry.action, entry.subject));
    let expected = [
        format!("end_live llama ({})", ranks[3]),
        format!("begin_live llama ({})", ranks[0]),
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected);
}

/// Nobody can look up the name of an id that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_or_restored_is_written_down_with_its_name_and_id() {
    let (server, ada) = with_admin().await;
    let make = async |name: &str| {
        let body = format!(r#"{{"name":"{name}"}}"#);
        let made = send(&server, Some(&ada), Method::POST, "/api/jobs", &body).await;
        made.expect(StatusCode::CREATED).read::<JobSummary>().id
    };
    let (wide, empty) = (make("wide").await, make("empty").await);
    let mut runs = Vec::new();
    for rank in 0..2_u8 {
        let path = format!("/api/upload/rank{rank}.pickle?job={wide}");
        let mut file = snapshot();
        file.push(rank);
        let upload =
            request(Method::PUT, &path).header(header::AUTHORIZATION, format!("Bearer {ada}"));
        let sent = server.send(upload.body(Body::from(file)).unwrap()).await;
        assert!(sent.status.is_success(), "{}", sent.status);
        runs.push(sent.read::<FinishedUpload>().run);
    }
    let run = routes::run(&runs[0].id);
    let named = r#"{"name":"exp299"}"#;
    let missing = "/api/jobs/job_none".to_owned();
    let asked = [
        (Method::PATCH, run.clone(), named, StatusCode::OK),
        (Method::DELETE, run, "", StatusCode::OK),
        (
            Method::POST,
            routes::run_restore(&runs[0].id),
            "",
            StatusCode::OK,
        ),
        (
            Method::DELETE,
            routes::job_with_runs(&wide),
            "",
            StatusCode::OK,
        ),
        (Method::DELETE, routes::job(&empty), "", StatusCode::OK),
        (Method::DELETE, missing, "", StatusCode::NOT_FOUND),
    ];
    for (method, path, body, status) in asked {
        let answer = send(&server, Some(&ada), method, &path, body).await;
        assert_eq!(answer.status, status, "{path}");
    }
    let audit: Vec<AuditEntry> = get(&server, &ada, "/api/audit?limit=4").await.read();
    let said = audit
        .iter()
        .map(|entry| format!("{} {}", entry.action, entry.subject));
    let said: Vec<String> = said.collect();
    let id = &runs[0].id;
    let expected = [
        format!("delete_job empty ({empty})"),
        format!("delete_job wide ({wide}) with its 2 runs"),
        format!("restore_run exp299 ({id})"),
        format!("delete_run exp299 ({id})"),
    ];
    assert_eq!(said, expected);
}

/// As with runs: who may only send something deletes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn trainings_are_deleted_by_whoever_may_manage_and_that_is_written_down() {
    let (server, ada) = with_admin().await;
    let reader = add(&server, Some(&ada), "eve", Role::Reader).await;
    let reader = reader.token.secret.as_str();
    let uploads = r#"{"name":"CI","scopes":["read","upload"]}"#;
    let uploads = send(&server, Some(&ada), Method::POST, "/api/tokens", uploads).await;
    let uploads: CreatedToken = uploads.expect(StatusCode::CREATED).read();
    let begin = async |name: &str| {
        let body = format!(r#"{{"name":"{name}","device":0}}"#);
        let made = send(&server, Some(&ada), Method::POST, "/api/live", &body).await;
        made.expect(StatusCode::CREATED).read::<LiveMade>().live
    };
    let (llama, gpt) = (begin("llama").await, begin("gpt").await);
    let api = format!("/api/live/{llama}");
    for token in [reader, uploads.secret.as_str()] {
        let refused = send(&server, Some(token), Method::DELETE, &api, "").await;
        refused.expect(StatusCode::FORBIDDEN);
    }
    let page = String::from_utf8(
        get(&server, reader, &format!("/live/{gpt}"))
            .await
            .body
            .to_vec(),
    );
    assert!(!page.unwrap().contains("Delete this training"));
    let gone = send(&server, Some(&ada), Method::DELETE, &api, "").await;
    gone.expect(StatusCode::NO_CONTENT);
    let gone = send(&server, Some(&ada), Method::DELETE, &api, "").await;
    gone.expect(StatusCode::NOT_FOUND);
    let audit: Vec<AuditEntry> = get(&server, &ada, "/api/audit").await.read();
    let said = format!("{} {}", audit[0].action, audit[0].subject);
    assert_eq!(said, format!("delete_live llama ({llama})"));
}

/// No route that changes something may be missing: a new route is listed, or listed as changing
/// nothing.
#[test]
fn every_route_that_changes_something_is_written_down() {
    const NOT: [(&str, &str); 5] = [
        ("post", "/api/uploads"),
        ("post", "/api/shares/open"),
        ("post", "/api/mcp"),
        // The training was noted when it began.
        ("post", "/api/live/{live}/steps"),
        // A question: nothing is kept.
        ("post", "/api/runs/{run}/categories"),
    ];
    let document = serde_json::to_value(super::super::super::api().into_openapi()).unwrap();
    let mut forgotten = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, _) in item.as_object().unwrap() {
            let upper = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let noted = audited::action(&upper, path).is_some();
            let exempt = upper == Method::GET || NOT.contains(&(method, path));
            if noted == exempt {
                forgotten.push(format!("{method} {path}"));
            }
        }
    }
    assert!(forgotten.is_empty(), "{forgotten:?}");
}
