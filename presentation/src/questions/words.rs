//! The names in answers: verdicts, patterns, groups, badges.

use crate::components::badge::{Badge, Weight, badge};
use crate::components::frames::short_path;
pub use crate::letters::{a, capital, several};
use ::timeline::format;
use api::frames::FrameText;
use api::leaks::Verdict;
use api::leaks::{LeakGroup, Leaks, Pattern};
use api::runs::{DeviceSummary, RunDetail};
use trace::quality_code;
use trace::trace::StepSource;
use trace::units::Bytes;

/// The headline of a verdict.
pub fn headline(leaks: &Leaks) -> String {
    match leaks.verdict {
        Verdict::Leak if leaks.bytes_per_step > 0.0 => {
            let bytes = rounded(leaks.bytes_per_step);
            ["Leaks ", &bytes, " ", &a(&leaks.step)].concat()
        }
        Verdict::Leak => ["Grows within each ", &leaks.step].concat(),
        Verdict::Clean => "Does not leak".to_owned(),
        Verdict::CannotTell => match leaks.recording.word() {
            // Nothing repeats, so the question does not apply.
            Some(word) => format!("No verdict: {word}"),
            None => "Cannot tell".to_owned(),
        },
    }
}

/// The verdict in a word, as classes and badges name it.
pub const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Leak => "leak",
        Verdict::Clean => "clean",
        Verdict::CannotTell => "cannot tell",
    }
}

/// Makes a text a sentence: with a capital letter and a full stop.
pub fn sentence(text: &str) -> String {
    format!("{}.", capital(text))
}

/// How a group grows; `step` is what a step is called.
pub fn pattern(group: &LeakGroup, step: &str) -> String {
    let steps = several(step);
    match (group.pattern, group.every, &group.scope) {
        (Pattern::EveryStep, ..) if group.count_per_step < 0.5 => ["many ", &steps].concat(),
        (Pattern::EveryStep, ..) if group.count_per_step < 0.95 => ["most ", &steps].concat(),
        (Pattern::EveryStep, ..) => ["every ", step].concat(),
        (Pattern::EveryNth, Some(n), _) => format!("every {n} {steps}"),
        (Pattern::EveryNth, None, _) => "now and then".to_owned(),
        (Pattern::WithinStep, _, Some(scope)) => format!("within {steps}, each “{scope}”"),
        (Pattern::WithinStep, ..) => ["within ", &steps].concat(),
        (Pattern::Enlarged, ..) => "a buffer that is enlarged".to_owned(),
    }
}

/// The name of a group: the function that explains it; otherwise its size.
pub fn group_name(group: &LeakGroup) -> String {
    let named = group.frame.as_ref().or(group.alloc_frame.as_ref());
    match (named, &group.forward) {
        (Some(frame), _) => frame.name.clone(),
        (None, Some(forward)) => format!("backward of {}", forward.label),
        (None, None) => match group.site.strip_prefix('z').map(str::parse) {
            Some(Ok(0)) => "no stack recorded, of many sizes".to_owned(),
            Some(Ok(size)) => format!("no stack recorded, {} each", Bytes(size)),
            _ => "no stack recorded".to_owned(),
        },
    }
}

/// A name and what tells the group from others that it names, too: `forward, in gelu`.
pub fn full_name(group: &LeakGroup) -> String {
    let name = group_name(group);
    match &group.made_in {
        Some(frame) => format!("{name}, in {}", frame.name),
        None => name,
    }
}

/// Where a group is made and how it grows: `net.py:3 · in gelu layers.py:7 · every step`.
pub fn whereabouts(group: &LeakGroup, step: &str) -> String {
    let made_in = group.made_in.as_ref();
    let made_in = made_in.map(|frame| format!("in {} {}", frame.name, place(frame)));
    let named = group.frame.as_ref().map(place);
    let known = [named, made_in, Some(pattern(group, step))];
    let known: Vec<String> = known.into_iter().flatten().collect();
    known.join(" · ")
}

/// The telling end of a file, and the line where one is known.
fn place(frame: &FrameText) -> String {
    let file = short_path(&frame.filename);
    match frame.line {
        0 => file.to_owned(),
        line => format!("{file}:{line}"),
    }
}

/// `8.00 MiB ± 1.20 KiB`; without the error if it is 0.
pub fn rate(per_step: f64, error: f64) -> String {
    match error >= 0.5 {
        true => format!("{} ± {}", rounded(per_step), rounded(error)),
        false => rounded(per_step),
    }
}

/// `2`, or `0.25`.
pub fn amount(count: f64) -> String {
    match count {
        whole if (whole - whole.round()).abs() < 0.005 => format!("{whole:.0}"),
        part => format!("{part:.2}"),
    }
}

fn rounded(bytes: f64) -> String {
    Bytes(bytes.max(0.0).round() as u64).to_string()
}

/// The limits of every answer about a device; shown with each answer.
pub fn honesty(run: &RunDetail, device: &DeviceSummary) -> Vec<(Badge, String)> {
    let mut badges = Vec::new();
    let caution = |label: &str| Badge {
        label: label.to_owned(),
        about: "",
        weight: Weight::Caution,
    };
    match device.step_source {
        StepSource::Annotations => {}
        StepSource::Inferred => badges.push((
            caution("steps inferred"),
            "No annotation marks the steps: they are read from the program's loops.".to_owned(),
        )),
        StepSource::None => badges.push((
            caution("no steps"),
            "Nothing marks steps, and no loop is seen that covers the recording.".to_owned(),
        )),
    }
    let concerns = [
        quality_code::RING_WRAPPED,
        quality_code::NO_STACKS,
        quality_code::NO_EVENTS,
        quality_code::STATE_ONLY,
        quality_code::EVENTS_LEFT_OUT,
        quality_code::CONTRADICTORY,
        quality_code::LATE_START,
    ];
    for note in &run.quality_notes {
        if concerns.contains(&note.code.as_str()) && note.concerns(device.device) {
            badges.push((
                badge(&note.code),
                sentence(note.detail.trim_end_matches('.')),
            ));
        }
    }
    badges.extend(fidelity(device));
    badges
}

