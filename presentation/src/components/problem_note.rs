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

/// What a problem tells, behind a colon: as the rest of a sentence, which it ends.
pub fn behind_colon(text: &str) -> String {
    let text = sentence(text);
    let first = text.split([' ', ',', '.']).next().unwrap_or_default();
    // A name keeps its letters.
    let is_name = NAMES.contains(&first) || first.bytes().skip(1).any(|b| !b.is_ascii_lowercase());
    let mut chars = text.chars();
    match chars.next() {
        Some(letter) if !is_name => {
            [&letter.to_ascii_lowercase().to_string(), chars.as_str()].concat()
        }
        _ => text,
    }
}

/// Names with which a sentence may begin, and which are written as other words are.
const NAMES: [&str; 2] = ["Python", "Tidemark"];

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
    fn behind_a_colon_a_sentence_goes_on() {
        let check = |detail: &str, expected: &str| assert_eq!(behind_colon(detail), expected);
        check("The server did not answer.", "the server did not answer.");
        check("there is no run run_1", "there is no run run_1.");
        check("A rank, such as rank0.", "a rank, such as rank0.");
        check("PyTorch wrote it.", "PyTorch wrote it.");
        check("Tidemark wrote it", "Tidemark wrote it.");
        check("`segments` is missing", "`segments` is missing.");
        check("HTTP 502", "HTTP 502.");
        check("", ".");
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
