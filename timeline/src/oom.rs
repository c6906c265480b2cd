//! Out of memory in words: where in the program, and why.

use super::lanes::plain_step_name;
use api::timeline::{Marks, OomMark};
use trace::code::last_components;
use trace::phases::Phase;
use trace::trace::Step;
use trace::units::{EventIdx, size};

/// For example `in step 3, in the backward pass` or `after request 17`; empty if nothing is known.
pub fn place(marks: &Marks, oom: &OomMark) -> String {
    place_of(&marks.steps, oom.event, oom.phase)
}

/// The same, of a failure at this event and in this phase.
pub fn place_of(steps: &[Step], event: EventIdx, phase: Phase) -> String {
    let before = steps.partition_point(|step| step.events.start() <= event);
    let step = before.checked_sub(1).map(|at| {
        let step = &steps[at];
        let word = match step.events.contains(event) {
            true => "in",
            // A step that did not finish does not count.
            false => "after",
        };
        format!("{word} {}", plain_step_name(step))
    });
    let phase = words_of(phase).map(str::to_owned);
    let parts: Vec<String> = step.into_iter().chain(phase).collect();
    parts.join(", ")
}

/// `in the backward pass`; `None` of a phase without a name.
pub fn words_of(phase: Phase) -> Option<&'static str> {
    match phase {
        Phase::Setup => Some("while the model was made or loaded"),
        Phase::Forward => Some("in the forward pass"),
        Phase::Backward => Some("in the backward pass"),
        Phase::Optimizer => Some("in the optimizer's step"),
        Phase::Other | Phase::Unknown => None,
    }
}

/// What refused the request: the device, or a limit of the process.
pub fn reason(oom: &OomMark) -> &'static str {
    match oom.limit {
        None if oom.device_free.is_none() => {
            "What the device had left was not recorded: it, or a limit that was set for the \
             process, refused it."
        }
        None => "The device had too little left.",
        Some(_) => "The device had enough left: a limit that was set for the process refused it.",
    }
}

/// What was requested and what refused it, with the sizes.
pub fn why(oom: &OomMark) -> String {
    let asked = oom.size;
    let Some(free) = oom.device_free else {
        return format!("{asked} were asked for; what the device had free was not recorded.");
    };
    match limit(oom) {
        None => format!("{asked} were asked for, the device had {free} free."),
        Some(limit) => format!(
            "{asked} were asked for. The device had {free} free: a limit of the process refused \
             it, {limit}."
        ),
    }
}

/// The limit of the process that refused the request, as exactly as the recording shows it.
pub fn limit(oom: &OomMark) -> Option<String> {
    let limit = oom.limit_at_least.zip(oom.limit);
    limit.map(|(least, below)| size::between(least, below))
}

/// The operation that asked and the line that called it, as far as they are known.
pub fn asker(oom: &OomMark) -> Option<String> {
    let line = oom.frame.as_ref().filter(|frame| frame.line > 0);
    let line = line.map(|frame| {
        let file = last_components(&frame.filename, 2);
        format!("{} {file}:{}", frame.name, frame.line)
    });
    match (&oom.operation, line) {
        (Some(operation), Some(line)) => Some(format!("{operation}, called by {line}")),
        (Some(operation), None) => Some(operation.clone()),
        (None, line) => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::frames::FrameText;
    use trace::span::Span;
    use trace::units::Bytes;

    fn oom(limit: Option<Bytes>, operation: Option<&str>, line: Option<u32>) -> OomMark {
        OomMark {
            event: EventIdx(9),
            size: Bytes(2048),
            device_free: Some(Bytes(1024)),
            step: None,
            phase: Phase::Forward,
            limit,
            limit_at_least: limit.map(|limit| Bytes(limit.0 / 2)),
            allocated: Bytes(0),
            reserved: Bytes(0),
            operation: operation.map(str::to_owned),
            frame: line.map(|line| FrameText {
                name: "forward".to_owned(),
                filename: "/srv/job/src/model.py".to_owned(),
                line,
            }),
            held: Vec::new(),
        }
    }

    #[test]
    fn the_place_is_as_exact_as_it_is_known() {
        let step = |index: u32, from: u32, to: u32| Step {
            index,
            name: format!("step {index}"),
            events: Span::new(EventIdx(from), EventIdx(to)),
        };
        let check = |steps: Vec<Step>, phase, expected: &str| {
            let marks = Marks {
                steps,
                annotations: Vec::new(),
                annotations_left_out: 0,
                ooms: Vec::new(),
                ooms_left_out: 0,
                capacity: None,
                stays: vec![],
                stays_left_out: 0,
            };
            let oom = OomMark {
                phase,
                ..oom(None, None, None)
            };
            assert_eq!(place(&marks, &oom), expected);
        };
        let (inside, over, ahead) = (step(4, 5, 10), step(7, 2, 9), step(9, 10, 20));
        check(vec![inside.clone()], Phase::Other, "in step 4");
        check(vec![over], Phase::Unknown, "after step 7");
        check(
            vec![inside, ahead.clone()],
            Phase::Backward,
            "in step 4, in the backward pass",
        );
        check(vec![ahead], Phase::Backward, "in the backward pass");
        check(vec![], Phase::Unknown, "");
    }

    #[test]
    fn who_refused_is_told() {
        let device = why(&oom(None, None, None));
        assert_eq!(
            device,
            "2.00 KiB were asked for, the device had 1.00 KiB free."
        );
        let unknown = why(&OomMark {
            device_free: None,
            ..oom(None, None, None)
        });
        assert_eq!(
            unknown,
            "2.00 KiB were asked for; what the device had free was not recorded."
        );
        let limit = why(&oom(Some(Bytes(4096)), None, None));
        assert!(
            limit.ends_with("a limit of the process refused it, between 2.00 KiB and 4.00 KiB."),
            "{limit}"
        );
    }

    #[test]
    fn who_asked_is_an_operation_a_line_or_both() {
        let check = |operation, line, expected: Option<&str>| {
            assert_eq!(asker(&oom(None, operation, line)).as_deref(), expected);
        };
        let both = "mm, called by forward src/model.py:7";
        check(Some("mm"), Some(7), Some(both));
        check(Some("mm"), None, Some("mm"));
        check(None, Some(7), Some("forward src/model.py:7"));
        check(None, Some(0), None);
        check(None, None, None);
    }
}
