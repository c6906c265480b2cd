//! The state of a page as the query of its address.

use api::compare_view::CompareState;
use api::view_state::{BadViewState, ViewState};

/// State that is written as a query.
pub trait Query: Clone + PartialEq + Send + Sync + 'static {
    /// Reads a query (without `?`). Parts that are not understood keep their defaults and are
    /// noted.
    fn read(query: &str) -> (Self, Vec<BadViewState>);

    /// The query, without `?`; empty for the default state where that is possible.
    fn write(&self) -> String;

    /// Whether `next` shows something else, as another page would, so that the browser leads back
    /// to this. It is not asked to undo each zoom.
    fn is_left_for(&self, _next: &Self) -> bool {
        false
    }
}

impl Query for ViewState {
    fn read(query: &str) -> (ViewState, Vec<BadViewState>) {
        ViewState::parse(query).unwrap_or_else(|too_new| (ViewState::default(), vec![too_new]))
    }

    fn write(&self) -> String {
        match self {
            state if *state == ViewState::default() => String::new(),
            state => state.to_string(),
        }
    }

    fn is_left_for(&self, next: &ViewState) -> bool {
        self.tab != next.tab
    }
}

impl Query for CompareState {
    fn read(query: &str) -> (CompareState, Vec<BadViewState>) {
        CompareState::parse(query)
            .unwrap_or_else(|too_new| (CompareState::default(), vec![too_new]))
    }

    fn write(&self) -> String {
        match self {
            state if *state == CompareState::default() => String::new(),
            state => state.to_string(),
        }
    }

    fn is_left_for(&self, next: &CompareState) -> bool {
        self.runs != next.runs
    }
}

/// The address of a page (without a query) in a project, if the server has several.
pub fn in_project(page: &str, project: Option<&str>) -> String {
    match project {
        Some(project) => format!("{page}?{}={project}", api::projects::PARAMETER),
        None => page.to_owned(),
    }
}

/// The state of a page in the query of its address (without `?`). The address also names the
/// project, if the server has several: the server's script writes that (`project.js`).
pub fn without_project(query: &str) -> String {
    let is_state = |pair: &&str| pair.split('=').next() != Some(api::projects::PARAMETER);
    let pairs: Vec<&str> = query.split('&').filter(is_state).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_page_is_its_query_without_the_project() {
        let check = |query: &str, expected: &str| assert_eq!(without_project(query), expected);
        for same in ["", "v=1&q=project%3Da", "q=project", "projects=a"] {
            check(same, same);
        }
        check("project=vision", "");
        check("v=1&sort=peak&project=vision", "v=1&sort=peak");
        check("project=vision&v=1&q=a%2Cb", "v=1&q=a%2Cb");
    }

    #[test]
    fn a_page_of_the_server_is_in_the_project_of_the_tab() {
        assert_eq!(in_project("/jobs", Some("vision")), "/jobs?project=vision");
        assert_eq!(in_project("/jobs", None), "/jobs");
    }

    #[test]
    fn the_default_view_has_a_clean_address() {
        assert_eq!(ViewState::default().write(), "");
        let (state, notes) = ViewState::read("");
        assert_eq!((state, notes), (ViewState::default(), vec![]));
    }

    #[test]
    fn back_leads_to_the_tab_before_and_does_not_undo_a_zoom() {
        let check = |next: &str, expected| {
            let [before, next] = ["v=5&tab=leaks", next].map(|query| ViewState::read(query).0);
            assert_eq!(before.is_left_for(&next), expected, "{next:?}");
        };
        check("v=5&tab=alive", true);
        check("v=5", true);
        check("v=5&tab=leaks&sel=b3", false);
        let runs = |query| CompareState::read(query).0;
        assert!(runs("v=1&runs=run_a,run_b").is_left_for(&runs("v=1&runs=run_a")));
        let zoomed = runs("v=1&runs=run_a,run_b&from=1&to=2");
        assert!(!runs("v=1&runs=run_a,run_b").is_left_for(&zoomed));
    }

    #[test]
    fn a_link_from_the_future_opens_the_data_without_the_view() {
        let (state, notes) = ViewState::read("v=99&dev=3");
        assert_eq!(state, ViewState::default());
        assert_eq!(notes, vec![BadViewState::TooNew(99)]);
    }
}
