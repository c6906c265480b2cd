//! The first visit of a new user: drop a snapshot on the page, see the picture, zoom in to single
//! allocations and out again.

use fantoccini::Locator;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tests::{Browser, TestServer, Theme, Viewport};

/// Gives a file to the page's file dialog, as a person would choose it.
pub(crate) async fn choose_file(browser: &Browser, path: &Path) {
    let input = Locator::Css("input[type=file]");
    let input = browser.page.wait().for_element(input).await;
    let path = path.canonicalize().expect("the snapshot is there");
    let path = path.to_str().expect("a path in UTF-8");
    input
        .expect("the page has a file dialog")
        .send_keys(path)
        .await
        .expect("a file is chosen");
}

const DRAWN: &str = "return !!document.querySelector('.timeline') && \
                     !document.querySelector('.timeline-skeleton.shown');";
const SETTLED: &str = "return document.querySelector('.timeline')?.ariaBusy === 'false';";

pub(crate) async fn wait_for_picture(browser: &Browser) {
    browser.wait_until("the first picture", DRAWN).await;
    browser.wait_until("the fine picture", SETTLED).await;
}

async fn wheel(browser: &Browser, delta: f64) {
    let script = "
        const canvas = document.querySelector('.timeline-overlay');
        const box = canvas.getBoundingClientRect();
        return [box.left + box.width * 0.6, box.top + box.height * 0.5];";
    let at = browser.eval(script).await;
    let params = json!({
        "type": "mouseWheel", "x": at[0], "y": at[1], "deltaX": 0, "deltaY": delta,
    });
    browser.cdp("Input.dispatchMouseEvent", params).await;
}

/// First and last visible event, from the address; `None` when all events are visible.
async fn window(browser: &Browser) -> Option<(f64, f64)> {
    let script = "const query = new URLSearchParams(location.search);
                  return [query.get('from'), query.get('to')].map(x => x === null ? null : +x);";
    let window = browser.eval(script).await;
    Some((window[0].as_f64()?, window[1].as_f64()?))
}

/// Zooms in at one place until no more than `events` are visible.
async fn zoom_to(browser: &Browser, events: f64) {
    for _ in 0..200 {
        wheel(browser, -240.0).await;
        tokio::time::sleep(Duration::from_millis(25)).await;
        if window(browser)
            .await
            .is_some_and(|(from, to)| to - from <= events)
        {
            return;
        }
    }
    panic!(
        "zooming in does not reach {events} events: {:?}",
        window(browser).await
    );
}

/// The part of the visit that is the same for every snapshot, on the run's page.
async fn explore(browser: &Browser, name: &str) {
    wait_for_picture(browser).await;
    assert!(
        browser.painted_pixels(".timeline-canvas").await > 20_000,
        "the picture is empty"
    );
    browser.screenshot(&format!("{name}-whole")).await;

    let page = browser.eval("return location.pathname;").await;
    let page = page.as_str().expect("an address").to_owned();
    let origin = browser.eval("return location.origin;").await;
    let origin = origin.as_str().expect("an address").to_owned();
    browser.goto(&format!("{origin}{page}?frames=1")).await;
    wait_for_picture(browser).await;
    zoom_to(browser, 200.0).await;
    browser.wait_until("the near picture", SETTLED).await;
    browser.screenshot(&format!("{name}-near")).await;

    // An allocation is selected with the keyboard only, and its stack appears.
    browser
        .eval("document.querySelector('.timeline-stage').focus(); return null;")
        .await;
    browser.press("ArrowRight").await;
    let selected = "return /sel=b\\d+/.test(location.search) && \
                    !!document.querySelector('.panel .stack');";
    browser.wait_until("a selected allocation", selected).await;
    browser.screenshot(&format!("{name}-selected")).await;
    let link = browser.eval("return location.href;").await;

    browser.press("Escape").await;
    browser.press("f").await;
    browser
        .wait_until(
            "the whole trace again",
            "return !/from=/.test(location.search);",
        )
        .await;
    browser.wait_until("the far picture", SETTLED).await;
    print_frames(browser, name).await;

    // The address contains the whole view: opened again, it shows the same window and selection.
    browser.goto(link.as_str().expect("an address")).await;
    wait_for_picture(browser).await;
    browser
        .wait_until("the selection of the link", selected)
        .await;
    let (from, to) = window(browser).await.expect("the link has a window");
    assert!(to - from <= 200.0);
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// Prints the frame times so far. They are not checked, because other tests run at the same time.
async fn print_frames(browser: &Browser, name: &str) {
    let frames = browser
        .eval("return window.__tidemark_frames.map(frame => frame[1]);")
        .await;
    let frames = frames.as_array().expect("frame times").iter();
    let mut took: Vec<f64> = frames.filter_map(Value::as_f64).collect();
    assert!(took.len() > 20, "only {} frames were drawn", took.len());
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took[(took.len() as f64 * share) as usize];
    let (median, p95) = (at(0.5), at(0.95));
    println!(
        "{name}: {} frames, median {median:.1} ms, p95 {p95:.1} ms",
        took.len()
    );
}

#[tokio::test]
async fn a_small_snapshot_is_dropped_explored_and_reopened() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let file = tests::workspace_root().join("tests/fixtures/plain_lm.pickle.zst");
    choose_file(&browser, &file).await;
    browser
        .wait_until(
            "the run's page",
            "return location.pathname.startsWith('/runs/');",
        )
        .await;
    explore(&browser, "small").await;
    first_requests_are_made_once(&browser).await;
}

