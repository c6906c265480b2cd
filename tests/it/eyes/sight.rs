//! Everything that can be used is visible without pointing at it, is large enough, contrasts with
//! its background, is covered by nothing, and can be reached with the Tab key.

use serde_json::Value;
use tests::{Browser, Firefox, Page, TestServer, Theme, Viewport};

use super::views::{View, views};
use super::world::World;

/// True if the browser has a mouse that can hover. It points at nothing.
const HAS_MOUSE: &str = "return matchMedia('(hover: hover) and (pointer: fine)').matches;";

/// The faults of a view that is open; one line each.
pub async fn out_of_sight(page: &impl Page, view: &View, place: &str) -> Vec<String> {
    assert_eq!(
        page.eval(HAS_MOUSE).await,
        Value::Bool(true),
        "{place} has no mouse"
    );
    let mut lines = page.out_of_sight().await;
    // In Firefox, a new tab does not always get the focus; then no key reaches anything.
    if !lines.is_empty() {
        view.visit(page).await;
        lines = page.out_of_sight().await;
    }
    // A picture that loaded late drew a part again during the test with the Tab key.
    if !lines.is_empty() {
        view.settle(page).await;
        lines = page.out_of_sight().await;
    }
    let complaints = page.complaints().await.into_iter();
    let complaints = complaints.map(|line| format!("console: {line}"));
    lines.extend(complaints.filter(|_| !view.is_error));
    let told = lines.iter();
    told.map(|line| format!("{} {place}: {line}", view.name))
        .collect()
}

#[tokio::test]
async fn everything_is_seen_and_reached_in_firefox() {
    let world = World::build();
    let firefox = Firefox::open(Viewport::Desktop).await;
    let mut wrong = Vec::new();
    for view in views(&world) {
        view.visit(&firefox).await;
        wrong.extend(out_of_sight(&firefox, &view, "Firefox").await);
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Each of these faults was on some page once, or could be. The test adds a fault to a page without
/// faults, and the result must name it.
#[tokio::test]
async fn what_is_hidden_small_covered_pale_or_out_of_reach_is_found() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    let faults = [
        // The rows of the list, and two pages, once showed their buttons only under the pointer.
        (
            ".app-header-tools { opacity: 0 } .app-header:hover .app-header-tools { opacity: 1 }",
            "has an opacity of 0.00",
        ),
        (".app-nav { visibility: hidden }", "is not visible"),
        (
            ".app-header::after { content: ''; position: absolute; inset: 0; z-index: 9 }",
            "is covered by",
        ),
        (".app-nav a { color: #aab }", "its text has a contrast of"),
        (
            ".app-header-tools svg { stroke: #ccd }",
            "an icon has a contrast of",
        ),
        (
            ".app-header-tools { gap: 0 } .icon-button { width: 9px; height: 9px }",
            "and too near to",
        ),
        (
            ":focus-visible { outline: none !important }",
            "has no focus ring",
        ),
        (
            ".sample { position: absolute; left: -999px }",
            "cannot be scrolled into sight",
        ),
    ];
    for (style, expected) in faults {
        browser.goto(&server.url("/")).await;
        browser
            .wait_for(
                "the page",
                "return !!document.querySelector('button.sample');",
            )
            .await;
        let lay_over = format!(
            "const fault = new CSSStyleSheet(); fault.replaceSync({}); \
             document.adoptedStyleSheets = [fault]; return null;",
            Value::from(style)
        );
        browser.eval(&lay_over).await;
        let found = browser.out_of_sight().await;
        assert!(
            found.iter().any(|line| line.contains(expected)),
            "{style}: {found:?}"
        );
    }
}
