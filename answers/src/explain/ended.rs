//! How the row of a bench ended whose run is explained: the recording does not show it.

use crate::cards::markdown::escaped;
use crate::cards::{capital, sentence};
use api::bench::{Fault, RowOfRun};
use api::explain::Explanation;
use api::leaks::Verdict;

/// The explanation beside what a bench knows of the run.
pub fn beside(mut explanation: Explanation, row: Option<RowOfRun>) -> Explanation {
    if let Some(row) = &row
        && let Some(device) = &mut explanation.device
        && device.leaks.verdict == Verdict::CannotTell
        && let Some(why) = row.too_few_steps(device.steps)
    {
        device.leaks.reason = why;
    }
    explanation.bench_row = row;
    explanation
}

/// What went wrong, as paragraphs of the page; nothing if nothing did. What the recording itself
/// shows is told below.
pub(super) fn told(explanation: &Explanation) -> String {
    let Some(row) = &explanation.bench_row else {
        return String::new();
    };
    let device = explanation.device.as_ref();
    let is_recorded = device.is_some_and(|device| device.out_of_memory.is_some());
    let faults = row.faults();
    let faults = faults.filter(|fault| *fault != Fault::OutOfMemory || !is_recorded);
    let told: String = faults
        .map(|fault| {
            let about = sentence(&row.about(fault));
            format!("**{}.** {}\n\n", capital(fault.label()), escaped(&about))
        })
        .collect();
    match told.is_empty() {
        true => told,
        false => {
            told + "So says the bench that ran it: a recording of memory does not show it.\n\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{explain, page};
    use trace::main_device;
    use trace::trace::Trace;
    use trace::watch::Watch;

    /// What is said of a few allocations, which a row made that ended so.
    fn said(row: Option<RowOfRun>) -> String {
        let text = "a alloc 100MiB at f m.py:1\nb alloc 2MiB at f m.py:2";
        let trace: Trace = trace::testing::trace(text);
        let told =
            Watch::undisturbed(|watch| explain("a", &trace, main_device::of(&trace), None, watch));
        page(&beside(told, row))
    }

    #[test]
    fn what_a_bench_knows_comes_first() {
        let sound = RowOfRun {
            steps: 10,
            planned: 10,
            ..RowOfRun::default()
        };
        assert_eq!(said(Some(sound.clone())), said(None), "nothing went wrong");
        let corrupt = RowOfRun {
            corrupted_tensors: 2,
            races: 1,
            ..sound.clone()
        };
        let begin = "# GPU memory of a\n\n**Corrupted data.** 2 kernels or copies may have worked \
                     on wrong bytes (1 pair of places races).\n\nSo says the bench";
        let told = said(Some(corrupt));
        assert!(told.starts_with(begin), "{told}");
        let crashed = RowOfRun {
            steps: 0,
            began: Some(true),
            crash: Some("setStorage: *bounds*".to_owned()),
            ..sound
        };
        let told = said(Some(crashed));
        let begin = "# GPU memory of a\n\n**Crashed.** In step 0 (after none of 10 steps): \
                     setStorage: \\*bounds\\*.\n\n";
        assert!(told.starts_with(begin), "{told}");
        let why = "**Cannot tell.** The run crashed in step 0 (after none of 10 steps): there is \
                   no whole step, and 4 are needed to see a leak.";
        assert!(told.contains(why), "{told}");
        assert!(!told.contains("record 4"), "{told}");
    }
}
