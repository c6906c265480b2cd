//! What a peak's step is like, and what it still held of the one before.

use crate::cards::capital;
use crate::cards::markdown::{code, escaped};
use api::explain::{OutlivedStep, UnlikeOthers};
use trace::steps::Word;
use trace::units::{Bytes, grouped};

/// Where a peak lies that is in no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Before the first: what a recording that began late shows of a step is none.
    Before,
    /// Between two of them.
    Between,
    /// After the last.
    After,
}

/// That the peak is in no step.
pub fn outside(highest: Bytes, place: Outside, word: Word) -> String {
    let (step, steps) = (word.one(), word.many());
    let place = match place {
        Outside::Before => format!("before the first whole {step}"),
        Outside::Between => format!("between two {steps}"),
        Outside::After => format!("after the last {step}"),
    };
    format!("That is {place}; the {steps} peak at {highest} at most.")
}

/// How the step of the peak differs from the others; `of` so many.
pub fn differs(unlike: &UnlikeOthers, of: usize, word: Word) -> String {
    let step = word.one();
    let usual = unlike.usual_peak;
    let who = match &unlike.steps[..] {
        _ if unlike.rises => format!("The peaks rise from {step} to {step}"),
        [one] => format!("{} alone peaks so high", escaped(one)),
        some if some.len() as u64 == unlike.n_steps => {
            format!("{} alone peak so high", listed(some, word))
        }
        _ => format!(
            "{} of {} peak so high",
            grouped(unlike.n_steps),
            word.counted(of)
        ),
    };
    let why = match (&unlike.place, unlike.times_as_large) {
        (Some(place), _) => format!(
            "; {} of it are asked for under {}, which asks for nothing in the others",
            unlike.place_bytes,
            code(place)
        ),
        (None, Some(times)) => {
            let which = if unlike.rises { "the highest" } else { "it" };
            format!(
                "; {which} asks for {times:.1} times as much at the same lines as the median one"
            )
        }
        (None, None) => String::new(),
    };
    let who = capital(&who);
    format!("{who}, the median {step} at {usual}{why}.")
}

/// What the step of the peak still held of the one before.
pub fn still_held(outlived: &OutlivedStep, word: Word) -> String {
    let step = word.one();
    format!(
        "{} of it were made in the {step} before, by {}, and are given back later in this one: \
         the program still held them, as a variable of the loop does.",
        outlived.bytes,
        code(&outlived.place)
    )
}

/// `steps 2, 5 and 8`, or the names that the program gave them.
fn listed(names: &[String], word: Word) -> String {
    let begin = format!("{} ", word.one());
    let numbers: Option<Vec<&str>> = names.iter().map(|name| name.strip_prefix(&begin)).collect();
    let (begin, names): (String, Vec<String>) = match numbers {
        Some(numbers) => (
            format!("{} ", word.many()),
            numbers.into_iter().map(str::to_owned).collect(),
        ),
        None => (
            String::new(),
            names.iter().map(|name| escaped(name)).collect(),
        ),
    };
    match &names[..] {
        [first @ .., last] if !first.is_empty() => {
            format!("{begin}{} and {last}", first.join(", "))
        }
        names => format!("{begin}{}", names.concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_peaks_higher_is_told_by_name_with_the_reason() {
        let unlike = |steps: &[&str]| UnlikeOthers {
            steps: (steps.iter().take(UnlikeOthers::MAX_STEPS))
                .map(|&step| step.to_owned())
                .collect(),
            n_steps: steps.len() as u64,
            rises: false,
            usual_peak: Bytes::mib(300),
            place: None,
            place_bytes: Bytes::ZERO,
            times_as_large: None,
            sentence: String::new(),
        };
        let check = |unlike: &UnlikeOthers, expected: &str| {
            assert_eq!(differs(unlike, 12, Word::Step), expected);
        };
        let one = unlike(&["step 6"]);
        let begin = "Step 6 alone peaks so high, the median step at 300 MiB";
        check(&one, &format!("{begin}."));
        let times = UnlikeOthers {
            times_as_large: Some(7.52),
            ..one.clone()
        };
        let more = "it asks for 7.5 times as much at the same lines as the median one";
        check(&times, &format!("{begin}; {more}."));
        let place = UnlikeOthers {
            place: Some("validate t.py:8".to_owned()),
            place_bytes: Bytes::mib(420),
            ..one.clone()
        };
        let more = "420 MiB of it are asked for under `validate t.py:8`, which asks for \
                    nothing in the others";
        check(&place, &format!("{begin}; {more}."));
        let rises = UnlikeOthers { rises: true, ..one };
        let begin = "The peaks rise from step to step, the median step at 300 MiB";
        check(&rises, &format!("{begin}."));
        let times = UnlikeOthers {
            times_as_large: Some(1.52),
            ..rises
        };
        let more = "the highest asks for 1.5 times as much at the same lines as the median one";
        check(&times, &format!("{begin}; {more}."));
        let names = |steps: &[&str], expected: &str| {
            check(
                &unlike(steps),
                &format!("{expected} so high, the median step at 300 MiB."),
            );
        };
        names(
            &["step 2", "step 5", "step 8"],
            "Steps 2, 5 and 8 alone peak",
        );
        names(&["val#1", "val#2"], "Val\\#1 and val\\#2 alone peak");
        names(
            &["step 1", "step 2", "step 3", "step 4", "step 5"],
            "5 of 12 steps peak",
        );
    }

    #[test]
    fn what_is_still_held_and_where_a_peak_lies_outside_is_told() {
        let outlived = OutlivedStep {
            bytes: Bytes::mib(250),
            place: "forward t.py:25".to_owned(),
            peak_without: Bytes::mib(356),
            sentence: String::new(),
        };
        assert_eq!(
            still_held(&outlived, Word::Request),
            "250 MiB of it were made in the request before, by `forward t.py:25`, and are given \
             back later in this one: the program still held them, as a variable of the loop does."
        );
        assert_eq!(
            outside(Bytes::mib(9), Outside::Between, Word::Step),
            "That is between two steps; the steps peak at 9.00 MiB at most."
        );
    }
}
