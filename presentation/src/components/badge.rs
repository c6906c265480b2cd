//! Quality notes as badges: what readers should know about the data.

use crate::letters::{a, several};
use api::bench::Fault;
use api::leaks::LeakSummary;
use api::leaks::Verdict;
use api::quality::{self, caution};
use api::runs::RunSummary;
use std::cmp::Reverse;
use timeline::order;
use trace::quality_code;
use trace::units::Bytes;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Only for people who look at the run; a list of runs leaves it out.
    Detail,
    /// Good to know; the numbers are still right.
    Info,
    /// Some numbers are incomplete or cannot be known.
    Caution,
}

/// How a finding is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    /// A word or two.
    pub label: String,
    /// What it means, for the tooltip.
    pub about: &'static str,
    /// How much it matters.
    pub weight: Weight,
}

impl Badge {
    fn new(weight: Weight, label: &str, about: &'static str) -> Badge {
        Badge {
            label: label.to_owned(),
            about,
            weight,
        }
    }
}

/// The badge of a quality code. An unknown code from a newer server is shown as text.
pub fn badge(code: &str) -> Badge {
    let known = caution(code).map(|(label, about)| Badge::new(Weight::Caution, label, about));
    let known = known.or_else(|| info(code).map(|(l, about)| Badge::new(Weight::Info, l, about)));
    known.unwrap_or_else(|| match code {
        // Nearly every run has this: allocations of autograd's threads have no Python stack.
        quality_code::NO_STACKS => Badge::new(
            Weight::Detail,
            "some stacks missing",
            "Some allocations were recorded without a stack.",
        ),
        quality_code::NO_PYTHON_FRAMES => Badge::new(
            Weight::Detail,
            "some Python frames missing",
            "Some allocations were made by threads without Python, such as autograd's.",
        ),
        _ => Badge::new(Weight::Detail, &code.replace('_', " "), ""),
    })
}

fn info(code: &str) -> Option<(&'static str, &'static str)> {
    Some(match code {
        quality_code::LATE_START => (
            "late start",
            "Recording began after memory had been allocated that was freed later.",
        ),
        quality_code::REQUESTED_UNKNOWN => (
            "requested at most",
            "The file does not say how much was asked for some blocks: their whole size counts.",
        ),
        quality_code::NO_TIMES => (
            "no times",
            "Events have no times: torch before 2.2, and torch_npu, write none.",
        ),
        quality_code::HOST_EVENTS_BEFORE => (
            "earlier pinned memory left out",
            "The ring of pinned memory also held events from before the recording.",
        ),
        quality_code::PINNED_NOT_JUDGED => (
            "pinned memory not judged",
            "The clock was set back, so leaks in the host's pinned memory are not looked for.",
        ),
        _ => return None,
    })
}

/// The badges of a run in a list: what matters most first, details left out.
pub fn badges(run: &RunSummary) -> Vec<Badge> {
    let notes = run.quality.iter().map(|code| badge(code));
    let notes = notes.filter(|badge| badge.weight > Weight::Detail);
    // First what the run is, then what to know about its data.
    let wrong = run.went_wrong().into_iter().map(fault);
    let known = wrong.chain(run.leaks.iter().map(verdict));
    let mut badges: Vec<Badge> = known.chain(notes).collect();
    order::sort_by_key(&mut badges, |badge| Reverse(badge.weight));
    let mut seen = Vec::new();
    badges.retain(|badge| {
        let is_new = !seen.contains(&badge.label);
        seen.push(badge.label.clone());
        is_new
    });
    badges
}

/// What the numbers of a run leave out, because its recording is not whole: for pages that show
/// one of its numbers and nothing else of it.
pub fn cautions(run: &RunSummary) -> Vec<Badge> {
    let cautions = quality::cautions(&run.quality).into_iter();
    let badge = |(label, about): (&str, _)| Badge::new(Weight::Caution, label, about);
    cautions.map(badge).collect()
}

/// The badge of what went wrong. What a bench knows of it, the page of the run tells.
fn fault(fault: Fault) -> Badge {
    let about = match fault {
        Fault::OutOfMemory => "An allocation failed: the run ran out of memory.",
        Fault::Crash => "The program failed: its page says in which step.",
        Fault::Corruption => "Data are wrong, or may be: its page says what was found.",
    };
    Badge::new(Weight::Caution, fault.label(), about)
}

