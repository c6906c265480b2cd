//! A bench, from the page to the run behind a row.

use std::time::Duration;
use tests::{Browser, TestServer, Theme, Viewport};

/// Ticks or unticks a whole configuration.
async fn tick(browser: &Browser, config: &str) {
    let script = format!(
        "const heads = [...document.querySelectorAll('.ticks thead label')];
         heads.find(head => head.textContent.includes('{config}')).click();
         return true;"
    );
    browser.eval(&script).await;
}

/// From now on the page gets the answer to what it sends a second after it is there, and
/// `window.answered` is true when it has read it.
async fn answers_come_late(browser: &Browser) {
    let late = "const fetch = window.fetch;
                window.fetch = async request => {
                    const answer = await fetch(request);
                    if (request.method === 'POST') {
                        await new Promise(later => setTimeout(later, 1000));
                        setTimeout(() => { window.answered = true; }, 100);
                    }
                    return answer;
                };
                return true;";
    browser.eval(late).await;
}

async fn pictures(browser: &Browser, name: &str) {
    for viewport in [Viewport::Desktop, Viewport::Phone] {
        for theme in [Theme::Light, Theme::Dark] {
            browser.set_viewport(viewport).await;
            browser.set_theme(theme).await;
            let name = format!("{name}-{viewport:?}-{theme:?}").to_lowercase();
            browser.screenshot(&name).await;
            let wide = browser.too_wide().await;
            assert!(wide.is_empty(), "{name} scrolls sideways: {wide:?}");
        }
    }
    browser.set_viewport(Viewport::Desktop).await;
    browser.set_theme(Theme::Light).await;
}

/// The grid says what goes wrong where, and clicking a cell shows the facts behind it.
async fn offloaders_are_told(browser: &Browser) {
    let grid = "return document.querySelectorAll('.offloaders-cell').length >= 60;";
    browser.wait_until("the grid is there", grid).await;
    let cell = "const lines = [...document.querySelectorAll('.offloaders-grid tbody tr')];
                const line = lines.find(line => line.textContent.startsWith('vl-qwen3.5-9b'));
                const heads = [...document.querySelectorAll('.offloaders-grid thead th')];
                const at = heads.findIndex(head => head.textContent.startsWith('trl-1.5'));
                const cell = line.children[at].querySelector('.offloaders-cell');
                cell.click();
                return cell.querySelector('.badge').textContent;";
    assert_eq!(browser.eval(cell).await, "corrupts");
    let told = "const chosen = document.querySelector('.offloaders-chosen');
                return !!chosen && chosen.textContent.includes('60.386') &&
                    chosen.textContent.includes('--base trl-1.5') &&
                    location.search.includes('cell=');";
    browser
        .wait_until("the cell says what the real run's loss was", told)
        .await;
}

/// Each point of the frontier can be reached by keyboard, has a title, and appears in words in the
/// list. Both limits are drawn.
async fn the_frontier_is_told(browser: &Browser) {
    let there = "return document.querySelectorAll('.frontier-plot .frontier-dot').length >= 8;";
    browser.wait_until("the frontier is there", there).await;
    let told = "const dots = [...document.querySelectorAll('.frontier-plot .frontier-dot')];
                const list = [...document.querySelectorAll('.frontier-list li')];
                const reached = dots.every(dot => {
                    dot.focus();
                    return document.activeElement === dot && dot.title.includes('GiB');
                });
                const box = document.querySelector('.frontier-plot').getBoundingClientRect();
                const inside = dots.every(dot => {
                    const at = dot.getBoundingClientRect();
                    const x = (at.left + at.right) / 2, y = (at.top + at.bottom) / 2;
                    return x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;
                });
                const limits = document.querySelector('.frontier-plot path').getAttribute('d');
                return reached && inside && list.length === dots.length &&
                    limits.split('M').length === 3;";
    assert_eq!(browser.eval(told).await, true);
}

