//! The headline of a comparison: what differs besides memory, and the numbers of each run's card.

use crate::components::badge::Weight;
use crate::components::problem_note::sentence;
use crate::pages::run::head::merged;
use crate::pages::run::recording::beginning;
use ::timeline::format;
use api::problem::Problem;
use api::runs::RunDetail;
use trace::compare::conditions::{Condition, ConditionKind};
use trace::compare::gate::{self, Outcome, Verdicts};
use trace::compare::words::{change_or_same, growth_by, growth_told, signed};
use trace::compare::{Difference, Side};
use trace::trace::Series;
use trace::units::Bytes;

/// What the conditions that differ say of the two runs.
pub fn title(conditions: &[Condition]) -> &'static str {
    let any = |kind: ConditionKind| conditions.iter().any(|condition| condition.kind == kind);
    match () {
        () if any(ConditionKind::Work) => "The two runs did not do the same work",
        () if any(ConditionKind::OutOfMemory) => "One of the two runs ran out of memory",
        () => "The two runs were not made in the same way",
    }
}

/// What the numbers of a run leave out, because its recording is not whole: a word or two, and what
/// they mean. Who cannot be told says so, too.
pub fn caveats(run: Result<&RunDetail, &Problem>) -> Vec<(String, String)> {
    let run = match run {
        Ok(run) => run,
        Err(problem) => {
            let why = format!(
                "Whether this recording is whole is not known. {}",
                sentence(&problem.detail)
            );
            return vec![("perhaps not whole".to_owned(), why)];
        }
    };
    let first = beginning(run).map(|about| ("first steps only".to_owned(), about));
    let notes = run.quality_notes.iter();
    // Of pinned memory only leaks are compared.
    let notes = merged(notes.filter(|note| !note.is_of_pinned())).into_iter();
    let notes = notes.filter(|(badge, _)| badge.weight == Weight::Caution);
    // The finding says what its badge says in general, and how sure that is.
    let notes = notes.map(|(badge, detail)| match detail.is_empty() {
        true => (badge.label, badge.about.to_owned()),
        false => (badge.label, sentence(&detail)),
    });
    first.into_iter().chain(notes).collect()
}

/// What stands above what the numbers leave out, if so many things went wrong that no memory shows.
pub const fn left_out(faults: usize) -> &'static str {
    match faults {
        0 => "Not all of each run is in its recording",
        _ => "Memory alone does not tell how these runs went",
    }
}

/// What the gate found that is worth a look, the most serious first: why it did not pass, or what
/// it warns of although it did. What the headline above says in the same words is left out.
pub fn reasons<'a>(gate: &'a Verdicts, headline: &str) -> Vec<&'a str> {
    let findings = gate.findings.iter();
    let serious = findings.filter(|finding| finding.weight <= gate::Weight::Warn);
    let mut reasons: Vec<&str> = serious.map(|finding| finding.detail.as_str()).collect();
    if reasons.is_empty() && gate.outcome != Outcome::Pass {
        reasons.push(&gate.reason);
    }
    reasons.retain(|reason| !headline.contains(reason));
    reasons
}

/// A number of a card.
#[derive(Debug, PartialEq)]
pub struct Fact {
    /// What it is.
    pub name: &'static str,
    /// Its values in the baseline and in the run.
    pub value: String,
    /// How much it changed; empty if that says nothing.
    pub change: String,
    /// The exact values, and what is to be known about them.
    pub exact: String,
}

/// The numbers of a card.
pub fn facts(difference: &Difference) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (name, series) in [
        ("peak allocated", Series::Allocated),
        ("peak reserved", Series::Reserved),
    ] {
        let delta = difference.series(series);
        facts.push(Fact {
            name,
            value: format!(
                "{} → {}",
                difference.base.peak(delta.base.peak),
                difference.new.peak(delta.new.peak)
            ),
            change: match difference.base.events.min(difference.new.events) {
                0 => String::new(),
                _ => {
                    let bounded = difference.bounded_change(series);
                    bounded.unwrap_or_else(|| change(delta.peak as f64))
                }
            },
            exact: format!(
                "{} → {}",
                format::exact_bytes(delta.base.peak.0),
                format::exact_bytes(delta.new.peak.0)
            ),
        });
    }
    let (base, new) = (&difference.base, &difference.new);
    if let (Some(before), Some(after)) = (base.growth, new.growth) {
        facts.push(Fact {
            name: "growth a step",
            value: format!("{} → {}", growth_told(before), growth_told(after)),
            change: growth_by(before, after).map_or_else(String::new, change),
            exact: format!("{}; {}", growth_note(base), growth_note(new)),
        });
    }
    facts.push(Fact {
        name: "leaks",
        value: format!("{} → {}", base.leaks.told(), new.leaks.told()),
        change: String::new(),
        exact: format!("{}; {}", base.leaks.reason, new.leaks.reason),
    });
    facts
}

fn slope(slope: f64) -> String {
    match slope {
        s if s <= -0.5 => signed(s),
        s => Bytes(s.max(0.0).round() as u64).to_string(),
    }
}

