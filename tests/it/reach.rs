//! What must stay in reach and in sight where something is long, wide, or lies above it.

use crate::eyes::world::upload_fixture;
use serde_json::json;
use tests::{Browser, TestServer, Theme, Viewport};

const BOTH: [Viewport; 2] = [Viewport::Desktop, Viewport::Phone];

/// In a page: sends JSON, and gives that of the answer, if there is any.
const SEND: &str = "
    const send = (method, path, body) => fetch(path, {
        method, body: JSON.stringify(body), headers: { 'content-type': 'application/json' },
    }).then(answer => {
        if (!answer.ok) throw new Error(path + answer.status);
        return answer.text().then(text => text && JSON.parse(text));
    });";

#[tokio::test]
async fn a_long_file_name_leaves_the_link_of_its_upload_in_reach() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    for viewport in BOTH {
        browser.set_viewport(viewport).await;
        browser.goto(&server.url("/")).await;
        let field = "return !!document.querySelector('input[type=file]');";
        browser.wait_until("the field for files", field).await;
        let upload = "
            const event = { action: 'alloc', addr: 4096, size: 512, stream: 0 };
            const body = JSON.stringify({ segments: [], device_traces: [[event]] });
            const chosen = new DataTransfer();
            chosen.items.add(new File([body], 'n'.repeat(190) + '.json'));
            // With a second file, the page stays: it does not open the run.
            chosen.items.add(new File(['no snapshot'], 'notes.txt'));
            const input = document.querySelector('input[type=file]');
            input.files = chosen.files;
            input.dispatchEvent(new Event('change', { bubbles: true }));";
        browser.eval(upload).await;
        let there = "return !!document.querySelector('.tray-line a');";
        browser.wait_until("the link", there).await;
        let in_reach = "
            const items = document.querySelector('.tray-items');
            const link = document.querySelector('.tray-line a').getBoundingClientRect();
            return items.scrollWidth <= items.clientWidth
                && link.right <= items.getBoundingClientRect().right;";
        assert_eq!(browser.eval(in_reach).await, true, "{viewport:?}");
    }
}

#[tokio::test]
async fn the_list_of_files_does_not_lie_on_a_page_that_one_goes_on_to() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let field = "return !!document.querySelector('input[type=file]');";
    browser.wait_until("the field for files", field).await;
    let upload = "
        const event = { action: 'alloc', addr: 4096, size: 512, stream: 0 };
        const body = JSON.stringify({ segments: [], device_traces: [[event]] });
        const chosen = new DataTransfer();
        chosen.items.add(new File([body], 'run.json'));
        chosen.items.add(new File(['no snapshot'], 'notes.txt'));
        const input = document.querySelector('input[type=file]');
        input.files = chosen.files;
        input.dispatchEvent(new Event('change', { bubbles: true }));";
    let unfolded = "return document.querySelector('.tray-items')?.offsetParent !== null;";
    let folded = "return document.querySelector('.tray-items')?.offsetParent === null;";
    browser.eval(upload).await;
    let there = "return !!document.querySelector('.tray-line a');";
    browser.wait_until("the link", there).await;
    browser.wait_until("the whole list", unfolded).await;
    browser.click(".tray-line a").await;
    browser.wait_until("only its head", folded).await;
    browser.click(".tray-fold").await;
    browser.wait_until("the list again", unfolded).await;
    browser.click(".tray-fold").await;
    browser.wait_until("only its head again", folded).await;
    // More files are news.
    browser.eval(upload).await;
    browser.wait_until("the list with them", unfolded).await;
}

#[tokio::test]
async fn a_notice_does_not_lie_on_the_bar_of_picked_runs() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    // More than fit on a screen: the bar lies at its lower edge then.
    let runs = "
        const send = at => {
            const event = { action: 'alloc', addr: 4096, size: 512 * at, stream: 0 };
            const body = JSON.stringify({ segments: [], device_traces: [[event]] });
            return fetch(`/api/upload/run${at}.json`, { method: 'PUT', body });
        };
        const all = Array.from({ length: 30 }, (_, at) => send(at + 1));
        return Promise.all(all).then(() => null);";
    browser.eval(runs).await;
    for viewport in BOTH {
        browser.set_viewport(viewport).await;
        browser.goto(&server.url("/")).await;
        let list = "return document.querySelectorAll('tr.run').length > 20;";
        browser.wait_until("the list", list).await;
        browser.click("[aria-label^=Delete]").await;
        let notice = "return !!document.querySelector('.toast');";
        browser.wait_until("the notice", notice).await;
        browser.click(".run-pick").await;
        let bar = "return !!document.querySelector('.picked-count');";
        browser.wait_until("the bar", bar).await;
        let apart = "
            const place = name => document.querySelector(name).getBoundingClientRect();
            const [notice, bar] = [place('.toast'), place('.picked-bar')];
            return notice.bottom <= bar.top && bar.bottom <= innerHeight + 1;";
        assert_eq!(browser.eval(apart).await, true, "{viewport:?}");
    }
}

