//! What would happen, in words.

use super::sizes::{self, size};
use crate::redact::place_in_words;
use crate::trace::Step;
use crate::units::Bytes;
use crate::what_if::{
    Answer, Earlier, Ending, Failed, LimitSeen, Outcome, Reach, Recorded, Spread,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The answer about a device with these steps, in words.
pub fn sentence(answer: &Answer, steps: &[Step]) -> String {
    let recorded = &answer.recorded;
    let Some(at_limit) = &answer.at_recorded_limit else {
        let mut text = outcome(recorded, &answer.what_if, answer.limit, steps);
        let known = answer.what_if.failed.as_ref();
        let other = answer.what_if.on_full_card.as_ref();
        if let Some(other) = other.filter(|other| is_elsewhere(other.failed.as_ref(), known, steps))
        {
            text += &format!(
                " That is under a memory fraction; on a card that is full at this limit it {}.",
                ending(other, steps)
            );
        }
        return text;
    };
    let limit = recorded.limit.map(LimitSeen::taken);
    let mut text = outcome(recorded, at_limit, limit, steps);
    if at_limit.peak_reserved != answer.what_if.peak_reserved || at_limit.failed.is_some() {
        let without = &answer.what_if;
        text += &format!(
            " Without any limit, reserved memory {} peak at {}{}.",
            certainty(without, None),
            size(without.peak_reserved),
            range(without)
        );
    }
    text
}

/// Whether a failure is another answer than the known one. Another request of the same step is not,
/// nor, in a recording without steps, one nearby.
fn is_elsewhere(other: Option<&Failed>, known: Option<&Failed>, steps: &[Step]) -> bool {
    match (other, known) {
        (Some(other), Some(known)) if steps.is_empty() => {
            let (other, known) = (other.event.0, known.event.0);
            other.abs_diff(known) > other.max(known) / NEARBY
        }
        (Some(other), Some(known)) => place(other, steps) != place(known, steps),
        (other, known) => other.is_some() != known.is_some(),
    }
}

/// Without steps, two failures are near each other by this part of the events before them.
const NEARBY: u32 = 10;

/// How else it ends, in words: `would run out of memory in step 3`.
fn ending(other: &Ending, steps: &[Step]) -> String {
    match (&other.failed, other.reach) {
        (Some(failed), _) => format!("would run out of memory {}", place(failed, steps)),
        (None, Reach::Recorded(_)) => "would get past the request that failed".to_owned(),
        (None, _) => {
            let peak = size(other.peak_reserved);
            format!("would fit, with a peak of reserved memory of {peak}")
        }
    }
}

/// How certain an outcome is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Certainty {
    /// Nothing that was tried gives another outcome.
    Would,
    /// It depends on what no recording tells if a request fails, or which one, or what the peak is.
    Might,
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Certainty::Would => "would",
            Certainty::Might => "might",
        })
    }
}

/// How certain an outcome under this limit is.
pub fn certainty(outcome: &Outcome, limit: Option<Bytes>) -> Certainty {
    let may_do = |failed: Failed| failed.at_once || failed.may_be_less;
    match outcome.failed.is_some_and(may_do) || is_doubtful(outcome, limit) {
        true => Certainty::Might,
        false => Certainty::Would,
    }
}

/// Whether it depends on what no recording tells if a request fails, or which one.
fn is_doubtful(outcome: &Outcome, limit: Option<Bytes>) -> bool {
    let is_torn =
        |spread: &Spread| spread.is_torn() || limit.is_some_and(|limit| spread.is_near(limit));
    let waiting = outcome.waiting.as_ref();
    outcome.spread.as_ref().is_some_and(is_torn)
        || waiting.is_some_and(|found| found.decides(limit))
        || is_doubtful_before(outcome, limit)
}

/// Whether the answer hangs on what happened before the recording. What is in use before the first
/// event needs room in any case.
fn is_doubtful_before(outcome: &Outcome, limit: Option<Bytes>) -> bool {
    let in_use = outcome
        .failed
        .is_some_and(|failed| failed.segment.is_none());
    let earlier = outcome.earlier.as_ref().filter(|_| !in_use);
    earlier.is_some_and(|found| found.decides(outcome, limit))
}

