//! Pages without a mouse: the focus is never lost, and what is chosen shows where people choose the
//! colours.

use crate::eyes::world::upload_fixture;
use serde_json::json;
use tests::{Browser, TestServer, Theme, Viewport};

async fn wait_for(browser: &Browser, selector: &str) {
    let there = format!("return !!document.querySelector({selector:?});");
    browser.wait_until(selector, &there).await;
}

async fn focus(browser: &Browser, selector: &str) {
    let focus = format!(
        "const it = document.querySelector({selector:?}); it?.focus(); \
         return !!it && document.activeElement === it;"
    );
    browser.wait_until(selector, &focus).await;
}

/// Waits until the focus is where it should be; otherwise the message says where it is.
async fn holds_focus(browser: &Browser, after: &str, selector: &str) {
    let held = format!("return document.activeElement?.matches({selector:?}) ?? false;");
    let started = std::time::Instant::now();
    while browser.eval(&held).await != true {
        let on = "return document.activeElement?.outerHTML.slice(0, 200);";
        let on = browser.eval(on).await;
        assert!(started.elapsed().as_secs() < 20, "{after}: on {on}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_focus_stays_in_the_list_of_runs() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    for name in ["plain_lm", "streams", "oom"] {
        upload_fixture(&server, name);
    }
    browser.goto(&server.url("/")).await;
    focus(&browser, "[aria-label^=Delete]").await;
    browser.press("Enter").await;
    holds_focus(&browser, "the bin", ".run-link").await;
    // The only row that is found.
    browser.goto(&server.url("/?v=1&q=plain")).await;
    focus(&browser, ".run-link").await;
    browser.press("Delete").await;
    holds_focus(&browser, "Delete", ".toolbar input").await;
}

#[tokio::test]
async fn the_focus_stays_beside_an_answer() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    let leaking = upload_fixture(&server, "off_v1_moe");
    let run = |query: &str| server.url(&format!("/runs/{leaking}?v=5{query}"));
    browser.goto(&run("&tab=leaks")).await;
    focus(&browser, ".group-name").await;
    browser.press("Enter").await;
    focus(&browser, ".selected-group .button").await;
    browser.press("Enter").await;
    holds_focus(&browser, "Let go of the group", ".group-name").await;

    browser.goto(&run("&tab=allocations")).await;
    for button in ["first-child", "last-child"] {
        let button = format!(".allocations-head .button:{button}");
        focus(&browser, &button).await;
        browser.press("Enter").await;
        holds_focus(&browser, "Previous or Next", &button).await;
    }
}

#[tokio::test]
async fn the_blocks_of_a_map_are_walked_and_told() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    let run = upload_fixture(&server, "off_v1_moe");
    let map = server.url(&format!("/runs/{run}?v=5&tab=map"));
    browser.goto(&map).await;
    focus(&browser, ".map-plot").await;
    browser.press("ArrowRight").await;
    // The block that the arrow led to.
    wait_for(&browser, ".map-pointed").await;
    browser.press("Enter").await;
    wait_for(&browser, ".panel .facts").await;
    let said = "return [...document.querySelectorAll('[aria-live=polite]')]
        .some(line => / [KM]iB, .*allocated.*freed/.test(line.textContent));";
    browser.wait_until("the block is told", said).await;
}

/// Waits until this is read out.
async fn is_told(browser: &Browser, what: &str, pattern: &str) {
    let told = format!(
        "return [...document.querySelectorAll('[aria-live=polite]')]
            .some(line => /{pattern}/.test(line.textContent));"
    );
    browser.wait_until(what, &told).await;
}

#[tokio::test]
async fn lines_are_read_and_groups_are_told() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    let run = upload_fixture(&server, "plain_lm");
    browser.goto(&server.url(&format!("/runs/{run}"))).await;
    wait_for(&browser, ".shares .share-row").await;
    focus(&browser, ".shares button").await;
    browser.press("Enter").await;
    is_told(
        &browser,
        "the group",
        "blocks? in this window, .* at its highest",
    )
    .await;
    browser.press("Escape").await;
    browser.press("m").await;
    wait_for(&browser, ".segment.pressed:last-child").await;
    focus(&browser, ".timeline-stage").await;
    let levels = "events? [0-9].*requested .*allocated .*active .*reserved ";
    browser.press("ArrowRight").await;
    is_told(&browser, "the lines in the middle", levels).await;
    let middle = "return document.querySelector('#timeline-window').textContent;";
    let before = browser.eval(middle).await;
    browser.press("ArrowRight").await;
    let moved =
        format!("return document.querySelector('#timeline-window').textContent !== {before};");
    browser.wait_until("the next place", &moved).await;
    is_told(&browser, "the lines there", levels).await;
    browser.press("Escape").await;
    is_told(&browser, "what is shown", "^Showing everything").await;
    // What the words of the legend mean is said without a pointer, too.
    focus(&browser, ".legend summary").await;
    browser.press("Enter").await;
    wait_for(&browser, ".legend details[open] dd").await;
}

