//! Folders and archives on the page: the snapshots of all ranks become one job.

use crate::explore::choose_file;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tests::{Browser, TestServer, Theme, Viewport};

const OPEN: &str = "return [...document.querySelectorAll('.tray-item a')].length === 1;";
const FAILED: &str = "return !!document.querySelector('.tray-problem');";

/// The folder `steps` below a new one. In its folder `out` are two real ranks, and beside that what
/// else such a folder holds.
fn ranks() -> TempDir {
    let folder = TempDir::with_prefix("tidemark-folders-").expect("a temporary folder");
    let steps = folder.path().join("steps");
    let fixtures = tests::workspace_root().join("tests/fixtures");
    for rank in [0, 1] {
        let of_rank = steps.join(format!("out/rank{rank}"));
        fs::create_dir_all(&of_rank).expect("a folder");
        let fixture = fixtures.join(format!("ddp_rank{rank}.pickle.zst"));
        fs::copy(fixture, of_rank.join("memory.pickle.zst")).expect("a copy");
    }
    fs::write(steps.join(".hidden_rank3.pickle"), "x").expect("a file");
    fs::write(steps.join("log.txt"), "epoch 1").expect("a file");
    folder
}

/// Packs the folder `steps` with a tool that people use, and returns the archive.
fn packed(folder: &Path, kind: &str) -> PathBuf {
    let script = "import shutil, sys; folder, kind = sys.argv[1:]; \
                  print(shutil.make_archive(folder + '/steps', kind, folder, 'steps'))";
    let folder = folder.to_str().expect("a path in UTF-8");
    let python = Command::new("python3")
        .args(["-c", script, folder, kind])
        .output();
    let output = python.expect("python3 runs");
    assert!(output.status.success(), "{output:?}");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}

/// The jobs of a server: name and ranks of each.
async fn jobs(browser: &Browser) -> Value {
    let script = "return (async () => (await (await fetch('/api/jobs')).json())
        .map(job => [job.name, job.n_ranks]))();";
    browser.eval(script).await
}

#[tokio::test]
async fn an_archive_is_one_job() {
    let folder = ranks();
    for kind in ["tar", "gztar", "zip"] {
        let archive = packed(folder.path(), kind);
        let server = TestServer::start();
        let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
        browser.goto(&server.url("/")).await;
        choose_file(&browser, &archive).await;
        browser.wait_until("the job", OPEN).await;
        assert_eq!(jobs(&browser).await, json!([["out", 2]]), "{kind}");
        let tray = browser.text(".tray").await;
        assert!(tray.contains("2 of 2 ranks are there"), "{kind}: {tray}");
        if kind == "zip" {
            browser.screenshot("archive-of-ranks").await;
        }
        assert_eq!(browser.complaints().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn what_is_wrong_with_an_archive_is_said_in_the_tray() {
    let folder = ranks();
    let whole = fs::read(packed(folder.path(), "tar")).expect("an archive");
    let cut = folder.path().join("cut.tar");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("a file");
    // No browser of today unpacks zstd.
    let zstd = folder.path().join("steps.tar.zst");
    fs::write(&zstd, zstd::encode_all(&whole[..], 1).expect("it fits")).expect("a file");
    let zip = fs::read(packed(folder.path(), "zip")).expect("an archive");
    let half = folder.path().join("half.zip");
    fs::write(&half, &zip[..zip.len() / 2]).expect("a file");
    // A model is a zip, too: the server says so, as it does for one that is sent by hand.
    fs::create_dir_all(folder.path().join("steps/model")).expect("a folder");
    fs::write(folder.path().join("steps/model/data.pkl"), "x").expect("a file");
    let model = packed(folder.path(), "zip");

    let server = TestServer::start();
    let browser = Browser::open(Viewport::Phone, Theme::Dark).await;
    for (file, expected) in [
        (
            cut,
            "The tar archive ends in the middle of the file at byte",
        ),
        (half, "The zip archive is cut or damaged near byte"),
        (zstd, "tidemark push FILE"),
        (model, "torch.save"),
    ] {
        browser.goto(&server.url("/")).await;
        choose_file(&browser, &file).await;
        browser.wait_until("the reason", FAILED).await;
        let tray = browser.text(".tray").await;
        assert!(tray.contains(expected), "{}: {tray}", file.display());
    }
    assert_eq!(jobs(&browser).await, json!([]));
}

/// The browser is told that the mouse drops the folder: that is as near to a hand as a test gets.
#[tokio::test]
async fn a_dropped_folder_is_one_job() {
    let folder = ranks();
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    browser
        .wait_until(
            "the page",
            "return !!document.querySelector('input[type=file]');",
        )
        .await;
    let steps = folder.path().join("steps");
    for kind in ["dragEnter", "dragOver", "drop"] {
        let params = json!({
            "type": kind, "x": 700, "y": 400,
            "data": { "items": [], "files": [steps], "dragOperationsMask": 1 },
        });
        browser.cdp("Input.dispatchDragEvent", params).await;
    }
    browser.wait_until("the job", OPEN).await;
    assert_eq!(jobs(&browser).await, json!([["out", 2]]));
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
