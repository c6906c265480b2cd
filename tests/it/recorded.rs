//! Recordings of programs without annotations: one with a named pass, and one with a loop of which
//! the user selects another level as the steps.

use super::explore::{choose_file, wait_for_picture};
use tests::{Browser, TestServer, Theme, Viewport};

/// Opens the recording of a program without annotations.
async fn open(browser: &Browser, server: &TestServer, name: &str) {
    browser.goto(&server.url("/")).await;
    let file = format!("tests/fixtures/plain/{name}.pickle.zst");
    choose_file(browser, &tests::workspace_root().join(file)).await;
    let there = "return location.pathname.startsWith('/runs/');";
    browser.wait_until("the run's page", there).await;
    wait_for_picture(browser).await;
}

#[tokio::test]
async fn another_level_is_taken_for_steps() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    open(&browser, &server, "trainer_accumulation").await;
    let pressed = |count: u32, many: &str| {
        format!(
            "const one = document.querySelector('.recording-levels [aria-pressed=true]');
             const facts = document.querySelector('.fact-row')?.textContent ?? '';
             const summary = document.querySelector('#timeline-summary')?.textContent ?? '';
             return !!one?.textContent.endsWith(': {count}') && facts.endsWith('inferred{count}')
                 && summary.includes('{count} {many}');"
        )
    };
    browser
        .wait_until("the steps that are found", &pressed(6, "steps"))
        .await;
    let clean = browser.eval("return location.search;").await;
    assert_eq!(clean, "");
    let other = "const all = [...document.querySelectorAll('.recording-levels button')];
                 const one = all.find(b => b.textContent.endsWith(': 24'));
                 one?.click();
                 return !!one;";
    browser.wait_until("the micro-batches", other).await;
    let parts = pressed(24, "micro-batches");
    browser.wait_until("24 micro-batches", &parts).await;
    let address = "return /[?&]steps=/.test(location.search);";
    browser
        .wait_until("the level in the address", address)
        .await;

    // The address opened again selects the same level; the growth chart has a moment for each step.
    let link = browser.eval("return location.href;").await;
    let link = format!("{}&tab=leaks", link.as_str().expect("an address"));
    browser.goto(&link).await;
    wait_for_picture(&browser).await;
    browser.wait_until("24 micro-batches again", &parts).await;
    let labels = "const labels = [...document.querySelectorAll('.growth-moment')];
                  return labels.some(label => Number(label.textContent) >= 20);";
    browser.wait_until("24 moments", labels).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_single_pass_is_named_and_its_peak_is_taken_apart() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Phone, Theme::Dark).await;
    open(&browser, &server, "single_forward").await;
    let named = "return !!document.querySelector('.recording-what')?.textContent
                     .startsWith('One forward pass');";
    browser.wait_until("what was recorded", named).await;
    let inferred = "return !!document.querySelector('.recording-peak .badge')?.textContent
                        .includes('inferred');";
    browser.wait_until("that it is inferred", inferred).await;
    browser.click(".recording-category").await;
    let grouped = "return location.search.includes('group=category');";
    browser
        .wait_until("the category in the picture", grouped)
        .await;
    assert!(!browser.scrolls_sideways().await);
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
