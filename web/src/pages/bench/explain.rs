//! Why a row has the status that it has: one sentence, from its numbers and its baseline's.

use super::figures::{change, growth, level};
use crate::format::count;
use api::bench::{BenchResult, BenchRow, BenchStatus};

/// Growth below this is none, bytes a step: scalars and labels.
pub const GROWS: f64 = 1e5;

/// The sentence.
pub fn sentence(row: &BenchRow, baseline: Option<&BenchRow>) -> Option<String> {
    let result = row.result.as_ref()?;
    let beside = baseline.and_then(|row| row.result.as_ref());
    let sentence = of_result(result, beside, row.steps);
    Some(match &row.hypothesis {
        Some(why) => format!("{}: {}", capitalised(why), with_numbers(result, &sentence)),
        None => sentence,
    })
}

/// A hypothesis has its numbers here and not in the columns of facts.
fn with_numbers(result: &BenchResult, sentence: &str) -> String {
    format!(
        "it would peak at {} and grow {} a step. {sentence}",
        level(result.peak_allocated),
        growth(result.growth_per_step)
    )
}

fn of_result(result: &BenchResult, beside: Option<&BenchResult>, steps: u32) -> String {
    let grows = growth(result.growth_per_step);
    match result.status {
        BenchStatus::OutOfMemory => format!(
            "Out of memory in step {} of {steps}, at a peak of {}.",
            result.oom_step.map_or(result.steps_run, |step| step) + 1,
            level(result.peak_allocated)
        ),
        BenchStatus::Crash => format!(
            "Raised in step {} of {steps}: {}.",
            result.steps_run + 1,
            result.crash.as_deref().unwrap_or("no message")
        ),
        BenchStatus::Corruption => format!(
            "{} restored tensors were read before anything says that they were written ({}): the \
             memory looks well, the data do not.",
            count(result.corrupted_tensors),
            places(result.races)
        ),
        BenchStatus::Baseline if result.growth_per_step > GROWS => {
            format!("Leaves {grows} behind in each step.")
        }
        BenchStatus::Baseline => "Flat: nothing is left behind from step to step.".to_owned(),
        _ => match beside {
            Some(beside) => of_patch(result, beside),
            None => "Its baseline is not done: without it nothing can be said.".to_owned(),
        },
    }
}

fn of_patch(result: &BenchResult, beside: &BenchResult) -> String {
    let (before, after) = (beside.growth_per_step, result.growth_per_step);
    let peak = change(beside.peak_allocated, result.peak_allocated);
    match result.status {
        BenchStatus::RootCauseFix if before > GROWS => {
            let share = (1.0 - after / before).clamp(0.0, 1.0) * 100.0;
            let rest = match after > GROWS {
                true => format!("; {} a step are left", growth(after)),
                false => "; what is left is flat".to_owned(),
            };
            format!("Takes away {share:.0} % of the growth{rest}.")
        }
        BenchStatus::RootCauseFix => format!(
            "What was kept for nothing is gone: {} at the end.",
            change(beside.allocated_end, result.allocated_end)
        ),
        BenchStatus::PreventsCrash if beside.crash.is_some() => {
            "The baseline raises, with the patch the run completes.".to_owned()
        }
        BenchStatus::PreventsCrash => format!(
            "The baseline reads {} restored tensors too early, with the patch none is.",
            count(beside.corrupted_tensors)
        ),
        BenchStatus::LowersPeak if before > GROWS => {
            format!(
                "Peak {peak}, but it grows {} a step all the same.",
                growth(after)
            )
        }
        BenchStatus::LowersPeak => format!("Peak {peak}; nothing grew before."),
        _ if is_identical(result, beside) => {
            "Byte for byte the baseline: the patch changes no line that runs.".to_owned()
        }
        _ => format!("Peak {peak}, growth {} a step as before.", growth(after)),
    }
}

