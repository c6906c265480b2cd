//! A list of allocations, in the order of their steps.

use api::alive::AllocationRow;

/// For each row, whether it belongs to another step than the row before it.
pub fn new_steps(rows: &[AllocationRow]) -> Vec<bool> {
    let before = |at: usize| at.checked_sub(1).map(|before| &rows[before].step);
    (0..rows.len())
        .map(|at| before(at) != Some(&rows[at].step))
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use trace::units::Bytes;

    pub fn row(step: Option<&str>) -> AllocationRow {
        AllocationRow {
            block: 0,
            size: Bytes(1),
            requested: Bytes(1),
            alloc: None,
            freed: None,
            freed_before: false,
            step: step.map(str::to_owned),
            age: 0,
            stream: 0,
            label: String::new(),
            forward: None,
        }
    }

    #[test]
    fn a_step_is_named_where_it_begins() {
        let rows = [None, None, Some("a"), Some("a"), Some("b")].map(row);
        assert_eq!(new_steps(&rows), [true, false, true, false, true]);
        assert!(new_steps(&[]).is_empty());
    }
}
