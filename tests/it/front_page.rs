//! The whole chain from the compiler to the screen: a browser loads the embedded front end and runs
//! it.

use fantoccini::Locator;
use tests::{Browser, TestServer, Theme, Viewport};

#[tokio::test]
async fn front_page_shows_the_application() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let root = browser.page.wait().for_element(Locator::Css("main")).await;
    let text = root.expect("the application is on the page").text().await;
    assert!(!text.unwrap().trim().is_empty());
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// What a browser loads of the application, in bytes, packed.
const LOADED: &str = "return [...performance.getEntriesByType('navigation'), \
    ...performance.getEntriesByType('resource')] \
    .filter(entry => !entry.name.includes('/api/')) \
    .reduce((sum, entry) => sum + entry.encodedBodySize, 0);";

#[tokio::test]
async fn the_application_is_small_enough_for_a_slow_line() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let root = browser.page.wait().for_element(Locator::Css("main")).await;
    root.expect("the application is on the page");
    let loaded = browser.eval(LOADED).await.as_f64().expect("a number");
    assert!((100e3..=700e3).contains(&loaded), "{loaded} bytes");
}

#[tokio::test]
async fn both_themes_and_both_sizes_reach_the_page() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    for viewport in [Viewport::Desktop, Viewport::Phone] {
        for theme in [Theme::Light, Theme::Dark] {
            browser.set_viewport(viewport).await;
            browser.set_theme(theme).await;
            let seen = browser
                .eval("return [innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]")
                .await;
            let width = if viewport == Viewport::Desktop {
                1440
            } else {
                390
            };
            assert_eq!(seen, serde_json::json!([width, theme == Theme::Dark]));
            let main = browser.page.wait().for_element(Locator::Css("main")).await;
            main.expect("the application is on the page");
            let name = format!("front-{viewport:?}-{theme:?}").to_lowercase();
            browser.screenshot(&name).await;
        }
    }
}