fn outcome(recorded: &Recorded, outcome: &Outcome, limit: Option<Bytes>, steps: &[Step]) -> String {
    let would = certainty(outcome, limit);
    let under = limit.map_or_else(String::new, |limit| {
        format!(" under a limit of {}", size(limit))
    });
    if let Some(failed) = &outcome.failed {
        return failure(
            recorded,
            outcome,
            failed,
            &format!("It {would}"),
            &under,
            steps,
        );
    }
    let retries = match outcome.retries {
        0 => String::new(),
        1 => ", after one retry with an empty cache".to_owned(),
        n => format!(", after {n} retries with an empty cache"),
    };
    let peak = format!(
        "peak at {}{}, {}{retries}",
        size(outcome.peak_reserved),
        range(outcome),
        against(outcome.peak_reserved, recorded.peak_reserved)
    );
    match (outcome.reach, recorded.failed) {
        (Reach::Recorded(_), Some((event, _))) => {
            let (past, whence) = got_past(&place_in_words(steps, event));
            // The limit comes first: after the place it would read as the one of the recording.
            let it = limit.map_or_else(
                || "It".to_owned(),
                |limit| format!("Under a limit of {} it", size(limit)),
            );
            format!(
                "{it} {would} get past {past}, {whence} the recorded run ran out of memory; up to \
                 there reserved memory would {peak}. What it would have asked for next was not \
                 recorded."
            )
        }
        // Without a limit everything fits.
        _ if limit.is_none() => format!("Reserved memory {would} {peak}."),
        _ => format!("It {would} fit{under}: reserved memory would {peak}."),
    }
}

/// What fails, after `It would` or `It might`, and the limit under which it does.
fn failure(
    recorded: &Recorded,
    outcome: &Outcome,
    failed: &Failed,
    it_would: &str,
    under: &str,
    steps: &[Step],
) -> String {
    let Some(segment) = failed.segment else {
        return format!(
            "{it_would} not fit{under}: {} are in use before the first recorded event, in \
             segments of {}.",
            size(failed.allocated),
            size(failed.reserved)
        );
    };
    let too = match recorded.failed {
        Some((event, _)) if event == failed.event => ", as in the recording",
        _ => "",
    };
    let elsewhere = all_elsewhere(outcome, failed, steps);
    let without = outcome.without_work_space.as_ref();
    let without =
        without.map(|other| format!(" If it does, the program {}.", ending(other, steps)));
    format!(
        "{it_would} run out of memory{under} {}{too}{}: a segment of {segment} is needed while {} \
         are reserved, {} of them allocated.{}{}",
        place(failed, steps),
        in_brackets(&elsewhere),
        size(failed.reserved),
        size(failed.allocated),
        match failed.at_once {
            true => {
                " What it is for is given back at once: it may be work space of a library \
                 (cuDNN) that makes do with less."
            }
            false if failed.may_be_less => {
                " The recording tells the size of the request rounded up: it may have been \
                 less, and then it would get past this."
            }
            false => "",
        },
        without.unwrap_or_default()
    )
}

/// What else the peak of *reserved* may be, in brackets, where that is worth a word.
fn range(outcome: &Outcome) -> String {
    let by_place = outcome.spread.as_ref();
    let by_place = by_place.and_then(|spread| depending(spread, "where segments lie"));
    let by_wait = outcome.waiting.as_ref().map(|found| &found.spread);
    let by_wait = by_wait.and_then(|spread| depending(spread, "when other streams are done"));
    let earlier = outcome.earlier.as_ref();
    let by_cache = earlier.filter(|found| found.peak_reserved != outcome.peak_reserved);
    let by_cache = by_cache.and_then(self::by_cache);
    let all: Vec<String> = [by_place, by_wait, by_cache]
        .into_iter()
        .flatten()
        .collect();
    in_brackets(&all)
}

