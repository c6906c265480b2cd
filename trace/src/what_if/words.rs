//! Answers in words.

use super::{Answer, Calibration, Earlier, Failed, Outcome, Reach, Recorded, Spread, Waiting};
use crate::redact::place_in_words;
use crate::trace::{Fidelity, Step};
use crate::units::size::exact;
use crate::units::{Bytes, grouped};

/// How far an answer can be trusted, in words.
pub fn trust(answer: &Answer) -> String {
    let told = answer.at_recorded_limit.as_ref().unwrap_or(&answer.what_if);
    let limit = match &answer.at_recorded_limit {
        Some(_) => answer.recorded.limit.map(super::LimitSeen::taken),
        None => answer.limit,
    };
    let spread = told.spread.as_ref();
    let spread = spread.map(|found| self::spread(found, limit));
    let spread = spread.unwrap_or_default();
    let waiting = told.waiting.as_ref().map(waiting).unwrap_or_default();
    let collecting = match answer.needs_fraction {
        true => {
            " `garbage_collection_threshold` works only where a memory fraction is set \
             (`per_process_memory_fraction`); a card that is merely full collects nothing."
        }
        false => "",
    };
    let earlier = told.earlier.as_ref().map(earlier);
    let earlier =
        earlier.unwrap_or_else(|| left_out(answer.left_out, answer.recorded.peak_reserved));
    format!(
        "{}{spread}{waiting}{collecting}{earlier}",
        calibration(&answer.calibration)
    )
}

/// What the answer cannot count: memory that was cached before the recording.
fn left_out(cached: Bytes, peak_reserved: Bytes) -> String {
    match cached.0 as f64 > LEFT_OUT * peak_reserved.0 as f64 {
        true => format!(
            " Before the first event {} were cached and free; what the program had needed them for \
             is not known, so they are not counted, and its earlier peaks may have been higher.",
            size(cached)
        ),
        false => String::new(),
    }
}

/// So large a share of the recorded peak is worth a sentence if it is left out.
const LEFT_OUT: f64 = 0.02;

/// What the answer takes over, or leaves out, of what the program did before.
fn earlier(found: &Earlier) -> String {
    let (counted, otherwise) = match found.is_counted {
        true => ("counted", "without them"),
        false => ("not counted", "with them"),
    };
    let other = match found.fails {
        true => "it would run out of memory".to_owned(),
        false => format!(
            "reserved memory would peak at {}",
            size(found.peak_reserved)
        ),
    };
    format!(
        " Before the first event {} were cached and free, as the recorded settings had left them; \
         others may have left more or less. They are {counted}; {otherwise} {other}. A recording \
         from the program's beginning can tell.",
        size(found.cached)
    )
}

fn waiting(found: &Waiting) -> String {
    let without = match found.fails {
        true => "it would run out of memory".to_owned(),
        false => format!(
            "reserved memory would peak at {}",
            size(found.peak_reserved)
        ),
    };
    format!(
        " Of {} frees {} waited for another stream. How long they wait differs from run to run; if \
         none had waited, {without}.",
        grouped(found.frees),
        grouped(found.waited)
    )
}

fn spread(spread: &Spread, limit: Option<Bytes>) -> String {
    let Spread {
        orders,
        failed,
        peak_reserved,
        retries,
        ..
    } = *spread;
    let others = orders - 1;
    let range = |[low, high]: [String; 2]| match low == high {
        true => low,
        false => format!("{low} to {high}"),
    };
    let differs = peak_reserved[0] != peak_reserved[1] || retries[0] != retries[1];
    if !differs && !spread.is_torn() {
        return format!(
            " The addresses of some segments are guessed; with {others} other guesses the answer \
             is the same."
        );
    }
    let mut text = format!(
        " The addresses of some segments are guessed; over {orders} guesses the peak of reserved \
         memory is {}",
        range(peak_reserved.map(size))
    );
    if retries[0] != retries[1] {
        text += &format!(", with {} retries", range(retries.map(|n| n.to_string())));
    }
    if spread.is_torn() {
        let run = if failed == 1 { "runs" } else { "run" };
        text += &format!(", and {failed} of them {run} out of memory");
    }
    if limit.is_some_and(|limit| spread.is_near(limit)) {
        text += ", so near the limit that another guess may not fit";
    }
    text + "."
}