/// The badge of a verdict.
pub fn verdict(leaks: &LeakSummary) -> Badge {
    let a_step = || a(&leaks.step);
    match (leaks.verdict, leaks.bytes_per_step) {
        (Verdict::Leak, Bytes::ZERO) => Badge::new(
            Weight::Caution,
            &["leaks within ", &several(&leaks.step)].concat(),
            "Each of its parts keeps memory until it ends.",
        ),
        (Verdict::Leak, bytes) if leaks.device.is_pinned() => Badge::new(
            Weight::Caution,
            &format!("leaks {bytes} {} on the host", a_step()),
            "Pinned memory of the host is kept again and again: choose it on the run's page.",
        ),
        (Verdict::Leak, bytes) => Badge::new(
            Weight::Caution,
            &format!("leaks {bytes} {}", a_step()),
            "Memory is kept again and again: its Leaks tab shows by which code.",
        ),
        (Verdict::Clean, _) => Badge::new(
            Weight::Info,
            "no leak",
            "What stays is bounded: nothing accumulates.",
        ),
        (Verdict::CannotTell, _) if leaks.recording.is_pass() => Badge::new(
            Weight::Info,
            leaks.recording.word().unwrap_or_default(),
            "No loop is seen that covers the recording, so nothing is said of leaks.",
        ),
        (Verdict::CannotTell, _) => Badge::new(
            Weight::Info,
            "leak: cannot tell",
            "The recording does not say whether it leaks: its Leaks tab says why.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::runs::RunSource;
    use trace::device::DeviceIdx;
    use trace::steps::recording::Kind;
    use trace::units::Bytes;

    #[test]
    fn an_unknown_code_shows_as_its_own_words() {
        let unknown = badge("clock_went_back");
        assert_eq!(
            (unknown.label.as_str(), unknown.weight),
            ("clock went back", Weight::Detail)
        );
    }

    #[test]
    fn of_most_allocations_the_frames_are_there() {
        let label = |code| badge(code).label;
        assert_eq!(label("no_stacks"), "some stacks missing");
        assert_eq!(label("no_python_frames"), "some Python frames missing");
    }

    #[test]
    fn a_list_shows_each_thing_that_matters_once() {
        let codes = ["sizes_inferred", "late_start", "no_events", "state_only"];
        let run = RunSummary {
            pinned: None,
            id: "run_1".parse().unwrap(),
            name: String::new(),
            source: RunSource::Upload,
            created_ms: 0,
            file_bytes: Bytes::ZERO,
            content_hash: String::new(),
            devices: vec![],
            steps: 0,
            peak_allocated: Bytes::ZERO,
            quality: codes.map(str::to_owned).to_vec(),
            faults: vec![],
            leaks: Some(LeakSummary {
                device: DeviceIdx(0),
                recording: Kind::StateOnly,
                verdict: Verdict::CannotTell,
                reason: String::new(),
                bytes_per_step: Bytes::ZERO,
                step: "step".to_owned(),
            }),
            job: None,
            labels: Default::default(),
            uploaded_by: None,
            deleted_ms: None,
        };
        let labels = |badges: Vec<Badge>| {
            let labels = badges.into_iter().map(|badge| badge.label);
            labels.collect::<Vec<String>>()
        };
        assert_eq!(labels(badges(&run)), ["state only", "late start"]);
        assert_eq!(labels(cautions(&run)), ["state only"]);
        // What a bench knows comes first.
        let wrong = RunSummary {
            faults: vec![Fault::Crash, Fault::Corruption],
            ..run
        };
        let shown = ["crashed", "corrupted data", "state only", "late start"];
        assert_eq!(labels(badges(&wrong)), shown);
    }

    #[test]
    fn a_verdict_is_a_badge() {
        let label = |recording, verdict, bytes_per_step, step: &str| {
            let leaks = LeakSummary {
                device: DeviceIdx(0),
                recording,
                verdict,
                reason: String::new(),
                bytes_per_step,
                step: step.to_owned(),
            };
            super::verdict(&leaks).label
        };
        let check = |recording, verdict, bytes: u64, expected: &str| {
            assert_eq!(label(recording, verdict, Bytes(bytes), "step"), expected);
        };
        let eight = Bytes::mib(8).get();
        check(Kind::Loop, Verdict::Leak, eight, "leaks 8.00 MiB a step");
        check(Kind::Loop, Verdict::Leak, 0, "leaks within steps");
        check(Kind::Loop, Verdict::Clean, 0, "no leak");
        check(Kind::Loop, Verdict::CannotTell, 0, "leak: cannot tell");
        check(Kind::Unknown, Verdict::CannotTell, 0, "leak: cannot tell");
        check(Kind::WholeStep, Verdict::CannotTell, 0, "one whole step");
        let of = |bytes, step| label(Kind::Loop, Verdict::Leak, Bytes(bytes), step);
        assert_eq!(of(eight, "request"), "leaks 8.00 MiB a request");
        assert_eq!(of(0, "micro-batch"), "leaks within micro-batches");
    }
}
