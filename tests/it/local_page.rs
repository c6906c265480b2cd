//! The page without a server: built into a folder, served by a plain web server, and nothing
//! leaves the browser.

use crate::explore::{choose_file, wait_for_picture};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use tests::{Browser, StaticSite, Theme, Viewport};

/// What the command line says about leaks in a file.
fn verdict(name: &str) -> String {
    let output = Command::new(tests::tidemark())
        .args(["inspect", "--json"])
        .arg(fixture(name))
        .output()
        .expect("tidemark runs");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let reason = document["leaks"]["reason"].as_str().expect("a sentence");
    // What follows is about the limits of the verdict.
    reason.split(';').next().unwrap_or(reason).to_owned()
}

fn fixture(name: &str) -> PathBuf {
    tests::workspace_root().join(format!("tests/fixtures/{name}.pickle.zst"))
}

/// Chooses a file; the page shows its run.
async fn open(browser: &Browser, name: &str) {
    choose_file(browser, &fixture(name)).await;
    let shown = format!(
        "return document.querySelector('h1')?.innerText.includes('{name}') ||
            [...document.querySelectorAll('.run-link')].some(
                link => link.textContent.includes('{name}'));"
    );
    browser.wait_until("the run", &shown).await;
}

/// Leads to an address as a link of the page does: a new load would forget the files.
async fn follow(browser: &Browser, address: &str) {
    let script = format!(
        "const link = document.createElement('a');
         link.href = '{address}';
         document.querySelector('main').append(link);
         link.click();
         return null;"
    );
    browser.eval(&script).await;
}

/// Everything that was asked over the network: of this site, its own files only; of other sites,
/// nothing.
async fn nothing_left(browser: &Browser, site: &StaticSite) {
    for line in site.asked() {
        let asset = line.starts_with("GET /assets/");
        let page = ["GET / ", "GET /runs/run_", "GET /compare?"];
        let is_page = page.iter().any(|start| line.starts_with(start));
        assert!(asset || is_page, "{line}");
    }
    let script = "return performance.getEntriesByType('resource').map(entry => entry.name);";
    let names = browser.eval(script).await;
    for name in names.as_array().expect("a list") {
        let name = name.as_str().unwrap_or_default();
        assert!(name.starts_with(&site.url("/assets/")), "{name}");
    }
}

#[tokio::test]
async fn a_file_is_opened_and_nothing_leaves_the_browser() {
    let site = StaticSite::of(&tests::local_page());
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&site.url("/")).await;
    open(&browser, "leak_hook_cache").await;
    wait_for_picture(&browser).await;
    assert!(browser.painted_pixels(".timeline-canvas").await > 20_000);
    browser.screenshot("local-run").await;
    let click = "document.getElementById('tab-leaks').click(); return null;";
    browser.eval(click).await;
    let said = "return document.querySelector('.verdict')?.innerText.length > 20;";
    browser.wait_until("the verdict", said).await;
    let said = browser.text(".verdict").await;
    assert!(said.contains(&verdict("leak_hook_cache")), "{said}");
    browser.screenshot("local-leaks").await;

    // The address names the run. After a reload it is not open, and the page says what to do.
    let address = browser.page.current_url().await.expect("an address");
    browser.goto(address.as_str()).await;
    let told = "return document.body.innerText.includes('Open the same file again');";
    browser.wait_until("what to do", told).await;
    browser.screenshot("local-not-open").await;
    nothing_left(&browser, &site).await;
}

#[tokio::test]
async fn two_files_are_compared_without_a_server() {
    let site = StaticSite::of(&tests::local_page());
    let browser = Browser::open(Viewport::Desktop, Theme::Dark).await;
    browser.goto(&site.url("/")).await;
    open(&browser, "off_v1_moe").await;
    wait_for_picture(&browser).await;
    follow(&browser, "/").await;
    open(&browser, "off_v3_moe").await;
    let script = "return (async () => (await (await fetch('/api/runs')).json())
        .map(run => [run.name, run.id]))();";
    let runs = browser.eval(script).await;
    let id = |name: &str| -> Value {
        let all = runs.as_array().expect("a list");
        let found = all
            .iter()
            .find(|run| run[0].as_str().is_some_and(|of| of.starts_with(name)));
        found.map_or(json!(null), |run| run[1].clone())
    };
    let (base, new) = (id("off_v1_moe"), id("off_v3_moe"));
    let (base, new) = (base.as_str().expect("an id"), new.as_str().expect("an id"));
    follow(&browser, &format!("/compare?v=1&runs={base},{new}")).await;
    let drawn = "const stage = document.querySelector('.overlay-stage');
        return stage?.ariaBusy === 'false' && !document.querySelector('.overlay-skeleton.shown');";
    browser.wait_until("the curves", drawn).await;
    let headline = browser.text(".card-headline").await;
    assert!(
        headline.contains("−4.80 GiB (6.00 GiB → 1.20 GiB)"),
        "{headline}"
    );
    browser.screenshot("local-compare").await;
    nothing_left(&browser, &site).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
