//! Uploads, good and bad.

use super::{Server, packed_snapshot, request, snapshot};
use api::problem::ProblemCode;
use api::progress::{Phase, UploadProgress};
use api::routes;
use api::runs::{AnnouncedUpload, FinishedUpload, RunSource, RunSummary};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace::testing::bombs;
use trace::units;

async fn announce(server: &Server, body: &str) -> AnnouncedUpload {
    let answer = server.json(Method::POST, routes::UPLOADS, body).await;
    answer.expect(StatusCode::CREATED).read()
}

/// Whatever went wrong, nothing of it may be left.
async fn assert_nothing_left(server: &Server) {
    let runs: Vec<RunSummary> = server.get(routes::RUNS).await.read();
    assert_eq!(runs, []);
    assert_eq!(server.stored_files(), 0);
    let traces = server.app.store.write(|writer| writer.purge_traces());
    assert_eq!(traces.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_packed_only_for_the_way_is_the_file_that_it_was() {
    let server = Server::start().await;
    let file = snapshot();
    let plain = server.put("/api/upload/a.pickle", file.clone()).await;
    let plain: FinishedUpload = plain.expect(StatusCode::CREATED).read();
    let packed = {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&file).unwrap();
        packed.finish().unwrap()
    };
    let send = async |server: &Server, coding: &str, body: Vec<u8>| {
        let sent = request(Method::PUT, "/api/upload/a.pickle")
            .header(header::CONTENT_ENCODING, coding)
            .header(header::CONTENT_LENGTH, body.len());
        server.send(sent.body(Body::from(body)).unwrap()).await
    };
    let again = send(&server, "gzip", packed.clone()).await;
    let again: FinishedUpload = again.expect(StatusCode::OK).read();
    assert_eq!((again.run.id, again.known), (plain.run.id, true));

    let server = Server::start().await;
    let first = send(&server, "gzip", packed.clone()).await;
    let first: FinishedUpload = first.expect(StatusCode::CREATED).read();
    assert_eq!(first.run.content_hash, plain.run.content_hash);
    assert_eq!(first.run.file_bytes, plain.run.file_bytes);

    let server = Server::start().await;
    let refused = send(&server, "br", packed.clone()).await.problem();
    assert!(refused.detail.contains("may be gzip"), "{}", refused.detail);
    let cut = packed[..packed.len() - 9].to_vec();
    let code = send(&server, "gzip", cut).await.problem().code;
    assert_eq!(code, ProblemCode::Interrupted);
    // Sent again, it would be no better.
    let code = send(&server, "X-GZIP", file).await.problem().code;
    assert_eq!(code, ProblemCode::BadSnapshot);
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_becomes_a_run() {
    let server = Server::start().await;
    let file = snapshot();
    let announcement = format!(r#"{{"name":"/tmp/a/run 7.pickle","size":{}}}"#, file.len());
    let upload = announce(&server, &announcement).await.upload;
    let answer = server.put(&routes::upload(&upload), file.clone()).await;
    let finished: FinishedUpload = answer.expect(StatusCode::CREATED).read();
    assert!(!finished.known);
    assert_eq!(finished.run.name, "run 7.pickle");
    assert_eq!(finished.run.source, RunSource::Upload);
    assert_eq!(finished.run.file_bytes.0, file.len() as u64);
    assert_eq!(
        finished.run.content_hash,
        blake3::hash(&file).to_hex().to_string()
    );
    assert_eq!(
        finished.url,
        format!("http://localhost:7878/runs/{}", finished.run.id)
    );
    let listed: Vec<RunSummary> = server.get(routes::RUNS).await.read();
    assert_eq!(listed, std::slice::from_ref(&finished.run));
    let progress: UploadProgress = server.get(&routes::upload(&upload)).await.read();
    assert_eq!(
        progress,
        UploadProgress::Done {
            run: finished.run.id
        }
    );
    // Its body was sent already and cannot be sent again.
    let again = server.put(&routes::upload(&upload), file).await;
    assert_eq!(again.problem().code, ProblemCode::Conflict);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_bytes_are_one_blob_and_one_run() {
    let server = Server::start().await;
    let send = async |name: &str| -> FinishedUpload {
        server
            .put(&routes::upload_named(name), snapshot())
            .await
            .read()
    };
    let first = send("one.pickle").await;
    let second = send("two.pickle").await;
    assert!(!first.known && second.known);
    assert_eq!(first.run, second.run);
    assert_eq!(server.stored_files(), 1);
    // Packed, the same snapshot has other bytes: so it is another blob and another run.
    let packed: FinishedUpload = server
        .put("/api/upload/three", packed_snapshot())
        .await
        .read();
    assert_ne!(packed.run.id, first.run.id);
    assert_eq!(packed.run.devices, first.run.devices);
    assert_eq!(server.stored_files(), 2);
}

/// A file that comes again replaces the stored one, which was packed smaller in the meantime.
#[tokio::test(flavor = "multi_thread")]
async fn the_database_knows_how_the_stored_file_is_packed() {
    let server = Server::start().await;
    let send = async || -> FinishedUpload {
        server
            .put(&routes::upload_named("a.pickle"), snapshot())
            .await
            .read()
    };
    let stored = async || {
        let store = &server.app.store;
        store.read(|reader| reader.blobs()).await.unwrap().remove(0)
    };
    send().await;
    let before = stored().await;
    let hash = before.hash.clone();
    let repacked = move |w: &mut crate::store::Writer| w.repack_blob(&hash, 1, 9);
    server.app.store.write(repacked).await.unwrap();
    assert!(send().await.known);
    assert_eq!(stored().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_cancelled_restores_no_run_and_what_is_a_run_cannot_be_cancelled() {
    let server = Server::start().await;
    let sent = server.put(&routes::upload_named("a"), snapshot()).await;
    let run = routes::run(&sent.read::<FinishedUpload>().run.id);
    let delete = async |path: &str| server.json(Method::DELETE, path, "").await;
    delete(&run).await.expect(StatusCode::OK);

    let upload = announce(&server, r#"{"name":"a"}"#).await.upload;
    let job = server.app.uploads.get(&upload).unwrap();
    assert!(job.fate.cancel());
    let answer = server.put(&routes::upload(&upload), snapshot()).await;
    assert_eq!(answer.problem().code, ProblemCode::Cancelled);
    assert_eq!(server.get(&run).await.status, StatusCode::NOT_FOUND);

    let upload = announce(&server, r#"{"name":"a"}"#).await.upload;
    let job = server.app.uploads.get(&upload).unwrap();
    assert!(job.fate.become_run());
    let refused = delete(&routes::upload(&upload)).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    let sent = server.put(&routes::upload(&upload), snapshot()).await;
    sent.expect(StatusCode::OK);
    server.get(&run).await.expect(StatusCode::OK);
}

/// On a full disk.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_the_database_cannot_take_up_can_be_sent_again_or_cancelled() {
    let server = Server::start().await;
    let upload = announce(&server, r#"{"name":"a"}"#).await.upload;
    let other = announce(&server, r#"{"name":"b"}"#).await.upload;
    let store = &server.app.store;
    store.write(|w| w.take_no_uploads()).await.unwrap();
    let path = routes::upload(&upload);
    assert!(server.put(&path, snapshot()).await.status.is_server_error());
    let cancelled = server
        .json(Method::DELETE, &routes::upload(&other), "")
        .await;
    assert!(cancelled.status.is_server_error());
    assert!(
        server.app.uploads.get(&other).is_none(),
        "it waits for nothing"
    );
    store.write(|w| w.take_uploads_again()).await.unwrap();
    server
        .put(&path, snapshot())
        .await
        .expect(StatusCode::CREATED);
}

/// On a full disk, where they would take the room of others.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_the_database_cannot_take_up_do_not_stay() {
    let server = Server::start().await;
    let store = &server.app.store;
    store.write(|w| w.place_no_uploads()).await.unwrap();
    let path = routes::upload_named("a");
    assert!(server.put(&path, snapshot()).await.status.is_server_error());
    assert_nothing_left(&server).await;
    store.write(|w| w.take_uploads_again()).await.unwrap();
    let sent = server.put(&path, snapshot()).await;
    sent.expect(StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_bytes_at_the_same_time_are_one_run() {
    let server = Server::start().await;
    let send = |name| server.put(name, snapshot());
    let (a, b, c) = tokio::join!(
        send("/api/upload/a"),
        send("/api/upload/b"),
        send("/api/upload/c")
    );
    let runs = [a, b, c].map(|answer| answer.read::<FinishedUpload>().run.id);
    assert!(runs.iter().all(|id| *id == runs[0]));
    let listed: Vec<RunSummary> = server.get(routes::RUNS).await.read();
    assert_eq!(listed.len(), 1);
    assert_eq!(server.stored_files(), 1);
    let orphans = server.app.store.write(|writer| writer.purge_traces());
    assert_eq!(orphans.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_is_said_before_a_byte_is_sent() {
    let server = Server::with(|config| config.upload_limit = units::Bytes(1000)).await;
    let announced = r#"{"name":"a","size":1001}"#;
    let answer = server.json(Method::POST, routes::UPLOADS, announced).await;
    assert_eq!(answer.problem().code, ProblemCode::TooLarge);
    let put = request(Method::PUT, "/api/upload/a").header(header::CONTENT_LENGTH, 1001);
    let never = stream::pending::<Result<Bytes, std::io::Error>>();
    let answer = server
        .send(put.body(Body::from_stream(never)).unwrap())
        .await;
    assert_eq!(answer.problem().code, ProblemCode::TooLarge);
    // Without a stated length, it is refused as soon as it is too large.
    let answer = server
        .put("/api/upload/a", Body::from_stream(pieces(snapshot())))
        .await;
    assert_eq!(answer.problem().code, ProblemCode::TooLarge);
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_said_before_a_byte_is_sent() {
    let server = Server::with(|config| config.keep_free = units::Bytes(1 << 60)).await;
    let answer = server
        .json(Method::POST, routes::UPLOADS, r#"{"name":"a","size":9}"#)
        .await;
    assert_eq!(answer.problem().code, ProblemCode::InsufficientStorage);
    assert_eq!(answer.status, StatusCode::INSUFFICIENT_STORAGE);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_have_announced_is_not_promised_twice() {
    let folder = tempfile::tempdir().unwrap();
    let disk = rustix::fs::statvfs(folder.path()).unwrap();
    let most_of_it = disk.f_bavail * disk.f_frsize / 10 * 6;
    let server = Server::with(|config| {
        config.upload_limit = units::Bytes(u64::MAX);
        config.keep_free = units::Bytes(0);
    })
    .await;
    let announcement = format!(r#"{{"name":"a","size":{most_of_it}}}"#);
    // An announced upload reserves no space; a running one does.
    let first: AnnouncedUpload = announce(&server, &announcement).await;
    announce(&server, &announcement).await;
    let path = routes::upload(&first.upload);
    let sending = server.put(&path, stuck());
    let watching = async {
        wait_for(&server, &path, "receiving").await;
        let second = server
            .json(Method::POST, routes::UPLOADS, &announcement)
            .await;
        assert_eq!(second.problem().code, ProblemCode::InsufficientStorage);
        let cancel = request(Method::DELETE, &path);
        let cancelled = server.send(cancel.body(Body::empty()).unwrap()).await;
        assert!(cancelled.status.is_success());
    };
    tokio::join!(sending, watching);
    announce(&server, &announcement).await;
}

/// A body that begins and never ends.
fn stuck() -> Body {
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"\x80\x04"))]);
    Body::from_stream(first.chain(stream::pending()))
}

/// Waits until an upload is in a phase.
async fn wait_for(server: &Server, path: &str, phase: &str) {
    loop {
        let text = String::from_utf8(server.get(path).await.body.to_vec()).unwrap();
        if text.contains(phase) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_snapshot_is_refused_with_its_offset() {
    let server = Server::start().await;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&snapshot()).unwrap();
    let gzip = gzip.finish().unwrap();
    let half = snapshot();
    let half = half[..half.len() / 2].to_vec();
    let cut = gzip[..gzip.len() / 2].to_vec();
    let check = async |body: Vec<u8>, offset: Option<u64>, says: &str| {
        let problem = server.put("/api/upload/bad", body).await.problem();
        assert_eq!(problem.code, ProblemCode::BadSnapshot);
        assert_eq!(problem.offset, offset, "{}", problem.detail);
        assert!(problem.detail.contains(says), "{}", problem.detail);
    };
    check(Vec::new(), Some(0), "empty").await;
    check(b"hello, world".to_vec(), Some(0), "not a memory snapshot").await;
    check(
        b"\x80\x04cos\nsystem\n.".to_vec(),
        Some(2),
        "would run code",
    )
    .await;
    check(
        cut.clone(),
        Some(cut.len() as u64),
        "gzip stream does not end",
    )
    .await;
    check(half.clone(), Some(half.len() as u64), "ends").await;
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_connection_leaves_nothing_and_says_so() {
    let server = Server::start().await;
    let upload = announce(&server, r#"{"name":"a"}"#).await.upload;
    let file = snapshot();
    let half = Bytes::from(file[..file.len() / 2].to_vec());
    let gone = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let body = Body::from_stream(stream::iter([Ok(half), Err(gone)]));
    let answer = server.put(&routes::upload(&upload), body).await;
    assert_eq!(answer.problem().code, ProblemCode::Interrupted);
    let progress: UploadProgress = server.get(&routes::upload(&upload)).await.read();
    assert!(matches!(progress, UploadProgress::Failed { problem }
        if problem.code == ProblemCode::Interrupted));
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_shorter_than_announced_is_interrupted() {
    let server = Server::start().await;
    let file = snapshot();
    let announcement = format!(r#"{{"name":"a","size":{}}}"#, file.len() + 1);
    let upload = announce(&server, &announcement).await.upload;
    let answer = server.put(&routes::upload(&upload), file).await;
    assert_eq!(answer.problem().code, ProblemCode::Interrupted);
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_can_be_cancelled_before_and_while_it_arrives() {
    let server = Server::start().await;
    let delete = async |path: &str| {
        server
            .send(request(Method::DELETE, path).body(Body::empty()).unwrap())
            .await
            .status
    };
    let early = routes::upload(&announce(&server, r#"{"name":"a"}"#).await.upload);
    assert_eq!(delete(&early).await, StatusCode::NO_CONTENT);
    assert_eq!(
        server.get(&early).await.read::<UploadProgress>(),
        UploadProgress::Cancelled
    );
    assert_eq!(delete(&early).await, StatusCode::CONFLICT);

    let late = routes::upload(&announce(&server, r#"{"name":"a"}"#).await.upload);
    let half = stream::iter([Ok::<_, std::io::Error>(Bytes::from(
        snapshot()[..9000].to_vec(),
    ))]);
    let stuck = Body::from_stream(half.chain(stream::pending()));
    let sending = server.put(&late, stuck);
    let cancelling = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let progress: UploadProgress = server.get(&late).await.read();
            if matches!(progress, UploadProgress::Running { received: 9000, .. }) {
                return delete(&late).await;
            }
        }
    };
    let (answer, cancelled) = tokio::join!(sending, cancelling);
    assert_eq!(cancelled, StatusCode::NO_CONTENT);
    assert_eq!(answer.problem().code, ProblemCode::Cancelled);
    assert_nothing_left(&server).await;
}

/// Sends a file and cancels it as soon as it is being stored. Returns how long that took; `None` if
/// it was stored too quickly.
async fn cancel_while_it_is_stored(server: &Server, file: Vec<u8>) -> Option<Duration> {
    let upload = announce(server, r#"{"name":"a"}"#).await.upload;
    let job = server.app.uploads.get(&upload).expect("it is announced");
    let path = routes::upload(&upload);
    let is_stored = || {
        let now = job.progress.sample(Instant::now());
        matches!(now, UploadProgress::Running { phase, .. } if phase == Phase::Storing)
    };
    let sending = server.put(&path, file);
    let cancelling = async {
        while !is_stored() && !job.is_finished() {
            tokio::task::yield_now().await;
        }
        let told = Instant::now();
        let delete = request(Method::DELETE, &path).body(Body::empty()).unwrap();
        server.send(delete).await;
        told
    };
    let (answer, told) = tokio::join!(sending, cancelling);
    let took = told.elapsed();
    // It was just becoming a run.
    if answer.status == StatusCode::CREATED {
        return None;
    }
    assert_eq!(answer.problem().code, ProblemCode::Cancelled);
    // The thread that stores it notices this at its next check.
    while Arc::strong_count(&job) > 1 {
        assert!(told.elapsed() < Duration::from_secs(60), "it goes on");
        tokio::task::yield_now().await;
    }
    Some(took)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cancelled_while_it_is_stored_is_answered_at_once_and_leaves_nothing() {
    let bomb = bombs::ALL
        .iter()
        .find(|bomb| bomb.name == "distinct events");
    let bomb = bomb.expect("it is listed");
    // Larger and larger files, until storing takes long enough to cancel it.
    for n in [100_000, 200_000, 400_000, 800_000] {
        let server = Server::start().await;
        if let Some(took) = cancel_while_it_is_stored(&server, bomb.file(n)).await {
            assert!(took < Duration::from_millis(200), "{took:?}");
            assert_nothing_left(&server).await;
            let next = server.put("/api/upload/next", snapshot()).await;
            next.expect(StatusCode::CREATED);
            return;
        }
    }
    panic!("storing is over before it can be cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_streams_to_the_last_word() {
    let server = Server::start().await;
    let upload = announce(&server, r#"{"name":"a"}"#).await.upload;
    let body = Body::from_stream(slow_pieces(snapshot()));
    let (path, events_path) = (routes::upload(&upload), routes::upload_events(&upload));
    let (sent, events) = tokio::join!(server.put(&path, body), server.get(&events_path));
    let run = sent.read::<FinishedUpload>().run.id;
    let text = String::from_utf8(events.body.to_vec()).unwrap();
    assert_eq!(events.headers[header::CONTENT_TYPE], "text/event-stream");
    let states: Vec<UploadProgress> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert!(text.contains("event: progress"), "{text}");
    assert!(states.len() > 2, "{text}");
    assert_eq!(states.last(), Some(&UploadProgress::Done { run }));
    let received = states.iter().filter_map(|state| match state {
        UploadProgress::Running { received, .. } => Some(*received),
        _ => None,
    });
    assert!(received.is_sorted(), "{text}");
}

/// There are more stuck uploads than can be read at a time, and also an honest one and a sample.
async fn check_nobody_waits(rude: fn() -> Body) {
    let server = Server::with(|config| {
        config.clients.parse_pace.over = Duration::from_millis(100);
    });
    let server = server.await;
    let mut paths = Vec::new();
    for _ in 0..6 {
        paths.push(routes::upload(
            &announce(&server, r#"{"name":"a"}"#).await.upload,
        ));
    }
    let rude = futures_util::future::join_all(paths.iter().map(|path| server.put(path, rude())));
    let honest = async {
        for path in &paths {
            wait_for(&server, path, "receiving").await;
        }
        let sent = server.put("/api/upload/honest", snapshot()).await;
        let finished: FinishedUpload = sent.expect(StatusCode::CREATED).read();
        assert!(!finished.known);
        let sample = server.json(Method::POST, "/api/samples/plain_lm", "").await;
        sample.expect(StatusCode::CREATED);
        for path in &paths {
            // All of them are still running.
            let delete = request(Method::DELETE, path).body(Body::empty()).unwrap();
            server.send(delete).await.expect(StatusCode::NO_CONTENT);
        }
    };
    let (answers, ()) = tokio::join!(rude, honest);
    for answer in answers {
        assert_eq!(answer.problem().code, ProblemCode::Cancelled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_send_nothing_keep_nobody_waiting() {
    check_nobody_waits(stuck).await;
}

/// A few bytes now and then, for ever: a list to which nothing is added, again and again.
fn trickle() -> Body {
    let start = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"\x80\x04]"))]);
    let ticks = stream::repeat(Bytes::from_static(b"(e")).then(|piece| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok(piece)
    });
    Body::from_stream(start.chain(ticks))
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_trickle_keep_neither_an_upload_nor_a_sample_waiting() {
    check_nobody_waits(trickle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_slowly_is_read_when_it_is_there_and_what_comes_too_slowly_is_not() {
    let server = Server::with(|config| {
        config.clients.parse_pace.over = Duration::from_millis(20);
    });
    let slow = Body::from_stream(slow_pieces(snapshot()));
    let sent = server.await.put("/api/upload/slow", slow).await;
    sent.expect(StatusCode::CREATED);

    let server = Server::with(|config| config.clients.pace.over = Duration::from_millis(300));
    let server = server.await;
    let bytes = snapshot().into_iter().map(|byte| Bytes::from(vec![byte]));
    let trickle = stream::iter(bytes).then(|piece| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok::<_, std::io::Error>(piece)
    });
    let body = Body::from_stream(trickle);
    let refused = server.put("/api/upload/trickle", body).await;
    let problem = refused.expect(StatusCode::REQUEST_TIMEOUT).problem();
    assert_eq!(problem.code, ProblemCode::TooSlow);
    assert!(
        problem.detail.contains("slower than 16.0 KiB a second"),
        "{}",
        problem.detail
    );
    assert!(problem.detail.contains("--min-rate"), "{}", problem.detail);
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn announcements_without_bodies_take_nothing_from_anybody() {
    let server = Server::with(|config| config.upload_limit = units::Bytes(u64::MAX)).await;
    let disk = rustix::fs::statvfs(server.data()).unwrap();
    let large = disk.f_bavail * disk.f_frsize / 3;
    let announcement = format!(r#"{{"name":"a","size":{large}}}"#);
    let limit = server.app.config.clients.announcements;
    for _ in 0..limit.each {
        announce(&server, &announcement).await;
    }
    let refused = server
        .json(Method::POST, routes::UPLOADS, &announcement)
        .await;
    assert_eq!(refused.problem().code, ProblemCode::TooMany);
    assert_eq!(refused.headers[header::RETRY_AFTER], "10");
    let honest = server.put("/api/upload/honest", snapshot()).await;
    honest.expect(StatusCode::CREATED);
    // The database does not know them, so the next start has nothing to clean up.
    let unfinished = server.app.store.read(|reader| reader.unfinished_uploads());
    assert_eq!(unfinished.await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_only_so_many_uploads_under_way() {
    let server = Server::start().await;
    let most = server.app.config.clients.uploads.each;
    let mut paths = Vec::new();
    for _ in 0..=most {
        paths.push(routes::upload(
            &announce(&server, r#"{"name":"a"}"#).await.upload,
        ));
    }
    let (last, first) = paths.split_last().unwrap();
    let rude = futures_util::future::join_all(first.iter().map(|path| server.put(path, stuck())));
    let refused = async {
        for path in first {
            wait_for(&server, path, "receiving").await;
        }
        let refused = server.put(last, snapshot()).await;
        assert_eq!(refused.problem().code, ProblemCode::TooMany);
        assert!(refused.headers.contains_key(header::RETRY_AFTER));
        for path in first {
            let delete = request(Method::DELETE, path).body(Body::empty()).unwrap();
            server.send(delete).await.expect(StatusCode::NO_CONTENT);
        }
    };
    tokio::join!(rude, refused);
    // A refused file can be sent again.
    server
        .put(last, snapshot())
        .await
        .expect(StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_opens_and_opens_again() {
    let server = Server::start().await;
    let samples: Vec<api::runs::Sample> = server.get(routes::SAMPLES).await.read();
    assert!(samples.len() >= 4);
    for sample in &samples {
        let path = routes::sample(&sample.name);
        let opened: FinishedUpload = server.json(Method::POST, &path, "").await.read();
        assert_eq!(opened.run.source, RunSource::Sample);
        assert_eq!(opened.run.name, sample.title);
        assert!(
            opened.run.steps >= 5,
            "{}: {} steps",
            sample.name,
            opened.run.steps
        );
        let again: FinishedUpload = server.json(Method::POST, &path, "").await.read();
        assert!(again.known);
    }
}

fn pieces(file: Vec<u8>) -> impl stream::Stream<Item = Result<Bytes, std::io::Error>> {
    let pieces: Vec<_> = file
        .chunks(5000)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    stream::iter(pieces)
}

fn slow_pieces(file: Vec<u8>) -> impl stream::Stream<Item = Result<Bytes, std::io::Error>> {
    let large: Vec<_> = file
        .chunks(file.len() / 4)
        .map(Bytes::copy_from_slice)
        .collect();
    stream::iter(large).then(|piece| async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        Ok(piece)
    })
}
