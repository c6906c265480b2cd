//! Measures what viewers notice while the server is busy, and how much memory it uses: `./bench
//! load`.
//!
//! Fifty viewers look at a large snapshot, in four phases. First they are alone; then others upload
//! 100 MB again and again; then benches run as well; then all is quiet. The program prints the
//! times of tiles, the errors and the server's resident memory. Nothing is asserted, because a busy
//! machine must not fail a build.
//!
//! The snapshot is `../shared/big/big.pickle.zst` if that exists, else a file named on the command
//! line. `LOAD_SECONDS` is the length of each phase; its default is 30.

mod client;
mod snapshot;
mod viewers;

use client::Connection;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tests::process::{self, Memory};
use tests::{TestServer, shared_dir};
use viewers::{Picture, Times};

/// People who look at the same time.
const VIEWERS: usize = 50;

/// Clients that upload at the same time, each one file after the other.
const SENDERS: usize = 2;

/// How often the server's memory is read.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Configurations of the bench rows that run in the phases with benches.
const ROWS: [&str; 4] = [
    "vl-qwen3.5-9b",
    "text-qwen3.5-9b",
    "moe-gemma4-26b",
    "te-fused-attention-fp8",
];

/// What happens on the server besides the viewers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Beside {
    Nothing,
    Uploads,
    UploadsAndBenches,
}

fn main() -> ExitCode {
    let Some(big) = big_snapshot() else {
        eprintln!("usage: ./bench load SNAPSHOT (there is no ../shared/big/big.pickle.zst)");
        return ExitCode::from(2);
    };
    let server = TestServer::start();
    let page = server.push(&big);
    let run = page.rsplit('/').next().expect("a run").to_owned();
    let picture = Picture::of(&server.url(""), &run);
    println!(
        "{VIEWERS} viewers of {} events, {} cores",
        picture.events(),
        cores()
    );
    println!("| beside them | tiles | errors | p50 | p99 | longest | memory, most | at the end |");
    println!("|---|---|---|---|---|---|---|---|");
    for (beside, name) in [
        (Beside::Nothing, "nothing"),
        (Beside::Uploads, "uploads of 100 MB again and again"),
        (Beside::UploadsAndBenches, "and benches"),
    ] {
        let (times, most, sent) = phase(&server, &picture, beside);
        let memory = process::memory(server.pid(), Memory::Now);
        println!(
            "| {name} | {} | {} | {:.0} ms | {:.0} ms | {:.0} ms | {} MiB | {} MiB |",
            times.count(),
            times.errors,
            times.at(0.5),
            times.at(0.99),
            times.at(1.0),
            most >> 20,
            memory >> 20
        );
        if beside > Beside::Nothing {
            eprintln!("{sent} uploads became runs meanwhile");
        }
    }
    let quiet = Instant::now();
    while quiet.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_secs(10));
        let (after, memory) = (
            quiet.elapsed().as_secs(),
            process::memory(server.pid(), Memory::Now) >> 20,
        );
        println!("quiet for {after} s: {memory} MiB resident");
    }
    ExitCode::SUCCESS
}

/// Runs one phase. Returns the viewers' times, the most memory, and the number of uploads that
/// became runs.
fn phase(server: &TestServer, picture: &Picture, beside: Beside) -> (Times, u64, u64) {
    let over = AtomicBool::new(false);
    let (most, sent) = (AtomicU64::new(0), AtomicU64::new(0));
    let url = server.url("");
    let times = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                most.fetch_max(
                    process::memory(server.pid(), Memory::Now),
                    Ordering::Relaxed,
                );
                thread::sleep(LOOK_EVERY);
            }
        });
        if beside >= Beside::Uploads {
            for sender in 0..SENDERS {
                let (url, over, sent) = (&url, &over, &sent);
                scope.spawn(move || upload(url, sender as u64, over, sent));
            }
        }
        if beside == Beside::UploadsAndBenches {
            scope.spawn(|| run_benches(&url, &over));
        }
        let viewers: Vec<_> = (0..VIEWERS)
            .map(|viewer| scope.spawn(move || viewers::look(picture, viewer as u64, seconds())))
            .collect();
        let mut times = Times::default();
        for viewer in viewers {
            times.add(viewer.join().expect("a viewer looks to the end"));
        }
        over.store(true, Ordering::Relaxed);
        times
    });
    (times, most.into_inner(), sent.into_inner())
}

/// Uploads one file of 100 MB after the other, each with different contents.
fn upload(url: &str, sender: u64, over: &AtomicBool, sent: &AtomicU64) {
    let began = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut seed = began.map_or(0, |time| time.as_nanos() as u64) + sender;
    while !over.load(Ordering::Relaxed) {
        seed += SENDERS as u64;
        let file = snapshot::of_100_mb(seed);
        let mut connection = Connection::to(url);
        match connection.send("PUT", "/api/upload/load.pickle", &file) {
            Ok(answer) if answer.status == 201 => drop(sent.fetch_add(1, Ordering::Relaxed)),
            Ok(answer) => {
                eprintln!("an upload ended with {}: {}", answer.status, answer.text());
                thread::sleep(Duration::from_secs(1));
            }
            Err(error) => eprintln!("an upload broke off: {error}"),
        }
    }
}

/// Keeps the queue of benches full.
fn run_benches(url: &str, over: &AtomicBool) {
    let rows = ROWS.map(|config| serde_json::json!({ "config": config, "patches": [] }));
    let body = serde_json::json!({ "rows": rows, "device": "sim" }).to_string();
    while !over.load(Ordering::Relaxed) {
        let mut connection = Connection::to(url);
        // The error says that the queue is full, which is what we want.
        if let Err(error) = connection.send("POST", "/api/bench", body.as_bytes()) {
            eprintln!("a bench was not taken: {error}");
        }
        thread::sleep(Duration::from_secs(2));
    }
}

fn big_snapshot() -> Option<PathBuf> {
    let named = std::env::args_os().nth(1).map(PathBuf::from);
    named.or_else(|| Some(shared_dir()?.join("big/big.pickle.zst")))
}

fn seconds() -> Duration {
    let told = std::env::var("LOAD_SECONDS").ok();
    Duration::from_secs(told.and_then(|text| text.parse().ok()).unwrap_or(30))
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
