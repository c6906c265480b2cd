//! Who typed the access token is listed, and can be signed out: another browser, all others, this.

use fantoccini::Locator;
use std::fs;
use tempfile::TempDir;
use tests::{Browser, Page, TestServer, Theme, Viewport};

use super::eyes::axe;

const TOKEN: &str = "correct-horse-battery-staple-0001";

/// The page asks for the token.
const ASKED: &str = "return !!document.querySelector('dialog[open] #token');";

/// A server that asks for the token, and the folder that holds it.
fn closed() -> (TempDir, TestServer) {
    let folder = TempDir::with_prefix("tidemark-token-").expect("a temporary folder");
    let file = folder.path().join("token");
    fs::write(&file, TOKEN).expect("the token is kept");
    let file = file.to_str().expect("a path in UTF-8");
    let server = TestServer::start_with(&["--token-file", file]);
    (folder, server)
}

/// Types the token; the button that lists the sessions is there then.
async fn sign_in(browser: &Browser, server: &TestServer) {
    browser.goto(&server.url("/")).await;
    let field = browser.page.wait().for_element(Locator::Css("#token"));
    let field = field.await.expect("the page asks for the token");
    field.send_keys(TOKEN).await.expect("a field");
    browser.click(".token-form button").await;
    let button = "return !!document.querySelector('button[aria-label=\"Who is signed in\"]') && \
                  !document.querySelector('dialog[open]');";
    browser.wait_until("the button", button).await;
}

async fn list(browser: &Browser, expected: usize) {
    let there = format!("return document.querySelectorAll('.session').length === {expected};");
    browser.wait_until("the sessions", &there).await;
}

#[tokio::test]
async fn browsers_are_listed_and_signed_out() {
    let (_token, server) = closed();
    let mine = Browser::open(Viewport::Desktop, Theme::Light).await;
    let other = Browser::open(Viewport::Desktop, Theme::Light).await;
    sign_in(&other, &server).await;
    sign_in(&mine, &server).await;

    mine.click("button[aria-label=\"Who is signed in\"]").await;
    list(&mine, 2).await;
    let text = mine
        .eval("return [...document.querySelectorAll('.session')].map(row => row.textContent);")
        .await;
    let rows: Vec<String> = serde_json::from_value(text).expect("texts");
    let own = rows.iter().filter(|row| row.contains("this browser"));
    assert_eq!(own.count(), 1, "{rows:?}");
    for row in &rows {
        assert!(
            row.contains("last used") && row.contains("127.0.0.1"),
            "{row}"
        );
    }
    mine.screenshot("sessions").await;
    mine.set_viewport(Viewport::Phone).await;
    mine.set_theme(Theme::Dark).await;
    assert!(!mine.scrolls_sideways().await);
    mine.screenshot("sessions-phone-dark").await;
    mine.set_viewport(Viewport::Desktop).await;

    // One of them, then all but this one, then this one.
    mine.click(".session .link-button").await;
    list(&mine, 1).await;
    other.goto(&server.url("/")).await;
    other.wait_until("the question for the token", ASKED).await;
    sign_in(&other, &server).await;
    mine.goto(&server.url("/")).await;
    mine.click("button[aria-label=\"Who is signed in\"]").await;
    list(&mine, 2).await;
    mine.click(".sessions-end button:first-of-type").await;
    list(&mine, 1).await;
    other.goto(&server.url("/")).await;
    other.wait_until("the question for the token", ASKED).await;
    mine.click(".sessions-end button:last-of-type").await;
    mine.wait_until("the question for the token", ASKED).await;
}

/// The list differs from one visit to the next, so it has no approved picture.
#[tokio::test]
async fn everybody_can_see_and_reach_the_list() {
    let (_token, server) = closed();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.add_to_pages(axe::AXE).await;
    sign_in(&browser, &server).await;
    browser
        .click("button[aria-label=\"Who is signed in\"]")
        .await;
    list(&browser, 1).await;
    for viewport in [Viewport::Desktop, Viewport::Phone] {
        browser.set_viewport(viewport).await;
        for theme in [Theme::Light, Theme::Dark] {
            browser.set_still_theme(theme).await;
            let mut wrong = browser.out_of_sight().await;
            wrong.extend(axe::findings(&browser).await);
            assert!(wrong.is_empty(), "{viewport:?} {theme:?}: {wrong:#?}");
        }
    }
}

#[tokio::test]
async fn where_no_token_is_needed_nobody_is_signed_in() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let settled = "const asked = performance.getEntriesByType('resource'); \
                   return !!document.querySelector('button.sample') && \
                   asked.some(it => it.name.endsWith('/api/server') && it.responseEnd > 0);";
    browser.wait_until("the server's answer", settled).await;
    let button = "return !document.querySelector('button[aria-label=\"Who is signed in\"]');";
    assert!(browser.eval(button).await.as_bool().expect("a yes or no"));
}
