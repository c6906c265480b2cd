//! How far an answer can be trusted, in words.

use super::sizes::{range, size};
use crate::trace::Fidelity;
use crate::units::{Bytes, grouped};
use crate::what_if::{Answer, Calibration, Earlier, LimitSeen, Spread, Waiting};

/// How far an answer can be trusted, in words.
pub fn trust(answer: &Answer) -> String {
    let told = answer.at_recorded_limit.as_ref().unwrap_or(&answer.what_if);
    let limit = match &answer.at_recorded_limit {
        Some(_) => answer.recorded.limit.map(LimitSeen::taken),
        None => answer.limit,
    };
    let spread = told.spread.as_ref();
    let spread = spread.map(|found| self::spread(found, limit));
    let spread = spread.unwrap_or_default();
    let waiting = told.waiting.as_ref();
    let waiting = waiting.map(|found| self::waiting(found, limit));
    let waiting = waiting.unwrap_or_default();
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
    let passed_over = passed_over(answer.passed_over);
    let narrowed = match (answer.is_limit_narrowed, answer.recorded.limit) {
        (true, Some(seen)) => narrowed(seen),
        _ => String::new(),
    };
    format!(
        "{}{narrowed}{spread}{waiting}{collecting}{earlier}{passed_over}",
        calibration(&answer.calibration)
    )
}

/// How the limit of the recording is known.
fn narrowed(seen: LimitSeen) -> String {
    format!(
        " The recording fits larger limits than {}, too, but under those that were tried the \
         replay does not fail where the recorded run did.",
        size(seen.taken())
    )
}

/// What the answer cannot know: what a library does with room that it did not have.
fn passed_over(requests: u64) -> String {
    let (were, them) = match requests {
        0 => return String::new(),
        1 => ("request was", "it"),
        _ => ("requests were", "them"),
    };
    format!(
        " In the recording {} {were} refused and the program went on without {them}, as a library \
         does that settles for less work space; with more room it may take more, also later.",
        grouped(requests)
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
    let other = match found.failed {
        Some(_) => "it would run out of memory".to_owned(),
        None => format!(
            "reserved memory would peak at {}",
            size(found.peak_reserved)
        ),
    };
    format!(
        " Before the first event {} were cached and free, as the recorded settings had left them; \
         others may have left more or less. They are {counted}; {otherwise} {other}. Neither is a \
         bound; a recording from the program's beginning can tell.",
        size(found.cached)
    )
}

fn waiting(found: &Waiting, limit: Option<Bytes>) -> String {
    let spread = &found.spread;
    format!(
        " Of {} frees {} waited for another stream. How long they wait differs from run to run; \
         over {} replays with different waits the peak of reserved memory is {}.",
        grouped(found.frees),
        grouped(found.waited),
        spread.orders,
        outcomes(spread, limit, "run"),
    )
}

fn spread(spread: &Spread, limit: Option<Bytes>) -> String {
    let [low, high] = spread.peak_reserved;
    if low == high && !spread.differs() && !spread.is_torn() {
        let others = spread.orders - 1;
        return format!(
            " The addresses of some segments are guessed; with {others} other guesses the answer \
             is the same."
        );
    }
    format!(
        " The addresses of some segments are guessed; over {} guesses the peak of reserved memory \
         is {}.",
        spread.orders,
        outcomes(spread, limit, "guess")
    )
}

/// The peaks of replays that differ by a guess, or by the run, and how else they end.
fn outcomes(spread: &Spread, limit: Option<Bytes>, by: &str) -> String {
    let Spread {
        failed, retries, ..
    } = *spread;
    let mut text = range(spread.peak_reserved.map(size));
    if retries[0] != retries[1] {
        text += &format!(", with {} retries", range(retries.map(|n| n.to_string())));
    }
    if spread.is_torn() {
        let run = if failed == 1 { "runs" } else { "run" };
        text += &format!(", and {failed} of them {run} out of memory");
    }
    if limit.is_some_and(|limit| spread.is_near(limit)) {
        text += &format!(", so near the limit that another {by} may not fit");
    }
    text
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

#[cfg(test)]
mod tests {
    use super::super::testing::{failing_at, spread_of};
    use super::*;
    use crate::what_if::{Outcome, Refuser};

    const MIB: u64 = 1 << 20;

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
        // It is another request that fails.
        let elsewhere = Spread {
            failed_at: Some([3, 9].map(failing_at)),
            ..spread_of(8, [300, 300], [1, 1])
        };
        check(
            elsewhere,
            "over 8 guesses the peak of reserved memory is 300 MiB.",
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
    fn a_limit_that_only_the_replay_tells_is_told_as_such() {
        let seen = LimitSeen {
            at_least: Bytes::mib(1000),
            below: Bytes(1016 * MIB + 1),
            by: Refuser::Process,
        };
        let expected = " The recording fits larger limits than 1016 MiB, too, but under those";
        assert!(narrowed(seen).starts_with(expected), "{}", narrowed(seen));
    }

    #[test]
    fn what_a_library_did_without_is_told() {
        assert_eq!(passed_over(0), "");
        let one = " In the recording 1 request was refused and the program went on without it, as";
        assert!(passed_over(1).starts_with(one));
        let some = " In the recording 4 requests were refused and the program went on without them";
        assert!(passed_over(4).starts_with(some));
    }

    #[test]
    fn what_depends_on_waits_is_said() {
        let check = |spread: Spread, expected: &str| {
            let found = Waiting {
                waited: 20,
                frees: 4000,
                spread,
            };
            let told = waiting(&found, Some(Bytes(315 * MIB)));
            let begin = " Of 4,000 frees 20 waited for another stream. How long they wait differs \
                         from run to run; over 8 replays with different waits the peak of \
                         reserved memory is ";
            assert_eq!(told.strip_prefix(begin), Some(expected));
        };
        check(
            spread_of(3, [300, 300], [1, 4]),
            "300 MiB, with 1 to 4 retries, and 3 of them run out of memory.",
        );
        check(
            spread_of(0, [300, 310], [1, 1]),
            "300 MiB to 310 MiB, so near the limit that another run may not fit.",
        );
    }
}
