//! A problem, shown in the place of what could not be shown.

use crate::letters::capital;
use ::timeline::format;
use api::problem::Problem;

/// What a problem tells, as a sentence. Programs read the same text behind a colon.
pub fn sentence(detail: &str) -> String {
    let first = detail.split(' ').next().unwrap_or_default();
    // A name stays as it is written.
    let is_word = first.bytes().all(|byte| byte.is_ascii_alphabetic());
    let text = match is_word {
        true => capital(detail),
        false => detail.to_owned(),
    };
    let end = if text.ends_with(['.', '?', '!']) {
        ""
    } else {
        "."
    };
    [&text, end].concat()
}

/// The position of a problem in the uploaded file, unless its own text names it.
pub fn place(problem: &Problem) -> Option<String> {
    let offset = problem.offset?;
    let said = |number: &str| problem.detail.contains(number);
    let told = said(&offset.to_string()) || said(&format::count(offset));
    (!told).then(|| format!("At byte {}.", format::count(offset)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::problem::ProblemCode;

    #[test]
    fn a_problem_is_a_sentence() {
        let check = |detail: &str, expected: &str| assert_eq!(sentence(detail), expected);
        check("there is no run run_1", "There is no run run_1.");
        check("No opcode.", "No opcode.");
        check("alloc_conf is empty", "alloc_conf is empty.");
        check("`segments` is missing", "`segments` is missing.");
    }

    #[test]
    fn the_place_is_told_once() {
        let check = |detail: &str, offset, expected: Option<&str>| {
            let problem = Problem {
                code: ProblemCode::BadSnapshot,
                status: 422,
                title: String::new(),
                detail: detail.to_owned(),
                offset,
            };
            assert_eq!(place(&problem).as_deref(), expected, "{detail}");
        };
        check("No opcode.", Some(12_345), Some("At byte 12,345."));
        check("No opcode at byte 12345.", Some(12_345), None);
        check("No opcode at byte 12,345.", Some(12_345), None);
        check("No opcode.", None, None);
    }
}
