//! Times that a person at the page waits for.

use crate::table::Table;
use api::ids::RunId;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::process::{self, Memory};
use tests::{Browser, TestServer, Theme, Viewport};

/// How often the page is opened again.
const AGAIN: usize = 15;

/// Uploads the file over loopback; returns the address of the run's page.
pub fn upload(server: &TestServer, big: &Path, read_seconds: f64, table: &mut Table) -> String {
    let started = Instant::now();
    let url = server.push(big);
    let seconds = started.elapsed().as_secs_f64();
    table.seconds(
        "upload → run ready",
        &format!("≤ read + 2 s = {:.1} s", read_seconds + 2.0),
        seconds,
    );
    table.bytes(
        "— server's peak memory",
        "≤ 700 MB",
        process::memory(server.pid(), Memory::Peak),
    );
    let arrived = folder(server.data());
    table.share("stored on arrival (blob and database)", "", arrived);
    url
}

/// Waits until the idle server has compressed the blob again, and measures what is stored then.
pub fn settle(server: &TestServer, table: &mut Table) {
    // Not the whole folder: it also becomes smaller when the database's log is gone. For a moment
    // both the new and the old blob exist.
    let blobs = server.data().join("blobs");
    let arrived = folder(&blobs);
    let started = Instant::now();
    while folder(&blobs) >= arrived && started.elapsed().as_secs() < 120 {
        std::thread::sleep(Duration::from_millis(250));
    }
    let stored = folder(server.data());
    table.share(
        "stored once packed again, when idle",
        "≤ 8 % of the pickle",
        stored,
    );
}

fn folder(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => folder(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// Opens the link in a new browser on a newly started server, so that nothing is in any cache.
pub async fn open(server: &mut TestServer, url: &str, table: &mut Table) {
    server.restart();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto("about:blank").await;
    browser.goto(&server.url(path_of(url))).await;
    let seconds = first_picture(&browser).await;
    table.seconds("open a stored link → first picture", "< 1 s", seconds);
    let of_the_trace = transferred(&browser, "entry.name.includes('/api/')").await;
    table.kilobytes("— data of the trace", "≤ 300 KB", of_the_trace);
    let front_end = transferred(&browser, "!entry.name.includes('/api/')").await;
    table.kilobytes("front end, brotli, all included", "≤ 700 KB", front_end);
    let url = server.url(path_of(url));
    let here = opened_again(&browser, &url, None).await;
    table.seconds("— opened again in its tab, median", "≤ 0.2 s", here);
    // The browser starts a process for a page that another site's page leads to.
    let elsewhere = opened_again(&browser, &url, Some("about:blank")).await;
    table.seconds("— again from another site, median", "≤ 0.2 s", elsewhere);
}

/// Median of the seconds until there is a picture, when the page is opened again: from a page of
/// another site, or from itself.
async fn opened_again(browser: &Browser, url: &str, from: Option<&str>) -> f64 {
    let mut again = Vec::with_capacity(AGAIN);
    for _ in 0..AGAIN {
        if let Some(other) = from {
            browser.goto(other).await;
        }
        browser.goto(url).await;
        again.push(first_picture(browser).await);
        // What the page does after its first picture must not run into the next opening.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    again.sort_by(f64::total_cmp);
    again[AGAIN / 2]
}

/// Compares the run with a second recording as large, on a newly started server: its answer to
/// the first question about the two.
pub fn compare(server: &mut TestServer, url: &str, other: &Path, table: &mut Table) {
    let second = server.push(other);
    server.restart();
    let runs: Vec<RunId> = [url, &second]
        .iter()
        .map(|url| url.rsplit('/').next().unwrap_or_default())
        .map(|id| id.parse().expect("the address of a run ends with its id"))
        .collect();
    let started = Instant::now();
    let answer = ureq::get(server.url(&api::routes::compare(&runs))).call();
    let answer = answer.expect("they are compared").into_body().read_to_vec();
    assert!(!answer.expect("an answer").is_empty());
    let seconds = started.elapsed().as_secs_f64();
    table.seconds(
        "two such recordings compared for the first time",
        "≤ 2 s",
        seconds,
    );
}

/// Bytes transferred by those requests of the page for which `which`, a condition on `entry`, is
/// true.
async fn transferred(browser: &Browser, which: &str) -> f64 {
    let script = format!(
        "return [...performance.getEntriesByType('navigation'), \
                 ...performance.getEntriesByType('resource')] \
         .filter(entry => {which}).reduce((sum, entry) => sum + entry.transferSize, 0);"
    );
    browser.eval(&script).await.as_f64().unwrap_or(f64::NAN)
}

fn path_of(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find('/').map_or("/", |at| &url[host + at..])
}

/// Seconds from the navigation until a picture is drawn, as the page itself noted it.
async fn first_picture(browser: &Browser) -> f64 {
    let script = "return performance.getEntriesByName('first-picture')[0]?.startTime ?? null;";
    for _ in 0..600 {
        if let Some(ms) = browser.eval(script).await.as_f64() {
            return ms / 1000.0;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no picture was drawn within 30 seconds");
}

/// Zooms in to single events and out again, and pans, as a hand on a wheel does.
pub async fn move_about(server: &TestServer, url: &str, table: &mut Table) {
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser
        .goto(&server.url(&format!("{}?frames=1", path_of(url))))
        .await;
    first_picture(&browser).await;
    browser
        .eval("window.__tidemark_frames.length = 0; return null;")
        .await;
    for delta in [-120.0, 120.0] {
        for _ in 0..60 {
            wheel(&browser, delta).await;
        }
        pan(&browser).await;
    }
    let frames = browser.eval("return window.__tidemark_frames;").await;
    let mut took: Vec<f64> = frames
        .as_array()
        .map(|frames| {
            frames
                .iter()
                .filter_map(|frame| frame[1].as_f64())
                .collect()
        })
        .unwrap_or_default();
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took.get((took.len() as f64 * share) as usize).copied();
    let p95 = at(0.95).unwrap_or(f64::NAN);
    table.milliseconds("pan and zoom, p95 frame", "≤ 16 ms", p95);
    table.milliseconds("— median frame", "", at(0.5).unwrap_or(f64::NAN));
    table.count("— frames drawn", took.len());
}

async fn wheel(browser: &Browser, delta: f64) {
    let params = serde_json::json!({
        "type": "mouseWheel", "x": 600, "y": 400, "deltaX": 0, "deltaY": delta,
    });
    browser.cdp("Input.dispatchMouseEvent", params).await;
}

async fn pan(browser: &Browser) {
    let event = |kind: &str, x: f64| {
        serde_json::json!({
            "type": kind, "x": x, "y": 400, "button": "left", "buttons": 1, "clickCount": 1,
        })
    };
    browser
        .cdp("Input.dispatchMouseEvent", event("mousePressed", 700.0))
        .await;
    for step in 0..60 {
        let x = 700.0 - f64::from(step) * 5.0;
        browser
            .cdp("Input.dispatchMouseEvent", event("mouseMoved", x))
            .await;
    }
    browser
        .cdp("Input.dispatchMouseEvent", event("mouseReleased", 400.0))
        .await;
}