fn calibration(calibration: &Calibration) -> String {
    let Fidelity { allocs, predicted } = calibration.addresses;
    let addresses = match predicted == allocs {
        true if allocs == 0 => "The recording holds no allocation to test the rules on".to_owned(),
        true => format!(
            "The rules predict all {} recorded addresses",
            grouped(allocs)
        ),
        false => format!(
            "The rules predict {} of {} recorded addresses",
            grouped(predicted),
            grouped(allocs)
        ),
    };
    let error = calibration.peak_reserved_error;
    let peak = match error {
        0.0 => "the recorded peak of reserved memory to the byte".to_owned(),
        // It would be told as 0.00 %.
        error if error.abs() < 0.000_05 => "nearly the recorded peak of reserved memory".to_owned(),
        error => format!(
            "a peak of reserved memory that is {:.2} % too {}",
            100.0 * error.abs(),
            if error > 0.0 { "high" } else { "low" }
        ),
    };
    format!("{addresses}; replayed under the file's own settings they give {peak}.")
}

/// The answer about a device with these steps, in words.
pub fn sentence(answer: &Answer, steps: &[Step]) -> String {
    let recorded = &answer.recorded;
    let Some(at_limit) = &answer.at_recorded_limit else {
        return outcome(recorded, &answer.what_if, answer.limit, steps);
    };
    let limit = recorded.limit.map(super::LimitSeen::taken);
    let mut text = outcome(recorded, at_limit, limit, steps);
    if at_limit.peak_reserved != answer.what_if.peak_reserved || at_limit.failed.is_some() {
        let would = match answer.what_if.earlier {
            Some(_) => "might",
            None => "would",
        };
        text += &format!(
            " Without any limit, reserved memory {would} peak at {}.",
            size(answer.what_if.peak_reserved)
        );
    }
    text
}

/// Whether it depends on what no recording tells if a request fails.
fn is_doubtful(outcome: &Outcome, limit: Option<Bytes>) -> bool {
    let is_torn =
        |spread: &Spread| spread.is_torn() || limit.is_some_and(|limit| spread.is_near(limit));
    let waiting = outcome.waiting.as_ref();
    outcome.spread.as_ref().is_some_and(is_torn)
        || waiting.is_some_and(|found| found.fails != outcome.failed.is_some())
        || is_doubtful_before(outcome)
}

/// Whether the answer hangs on what happened before the recording. Where a request fails either
/// way, it does not; and what is in use before the first event needs room in any case.
fn is_doubtful_before(outcome: &Outcome) -> bool {
    let in_use = outcome
        .failed
        .is_some_and(|failed| failed.segment.is_none());
    let earlier = outcome.earlier.as_ref().filter(|_| !in_use);
    earlier.is_some_and(|found| !found.fails || outcome.failed.is_none())
}

fn outcome(recorded: &Recorded, outcome: &Outcome, limit: Option<Bytes>, steps: &[Step]) -> String {
    let at_once = outcome.failed.is_some_and(|failed| failed.at_once);
    let may_be_less = outcome.failed.is_some_and(|failed| failed.may_be_less);
    let would = match at_once || may_be_less || is_doubtful(outcome, limit) {
        true => "might",
        false => "would",
    };
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
    let spread = outcome.spread.as_ref();
    let elsewhere = spread.map(|spread| elsewhere(spread, failed, steps));
    format!(
        "{it_would} run out of memory{under} {}{too}{}: a segment of {segment} is needed while {} \
         are reserved, {} of them allocated.{}",
        place(failed, steps),
        elsewhere.unwrap_or_default(),
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
        }
    )
}

