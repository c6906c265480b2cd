//! A file is never deleted just because the database does not know it.

use crate::durable::rig::{
    SNAPSHOTS, Server, blobs_in, copy_all, count, database, files_in, text, tidemark, wait_until,
};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn doctor(data: &Path, args: &[&str]) -> std::process::Output {
    let data = data.to_str().unwrap();
    tidemark(&[&["doctor", "--data", data], args].concat())
}

fn move_database_aside(data: &Path) {
    for part in ["", "-wal", "-shm"] {
        let from = data.join(format!("tidemark.db{part}"));
        if from.exists() {
            std::fs::rename(from, data.join(format!("aside.db{part}"))).unwrap();
        }
    }
}

#[test]
fn blobs_outlive_their_database_and_become_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data);
    for (n, file) in SNAPSHOTS.iter().enumerate() {
        server.upload(&format!("{n}.pickle"), file);
    }
    let runs = server.runs();
    server.kill();
    let blobs = blobs_in(&data.join("blobs"));
    assert_eq!(blobs.len(), 3);

    move_database_aside(&data);
    let server = Server::start(&data);
    assert_eq!(server.runs().len(), 0);
    wait_until("it says what it found", || server.log().contains("doctor"));
    // One run comes back because its file is uploaded again.
    server.upload("0.pickle", SNAPSHOTS[0]);
    server.stop();
    assert_eq!(blobs_in(&data.join("blobs")), blobs);

    let seen = text(&doctor(&data, &[]));
    let listed = blobs.iter().filter(|blob| {
        let hash = blob.file_name().unwrap().to_str().unwrap();
        seen.contains(hash)
    });
    assert_eq!(listed.count(), 2, "{seen}");
    let adopted = doctor(&data, &["--adopt"]);
    assert!(adopted.status.success(), "{}", text(&adopted));
    let server = Server::start(&data);
    assert_eq!(server.runs(), runs);
    assert_eq!(blobs_in(&data.join("blobs")), blobs);
    server.stop();
    let seen = doctor(&data, &["--json"]);
    let report: serde_json::Value = serde_json::from_slice(&seen.stdout).unwrap();
    assert_eq!(report["unused"].as_array().unwrap().len(), 0, "{report}");
    assert_eq!(report["checked"], 3);
}

#[test]
fn an_older_database_loses_nothing_of_what_came_later() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data);
    server.upload("0.pickle", SNAPSHOTS[0]);
    server.stop();
    let older = folder.path().join("older");
    copy_all(&data, &older);
    let server = Server::start(&data);
    server.upload("1.pickle", SNAPSHOTS[1]);
    server.stop();
    move_database_aside(&data);
    std::fs::copy(older.join("tidemark.db"), data.join("tidemark.db")).unwrap();
    let server = Server::start(&data);
    assert_eq!(server.runs().len(), 1);
    server.stop();
    assert_eq!(blobs_in(&data.join("blobs")).len(), 2);
}

#[test]
fn two_data_folders_never_share_blobs() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let blobs = place("blobs");
    let args = ["--blobs", blobs.to_str().unwrap()];
    let first = Server::with(&place("a"), &args).unwrap();
    first.upload("0.pickle", SNAPSHOTS[0]);
    let refused = Server::with(&place("b"), &args).map(drop).unwrap_err();
    assert!(refused.contains("in use"), "{refused}");
    first.stop();
    let refused = Server::with(&place("b"), &args).map(drop).unwrap_err();
    assert!(refused.contains("belong to the database"), "{refused}");
    assert_eq!(blobs_in(&blobs).len(), 1);
    let first = Server::with(&place("a"), &args).unwrap();
    assert_eq!(first.runs().len(), 1);
    first.stop();
    // A person may say that the files belong to this database.
    let adopted = doctor(&place("b"), &["--adopt", "--blobs", args[1]]);
    assert!(adopted.status.success(), "{}", text(&adopted));
    let second = Server::with(&place("b"), &args).unwrap();
    assert_eq!(second.runs().len(), 1);
}

#[test]
fn a_deleted_run_takes_its_blob_along_even_over_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data);
    let run = server.upload("0.pickle", SNAPSHOTS[0]);
    server.upload("1.pickle", SNAPSHOTS[1]);
    server
        .send("DELETE", &format!("/api/runs/{run}"), None)
        .expect(200);
    server.kill();
    // The state after the run was removed for good and the server died right after that decision.
    let script = "UPDATE runs SET deleted_ms = 1 WHERE deleted_ms IS NOT NULL;
                  INSERT INTO blob_removals SELECT blob, 9e12 FROM runs WHERE deleted_ms = 1;
                  DELETE FROM traces WHERE id IN (SELECT trace FROM runs WHERE 0);
                  PRAGMA foreign_keys = OFF;
                  UPDATE uploads SET blob = NULL;
                  DELETE FROM runs WHERE deleted_ms = 1;
                  DELETE FROM blobs WHERE hash IN (SELECT hash FROM blob_removals);";
    database(data).execute_batch(script).unwrap();
    let server = Server::start(data);
    assert_eq!(server.runs().len(), 1);
    assert_eq!(blobs_in(&data.join("blobs")).len(), 1);
    assert_eq!(count(data, "SELECT count(*) FROM blob_removals"), 0);
}