#[tokio::test]
async fn the_filter_asks_for_requests_where_the_steps_are_requests() {
    let server = TestServer::start();
    let run = upload_fixture(&server, "plain/serve_decode");
    let browser = Browser::open(Viewport::Phone, Theme::Light).await;
    let page = format!("/runs/{run}?v=5&tab=allocations");
    browser.goto(&server.url(&page)).await;
    let named = "
        const names = [...document.querySelectorAll('.filter-field span')];
        const told = names.map(name => name.innerText);
        return told.includes('Outlived requests from') && told.includes('Allocated in request');";
    browser.wait_until("the names of the fields", named).await;
    // Both ends of a range stand in one line.
    let beside = "
        return [...document.querySelectorAll('.filter-range')].every(range => {
            const fields = [...range.children].map(field => field.getBoundingClientRect());
            return fields.every(field => field.top === fields[0].top);
        });";
    assert_eq!(browser.eval(beside).await, true);
}

#[tokio::test]
async fn tables_of_plain_pages_fit_on_a_phone() {
    let server = TestServer::start();
    let run = upload_fixture(&server, "plain_lm");
    let browser = Browser::open(Viewport::Phone, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let fill = format!(
        "{SEND} return send('PATCH', '/api/runs/{run}/labels', {{ labels: {{ branch: 'main' }} }})
             .then(() => send('POST', '/api/live', {{ name: 'llama', device: 0, limit: 1 << 30 }}))
             .then(() => send('POST', '/api/views', {{ name: 'main', path: '/history' }}))
             .then(() => send('POST', '/api/jobs', {{ name: 'ddp' }}))
             .then(() => null);"
    );
    browser.eval(&fill).await;
    let wide = "
        const frames = [...document.querySelectorAll('.account-wide')];
        return frames.map(frame => frame.scrollWidth - frame.clientWidth);";
    for path in [
        "/history?label=branch%3Dmain",
        "/live",
        "/views",
        "/jobs",
        "/audit",
        "/projects",
    ] {
        browser.goto(&server.url(path)).await;
        assert_eq!(browser.eval(wide).await, json!([0]), "{path}");
    }
    // It has three of them.
    browser.goto(&server.url("/usage")).await;
    assert_eq!(browser.eval(wide).await, json!([0, 0, 0]), "/usage");
}

#[tokio::test]
async fn verdicts_of_a_narrow_list_are_whole() {
    let server = TestServer::start();
    upload_fixture(&server, "plain_lm");
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let there = "return !!document.querySelector('.badges .badge');";
    browser.wait_until("the verdict", there).await;
    let whole = "
        document.querySelector('.runs').style.width = '860px';
        return [...document.querySelectorAll('.badges .badge')].every(badge => {
            const cell = badge.closest('td').getBoundingClientRect();
            return badge.scrollWidth <= badge.clientWidth
                && badge.getBoundingClientRect().right <= cell.right;
        });";
    assert_eq!(browser.eval(whole).await, true);
}

#[tokio::test]
async fn a_word_without_a_break_does_not_widen_a_page() {
    let server = TestServer::start();
    let run = upload_fixture(&server, "plain_lm");
    let browser = Browser::open(Viewport::Phone, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let fill = format!(
        "{SEND} const labels = {{ branch: 'main', note: 'x'.repeat(60) }};
         return send('PATCH', '/api/runs/{run}/labels', {{ labels }})
             .then(() => send('POST', '/api/live', {{ name: 'L'.repeat(150), device: 0 }}))
             .then(made => made.live);"
    );
    let live = browser.eval(&fill).await;
    let live = format!("/live/{}", live.as_str().unwrap());
    let run = format!("/runs/{run}");
    let fits = "
        const read = document.body.innerText;
        return (read.includes('x'.repeat(60)) || read.includes('L'.repeat(150)))
            && document.documentElement.scrollWidth === 390;";
    for path in [&run, &live, "/history?label=branch%3Dmain"] {
        browser.goto(&server.url(path)).await;
        browser
            .wait_until(&format!("{path} as wide as the phone"), fits)
            .await;
    }
}
