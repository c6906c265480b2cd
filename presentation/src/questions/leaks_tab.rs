//! What accumulates: what the bands stand for, and which allocations of a band are listed.

use api::alive::{AllocationFilter, AllocationRow, Growth};
use api::leaks::{LeakGroup, Pattern};
use api::view_state::ViewState;
use trace::alive::Dimension;
use trace::units::{Bytes, EventIdx};

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

/// What to say under a page of the list of what a leak keeps: how many of its rows are no part of
/// the leak. A site is a shape of calls, so the list has all that it holds. An answer names the
/// oldest blocks that leak: what is older than the newest of them, and not named, surely does not.
pub fn no_part(
    groups: &[LeakGroup],
    filter: &AllocationFilter,
    rows: &[AllocationRow],
) -> Option<String> {
    let site = filter.site.as_ref()?;
    let of_site: Vec<&LeakGroup> = groups.iter().filter(|group| group.site == *site).collect();
    let mut patterns = of_site.iter().map(|group| group.pattern);
    if !patterns.all(|pattern| matches!(pattern, Pattern::EveryStep | Pattern::EveryNth)) {
        return None;
    }
    let newest = of_site.iter().map(|group| group.evidence.last());
    let newest = *newest.min().flatten()?;
    let leaks = |block: &u32| {
        let mut groups = of_site.iter();
        groups.any(|group| group.evidence.binary_search(block).is_ok())
    };
    let others = rows.iter();
    let others = others.filter(|row| row.block < newest && !leaks(&row.block));
    let sizes: Vec<Bytes> = others.map(|row| row.size).collect();
    let bytes: Bytes = sizes.iter().copied().sum();
    let (n, are) = match sizes.len() {
        0 => return None,
        1 => (1, "is"),
        n => (n, "are"),
    };
    Some(format!(
        "{n} of these allocations, {bytes}, {are} no part of the leak: a workspace of a library, \
         what was made once before the leak began, or what each step replaces."
    ))
}

/// The name of a band.
pub fn label_of(key: &str, growth: &Growth) -> Option<String> {
    let band = growth.bands.iter().find(|band| band.key == key)?;
    Some(band.label.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::allocation_list::tests::row;
    use crate::questions::areas::tests::growth;
    use crate::questions::words::tests::group;

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
    fn what_is_no_part_of_a_leak_is_told_under_its_list() {
        let leak = LeakGroup {
            pattern: Pattern::EveryStep,
            evidence: vec![4, 6],
            ..group()
        };
        let site = |site: &str| AllocationFilter {
            site: Some(site.to_owned()),
            ..AllocationFilter::default()
        };
        let row = |block: u32| AllocationRow {
            block,
            size: Bytes::mib(1),
            ..row(None)
        };
        let told = |groups: &[LeakGroup], of: &str, blocks: &[u32]| {
            let rows: Vec<AllocationRow> = blocks.iter().map(|&block| row(block)).collect();
            no_part(groups, &site(of), &rows)
        };
        let own = leak.site.clone();
        let leaks = [leak.clone()];
        let two = told(&leaks, &own, &[1, 4, 5, 6]).unwrap();
        assert!(
            two.starts_with("2 of these allocations, 2.00 MiB, are no part"),
            "{two}"
        );
        let one = told(&leaks, &own, &[1, 4, 6]).unwrap();
        assert!(
            one.starts_with("1 of these allocations, 1.00 MiB, is no part"),
            "{one}"
        );
        // Of what is newer it is not known.
        assert_eq!(told(&leaks, &own, &[4, 6, 7]), None);
        assert_eq!(told(&leaks, "another", &[1, 4]), None);
        let other = LeakGroup {
            evidence: vec![1, 9],
            ..leak.clone()
        };
        assert_eq!(told(&[leak.clone(), other], &own, &[1, 4, 6, 7, 9]), None);
        let within = LeakGroup {
            pattern: Pattern::WithinStep,
            ..leak
        };
        assert_eq!(told(&[within], &own, &[1, 4, 6]), None);
    }

    #[test]
    fn a_band_that_is_no_leak_lists_all_of_its_allocations() {
        let filter = of_group("s1", None, Some(EventIdx(9)));
        assert_eq!((filter.site.as_deref(), filter.alive), (Some("s1"), None));
    }
}
