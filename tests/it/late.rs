//! Pages that are left before the server has answered them, and a server that goes away.

use super::eyes::world::{large_job, upload_fixture};
use serde_json::json;
use tests::{Browser, TestServer, Theme, Viewport};

/// From now on every answer comes late, each at another time, and `window.late` counts them.
const LATE: &str = "
    window.late = { waiting: 0, read: 0 };
    const fetch = window.fetch;
    window.fetch = async (...asked) => {
        const nth = window.late.waiting++ + window.late.read;
        try {
            const answer = await fetch(...asked);
            await new Promise(later => setTimeout(later, 40 + 60 * (nth % 4)));
            return answer;
        } finally {
            // The page has read it when this runs.
            setTimeout(() => { window.late.waiting--; window.late.read++; }, 20);
        }
    };
    return true;";

/// Opens each address as a link of the page does, and leaves it again: at once, when it has asked,
/// when it has read an answer, when it has read most. A page that asks nothing more is left too.
const VISIT: &str = "
    const late = window.late;
    const moments = [
        () => true,
        began => late.waiting > began.waiting,
        began => late.read > began.read,
        began => late.read > began.read + 2,
    ];
    const visit = async (address, moment) => {
        const link = document.createElement('a');
        link.href = address;
        document.body.append(link);
        link.click();
        link.remove();
        const began = { ...late }, at = performance.now();
        do await new Promise(requestAnimationFrame);
        while (!moment(began) && performance.now() - at < 700);
    };
    (async () => {
        for (const moment of moments) {
            for (const address of ADDRESSES) await visit(address, moment);
        }
        await visit('/', () => late.waiting === 0);
        window.visited = true;
    })();
    return true;";

#[tokio::test]
async fn a_page_is_left_at_any_moment_and_nothing_breaks() {
    let server = TestServer::start();
    let leak = upload_fixture(&server, "off_v1_moe");
    let oom = upload_fixture(&server, "oom");
    let job = large_job(&server, 3);
    let mut addresses = vec![
        job,
        format!("/compare?v=1&runs={leak},{oom}"),
        "/compare".to_owned(),
        "/bench".to_owned(),
        format!("/runs/{oom}?v=5&tab=what-if&alloc_conf=expandable_segments%3ATrue"),
        "/runs/run_0000000000000000".to_owned(),
    ];
    for tab in ["leaks", "alive", "allocations", "map", "what-if"] {
        addresses.push(format!("/runs/{leak}?v=5&tab={tab}&at=3000&sel=b100"));
        addresses.push("/".to_owned());
    }
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    browser
        .wait_until(
            "the list is there",
            "return !!document.querySelector('tr.run');",
        )
        .await;
    browser.eval(LATE).await;
    browser
        .eval(&VISIT.replace("ADDRESSES", &json!(addresses).to_string()))
        .await;
    let over = "return window.visited === true && window.late.waiting === 0;";
    browser.wait_until("every page was visited", over).await;
    let read = browser.eval("return window.late.read;").await;
    assert!(read.as_u64() > Some(60), "the pages asked: {read}");
    let complaints = browser.complaints().await;
    // The browser itself notes an answer with an error status.
    let broken = complaints
        .iter()
        .filter(|said| !said.contains("run_0000000000000000"));
    assert_eq!(broken.collect::<Vec<_>>(), Vec::<&String>::new());
    let list = "return document.querySelectorAll('tr.run').length >= 2;";
    browser.wait_until("the list can be used", list).await;
}

/// From now on the server fails at questions about leaks, while `window.fails` is true.
const FAILS: &str = "
    window.fails = true;
    const fetch = window.fetch;
    window.fetch = async (...asked) => {
        const url = asked[0].url ?? asked[0];
        const refused = window.fails && /\\/(leaks|growth)/.test(url);
        return refused ? new Response('', { status: 500 }) : fetch(...asked);
    };
    return true;";

