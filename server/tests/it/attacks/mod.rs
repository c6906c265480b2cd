//! Attacks on the real binary: whatever is sent, the process stays within its memory budget and
//! goes on answering.
//!
//! Each file of `trace::testing::bombs` is sent plain and compressed, each time to a new server
//! with a small budget. The test reads the peak memory of that server from the system. If the
//! server accepts the file, the test asks it every question there is, and again after a restart.
//! The large sizes run with `./check attacks`.

mod victim;

use std::time::{Duration, Instant};
use trace::testing::bombs::{ALL, Bomb};
use victim::{Answer, Victim};

/// The budget of the servers.
const MEMORY_MIB: u64 = 256;

/// Memory that the process may use on top of the budget.
const BESIDE_MIB: u64 = 100;

/// The largest answer that is allowed.
const ANSWER: usize = 32 << 20;

/// How a file is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Zstd,
}

/// Sends a bomb to a server and checks what the server does.
fn attack(bomb: &Bomb, n: usize, form: Form, within: Duration) {
    let is_small = n == bomb.small && form == Form::Zstd;
    let (first, again) = match is_small {
        true if MADE_FOR_ALL.contains(&bomb.name) => (Questions::Quick, Questions::All),
        true => (Questions::Quick, Questions::Quick),
        false => (Questions::All, Questions::All),
    };
    let what = format!("{} × {n}, {form:?}", bomb.name);
    let file = match form {
        Form::Plain => bomb.file(n),
        Form::Zstd => packed(bomb, n),
    };
    let mut victim = Victim::start(MEMORY_MIB);
    let sent = Instant::now();
    let answer = victim.put("/api/upload/bomb.pickle", &file);
    let took = sent.elapsed();
    let status = answer.status;
    eprintln!(
        "{what}: {} bytes, {status} after {took:.1?}, {} MiB",
        file.len(),
        victim.high_water_mib()
    );
    assert!(took < within, "{what}: {status} after {took:?}");
    assert_ne!(status, 500, "{what}: {}", answer.text());
    assert!(answer.body.len() < ANSWER, "{what}");
    if status != 201 {
        // A refusal must say why in a sentence.
        let detail = answer.json()["detail"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(detail.len() > 30 && detail.len() < 1000, "{what}: {detail}");
    }
    look(&what, &victim, first);
    victim.restart();
    look(&what, &victim, again);
}

/// What is asked of a bomb that was stored.
#[derive(Clone, Copy, PartialEq)]
enum Questions {
    /// Those that take no time in a debug build.
    Quick,
    /// Exports, patterns and comparisons, too.
    All,
}

/// Small bombs that are made for exports, patterns and comparisons.
const MADE_FOR_ALL: [&str; 2] = ["names that stacks share", "streams that collide"];

/// Asks about every run, then checks the server's memory.
fn look(what: &str, victim: &Victim, questions: Questions) {
    let runs = ask(what, victim, "/api/runs");
    for run in runs.json().as_array().expect("a list of runs") {
        let id = run["id"].as_str().expect("a run has an id");
        let events = run["devices"][0]["events"].as_u64().unwrap_or(0);
        let device = run["devices"][0]["device"].as_u64().unwrap_or(0);
        ask(what, victim, &format!("/api/runs/{id}"));
        let device = format!("/api/runs/{id}/devices/{device}");
        for path in [
            "marks",
            "leaks",
            "memory-map",
            "room-over-time",
            "what-if?limit=1GiB",
            "allocations",
            "allocations?sort=largest",
            "blocks/0",
        ] {
            ask(what, victim, &format!("{device}/{path}"));
        }
        let (last, middle) = (events.saturating_sub(1), events / 2);
        ask(what, victim, &format!("{device}/events/{last}"));
        for by in [
            "stack", "module", "file", "function", "category", "stream", "pool", "site",
        ] {
            ask(what, victim, &format!("{device}/growth?by={by}"));
            ask(what, victim, &format!("{device}/alive?at={last}&by={by}"));
            ask(
                what,
                victim,
                &format!("{device}/changes?from={middle}&to={last}&by={by}"),
            );
        }
        for group in ["stack", "file", "stream", "pool", "none"] {
            ask(what, victim, &format!("{device}/mountain/{group}/8/0"));
        }
        ask(what, victim, &format!("/api/runs/{id}/card.svg"));
        if questions == Questions::Quick {
            continue;
        }
        // A file, not an answer: it may be long. Whoever reads only its beginning hangs up then.
        for format in ["parquet", "perfetto", "pickle"] {
            victim.begin_get(&format!("/api/runs/{id}/export?format={format}"), ANSWER);
        }
        try_rules(what, victim, id);
        compare(what, victim, id);
    }
    let memory = victim.high_water_mib();
    let most = MEMORY_MIB + BESIDE_MIB;
    assert!(memory <= most, "{what}: {memory} MiB, {most} are promised");
}

/// Patterns that are slow, against every name.
fn try_rules(what: &str, victim: &Victim, id: &str) {
    let rules: String = (0..12)
        .map(|at| format!("x{at} function=*{}b\\n", "a".repeat(240)))
        .collect();
    let body = format!(r#"{{"rules":"{rules}"}}"#);
    let answer = victim.post(&format!("/api/runs/{id}/categories"), &body);
    let status = answer.status;
    assert!(
        [200, 413, 503].contains(&status),
        "{what}: {status}: {}",
        answer.text()
    );
}

/// Against the run of another bomb, because two runs of the same file are one run.
fn compare(what: &str, victim: &Victim, id: &str) {
    let other = victim.post("/api/samples/leak_hook_cache", "");
    let other = other.json()["run"]["id"].as_str().map(str::to_owned);
    let other = other.expect("a sample has an id");
    if other != id {
        ask(what, victim, &format!("/api/compare?runs={other},{id}"));
        ask(what, victim, &format!("/api/compare?runs={id},{other}"));
    }
}

fn ask(what: &str, victim: &Victim, path: &str) -> Answer {
    let answer = victim.get(path);
    let status = answer.status;
    // 404 if the recording lacks what was asked for; 413 or 503 if the answer takes too much.
    let fine = [200, 400, 404, 413, 503].contains(&status);
    assert!(fine, "{what}: {path}: {status}: {}", answer.text());
    let length = answer.body.len();
    assert!(
        length < ANSWER,
        "{what}: {path}: an answer of {length} bytes"
    );
    answer
}

fn packed(bomb: &Bomb, n: usize) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("zstd");
    (bomb.write)(&mut encoder, n).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

/// Every fourth bomb from `first` on, so that four tests can run at the same time.
fn every_fourth(first: usize) {
    for bomb in ALL.iter().skip(first).step_by(4) {
        attack(bomb, bomb.small, Form::Zstd, Duration::from_secs(120));
    }
}

#[test]
fn small_bombs_first() {
    every_fourth(0);
}

#[test]
fn small_bombs_second() {
    every_fourth(1);
}

#[test]
fn small_bombs_third() {
    every_fourth(2);
}

#[test]
fn small_bombs_fourth() {
    every_fourth(3);
}

/// The bombs that `ATTACKS` names (`ATTACKS=steps,pools ./check attacks`), or all of them.
fn chosen() -> impl Iterator<Item = &'static Bomb> {
    let names = std::env::var("ATTACKS").unwrap_or_default();
    let is_chosen = move |name: &str| names.is_empty() || names.split(',').any(|n| n == name);
    ALL.iter().filter(move |bomb| is_chosen(bomb.name))
}

#[test]
#[ignore = "minutes: ./check attacks"]
fn large_bombs() {
    for bomb in chosen() {
        attack(bomb, bomb.large, Form::Zstd, Duration::from_secs(300));
    }
}

#[test]
#[ignore = "minutes: ./check attacks"]
fn plain_bombs() {
    for bomb in chosen() {
        // Enough repetitions to make some megabytes.
        attack(bomb, bomb.small, Form::Plain, Duration::from_secs(120));
    }
}

/// Half a gigabyte of zeros, compressed to a few kilobytes.
fn long_work() -> Vec<u8> {
    let bomb = ALL.iter().find(|bomb| bomb.name == "empty batches");
    let bomb = bomb.expect("it is listed");
    // Compressed enough to take seconds to read, but not so much that it is refused at once.
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("zstd");
    (bomb.write)(&mut encoder, 30_000_000).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

#[test]
fn an_upload_that_takes_long_ends_when_it_is_cancelled() {
    let victim = Victim::start(MEMORY_MIB);
    let announced = victim.post("/api/uploads", r#"{"name":"long.pickle"}"#);
    let id = announced.json()["upload"]
        .as_str()
        .expect("it has an id")
        .to_owned();
    let path = format!("/api/uploads/{id}");
    let sending = victim.begin_put(&path, &long_work());
    // The upload has begun once some of its bytes were received.
    let began = Instant::now();
    while victim.get(&path).json()["received"].as_u64().unwrap_or(0) == 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "it never begins");
    }
    let told = Instant::now();
    let cancelled = victim.delete(&path);
    let answer = victim.read_answer(sending);
    let took = told.elapsed();
    assert_eq!(cancelled.status, 204, "{}", cancelled.text());
    assert_eq!(answer.json()["code"], "cancelled", "{}", answer.text());
    assert!(took < Duration::from_millis(200), "{took:?}");
}

/// Cancelling also works in the long phases after the file was read: finding loops, judging,
/// drawing, writing rows.
#[test]
#[ignore = "minutes: ./check attacks"]
fn an_upload_ends_when_it_is_cancelled_whatever_is_done_with_it() {
    let victim = Victim::start(1024);
    for (name, n) in [
        ("a loop of many lines", 250_000),
        ("functions called once", 300_000),
        ("places within steps", 12_000),
        ("distinct events", 800_000),
    ] {
        let bomb = ALL.iter().find(|bomb| bomb.name == name);
        let file = packed(bomb.expect("it is listed"), n);
        for phase in ["replaying", "storing"] {
            let took = cancelled_while(&victim, &file, phase);
            let what = format!("{name}, {phase}: {took:?}");
            eprintln!("{what}");
            assert!(
                took.is_none_or(|took| took < Duration::from_millis(200)),
                "{what}"
            );
        }
    }
}

/// How long it takes to cancel an upload in one of its phases; `None` if the phase ended too soon.
fn cancelled_while(victim: &Victim, file: &[u8], phase: &str) -> Option<Duration> {
    let announced = victim.post("/api/uploads", r#"{"name":"long.pickle"}"#);
    let id = announced.json()["upload"].as_str()?.to_owned();
    let path = format!("/api/uploads/{id}");
    let sending = victim.begin_put(&path, file);
    let began = Instant::now();
    loop {
        let now = victim.get(&path).json();
        match now["phase"].as_str() {
            Some(now) if now == phase => break,
            Some(_) => {}
            None => return None,
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{phase}: {now}");
    }
    let told = Instant::now();
    let cancelled = victim.delete(&path);
    let answer = victim.read_answer(sending);
    let took = told.elapsed();
    // The upload became a run just before the cancel arrived.
    if answer.status == 201 {
        return None;
    }
    assert_eq!(cancelled.status, 204, "{}", cancelled.text());
    assert_eq!(answer.json()["code"], "cancelled", "{}", answer.text());
    Some(took)
}

/// A compression window of 128 MiB counts as memory, too.
#[test]
fn a_wide_window_is_counted() {
    let victim = Victim::start(64);
    let bomb = ALL.iter().find(|bomb| bomb.name == "distinct strings");
    let bomb = bomb.expect("it is listed");
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("zstd");
    encoder.window_log(27).expect("zstd knows it");
    (bomb.write)(&mut encoder, 3_000_000).expect("memory takes it");
    let answer = victim.put("/api/upload/wide.pickle", &encoder.finish().expect("zstd"));
    assert_eq!(answer.status, 413, "{}", answer.text());
    let memory = victim.high_water_mib();
    assert!(memory <= 64 + BESIDE_MIB, "{memory} MiB");
}

#[test]
fn an_upload_that_takes_long_ends_when_the_server_is_told_to_stop() {
    let mut victim = Victim::start(MEMORY_MIB);
    let _sending = victim.begin_put("/api/upload/long.pickle", &long_work());
    let told = Instant::now();
    victim.terminate();
    let took = told.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}
