//! The table of what accumulates: its columns and its order.

use super::words;
use api::leaks::{LeakGroup, Pattern};
use std::cmp::Ordering;
use timeline::{format, order};
use trace::leaks::alive_when;

/// A column to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The name of the group.
    Group,
    /// Bytes a step.
    Rate,
    /// Blocks a step.
    Count,
    /// Bytes alive at the end of the last whole step.
    Live,
    /// The first step.
    Since,
    /// How sure it is.
    Confidence,
}

/// The columns with the beginnings of their heads, in the order of the table.
pub const COLUMNS: [(Column, &str); 6] = [
    (Column::Group, "Group"),
    (Column::Rate, "Bytes "),
    (Column::Count, "Blocks "),
    (Column::Live, "Alive, end of last "),
    (Column::Since, ""),
    (Column::Confidence, "Confidence"),
];

/// The head of a column; `step` is what a step is called.
pub fn head((column, begins): (Column, &str), step: &str) -> String {
    let rest = match column {
        Column::Rate | Column::Count => words::a(step),
        Column::Live => step.to_owned(),
        Column::Since => words::capital(&words::several(step)),
        _ => String::new(),
    };
    [begins, &rest].concat()
}

/// What is said of the bytes of a group that are alive: exactly how many, and when, and in how many
/// blocks. The head of the column says when, except for what grows within steps.
pub fn alive(group: &LeakGroup, step: &str) -> [String; 2] {
    let is_within = group.pattern == Pattern::WithinStep;
    let when = alive_when(is_within, &words::a(step));
    let exact = format::exact_bytes(group.live_bytes.get());
    let blocks = format::count(group.live_count);
    let blocks = match is_within {
        true => format!(" in {blocks}, {when}"),
        false => format!(" in {blocks}"),
    };
    [format!("{exact} {when}"), blocks]
}

/// The groups' positions in the order of a column; amounts from the largest down.
pub fn sorted(groups: &[LeakGroup], by: Column, reversed: bool) -> Vec<usize> {
    let compare = |a: usize, b: usize| -> Ordering {
        let (a, b) = (&groups[a], &groups[b]);
        match by {
            Column::Group => words::group_name(a).cmp(&words::group_name(b)),
            Column::Rate => by_unit(a, b, |group| group.bytes_per_step),
            Column::Count => by_unit(a, b, |group| group.count_per_step),
            Column::Live => b.live_bytes.cmp(&a.live_bytes),
            Column::Since => a.first_step.cmp(&b.first_step),
            Column::Confidence => b.confidence.total_cmp(&a.confidence),
        }
    };
    order::order_of(groups.len(), &mut |a, b| match reversed {
        true => compare(b, a),
        false => compare(a, b),
    })
}

/// Rates from the largest down. Those of parts of a step come last: they are another unit.
fn by_unit(a: &LeakGroup, b: &LeakGroup, rate: fn(&LeakGroup) -> f64) -> Ordering {
    let within = |group: &LeakGroup| group.pattern == Pattern::WithinStep;
    let speed = rate(b).total_cmp(&rate(a));
    within(a).cmp(&within(b)).then(speed)
}

/// The order of a column for `aria-sort`: names, and the steps since when, go up at first.
pub fn aria(by: Column, reversed: bool) -> &'static str {
    match matches!(by, Column::Group | Column::Since) == reversed {
        true => "descending",
        false => "ascending",
    }
}

/// Whether the name of a group was inferred rather than recorded.
pub fn is_inferred(group: &LeakGroup) -> bool {
    let recorded = group.frame.is_some() || group.alloc_frame.is_some();
    group.frame_inferred || (!recorded && group.forward.is_some())
}

/// Why the name of a group is inferred.
pub const INFERRED: &str = "these allocations have no Python stack; the name is derived from \
                            size, order and what was allocated beside them.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components::frames::short_path;
    use trace::units::Bytes;

    fn group(bytes_per_step: f64, first_step: u32) -> LeakGroup {
        LeakGroup {
            site: format!("z{first_step}"),
            stack: None,
            frame: None,
            frame_inferred: false,
            alloc_frame: None,
            made_in: None,
            forward: None,
            pattern: Pattern::EveryStep,
            every: None,
            scope: None,
            count_per_step: 1.0,
            bytes_per_step,
            slope_error: 0.0,
            confidence: 0.5,
            first_step,
            last_step: 9,
            first_number: first_step,
            last_number: 9,
            live_count: 1,
            live_bytes: Bytes(1),
            evidence: vec![],
        }
    }

    #[test]
    fn the_fastest_comes_first_and_equals_keep_their_order() {
        let groups = [group(1.0, 5), group(7.0, 3), group(1.0, 4)];
        assert_eq!(sorted(&groups, Column::Rate, false), [1, 0, 2]);
        assert_eq!(sorted(&groups, Column::Rate, true), [0, 2, 1]);
        assert_eq!(sorted(&groups, Column::Since, false), [1, 2, 0]);
        // A part of a step is no step.
        let mut within = groups.clone();
        within[1].pattern = Pattern::WithinStep;
        assert_eq!(sorted(&within, Column::Rate, false), [0, 2, 1]);
        assert_eq!(aria(Column::Rate, false), "descending");
        assert_eq!(aria(Column::Rate, true), "ascending");
        assert_eq!(aria(Column::Since, false), "ascending");
        assert_eq!(aria(Column::Group, true), "descending");
        assert_eq!(short_path("/srv/a/b/c.py"), "b/c.py");
        let heads = COLUMNS.map(|column| head(column, "request"));
        assert_eq!(heads[..3], ["Group", "Bytes a request", "Blocks a request"]);
        let rest = ["Alive, end of last request", "Requests", "Confidence"];
        assert_eq!(heads[3..], rest);
        let told = |at: usize| alive(&within[at], "request");
        let [exact, blocks] = told(0);
        assert!(
            exact.ends_with(" at the end of the last whole request"),
            "{exact}"
        );
        assert_eq!(blocks, " in 1");
        assert_eq!(told(1)[1], " in 1, after the last part");
    }
}
