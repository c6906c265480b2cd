//! Runs: rename, delete, restore, purge; and what a server finds when it starts after one that
//! died.

use super::{Server, packed_snapshot, snapshot};
use crate::app::App;
use crate::config::Config;
use crate::identity::{run_id, upload_id};
use crate::store::UploadState;
use api::ids::RunId;
use api::problem::ProblemCode;
use api::progress::UploadProgress;
use api::routes;
use api::runs::{FinishedUpload, RunDetail, RunSource, RunSummary};
use axum::http::{Method, StatusCode};
use std::time::Duration;
use timeline::format::{UnixMillis, date_time};
use trace::device::DeviceIdx;
use trace::testing::bombs;
use trace::tiles::TileId;

async fn upload(server: &Server) -> RunId {
    server
        .put("/api/upload/a", snapshot())
        .await
        .read::<FinishedUpload>()
        .run
        .id
}

async fn live(server: &Server) -> Vec<RunSummary> {
    server.get(routes::RUNS).await.read()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_listed_with_its_facts() {
    let server = Server::start().await;
    let run = upload(&server).await;
    let detail: RunDetail = server.get(&routes::run(&run)).await.read();
    assert_eq!(detail.pickle_protocol, Some(4));
    assert!(!detail.settings.is_empty());
    assert_eq!(detail.summary.steps, 12);
    let device = &detail.summary.devices[0];
    assert_eq!(device.steps, 12);
    assert!(
        device
            .time
            .is_some_and(|(first, last)| 0 < first && first < last)
    );
    assert_eq!(device.fidelity.allocs, device.fidelity.predicted);
    assert_eq!(detail.summary.peak_allocated, device.series[1].peak);
    assert_eq!(live(&server).await, [detail.summary]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_arrives_after_the_clock_was_set_back_is_the_newest() {
    let server = Server::start().await;
    // As if the clock had stood there before.
    server.app.store.pass_ms(2 * 3600 * 1000);
    let later = server.app.store.latest_ms();
    let run = upload(&server).await;
    let all = live(&server).await;
    assert!(all[0].id == run && all[0].created_ms >= later, "{all:?}");
}

/// A clock that was once far ahead was wrong.
#[tokio::test(flavor = "multi_thread")]
async fn no_run_gets_a_date_that_has_not_come() {
    let server = Server::start().await;
    server.app.store.pass_ms(30 * 24 * 3600 * 1000);
    upload(&server).await;
    assert!(live(&server).await[0].created_ms <= crate::system::clock::now_ms());
}

/// Else it would keep its disk until then.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_deleted_in_the_future_goes_too() {
    let server = Server::start().await;
    let run = upload(&server).await;
    let later = crate::system::clock::now_ms() + 3600 * 1000;
    let delete = server.app.store.write(move |w| w.delete_run(&run, later));
    delete.await.unwrap();
    server.app.uploads.purge(0).await.unwrap();
    let purge = server
        .app
        .uploads
        .purge(crate::system::clock::now_ms() + 1000);
    purge.await.unwrap();
    assert_eq!(server.stored_files(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_in_pages() {
    let server = Server::start().await;
    for name in ["plain_lm", "streams", "oom"] {
        let path = routes::sample(name);
        server.json(Method::POST, &path, "").await;
    }
    let run = upload(&server).await;
    for _ in 0..3 {
        let share =
            format!(r#"{{"kind":"team","target":{{"kind":"run","run":"{run}"}},"query":""}}"#);
        server.json(Method::POST, routes::SHARES, &share).await;
    }
    for list in [routes::RUNS, routes::SHARES] {
        let whole: Vec<serde_json::Value> = server.get(list).await.read();
        let mut parts = Vec::new();
        for offset in 0..=whole.len() {
            let path = format!("{list}?offset={offset}&limit=1");
            let part: Vec<serde_json::Value> = server.get(&path).await.read();
            assert_eq!(part.len(), usize::from(offset < whole.len()), "{path}");
            parts.extend(part);
        }
        assert!(!whole.is_empty() && parts == whole, "{list}: {whole:?}");
    }
    // A client that asks for more than a page may hold gets a page.
    for wrong in ["limit=0", "limit=-1", "limit=1.5", "offset=-1"] {
        let answer = server.get(&format!("{}?{wrong}", routes::RUNS)).await;
        answer.expect(StatusCode::BAD_REQUEST);
    }
    let path = format!("{}?limit=18446744073709551615", routes::RUNS);
    server.get(&path).await.expect(StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_does_not_say_all_that_was_asked_for() {
    let server = Server::start().await;
    let path = format!("/api/runs/run_{}", "a".repeat(50_000));
    let problem = server.get(&path).await.problem();
    assert!(problem.detail.len() <= 2048, "{}", problem.detail.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_can_be_renamed() {
    let server = Server::start().await;
    let run = upload(&server).await;
    let name = r#"{"name":" <b>after the fix</b> "}"#;
    let renamed: RunSummary = server
        .json(Method::PATCH, &routes::run(&run), name)
        .await
        .read();
    assert_eq!(renamed.name, "<b>after the fix</b>");
    assert_eq!(live(&server).await, [renamed]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_can_be_undone_until_it_is_purged() {
    let server = Server::start().await;
    let run = upload(&server).await;
    let delete = async || server.json(Method::DELETE, &routes::run(&run), "").await;
    let deleted: RunSummary = delete().await.read();
    let deleted_ms = deleted.deleted_ms.expect("just deleted");
    assert_eq!(live(&server).await, []);
    let problem = server.get(&routes::run(&run)).await.problem();
    assert_eq!(problem.code, ProblemCode::NotFound);
    let until = date_time(UnixMillis(deleted_ms + 10 * 60_000));
    let told = format!("it was deleted, and can be restored until {until}");
    assert!(problem.detail.ends_with(&told), "{}", problem.detail);
    let trash: Vec<RunSummary> = server.get(routes::DELETED_RUNS).await.read();
    assert_eq!(trash, [deleted]);

    let restored = server
        .json(Method::POST, &routes::run_restore(&run), "")
        .await;
    let restored = restored.read::<RunSummary>();
    assert_eq!(live(&server).await, [restored]);

    delete().await.expect(StatusCode::OK);
    server.app.uploads.purge(deleted_ms - 1).await.unwrap();
    assert_eq!(server.stored_files(), 1, "still to be undone");
    server.app.uploads.purge(i64::MAX).await.unwrap();
    assert_eq!(server.stored_files(), 0);
    let restored = server
        .json(Method::POST, &routes::run_restore(&run), "")
        .await;
    assert_eq!(restored.problem().code, ProblemCode::NotFound);
    let database = server.data().join("tidemark.db");
    let rows = std::fs::metadata(database).unwrap().len();
    assert!(rows > 0);
    assert_eq!(upload(&server).await, run, "it can be uploaded again");
}

/// Who was second was told that they had deleted it, and offered to bring it back.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_somebody_else_deleted_is_told_to_be_gone() {
    let server = Server::start().await;
    let run = upload(&server).await;
    let delete = async || server.json(Method::DELETE, &routes::run(&run), "").await;
    let first: RunSummary = delete().await.expect(StatusCode::OK).read();
    let problem = delete().await.expect(StatusCode::NOT_FOUND).problem();
    assert_eq!(problem.code, ProblemCode::NotFound);
    let told = "it was deleted, and can be restored until ";
    assert!(problem.detail.contains(told), "{}", problem.detail);
    // It stays deleted since the first time.
    let trash: Vec<RunSummary> = server.get(routes::DELETED_RUNS).await.read();
    assert_eq!(trash, [first]);
}

#[tokio::test(flavor = "multi_thread")]
async fn uploading_a_deleted_run_again_restores_it() {
    let server = Server::start().await;
    let run = upload(&server).await;
    server
        .json(Method::DELETE, &routes::run(&run), "")
        .await
        .expect(StatusCode::OK);
    let again: FinishedUpload = server.put("/api/upload/a", snapshot()).await.read();
    assert!(again.known);
    assert_eq!(again.run.deleted_ms, None);
    assert_eq!(live(&server).await, [again.run]);
}

/// When a server died over an upload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Died {
    /// Before all bytes were there.
    Receiving,
    /// When it had recorded where it would put them.
    Announced,
    /// When they were in the blob store, and the database did not know it yet.
    InPlace,
    /// When the database knew it.
    Recorded,
}

/// Stores a blob and an unfinished upload of it, as a server leaves them when it dies at that
/// moment.
async fn leave_unfinished(config: Config, died: Died) -> api::ids::UploadId {
    let app = App::open(config).await.unwrap();
    let id = upload_id();
    let (blobs, runtime) = (
        app.uploads.blobs().clone(),
        tokio::runtime::Handle::current(),
    );
    let (staging, name) = (blobs.clone(), id.clone());
    let staged = tokio::task::spawn_blocking(move || {
        let mut incoming = staging.begin(&runtime, &name).unwrap();
        incoming.write(packed_snapshot()).unwrap();
        incoming.finish().unwrap()
    });
    let staged = staged.await.unwrap();
    if died >= Died::InPlace {
        drop(blobs.keep(&staged).await.unwrap());
    }
    let upload = id.clone();
    let write = app.store.write(move |writer| {
        writer.insert_upload(&upload, "left.pickle", None, RunSource::Upload, None, 1)?;
        writer.upload_sent_by(&upload, Some("ada"))?;
        writer.move_upload(&upload, &UploadState::Running, 2)?;
        if died >= Died::Announced {
            writer.upload_arrived(&upload, &staged.row.hash, 3)?;
        }
        if died >= Died::Recorded {
            writer.insert_blob(&staged.row, 3)?;
            writer.upload_stored(&upload, &staged.row.hash, 3)?;
        }
        // Half of a trace.
        writer.new_trace(1, 4).map(drop)
    });
    write.await.unwrap();
    app.stopping.cancel();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_bytes_are_all_there_is_taken_up_again() {
    for died in [Died::InPlace, Died::Recorded] {
        taken_up_again(died).await;
    }
}

async fn taken_up_again(died: Died) {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::new(folder.path().join("data"));
    let id = leave_unfinished(config.clone(), died).await;
    let server = reopened(config, folder).await;
    let expected = run_id(&blake3::hash(packed_snapshot()));
    let done = async {
        loop {
            let progress: UploadProgress = server.get(&routes::upload(&id)).await.read();
            if let UploadProgress::Done { run } = progress {
                return run;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let run = tokio::time::timeout(Duration::from_secs(30), done)
        .await
        .unwrap();
    assert_eq!(run, expected);
    let listed = live(&server).await;
    assert_eq!(listed[0].name, "left.pickle");
    assert_eq!(listed[0].uploaded_by.as_deref(), Some("ada"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_lacks_bytes_has_failed() {
    for died in [Died::Receiving, Died::Announced] {
        has_failed(died).await;
    }
}

async fn has_failed(died: Died) {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::new(folder.path().join("data"));
    let id = leave_unfinished(config.clone(), died).await;
    let server = reopened(config, folder).await;
    let progress: UploadProgress = server.get(&routes::upload(&id)).await.read();
    assert!(matches!(progress, UploadProgress::Failed { problem }
        if problem.code == ProblemCode::Interrupted));
    assert_eq!(server.stored_files(), 0);
    assert_eq!(live(&server).await, []);
}

/// A second server on the same folder, after the first has released it.
async fn reopened(config: Config, folder: tempfile::TempDir) -> Server {
    for _ in 0..200 {
        if let Ok(app) = App::open(config.clone()).await {
            return Server::of(app, folder);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the first server never releases the folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_cannot_share_a_folder() {
    let server = Server::start().await;
    let second = App::open(Config::new(server.data().to_owned())).await;
    let refused = second.map(drop).unwrap_err().to_string();
    assert!(refused.contains("in use by another tidemark"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_are_packed_again_and_stay_the_same() {
    let server = Server::with(|config| config.repack_level = Some(12)).await;
    let run = upload(&server).await;
    let hash = live(&server).await[0].content_hash.clone();
    let (name, store) = (hash.clone(), server.app.store.clone());
    let before = store
        .read(move |reader| reader.blob(&name))
        .await
        .unwrap()
        .unwrap();
    let (name, waiting) = (hash.clone(), store.clone());
    let repacked = async {
        loop {
            let name = name.clone();
            let blob = waiting.read(move |reader| reader.blob(&name)).await;
            if blob.unwrap().unwrap().codec != before.codec {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let repacked = tokio::time::timeout(Duration::from_secs(60), repacked).await;
    repacked.expect("the thread packs it again");
    let after = store
        .read(move |reader| reader.blob(&hash))
        .await
        .unwrap()
        .unwrap();
    assert!(after.stored_bytes < before.stored_bytes);
    assert_eq!(after.file_bytes, before.file_bytes);
    let stored = server
        .data()
        .join("blobs")
        .join(&after.hash[..2])
        .join(&after.hash);
    let stored = std::fs::read(stored).unwrap();
    assert_eq!(stored.len() as u64, after.stored_bytes);
    assert!(zstd::decode_all(&stored[..]).unwrap() == snapshot());
    assert_eq!(upload(&server).await, run, "equal bytes are still known");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_derived_comes_back_from_the_blob() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::new(folder.path().join("data"));
    let (before, database) = {
        let app = App::open(config.clone()).await.unwrap();
        let server = Server::of(app, tempfile::tempdir().unwrap());
        upload(&server).await;
        server.app.stopping.cancel();
        (live(&server).await, server.data().join("tidemark.db"))
    };
    let store = crate::store::Store::open(&database).unwrap();
    store.write_now(|writer| writer.lose_all_derived()).unwrap();
    drop(store);
    let server = reopened(config, folder).await;
    let tile = TileId { level: 0, index: 0 };
    let path = routes::series_tile(&before[0].id, DeviceIdx(0), tile);
    let rebuilt = async {
        while server.get(&path).await.status != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), rebuilt)
        .await
        .unwrap();
    assert_eq!(live(&server).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_many_unknown_keys_has_a_short_answer_and_a_short_list() {
    let bomb = bombs::ALL.iter().find(|bomb| bomb.name == "unknown keys");
    let file = bomb.expect("it is listed").file(300_000);
    let server = Server::start().await;
    let sent = server.put("/api/upload/keys", file).await;
    let run = sent
        .expect(StatusCode::CREATED)
        .read::<FinishedUpload>()
        .run;
    for path in [routes::run(&run.id), routes::RUNS.to_owned()] {
        let answer = server.get(&path).await.expect(StatusCode::OK);
        let length = answer.body.len();
        assert!(length < 16 << 10, "{path}: {length} bytes");
    }
    let told = String::from_utf8(server.get(&routes::run(&run.id)).await.body.to_vec());
    assert!(told.unwrap().contains(" more"), "the others are counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_a_recording_turn_and_hide_nothing() {
    let name = "a\u{202e}b\u{200b}c\u{1b}[2J";
    let event = |at: u64| {
        serde_json::json!({
            "action": "alloc", "addr": at << 20, "size": 1 << 20, "time_us": at,
            "frames": [{"name": name, "filename": name, "line": 7}],
        })
    };
    let events: Vec<_> = (1..9).map(event).collect();
    let file = serde_json::json!({"segments": [], "device_traces": [events]}).to_string();
    let server = Server::start().await;
    let sent = server.put("/api/upload/a.json", file).await;
    let run = sent
        .expect(StatusCode::CREATED)
        .read::<FinishedUpload>()
        .run
        .id;
    let alive = format!("/api/runs/{run}/devices/0/alive?at=7&by=stack");
    for path in [alive, format!("/api/runs/{run}/card.svg")] {
        let answer = server.get(&path).await.expect(StatusCode::OK);
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        for c in name.chars().filter(|&c| !crate::system::plain::is_plain(c)) {
            assert!(!text.contains(c), "{path}: {c:?} in {text:.400}");
            let escaped = format!("\\u{:04x}", c as u32);
            assert!(!text.contains(&escaped), "{path}: {escaped} in {text:.400}");
        }
    }
}
