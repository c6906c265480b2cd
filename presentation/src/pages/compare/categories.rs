//! What is said of the categories of two peaks.

use trace::categories::Named;
use trace::compare::{Difference, InferredIn};

/// In which of the runs what blocks are for is inferred; `None` where the recordings say it.
pub fn about(difference: &Difference) -> Option<&'static str> {
    let changes = difference.category_changes();
    let told: Vec<Named> = changes.iter().map(|(category, _)| *category).collect();
    words(difference.inferred_in(&told))
}

const fn words(inferred: InferredIn) -> Option<&'static str> {
    match inferred {
        InferredIn::Neither => None,
        InferredIn::Baseline => Some("inferred in the baseline; the new run's recording says it"),
        InferredIn::NewRun => Some("inferred in the new run; the baseline's recording says it"),
        InferredIn::Both => Some("inferred, where a recording does not say what a block is for"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_categories_are_not_called_inferred() {
        assert_eq!(words(InferredIn::Neither), None);
        let told = |inferred| words(inferred).is_some_and(|text| text.starts_with("inferred"));
        assert!(
            [InferredIn::Baseline, InferredIn::NewRun, InferredIn::Both].map(told) == [true; 3]
        );
        let one = words(InferredIn::NewRun);
        assert!(one.is_some_and(|text| text.ends_with("the baseline's recording says it")));
    }
}
