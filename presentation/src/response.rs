//! What an answer of the server is: a value, a problem, or a reason to ask again a little later.

use crate::json;
use api::problem::{Problem, ProblemCode};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// After this long without an answer a request has failed, like any other problem.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// How long an answer may take that the server has at hand, such as a page of a list. A server that
/// hangs, or a network that is gone, does not end a request: without a limit nothing would be asked
/// again.
pub const SOON: Duration = Duration::from_secs(60);

/// The value in an answer's text.
///
/// # Errors
/// [`not_understood`].
pub fn read<T: DeserializeOwned>(body: &str) -> Result<T, Problem> {
    // 204 No Content has no body; `null` is read as `()`.
    let body = if body.is_empty() { "null" } else { body };
    json::read(body).map_err(|error| not_understood(&error))
}

/// The problem in an answer that is not a success. Uploads use it too, although they are sent
/// elsewhere.
pub fn problem_in(status: u16, body: &str) -> Problem {
    if let Ok(problem) = json::read::<Problem>(body) {
        return problem;
    }
    let (code, title) = match status {
        401 => (ProblemCode::Unauthorized, "An access token is needed"),
        403 => (ProblemCode::Forbidden, "Not allowed"),
        404 => (ProblemCode::NotFound, "Not found"),
        413 => (ProblemCode::TooLarge, "Too large"),
        429 => (ProblemCode::TooMany, "Too much at a time"),
        503 => (ProblemCode::Busy, "The server is busy"),
        400..=499 => (ProblemCode::BadRequest, "The server refused the request"),
        _ => (ProblemCode::Internal, "The server failed"),
    };
    Problem {
        code,
        status,
        title: title.to_owned(),
        detail: format!("Something between this page and Tidemark answered with status {status}."),
        offset: None,
    }
}

/// The problem for no answer at all.
pub fn unreachable() -> Problem {
    Problem {
        code: ProblemCode::Interrupted,
        status: 0,
        title: "The server does not answer".to_owned(),
        detail: "Check that `tidemark` is still running and that this machine reaches it, \
                 then try again."
            .to_owned(),
        offset: None,
    }
}

/// The problem for an answer that did not come [soon](SOON).
pub fn silence() -> Problem {
    Problem {
        detail: format!(
            "It said nothing for {} seconds: it hangs, or the network is gone.",
            SOON.as_secs()
        ),
        ..unreachable()
    }
}

/// Whether a problem is that an answer did not come [soon](SOON). Without a connection the browser
/// says so at once.
pub fn is_silence(problem: &Problem) -> bool {
    *problem == silence()
}

/// Whether a problem is that there was no answer at all.
pub fn is_no_answer(problem: &Problem) -> bool {
    problem.status == 0 && problem.code == ProblemCode::Interrupted
}

/// Whether asking again, with nothing changed, could go better.
pub fn may_go_better(problem: &Problem) -> bool {
    use ProblemCode::{BadRequest, Conflict, Forbidden, Gone, NotFound};
    !matches!(
        problem.code,
        BadRequest | Conflict | Forbidden | Gone | NotFound
    )
}

/// The problem for an answer that this page cannot read.
pub fn not_understood(error: &dyn std::fmt::Display) -> Problem {
    Problem {
        code: ProblemCode::TooNew,
        status: 200,
        title: "The answer is not understood".to_owned(),
        detail: format!(
            "This page and the server are of different versions; reload the page. ({error})"
        ),
        offset: None,
    }
}

/// How long to wait before a refused request is sent again, given its `Retry-After`.
pub fn worth_waiting(problem: &Problem, retry_after: Option<&str>) -> Option<Duration> {
    let refused = matches!(problem.status, 429 | 503);
    let seconds = retry_after?.trim().parse().ok()?;
    let wait = Duration::from_secs(seconds);
    (refused && wait <= LONGEST_WAIT).then_some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_document_is_taken_as_it_is() {
        let sent = Problem {
            code: ProblemCode::BadSnapshot,
            status: 422,
            title: "Not a snapshot".to_owned(),
            detail: "Byte 17 is not an opcode.".to_owned(),
            offset: Some(17),
        };
        let body = serde_json::to_string(&sent).unwrap();
        assert_eq!(problem_in(422, &body), sent);
    }

    #[test]
    fn any_other_answer_becomes_a_problem_by_its_status() {
        let check = |status, code| assert_eq!(problem_in(status, "<html>").code, code);
        check(401, ProblemCode::Unauthorized);
        check(403, ProblemCode::Forbidden);
        check(404, ProblemCode::NotFound);
        check(413, ProblemCode::TooLarge);
        check(418, ProblemCode::BadRequest);
        check(502, ProblemCode::Internal);
        check(429, ProblemCode::TooMany);
        check(503, ProblemCode::Busy);
    }

    #[test]
    fn what_cannot_go_better_is_not_tried_again() {
        assert!(may_go_better(&unreachable()));
        assert!(may_go_better(&problem_in(500, "")));
        assert!(!may_go_better(&problem_in(400, "")));
        assert!(!may_go_better(&problem_in(404, "")));
        // A bench, on the page without a server.
        let needs_a_server = Problem {
            code: ProblemCode::Conflict,
            ..problem_in(409, "")
        };
        assert!(!may_go_better(&needs_a_server));
    }

    #[test]
    fn an_answer_that_does_not_come_is_told_from_a_connection_that_cannot_be_made() {
        assert!(is_silence(&silence()) && !is_silence(&unreachable()));
        assert!(is_no_answer(&silence()) && may_go_better(&silence()));
    }

    #[test]
    fn only_a_refusal_for_a_short_while_is_worth_waiting() {
        let check = |status, retry: Option<&str>, seconds: Option<u64>| {
            let wait = worth_waiting(&problem_in(status, ""), retry);
            assert_eq!(wait, seconds.map(Duration::from_secs), "{status} {retry:?}");
        };
        check(429, Some("2"), Some(2));
        check(503, Some(" 15"), Some(15));
        check(503, Some("16"), None);
        check(503, None, None);
        check(503, Some("Sun, 22 Nov 2026 03:00:00 GMT"), None);
        check(500, Some("1"), None);
    }

    #[test]
    fn an_empty_answer_reads_as_unit_and_nothing_else() {
        assert_eq!(read::<()>(""), Ok(()));
        assert_eq!(read::<u32>("7"), Ok(7));
        assert_eq!(read::<u32>("").unwrap_err().code, ProblemCode::TooNew);
    }
}
