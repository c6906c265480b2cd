//! Sorting whose code exists once. For each type that the standard library sorts it brings five
//! kilobytes to the page; short lists, and lists that are seldom sorted, go this way instead.

use std::cmp::Ordering;

/// Sorts like [`slice::sort_by`]: equal items keep their order.
pub fn sort_by<T>(items: &mut Vec<T>, mut compare: impl FnMut(&T, &T) -> Ordering) {
    let order = order_of(items.len(), &mut |a, b| compare(&items[a], &items[b]));
    let mut places: Vec<Option<T>> = items.drain(..).map(Some).collect();
    items.extend(order.into_iter().filter_map(|at| places[at].take()));
}

/// Sorts like [`slice::sort_by_key`].
pub fn sort_by_key<T, K: Ord>(items: &mut Vec<T>, key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// The positions of so many items, sorted: equal ones keep their order.
pub fn order_of(items: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_are_where_the_standard_library_puts_them(
            mut items in prop::collection::vec((0..4_u8, 0..100_u8), 0..40),
        ) {
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            sort_by_key(&mut items, |item| item.0);
            prop_assert_eq!(items, expected);
        }
    }
}