fn is_identical(result: &BenchResult, beside: &BenchResult) -> bool {
    let numbers = |r: &BenchResult| {
        (
            r.steps_run,
            r.peak_allocated,
            r.peak_reserved,
            r.allocated_end,
            r.d2h_bytes,
            r.h2d_bytes,
        )
    };
    numbers(result) == numbers(beside) && result.growth_per_step == beside.growth_per_step
}

fn places(races: u64) -> String {
    match races {
        1 => "1 pair of places races".to_owned(),
        n => format!("{} pairs of places race", count(n)),
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use api::bench::BenchRowState;

    /// A row with the numbers that matter here.
    pub fn row(patches: &[&str], status: BenchStatus, peak: u64, growth: f64) -> BenchRow {
        let name = patches.join("").replace(['-', '+'], "");
        BenchRow {
            id: format!("row_x{name}").parse().unwrap(),
            config: "vl".to_owned(),
            patches: patches.iter().map(|&id| id.to_owned()).collect(),
            steps: 100,
            state: BenchRowState::Done,
            result: Some(BenchResult {
                status,
                device: "sim".to_owned(),
                steps_run: 100,
                peak_allocated: peak,
                peak_reserved: peak,
                allocated_end: peak - 1_000_000_000,
                growth_per_step: growth,
                growth_error: 0.0,
                oom_step: None,
                crash: None,
                corrupted_tensors: 0,
                races: 0,
                tracker_end: 0,
                bwd_stash_end: 0,
                host_pinned_end: 0,
                d2h_bytes: 0,
                h2d_bytes: 0,
                step_seconds: 0.1,
                card: None,
            }),
            spark: vec![peak - 2_000_000_000, peak - 1_000_000_000],
            run: None,
            hypothesis: None,
            published: None,
            measured: None,
            seconds: None,
        }
    }

    fn said(row: &BenchRow, baseline: &BenchRow) -> String {
        sentence(row, Some(baseline)).unwrap()
    }

    #[test]
    fn each_status_is_explained_by_the_numbers() {
        let base = row(&[], BenchStatus::Baseline, 21_444_000_000, 103.8e6);
        assert_eq!(
            said(&base, &base),
            "Leaves +98.991 MiB behind in each step."
        );
        let fix = row(&["p3"], BenchStatus::RootCauseFix, 14_051_000_000, 33.4e6);
        let expected = "Takes away 68 % of the growth; +31.853 MiB a step are left.";
        assert_eq!(said(&fix, &base), expected);
        let same = row(
            &["p1"],
            BenchStatus::NotReproducible,
            21_444_000_000,
            103.8e6,
        );
        assert!(said(&same, &base).starts_with("Byte for byte"));
        let lower = row(&["x"], BenchStatus::LowersPeak, 20_444_000_000, 103.8e6);
        assert!(said(&lower, &base).starts_with("Peak −953.674 MiB, but it grows"));
        assert!(
            sentence(&fix, None)
                .unwrap()
                .contains("baseline is not done")
        );
    }

    #[test]
    fn an_early_end_names_its_step() {
        let base = row(&[], BenchStatus::Baseline, 21_444_000_000, 0.0);
        let mut oom = row(&[], BenchStatus::OutOfMemory, 21_444_000_000, 0.0);
        let result = oom.result.as_mut().unwrap();
        (result.oom_step, result.steps_run) = (Some(18), 18);
        assert!(said(&oom, &base).starts_with("Out of memory in step 19 of 100"));
    }

    #[test]
    fn a_hypothesis_says_so_before_its_numbers() {
        let base = row(&[], BenchStatus::Baseline, 21_444_000_000, 103.8e6);
        let mut guess = row(&["p5"], BenchStatus::RootCauseFix, 10_000_000_000, 0.0);
        guess.hypothesis = Some("source unavailable".to_owned());
        let said = said(&guess, &base);
        assert!(
            said.starts_with("Source unavailable: it would peak at 9.313 GiB"),
            "{said}"
        );
    }
}