/// How well the allocator's rules reproduce the recorded addresses; the sizes of blocks depend on
/// it.
fn fidelity(device: &DeviceSummary) -> Option<(Badge, String)> {
    let fidelity = device.fidelity;
    if fidelity.allocs == 0 {
        return None;
    }
    let missed = fidelity.allocs - fidelity.predicted;
    let percent = format::percent(fidelity.predicted, fidelity.allocs);
    let weight = if missed * 20 > fidelity.allocs {
        Weight::Caution
    } else {
        Weight::Info
    };
    let badge = Badge {
        label: format!("fidelity {percent} %"),
        about: "",
        weight,
    };
    let detail = format!(
        "The allocator's rules predict the address of {} of {}; block sizes, and so \
         the bytes here, rest on them.",
        format::count(fidelity.predicted),
        format::plural(fidelity.allocs, "allocation"),
    );
    Some((badge, detail))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use trace::device::DeviceIdx;
    use trace::trace::Fidelity;

    pub fn group() -> LeakGroup {
        LeakGroup {
            site: "z4096".to_owned(),
            stack: None,
            frame: None,
            frame_inferred: false,
            alloc_frame: None,
            made_in: None,
            forward: None,
            pattern: Pattern::EveryNth,
            every: Some(5),
            scope: None,
            count_per_step: 0.2,
            bytes_per_step: 819.2,
            slope_error: 0.0,
            confidence: 0.9,
            first_step: 4,
            last_step: 24,
            first_number: 4,
            last_number: 24,
            live_count: 5,
            live_bytes: Bytes(20480),
            evidence: vec![],
        }
    }

    #[test]
    fn groups_have_a_name_whatever_is_known() {
        let mut group = group();
        assert_eq!(group_name(&group), "no stack recorded, 4.00 KiB each");
        assert_eq!(pattern(&group, "step"), "every 5 steps");
        assert_eq!(pattern(&group, "token"), "every 5 tokens");
        (group.pattern, group.every) = (Pattern::EveryStep, None);
        for (count, told) in [
            (2.0, "every step"),
            (0.7, "most steps"),
            (0.4, "many steps"),
        ] {
            group.count_per_step = count;
            assert_eq!(pattern(&group, "step"), told);
        }
        group.frame = Some(FrameText {
            name: "keep".to_owned(),
            filename: "cache.py".to_owned(),
            line: 3,
        });
        assert_eq!(group_name(&group), "keep");
    }

    #[test]
    fn groups_of_one_line_are_told_by_what_makes_them() {
        let mut group = group();
        assert_eq!(whereabouts(&group, "step"), "every 5 steps");
        let frame = |name: &str, filename: &str, line| FrameText {
            name: name.to_owned(),
            filename: filename.to_owned(),
            line,
        };
        group.frame = Some(frame("forward", "/srv/app/models/net.py", 3));
        assert_eq!(full_name(&group), "forward");
        assert_eq!(
            whereabouts(&group, "step"),
            "models/net.py:3 · every 5 steps"
        );
        group.made_in = Some(frame("gelu", "/srv/app/models/layers.py", 7));
        assert_eq!(full_name(&group), "forward, in gelu");
        let expected = "models/net.py:3 · in gelu models/layers.py:7 · every 5 steps";
        assert_eq!(whereabouts(&group, "step"), expected);
    }

    #[test]
    fn steps_are_called_what_the_recording_calls_them() {
        let mut leaks = Leaks {
            recording: trace::steps::recording::Kind::Loop,
            verdict: Verdict::Leak,
            reason: String::new(),
            caveats: vec![],
            bytes_per_step: 8_388_608.0,
            step_source: StepSource::Inferred,
            steps: 7,
            step: "token".to_owned(),
            reserved_growth: None,
            groups: vec![],
        };
        assert_eq!(headline(&leaks), "Leaks 8.00 MiB a token");
        leaks.bytes_per_step = 0.0;
        assert_eq!(headline(&leaks), "Grows within each token");
    }

    #[test]
    fn rates_say_their_error_where_there_is_one() {
        assert_eq!(rate(8_388_608.0, 0.2), "8.00 MiB");
        assert_eq!(rate(8_388_608.0, 1228.8), "8.00 MiB ± 1.20 KiB");
        assert_eq!((amount(2.0), amount(0.25)), ("2".into(), "0.25".into()));
        assert_eq!(sentence("memory grows"), "Memory grows.");
    }

    #[test]
    fn nearly_all_is_not_all() {
        let mut device = DeviceSummary {
            device: DeviceIdx(0),
            events: 1,
            blocks: 1,
            series: Default::default(),
            fidelity: Fidelity {
                allocs: 100_000,
                predicted: 99_999,
            },
            unmatched_frees: 0,
            step_source: StepSource::Annotations,
            steps: 1,
            time: None,
            oom_events: vec![],
        };
        let label = |device: &DeviceSummary| fidelity(device).map(|(badge, _)| badge.label);
        assert_eq!(label(&device).as_deref(), Some("fidelity 99 %"));
        device.fidelity.predicted = 100_000;
        assert_eq!(label(&device).as_deref(), Some("fidelity 100 %"));
        device.fidelity = Fidelity::default();
        assert_eq!(label(&device), None);
    }
}
