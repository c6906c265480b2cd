//! What a bench knows of a run: how its row ended. A recording of memory shows none of it: where
//! bytes are wrong, memory may look well.

use super::DeviceKind;
use super::verdict::BenchStatus;
use serde::{Deserialize, Serialize};
use trace::compare::gate::{Verdicts, Weight};
use trace::leaks::MIN_STEPS;
use trace::units::grouped;

/// The bench row whose first steps a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RowOfRun {
    /// Steps that the row completed, recorded or not.
    pub steps: u32,
    /// Growth over all of them, bytes a step: what the bench shows. The recording's own growth is
    /// fitted to the steps that it has.
    pub growth_per_step: i64,
    /// Steps that it was to run; 0 if the server does not say.
    #[serde(default)]
    pub planned: u32,
    /// Where it ran.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device: Option<DeviceKind>,
    /// The word that sums it up in its bench.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<BenchStatus>,
    /// Whether the first step began, if no step completed and that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub began: Option<bool>,
    /// Step, from 0, at which memory ran out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oom_step: Option<u32>,
    /// Exception that ended the run, other than out of memory. Its text is empty for readers who
    /// may not see names.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub crash: Option<String>,
    /// Restored tensors that hold other bytes, and kernels and copies that may have worked on wrong
    /// ones. Over all steps.
    #[serde(default)]
    pub corrupted_tensors: u64,
    /// Pairs of places that race.
    #[serde(default)]
    pub races: u64,
}

/// What went wrong in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Fault {
    /// Memory ran out.
    OutOfMemory,
    /// It raised.
    Crash,
    /// Bytes are wrong, or may be.
    Corruption,
}

impl Fault {
    /// All of them, in the order in which a verdict asks for them.
    pub const ALL: [Fault; 3] = [Fault::OutOfMemory, Fault::Crash, Fault::Corruption];

    /// In a word or two.
    pub const fn label(self) -> &'static str {
        match self {
            Fault::OutOfMemory => "out of memory",
            Fault::Crash => "crashed",
            Fault::Corruption => "corrupted data",
        }
    }

    /// Its name in JSON, and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::OutOfMemory => "out_of_memory",
            Fault::Crash => "crash",
            Fault::Corruption => "corruption",
        }
    }

    /// The code of what the gate finds because of it.
    pub fn code(self) -> String {
        [GATE_CODE, self.name()].concat()
    }

    /// What a bench knows that the gate holds against the new run. Of a baseline it is said that it
    /// is no measure: that is no regression.
    pub fn of_gate(gate: &Verdicts) -> Vec<Fault> {
        let fails = |fault: &Fault| {
            let mut findings = gate.findings.iter();
            findings.any(|found| found.weight == Weight::Fail && found.code == fault.code())
        };
        Fault::ALL.into_iter().filter(fails).collect()
    }

    /// What a regression is called: by what a bench knows went wrong, else `regression`.
    pub fn or_regression(gate: &Verdicts) -> String {
        match Fault::of_gate(gate) {
            none if none.is_empty() => "regression".to_owned(),
            faults => Fault::in_words(&faults),
        }
    }

    /// These, and that memory ran out if a recording shows it.
    pub fn with_recorded(faults: &[Fault], ran_out: bool) -> Vec<Fault> {
        let is_known =
            |fault: &Fault| faults.contains(fault) || ran_out && *fault == Fault::OutOfMemory;
        Fault::ALL.into_iter().filter(is_known).collect()
    }

    /// Several of them in a few words: `crashed, corrupted data`; empty where there are none.
    pub fn in_words(faults: &[Fault]) -> String {
        let labels: Vec<&str> = faults.iter().map(|fault| fault.label()).collect();
        labels.join(", ")
    }
}

/// Begins the codes of what a bench knows.
pub const GATE_CODE: &str = "bench_";

impl RowOfRun {
    /// Whether this went wrong.
    pub fn has(&self, fault: Fault) -> bool {
        match fault {
            Fault::OutOfMemory => self.oom_step.is_some(),
            Fault::Crash => self.crash.is_some(),
            Fault::Corruption => self.corrupted_tensors > 0 || self.races > 0,
        }
    }

