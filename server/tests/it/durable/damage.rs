//! A server either refuses a damaged database with an explanation, or answers correctly. It never
//! deletes anything.

use crate::durable::rig::{
    Answer, Chance, SNAPSHOTS, Server, blobs_in, copy_all, database, files_in, text, tidemark,
    wait_until,
};
use rusqlite::Connection;
use std::path::Path;

/// Bytes of a page of the database.
const PAGE: usize = 4096;

/// Makes a data folder with runs and stops its server. Returns the answers to all questions.
fn a_data_folder(data: &Path) -> Vec<(String, Answer)> {
    let server = Server::start(data);
    let runs: Vec<String> = (0..SNAPSHOTS.len())
        .map(|n| server.upload(&format!("{n}.pickle"), SNAPSHOTS[n]))
        .collect();
    let answers = ask(&server, &runs);
    server.stop();
    // Drawing a picture at the last moment may have left a log. The test damages the database, not
    // the log.
    let folded = database(data).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    folded.unwrap();
    for part in ["-wal", "-shm"] {
        let rest = data.join(format!("tidemark.db{part}"));
        assert!(
            !rest.exists() || rest.metadata().unwrap().len() == 0,
            "{part}"
        );
    }
    answers
}

/// The questions of a visitor: the list, the runs, their first pictures, and one picture that must
/// be drawn.
fn questions(runs: &[String]) -> Vec<String> {
    let mut asked = vec!["/api/runs".to_owned(), "/api/shares".to_owned()];
    for run in runs {
        asked.push(format!("/api/runs/{run}"));
        for what in ["series/0/0", "mountain/stack/1/1", "marks", "leaks"] {
            asked.push(format!("/api/runs/{run}/devices/0/{what}"));
        }
    }
    asked
}

fn ask(server: &Server, runs: &[String]) -> Vec<(String, Answer)> {
    let asked = questions(runs).into_iter();
    asked
        .map(|path| (path.clone(), server.get(&path)))
        .collect()
}

/// Overwrites some bytes at a random place.
fn damage(file: &Path, chance: &mut Chance) -> String {
    let mut bytes = std::fs::read(file).unwrap();
    let length = 1 + chance.below(64) as usize;
    let n = bytes.len() - length;
    let mut below = |end: usize| chance.below(end as u64) as usize;
    let at = match below(3) {
        // The first pages hold the schema and the root pages of the small tables.
        0 => below(n.min(40 * PAGE)),
        // The head of a page says what the page holds, or which page comes next.
        1 => below(n / PAGE) * PAGE,
        _ => below(n),
    };
    for byte in &mut bytes[at..at + length] {
        *byte = chance.below(256) as u8;
    }
    std::fs::write(file, bytes).unwrap();
    format!("{length} bytes at {at}")
}

#[test]
fn a_damaged_database_is_explained_or_serves_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let before = a_data_folder(&whole);
    let rounds = std::env::var("FAULT_ROUNDS").map_or(12, |rounds| rounds.parse().unwrap());
    let mut chance = Chance(0x7469_6465_6d61_726b);
    let (mut refused, mut served) = (0, 0);
    for round in 0..rounds {
        let data = folder.path().join(format!("{round}"));
        copy_all(&whole, &data);
        let what = damage(&data.join("tidemark.db"), &mut chance);
        match Server::with(&data, &[]) {
            Err(log) => {
                refused += 1;
                assert!(log.contains("tidemark.db"), "{what}: {log}");
                let advised = ["doctor", "newer Tidemark", "another program"];
                assert!(
                    advised.iter().any(|advice| log.contains(advice)),
                    "{what}: {log}"
                );
            }
            Ok(server) => {
                served += 1;
                for (path, expected) in &before {
                    let answer = server.get(path);
                    let same = answer.status == expected.status && answer.body == expected.body;
                    let explained = answer.status == 503;
                    assert!(same || explained, "{what}: {path}: {answer:?}");
                }
            }
        }
        assert_eq!(
            blobs_in(&data.join("blobs")).len(),
            SNAPSHOTS.len(),
            "{what}"
        );
        std::fs::remove_dir_all(&data).unwrap();
    }
    println!("{refused} refused with an explanation, {served} served");
    assert!(refused > 0 && served > 0);
}

