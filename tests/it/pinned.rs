//! Pinned memory of the host in a browser: beside the device's lines, and on a timeline of its own.

use super::explore::wait_for_picture;
use api::routes;
use api::runs::FinishedUpload;
use tests::{Browser, TestServer, Theme, Viewport};

#[tokio::test]
async fn pinned_memory_is_a_line_beside_the_device_and_has_its_own_timeline() {
    let server = TestServer::start();
    let fixture = tests::workspace_root().join("tests/fixtures/pinned_leak.pickle.zst");
    let sent = ureq::put(server.url(&routes::upload_named("pinned_leak.pickle.zst")))
        .send(std::fs::read(fixture).expect("a fixture").as_slice());
    let answer = sent.expect("it is kept").body_mut().read_to_vec();
    let answer = answer.expect("a whole answer");
    let sent: FinishedUpload = serde_json::from_slice(&answer).expect("a run");

    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    let page = server.url(&routes::run_page(&sent.run.id));
    browser.goto(&page).await;
    wait_for_picture(&browser).await;
    let legend = browser.text(".legend-item.pinned").await;
    assert!(legend.contains("47.0 MiB"), "its peak: {legend}");
    let options = "return [...document.querySelectorAll('select[aria-label=Device] option')]
                   .map(option => option.textContent);";
    let options = browser.eval(options).await;
    assert_eq!(options[1], "pinned host memory · 47.0 MiB", "{options}");
    for viewport in [Viewport::Desktop, Viewport::Phone] {
        for theme in [Theme::Light, Theme::Dark] {
            browser.set_viewport(viewport).await;
            browser.set_theme(theme).await;
            browser.painted().await;
            let name = format!("pinned-{viewport:?}-{theme:?}").to_lowercase();
            browser.screenshot(&name).await;
            assert!(!browser.scrolls_sideways().await, "{name} scrolls sideways");
        }
    }
    browser.set_viewport(Viewport::Desktop).await;
    browser.set_theme(Theme::Light).await;

    // Chosen as a device is, it has the same tabs.
    browser.goto(&format!("{page}?v=2&dev=128&tab=leaks")).await;
    let told = "return document.querySelector('.questions')?.textContent.includes('2.00 MiB');";
    browser.wait_until("what leaks", told).await;
    browser.screenshot("pinned-leaks").await;
    let legend = browser
        .eval("return !!document.querySelector('.legend-item.pinned');")
        .await;
    assert_eq!(legend, false, "it is not drawn beside itself");
    for tab in ["alive", "allocations", "map", "what-if"] {
        browser.goto(&format!("{page}?v=2&dev=128&tab={tab}")).await;
        let ready = "return document.querySelector('.questions') && \
                     !document.querySelector('.questions [aria-busy=true]');";
        browser.wait_until("the tab", ready).await;
        browser.painted().await;
        browser.screenshot(&format!("pinned-{tab}")).await;
    }
}
