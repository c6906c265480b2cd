//! Tests of trainings that report while they run.

use super::{Server, request};
use crate::webhook::Webhook;
use api::live::{Heard, LiveCurve, LiveMade, LiveOutcome, LiveRuns, MOST_RUNS};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::{Value, json};
use trace::units::Bytes;

const MIB: u64 = 1 << 20;

async fn begin(server: &Server, rank: u32) -> LiveMade {
    begin_in(server, "abc", rank).await
}

async fn begin_in(server: &Server, job: &str, rank: u32) -> LiveMade {
    let new = json!({
        "name": "llama", "rank": rank, "ranks": MOST_RUNS + 1, "job": job, "device": rank % 8,
        "limit": 2000 * MIB, "labels": {"config": "a"},
    });
    let new = new.to_string();
    let made = server.json(Method::POST, "/api/live", &new).await;
    made.expect(StatusCode::CREATED).read()
}

/// Reports steps that hold so many MiB.
async fn report(
    server: &Server,
    live: &LiveMade,
    steps: impl Iterator<Item = (u64, u64)>,
) -> Heard {
    let rows = steps.map(|(step, mib)| json!([step, 1, mib * MIB, mib * MIB, 2000 * MIB, 0, 0]));
    let body = json!({ "steps": rows.collect::<Value>() }).to_string();
    let path = format!("/api/live/{}/steps", live.live);
    let heard = server.json(Method::POST, &path, &body).await;
    heard.expect(StatusCode::OK).read()
}

