//! `kill -9` at random moments, again and again. Afterwards everything that was acknowledged must
//! be there.
//!
//! A few rounds by default; `./check faults` sets `FAULT_ROUNDS` to hundreds.

use crate::durable::rig::{
    Chance, Server, blobs_in, copy_all, count, database, files_in, fresh, new_share, wait_until,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// What the server has acknowledged.
#[derive(Default)]
struct Acknowledged {
    /// Runs, and the last name that each was given.
    runs: BTreeMap<String, String>,
    /// Names that were sent but not acknowledged: the run may have the old name or the new one.
    unsure: BTreeMap<String, Vec<String>>,
    /// Secrets of links, with the links' ids.
    links: BTreeMap<String, String>,
    revoked: BTreeSet<String>,
    revoking: BTreeSet<String>,
    benches: BTreeSet<String>,
}

/// Clients that change things at the same time.
const CLIENTS: u64 = 3;

/// Whether a client may rename a run. If two clients renamed the same run at once, the final name
/// would be unknown.
fn may_rename(client: u64, run: &str) -> bool {
    run.bytes().map(u64::from).sum::<u64>() % CLIENTS == client
}

/// One change by a client; `None` if the server died meanwhile.
fn change(
    server: &Server,
    (client, n): (u64, u64),
    told: &Mutex<Acknowledged>,
    chance: &mut Chance,
) -> Option<()> {
    let pick = |list: Vec<String>, chance: &mut Chance| {
        let at = chance.below(list.len().max(1) as u64) as usize;
        list.get(at).cloned()
    };
    let runs: Vec<String> = told.lock().unwrap().runs.keys().cloned().collect();
    match (chance.below(10), pick(runs, chance)) {
        (0..=2, _) | (_, None) => {
            let name = format!("{n}.pickle");
            let path = format!("/api/upload/{name}");
            let answer = server.try_send("PUT", &path, Some(&fresh(n)))?.expect(201);
            let run = answer.json()["run"]["id"].as_str().unwrap().to_owned();
            told.lock().unwrap().runs.insert(run, name);
        }
        (3..=5, Some(run)) if may_rename(client, &run) => {
            let name = format!("name {n}");
            let unsure = |told: &Mutex<Acknowledged>| {
                let mut told = told.lock().unwrap();
                told.unsure
                    .entry(run.clone())
                    .or_default()
                    .push(name.clone());
            };
            unsure(told);
            let body = format!(r#"{{"name":"{name}"}}"#);
            let path = format!("/api/runs/{run}");
            server
                .try_send("PATCH", &path, Some(body.as_bytes()))?
                .expect(200);
            let mut told = told.lock().unwrap();
            told.unsure.remove(&run);
            told.runs.insert(run, name);
        }
        (3..=7, Some(run)) => {
            let made = server.try_send("POST", "/api/shares", Some(new_share(&run).as_bytes()))?;
            let made = made.expect(201).json();
            let secret = made["url"]
                .as_str()
                .unwrap()
                .rsplit('/')
                .next()
                .unwrap()
                .to_owned();
            let id = made["share"]["id"].as_str().unwrap().to_owned();
            told.lock().unwrap().links.insert(secret, id);
        }
        (8, _) => {
            let links: Vec<String> = told.lock().unwrap().links.keys().cloned().collect();
            let secret = pick(links, chance)?;
            let id = told.lock().unwrap().links[&secret].clone();
            told.lock().unwrap().revoking.insert(secret.clone());
            let path = format!("/api/shares/{id}");
            server.try_send("DELETE", &path, None)?.expect(200);
            told.lock().unwrap().revoked.insert(secret);
        }
        _ => {
            let bench = br#"{"rows":[{"config":"dedupe-reuse","patches":[]}],"device":"sim",
                             "steps":3}"#;
            let started = server.try_send("POST", "/api/bench", Some(bench))?;
            let id = started.json()["id"].as_str().unwrap().to_owned();
            told.lock().unwrap().benches.insert(id);
        }
    }
    Some(())
}

/// Checks that everything that was acknowledged is there, and that nothing is only half there.
fn assert_kept(server: &Server, data: &Path, told: &mut Acknowledged) {
    let unfinished = "SELECT count(*) FROM uploads WHERE state IN ('announced', 'running')";
    wait_until("the rest is taken up again", || {
        count(data, unfinished) == 0
    });
    let listed = server.get("/api/runs").expect(200).json();
    let names: BTreeMap<&str, &str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["id"].as_str().unwrap(), run["name"].as_str().unwrap()))
        .collect();
    for (run, name) in &mut told.runs {
        let found = names
            .get(run.as_str())
            .unwrap_or_else(|| panic!("{run} is lost"));
        let unsure = told.unsure.remove(run).unwrap_or_default();
        let is_known = found == name || unsure.iter().any(|other| other == found);
        assert!(is_known, "{run} is called {found}, not {name}");
        *name = (*found).to_owned();
    }
    let links: Vec<String> = told.links.keys().cloned().collect();
    for secret in links {
        match server.open_share(&secret).status {
            200 => assert!(!told.revoked.contains(&secret), "a revoked link lives"),
            410 => {
                assert!(
                    told.revoking.contains(&secret),
                    "a link is revoked that nobody revoked"
                );
                told.revoked.insert(secret);
            }
            status => panic!("a link answers {status}"),
        }
    }
    for bench in &told.benches {
        server.get(&format!("/api/bench/{bench}")).expect(200);
    }
    let check = "PRAGMA integrity_check";
    let check: String = database(data)
        .query_row(check, [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    let orphans = "SELECT count(*) FROM runs WHERE trace NOT IN (SELECT trace FROM chunks)";
    assert_eq!(count(data, orphans), 0);
    let missing =
        count(data, "SELECT count(*) FROM blobs") - blobs_in(&data.join("blobs")).len() as i64;
    assert!(missing <= 0, "{missing} blobs are missing");
}

/// Rounds on one data folder. Every round checks all of its contents, so the folder must not grow
/// large.
const ROUNDS_EACH: u64 = 20;

#[test]
fn what_was_acknowledged_survives_kills_at_any_moment() {
    let rounds: u64 = std::env::var("FAULT_ROUNDS").map_or(5, |rounds| rounds.parse().unwrap());
    let mut chance = Chance(0x6b69_6c6c);
    for first in (0..rounds).step_by(ROUNDS_EACH as usize) {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        let mut told = Acknowledged::default();
        for round in first..rounds.min(first + ROUNDS_EACH) {
            told = one_round(data, round, told, &mut chance);
        }
        let server = Server::start(data);
        assert_kept(&server, data, &mut told);
        println!(
            "kills up to {}: {} runs, {} links ({} revoked), {} benches",
            rounds.min(first + ROUNDS_EACH),
            told.runs.len(),
            told.links.len(),
            told.revoked.len(),
            told.benches.len()
        );
    }
}

/// Starts a server, checks its contents, lets three clients change things, and kills it.
fn one_round(data: &Path, round: u64, mut told: Acknowledged, chance: &mut Chance) -> Acknowledged {
    // In every other round the server also compresses files again. Every fifth round begins with a
    // kill during a start.
    let level = ["0", "3"][round as usize % 2];
    if round % 5 == 4 {
        kill_a_start(data, chance);
    }
    let server = Server::with(data, &["--repack-level", level]);
    let server = server.unwrap_or_else(|log| panic!("round {round}: {log}"));
    assert_kept(&server, data, &mut told);
    let told = Mutex::new(told);
    let moment = Duration::from_millis(chance.below(700));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, told) = (&server, &told);
            let mut chance = Chance(1 + round * 31 + client);
            scope.spawn(move || {
                for turn in 0..200 {
                    let n = round * 1000 + client * 200 + turn;
                    if change(server, (client, n), told, &mut chance).is_none() {
                        return;
                    }
                }
            });
        }
        // The moment is random on purpose: any moment must be safe.
        std::thread::sleep(moment);
        let pid = server.child.id().to_string();
        let killed = std::process::Command::new("kill")
            .args(["-9", &pid])
            .status();
        assert!(killed.unwrap().success());
    });
    drop(server);
    told.into_inner().unwrap()
}