#[test]
fn an_upload_that_servers_die_over_is_given_up_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data);
    server.upload("0.pickle", SNAPSHOTS[0]);
    server.kill();
    // The state that a server leaves if it dies again and again while it reads the file.
    let leave = |attempts: u32| {
        let script = format!(
            "PRAGMA foreign_keys = ON;
             UPDATE uploads SET state = 'running', run = NULL, problem = NULL,
                 attempts = {attempts}, blob = (SELECT hash FROM blobs);
             DELETE FROM runs; DELETE FROM traces;"
        );
        database(data).execute_batch(&script).unwrap();
    };
    leave(2);
    let server = Server::start(data);
    wait_until("it is taken up once more", || server.runs().len() == 1);
    assert_eq!(count(data, "SELECT attempts FROM uploads"), 3);
    server.kill();
    leave(3);
    let server = Server::start(data);
    let failed = "SELECT count(*) FROM uploads WHERE state = 'failed' \
                  AND problem LIKE '%stopped 4 times%'";
    wait_until("it is given up", || count(data, failed) == 1);
    assert_eq!(server.runs().len(), 0);
    server.stop();
    assert_eq!(blobs_in(&data.join("blobs")).len(), 1);
    assert!(text(&doctor(data, &[])).contains("stopped 4 times"));
    assert!(doctor(data, &["--adopt"]).status.success());
    assert_eq!(Server::start(data).runs().len(), 1);
}

#[test]
fn one_bad_blob_keeps_no_other_from_being_packed_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data);
    for (n, file) in SNAPSHOTS.iter().enumerate() {
        // The server compresses these files, so that there is something to compress again.
        server.upload(&format!("{n}.pickle"), &zstd::decode_all(*file).unwrap());
    }
    server.stop();
    let hash = "SELECT hash FROM blobs ORDER BY created_ms LIMIT 1";
    let first: String = database(data)
        .query_row(hash, [], |row| row.get(0))
        .unwrap();
    let path = data.join("blobs").join(&first[..2]).join(&first);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&path, bytes).unwrap();
    let server = Server::with(data, &["--repack-level", "3"]).unwrap_or_else(|log| panic!("{log}"));
    let packed = "SELECT count(*) FROM blobs WHERE level = 3";
    wait_until("the others are packed again", || count(data, packed) == 2);
    wait_until("the bad one is told", || server.log().contains(&first));
    let told = server.log().matches(&first).count();
    assert_eq!(told, 1, "{}", server.log());
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn nobody_else_can_read_what_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let open_to_all = |data: &Path| {
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "umask 000; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_tidemark"),
        ]);
        shell.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--repack-level",
            "0",
            "--data",
        ]);
        shell.arg(data);
        Server::run(shell).unwrap_or_else(|log| panic!("{log}"))
    };
    let closed = |data: &Path| {
        assert_eq!(mode(data), 0o700);
        assert_eq!(mode(&data.join("blobs")), 0o700);
        for file in files_in(data) {
            assert_eq!(mode(&file) & 0o077, 0, "{}", file.display());
            assert_eq!(mode(file.parent().unwrap()), 0o700);
        }
    };
    let server = open_to_all(&data);
    server.upload("0.pickle", SNAPSHOTS[0]);
    let project = Some(br#"{"name":"vision"}"#.as_slice());
    server.send("POST", "/api/projects", project).expect(201);
    closed(&data);
    server.stop();
    // Another command writes to the folder, too.
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 000; exec \"$@\"", "sh"]);
    shell.arg(env!("CARGO_BIN_EXE_tidemark"));
    shell.args(["people", "add", "ada", "--role", "admin", "--data"]);
    assert!(shell.arg(&data).output().unwrap().status.success());
    assert!(data.join("has-people").exists() && data.join("projects/vision").is_dir());
    closed(&data);
    // The permissions that an older version gave to files.
    let chmod = Command::new("chmod")
        .args(["-R", "go+rX"])
        .arg(&data)
        .status();
    assert!(chmod.unwrap().success());
    let server = open_to_all(&data);
    closed(&data);
    wait_until("it says so", || {
        server.log().contains("could be read by other users")
    });
}