async fn end(server: &Server, live: &LiveMade) -> StatusCode {
    let path = format!("/api/live/{}/end", live.live);
    let body = r#"{"outcome": "out_of_memory", "what": "OutOfMemoryError"}"#;
    server.json(Method::POST, &path, body).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_training_is_seen_while_it_runs_and_told_what_to_look_at() {
    let server = Server::start().await;
    let live = begin(&server, 0).await;
    assert!(live.page.ends_with(&format!("/live/{}", live.live)));
    let heard = report(&server, &live, (1..30).map(|n| (n, 1000 + 5 * n))).await;
    assert_eq!(heard.capture, None);
    assert!(heard.warnings[0].starts_with("Memory grows by 5.00 MiB a step"));
    // What was sent twice counts once, and what is missing is no error.
    report(
        &server,
        &live,
        (20..40).step_by(3).map(|n| (n, 1000 + 5 * n)),
    )
    .await;
    let path = format!("/api/live/{}", live.live);
    let curve: LiveCurve = server.get(&path).await.read();
    assert_eq!(curve.steps.len(), 29 + 3);
    assert!(curve.steps.is_sorted_by_key(|step| step.step));
    assert_eq!(curve.run.last, curve.steps.last().copied());
    assert_eq!(curve.run.outcome, None);

    assert_eq!(end(&server, &live).await, StatusCode::NO_CONTENT);
    assert_eq!(end(&server, &live).await, StatusCode::GONE);
    let all: LiveRuns = server.get("/api/live").await.read();
    assert_eq!(all.runs.len(), 1);
    assert_eq!(all.runs[0].outcome, Some(LiveOutcome::OutOfMemory));
    assert!(all.runs[0].warnings.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_ranks_are_asked_for_a_snapshot_under_one_number() {
    let server = Server::start().await;
    let ranks = [begin(&server, 0).await, begin(&server, 1).await];
    for rank in &ranks {
        report(&server, rank, [(1, 5)].into_iter()).await;
    }
    let ask = async |n: u32| {
        let path = format!("/api/live/{}/capture", ranks[1].live);
        let body = json!({ "steps": n }).to_string();
        server.json(Method::POST, &path, &body).await.status
    };
    assert_eq!(ask(0).await, StatusCode::BAD_REQUEST);
    assert_eq!(ask(3).await, StatusCode::NO_CONTENT);
    for rank in &ranks {
        // It is said in each answer, as one may be lost; the number tells it from others.
        for step in 2..4 {
            let heard = report(&server, rank, [(step, 5)].into_iter()).await;
            let asked = heard.capture.map(|capture| (capture.id, capture.steps));
            assert_eq!(asked, Some((1, 3)));
        }
    }
    assert_eq!(ask(7).await, StatusCode::NO_CONTENT);
    let heard = report(&server, &ranks[0], [(4, 5)].into_iter()).await;
    assert_eq!(
        heard.capture.map(|capture| (capture.id, capture.steps)),
        Some((2, 7))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_without_the_room_around_them() {
    let server = Server::start().await;
    let new = json!({"name": " llama ", "job": " abc\n", "device": 0}).to_string();
    let made = server.json(Method::POST, "/api/live", &new).await;
    let live: LiveMade = made.expect(StatusCode::CREATED).read();
    let path = format!("/api/live/{}", live.live);
    let body = r#"{"outcome": "failed", "what": " Error "}"#;
    let ended = server
        .json(Method::POST, &format!("{path}/end"), body)
        .await;
    ended.expect(StatusCode::NO_CONTENT);
    let run = server.get(&path).await.read::<LiveCurve>().run;
    assert_eq!(
        (run.name.as_str(), run.job.as_deref()),
        ("llama", Some("abc"))
    );
    assert_eq!(run.what.as_deref(), Some("Error"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_report_is_refused() {
    let server = Server::start().await;
    let check = async |path: &str, body: Value, status: StatusCode| {
        let answer = server.json(Method::POST, path, &body.to_string()).await;
        assert_eq!(answer.status, status, "{path} {body}");
    };
    let (bad, unread) = (StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY);
    let new = |name: &str| {
        json!({"name": name, "rank": null, "ranks": null, "job": null,
        "device": 0, "limit": null})
    };
    check("/api/live", new(""), bad).await;
    check("/api/live", new("a\u{202e}b"), bad).await;
    check("/api/live", new(&"x".repeat(201)), bad).await;
    check("/api/live", new("   "), bad).await;
    let with = |field: &str, value: Value| {
        let mut new = new("llama");
        new[field] = value;
        new
    };
    for wrong in [json!(0), json!(u64::MAX)] {
        let wrong = with("limit", wrong).to_string();
        let answer = server.json(Method::POST, "/api/live", &wrong).await;
        let problem: Value = answer.expect(bad).read();
        let why = problem["detail"].as_str().unwrap_or_default();
        assert!(why.starts_with("limit: "), "{problem}");
    }
    for wrong in [json!(-1), json!(1.5), json!("1 GiB"), json!(1e300)] {
        check("/api/live", with("limit", wrong), unread).await;
    }
    check("/api/live", with("job", json!(" ")), bad).await;
    check("/api/live", with("device", json!(127)), StatusCode::CREATED).await;
    for none in [128, u32::MAX] {
        check("/api/live", with("device", json!(none)), bad).await;
    }
    check("/api/live", with("ranks", json!(0)), bad).await;
    check("/api/live", with("ranks", json!(4097)), bad).await;
    check("/api/live", with("rank", json!(4096)), bad).await;
    for (rank, expected) in [(2, StatusCode::CREATED), (3, bad), (4_000_000_000_u32, bad)] {
        let mut of_three = with("ranks", json!(3));
        of_three["rank"] = json!(rank);
        check("/api/live", of_three, expected).await;
    }
    check(
        "/api/live/live_none/steps",
        json!({"steps": []}),
        StatusCode::NOT_FOUND,
    )
    .await;
    let live = begin(&server, 0).await.live;
    let steps = format!("/api/live/{live}/steps");
    check(&steps, json!({"steps": [[1, 2, 3]]}), unread).await;
    for (step, bytes) in [
        (1_u64, u64::MAX),
        (1, i64::MAX as u64),
        ((1_u64 << 53) + 1, 1),
    ] {
        let report = json!({"steps": [[step, 1, bytes, 1, 1, 0, 0]]});
        check(&steps, report, bad).await;
    }
    let many: Vec<_> = (0..1001).map(|n| [n, 1, 1, 1, 1, 0, 0]).collect();
    check(&steps, json!({ "steps": many }), bad).await;
    check(&steps, json!({ "steps": many[..1000] }), StatusCode::OK).await;
    let outcome = json!({"outcome": "lost", "what": null});
    check(&format!("/api/live/{live}/end"), outcome, unread).await;
}

/// Reports go into the database, on the same disk as uploads.
#[tokio::test(flavor = "multi_thread")]
async fn reports_know_the_free_room_and_the_quota() {
    let server = Server::start().await;
    let live = begin(&server, 0).await;
    let share = server.app.uploads.share();
    let steps = format!("/api/live/{}/steps", live.live);
    let body = json!({"steps": [[1, 1, 1, 1, 1, 0, 0]]}).to_string();
    let new = json!({"name": "other", "device": 0}).to_string();
    let both = async |server: &Server, steps: &str, status: StatusCode| {
        for (path, body) in [(steps, &body), ("/api/live", &new)] {
            let answer = server.json(Method::POST, path, body).await;
            assert_eq!(answer.status, status, "{path}");
        }
    };
    let told = server.json(Method::POST, &steps, &body).await;
    assert_eq!(told.status, StatusCode::OK);
    share.limit(Some(Bytes::ZERO));
    both(&server, &steps, StatusCode::INSUFFICIENT_STORAGE).await;
    assert_eq!(end(&server, &live).await, StatusCode::NO_CONTENT);

    let full = Server::with(|config| config.keep_free = Bytes(u64::MAX / 2)).await;
    both(
        &full,
        "/api/live/live_none/steps",
        StatusCode::INSUFFICIENT_STORAGE,
    )
    .await;
    let ready: Value = full.get("/readyz").await.expect(StatusCode::OK).read();
    assert_eq!(ready["writes"], "refused");
}

/// Receives messages; each is the body of a request.
async fn chat() -> (String, tokio::sync::mpsc::UnboundedReceiver<Value>) {
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    let take = move |axum::Json(message): axum::Json<Value>| async move {
        tell.send(message).unwrap();
    };
    let chat = axum::Router::new().route("/secret", axum::routing::post(take));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/secret", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, chat).await });
    (address, told)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_is_told_once_of_each_concern_of_a_training() {
    let (address, mut told) = chat().await;
    let server = Server::with(|config| config.alert = Webhook::at(&address)).await;
    let ranks = [begin(&server, 0).await, begin(&server, 1).await];
    let growing = |from: u64| (from..from + 30).map(|n| (n, 1000 + 5 * n));
    for rank in &ranks {
        report(&server, rank, growing(1)).await;
        report(&server, rank, growing(31)).await;
    }
    let message = told.recv().await.unwrap();
    let text = message["text"].as_str().unwrap();
    assert!(
        text.starts_with("llama, rank 0: Memory grows by 5.00 MiB a step"),
        "{text}"
    );
    assert!(
        text.ends_with(&format!("/live/{}", ranks[0].live)),
        "{text}"
    );
    assert_eq!(message["labels"], json!({"config": "a"}));
    // Of another concern it is told, too, by whichever rank has it first.
    report(&server, &ranks[1], [(61, 1990)].into_iter()).await;
    let message = told.recv().await.unwrap();
    let reason = message["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("The peak (1.94 GiB) is close"),
        "{reason}"
    );
    assert!(told.try_recv().is_err());
}

async fn page(server: &Server, path: &str) -> String {
    let page = server.get(path).await.expect(StatusCode::OK);
    String::from_utf8(page.body.to_vec()).unwrap()
}

/// 25 trainings of 8 ranks took all places of the list.
#[tokio::test(flavor = "multi_thread")]
async fn a_training_of_many_ranks_is_one_row_and_its_page_says_of_how_many() {
    let server = Server::start().await;
    let alone = begin_in(&server, "alone", 0).await;
    for rank in 0..=MOST_RUNS as u32 {
        begin(&server, rank).await;
    }
    let all: LiveRuns = server.get("/api/live").await.read();
    assert_eq!((all.runs.len(), all.total), (2, 2));
    let (wide, many) = (&all.runs[0], MOST_RUNS as u32 + 1);
    let of = wide.training.unwrap();
    assert_eq!((of.all, of.running, of.failed), (many, many, 0));
    assert_eq!(all.runs[1].id, alone.live);
    let list = page(&server, "/live").await;
    assert!(list.contains("201 of 201 run"), "{list}");
    assert!(!list.contains("are shown:"), "{list}");
    // Its ranks are on its page, and all of them can be reached.
    let of_one = format!("/live/{}", wide.id);
    let first = page(&server, &of_one).await;
    assert!(first.contains("200 of 201 are shown: 1 to 200."), "{first}");
    assert!(first.contains(&format!("{of_one}?offset=200")), "{first}");
    let second = page(&server, &format!("{of_one}?offset=200")).await;
    assert!(
        second.contains("1 of 201 are shown: 201 to 201."),
        "{second}"
    );
    assert!(second.contains("200 of 201<"), "its rank: {second}");
    let ranks = format!("/api/live?training={}&offset=200", wide.id);
    let ranks: LiveRuns = server.get(&ranks).await.read();
    assert_eq!((ranks.runs.len(), ranks.total), (1, many));
    let none = server.get("/api/live?training=live_none").await;
    none.expect(StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_warns_comes_first_on_pages_that_can_be_searched() {
    let server = Server::start().await;
    let growing = begin_in(&server, "grows", 0).await;
    report(&server, &growing, (1..30).map(|n| (n, 1000 + 5 * n))).await;
    for n in 0..12 {
        let other = begin_in(&server, &format!("job{n}"), 0).await;
        report(&server, &other, [(1, 5)].into_iter()).await;
    }
    let read = async |query: &str| {
        let path = format!("/api/live?{query}");
        server.get(&path).await.read::<LiveRuns>()
    };
    let first = read("limit=1").await;
    assert_eq!((first.runs.len(), first.total), (1, 13));
    assert_eq!(first.runs[0].id, growing.live);
    assert_eq!(first.runs[0].training.unwrap().warned, 1);
    assert!(first.runs[0].warnings[0].starts_with("Memory grows"));
    assert_eq!(read("limit=5&offset=10").await.runs.len(), 3);
    assert_eq!(read("q=LLAM").await.total, 13);
    assert_eq!(read("q=config%3Da").await.total, 13);
    assert_eq!(read("q=other").await.total, 0);
    let none = page(&server, "/live?q=other").await;
    assert!(none.contains("value=\"other\""), "{none}");
    assert!(none.contains("No training has this"), "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_training_is_deleted_with_all_its_ranks_and_gives_its_room_back() {
    let server = Server::start().await;
    let ranks = [begin(&server, 0).await, begin(&server, 1).await];
    let share = server.app.uploads.share();
    share.limit(Some(Bytes(1 << 40)));
    for part in 0..10 {
        let steps = (part * 1000 + 1..=part * 1000 + 1000).map(|n| (n, 5));
        report(&server, &ranks[0], steps).await;
    }
    let full = share.used();
    // What is full is emptied.
    share.limit(Some(full));
    let of_rank = format!("/live/{}", ranks[1].live);
    let shown = page(&server, &of_rank).await;
    assert!(shown.contains("of all its 2 processes"), "{shown}");
    let form = request(Method::POST, &format!("{of_rank}/delete"))
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let gone = server.send(form.body(Body::empty()).unwrap()).await;
    assert_eq!(gone.status, StatusCode::SEE_OTHER);
    for rank in &ranks {
        let path = format!("/api/live/{}", rank.live);
        server.get(&path).await.expect(StatusCode::NOT_FOUND);
    }
    assert!(share.used() < full, "{} of {full}", share.used());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_training_the_page_says_what_to_write_with_the_servers_address() {
    let server = Server::start().await;
    let page = server.get("/live").await.expect(StatusCode::OK);
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(page.contains("--live --server http://"), "{page}");
    assert!(!page.contains("http://…"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_training_that_has_ended_is_not_asked_for_a_snapshot() {
    let server = Server::start().await;
    let live = begin(&server, 0).await;
    report(&server, &live, [(1, 5)].into_iter()).await;
    let path = format!("/live/{}", live.live);
    let ask = async || {
        let form = request(Method::POST, &format!("{path}/capture"))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        server.send(form.body(Body::from("steps=3")).unwrap()).await
    };
    let refreshed = async || {
        let page = server.get(&path).await.expect(StatusCode::OK);
        let page = String::from_utf8(page.body.to_vec()).unwrap();
        page.split("data-live").nth(1).unwrap().to_owned()
    };
    assert!(refreshed().await.contains("Ask for a snapshot"));
    assert_eq!(ask().await.status, StatusCode::SEE_OTHER);
    assert_eq!(end(&server, &live).await, StatusCode::NO_CONTENT);
    assert!(!refreshed().await.contains("Ask for a snapshot"));
    // A page that was not read anew in between says why.
    let late = ask().await.expect(StatusCode::GONE);
    let late = String::from_utf8(late.body.to_vec()).unwrap();
    assert!(
        late.contains("role=\"alert\"") && late.contains("llama"),
        "{late}"
    );
}
