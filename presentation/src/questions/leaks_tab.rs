//! What accumulates: what the bands stand for, and which allocations of a band are listed.

use api::alive::{AllocationFilter, Growth};
use api::leaks::{LeakGroup, Pattern};
use api::view_state::ViewState;
use trace::alive::Dimension;
use trace::units::EventIdx;

/// What the bands of a view stand for.
pub fn growth_by(state: &ViewState) -> Dimension {
    state.growth_by.unwrap_or(Dimension::Site)
}

/// Makes the bands stand for something else; the selection among the old bands is dropped.
pub fn group_growth(state: &mut ViewState, by: Dimension) {
    state.growth_by = (by != Dimension::Site).then_some(by);
    state.filter.site = None;
    state.filter.of = None;
}

/// Which allocations of a group to list: those that are still alive at the end of the last step. If
/// a group grows within steps, all of them.
pub fn of_group(site: &str, group: Option<&LeakGroup>, last: Option<EventIdx>) -> AllocationFilter {
    let across = group.is_some_and(|group| group.pattern != Pattern::WithinStep);
    AllocationFilter {
        site: Some(site.to_owned()),
        alive: last.filter(|_| across).map(|event| event.0),
        ..AllocationFilter::default()
    }
}

/// The allocations of a band of another grouping: those that the chart counts.
pub fn of_band(band: String, growth: &Growth) -> AllocationFilter {
    let stepped = growth.moments.iter().any(|moment| moment.step.is_some());
    AllocationFilter {
        of: Some(band),
        older: stepped.then_some(1),
        ..AllocationFilter::default()
    }
}

/// The name of a band.
pub fn label_of(key: &str, growth: &Growth) -> Option<String> {
    let band = growth.bands.iter().find(|band| band.key == key)?;
    Some(band.label.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::areas::tests::growth;

    #[test]
    fn bands_of_another_kind_list_what_the_chart_counts() {
        let growth = growth(&[("a", &[1, 2])]);
        let filter = of_band("module:a".to_owned(), &growth);
        assert_eq!(
            (filter.of.as_deref(), filter.older),
            (Some("module:a"), Some(1))
        );
        let mut state = ViewState::default();
        state.filter.of = filter.of;
        group_growth(&mut state, Dimension::Site);
        assert_eq!(state, ViewState::default());
    }

    #[test]
    fn a_band_that_is_no_leak_lists_all_of_its_allocations() {
        let filter = of_group("s1", None, Some(EventIdx(9)));
        assert_eq!((filter.site.as_deref(), filter.alive), (Some("s1"), None));
    }
}
