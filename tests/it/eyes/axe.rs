//! axe-core must find no problem, of any severity, in any view, theme and size.

use serde_json::Value;
use tests::{Browser, Theme, Viewport};

use super::views::views;
use super::world::World;

/// The axe-core script, for [`Browser::add_to_pages`].
pub(crate) const AXE: &str = include_str!("../../vendor/axe.min.js");

/// Returns one line for each element that breaks a rule.
const RUN: &str = "
    const done = arguments[0];
    axe.run(document, { resultTypes: ['violations'] }).then(found => done(
        found.violations.flatMap(rule => rule.nodes.map(node =>
            `${rule.id} (${rule.impact}): ${node.target.join(' ')}: ` +
            node.failureSummary.replaceAll('\\n', ' ')))), error => done([String(error)]));";

/// The problems that axe-core finds on the page in its present state.
pub(crate) async fn findings(browser: &Browser) -> Vec<String> {
    let found = browser.page.execute_async(RUN, Vec::new()).await;
    let found = found.expect("axe runs");
    let lines = found.as_array().expect("a list").iter();
    lines.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[tokio::test]
async fn axe_finds_nothing_on_any_page() {
    let world = World::build();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.add_to_pages(AXE).await;
    let mut wrong = Vec::new();
    for view in views(&world) {
        for viewport in [Viewport::Desktop, Viewport::Phone] {
            browser.set_viewport(viewport).await;
            browser.set_still_theme(Theme::Light).await;
            view.visit(&browser).await;
            for theme in [Theme::Light, Theme::Dark] {
                browser.set_still_theme(theme).await;
                view.settle(&browser).await;
                let place = format!("{} {} {}", view.name, viewport.name(), theme.name());
                let lines = findings(&browser).await;
                wrong.extend(lines.iter().map(|line| format!("{place}: {line}")));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
