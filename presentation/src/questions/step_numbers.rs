//! The numbers by which lists name the steps of a device. Requests and addresses name a step by its
//! position: a program may begin to count anywhere, and a recording may begin late.

use trace::redact::numbered;
use trace::trace::Step;

/// The number of each step, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepNumbers(Vec<u32>);

impl StepNumbers {
    /// The numbers in the names of steps. Where the names do not tell steps apart by a number, they
    /// are told by their positions.
    pub fn of(steps: &[Step]) -> StepNumbers {
        let named: Option<Vec<(&str, u32)>> =
            steps.iter().map(|step| numbered(&step.name)).collect();
        let tells = |named: &Vec<(&str, u32)>| {
            let mut pairs = named.windows(2);
            pairs.all(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1)
        };
        StepNumbers(match named.filter(tells) {
            Some(named) => named.into_iter().map(|(_, number)| number).collect(),
            None => (0..steps.len() as u32).collect(),
        })
    }

    /// The number of the step at a position. After the last one it is counted on.
    pub fn at(&self, position: u32) -> u32 {
        let known = self.0.get(position as usize).copied();
        let counted_on = || {
            let last = self.0.last().copied().unwrap_or_default();
            let after = (u64::from(position) + 1).saturating_sub(self.0.len() as u64);
            last.saturating_add(u32::try_from(after).unwrap_or(u32::MAX))
        };
        known.unwrap_or_else(counted_on)
    }

    /// The position of the first step with this number.
    ///
    /// # Errors
    /// Which numbers there are, if none has this one.
    pub fn first(&self, number: u32) -> Result<u32, String> {
        self.position(self.0.iter().position(|&known| known == number))
    }

    /// The position of the last step with this number: a program may count anew in each epoch.
    ///
    /// # Errors
    /// As [`StepNumbers::first`].
    pub fn last(&self, number: u32) -> Result<u32, String> {
        self.position(self.0.iter().rposition(|&known| known == number))
    }

    fn position(&self, found: Option<usize>) -> Result<u32, String> {
        let none = || match (self.0.iter().min(), self.0.iter().max()) {
            (Some(first), Some(last)) if first == last => {
                format!("None has this number: the only one is {first}.")
            }
            (Some(first), Some(last)) => {
                format!("None has this number: they go from {first} to {last}.")
            }
            _ => "This recording has none.".to_owned(),
        };
        found.map(|at| at as u32).ok_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::span::Span;
    use trace::units::EventIdx;

    fn numbers(names: &[&str]) -> StepNumbers {
        let step = |(index, name): (u32, &&str)| Step {
            index,
            name: (*name).to_owned(),
            events: Span::new(EventIdx(index), EventIdx(index + 1)),
        };
        let steps: Vec<Step> = (0..).zip(names).map(step).collect();
        StepNumbers::of(&steps)
    }

    #[test]
    fn steps_have_the_numbers_that_lists_show() {
        let check = |names: &[&str], expected: &[u32]| {
            assert_eq!(numbers(names).0, expected, "{names:?}");
        };
        check(&["ProfilerStep#100", "ProfilerStep#101"], &[100, 101]);
        check(&["step 0", "step 1", "step 0"], &[0, 1, 0]);
        // Here the number is not what tells them apart.
        check(&["train", "train"], &[0, 1]);
        check(&["conv2d", "conv2d"], &[0, 1]);
        check(&["step 7/10", "step 8/10"], &[0, 1]);
        check(&["warm-up", "step 5"], &[0, 1]);
        check(&[], &[]);
    }

    #[test]
    fn a_number_is_looked_for_among_those_that_are_there() {
        let check = |names: &[&str], number, expected: Result<(u32, u32), &str>| {
            let numbers = numbers(names);
            let found = numbers
                .first(number)
                .and_then(|a| Ok((a, numbers.last(number)?)));
            assert_eq!(found, expected.map_err(str::to_owned), "{names:?}");
        };
        let late = ["step 100", "step 101", "step 103"];
        check(&late, 103, Ok((2, 2)));
        let which = "None has this number: they go from 100 to 103.";
        check(&late, 102, Err(which));
        check(&late, 2, Err(which));
        let only = "None has this number: the only one is 5.";
        check(&["step 5"], 2, Err(only));
        check(&["step 0", "step 1", "step 0"], 0, Ok((0, 2)));
        check(&[], 0, Err("This recording has none."));
        let shown = [0, 2, 3, u32::MAX].map(|at| numbers(&late).at(at));
        assert_eq!(shown, [100, 103, 104, u32::MAX]);
    }
}