    /// What went wrong.
    pub fn faults(&self) -> impl Iterator<Item = Fault> + '_ {
        Fault::ALL.into_iter().filter(|fault| self.has(*fault))
    }

    /// What is known of it, to stand behind its label: `in step 3 (after 3 of 10 steps): why`.
    pub fn about(&self, fault: Fault) -> String {
        match fault {
            Fault::OutOfMemory => self.place(),
            Fault::Crash => match self.crash.as_deref().unwrap_or_default() {
                "" => self.place(),
                text => format!("{}: {text}", self.place()),
            },
            Fault::Corruption => {
                let device = self.device.unwrap_or(DeviceKind::Sim);
                wrong_bytes(self.corrupted_tensors, self.races, device)
            }
        }
    }

    /// The same in one sentence: `corrupted data: 2 kernels or copies may have …`.
    pub fn told(&self, fault: Fault) -> String {
        let about = self.about(fault);
        match fault {
            Fault::OutOfMemory => format!("ran out of memory {about}"),
            Fault::Crash => format!("crashed {about}"),
            Fault::Corruption => format!("corrupted data: {about}"),
        }
    }

    /// Why nobody can tell whether it leaks, where it ended before there were steps enough. To
    /// record more of them is no advice then: there are no more. `found` is how many a recording
    /// shows; if another loop of it is taken for steps, these are other ones.
    pub fn too_few_steps(&self, found: u32) -> Option<String> {
        let ended = match () {
            () if self.has(Fault::OutOfMemory) => "ran out of memory",
            () if self.has(Fault::Crash) => "crashed",
            () => return None,
        };
        // The last one that is found need not be whole.
        if self.steps as usize >= MIN_STEPS || found > self.steps + 1 {
            return None;
        }
        let whole = match self.steps {
            0 => "there is no whole step".to_owned(),
            1 => "there is 1 whole step".to_owned(),
            n => format!("there are {n} whole steps"),
        };
        let place = self.place();
        Some(format!(
            "the run {ended} {place}: {whole}, and {MIN_STEPS} are needed to see a leak"
        ))
    }

    /// The same row for readers who may not see names: how it ended is no secret, but what an
    /// exception says may have some. Each field is named, so that a new one is decided about.
    #[must_use]
    pub fn nameless(self) -> RowOfRun {
        RowOfRun {
            steps: self.steps,
            growth_per_step: self.growth_per_step,
            planned: self.planned,
            device: self.device,
            status: self.status,
            began: self.began,
            oom_step: self.oom_step,
            crash: self.crash.map(|_| String::new()),
            corrupted_tensors: self.corrupted_tensors,
            races: self.races,
        }
    }

    /// In which step it ended. Steps count from 0, as in recordings.
    fn place(&self) -> String {
        let step = grouped(self.steps.into());
        let place = match self.began.or((self.steps > 0).then_some(true)) {
            Some(true) => format!("in step {step}"),
            Some(false) => format!("before step {step}"),
            None => format!("in step {step}, or while it was built"),
        };
        match (self.steps, self.planned) {
            (_, 0) => place,
            (0, planned) => format!(
                "{place} (after none of {})",
                several(planned.into(), "step")
            ),
            (done, planned) => {
                let done = grouped(done.into());
                format!(
                    "{place} (after {done} of {})",
                    several(planned.into(), "step")
                )
            }
        }
    }
}

/// What a card has seen of wrong bytes, or what the simulated device concludes.
pub fn wrong_bytes(found: u64, races: u64, device: DeviceKind) -> String {
    if device == DeviceKind::Sim && races > 0 {
        let or_copies = if found == 1 { "or copy" } else { "or copies" };
        let places = match races {
            1 => "1 pair of places races".to_owned(),
            n => format!("{} pairs of places race", grouped(n)),
        };
        return format!(
            "{} {or_copies} may have worked on wrong bytes ({places})",
            several(found, "kernel")
        );
    }
    let hold = if found == 1 { "holds" } else { "hold" };
    let what = match device {
        DeviceKind::Cuda => "other bytes than were packed",
        DeviceKind::Sim => "the elements of another view",
    };
    format!("{} {hold} {what}", several(found, "restored tensor"))
}

