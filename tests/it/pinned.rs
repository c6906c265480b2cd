//! Pinned memory of the host in a browser: beside the device's lines, and on a timeline of its own.

use super::explore::wait_for_picture;
use api::routes;
use api::runs::FinishedUpload;
use serde_json::json;
use tests::{Browser, TestServer, Theme, Viewport};

/// A server with a run that leaks pinned memory, the run's page, and a browser that shows it.
async fn leaking() -> (TestServer, String, Browser) {
    let server = TestServer::start();
    let fixture = tests::workspace_root().join("tests/fixtures/pinned_leak.pickle.zst");
    let sent = ureq::put(server.url(&routes::upload_named("pinned_leak.pickle.zst")))
        .send(std::fs::read(fixture).expect("a fixture").as_slice());
    let answer = sent.expect("it is kept").body_mut().read_to_vec();
    let answer = answer.expect("a whole answer");
    let sent: FinishedUpload = serde_json::from_slice(&answer).expect("a run");
    let page = server.url(&routes::run_page(&sent.run.id));
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&page).await;
    wait_for_picture(&browser).await;
    (server, page, browser)
}

#[tokio::test]
async fn pinned_memory_is_a_line_beside_the_device_and_has_its_own_timeline() {
    let (_server, page, browser) = leaking().await;
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

/// The last block that the program keeps never comes up again: its arc is near the right end.
#[tokio::test]
async fn an_arc_says_when_its_block_was_taken_and_given_back() {
    let (_server, _, browser) = leaking().await;
    let lane = "const canvas = document.querySelector('.timeline canvas'); \
                canvas.scrollIntoView({block: 'end', behavior: 'instant'}); \
                const box = canvas.getBoundingClientRect(); \
                return [box.left, box.width, box.bottom];";
    let lane = browser.eval(lane).await;
    let [left, width, bottom] = [0, 1, 2].map(|at| lane[at].as_f64().expect("a number"));
    let mut told = String::new();
    for above in 26..70 {
        let place = json!({
            "type": "mouseMoved", "x": left + width * 0.99, "y": bottom - f64::from(above),
        });
        browser.cdp("Input.dispatchMouseEvent", place).await;
        browser.painted().await;
        told = browser.text(".timeline-tooltip").await;
        if told.contains("given back") {
            break;
        }
    }
    browser.screenshot("pinned-arc").await;
    assert!(told.contains("2.00 MiB (2,097,152 B)"), "{told}");
    assert!(told.contains("never, in this recording"), "{told}");
}
