//! What a bench knows of two compared runs, laid over what their recordings say. Memory may look
//! well where data are wrong, and a run that raised needs little.
//!
//! | the new run | the baseline | the gate |
//! |---|---|---|
//! | raised, ran out of memory, or its data are wrong | got as far without that | regression |
//! | the same | did the same, did fewer steps, or is no run of a bench | cannot tell |
//! | anything | raised, or its data are wrong: its memory is no measure | cannot tell |
//!
//! A regression stays one. What is worse by the recordings alone is only worth a look where the
//! baseline is no measure. The change of each device follows, so nothing is called better.

use api::bench::{Fault, GATE_CODE, RowOfRun};
use api::compare::Against;
use std::{iter, mem};
use timeline::format::plural;
use trace::compare::gate::{Finding, Outcome, Verdicts, Weight};
use trace::compare::{Change, Difference};
use trace::leaks::Verdict;

/// What is said of two runs that a bench may have recorded; `None` if it knows nothing that the
/// recordings do not say.
pub fn laid_over(
    against: &Against,
    base: Option<&RowOfRun>,
    new: Option<&RowOfRun>,
) -> Option<Against> {
    let is_recorded = against.devices.iter().any(|pair| pair.new.oom.is_some());
    let mut found = Vec::new();
    if let Some(new) = new {
        let faults = new.faults();
        let faults = faults.filter(|fault| *fault != Fault::OutOfMemory || !is_recorded);
        found.extend(faults.filter_map(|fault| of_new(new, base, fault)));
    }
    let n_of_new = found.len();
    if let Some(base) = base {
        // What a baseline needs that ran out of memory, its recording tells.
        let faults = base.faults().filter(|fault| *fault != Fault::OutOfMemory);
        found.extend(faults.map(|fault| of_base(base, new, fault)));
    }
    let is_measure = found.len() == n_of_new;
    let mended = without_advice(against, [base, new]);
    if found.is_empty() {
        return mended;
    }
    found.sort_by_key(|finding| finding.weight);
    let mut told = mended.unwrap_or_else(|| against.clone());
    for difference in &mut told.devices {
        judge(difference, &found, is_measure);
    }
    told.gate = verdicts(found, &told.gate, is_measure);
    Some(told)
}

/// What the recordings say, without the advice to record more where there are no more steps; `None`
/// where there are.
fn without_advice(against: &Against, rows: [Option<&RowOfRun>; 2]) -> Option<Against> {
    let mut told = against.clone();
    let mut mended: Vec<[String; 2]> = Vec::new();
    for difference in &mut told.devices {
        let sides = [&mut difference.base, &mut difference.new];
        for (side, row) in sides.into_iter().zip(rows) {
            let why = row.and_then(|row| row.too_few_steps(side.steps));
            if let Some(why) = why.filter(|_| side.leaks.verdict == Verdict::CannotTell) {
                let advice = mem::replace(&mut side.leaks.reason, why.clone());
                mended.push([advice, why]);
            }
        }
    }
    let headlines = told.devices.iter_mut().map(|pair| &mut pair.headline);
    let details = told.gate.findings.iter_mut().map(|found| &mut found.detail);
    let reason = iter::once(&mut told.gate.reason);
    for text in headlines.chain(details).chain(reason) {
        for [advice, why] in mended.iter().filter(|[advice, _]| !advice.is_empty()) {
            *text = text.replace(advice, why);
        }
    }
    (!mended.is_empty()).then_some(told)
}

/// What a bench knows among what was found.
pub fn known(gate: &Verdicts) -> impl Iterator<Item = &Finding> {
    let findings = gate.findings.iter();
    findings.filter(|finding| finding.code.starts_with(GATE_CODE))
}