#[tokio::test]
#[ignore = "needs ../shared"]
async fn a_gigabyte_is_dropped_explored_and_reopened() {
    let big = tests::recordings().join("big/big.pickle.zst");
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Dark).await;
    browser.goto(&server.url("/")).await;
    choose_file(&browser, &big).await;
    browser
        .wait_within(
            Duration::from_secs(300),
            "the run's page",
            "return location.pathname.startsWith('/runs/');",
        )
        .await;
    explore(&browser, "big").await;
}

#[tokio::test]
async fn a_sample_is_one_click_away_and_every_page_shows_in_both_themes_and_sizes() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let sample = browser
        .page
        .wait()
        .for_element(Locator::Css("button.sample"))
        .await;
    sample
        .expect("the empty page offers samples")
        .click()
        .await
        .expect("it can be clicked");
    browser
        .wait_until(
            "the run's page",
            "return location.pathname.startsWith('/runs/');",
        )
        .await;
    wait_for_picture(&browser).await;
    let run = browser.eval("return location.href;").await;
    for (page, url) in [
        ("run", run.as_str().expect("an address")),
        ("runs", &server.url("/")),
    ] {
        browser.goto(url).await;
        match page {
            "run" => wait_for_picture(&browser).await,
            _ => {
                browser
                    .wait_until("the list", "return !!document.querySelector('table.runs');")
                    .await;
            }
        }
        for viewport in [Viewport::Desktop, Viewport::Phone] {
            for theme in [Theme::Light, Theme::Dark] {
                browser.set_viewport(viewport).await;
                browser.set_theme(theme).await;
                browser.painted().await;
                let name = format!("{page}-{viewport:?}-{theme:?}").to_lowercase();
                browser.screenshot(&name).await;
                assert!(!browser.scrolls_sideways().await, "{name} scrolls sideways");
            }
        }
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// The page of a run names what it asks first, so that the browser asks while the program is being
/// loaded. If the two differed, the browser would fetch both.
async fn first_requests_are_made_once(browser: &Browser) {
    let address = browser
        .eval("return location.origin + location.pathname;")
        .await;
    browser.goto(address.as_str().expect("an address")).await;
    wait_for_picture(browser).await;
    let script = "return performance.getEntriesByType('resource')
        .map(entry => [entry.name.replace(location.origin, ''), entry.initiatorType]);";
    let fetched = browser.eval(script).await;
    let fetched: Vec<(String, String)> = serde_json::from_value(fetched).expect("names");
    let of_run = fetched
        .iter()
        .filter(|(name, _)| name.starts_with("/api/runs/"));
    let early: Vec<&String> = of_run
        .filter(|(_, by)| by == "link")
        .map(|(name, _)| name)
        .collect();
    assert_eq!(early.len(), 3, "{fetched:?}");
    for name in early {
        let times = fetched.iter().filter(|(other, _)| other == name).count();
        assert_eq!(times, 1, "{name} in {fetched:?}");
    }
}
