//! The value in the middle. Of an even number of values there are two: each caller says which of
//! them it means, or their mean. `None` of nothing.

/// The larger of two in the middle.
pub fn upper<T: Ord + Copy>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let sorted = sorted(values);
    sorted.get(sorted.len() / 2).copied()
}

/// The smaller of two in the middle.
pub fn lower<T: Ord + Copy>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let sorted = sorted(values);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// The mean of two in the middle, rounded down.
pub fn mean(values: impl IntoIterator<Item = u64>) -> Option<u64> {
    let sorted = sorted(values);
    let upper = sorted.get(sorted.len() / 2)?;
    Some(sorted[(sorted.len() - 1) / 2].midpoint(*upper))
}

fn sorted<T: Ord>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_unstable();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_even_number_there_are_two() {
        let check = |values: &[u64], expected: [Option<u64>; 3]| {
            let each = || values.iter().copied();
            assert_eq!([lower(each()), mean(each()), upper(each())], expected);
        };
        check(&[], [None, None, None]);
        check(&[7], [Some(7), Some(7), Some(7)]);
        check(&[9, 1, 4, 2], [Some(2), Some(3), Some(4)]);
        check(&[9, 1, 4], [Some(4), Some(4), Some(4)]);
        check(
            &[u64::MAX, u64::MAX - 2],
            [Some(u64::MAX - 2), Some(u64::MAX - 1), Some(u64::MAX)],
        );
    }
}
