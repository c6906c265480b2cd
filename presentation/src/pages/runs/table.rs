//! The table of runs: where keys lead.

/// The run that an arrow leads to where nothing has the focus: the first, or the last.
pub fn first_run(key: &str, is_nowhere: bool) -> Option<u32> {
    match key {
        "ArrowDown" if is_nowhere => Some(0),
        "ArrowUp" if is_nowhere => Some(u32::MAX),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_lead_into_the_list_only_from_nowhere() {
        assert_eq!(first_run("ArrowDown", true), Some(0));
        assert_eq!(first_run("ArrowUp", true), Some(u32::MAX));
        assert_eq!(first_run("ArrowDown", false), None);
        assert_eq!(first_run("x", true), None);
    }
}
