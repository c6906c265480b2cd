//! Damaged and missing files, and the answers to probes.

use super::*;

fn blob_path(server: &Server) -> std::path::PathBuf {
    let blobs = server.app.store.read_now(|reader| reader.blob_hashes());
    let hash = blobs.unwrap().remove(0);
    server.data().join("blobs").join(&hash[..2]).join(hash)
}

async fn with_a_run() -> (Server, String) {
    let server = Server::start().await;
    let answer = server.put("/api/upload/a.pickle", packed_snapshot()).await;
    let finished: api::runs::FinishedUpload = answer.expect(StatusCode::CREATED).read();
    let export = format!("/api/runs/{}/export?format=pickle", finished.run.id);
    (server, export)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_or_missing_file_is_refused_before_a_byte_of_it_is_sent() {
    let (server, export) = with_a_run().await;
    server.get(&export).await.expect(StatusCode::OK);
    let path = blob_path(&server);
    let whole = std::fs::read(&path).unwrap();
    for at in [0, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
        let answer = server.get(&export).await;
        let answer = answer.expect(StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.problem().code, ProblemCode::Damaged);
    }
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let answer = server.get(&export).await;
    let answer = answer.expect(StatusCode::INTERNAL_SERVER_ERROR);
    assert!(answer.problem().detail.contains("damaged"));
    std::fs::remove_file(&path).unwrap();
    let answer = server.get(&export).await;
    let answer = answer.expect(StatusCode::INTERNAL_SERVER_ERROR);
    assert!(answer.problem().detail.contains("missing"));
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_get_json_and_never_the_page() {
    let server = Server::start().await;
    for (path, status) in [
        ("/healthz", StatusCode::OK),
        ("/readyz", StatusCode::OK),
        ("/api/metrics", StatusCode::NOT_FOUND),
    ] {
        let answer = server.get(path).await.expect(status);
        let kind = answer.headers[header::CONTENT_TYPE].to_str().unwrap();
        assert!(kind.contains("json"), "{path}: {kind}");
    }
    let ready: serde_json::Value = server.get("/readyz").await.read();
    assert_eq!(ready["writes"], "accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_link_stays_expired_when_the_clock_is_set_back() {
    let (server, export) = with_a_run().await;
    let run = export.split('/').nth(3).unwrap();
    let link = format!(
        r#"{{"kind":"capability","target":{{"kind":"run","run":"{run}"}},"query":"v=1",
            "redaction":"none","note":"","created_by":"","expires_in_s":3600}}"#
    );
    let made = server.json(Method::POST, "/api/shares", &link).await;
    let made: api::shares::CreatedShare = made.expect(StatusCode::CREATED).read();
    let token = made.url.rsplit('/').next().unwrap().to_owned();
    let open = format!(r#"{{"token":"{token}"}}"#);
    let opened = server.json(Method::POST, "/api/shares/open", &open).await;
    opened.expect(StatusCode::OK);
    // As if two more hours had passed on this server before the clock was set back.
    let later = server.app.store.latest_ms() + 2 * 3600 * 1000;
    let saw = server.app.store.write(move |writer| writer.saw_time(later));
    saw.await.unwrap();
    let again = crate::store::Store::open(&server.data().join("tidemark.db")).unwrap();
    assert!(again.latest_ms() >= later);
    let now = again.latest_ms();
    let share = again
        .read_now(|reader| reader.share(&made.share.id, now))
        .unwrap()
        .share;
    assert_eq!(share.state, api::shares::ShareState::Expired);
}