fn several(n: u64, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {noun}{s}", grouped(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> RowOfRun {
        RowOfRun {
            steps: 3,
            planned: 10,
            ..RowOfRun::default()
        }
    }

    fn check(row: &RowOfRun, expected: &[&str]) {
        let told: Vec<String> = row.faults().map(|fault| row.told(fault)).collect();
        assert_eq!(told, expected, "{row:?}");
    }

    #[test]
    fn what_went_wrong_is_told_with_its_step() {
        check(&row(), &[]);
        let mut crashed = RowOfRun {
            crash: Some("RuntimeError: setStorage".to_owned()),
            ..row()
        };
        check(
            &crashed,
            &["crashed in step 3 (after 3 of 10 steps): RuntimeError: setStorage"],
        );
        crashed.steps = 0;
        let said = "(after none of 10 steps): RuntimeError: setStorage";
        for (began, place) in [
            (Some(true), "in step 0"),
            (Some(false), "before step 0"),
            (None, "in step 0, or while it was built"),
        ] {
            crashed.began = began;
            check(&crashed, &[&format!("crashed {place} {said}")]);
        }
        let nameless = crashed.nameless();
        check(
            &nameless,
            &["crashed in step 0, or while it was built (after none of 10 steps)"],
        );
        let ran_out = RowOfRun {
            steps: 18,
            planned: 0,
            oom_step: Some(18),
            corrupted_tensors: 1,
            ..row()
        };
        check(
            &ran_out,
            &[
                "ran out of memory in step 18",
                "corrupted data: 1 restored tensor holds the elements of another view",
            ],
        );
    }

    #[test]
    fn to_record_more_is_no_advice_where_a_run_crashed() {
        let crashed = |steps: u32| RowOfRun {
            steps,
            began: Some(true),
            crash: Some("setStorage".to_owned()),
            ..row()
        };
        let check = |row: RowOfRun, found: u32, expected: Option<&str>| {
            assert_eq!(row.too_few_steps(found).as_deref(), expected, "{row:?}");
        };
        let why = "the run crashed in step 0 (after none of 10 steps): there is no whole step, and \
                   4 are needed to see a leak";
        check(crashed(0), 0, Some(why));
        let why = "the run crashed in step 3 (after 3 of 10 steps): there are 3 whole steps, and 4 \
                   are needed to see a leak";
        check(crashed(3), 4, Some(why));
        check(crashed(3), 40, None);
        check(crashed(4), 5, None);
        check(row(), 3, None);
        let ran_out = RowOfRun {
            oom_step: Some(1),
            steps: 1,
            ..row()
        };
        let why = "the run ran out of memory in step 1 (after 1 of 10 steps): there is 1 whole \
                   step, and 4 are needed to see a leak";
        check(ran_out, 2, Some(why));
    }

    #[test]
    fn a_gate_says_for_which_fault_it_fails() {
        use trace::compare::gate::{Finding, Outcome};
        let check = |found: &[(Weight, &str)], expected: &str| {
            let findings = found.iter().map(|(weight, code)| Finding {
                weight: *weight,
                code: (*code).to_owned(),
                detail: String::new(),
            });
            let gate = Verdicts {
                outcome: Outcome::Regression,
                reason: String::new(),
                findings: findings.collect(),
            };
            assert_eq!(Fault::or_regression(&gate), expected, "{found:?}");
        };
        let wrong = (Weight::Fail, "bench_corruption");
        check(&[wrong], "corrupted data");
        check(
            &[wrong, (Weight::Fail, "bench_crash")],
            "crashed, corrupted data",
        );
        check(&[wrong, (Weight::Unknown, "bench_crash")], "corrupted data");
        check(&[(Weight::Fail, "peak")], "regression");
        for fault in Fault::ALL {
            let name = serde_json::to_value(fault).unwrap();
            assert_eq!(name, serde_json::json!(fault.name()));
        }
    }

    #[test]
    fn wrong_bytes_are_told_as_they_were_found() {
        let check = |found, races, device, expected: &str| {
            assert_eq!(wrong_bytes(found, races, device), expected);
        };
        let raced = "1 kernel or copy may have worked on wrong bytes (1 pair of places races)";
        check(1, 1, DeviceKind::Sim, raced);
        let raced = "1,200 kernels or copies may have worked on wrong bytes (4 pairs of places \
                     race)";
        check(1_200, 4, DeviceKind::Sim, raced);
        let seen = "2 restored tensors hold other bytes than were packed";
        check(2, 4, DeviceKind::Cuda, seen);
        let other = "2 restored tensors hold the elements of another view";
        check(2, 0, DeviceKind::Sim, other);
    }

    /// A server that does not know of it sends the two numbers alone.
    #[test]
    fn an_older_answer_has_no_fault() {
        let read = r#"{"steps": 8, "growth_per_step": 1000}"#;
        let row: RowOfRun = serde_json::from_str(read).unwrap();
        assert_eq!((row.steps, row.faults().count()), (8, 0));
    }
}