#[test]
fn a_database_that_is_rubbish_is_rebuilt_from_the_blobs_with_one_command() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let kept = server.upload("0.pickle", SNAPSHOTS[0]);
    let hidden = server.upload("1.pickle", SNAPSHOTS[1]);
    let rename = br#"{"name":"a name that a person gave"}"#;
    server
        .send("PATCH", &format!("/api/runs/{kept}"), Some(rename))
        .expect(200);
    let labels = br#"{"labels":{"branch":"main"}}"#;
    server
        .send("PATCH", &format!("/api/runs/{kept}/labels"), Some(labels))
        .expect(200);
    let (secret, share) = server.share(&kept);
    let (open, _) = server.share(&kept);
    server
        .send("DELETE", &format!("/api/shares/{share}"), None)
        .expect(200);
    server
        .send("DELETE", &format!("/api/runs/{hidden}"), None)
        .expect(200);
    server.stop();
    let database = data.join("tidemark.db");
    // The last pages hold columns and pictures, so names can still be read. The pages before them
    // hold the schema of the newest tables; without the schema nothing can be read.
    let mut bytes = std::fs::read(&database).unwrap();
    let most = bytes.len() * 9 / 10;
    bytes[most..].fill(0x5a);
    std::fs::write(&database, bytes).unwrap();

    let log = Server::with(&data, &[]).map(drop).unwrap_err();
    assert!(
        log.contains("--rebuild") && log.contains("is damaged"),
        "{log}"
    );
    let place = data.to_str().unwrap();
    let seen = tidemark(&["doctor", "--data", place]);
    assert_eq!(seen.status.code(), Some(1), "{}", text(&seen));
    let rebuilt = tidemark(&["doctor", "--data", place, "--rebuild"]);
    assert!(rebuilt.status.success(), "{}", text(&rebuilt));
    let aside = |path: &std::path::PathBuf| path.to_string_lossy().contains("tidemark.db.damaged-");
    assert!(files_in(&data).iter().any(aside));

    let server = Server::start(&data);
    let runs = server.get("/api/runs").json();
    assert_eq!(
        runs.as_array().unwrap_or_else(|| panic!("{runs}")).len(),
        1,
        "what was deleted stays deleted: {runs}"
    );
    assert_eq!(runs[0]["name"], "a name that a person gave");
    assert_eq!(runs[0]["labels"]["branch"], "main");
    assert_eq!(server.open_share(&open).status, 200);
    let revoked = server.open_share(&secret).status;
    assert!(revoked == 410 || revoked == 404, "{revoked}");
    server.stop();
    // The database is intact again, so there is nothing to rebuild.
    assert!(
        !tidemark(&["doctor", "--data", place, "--rebuild"])
            .status
            .success()
    );
    assert!(tidemark(&["doctor", "--data", place]).status.success());
}

/// Makes a data folder with so many runs and with people, and stops its server.
fn fill(data: &Path, runs: usize, people: &[(&str, &str)]) {
    let server = Server::start(data);
    for (n, snapshot) in SNAPSHOTS[..runs].iter().enumerate() {
        server.upload(&format!("{n}.pickle"), snapshot);
    }
    server.stop();
    for (name, role) in people {
        let place = data.to_str().unwrap();
        let added = ["people", "add", name, "--role", role, "--data", place];
        assert!(tidemark(&added).status.success());
    }
}

#[test]
fn a_rebuilt_database_still_asks_everybody_to_sign_in() {
    let check = |damaged_bytes: usize, names: &str| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fill(&data, 1, &[("ada", "admin")]);
        let place = data.to_str().unwrap();
        let database = data.join("tidemark.db");
        let mut bytes = std::fs::read(&database).unwrap();
        // The first page, which identifies the file as a database, is not damaged.
        let from = bytes.len().saturating_sub(damaged_bytes).max(4096);
        bytes[from..].fill(0x5a);
        std::fs::write(&database, bytes).unwrap();
        let rebuilt = tidemark(&["doctor", "--data", place, "--rebuild"]);
        assert!(rebuilt.status.success(), "{}", text(&rebuilt));
        let list = tidemark(&["people", "list", "--data", place]);
        assert!(text(&list).contains(names), "{}", text(&list));
        let server = Server::start(&data);
        assert_eq!(server.get("/api/runs").status, 401);
        server.stop();
    };
    check(3 * 4096, "ada");
    check(usize::MAX, "admin");
}

#[test]
fn people_stay_who_they_are_for_a_provider_and_the_unreadable_take_their_tokens_along() {
    let check = |damage: &str, names: &str, known: u32, tokens: u32| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fill(&data, 2, &[("ada", "admin")]);
        let place = data.to_str().unwrap();
        let database = data.join("tidemark.db");
        let script = format!(
            "INSERT INTO identities SELECT 'https://login.example', 'u1', id, 1 FROM people;
             PRAGMA foreign_keys = OFF;
             UPDATE runs SET uploaded_by = 'ada' WHERE name = '1.pickle';
             UPDATE runs SET id = 'nobody writes this' WHERE name = '0.pickle'; {damage}"
        );
        let connection = Connection::open(&database).unwrap();
        connection.execute_batch(&script).unwrap();
        drop(connection);
        let rebuilt = tidemark(&["doctor", "--data", place, "--rebuild"]);
        assert!(rebuilt.status.success(), "{}", text(&rebuilt));
        let list = tidemark(&["people", "list", "--data", place]);
        assert!(text(&list).contains(names), "{}", text(&list));
        let connection = Connection::open(&database).unwrap();
        let count = |table: &str| -> u32 {
            let sql = format!("SELECT count(*) FROM {table} JOIN people ON people.id = person");
            connection.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(
            (count("identities"), count("tokens")),
            (known, tokens),
            "{damage}"
        );
        // Who uploaded a run is a name of its own: it stays when the person is lost.
        let sql = "SELECT count(*) FROM runs WHERE uploaded_by = 'ada' AND name = '1.pickle'";
        let sent: u32 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(sent, 1, "{damage}");
    };
    check("", "ada", 1, 1);
    check(
        "UPDATE people SET role = 'nobody writes this';",
        "admin",
        0,
        0,
    );
}

