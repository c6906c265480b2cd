//! Why a row has the status that it has: one sentence, from its numbers and its baseline's, and
//! what could not be stored of it.

use super::figures::{change, growth, level};
use crate::letters::capital;
use api::bench::{self, BenchResult, BenchRow, BenchStatus, DeviceKind, GROWS, shows_growth};

/// The sentence, and a second one where something is missing.
pub fn sentence(row: &BenchRow, baseline: Option<&BenchRow>) -> Option<String> {
    let said = of_status(row, baseline)?;
    Some(match &row.note {
        Some(note) => format!("{said} {}.", capital(note)),
        None => said,
    })
}

fn of_status(row: &BenchRow, baseline: Option<&BenchRow>) -> Option<String> {
    if let Some(hypothesis) = &row.hypothesis {
        return Some(format!(
            "Its source was never published. That {} is {}: {}.",
            hypothesis.about,
            hypothesis.fate.word(),
            hypothesis.why
        ));
    }
    let (status, result) = (row.status?, row.result.as_ref()?);
    if let Some(asserted) = &row.asserted {
        return Some(format!("{}.", capital(asserted)));
    }
    let beside = baseline.and_then(|row| row.result.as_ref());
    Some(of_result(status, result, beside, row.steps))
}

/// What is said where the steps do not show growth.
const TOO_FEW: &str = "Too few steps to say what grows.";

fn of_result(
    status: BenchStatus,
    result: &BenchResult,
    beside: Option<&BenchResult>,
    steps: u32,
) -> String {
    let grows = growth(result.growth_per_step);
    match status {
        BenchStatus::OutOfMemory => format!(
            "Out of memory {}, at a peak of {}.",
            result.ended(steps),
            level(result.peak_allocated)
        ),
        BenchStatus::Crash => format!(
            "Raised {}: {}.",
            result.ended(steps),
            result.crash.as_deref().unwrap_or("no message")
        ),
        BenchStatus::Corruption => {
            let no_crash = beside.is_some_and(|beside| beside.crash.is_some());
            let instead = if no_crash {
                "The baseline's crash is gone, but "
            } else {
                ""
            };
            let sentence = format!(
                "{instead}{}: the memory looks well, the data do not.",
                wrong_bytes(result)
            );
            capital(&sentence)
        }
        BenchStatus::Baseline if !shows_growth(result) => TOO_FEW.to_owned(),
        BenchStatus::Baseline if result.growth_per_step > GROWS => {
            format!("Leaves {grows} behind in each step.")
        }
        BenchStatus::Baseline => "Flat: nothing is left behind from step to step.".to_owned(),
        _ => match beside {
            Some(beside) if beside.oom_step.is_some() => {
                let ended = beside.ended(steps);
                beside_early_end(status, result, beside, &ended)
            }
            Some(beside) => of_patch(status, result, beside),
            // Earlier versions stored the second word where there was no baseline.
            None if matches!(
                status,
                BenchStatus::CannotTell | BenchStatus::NotReproducible
            ) =>
            {
                "Its baseline is not done: without it nothing can be said.".to_owned()
            }
            // It had a result when the status was found.
            None => {
                "Found against an earlier result of its baseline, which has none now.".to_owned()
            }
        },
    }
}

/// What a card has seen of wrong bytes, or what the simulated device concludes.
pub fn wrong_bytes(result: &BenchResult) -> String {
    let device = match result.card {
        Some(_) => DeviceKind::Cuda,
        None => DeviceKind::Sim,
    };
    bench::wrong_bytes(result.corrupted_tensors, result.races, device)
}

/// A baseline that ran out has no peak to compare with, and often too few steps to show growth.
fn beside_early_end(
    status: BenchStatus,
    result: &BenchResult,
    beside: &BenchResult,
    ended: &str,
) -> String {
    let ran_out = format!("The baseline ran out of memory {ended}");
    match status {
        BenchStatus::CannotTell => format!("{TOO_FEW} {ran_out}."),
        BenchStatus::LowersPeak => {
            let before = match shows_growth(beside) {
                true => format!(" instead of {}", growth(beside.growth_per_step)),
                false => String::new(),
            };
            let after = growth(result.growth_per_step);
            let host = match result.host_growth_per_step {
                host if host > GROWS => format!(", and {} on the host", growth(host)),
                _ => String::new(),
            };
            format!("{ran_out}; this run completes. Growth {after} a step{before}{host}.")
        }
        _ => of_patch(status, result, beside),
    }
}