fn in_brackets(all: &[String]) -> String {
    match all.is_empty() {
        true => String::new(),
        false => format!(" ({})", all.join("; ")),
    }
}

/// Between which peaks of *reserved* something decides that no recording tells.
fn depending(spread: &Spread, on: &str) -> Option<String> {
    let range = || sizes::range(spread.peak_reserved.map(size));
    spread
        .is_wide()
        .then(|| format!("{}, depending on {on}", range()))
}

/// The peak with another cache from before the recording.
fn by_cache(found: &Earlier) -> Option<String> {
    let how = if found.is_counted { "without" } else { "with" };
    let peak = size(found.peak_reserved);
    let other = format!("{peak} {how} what was cached before the recording; neither is a bound");
    found.failed.is_none().then_some(other)
}

/// Where else a request may fail, because it depends on addresses that no recording tells, or on
/// when other streams are done.
fn all_elsewhere(outcome: &Outcome, failed: &Failed, steps: &[Step]) -> Vec<String> {
    let by_place = outcome.spread.as_ref();
    let by_wait = outcome.waiting.as_ref().map(|found| &found.spread);
    let both = [
        (by_place, "with segments at other addresses"),
        (by_wait, "with other waits for streams"),
    ];
    let both = both.into_iter();
    both.filter_map(|(spread, how)| elsewhere(spread?, how, failed, steps))
        .collect()
}

/// Where else a request may fail, and how.
fn elsewhere(spread: &Spread, how: &str, failed: &Failed, steps: &[Step]) -> Option<String> {
    let here = place(failed, steps);
    let [first, last] = spread.failed_at.unwrap_or([*failed; 2]);
    let at = |other: Failed, is_other: bool, when: &str| {
        let place = Some(place(&other, steps)).filter(|place| is_other && *place != here);
        place.map(|place| format!("{place} at the {when}"))
    };
    let bounds = [
        at(first, first.event < failed.event, "earliest"),
        at(last, last.event > failed.event, "latest"),
    ];
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    (!bounds.is_empty()).then(|| format!("{how} {}", bounds.join(" and ")))
}

/// Where a request fails, in words: `in step 121`, `after step 17`. The steps are the device's.
pub fn place(failed: &Failed, steps: &[Step]) -> String {
    match failed.segment {
        Some(_) => place_in_words(steps, failed.event),
        // It is no request that fails.
        None => "before the first event".to_owned(),
    }
}

/// What is got past, and how a sentence goes on about that: `step 21`, `in which`.
fn got_past(place: &str) -> (String, &'static str) {
    match (place.strip_prefix("in "), place.strip_prefix("at ")) {
        (Some(step), _) => (step.to_owned(), "in which"),
        (_, Some(event)) => (event.to_owned(), "at which"),
        (None, None) => (format!("the request {place}"), "at which"),
    }
}