/// What else the peak of *reserved* may be, in brackets, where that is worth a word.
fn range(outcome: &Outcome) -> String {
    let by_place = outcome.spread.as_ref().and_then(by_place);
    let earlier = outcome.earlier.as_ref();
    let by_cache = earlier.filter(|found| found.peak_reserved != outcome.peak_reserved);
    let all: Vec<String> = by_place
        .into_iter()
        .chain(by_cache.and_then(self::by_cache))
        .collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(" ({})", all.join("; ")),
    }
}

/// Between which peaks of *reserved* addresses decide.
fn by_place(spread: &Spread) -> Option<String> {
    let [low, high] = spread.peak_reserved.map(size);
    let depends = || format!("{low} to {high}, depending on where segments lie");
    spread.is_wide().then(depends)
}

/// The peak with another cache from before the recording.
fn by_cache(found: &Earlier) -> Option<String> {
    let how = if found.is_counted { "without" } else { "with" };
    let peak = size(found.peak_reserved);
    (!found.fails).then(|| format!("{peak} {how} what was cached before the recording"))
}

/// Where else a request may fail, because it depends on addresses that no recording tells.
fn elsewhere(spread: &Spread, failed: &Failed, steps: &[Step]) -> String {
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
    match bounds.is_empty() {
        true => String::new(),
        false => format!(
            " (with segments at other addresses {})",
            bounds.join(" and ")
        ),
    }
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

/// Three decimals, or none: `82.115 GiB`, `660 MiB`.
fn size(bytes: Bytes) -> String {
    exact(bytes.0 as f64).replacen(".000", "", 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::EventIdx;

    const MIB: u64 = 1 << 20;

    fn spread_of(failed: u32, peaks: [u64; 2], retries: [u64; 2]) -> Spread {
        Spread {
            orders: 8,
            failed,
            failed_at: None,
            peak_allocated: [Bytes(MIB); 2],
            peak_reserved: peaks.map(|mib| Bytes(mib * MIB)),
            retries,
        }
    }

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
    fn how_well_the_rules_do_is_said_with_a_number_that_is_not_zero() {
        let check = |peak_reserved_error: f64, expected: &str| {
            let told = calibration(&Calibration {
                addresses: Fidelity {
                    allocs: 23_757,
                    predicted: 23_757,
                },
                own: Outcome {
                    peak_allocated: Bytes(MIB),
                    peak_reserved: Bytes(2 * MIB),
                    ..Outcome::NOTHING
                },
                peak_reserved_error,
            });
            let begin = "The rules predict all 23,757 recorded addresses; replayed under the \
                         file's own settings they give ";
            assert_eq!(told.strip_prefix(begin), Some(expected));
        };
        let peak = |how: &str| format!("a peak of reserved memory that is {how}.");
        check(0.0, "the recorded peak of reserved memory to the byte.");
        check(0.000_049, "nearly the recorded peak of reserved memory.");
        check(-1e-9, "nearly the recorded peak of reserved memory.");
        check(0.000_051, &peak("0.01 % too high"));
        check(-0.02, &peak("2.00 % too low"));
    }

    #[test]
    fn what_depends_on_addresses_is_said() {
        let check = |found: Spread, expected: &str| {
            let begin = " The addresses of some segments are guessed; ";
            let told = spread(&found, Some(Bytes(315 * MIB)));
            assert_eq!(told.strip_prefix(begin), Some(expected));
        };
        check(
            spread_of(0, [300, 300], [1, 1]),
            "with 7 other guesses the answer is the same.",
        );
        check(
            spread_of(8, [300, 310], [1, 1]),
            "over 8 guesses the peak of reserved memory is 300 MiB to 310 MiB.",
        );
        check(
            spread_of(1, [300, 310], [1, 1]),
            "over 8 guesses the peak of reserved memory is 300 MiB to 310 MiB, and 1 of them runs \
             out of memory.",
        );
        check(
            spread_of(3, [300, 300], [1, 4]),
            "over 8 guesses the peak of reserved memory is 300 MiB, with 1 to 4 retries, and 3 \
             of them run out of memory.",
        );
        check(
            spread_of(0, [300, 310], [1, 1]),
            "over 8 guesses the peak of reserved memory is 300 MiB to 310 MiB, so near the limit \
             that another guess may not fit.",
        );
    }

    #[test]
    fn a_wide_range_is_told_with_the_peak() {
        let check = |peaks: [u64; 2], expected: &str| {
            let told = by_place(&spread_of(0, peaks, [0, 0]));
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
        let at = |event: u32| Failed {
            event: EventIdx(event),
            step: 0,
            segment: Some(Bytes(MIB)),
            allocated: Bytes(MIB),
            reserved: Bytes(MIB),
            retries: 1,
            at_once: false,
            may_be_less: false,
        };
        let check = |first: u32, here: u32, last: u32, expected: &str| {
            let spread = Spread {
                failed_at: Some([at(first), at(last)]),
                ..spread_of(8, [300, 310], [1, 1])
            };
            assert_eq!(elsewhere(&spread, &at(here), &[]), expected);
        };
        let other = |what: &str| format!(" (with segments at other addresses {what})");
        check(7, 7, 7, "");
        check(3, 7, 7, &other("at event 3 at the earliest"));
        check(7, 7, 9, &other("at event 9 at the latest"));
        let both = "at event 3 at the earliest and at event 9 at the latest";
        check(3, 7, 9, &other(both));
    }

    #[test]
    fn what_was_cached_before_the_recording_leaves_a_doubt() {
        let recorded = Recorded {
            peak_allocated: Bytes(MIB),
            peak_reserved: Bytes(8 * MIB),
            failed: None,
            limit: None,
        };
        let check = |is_counted, peak_reserved, fails, expected: &str| {
            let told = Outcome {
                peak_allocated: Bytes(MIB),
                peak_reserved: Bytes(8 * MIB),
                earlier: Some(Earlier {
                    cached: Bytes(5 * MIB),
                    is_counted,
                    peak_reserved,
                    fails,
                }),
                ..Outcome::NOTHING
            };
            let told = outcome(&recorded, &told, None, &[]);
            let peak = format!("Reserved memory might peak at 8 MiB{expected}, ");
            assert_eq!(told, format!("{peak}as recorded."));
        };
        let without = " (3 MiB without what was cached before the recording)";
        check(true, Bytes(3 * MIB), false, without);
        let with = " (9 MiB with what was cached before the recording)";
        check(false, Bytes(9 * MIB), false, with);
        check(true, Bytes(8 * MIB), false, "");
        check(true, Bytes(3 * MIB), true, "");
    }

    #[test]
    fn what_fails_either_way_is_certain() {
        let recorded = Recorded {
            peak_allocated: Bytes(MIB),
            peak_reserved: Bytes(8 * MIB),
            failed: None,
            limit: None,
        };
        let check = |segment: Option<Bytes>, fails: bool, expected: &str| {
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
                    fails,
                }),
                reach: Reach::Failure,
                ..Outcome::NOTHING
            };
            let text = outcome(&recorded, &told, None, &[]);
            assert!(text.starts_with(expected), "{text}");
        };
        check(Some(Bytes(MIB)), false, "It might run out of memory");
        check(Some(Bytes(MIB)), true, "It would run out of memory");
        check(None, false, "It would not fit");
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
                    peak_reserved: Bytes(MIB),
                    fails,
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
    fn a_cache_from_before_that_is_left_out_is_told() {
        let check = |cached: u64, is_told: bool| {
            let text = left_out(Bytes(cached * MIB), Bytes(100 * MIB));
            assert_eq!(text.contains("cached and free"), is_told, "{text}");
        };
        check(0, false);
        check(1, false);
        check(40, true);
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