/// What the new run's own row says beside the baseline's; `None` where the baseline ran out of
/// memory no later.
fn of_new(new: &RowOfRun, base: Option<&RowOfRun>, fault: Fault) -> Option<Finding> {
    let told = new.told(fault);
    let (weight, beside) = match base {
        None => (
            Weight::Unknown,
            "whether the baseline would is not known: no bench here ran it".to_owned(),
        ),
        Some(base) if fault == Fault::Corruption => match base.has(fault) {
            true => (Weight::Unknown, "so did the baseline".to_owned()),
            false if base.steps >= new.steps => (
                Weight::Fail,
                "the baseline did not, in as many steps".to_owned(),
            ),
            false => (Weight::Unknown, too_few(base)),
        },
        Some(base) if base.steps > new.steps => {
            (Weight::Fail, "the baseline got past that step".to_owned())
        }
        Some(base) if base.has(fault) => match fault {
            Fault::OutOfMemory => return None,
            Fault::Crash | Fault::Corruption => (Weight::Unknown, "so did the baseline".to_owned()),
        },
        Some(base) => (Weight::Unknown, too_few(base)),
    };
    Some(finding(weight, fault, format!("{told}; {beside}")))
}

/// Why the baseline does not show whether it would do the same.
fn too_few(base: &RowOfRun) -> String {
    let did = plural(base.steps.into(), "step");
    format!("the baseline did {did}, too few to show whether it would")
}

/// That the baseline is no measure, and whether the new run does better.
fn of_base(base: &RowOfRun, new: Option<&RowOfRun>, fault: Fault) -> Finding {
    let better = new.filter(|new| !new.has(fault)).map(|new| {
        let did = plural(new.steps.into(), "step");
        match fault {
            Fault::Crash | Fault::OutOfMemory => format!(", which did not crash in its {did}"),
            Fault::Corruption => format!(", which corrupted none in its {did}"),
        }
    });
    let detail = format!(
        "the baseline {}, so its memory is no measure for this run{}",
        base.told(fault),
        better.unwrap_or_default()
    );
    finding(Weight::Unknown, fault, detail)
}

fn finding(weight: Weight, fault: Fault, detail: String) -> Finding {
    Finding {
        weight,
        code: fault.code(),
        detail,
    }
}

/// The change of a device, and its headline: what the bench knows comes first.
fn judge(difference: &mut Difference, found: &[Finding], is_measure: bool) {
    let is_worse = found.iter().any(|finding| finding.weight == Weight::Fail);
    difference.change = match difference.change {
        _ if is_worse => Change::Worse,
        Change::Worse if is_measure => Change::Worse,
        _ => Change::NotComparable,
    };
    let recorded = &difference.headline;
    difference.headline = format!("{}; memory as recorded: {recorded}", sentences(found));
}

/// The answer of the gate, with what the bench knows.
fn verdicts(found: Vec<Finding>, recorded: &Verdicts, is_measure: bool) -> Verdicts {
    let recorded = recorded.findings.iter().cloned();
    let recorded = recorded.map(|finding| match finding.weight {
        Weight::Fail if !is_measure => Finding {
            weight: Weight::Warn,
            ..finding
        },
        _ => finding,
    });
    let mut findings: Vec<Finding> = found.into_iter().chain(recorded).collect();
    findings.sort_by_key(|finding| finding.weight);
    findings.truncate(Against::MAX_FINDINGS);
    let (outcome, decides) = match findings.first().map(|finding| finding.weight) {
        Some(Weight::Fail) => (Outcome::Regression, Weight::Fail),
        _ => (Outcome::CannotTell, Weight::Unknown),
    };
    let deciding = findings.iter().filter(|finding| finding.weight == decides);
    Verdicts {
        outcome,
        reason: sentences(deciding),
        findings,
    }
}