fn against(peak: Bytes, recorded: Bytes) -> String {
    let change = 100.0 * (peak.0 as f64 / recorded.0 as f64 - 1.0);
    match change {
        _ if peak == recorded => "as recorded".to_owned(),
        _ if recorded == Bytes::ZERO => "where none was recorded".to_owned(),
        change if change.abs() < 0.05 => "nearly as recorded".to_owned(),
        change if change > 0.0 => format!("{change:.1} % more than recorded"),
        change => format!("{:.1} % less than recorded", -change),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{failing_at, spread_of};
    use super::*;
    use crate::trace::Fidelity;
    use crate::units::EventIdx;
    use crate::what_if::{Calibration, Waiting};

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_change_of_nothing_is_told_without_a_number() {
        let check = |peak: u64, recorded: u64, expected: &str| {
            assert_eq!(against(Bytes(peak), Bytes(recorded)), expected);
        };
        check(0, 0, "as recorded");
        check(MIB, 0, "where none was recorded");
        check(0, MIB, "100.0 % less than recorded");
        check(3 * MIB, 2 * MIB, "50.0 % more than recorded");
    }

    #[test]
    fn a_wide_range_is_told_with_the_peak() {
        let check = |peaks: [u64; 2], expected: &str| {
            let told = depending(&spread_of(0, peaks, [0, 0]), "where segments lie");
            assert_eq!(told.unwrap_or_default(), expected);
        };
        check([300, 300], "");
        check([300, 306], "");
        check(
            [300, 307],
            "300 MiB to 307 MiB, depending on where segments lie",
        );
    }

    #[test]
    fn where_else_a_request_may_fail_is_told() {
        let check = |first: u32, here: u32, last: u32, expected: &str| {
            let spread = Spread {
                failed_at: Some([first, last].map(failing_at)),
                ..spread_of(8, [300, 310], [1, 1])
            };
            let how = "with segments at other addresses";
            let told = elsewhere(&spread, how, &failing_at(here), &[]);
            assert_eq!(told.unwrap_or_default(), expected);
        };
        let other = |what: &str| format!("with segments at other addresses {what}");
        check(7, 7, 7, "");
        check(3, 7, 7, &other("at event 3 at the earliest"));
        check(7, 7, 9, &other("at event 9 at the latest"));
        let both = "at event 3 at the earliest and at event 9 at the latest";
        check(3, 7, 9, &other(both));
    }

    /// Without steps each place is an event.
    #[test]
    fn a_failure_nearby_is_no_other_answer() {
        let check = |other: Option<u32>, known: Option<u32>, expected: bool| {
            let [other, known] = [other, known].map(|event| event.map(failing_at));
            let found = is_elsewhere(other.as_ref(), known.as_ref(), &[]);
            assert_eq!(found, expected, "{other:?} {known:?}");
        };
        check(None, None, false);
        check(None, Some(1000), true);
        check(Some(1000), None, true);
        check(Some(1000), Some(1100), false);
        check(Some(1000), Some(1200), true);
        check(Some(1200), Some(1000), true);
    }

    #[test]
    fn what_was_cached_before_the_recording_leaves_a_doubt() {
        let recorded = Recorded {
            peak_allocated: Bytes(MIB),
            peak_reserved: Bytes(8 * MIB),
            failed: None,
            limit: None,
        };
        let check = |is_counted, peak_reserved, fails: bool, expected: &str| {
            let told = Outcome {
                peak_allocated: Bytes(MIB),
                peak_reserved: Bytes(8 * MIB),
                earlier: Some(Earlier {
                    cached: Bytes(5 * MIB),
                    is_counted,
                    peak_reserved,
                    failed: fails.then_some(EventIdx(3)),
                    reserved: Bytes(6 * MIB),
                }),
                ..Outcome::NOTHING
            };
            let told = outcome(&recorded, &told, None, &[]);
            let peak = format!("Reserved memory might peak at 8 MiB{expected}, ");
            assert_eq!(told, format!("{peak}as recorded."));
        };
        let other = |peak: &str| {
            format!(" ({peak} what was cached before the recording; neither is a bound)")
        };
        check(true, Bytes(3 * MIB), false, &other("3 MiB without"));
        check(false, Bytes(9 * MIB), false, &other("9 MiB with"));
        check(true, Bytes(8 * MIB), false, "");
        check(true, Bytes(3 * MIB), true, "");
    }

    /// At event 3, and by the other reading at another one or not at all.
    #[test]
    fn what_fails_at_the_same_request_either_way_is_certain() {
        let recorded = Recorded {
            peak_allocated: Bytes(MIB),
            peak_reserved: Bytes(8 * MIB),
            failed: None,
            limit: None,
        };
        let check = |segment: Option<Bytes>, other: Option<u32>, limit: u64, expected: &str| {
            let told = Outcome {
                failed: Some(Failed {
                    event: EventIdx(3),
                    step: 0,
                    segment,
                    allocated: Bytes(MIB),
                    reserved: Bytes(2 * MIB),
                    retries: 0,
                    at_once: false,
                    may_be_less: false,
                }),
                earlier: Some(Earlier {
                    cached: Bytes(5 * MIB),
                    is_counted: true,
                    peak_reserved: Bytes(2 * MIB),
                    failed: other.map(EventIdx),
                    reserved: Bytes(6 * MIB),
                }),
                reach: Reach::Failure,
                ..Outcome::NOTHING
            };
            let text = outcome(&recorded, &told, Some(Bytes(limit * MIB)), &[]);
            assert!(text.starts_with(expected), "{text}");
        };
        let segment = Some(Bytes(MIB));
        check(segment, None, 7, "It might run out of memory");
        check(segment, Some(3), 7, "It would run out of memory");
        check(segment, Some(4), 7, "It might run out of memory");
        // The program could not have come to the first event as it did.
        check(segment, Some(3), 5, "It might run out of memory");
        check(None, None, 7, "It would not fit");
    }

    #[test]
    fn what_the_peak_depends_on_is_told_without_a_limit_too() {
        let spread = spread_of(0, [9, 12], [0, 0]);
        let waiting = Waiting {
            waited: 1,
            frees: 2,
            spread: spread_of(0, [8, 10], [0, 0]),
        };
        let check = |spread, waiting, expected: &str| {
            let answer = Answer {
                calibration: Calibration {
                    addresses: Fidelity {
                        allocs: 1,
                        predicted: 1,
                    },
                    own: Outcome::NOTHING,
                    peak_reserved_error: 0.0,
                },
                recorded: Recorded {
                    peak_allocated: Bytes(MIB),
                    peak_reserved: Bytes(8 * MIB),
                    failed: None,
                    limit: None,
                },
                limit: None,
                needs_fraction: false,
                left_out: Bytes::ZERO,
                passed_over: 0,
                is_limit_narrowed: false,
                what_if: Outcome {
                    peak_reserved: Bytes(10 * MIB),
                    spread,
                    waiting,
                    ..Outcome::NOTHING
                },
                at_recorded_limit: Some(Outcome::NOTHING),
                curves: None,
            };
            let told = sentence(&answer, &[]);
            let expected =
                format!(" Without any limit, reserved memory would peak at 10 MiB{expected}.");
            assert!(told.ends_with(&expected), "{told}");
        };
        check(None, None, "");
        let by_place = "9 MiB to 12 MiB, depending on where segments lie";
        check(Some(spread), None, &format!(" ({by_place})"));
        let by_wait = "8 MiB to 10 MiB, depending on when other streams are done";
        check(None, Some(waiting), &format!(" ({by_wait})"));
        let both = format!(" ({by_place}; {by_wait})");
        check(Some(spread), Some(waiting), &both);
    }

    /// In another run it fails elsewhere, after other retries, or perhaps as the limit is near.
    #[test]
    fn what_waits_for_streams_decide_might_happen() {
        let at = |event: u32| Failed {
            reserved: Bytes(2 * MIB),
            ..failing_at(event)
        };
        let recorded = Recorded {
            peak_allocated: Bytes(MIB),
            peak_reserved: Bytes(2 * MIB),
            failed: None,
            limit: None,
        };
        let check = |spread: Spread, expected: &str| {
            let told = Outcome {
                peak_reserved: Bytes(2 * MIB),
                failed: spread.failed_at.map(|[_, last]| last),
                waiting: Some(Waiting {
                    waited: 1,
                    frees: 2,
                    spread,
                }),
                ..Outcome::NOTHING
            };
            let told = outcome(&recorded, &told, Some(Bytes(3 * MIB)), &[]);
            assert!(told.starts_with(expected), "{told}");
        };
        let failing = |first, last| Spread {
            failed_at: Some([at(first), at(last)]),
            ..spread_of(8, [2, 2], [1, 1])
        };
        let fails = "run out of memory under a limit of 3 MiB at event 9";
        check(failing(9, 9), &format!("It would {fails}: "));
        let sooner = "(with other waits for streams at event 4 at the earliest)";
        check(failing(4, 9), &format!("It might {fails} {sooner}: "));
        check(spread_of(0, [2, 2], [1, 1]), "It would fit");
        check(spread_of(0, [2, 2], [1, 3]), "It might fit");
        check(spread_of(0, [1, 3], [1, 1]), "It might fit");
    }

    #[test]
    fn what_is_not_certain_might_happen() {
        let recorded = Recorded {
            peak_allocated: Bytes(MIB),
            peak_reserved: Bytes(2 * MIB),
            failed: None,
            limit: None,
        };
        let check = |spread: Option<Spread>, fails: Option<bool>, expected: &str| {
            let told = Outcome {
                peak_allocated: Bytes(MIB),
                peak_reserved: Bytes(2 * MIB),
                is_guessed: spread.is_some(),
                spread,
                waiting: fails.map(|fails| Waiting {
                    waited: 1,
                    frees: 2,
                    spread: spread_of(u32::from(fails), [1, 2], [0, 0]),
                }),
                ..Outcome::NOTHING
            };
            let peak = format!(
                "reserved memory would peak at 2 MiB{}, as recorded.",
                range(&told)
            );
            assert_eq!(
                outcome(&recorded, &told, Some(Bytes(5 * MIB)), &[]),
                format!("{expected} fit under a limit of 5 MiB: {peak}")
            );
        };
        check(None, None, "It would");
        check(Some(spread_of(0, [2, 2], [0, 0])), None, "It would");
        check(Some(spread_of(3, [2, 2], [0, 0])), None, "It might");
        // The limit is as near as the peaks are to each other, or nearer.
        check(Some(spread_of(0, [2, 3], [0, 0])), None, "It would");
        check(Some(spread_of(0, [2, 4], [0, 0])), None, "It might");
        check(None, Some(false), "It would");
        check(None, Some(true), "It might");
    }

    #[test]
    fn what_is_got_past_is_a_step_or_what_lies_between_steps() {
        let check = |place: &str, past: &str, whence: &str| {
            assert_eq!(got_past(place), (past.to_owned(), whence));
        };
        check("in step 121", "step 121", "in which");
        check("after step 17", "the request after step 17", "at which");
        check("before step 0", "the request before step 0", "at which");
        check("at event 9", "event 9", "at which");
    }

    #[test]
    fn a_limit_is_not_told_as_the_one_that_was_met() {
        let recorded = Recorded {
            peak_allocated: Bytes(MIB),
            peak_reserved: Bytes(2 * MIB),
            failed: Some((EventIdx(9), 0)),
            limit: None,
        };
        let told = Outcome {
            peak_allocated: Bytes(MIB),
            peak_reserved: Bytes(2 * MIB),
            reach: Reach::Recorded(EventIdx(9)),
            ..Outcome::NOTHING
        };
        let check = |limit: Option<Bytes>, expected: &str| {
            let text = outcome(&recorded, &told, limit, &[]);
            let rest = text.strip_prefix(expected);
            let goes_on = ", at which the recorded run ran out of memory; up to there ";
            assert!(rest.is_some_and(|rest| rest.starts_with(goes_on)), "{text}");
        };
        check(None, "It would get past event 9");
        let limit = Some(Bytes(24 << 30));
        check(limit, "Under a limit of 24 GiB it would get past event 9");
    }

    #[test]
    fn what_is_given_back_at_once_may_be_done_without() {
        let recorded = Recorded {
            peak_allocated: Bytes(MIB),
            peak_reserved: Bytes(2 * MIB),
            failed: None,
            limit: None,
        };
        let check = |at_once: bool, expected: &str| {
            let failed = Failed {
                event: EventIdx(3),
                step: 0,
                segment: Some(Bytes(MIB)),
                allocated: Bytes(MIB),
                reserved: Bytes(2 * MIB),
                retries: 1,
                at_once,
                may_be_less: false,
            };
            let told = Outcome {
                peak_allocated: Bytes(MIB),
                peak_reserved: Bytes(2 * MIB),
                retries: 1,
                failed: Some(failed),
                reach: Reach::Failure,
                ..Outcome::NOTHING
            };
            let text = outcome(&recorded, &told, None, &[]);
            assert!(text.starts_with(expected), "{text}");
            assert_eq!(text.contains("work space of a library"), at_once, "{text}");
        };
        check(false, "It would run out of memory");
        check(true, "It might run out of memory");
    }
}
