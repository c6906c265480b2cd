//! Runs in words: page and document are the same as those of the command line.

use super::{Server, request, snapshot};
use crate::ingest::parse;
use answers::explain::{VERSION, explain, page};
use api::explain::Explanation;
use api::leaks::Verdict;
use api::problem::ProblemCode;
use api::routes;
use api::runs::{FinishedUpload, RunSummary};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use std::sync::atomic::AtomicU64;
use trace::device::DeviceIdx;
use trace::main_device;
use trace::watch::Watch;

async fn sample(server: &Server) -> RunSummary {
    let path = routes::sample("leak_hook_cache");
    let answer = server.json(Method::POST, &path, "").await;
    answer.read::<FinishedUpload>().run
}

async fn asked(server: &Server, path: &str, accept: &str) -> super::Answer {
    let request = request(Method::GET, path).header(header::ACCEPT, accept);
    server.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_told_as_its_file_is() {
    let server = Server::start().await;
    let run = sample(&server).await;
    let snapshot = parse([snapshot()].into_iter(), &AtomicU64::new(0)).unwrap();
    let trace = trace::replay::run(snapshot);
    let expected = Watch::undisturbed(|watch| {
        explain(&run.name, &trace, main_device::of(&trace), None, watch)
    });

    let path = routes::explain(&run.id, DeviceIdx(0), None);
    let answer = server.get(&path).await.expect(StatusCode::OK);
    assert_eq!(
        answer.headers[header::CONTENT_TYPE],
        "text/markdown; charset=utf-8"
    );
    assert_eq!(String::from_utf8_lossy(&answer.body), page(&expected));
    let bare = path.split('?').next().unwrap();
    let chosen = server.get(bare).await.expect(StatusCode::OK);
    assert_eq!(chosen.body, answer.body);

    let document = asked(&server, &path, "application/json").await;
    assert_eq!(document.headers[header::CONTENT_TYPE], "application/json");
    assert_eq!(document.read::<Explanation>(), expected);
    let varies: Vec<_> = document.headers.get_all(header::VARY).iter().collect();
    assert_eq!(varies, ["accept-encoding", "accept"]);
    assert_ne!(document.headers[header::ETAG], answer.headers[header::ETAG]);

    let known =
        request(Method::GET, &path).header(header::IF_NONE_MATCH, &answer.headers[header::ETAG]);
    let again = server.send(known.body(Body::empty()).unwrap()).await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);
    let renamed = r#"{"name":"another `name`"}"#;
    server
        .json(Method::PATCH, &routes::run(&run.id), renamed)
        .await
        .expect(StatusCode::OK);
    let answer = server.get(&path).await.expect(StatusCode::OK);
    let begin = "# GPU memory of another \\`name\\`\n";
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text.starts_with(begin), "{text:.80}");
}