async fn a_filter_without_rows_is_cleared(browser: &Browser) {
    let typed = "const field = document.querySelector('[aria-label=\"Filter rows\"]');
                 field.value = 'no such patch';
                 field.dispatchEvent(new Event('input', { bubbles: true }));
                 return null;";
    browser.eval(typed).await;
    let none = "return document.querySelectorAll('.bench-row').length === 0
                && location.search.includes('such');";
    browser.wait_until("no row", none).await;
    browser.click(".no-match button").await;
    let all = "return document.querySelectorAll('.bench-row').length === 2
               && !document.querySelector('.no-match')
               && document.querySelector('[aria-label=\"Filter rows\"]').value === ''
               && !location.search.includes('such') && location.search.includes('bench=');";
    browser.wait_until("all rows again", all).await;
}

#[tokio::test]
async fn a_bench_is_chosen_watched_and_opened() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    browser.click(".app-nav a[href='/bench']").await;
    let empty = "return !!document.querySelector('.bench-empty .button');";
    browser
        .wait_until("the empty page offers something", empty)
        .await;
    pictures(&browser, "bench-empty").await;

    // The page hears of the bench, and folds the form, before the request that started it is
    // answered.
    answers_come_late(&browser).await;
    // Deselects the suggestion and selects a small configuration.
    tick(&browser, "vl-qwen3.5-9b").await;
    tick(&browser, "dedupe-reuse").await;
    browser.click(".chooser-start .button").await;
    let rows = "return document.querySelectorAll('.bench-row').length === 2;";
    browser.wait_until("the rows are there", rows).await;
    let done = "const badges = [...document.querySelectorAll('.bench-row .badge')];
                const words = badges.map(badge => badge.textContent);
                return words.length === 2 && words[0] === 'BASELINE' &&
                    !words.includes('QUEUED') && !words.includes('RUNNING');";
    browser
        .wait_within(Duration::from_secs(120), "every row is done", done)
        .await;
    // The address is written a moment after the state changes.
    let address = "return location.search.includes('bench=ben_');";
    browser
        .wait_until("the address names the bench", address)
        .await;
    let spark = "return document.querySelectorAll('.spark polyline').length >= 2;";
    browser.wait_until("the steps are drawn", spark).await;
    pictures(&browser, "bench-matrix").await;
    offloaders_are_told(&browser).await;
    the_frontier_is_told(&browser).await;
    a_filter_without_rows_is_cleared(&browser).await;

    browser
        .click(".bench-row.base td a[href^=\"/runs/\"]")
        .await;
    let drawn = "return location.pathname.startsWith('/runs/run_') && \
                 !!document.querySelector('.timeline') && \
                 !document.querySelector('.timeline-skeleton.shown');";
    browser.wait_until("the row's run is drawn", drawn).await;
    let title = "return document.querySelector('.run-title h1').textContent;";
    assert_eq!(browser.eval(title).await, "dedupe-reuse · baseline");
    let exports = "return document.querySelectorAll('.export-menu a[download]').length;";
    assert_eq!(browser.eval(exports).await, 3);
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_bench_goes_on_when_its_page_is_left_before_the_answer() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/bench")).await;
    answers_come_late(&browser).await;
    browser.click(".bench-empty .button").await;
    browser.click(".app-nav a[href='/']").await;
    let answered = "return !document.querySelector('.bench-page') && window.answered === true;";
    browser.wait_until("the answer is there", answered).await;
    let here = "return location.pathname + location.search;";
    assert_eq!(browser.eval(here).await, "/");

    browser.click(".app-nav a[href='/bench']").await;
    let rows = "return document.querySelectorAll('.bench-row').length > 2;";
    browser.wait_until("the bench is there", rows).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn what_was_cancelled_runs_again_with_one_click() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/bench")).await;
    browser.click(".bench-empty .button").await;
    let busy = "return !!document.querySelector('.bench-standing .button');";
    browser.wait_until("the bench runs", busy).await;
    browser.click(".bench-standing .button").await;
    let offered = "const button = document.querySelector('.bench-standing .button');
                   return !!button && /^Run the \\d+ cancelled rows?$/.test(button.textContent);";
    browser.wait_until("the rest is offered", offered).await;
    browser.click(".bench-standing .button").await;
    let none = "return !document.querySelector('.bench-standing p').textContent
                    .includes('cancelled');";
    browser.wait_until("all of them wait or run", none).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
