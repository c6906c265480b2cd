//! The head of a run's page: findings, facts about a device, and the choice of another one.

use crate::components::badge::{Badge, badge, verdict};
use ::timeline::format::count;
use ::timeline::ticks;
use api::alive::AllocationFilter;
use api::quality::peak_in_short;
use api::runs::{DeviceSummary, RunSummary};
use api::timeline::Marks;
use api::view_state::ViewState;
use trace::device::DeviceIdx;
use trace::steps::Word;
use trace::trace::{QualityNote, Series, StepSource};

/// The findings by their badges: several devices may have the same one, each with its detail.
pub fn merged<'a>(notes: impl Iterator<Item = &'a QualityNote>) -> Vec<(Badge, String)> {
    let mut merged: Vec<(Badge, String)> = Vec::new();
    for note in notes {
        let badge = badge(&note.code);
        match merged
            .iter_mut()
            .find(|(other, _)| other.label == badge.label)
        {
            Some((_, detail)) if detail.contains(&note.detail) => {}
            Some((_, detail)) => {
                detail.push(' ');
                detail.push_str(&note.detail);
            }
            None => merged.push((badge, note.detail.clone())),
        }
    }
    merged
}

/// Whether it leaks, for a device whose steps are those that the run was judged by. With other
/// steps the verdict may be another one. A finding's badge that says the same has more to tell.
pub fn judged(run: &RunSummary, device: DeviceIdx, steps: Option<&str>) -> Option<Badge> {
    let leaks = run.leaks.as_ref();
    let leaks = leaks.filter(|leaks| leaks.device == device && steps.is_none());
    let is_found = |label: &str| run.quality.iter().any(|code| badge(code).label == label);
    leaks
        .map(verdict)
        .filter(|verdict| !is_found(&verdict.label))
}

/// The facts about a device with these findings. What its steps are called, the marks of its
/// picture say.
pub fn device_facts(
    device: &DeviceSummary,
    codes: &[String],
    marks: Option<&Marks>,
) -> Vec<(String, String)> {
    let peak = |series: Series| peak_in_short(device.series[series as usize].peak, codes);
    let several = |noun: &str, n: u32| {
        let s = if n == 1 { "" } else { "s" };
        [noun, s].concat()
    };
    let mut facts = vec![
        ("peak allocated".to_owned(), peak(Series::Allocated)),
        ("peak reserved".to_owned(), peak(Series::Reserved)),
        (
            several("event", device.events),
            count(u64::from(device.events)),
        ),
        (
            several("allocation", device.blocks),
            count(u64::from(device.blocks)),
        ),
    ];
    if let Some((first, last)) = device.time {
        facts.push(("lasts".to_owned(), ticks::span((last - first) as f64)));
    }
    let how = match device.step_source {
        StepSource::None => return facts,
        StepSource::Annotations => "",
        StepSource::Inferred => ", inferred",
    };
    let word = Word::of(marks.map_or(&[], |marks| &marks.steps));
    let word = if device.steps == 1 {
        word.one()
    } else {
        word.many()
    };
    facts.push(([word, how].concat(), count(u64::from(device.steps))));
    facts
}

