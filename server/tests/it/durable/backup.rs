//! A backup made while the server runs is a complete store. A backup that is killed does no harm.

use crate::durable::rig::{
    Chance, SNAPSHOTS, Server, blobs_in, copy_all, database, files_in, fresh, text, tidemark,
    wait_until,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn backup(data: &Path, to: &Path, args: &[&str]) -> Output {
    let [data, to] = [data, to].map(|path| path.to_str().unwrap());
    tidemark(&[&["backup", to, "--data", data], args].concat())
}

fn restore(from: &Path, data: &Path, args: &[&str]) -> Output {
    let [data, from] = [data, from].map(|path| path.to_str().unwrap());
    tidemark(&[&["restore", from, "--data", data], args].concat())
}

fn passed(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(output));
    text(output)
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(output));
    text(output)
}

/// Asserts that nothing is wrong with a data folder and that no temporary file is left in it.
fn assert_clean(data: &Path) {
    let seen = tidemark(&["doctor", "--json", "--data", data.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_slice(&seen.stdout).unwrap();
    for what in ["damage", "bad_blobs", "unused"] {
        assert_eq!(report[what].as_array().unwrap().len(), 0, "{report}");
    }
    assert!(seen.status.success());
}

/// The only copy of the database in a backup.
fn copied_database(backup: &Path) -> PathBuf {
    let mut files = files_in(backup);
    files.retain(|path| path.extension().is_some_and(|end| end == "db"));
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

fn flip_the_middle(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn what_is_restored_answers_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let [data, kept, restored] = ["data", "backup", "restored"].map(|n| folder.path().join(n));
    let server = Server::start(&data);
    let runs: Vec<String> = (0..3)
        .map(|n| server.upload(&format!("{n}.pickle"), SNAPSHOTS[n]))
        .collect();
    let (secret, _) = server.share(&runs[1]);
    let deleted = format!("/api/runs/{}", runs[2]);
    server.send("DELETE", &deleted, None).expect(200);
    let said = passed(&backup(&data, &kept, &[]));
    assert!(said.contains("3 copied now"), "{said}");
    // The second time, only the database has to be copied.
    let said = passed(&backup(&data, &kept, &[]));
    assert!(said.contains("3, 0 copied now"), "{said}");
    let leaks = format!("/api/runs/{}/devices/0/leaks", runs[0]);
    let ask = |server: &Server| {
        ["/api/runs", leaks.as_str()].map(|path| server.get(path).expect(200).body)
    };
    let before = ask(&server);
    server.stop();

    passed(&restore(&kept, &restored, &[]));
    assert_clean(&restored);
    let server = Server::start(&restored);
    assert_eq!(ask(&server), before);
    server.open_share(&secret).expect(200);
    let undo = format!("/api/runs/{}/restore", runs[2]);
    server.send("POST", &undo, None).expect(200);
    assert_eq!(server.runs().len(), 3);
    server.upload("again.pickle", SNAPSHOTS[0]);
    // Existing files are not overwritten, whether a server runs on them or not.
    let said = refused(&restore(&kept, &restored, &[]));
    assert!(said.contains("overwrites nothing"), "{said}");
    server.stop();
    refused(&restore(&kept, &restored, &[]));
    assert_clean(&restored);
}

#[test]
fn backups_are_consistent_while_runs_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let [data, kept] = ["data", "backup"].map(|n| folder.path().join(n));
    let server = Server::with(&data, &["--repack-level", "3"]).unwrap();
    server.upload("kept.pickle", SNAPSHOTS[1]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                // A file that the server compresses, and compresses again when it is idle.
                let plain = zstd::decode_all(SNAPSHOTS[2]).unwrap();
                let run = server.upload("plain.pickle", &plain);
                server.upload("fresh.pickle", &fresh(n));
                let path = format!("/api/runs/{run}");
                server.send("DELETE", &path, None).expect(200);
                n += 1;
            }
        });
        for round in 0..4 {
            passed(&backup(&data, &kept, &[]));
            let restored = folder.path().join(format!("restored-{round}"));
            passed(&restore(&kept, &restored, &[]));
            assert_clean(&restored);
        }
        done.store(true, Ordering::Relaxed);
    });
    server.stop();
    passed(&backup(&data, &kept, &["--check"]));
    let restored = folder.path().join("restored");
    passed(&restore(&kept, &restored, &[]));
    assert_clean(&restored);
    let files = |data: &Path| blobs_in(&data.join("blobs")).len();
    assert_eq!(files(&restored), files(&data));
    // The next start removes the run, because its time to undo has passed. Then the next backup
    // drops the file, too.
    let purge = "UPDATE runs SET deleted_ms = 1 WHERE name = 'kept.pickle'";
    database(&data).execute_batch(purge).unwrap();
    let server = Server::start(&data);
    let known = files(&kept);
    wait_until("it is purged", || files(&data) < known);
    passed(&backup(&data, &kept, &[]));
    assert_eq!(files(&kept), files(&data));
    server.stop();
}

