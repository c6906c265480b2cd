//! Ways through the pages that are easily forgotten: back from what is not there, past the header,
//! from the filter into the list, and what can be asked of a state alone.

use serde_json::json;
use tests::{Browser, TestServer, Theme, Viewport};

#[tokio::test]
async fn what_is_not_there_leads_back_to_the_runs() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    for path in [
        "/jobs/job_0000000000000000",
        "/jobs/job_x",
        "/runs/run_0000000000000000",
        "/runs/x",
        "/nowhere",
    ] {
        browser.goto(&server.url(path)).await;
        let all = match path.starts_with("/jobs") {
            true => "All jobs",
            false => "All runs",
        };
        let back = format!(
            "return [...document.querySelectorAll('main a')] \
                    .some(link => link.innerText === '{all}' && link.checkVisibility());"
        );
        browser
            .wait_until(&format!("{path}: a way back"), &back)
            .await;
        let heads = "return document.querySelectorAll('main h1').length;";
        assert_eq!(browser.eval(heads).await, json!(1), "{path}");
    }
    browser.click("main a").await;
    let list = "return location.pathname === '/';";
    browser.wait_until("the runs", list).await;
}

#[tokio::test]
async fn the_first_link_skips_to_the_content() {
    let server = TestServer::start();
    let browser = at_a_list_of_one(&server).await;
    browser.press("Tab").await;
    let shown = "const link = document.activeElement; \
                 return link.className === 'skip-link' && link.getBoundingClientRect().top >= 0;";
    browser.wait_until("the link on the page", shown).await;
    browser.press("Enter").await;
    let skipped = "return document.activeElement.id === 'main' && location.pathname === '/';";
    browser
        .wait_until("the content has the focus", skipped)
        .await;
    // The Tab key goes on from there, behind the header.
    browser.press("Tab").await;
    let inside = "return !!document.activeElement.closest('main') \
                  && document.activeElement.id !== 'main';";
    assert_eq!(browser.eval(inside).await, true);
}

/// A browser that shows the list with one run in it.
async fn at_a_list_of_one(server: &TestServer) -> Browser {
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let sample =
        "return fetch('/api/samples/leak_hook_cache', { method: 'POST' }).then(() => null);";
    browser.eval(sample).await;
    let list = "return !!document.querySelector('tr.run');";
    browser.wait_until("the list", list).await;
    browser
}

#[tokio::test]
async fn an_arrow_leads_from_the_filter_into_the_list() {
    let server = TestServer::start();
    let browser = at_a_list_of_one(&server).await;
    browser.press("/").await;
    let focused = "return document.activeElement.className;";
    assert_eq!(browser.eval(focused).await, "input");
    browser.press("ArrowDown").await;
    let there = "return document.activeElement.classList.contains('run-link');";
    assert_eq!(browser.eval(there).await, true);
}

#[tokio::test]
async fn a_link_in_the_header_leads_out_of_a_filtered_list() {
    let server = TestServer::start();
    let browser = at_a_list_of_one(&server).await;
    for link in ["header .wordmark", "header .app-nav a"] {
        browser.press("/").await;
        browser.press("z").await;
        let filtered = "return location.search !== '' && !document.querySelector('tr.run');";
        browser.wait_until("a filtered list", filtered).await;
        browser.click(link).await;
        let whole = "return location.search === '' && !!document.querySelector('tr.run') \
                     && document.querySelector('[aria-label=\"Filter runs\"]').value === '';";
        browser.wait_until("the whole list", whole).await;
    }
}

#[tokio::test]
async fn a_state_alone_answers_what_asks_for_no_history() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let state = "
        const block = (size, state) => ({ size, requested_size: size, state });
        const segment = { device: 0, address: 0x7f0000000000, total_size: 2 << 20,
            allocated_size: 4096, active_size: 4096, stream: 0, segment_type: 'small',
            blocks: [block(4096, 'active_allocated'), block((2 << 20) - 4096, 'inactive')] };
        const body = JSON.stringify({ segments: [segment], device_traces: [[]] });
        return fetch('/api/upload/state.json', { method: 'PUT', body })
            .then(answer => answer.json()).then(sent => sent.run.id);";
    let run = browser.eval(state).await;
    let run = run.as_str().expect("an id");
    browser.goto(&server.url(&format!("/runs/{run}"))).await;
    let alive = "return document.querySelector('#questions .alive-summary')?.innerText \
                 .includes('allocated in the recorded state');";
    browser.wait_until("what is alive", alive).await;
    let tabs = "return [...document.querySelectorAll('.tab')].map(tab => tab.innerText);";
    assert_eq!(
        browser.eval(tabs).await,
        json!(["Alive", "Allocations", "Map"])
    );
    browser.press("5").await;
    let map = "return document.querySelector('#questions .alive-summary')?.innerText \
               .startsWith('In the recorded state: 2.00 MiB reserved') \
               && !!document.querySelector('.map-plot') && !document.querySelector('.map-slider');";
    browser.wait_until("the map", map).await;
    browser.press("2").await;
    browser.painted().await;
    assert_eq!(browser.eval(map).await, true, "leaks need a history");
    browser.click("#tab-allocations").await;
    let listed = "return document.querySelectorAll('#questions tr.block').length === 1;";
    browser.wait_until("the allocations", listed).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