fn growth_note(side: &Side) -> String {
    let growth = side.growth.and_then(|growth| Some((growth, growth.error?)));
    growth.map_or_else(
        || "too few steps".to_owned(),
        |(growth, error)| {
            format!(
                "{} ± {}, from step {}",
                slope(growth.slope),
                Bytes(error as u64),
                growth.from_step
            )
        },
    )
}

/// A change with its sign, or "same".
pub fn change(bytes: f64) -> String {
    change_or_same(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_signs_and_none_is_said() {
        assert_eq!(change(0.2), "same");
        assert_eq!(change(-1.5 * f64::from(1 << 30)), "−1.50 GiB");
        assert_eq!(change(2048.0), "+2.00 KiB");
        assert_eq!(slope(-2048.0), "−2.00 KiB");
        assert_eq!(slope(0.1), "0 B");
    }

    #[test]
    fn a_run_that_is_not_whole_says_so() {
        let run = |notes: serde_json::Value, row: serde_json::Value| {
            let run = serde_json::json!({
                "id": "run_a", "name": "a", "source": "upload", "created_ms": 0, "file_bytes": 1,
                "content_hash": "", "devices": [], "pinned": null, "steps": 12,
                "peak_allocated": 1, "quality": [], "leaks": null, "job": null,
                "pickle_protocol": 4, "torch_guess": null, "settings": [],
                "quality_notes": notes, "bench_row": row,
            });
            let run = run.to_string();
            serde_json::from_str::<RunDetail>(&run).unwrap()
        };
        let check = |run: RunDetail, labels: &[&str], said: &str| {
            let told = caveats(Ok(&run));
            let found: Vec<&str> = told.iter().map(|(label, _)| label.as_str()).collect();
            assert_eq!(found, labels);
            assert!(
                told.iter().all(|(_, about)| about.contains(said)),
                "{told:?}"
            );
        };
        let none = serde_json::json!(null);
        let notes = serde_json::json!([
            { "code": "ring_wrapped", "detail": "device 0: 5 of 9 events are lost" },
            { "code": "no_stacks", "detail": "Device 0: 2 have none." },
        ]);
        check(
            run(notes, none.clone()),
            &["history cut"],
            "Device 0: 5 of 9 events are lost.",
        );
        let state = "the file holds no events: only the state at the end is known";
        let told = caveats(Ok(&run(
            serde_json::json!([{ "code": "no_events", "detail": state }]),
            serde_json::json!(null),
        )));
        assert_eq!(
            told[0].1,
            "The file holds no events: only the state at the end is known."
        );
        check(run(serde_json::json!([]), none), &[], "");
        for (steps, labels) in [(50, &["first steps only"][..]), (12, &[])] {
            let row = serde_json::json!({ "steps": steps, "growth_per_step": 0 });
            check(
                run(serde_json::json!([]), row),
                labels,
                "first 12 of the 50 steps",
            );
        }
        let lost = crate::response::unreachable();
        assert_eq!(caveats(Err(&lost))[0].0, "perhaps not whole");
    }

    #[test]
    fn a_gate_says_why() {
        use gate::Weight::{Fail, Note, Warn};
        let told = |headline: &str, outcome, found: &[(gate::Weight, &str)], expected: &[&str]| {
            let findings = found.iter().map(|&(weight, detail)| gate::Finding {
                weight,
                code: "peak".to_owned(),
                detail: detail.to_owned(),
            });
            let gate = Verdicts {
                outcome,
                reason: "a word".to_owned(),
                findings: findings.collect(),
            };
            assert_eq!(reasons(&gate, headline), expected, "below {headline}");
        };
        let check = |outcome, found: &[_], expected: &[&str]| told("", outcome, found, expected);
        let found = [
            (Fail, "it grew"),
            (Warn, "it reserves more"),
            (Note, "6 steps"),
        ];
        check(
            Outcome::Regression,
            &found,
            &["it grew", "it reserves more"],
        );
        check(Outcome::Pass, &found[1..], &["it reserves more"]);
        check(Outcome::Pass, &found[2..], &[]);
        check(Outcome::CannotTell, &found[2..], &["a word"]);
        let headline = "no change, but whether it leaks is not known: a word";
        told(headline, Outcome::CannotTell, &found[2..], &[]);
        told(
            "peak +1 GiB, it grew",
            Outcome::Regression,
            &found,
            &["it reserves more"],
        );
    }

    #[test]
    fn what_differs_is_said_in_a_sentence() {
        let of = |kind| Condition {
            kind,
            name: String::new(),
            base: String::new(),
            new: String::new(),
            meaning: String::new(),
        };
        let torch = of(ConditionKind::Torch);
        assert_eq!(
            title(std::slice::from_ref(&torch)),
            "The two runs were not made in the same way"
        );
        let work = [torch, of(ConditionKind::Work)];
        assert_eq!(title(&work), "The two runs did not do the same work");
    }
}
