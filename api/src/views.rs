//! Saved views: a name for an address of the dashboard, for everybody of the team.

use crate::ids::ViewId;
use serde::{Deserialize, Serialize};
use trace::plain::is_plain;

/// Most views that are kept.
pub const MOST: usize = 500;
/// Longest name, characters.
pub const NAME_CHARS: usize = 100;
/// Longest address, bytes.
pub const PATH_BYTES: usize = 8192;

/// `POST` to save a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewView {
    /// What it is called. A view with the same name is replaced.
    pub name: String,
    /// Its address on this dashboard, from the slash on.
    pub path: String,
}

/// A saved view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct View {
    /// Its id.
    pub id: ViewId,
    /// What it is called.
    pub name: String,
    /// Its address on this dashboard, from the slash on.
    pub path: String,
    /// When it was saved, milliseconds since the epoch.
    pub created_ms: i64,
    /// Who saved it; empty where nobody signs in.
    pub created_by: String,
}

/// All saved views, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Views {
    /// The views.
    pub views: Vec<View>,
}

/// Why something cannot be saved as a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAView {
    /// The name is empty, too long, or has characters that hide or turn others.
    Name,
    /// The address is not one of a page of this dashboard.
    Path,
}

impl std::fmt::Display for NotAView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotAView::Name => write!(
                f,
                "the name of a view has 1 to {NAME_CHARS} characters, none of which hides or turns \
                 others"
            ),
            NotAView::Path => f.write_str(
                "the address of a view is one of a page of this dashboard, such as \
                 /history?label=branch%3Dmain",
            ),
        }
    }
}

impl NewView {
    /// The view with its address from the slash on, if it can be saved. `origin` is where this
    /// dashboard is reached: people copy whole addresses.
    ///
    /// # Errors
    /// Why not.
    pub fn checked(self, origin: &str) -> Result<NewView, NotAView> {
        let name = self.name.trim().to_owned();
        let count = name.chars().count();
        if !(1..=NAME_CHARS).contains(&count) || !name.chars().all(is_plain) {
            return Err(NotAView::Name);
        }
        let path = self.path.trim();
        let path = path.strip_prefix(origin).unwrap_or(path);
        // Two slashes would lead to another server, and browsers take a backslash for a slash.
        let inside = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
        // Where such parts lead, each browser decides by itself.
        let mut parts = path.split(['?', '#']).next().unwrap_or(path).split('/');
        let inside = inside && !parts.any(|part| matches!(part, "." | ".."));
        let is_page = inside && !path.starts_with("/api/") && !path.starts_with("/s/");
        let plain = path.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_page || !plain || path.len() > PATH_BYTES {
            return Err(NotAView::Path);
        }
        let path = path.to_owned();
        Ok(NewView { name, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_dashboard_are_views() {
        let check = |name: &str, path: &str, expected: Result<&str, NotAView>| {
            let (name, path) = (name.to_owned(), path.to_owned());
            let view = NewView { name, path }.checked("https://t.example");
            let found = view.as_ref().map(|view| view.path.as_str());
            assert_eq!(found.map_err(|error| *error), expected);
        };
        check("a", "/history?label=a%3Db", Ok("/history?label=a%3Db"));
        check(
            " a ",
            " https://t.example/runs/run_a?v=5 ",
            Ok("/runs/run_a?v=5"),
        );
        check("a", "https://other.example/", Err(NotAView::Path));
        check("a", "//other.example/", Err(NotAView::Path));
        check("a", "/\\other.example/", Err(NotAView::Path));
        check("a", "https://t.example//other.example", Err(NotAView::Path));
        check("a", "https://t.example.other/", Err(NotAView::Path));
        check("a", "javascript:alert(1)", Err(NotAView::Path));
        check("a", "/api/runs", Err(NotAView::Path));
        for dotted in [
            "/.//other.example/",
            "/../x",
            "/people/../people",
            "/a/..?b",
        ] {
            check("a", dotted, Err(NotAView::Path));
        }
        check("a", "/history?label=../x", Ok("/history?label=../x"));
        check("a", "/a b", Err(NotAView::Path));
        check("", "/", Err(NotAView::Name));
        check("a\u{202e}", "/", Err(NotAView::Name));
        check(&"x".repeat(101), "/", Err(NotAView::Name));
    }
}