/// All rows of a question.
fn rows<T>(
    database: &Connection,
    sql: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], read).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn who_may_enter_a_project_is_kept_and_the_unreadable_lets_nobody_in() {
    let check = |damage: &str, projects: &[(&str, Option<&str>)], members: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fill(&data, 1, &[("ada", "admin"), ("bo", "reader")]);
        let place = data.to_str().unwrap();
        let database = data.join("tidemark.db");
        let script = format!(
            "INSERT INTO projects VALUES ('speech', 1, NULL, 'reader', 1000, NULL);
             INSERT INTO projects VALUES ('vision', 1, NULL, NULL, NULL, '{{\"newest\":3}}');
             INSERT INTO project_members SELECT 'vision', id, 'member' FROM people;
             PRAGMA foreign_keys = OFF;
             UPDATE runs SET id = 'nobody writes this'; {damage}"
        );
        let connection = Connection::open(&database).unwrap();
        connection.execute_batch(&script).unwrap();
        drop(connection);
        let rebuilt = tidemark(&["doctor", "--data", place, "--rebuild"]);
        assert!(rebuilt.status.success(), "{}", text(&rebuilt));

        let connection = Connection::open(&database).unwrap();
        let sql = "SELECT name, everybody FROM projects ORDER BY name";
        let kept: Vec<(String, Option<String>)> =
            rows(&connection, sql, |row| Ok((row.get(0)?, row.get(1)?)));
        let kept: Vec<(&str, Option<&str>)> = kept
            .iter()
            .map(|(name, everybody)| (name.as_str(), everybody.as_deref()))
            .collect();
        assert_eq!(kept, projects, "{damage}");
        let sql = "SELECT people.name FROM project_members JOIN people ON people.id = person \
                   WHERE project = 'vision' AND project_members.role = 'member' \
                   ORDER BY people.name";
        let entered: Vec<String> = rows(&connection, sql, |row| row.get(0));
        assert_eq!(entered, members, "{damage}");
    };
    let both = [("speech", Some("reader")), ("vision", None)];
    check("", &both, &["ada", "bo"]);
    // Those of a person, of a role and of a project that cannot be read.
    check(
        "UPDATE project_members SET person = 'per_nobody'
         WHERE person = (SELECT id FROM people WHERE name = 'bo');",
        &both,
        &["ada"],
    );
    check(
        "UPDATE project_members SET role = 'nobody writes this';",
        &both,
        &[],
    );
    check(
        "UPDATE projects SET keep = 'nobody writes this' WHERE name = 'vision';",
        &[],
        &[],
    );
}

#[test]
fn a_database_that_is_damaged_while_it_is_used_takes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let before = a_data_folder(data);
    let server = Server::start(data);
    let database = data.join("tidemark.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let n = bytes.len();
    bytes[4096..n].fill(0xff);
    std::fs::write(&database, bytes).unwrap();
    wait_until("it is noticed", || {
        let answers = before.iter().map(|(path, _)| server.get(path).status);
        answers.filter(|&status| status == 503).count() > 0
    });
    let refused = server.put("3.pickle", SNAPSHOTS[0]).expect(503);
    assert_eq!(refused.json()["code"], "unavailable");
    server.get("/readyz").expect(503);
    server.get("/healthz").expect(200);
    assert!(server.log().contains("doctor"), "{}", server.log());
}

#[test]
fn what_a_start_has_no_time_to_read_is_read_beside_the_first_requests() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data);
    for n in 0..101 {
        let file = format!(
            r#"{{"segments": [], "device_traces": [[{{"action": "alloc", "addr": 1024,
                "size": 512, "stream": 0, "frames": []}}]], "n": {n}}}"#
        );
        server.upload(&format!("{n}.json"), file.as_bytes());
    }
    server.stop();
    let database = Connection::open(data.join("tidemark.db")).unwrap();
    let script = "PRAGMA foreign_keys = OFF;
                  UPDATE runs SET id = 'nobody writes this' WHERE name = '0.json';";
    database.execute_batch(script).unwrap();
    drop(database);

    let server = Server::start(data);
    wait_until("it is noticed", || server.get("/readyz").status == 503);
    server.put("new.json", SNAPSHOTS[0]).expect(503);
    server.get("/api/runs?limit=50").expect(200);
    assert!(server.log().contains("doctor"), "{}", server.log());
}
