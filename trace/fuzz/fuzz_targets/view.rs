//! Any query is either a view or an error. A view that is written is read back unchanged.
#![no_main]

use api::compare_view::CompareState;
use api::view_state::ViewState;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|query: &str| {
    if let Ok((view, _)) = ViewState::parse(query) {
        let again = ViewState::parse(&view.to_string());
        assert_eq!(again.expect("what was written is read").0, view);
    }
    if let Ok((view, _)) = CompareState::parse(query) {
        let again = CompareState::parse(&view.to_string());
        assert_eq!(again.expect("what was written is read").0, view);
    }
});
