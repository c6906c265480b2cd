//! The compare page: from two uploads to an answer, and a link that opens exactly this view again.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use tests::{Browser, TestServer, Theme, Viewport};

const DRAWN: &str = "const stage = document.querySelector('.overlay-stage');
    return stage?.ariaBusy === 'false' && !document.querySelector('.overlay-skeleton.shown');";

/// Pushes files with the command line; returns the link that it prints.
fn push(server: &TestServer, files: &[PathBuf]) -> String {
    let output = Command::new(tests::tidemark())
        .args(["push", "--compare", "--json", "--server", &server.url("")])
        .args(files)
        .output()
        .expect("tidemark runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let pushed: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let markdown = pushed["markdown"].as_str().expect("Markdown");
    let link = pushed["link"].as_str().expect("a link").to_owned();
    assert!(markdown.contains(&link), "{markdown}");
    link
}

fn fixtures() -> Vec<PathBuf> {
    let file =
        |name: &str| tests::workspace_root().join(format!("tests/fixtures/{name}.pickle.zst"));
    vec![file("off_v1_moe"), file("off_v3_moe")]
}

/// The Markdown block for a pull request has the card, and the address of the card works.
async fn block_for_a_pull_request(browser: &Browser) {
    let opened_block = "[...document.querySelectorAll('button')] \
                        .find(one => one.innerText === 'Copy for PR').click(); return null;";
    browser.eval(opened_block).await;
    let block = "return /!\\[.*card\\.png/.test( \
                 document.querySelector('dialog[open] textarea')?.value ?? '');";
    browser
        .wait_until("the block with its picture", block)
        .await;
    browser.screenshot("compare-for-pr").await;
    let card = browser
        .page
        .execute_async(
            "const done = arguments[0];
             const block = document.querySelector('dialog[open] textarea').value;
             const image = new Image();
             image.onload = () => done([image.naturalWidth, image.naturalHeight]);
             image.onerror = () => done('it does not load');
             image.src = /!\\[.*?\\]\\((.*?)\\)/.exec(block)[1];",
            Vec::new(),
        )
        .await;
    assert_eq!(card.expect("an answer"), json!([1200, 630]));
    browser
        .eval("document.querySelector('dialog[open]').close(); return null;")
        .await;
}

#[tokio::test]
async fn a_patch_is_held_against_its_baseline_and_the_link_reopens_the_view() {
    let server = TestServer::start();
    let link = push(&server, &fixtures());
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&link).await;
    browser.wait_until("the curves", DRAWN).await;
    assert!(
        browser.painted_pixels(".overlay-canvas").await > 20_000,
        "the picture is empty"
    );
    let headline = browser.text(".card-headline").await;
    assert!(
        headline.contains("−4.80 GiB (6.00 GiB → 1.20 GiB)"),
        "{headline}"
    );
    assert!(headline.contains("the leak in"), "{headline}");
    let gate = browser.text(".badge.good").await;
    assert_eq!(gate, "passes the gate");
    browser.screenshot("compare-whole").await;

    // The largest difference opens to show both stacks, each with a link to its timeline.
    browser.click(".site-head").await;
    let opened = "return document.querySelectorAll('.site-detail .site-side').length === 2 && \
                  /sel=/.test(location.search);";
    browser.wait_until("both stacks", opened).await;
    let timelines = "return [...document.querySelectorAll('.site-detail a.button')] \
                     .every(link => /^\\/runs\\/run_.*sel=g\\d+/.test(link.getAttribute('href')));";
    assert_eq!(browser.eval(timelines).await, Value::Bool(true));

    // A step of the table is shown in the picture, where the keyboard reads exact values.
    browser
        .click(".steps-table tbody tr:nth-child(5) button")
        .await;
    browser
        .wait_until("the window", "return /from=4&to=5/.test(location.search);")
        .await;
    browser.wait_until("the finer curves", DRAWN).await;
    browser
        .eval("document.querySelector('.overlay-stage').focus(); return null;")
        .await;
    browser.press("ArrowRight").await;
    let read = "return /^step 4, \\d+ % through$/.test( \
                document.querySelector('.values-place').innerText);";
    browser.wait_until("a readout", read).await;
    assert!(browser.text(".values-level").await.contains("iB"));
    browser.screenshot("compare-step").await;

    block_for_a_pull_request(&browser).await;

    // The address contains the whole view and also works in a new profile.
    let address = browser.eval("return location.href;").await;
    let fresh = Browser::open(Viewport::Desktop, Theme::Light).await;
    fresh.goto(address.as_str().expect("an address")).await;
    fresh.wait_until("the curves of the link", DRAWN).await;
    fresh.wait_until("the selection of the link", opened).await;
    assert_eq!(fresh.eval("return location.href;").await, address);
    for browser in [&browser, &fresh] {
        assert_eq!(browser.complaints().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn runs_are_picked_in_the_list_and_compared() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/compare")).await;
    let empty = "return /no runs yet/.test(document.body.innerText);";
    browser.wait_until("what to do without runs", empty).await;
    push(&server, &fixtures());
    browser.goto(&server.url("/")).await;
    let rows = "return document.querySelectorAll('.run-pick').length === 2;";
    browser.wait_until("the list", rows).await;
    browser.click("tr:nth-child(1) .run-pick").await;
    browser
        .wait_until(
            "a hint",
            "return /pick one more/.test(document.body.innerText);",
        )
        .await;
    browser.click("tr:nth-child(2) .run-pick").await;
    browser.click(".picked-bar .button").await;
    browser.wait_until("the curves", DRAWN).await;
    // The newest run was selected first, so the leak is the new run.
    assert!(browser.text(".card-headline").await.contains("a new leak"));
    assert_eq!(browser.text(".badge.bad").await, "regression");
    browser.click(".chip:nth-child(2) .chip-button").await;
    let swapped = "return /the leak in .* is gone/.test( \
                   document.querySelector('.card-headline')?.innerText ?? '');";
    browser.wait_until("the other baseline", swapped).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_page_shows_in_both_themes_and_sizes() {
    let server = TestServer::start();
    let link = push(&server, &fixtures());
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    for (page, url) in [
        ("compare", &link),
        ("compare-empty", &server.url("/compare")),
    ] {
        browser.goto(url).await;
        for viewport in [Viewport::Desktop, Viewport::Phone] {
            for theme in [Theme::Light, Theme::Dark] {
                browser.set_viewport(viewport).await;
                browser.set_theme(theme).await;
                let there = match page {
                    "compare" => DRAWN,
                    _ => "return !!document.querySelector('.pick-row');",
                };
                browser.wait_until(page, there).await;
                browser.painted().await;
                let name = format!("{page}-{viewport:?}-{theme:?}").to_lowercase();
                browser.screenshot(&name).await;
                assert!(!browser.scrolls_sideways().await, "{name} scrolls sideways");
            }
        }
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