/// Stored words are used for readers who ask for the same device with its own steps and may see all
/// names. They appear under the current name of the run.
#[tokio::test(flavor = "multi_thread")]
async fn words_that_are_kept_are_told_again() {
    let server = Server::start().await;
    let run = sample(&server).await;
    let keep = async |version, torch: &str| {
        let snapshot = parse([snapshot()].into_iter(), &AtomicU64::new(0)).unwrap();
        let trace = trace::replay::run(snapshot);
        let mut words = Watch::undisturbed(|watch| {
            explain("another name", &trace, main_device::of(&trace), None, watch)
        });
        words.torch = Some(torch.to_owned());
        let id = run.id.clone();
        let write = server
            .app
            .store
            .write(move |writer| writer.put_explanation(&id, version, &words));
        write.await.unwrap();
    };
    let told = async |path: &str| {
        let told: Explanation = asked(&server, path, "application/json").await.read();
        assert_eq!(told.file, run.name, "{path}");
        told.torch
    };
    let bare = format!("/api/runs/{}/explain", run.id);
    let own_steps = routes::explain(&run.id, DeviceIdx(0), None);
    keep(VERSION - 1, "of an older version").await;
    assert_ne!(told(&bare).await.unwrap(), "of an older version");
    keep(VERSION, "kept").await;
    assert_eq!(told(&own_steps).await.unwrap(), "kept");
    let contents = server.get(&routes::contents(&run.id, DeviceIdx(0))).await;
    let contents: api::contents::Contents = contents.read();
    let other_steps = routes::explain(&run.id, DeviceIdx(0), Some(&contents.levels[0].key));
    assert_ne!(told(&other_steps).await.unwrap(), "kept");
    let other_device = server
        .get(&routes::explain(&run.id, DeviceIdx(7), None))
        .await;
    assert_eq!(other_device.problem().status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loop_asked_for_is_taken_for_steps_and_what_is_not_there_is_said() {
    let server = Server::start().await;
    let run = sample(&server).await;
    let contents = server.get(&routes::contents(&run.id, DeviceIdx(0))).await;
    let contents: api::contents::Contents = contents.read();
    for level in &contents.levels {
        let path = routes::explain(&run.id, DeviceIdx(0), Some(&level.key));
        let told = asked(&server, &path, "application/json").await;
        let told: Explanation = told.expect(StatusCode::OK).read();
        let device = told.device.expect("a device");
        assert_eq!(device.steps, level.count, "{}", level.key);
    }
    let found = asked(
        &server,
        &routes::explain(&run.id, DeviceIdx(0), None),
        "application/json",
    )
    .await;
    let found: Explanation = found.read();
    assert_eq!(found.device.unwrap().leaks.verdict, Verdict::Leak);
    for path in [
        routes::explain(&run.id, DeviceIdx(7), None),
        routes::explain(&run.id, DeviceIdx(0), Some("no such loop")),
        routes::explain(&"run_0000000000000000".parse().unwrap(), DeviceIdx(0), None),
    ] {
        let problem = server.get(&path).await.problem();
        assert_eq!(
            (problem.status, problem.code),
            (404, ProblemCode::NotFound),
            "{path}"
        );
    }
    // No device, no size, and a limit below what was reserved.
    for wrong in ["device=x", "limit=much", "limit=1MiB"] {
        let wrong = format!("/api/runs/{}/explain?{wrong}", run.id);
        assert_eq!(server.get(&wrong).await.problem().status, 400, "{wrong}");
    }
    let path = format!("/api/runs/{}/explain?limit=64GiB", run.id);
    let told = asked(&server, &path, "application/json").await;
    let told: Explanation = told.expect(StatusCode::OK).read();
    assert_eq!(told.limit, Some(trace::units::Bytes::gib(64)));
    server.json(Method::DELETE, &routes::run(&run.id), "").await;
    let gone = server
        .get(&routes::explain(&run.id, DeviceIdx(0), None))
        .await;
    assert_eq!(gone.problem().status, 404);
}

/// Tries until there is a result, for at most a minute.
async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = std::time::Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed().as_secs() < 60, "{what}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A large recording, for which the sender would have to wait, is judged and explained in the
/// background. The test goes all the way through the server, because a panic there once lost the
/// verdict.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_recording_is_judged_and_explained_after_it_has_arrived() {
    let bomb = trace::testing::bombs::ALL
        .iter()
        .find(|bomb| bomb.name == "allocations and frees");
    let file = bomb.expect("it is listed").file(410_000);
    let server = Server::start().await;
    let sent = server.put("/api/upload/large.pickle", file).await;
    let run = sent
        .expect(StatusCode::CREATED)
        .read::<FinishedUpload>()
        .run;
    assert_eq!(
        run.devices[0].blocks, 410_000,
        "it is one of the large ones"
    );
    let path = routes::run(&run.id);
    let verdict = eventually("its verdict", async || {
        server.get(&path).await.read::<RunSummary>().leaks
    });
    assert_ne!(verdict.await.verdict, Verdict::Leak);
    let id = run.id.clone();
    let words = eventually("its words", async || {
        let id = id.clone();
        let read = server
            .app
            .store
            .read(move |reader| reader.explanation(&id, None, VERSION));
        read.await.unwrap()
    });
    let kept = page(&words.await);
    let page = server
        .get(&routes::explain(&run.id, DeviceIdx(0), None))
        .await;
    let page = String::from_utf8(page.expect(StatusCode::OK).body.to_vec()).unwrap();
    let below_the_name = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    assert_eq!(below_the_name(&page), below_the_name(&kept));
}
