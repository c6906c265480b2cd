//! The project that this tab shows, where the server has several. Pages that the server makes are
//! given it in their address, because another tab may show another one.

use leptos::prelude::document;
use presentation::query::in_project;

/// Its name, as the server wrote it into the page.
pub fn shown() -> Option<String> {
    let script = document().query_selector("script[data-project]").ok()??;
    script.get_attribute("data-project")
}

/// The address of a page that the server makes, in this project.
pub fn page(path: &str) -> String {
    in_project(path, shown().as_deref())
}
