//! Ways through the pages that are easily forgotten: back from what is not there and what was
//! deleted, past the header, from the filter into the list, to what leaks on another device, and
//! what can be asked of a state alone.

use serde_json::{Value, json};
use tests::{Browser, TestServer, Theme, Viewport, recording};

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
async fn a_run_that_is_deleted_elsewhere_says_so_and_comes_back() {
    let server = TestServer::start();
    let browser = at_a_list_of_one(&server).await;
    browser.click(".run-link").await;
    let shown = "return !!document.querySelector('section.timeline');";
    browser.wait_until("the run", shown).await;
    let run = browser.eval("return location.pathname;").await;
    let run = server.url(&format!("/api{}", run.as_str().expect("a path")));
    ureq::delete(&run).call().expect("it is deleted");
    let gone = "return !!document.querySelector('.run-nothing .primary');";
    browser.wait_until("that it is gone", gone).await;
    browser.click(".run-nothing .primary").await;
    browser.wait_until("the run again", shown).await;
}

#[tokio::test]
async fn what_was_deleted_comes_back_from_below_the_list() {
    let server = TestServer::start();
    let browser = at_a_list_of_one(&server).await;
    let run = "return new URL(document.querySelector('.run-link').href).pathname;";
    let run = browser.eval(run).await;
    let run = server.url(&format!("/api{}", run.as_str().expect("a path")));
    ureq::delete(&run).call().expect("it is deleted");
    let listed = "return !document.querySelector('tr.run') && \
                  document.querySelector('.runs-deleted summary')?.innerText \
                  === 'Recently deleted (1)';";
    browser.wait_until("that it was deleted", listed).await;
    // Also for whoever comes to the page later.
    browser.goto(&server.url("/")).await;
    browser.wait_until("that it was deleted", listed).await;
    browser.click(".runs-deleted summary").await;
    browser.click(".runs-deleted li button").await;
    let back = "return !!document.querySelector('tr.run') && \
                !document.querySelector('.runs-deleted');";
    browser.wait_until("the run again", back).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// The run names one device that leaks; each other is told, too.
#[tokio::test]
async fn a_leak_is_told_on_the_page_of_every_other_device() {
    let server = TestServer::start();
    let mut both: Value = serde_json::from_slice(&recording::of(0)).expect("a recording");
    let events = both["device_traces"][0].clone();
    let traces = both["device_traces"].as_array_mut().expect("a list");
    traces.push(events);
    let notes = both["external_annotations"].as_array_mut().expect("a list");
    let mut of_other = notes.clone();
    for note in &mut of_other {
        note["device"] = json!(1);
    }
    notes.append(&mut of_other);
    let sent = ureq::put(server.url("/api/upload/both.json")).send(both.to_string().as_bytes());
    let answer = sent.expect("it is kept").body_mut().read_to_vec();
    let sent: Value = serde_json::from_slice(&answer.expect("an answer")).expect("a run");
    let run = sent["run"]["id"].as_str().expect("an id");
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    for (shown, other) in [(0, 1), (1, 0)] {
        browser
            .goto(&server.url(&format!("/runs/{run}?v=5&dev={shown}")))
            .await;
        let told = format!(
            "const told = [...document.querySelectorAll('p.failures strong')]; \
             return told.map(it => it.innerText).join() === \
             'Device {other} leaks 4.00 MiB a step.';"
        );
        browser.wait_until("the other device", &told).await;
    }
    browser.click("p.failures button").await;
    let there = "return document.querySelector('select[aria-label=Device]').value === '0' && \
                 !!document.querySelector('#tab-leaks[aria-selected=true]');";
    browser.wait_until("its leaks", there).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
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