#[test]
fn a_killed_backup_leaves_the_one_before_and_is_begun_again() {
    let rounds = std::env::var("FAULT_ROUNDS").map_or(4, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let [data, kept] = ["data", "backup"].map(|n| folder.path().join(n));
    let server = Server::start(&data);
    server.upload("0.pickle", SNAPSHOTS[0]);
    let began = Instant::now();
    passed(&backup(&data, &kept, &[]));
    let whole = began.elapsed();
    let mut chance = Chance(41);
    for round in 0..rounds {
        server.upload("more.pickle", &fresh(round));
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidemark"))
            .arg("backup")
            .arg(&kept)
            .arg("--data")
            .arg(&data)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // The kill comes at any moment during the backup.
        let within = whole.as_micros() as u64;
        let end = Instant::now() + Duration::from_micros(chance.below(within));
        wait_until("the moment to kill it", || Instant::now() >= end);
        child.kill().unwrap();
        child.wait().unwrap();
        let restored = folder.path().join(format!("restored-{round}"));
        passed(&restore(&kept, &restored, &[]));
        assert_clean(&restored);
        std::fs::remove_dir_all(restored).unwrap();
    }
    passed(&backup(&data, &kept, &[]));
    copied_database(&kept);
    let restored = folder.path().join("restored");
    passed(&restore(&kept, &restored, &[]));
    assert_clean(&restored);
    assert_eq!(Server::start(&restored).runs(), server.runs());
    assert!(files_in(&kept.join("blobs/incoming")).is_empty());
}

#[test]
fn a_damaged_backup_says_which_file_and_the_rest_can_be_restored() {
    let folder = tempfile::tempdir().unwrap();
    let [data, kept] = ["data", "backup"].map(|n| folder.path().join(n));
    let server = Server::start(&data);
    for (n, file) in SNAPSHOTS.iter().enumerate() {
        server.upload(&format!("{n}.pickle"), file);
    }
    passed(&backup(&data, &kept, &[]));
    let blob = blobs_in(&kept.join("blobs")).remove(0);
    flip_the_middle(&blob);
    let restored = folder.path().join("restored");
    let said = refused(&restore(&kept, &restored, &[]));
    assert!(said.contains(blob.to_str().unwrap()), "{said}");
    assert!(!restored.exists(), "nothing was written");
    // The other runs are restored, and the missing file is named again.
    let said = refused(&restore(&kept, &restored, &["--skip-damaged"]));
    assert!(said.contains("2 stored files") && said.contains(blob.to_str().unwrap()));
    assert_eq!(Server::start(&restored).runs().len(), 3);
    // The original file still exists, so a checked backup repairs the copy.
    passed(&backup(&data, &kept, &["--check"]));
    let mended = folder.path().join("mended");
    passed(&restore(&kept, &mended, &[]));
    assert_clean(&mended);

    flip_the_middle(&copied_database(&kept));
    let place = folder.path().join("without a database");
    let said = refused(&restore(&kept, &place, &[]));
    assert!(said.contains("the database is damaged"), "{said}");
    refused(&restore(&kept, &place, &["--skip-damaged"]));
    let place_text = place.to_str().unwrap();
    passed(&tidemark(&["doctor", "--adopt", "--data", place_text]));
    assert_eq!(Server::start(&place).runs(), server.runs());
    std::fs::remove_file(kept.join("backup.json")).unwrap();
    // Nothing is damaged here: another folder was meant.
    let wrong = restore(&kept, &folder.path().join("none"), &[]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
    assert!(text(&wrong).contains("there is no backup in"));
}

#[test]
fn a_restore_that_was_killed_is_not_served_and_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let [data, kept, restored] = ["data", "backup", "restored"].map(|n| folder.path().join(n));
    let server = Server::start(&data);
    server.upload("0.pickle", SNAPSHOTS[0]);
    passed(&backup(&data, &kept, &[]));
    // The state that a process leaves if it dies after the first file.
    std::fs::create_dir_all(&restored).unwrap();
    std::fs::write(restored.join("restoring"), "").unwrap();
    copy_all(&kept.join("blobs"), &restored.join("blobs"));
    let said = Server::with(&restored, &[]).map(drop).unwrap_err();
    assert!(said.contains("`tidemark restore` again"), "{said}");
    passed(&restore(&kept, &restored, &[]));
    assert_clean(&restored);
    assert_eq!(Server::start(&restored).runs(), server.runs());
}

#[test]
fn files_that_are_kept_elsewhere_may_stay_there() {
    let folder = tempfile::tempdir().unwrap();
    let [data, kept, files] = ["data", "backup", "files"].map(|n| folder.path().join(n));
    let at = ["--blobs", files.to_str().unwrap()];
    let server = Server::with(&data, &at).unwrap();
    server.upload("0.pickle", SNAPSHOTS[0]);
    server.upload("1.pickle", SNAPSHOTS[1]);
    let args = [&at[..], &["--database-only"]].concat();
    passed(&backup(&data, &kept, &args));
    assert!(blobs_in(&kept).is_empty());
    server.stop();
    std::fs::remove_file(&blobs_in(&files)[0]).unwrap();
    let said = refused(&backup(&data, &kept, &args));
    assert!(said.contains("is missing"), "{said}");
    let restored = folder.path().join("restored");
    let said = refused(&restore(&kept, &restored, &at));
    let (place, lost) = (files.to_str().unwrap(), "is missing");
    assert!(said.contains(place) && said.contains(lost), "{said}");
    assert_eq!(Server::with(&restored, &at).unwrap().runs().len(), 2);
}