/// Kills a server during its start, while it clears up or takes up uploads again.
fn kill_a_start(data: &Path, chance: &mut Chance) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidemark"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(chance.below(120)));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Number of migrations up to the one that made links; a later migration changes links.
const OLD: usize = 8;

fn migrations() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let mut files = files_in(&folder);
    files.retain(|file| file.extension().is_some_and(|kind| kind == "sql"));
    files
}

/// Makes a database of an older version, with so many links that it takes a while to change them
/// all.
fn old_database(data: &Path, links: usize) {
    std::fs::create_dir_all(data).unwrap();
    let mut old = database(data);
    old.pragma_update(None, "journal_mode", "WAL").unwrap();
    for file in &migrations()[..OLD] {
        old.execute_batch(&std::fs::read_to_string(file).unwrap())
            .unwrap();
    }
    let filling = old.transaction().unwrap();
    for n in 0..links {
        let sql = "INSERT INTO shares (id, kind, token_hash, target, query, redaction, note, \
                   created_ms, created_by) VALUES (?1, 'capability', ?2, 'run', 'v=1', \
                   'redacted', 'a note', 0, '')";
        let (id, hash) = (format!("shr_{n}"), format!("{n:064x}"));
        filling.execute(sql, [&id, &hash]).unwrap();
        let sql = "INSERT INTO share_runs VALUES (?1, 0, 'run_0000000000000000')";
        filling.execute(sql, [&id]).unwrap();
    }
    filling.commit().unwrap();
    old.pragma_update(None, "user_version", OLD as i64).unwrap();
    old.pragma_update(None, "application_id", 0x5469_6465)
        .unwrap();
}