/// Selects another device, which has other events and other blocks.
pub fn choose_device(state: &mut ViewState, device: DeviceIdx) {
    *state = ViewState {
        device: Some(device),
        steps: None,
        window: None,
        levels: None,
        selection: None,
        at: None,
        compared_with: None,
        root: None,
        filter: AllocationFilter::default(),
        ..state.clone()
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::leaks::{LeakSummary, Verdict};
    use api::runs::RunSource;
    use trace::span::Span;
    use trace::steps::recording::Kind;
    use trace::trace::{Fidelity, Step};
    use trace::units::{Bytes, EventIdx};

    #[test]
    fn steps_are_called_what_the_loop_calls_them() {
        let mut device = device_of(DeviceIdx(0));
        let last = |device: &DeviceSummary, marks: Option<&Marks>| {
            let (name, value) = device_facts(device, &[], marks).pop().unwrap();
            format!("{name}: {value}")
        };
        let mut marks = Marks::default();
        assert_eq!(last(&device, None), "steps, inferred: 12");
        assert_eq!(last(&device, Some(&marks)), "steps, inferred: 12");
        marks.steps = (0..12).map(|at| step(Word::Request, at)).collect();
        assert_eq!(last(&device, Some(&marks)), "requests, inferred: 12");
        marks.steps = (0..12).map(|at| step(Word::Epoch, at)).collect();
        device.step_source = StepSource::Annotations;
        assert_eq!(last(&device, Some(&marks)), "epochs: 12");
        device.steps = 1;
        assert_eq!(last(&device, None), "step: 1");
        device.step_source = StepSource::None;
        assert_eq!(last(&device, None), "allocations: 20");
        (device.events, device.blocks) = (1, 1);
        assert_eq!(last(&device, None), "allocation: 1");
    }

    fn device_of(device: DeviceIdx) -> DeviceSummary {
        DeviceSummary {
            device,
            events: 40,
            blocks: 20,
            series: Default::default(),
            fidelity: Fidelity::default(),
            unmatched_frees: 0,
            step_source: StepSource::Inferred,
            steps: 12,
            time: None,
            oom_events: vec![],
        }
    }

    fn run_with(leaks: Option<LeakSummary>, code: &str) -> RunSummary {
        RunSummary {
            id: "run_1".parse().unwrap(),
            name: "run".to_owned(),
            source: RunSource::Upload,
            created_ms: 0,
            file_bytes: Bytes::ZERO,
            content_hash: String::new(),
            devices: vec![],
            pinned: None,
            steps: 0,
            peak_allocated: Bytes::ZERO,
            quality: vec![code.to_owned()],
            faults: vec![],
            leaks,
            job: None,
            labels: Default::default(),
            uploaded_by: None,
            deleted_ms: None,
        }
    }

    fn step(word: Word, index: u32) -> Step {
        Step {
            index,
            name: word.nth(index),
            events: Span::new(EventIdx(index), EventIdx(index + 1)),
        }
    }

    #[test]
    fn a_peak_before_what_is_recorded_may_be_higher() {
        let check = |code: &str, expected: &str| {
            let facts = device_facts(&device_of(DeviceIdx(0)), &[code.to_owned()], None);
            assert_eq!(facts[0].1, expected, "{facts:?}");
            assert_eq!(facts[1].1, expected, "{facts:?}");
        };
        check("state_only", "≥ 0 B");
        check("ring_wrapped", "≥ 0 B");
        check("no_stacks", "0 B");
    }

    #[test]
    fn the_verdict_stands_beside_what_was_judged() {
        let leaks = |recording, verdict| LeakSummary {
            device: DeviceIdx(1),
            recording,
            verdict,
            reason: String::new(),
            bytes_per_step: Bytes::mib(8),
            step: "step".to_owned(),
        };
        let check = |leaks, code: &str, device, steps, expected: Option<&str>| {
            let badge = judged(&run_with(leaks, code), device, steps);
            assert_eq!(badge.as_ref().map(|badge| badge.label.as_str()), expected);
        };
        let (judged, other) = (DeviceIdx(1), DeviceIdx(0));
        let leak = leaks(Kind::Loop, Verdict::Leak);
        let told = Some("leaks 8.00 MiB a step");
        check(Some(leak.clone()), "no_stacks", judged, None, told);
        check(Some(leak.clone()), "no_stacks", other, None, None);
        check(Some(leak), "no_stacks", judged, Some("calls"), None);
        check(None, "no_stacks", judged, None, None);
        let state = leaks(Kind::StateOnly, Verdict::CannotTell);
        check(Some(state.clone()), "state_only", judged, None, None);
        check(Some(state), "no_stacks", judged, None, Some("state only"));
    }

    #[test]
    fn a_finding_about_two_devices_has_one_badge() {
        let note = |code: &str, detail: &str| QualityNote {
            code: code.into(),
            detail: detail.to_owned(),
        };
        let notes = [
            note("no_stacks", "Device 0: none."),
            note("late_start", "Late."),
            note("no_stacks", "Device 1: none."),
            note("no_stacks", "Device 1: none."),
        ];
        let merged = merged(notes.iter());
        let details: Vec<&str> = merged.iter().map(|(_, detail)| detail.as_str()).collect();
        assert_eq!(details, ["Device 0: none. Device 1: none.", "Late."]);
    }
}
