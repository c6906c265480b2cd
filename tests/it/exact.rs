//! All digits of sizes, and times instead of ages, for fingers and keyboards: a title is only for
//! the mouse.

use super::explore::{choose_file, wait_for_picture};
use tests::{Browser, TestServer, Theme, Viewport};

const SWITCH: &str = "[aria-label='Exact sizes and times']";

/// Waits until the table of what is alive has sizes of this form, and says how the switch stands.
async fn alive(browser: &Browser, form: &str, pressed: bool) {
    let script = format!(
        "const sizes = [...document.querySelectorAll('.share-table td.num:nth-of-type(1)')];
         const pressed = document.querySelector(\"{SWITCH}\")?.getAttribute('aria-pressed');
         return sizes.length > 0 && sizes.every(size => {form}.test(size.textContent))
             && pressed === '{pressed}';"
    );
    browser.wait_until("sizes of this form", &script).await;
}

#[tokio::test]
async fn every_size_and_time_can_be_read_exactly() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Phone, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let file = tests::workspace_root().join("tests/fixtures/leak_hook_cache.pickle.zst");
    choose_file(&browser, &file).await;
    let there = "return location.pathname.startsWith('/runs/');";
    browser.wait_until("the run's page", there).await;
    wait_for_picture(&browser).await;
    browser.click("#tab-alive").await;
    let rounded = r"/^[\d.]+ [KMG]?i?B$/";
    let exact = r"/^(\d{1,3},)*\d{1,3} B$/";
    alive(&browser, rounded, false).await;
    let address = browser.eval("return location.search;").await;

    browser.click(SWITCH).await;
    alive(&browser, exact, true).await;
    let summary = browser.text(".alive-summary").await;
    assert!(summary.contains(" B allocated"), "{summary}");
    // No link says it; the browser keeps it.
    assert_eq!(browser.eval("return location.search;").await, address);
    browser.eval("location.reload(); return null;").await;
    alive(&browser, exact, true).await;
    assert!(!browser.scrolls_sideways().await);

    browser.click("a.run-back").await;
    let time = r"const age = document.querySelector('tr.run')?.textContent ?? '';
                 return /\d{4}-\d\d-\d\d \d\d:\d\d UTC/.test(age);";
    browser.wait_until("when it was uploaded", time).await;
    browser.click(SWITCH).await;
    let age = "const age = document.querySelector('tr.run')?.textContent ?? '';
               return /just now|min ago/.test(age);";
    browser
        .wait_until("how long ago it was uploaded", age)
        .await;
    assert!(!browser.scrolls_sideways().await);
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