fn sentences<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> String {
    let details = findings.into_iter().map(|finding| finding.detail.as_str());
    details.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::compare::gate::Limits;
    use trace::compare::profile::Profile;

    /// A pass that holds so many MiB.
    fn pass(mib: u64) -> Profile {
        let text = format!("a alloc {mib}MiB at f m.py:1\nb alloc 512B at f m.py:1");
        Profile::of(&trace::testing::trace(&text))
    }

    /// What the recordings alone say of a change from 100 MiB to so many.
    fn recorded(mib: u64) -> Against {
        Against::of(&pass(100), &pass(mib), &Limits::default())
    }

    fn row() -> RowOfRun {
        RowOfRun {
            steps: 10,
            planned: 10,
            ..RowOfRun::default()
        }
    }

    fn corrupt() -> RowOfRun {
        RowOfRun {
            corrupted_tensors: 2,
            races: 1,
            ..row()
        }
    }

    fn crashed(steps: u32) -> RowOfRun {
        RowOfRun {
            steps,
            began: (steps == 0).then_some(true),
            crash: Some("RuntimeError: setStorage".to_owned()),
            ..row()
        }
    }

    fn ran_out(steps: u32) -> RowOfRun {
        RowOfRun {
            steps,
            oom_step: Some(steps),
            ..row()
        }
    }

    /// Checks the outcome, the change, and how the reason of the gate begins. Whatever is known, it
    /// stands first in the headline, and nothing passes.
    fn check(
        mib: u64,
        rows: [Option<RowOfRun>; 2],
        outcome: Outcome,
        change: Change,
        reason: &str,
    ) {
        let against = recorded(mib);
        let [base, new] = rows.each_ref().map(Option::as_ref);
        let told = laid_over(&against, base, new).expect("something is known");
        let gate = &told.gate;
        assert_eq!(gate.outcome, outcome, "{rows:?}: {gate:?}");
        assert!(gate.reason.starts_with(reason), "{rows:?}: {}", gate.reason);
        let difference = told.difference().expect("a device");
        assert_eq!(difference.change, change, "{rows:?}");
        let first = &known(gate).next().expect("it is known").detail;
        assert!(
            difference.headline.starts_with(first),
            "{}",
            difference.headline
        );
        let recorded = &against.difference().expect("a device").headline;
        assert!(
            difference.headline.ends_with(recorded),
            "{}",
            difference.headline
        );
    }

    #[test]
    fn wrong_data_never_pass() {
        use Change::{NotComparable, Worse};
        use Outcome::{CannotTell, Regression};
        let wrong = "corrupted data: 2 kernels or copies may have worked on wrong bytes (1 pair of \
                     places races); ";
        let said = |beside: &str| format!("{wrong}{beside}");
        for mib in [50, 100, 200] {
            let rows = [Some(row()), Some(corrupt())];
            let beside = said("the baseline did not, in as many steps");
            check(mib, rows, Regression, Worse, &beside);
        }
        let unknown = said("whether the baseline would is not known");
        check(
            100,
            [None, Some(corrupt())],
            CannotTell,
            NotComparable,
            &unknown,
        );
        let both = [Some(corrupt()), Some(corrupt())];
        check(
            50,
            both,
            CannotTell,
            NotComparable,
            &said("so did the baseline; the baseline "),
        );
        let few = [Some(ran_out(4)), Some(corrupt())];
        check(
            50,
            few,
            CannotTell,
            NotComparable,
            &said("the baseline did 4 steps, too few"),
        );
        let no_crash = [Some(crashed(0)), Some(corrupt())];
        check(
            50,
            no_crash,
            CannotTell,
            NotComparable,
            &said("the baseline did 0 steps"),
        );
    }

    #[test]
    fn a_baseline_that_failed_is_no_measure() {
        use Outcome::CannotTell;
        for mib in [50, 100, 200] {
            let why = "the baseline crashed in step 0 (after none of 10 steps): RuntimeError: \
                       setStorage, so its memory is no measure for this run, which did not crash \
                       in its 10 steps";
            let rows = [Some(crashed(0)), Some(row())];
            check(mib, rows, CannotTell, Change::NotComparable, why);
            let why = "the baseline corrupted data: 2 kernels or copies may have worked on wrong \
                       bytes (1 pair of places races), so its memory is no measure for this run, \
                       which corrupted none in its 10 steps";
            let rows = [Some(corrupt()), Some(row())];
            check(mib, rows, CannotTell, Change::NotComparable, why);
            let rows = [Some(crashed(0)), None];
            check(
                mib,
                rows,
                CannotTell,
                Change::NotComparable,
                "the baseline crashed in step 0",
            );
        }
        let told = laid_over(&recorded(200), Some(&crashed(0)), Some(&row())).expect("known");
        let weights = told.gate.findings.iter().map(|finding| finding.weight);
        assert!(weights.clone().all(|weight| weight != Weight::Fail));
        assert!(
            weights.into_iter().any(|weight| weight == Weight::Warn),
            "the peak is told"
        );
    }

    #[test]
    fn an_early_end_is_worse_if_the_baseline_got_past_it() {
        use Change::{NotComparable, Worse};
        use Outcome::{CannotTell, Regression};
        let past = "crashed in step 3 (after 3 of 10 steps): RuntimeError: setStorage; the \
                    baseline got past that step";
        let rows = [Some(row()), Some(crashed(3))];
        check(50, rows, Regression, Worse, past);
        let rows = [Some(crashed(7)), Some(crashed(3))];
        check(50, rows, Regression, Worse, past);
        let rows = [Some(crashed(3)), Some(crashed(3))];
        check(50, rows, CannotTell, NotComparable, "crashed in step 3");
        let rows = [Some(RowOfRun { steps: 2, ..row() }), Some(crashed(3))];
        check(50, rows, CannotTell, NotComparable, "crashed in step 3");
        let rows = [Some(row()), Some(ran_out(4))];
        let out = "ran out of memory in step 4 (after 4 of 10 steps); the baseline got past";
        check(50, rows, Regression, Worse, out);
    }

    #[test]
    fn to_record_more_is_no_advice_where_a_run_crashed() {
        let advice = "1 whole step is too few; record 4 steps or more";
        let mut against = recorded(100);
        let difference = &mut against.devices[0];
        difference.new.steps = 2;
        difference.new.leaks.verdict = Verdict::CannotTell;
        difference.new.leaks.reason = advice.to_owned();
        difference.headline = format!("no change, but whether it leaks is not known: {advice}");
        let told = laid_over(&against, Some(&row()), Some(&crashed(1))).expect("known");
        let difference = told.difference().expect("a device");
        let why = "the run crashed in step 1 (after 1 of 10 steps): there is 1 whole step, and 4 \
                   are needed to see a leak";
        assert_eq!(difference.new.leaks.reason, why);
        let headline = &difference.headline;
        assert!(headline.ends_with(why), "{headline}");
    }

    /// Its recording shows that, so nothing else of the row is news.
    #[test]
    fn to_record_more_is_no_advice_where_a_baseline_ran_out_of_memory() {
        let advice = "1 whole step is too few; record 4 steps or more";
        let mut against = recorded(100);
        let base = &mut against.devices[0].base;
        base.steps = 2;
        base.leaks.verdict = Verdict::CannotTell;
        base.leaks.reason = advice.to_owned();
        against.gate.reason = format!("no verdict on leaks ({advice})");
        let told = laid_over(&against, Some(&ran_out(1)), Some(&row())).expect("it is mended");
        let why = "the run ran out of memory in step 1 (after 1 of 10 steps): there is 1 whole \
                   step, and 4 are needed to see a leak";
        assert_eq!(told.difference().expect("a device").base.leaks.reason, why);
        assert_eq!(told.gate.reason, format!("no verdict on leaks ({why})"));
        assert_eq!(told.gate.outcome, against.gate.outcome);
    }

    #[test]
    fn what_the_recordings_say_stays_where_no_row_failed() {
        let against = recorded(50);
        for rows in [
            [None, None],
            [Some(row()), Some(row())],
            [Some(ran_out(4)), Some(row())],
            [Some(ran_out(4)), Some(ran_out(6))],
        ] {
            let [base, new] = rows.each_ref().map(Option::as_ref);
            assert_eq!(laid_over(&against, base, new), None, "{rows:?}");
        }
    }
}