fn of_patch(status: BenchStatus, result: &BenchResult, beside: &BenchResult) -> String {
    let (before, after) = (beside.growth_per_step, result.growth_per_step);
    let (host_before, host) = (beside.host_growth_per_step, result.host_growth_per_step);
    let peak = change(beside.peak_allocated, result.peak_allocated);
    match status {
        BenchStatus::MovesToHost => format!(
            "Growth on the device {} → {}, but pinned host memory grows {} a step instead of {}.",
            growth(before),
            growth(after),
            growth(host),
            growth(host_before)
        ),
        BenchStatus::MakesItWorse if host > GROWS && after <= GROWS.max(before) => format!(
            "Pinned host memory grows {} a step instead of {}.",
            growth(host),
            growth(host_before)
        ),
        BenchStatus::MakesItWorse => format!(
            "Leaves {} behind in each step, the baseline {}.",
            growth(after),
            growth(before)
        ),
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
        BenchStatus::CannotTell => format!("{TOO_FEW} Peak {peak}."),
        BenchStatus::PreventsCrash => {
            "The baseline raises, with the patch the run completes.".to_owned()
        }
        BenchStatus::PreventsCorruption => {
            format!("Without the patch {}; with it none.", wrong_bytes(beside))
        }
        BenchStatus::LowersPeak if before > GROWS => {
            format!(
                "Peak {peak}, but it grows {} a step all the same.",
                growth(after)
            )
        }
        BenchStatus::LowersPeak => format!("Peak {peak}; nothing grew before."),
        _ if is_identical(result, beside) => "Byte for byte the baseline.".to_owned(),
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

/// Rows for tests.
#[cfg(test)]
pub mod tests {
    use super::*;
    use api::bench::{BenchRowState, Fate, Hypothesis, Known};
    use trace::units::Bytes;

    /// A row with the numbers that matter here.
    pub fn row(patches: &[&str], status: BenchStatus, peak: u64, growth: f64) -> BenchRow {
        let name = patches.join("").replace(['-', '+'], "");
        BenchRow {
            id: format!("row_x{name}").parse().unwrap(),
            config: "vl".to_owned(),
            patches: patches.iter().map(|&id| id.to_owned()).collect(),
            steps: 100,
            state: BenchRowState::Done,
            status: Some(status),
            result: Some(BenchResult {
                device: "sim".to_owned(),
                steps_run: 100,
                peak_allocated: Bytes(peak),
                peak_reserved: Bytes(peak),
                allocated_end: Bytes(peak - 1_000_000_000),
                growth_per_step: growth,
                step_seconds: 0.1,
                ..BenchResult::default()
            }),
            spark: vec![Bytes(peak - 2_000_000_000), Bytes(peak - 1_000_000_000)],
            run: None,
            note: None,
            hypothesis: None,
            asserted: None,
            known: Known::default(),
            seconds: None,
        }
    }

    fn said(row: &BenchRow, baseline: &BenchRow) -> String {
        sentence(row, Some(baseline)).unwrap()
    }

    #[test]
    fn what_could_not_be_stored_is_told_after_the_numbers() {
        let mut base = row(&[], BenchStatus::Baseline, 21_444_000_000, 103.8e6);
        let missing = "its recording is missing, because it cannot be stored: the disk is full";
        base.note = Some(missing.to_owned());
        let expected = "Leaves +98.991 MiB behind in each step. Its recording is missing, because \
                        it cannot be stored: the disk is full.";
        assert_eq!(said(&base, &base), expected);
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
        let mut few = row(&["p3"], BenchStatus::CannotTell, 14_051_000_000, 0.0);
        few.result.as_mut().unwrap().steps_run = 2;
        assert!(said(&few, &base).starts_with("Too few steps to say what grows. Peak "));
        few.status = Some(BenchStatus::Baseline);
        assert_eq!(said(&few, &few), "Too few steps to say what grows.");
        let same = row(
            &["p1"],
            BenchStatus::NotReproducible,
            21_444_000_000,
            103.8e6,
        );
        assert!(said(&same, &base).starts_with("Byte for byte"));
        let lower = row(&["x"], BenchStatus::LowersPeak, 20_444_000_000, 103.8e6);
        assert!(said(&lower, &base).starts_with("Peak −953.674 MiB, but it grows"));
        let alone = |row| sentence(row, None).unwrap();
        assert!(alone(&same).contains("baseline is not done"));
        few.status = Some(BenchStatus::CannotTell);
        assert!(alone(&few).contains("baseline is not done"));
        assert!(alone(&fix).contains("an earlier result of its baseline"));
    }

    #[test]
    fn wrong_bytes_are_told_as_they_were_found() {
        let mut base = row(&[], BenchStatus::Crash, 9_000_000_000, 0.0);
        base.result.as_mut().unwrap().crash = Some("setStorage".to_owned());
        let mut racy = row(&["p4"], BenchStatus::Corruption, 9_000_000_000, 0.0);
        let result = racy.result.as_mut().unwrap();
        (result.corrupted_tensors, result.races) = (47, 4);
        let expected = "The baseline's crash is gone, but 47 kernels or copies may have worked on \
                        wrong bytes (4 pairs of places race): the memory looks well, the data do \
                        not.";
        assert_eq!(said(&racy, &base), expected);
        let fixed = row(
            &["key"],
            BenchStatus::PreventsCorruption,
            9_000_000_000,
            0.0,
        );
        let mut check = |n: u64, expected: &str| {
            let result = racy.result.as_mut().unwrap();
            (result.corrupted_tensors, result.races) = (n, 0);
            assert_eq!(said(&fixed, &racy), expected);
        };
        check(
            70,
            "Without the patch 70 restored tensors hold the elements of another view; with it \
             none.",
        );
        check(
            1,
            "Without the patch 1 restored tensor holds the elements of another view; with it none.",
        );
    }

    #[test]
    fn an_early_end_names_its_step() {
        let base = row(&[], BenchStatus::Baseline, 21_444_000_000, 0.0);
        let mut oom = row(&[], BenchStatus::OutOfMemory, 21_444_000_000, 0.0);
        let result = oom.result.as_mut().unwrap();
        (result.oom_step, result.steps_run) = (Some(18), 18);
        assert!(said(&oom, &base).starts_with("Out of memory in step 19 of 100, at"));
        let result = oom.result.as_mut().unwrap();
        (result.oom_step, result.steps_run) = (Some(0), 0);
        let expected = "Out of memory in step 1 of 100, or while it was built, at";
        assert!(said(&oom, &base).starts_with(expected));
        oom.result.as_mut().unwrap().began = Some(false);
        assert!(said(&oom, &base).starts_with("Out of memory before step 1 of 100, at"));
        oom.result.as_mut().unwrap().began = None;
        oom.result.as_mut().unwrap().d2h_bytes = Bytes(1);
        assert!(said(&oom, &base).starts_with("Out of memory in step 1 of 100, at"));
    }

    /// The growth of a baseline that ran out is told where it has enough steps.
    #[test]
    fn a_baseline_that_ran_out_is_told_with_its_step() {
        let check = |status: BenchStatus, done: u32, before: f64, expected: &str| {
            let mut base = row(&[], BenchStatus::OutOfMemory, 11_000_000_000, before);
            let result = base.result.as_mut().unwrap();
            (result.oom_step, result.steps_run) = (Some(done), done);
            let row = row(&["p3"], status, 10_900_000_000, 33e6);
            assert_eq!(said(&row, &base), expected);
        };
        let ran_out = |step| format!("The baseline ran out of memory in step {step} of 100");
        check(
            BenchStatus::LowersPeak,
            2,
            0.0,
            &(ran_out(3) + "; this run completes. Growth +31.471 MiB a step."),
        );
        check(
            BenchStatus::LowersPeak,
            18,
            34e6,
            &(ran_out(19)
                + "; this run completes. Growth +31.471 MiB a step instead of +32.425 MiB."),
        );
        check(
            BenchStatus::CannotTell,
            2,
            0.0,
            &format!("Too few steps to say what grows. {}.", ran_out(3)),
        );
        check(
            BenchStatus::RootCauseFix,
            18,
            100e6,
            "Takes away 67 % of the growth; +31.471 MiB a step are left.",
        );
    }

    #[test]
    fn a_hypothesis_has_a_fate_and_no_number_in_a_column() {
        let base = row(&[], BenchStatus::Baseline, 21_444_000_000, 103.8e6);
        let mut guess = row(&["p5"], BenchStatus::SourceUnavailable, 10_000_000_000, 0.0);
        guess.result = None;
        guess.hypothesis = Some(Hypothesis {
            about: "the hook keeps activations on the device".to_owned(),
            fate: Fate::Refuted,
            why: "it peaks at 10.789 GB, published is 15.935 GB".to_owned(),
        });
        let said = said(&guess, &base);
        assert!(
            said.starts_with("Its source was never published."),
            "{said}"
        );
        assert!(said.contains("is refuted: it peaks at 10.789 GB"), "{said}");
    }

    #[test]
    fn a_leak_that_moved_is_told_with_both_sides() {
        let base = row(&[], BenchStatus::Baseline, 21_444_000_000, 103.8e6);
        let mut moved = row(&["x"], BenchStatus::MovesToHost, 20_000_000_000, 0.0);
        moved.result.as_mut().unwrap().host_growth_per_step = 2.01e9;
        let said = said(&moved, &base);
        assert!(said.contains("+98.991 MiB → 0"), "{said}");
        assert!(said.contains("+1.872 GiB a step"), "{said}");
    }
}