#[tokio::test]
async fn what_the_server_failed_at_is_asked_again_with_one_press() {
    let server = TestServer::start();
    let run = upload_fixture(&server, "leak_hook_cache");
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url(&format!("/runs/{run}"))).await;
    let drawn = "return !!document.querySelector('[role=tab]');";
    browser.wait_until("the run", drawn).await;
    browser.eval(FAILS).await;
    let leaks = "[...document.querySelectorAll('[role=tab]')]
        .find(tab => tab.textContent === 'Leaks').click(); return true;";
    browser.eval(leaks).await;
    let again = "return !!document.querySelector('.problem .button');";
    browser.wait_until("it can be asked again", again).await;
    browser.eval("window.fails = false; return true;").await;
    browser.click(".problem .button").await;
    let there = "return !document.querySelector('.problem') &&
        document.querySelector('#main').textContent.includes('Leaks 8.00 MiB a step');";
    browser.wait_until("the answer", there).await;
    let focus = "return document.activeElement.tagName;";
    assert_ne!(browser.eval(focus).await, "BODY", "the focus is kept");
}

/// From now on the list of runs gets no answer while `window.hangs` is true, and a minute is short.
const HANGS: &str = "
    window.hangs = true;
    window.given_up = 0;
    const [fetch, later] = [window.fetch, window.setTimeout];
    window.setTimeout = (act, ms) => later(act, ms === 60_000 ? 300 : ms);
    window.fetch = (...asked) => {
        if (!window.hangs || !asked[0].url.includes('/api/runs?')) return fetch(...asked);
        return new Promise((_, give_up) => asked[0].signal.addEventListener('abort', () => {
            window.given_up++;
            give_up(new DOMException('aborted', 'AbortError'));
        }));
    };
    return true;";

#[tokio::test]
async fn a_server_that_hangs_is_told_and_asked_again_and_the_old_list_stays() {
    let server = TestServer::start();
    upload_fixture(&server, "oom");
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let rows = |n| format!("return document.querySelectorAll('tr.run').length === {n};");
    browser.wait_until("the list", &rows(1)).await;
    browser.eval(HANGS).await;
    // The other tabs of a team are told of this run, and so is this one.
    upload_fixture(&server, "plain_lm");
    let told = "return document.querySelector('.connection-chip').innerText
        .includes('not reachable, trying again');";
    browser.wait_until("that the server is silent", told).await;
    assert_eq!(browser.eval(&rows(1)).await, json!(true), "the old list");
    let again = "return window.given_up >= 2;";
    browser.wait_until("another attempt", again).await;
    browser.eval("window.hangs = false; return true;").await;
    browser.wait_until("the new list", &rows(2)).await;
    let over = "return document.querySelector('.connection-chip').innerText === '';";
    browser.wait_until("that it answers", over).await;
}

#[tokio::test]
async fn a_file_is_sent_again_when_the_server_is_back() {
    let mut server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let field = "return !!document.querySelector('input[type=file]');";
    browser.wait_until("the field for files", field).await;
    // As slow as it must be for the server to go away in the middle of the file.
    let slow = json!({
        "offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 50_000,
    });
    browser.cdp("Network.enable", json!({})).await;
    browser.cdp("Network.emulateNetworkConditions", slow).await;
    let choose = "
        const event = { action: 'alloc', addr: 4096, size: 512, stream: 0 };
        const text = JSON.stringify({ segments: [], device_traces: [[event]] });
        const chosen = new DataTransfer();
        // White space of JSON, so that it is large.
        chosen.items.add(new File([text + ' '.repeat(1 << 20)], 'run.json'));
        const input = document.querySelector('input[type=file]');
        input.files = chosen.files;
        input.dispatchEvent(new Event('change', { bubbles: true }));
        return true;";
    browser.eval(choose).await;
    let says = |text: &str| {
        format!("return document.querySelector('.tray')?.innerText.includes('{text}') ?? false;")
    };
    browser
        .wait_until("the file is sent", &says("Reading"))
        .await;
    server.kill();
    let waits = says("It is sent again as soon as the server answers.");
    browser.wait_until("the file waits", &waits).await;
    let fast = json!({
        "offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1,
    });
    browser.cdp("Network.emulateNetworkConditions", fast).await;
    server.start_again();
    let opened = "return location.pathname.startsWith('/runs/run_');";
    browser.wait_until("the run", opened).await;
    browser.goto(&server.url("/")).await;
    let one = "return document.querySelectorAll('tr.run').length === 1;";
    browser.wait_until("one run", one).await;
}