#[tokio::test]
async fn the_help_is_about_the_page_and_a_number_leads_along_the_tabs() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    let runs = ["plain_lm", "streams"].map(|name| upload_fixture(&server, name));
    let titles = async || {
        browser.press("?").await;
        wait_for(&browser, "dialog[open] .help h3").await;
        let titles = "return [...document.querySelectorAll('dialog[open] .help h3')]
            .map(title => title.innerText);";
        let titles = browser.eval(titles).await;
        browser.press("Escape").await;
        titles
    };
    browser
        .goto(&server.url(&format!("/runs/{}?v=5&tab=alive", runs[0])))
        .await;
    focus(&browser, "#tab-alive").await;
    browser.press("4").await;
    holds_focus(
        &browser,
        "the number of a tab",
        "#tab-allocations[aria-selected=true]",
    )
    .await;
    let of_run = json!(["Everywhere", "Timeline of a run", "Below the timeline"]);
    assert_eq!(titles().await, of_run);

    let [base, new] = &runs;
    browser
        .goto(&server.url(&format!("/compare?v=1&runs={base},{new}")))
        .await;
    wait_for(&browser, ".overlay-stage").await;
    let of_comparison = json!([
        "Everywhere",
        "Picture of a comparison, while it has the focus"
    ]);
    assert_eq!(titles().await, of_comparison);

    browser.goto(&server.url("/")).await;
    wait_for(&browser, "tr.run").await;
    assert_eq!(titles().await, json!(["Everywhere", "Runs"]));
}

#[tokio::test]
async fn a_dialog_keeps_the_focus() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    let run = upload_fixture(&server, "plain_lm");
    browser.goto(&server.url(&format!("/runs/{run}"))).await;
    focus(&browser, ".share-open").await;
    browser.press("Enter").await;
    focus(&browser, "#share-note").await;
    browser.press("Enter").await;
    holds_focus(&browser, "Make the link", ".share-made .button").await;
    focus(&browser, ".share-buttons .button:last-child").await;
    browser.press("Enter").await;
    holds_focus(&browser, "Make another", "#share-note").await;
    focus(&browser, ".share-entry .link-button").await;
    browser.press("Enter").await;
    holds_focus(&browser, "Revoke", ".share-links").await;
}

#[tokio::test]
async fn what_is_chosen_shows_in_forced_colours() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    let run = upload_fixture(&server, "off_v1_moe");
    let forced = json!({ "features": [{ "name": "forced-colors", "value": "active" }] });
    browser.cdp("Emulation.setEmulatedMedia", forced).await;
    let pages = [
        ("/bench".to_owned(), "[aria-current=page]"),
        (format!("/runs/{run}?v=5&tab=map"), ".map-plot"),
        (format!("/runs/{run}?v=5&tab=alive"), ".box"),
    ];
    for (page, there) in pages {
        browser.goto(&server.url(&page)).await;
        wait_for(&browser, there).await;
        let alike = "
            const chosen = '[aria-selected=true], [aria-pressed=true], [aria-current=page]';
            return [...document.querySelectorAll(chosen)]
                .filter(one => one.checkVisibility() && one !== document.activeElement)
                .filter(one => getComputedStyle(one).outlineStyle === 'none')
                .map(one => one.outerHTML.slice(0, 120));";
        assert_eq!(browser.eval(alike).await, json!([]), "{page}");
        let plain = "
            const kept = (one, part) =>
                getComputedStyle(one, part).forcedColorAdjust === 'none';
            const data = '[class*=swatch], .legend-line, .share-bar, .box';
            const swatches = [...document.querySelectorAll(data)];
            const keys = [...document.querySelectorAll('.level-legend li')];
            return [...swatches.filter(one => !kept(one)),
                    ...keys.filter(one => !kept(one, '::before'))]
                .map(one => one.outerHTML.slice(0, 120));";
        assert_eq!(browser.eval(plain).await, json!([]), "{page}");
    }
}

#[tokio::test]
async fn every_page_is_in_the_head_of_a_narrow_screen() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Phone, Theme::Light).await;
    browser.goto(&server.url("/bench")).await;
    wait_for(&browser, "[aria-current=page]").await;
    let pages = "
        const shown = [...document.querySelectorAll('.app-nav a')].filter(a => a.checkVisibility());
        const last = shown.at(-1);
        last.focus();
        const [link, row] = [last, last.parentElement].map(it => it.getBoundingClientRect());
        return [shown.length, link.right <= row.right];";
    assert_eq!(browser.eval(pages).await, json!([9, true]));
}
