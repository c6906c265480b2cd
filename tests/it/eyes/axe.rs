//! What axe-core finds on a page, of any severity.

use serde_json::Value;
use tests::Browser;

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