/// Kills a server shortly after it has begun to write.
fn kill_a_migration(data: &Path, chance: &mut Chance) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidemark"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let log = data.join("tidemark.db-wal");
    wait_until("it writes", || {
        log.metadata().is_ok_and(|log| log.len() > 0)
    });
    // The moment is random on purpose: any moment must be safe.
    std::thread::sleep(Duration::from_micros(chance.below(60_000)));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_migration_is_done_or_not_begun_whenever_it_is_killed() {
    const LINKS: usize = 20_000;
    let rounds = std::env::var("FAULT_ROUNDS").map_or(4, |rounds| rounds.parse().unwrap());
    let mut chance = Chance(0x6d69_6772);
    let (folder, latest) = (tempfile::tempdir().unwrap(), migrations().len() as i64);
    let old = folder.path().join("old");
    old_database(&old, LINKS);
    let (mut before, mut after) = (0, 0);
    for round in 0..rounds {
        let data = folder.path().join(format!("{round}"));
        copy_all(&old, &data);
        kill_a_migration(&data, &mut chance);
        match count(&data, "PRAGMA user_version") {
            version if version == OLD as i64 => before += 1,
            version if version == latest => after += 1,
            version => panic!("it is of version {version}"),
        }
        let server = Server::start(&data);
        assert_eq!(count(&data, "PRAGMA user_version"), latest);
        // Each link has its own key.
        let keys = "SELECT count(DISTINCT names_key) FROM shares";
        assert_eq!(count(&data, keys), LINKS as i64);
        server.get("/api/shares").expect(200);
        server.stop();
        std::fs::remove_dir_all(&data).unwrap();
    }
    println!("killed {before} times before the migrations were done, {after} times after");
}
