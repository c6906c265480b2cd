//! Many tabs of one browser: all of them load, all of them learn of changes, and none reads what it
//! does not show.

use super::eyes::world::upload_fixture;
use tests::{Browser, TestServer, Theme, Viewport};

/// More tabs than a browser opens connections to one HTTP/1.1 server.
const TABS: usize = 8;

#[tokio::test]
async fn eight_tabs_load_and_hear_of_a_new_run() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    let mut tabs = vec![browser.page.window().await.expect("a tab")];
    browser.goto(&server.url("/")).await;
    for _ in 1..TABS {
        let tab = browser
            .page
            .new_window(true)
            .await
            .expect("a new tab")
            .handle;
        browser
            .page
            .switch_to_window(tab.clone())
            .await
            .expect("the new tab");
        browser.goto(&server.url("/")).await;
        tabs.push(tab);
    }
    let loaded = "return !!document.querySelector('button.sample');";
    for tab in &tabs {
        browser
            .page
            .switch_to_window(tab.clone())
            .await
            .expect("the tab");
        browser
            .wait_until("the list of runs and samples", loaded)
            .await;
    }
    // One tab makes a run. The other tabs are told, or notice it when they are shown.
    browser.click("button.sample").await;
    let there = "return location.pathname.startsWith('/runs/');";
    browser.wait_until("the run's page", there).await;
    for tab in &tabs[..TABS - 1] {
        browser
            .page
            .switch_to_window(tab.clone())
            .await
            .expect("the tab");
        let listed = "return !!document.querySelector('a[href^=\"/runs/\"]');";
        browser.wait_until("the new run in the list", listed).await;
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_page_of_a_run_reads_that_run_when_others_come_and_no_list() {
    let server = TestServer::start();
    let run = upload_fixture(&server, "oom");
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url(&format!("/runs/{run}"))).await;
    let shown = "return !!document.querySelector('section.timeline');";
    browser.wait_until("the run", shown).await;
    browser
        .eval("performance.clearResourceTimings(); return null;")
        .await;
    upload_fixture(&server, "plain_lm");
    let asked = "const asked = performance.getEntriesByType('resource').map(it => it.name);
                 const [alone, list] = ['run=', 'offset='].map(part =>
                     asked.filter(name => name.includes('/api/runs?') && name.includes(part)));";
    let alone = format!("{asked} return alone.length > 0;");
    browser.wait_until("that it looks at its run", &alone).await;
    let lists = browser.eval(&format!("{asked} return list.length;")).await;
    assert_eq!(lists, 0);
    browser.click(".app-nav a[href='/']").await;
    let both = "return document.querySelectorAll('tr.run').length === 2;";
    browser.wait_until("the list with both", both).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
