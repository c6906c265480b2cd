//! A problem, shown in the place of what could not be shown.

use ::timeline::format;
use api::problem::Problem;

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
