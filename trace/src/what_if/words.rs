//! Answers in words.

use super::{Answer, Calibration, Outcome, Reach, Recorded};
use crate::trace::Fidelity;
use crate::units::Bytes;
use crate::units::size::exact;

/// How far an answer can be trusted, in words.
pub fn calibration(calibration: &Calibration) -> String {
    let Fidelity { allocs, predicted } = calibration.addresses;
    let addresses = match predicted == allocs {
        true if allocs == 0 => "The recording holds no allocation to test the rules on".to_owned(),
        true => format!("The rules predict all {allocs} recorded addresses"),
        false => format!("The rules predict {predicted} of {allocs} recorded addresses"),
    };
    let error = calibration.peak_reserved_error;
    let peak = match error {
        0.0 => "the recorded peak of reserved memory to the byte".to_owned(),
        error => format!(
            "a peak of reserved memory that is {:.2} % too {}",
            100.0 * error.abs(),
            if error > 0.0 { "high" } else { "low" }
        ),
    };
    format!("{addresses}; replayed under the file's own settings they give {peak}.")
}

/// The answer in words.
pub fn sentence(answer: &Answer) -> String {
    let recorded = &answer.recorded;
    let Some(at_limit) = &answer.at_recorded_limit else {
        return outcome(recorded, &answer.what_if, answer.limit);
    };
    let limit = recorded.limit.map(super::LimitSeen::taken);
    let mut text = outcome(recorded, at_limit, limit);
    if at_limit.peak_reserved != answer.what_if.peak_reserved || at_limit.failed.is_some() {
        text += &format!(
            " Without any limit, reserved memory would peak at {}.",
            size(answer.what_if.peak_reserved)
        );
    }
    text
}

fn outcome(recorded: &Recorded, outcome: &Outcome, limit: Option<Bytes>) -> String {
    let under = limit.map_or_else(String::new, |limit| {
        format!(" under a limit of {}", size(limit))
    });
    if let Some(failed) = &outcome.failed {
        let too = match recorded.failed {
            Some((event, _)) if event == failed.event => ", as in the recording",
            _ => "",
        };
        return format!(
            "It would run out of memory{under} in step {}{too}: a segment of {} is needed while {} \
             are reserved, {} of them allocated.",
            failed.step,
            failed.segment,
            size(failed.reserved),
            size(failed.allocated)
        );
    }
    let retries = match outcome.retries {
        0 => String::new(),
        1 => ", after one retry with an empty cache".to_owned(),
        n => format!(", after {n} retries with an empty cache"),
    };
    let peak = format!(
        "reserved memory would peak at {}, {}{retries}",
        size(outcome.peak_reserved),
        against(outcome.peak_reserved, recorded.peak_reserved)
    );
    match (outcome.reach, recorded.failed) {
        (Reach::Recorded(_), Some((_, step))) => format!(
            "It would get past step {step}{under}, in which the recorded run ran out of memory; up \
             to there {peak}. What it would have asked for next was not recorded."
        ),
        _ => format!("It would fit{under}: {peak}."),
    }
}

fn against(peak: Bytes, recorded: Bytes) -> String {
    let change = match recorded {
        Bytes::ZERO => 0.0,
        _ => 100.0 * (peak.0 as f64 / recorded.0 as f64 - 1.0),
    };
    match change {
        _ if peak == recorded => "as recorded".to_owned(),
        change if change.abs() < 0.05 => "nearly as recorded".to_owned(),
        change if change > 0.0 => format!("{change:.1} % more than recorded"),
        change => format!("{:.1} % less than recorded", -change),
    }
}

fn size(bytes: Bytes) -> String {
    exact(bytes.0 as f64)
}
