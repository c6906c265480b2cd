//! What can be asked about a run under other conditions.

use super::sizes::size_of;
use super::words;
use api::problem::{Problem, ProblemCode};
use api::what_if::Conditions;
use trace::units::EventIdx;

/// Settings that are offered to try.
pub const SETTINGS: [&str; 4] = [
    "expandable_segments:True",
    "max_split_size_mb:128",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.8",
];

/// Why the limit is none. The server would refuse it, far below the field.
pub fn bad_limit(conditions: &Conditions) -> Option<&'static str> {
    size_of(conditions.limit.as_deref()?).err()
}

/// The limit that was typed, where it is one.
pub fn asked_limit(conditions: &Conditions) -> Option<String> {
    let limit = conditions.limit.clone()?;
    size_of(&limit).is_ok().then_some(limit)
}

/// Why what is said of a failure does not take the limit into account: the recording held more, or
/// has none. `None` where the server did not look at the limit.
pub fn limit_refused(problem: &Problem) -> Option<String> {
    let why = problem.detail.strip_prefix("limit: ");
    let why = why.unwrap_or(&problem.detail).trim_end_matches('.');
    let why = words::capital(why);
    let told = format!("{why}. What follows is about the recording as it is.");
    (problem.code == ProblemCode::BadRequest).then_some(told)
}

/// What is wrong with a field, to be said beside it: the limit, or the settings that the server
/// did not understand.
pub fn wrong_field(conditions: &Conditions, refused: Option<&Problem>) -> Option<String> {
    if let Some(why) = bad_limit(conditions) {
        return Some(format!("Limit: {why}"));
    }
    let refused = refused.filter(|problem| is_of_settings(conditions, problem));
    refused.map(|problem| {
        // The server names the field by its parameter.
        let detail = problem.detail.strip_prefix("alloc_conf: ");
        format!("Allocator: {}", detail.unwrap_or(&problem.detail))
    })
}

/// Whether a refusal is about the settings. Nothing else that is typed reaches the server
/// unchecked.
pub fn is_of_settings(conditions: &Conditions, problem: &Problem) -> bool {
    problem.code == ProblemCode::BadRequest && conditions.alloc_conf.is_some()
}

/// A remedy as conditions; `None` if it cannot be asked here (a smaller batch).
pub fn tried(change: &str) -> Option<Conditions> {
    let mut conditions = Conditions::default();
    match change {
        "no leaks" => conditions.without_leaks = true,
        "default settings" => conditions.alloc_conf = Some(String::new()),
        setting if setting.contains(':') => conditions.alloc_conf = Some(setting.to_owned()),
        _ => return None,
    }
    Some(conditions)
}

/// A text; `None` if it is empty.
pub fn text(value: &str) -> Option<String> {
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// Which call sites are offered to be left out; `peak`: of allocated memory.
pub const fn most_at(peak: Option<EventIdx>) -> &'static str {
    match peak {
        Some(_) => "Those that hold most at the peak of allocated memory.",
        None => {
            "Those that hold most before the first event: that is the peak of allocated memory."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_no_size_is_not_asked_about() {
        let with = |limit: Option<&str>| Conditions {
            limit: limit.map(str::to_owned),
            ..Conditions::default()
        };
        assert!(bad_limit(&with(Some("banana"))).is_some());
        assert_eq!(bad_limit(&with(Some("24GiB"))), None);
        assert_eq!(bad_limit(&with(None)), None);
    }

    #[test]
    fn a_refusal_is_said_at_its_field() {
        let refused = |code| Problem {
            code,
            status: 400,
            title: "Bad request".to_owned(),
            detail: "alloc_conf: `x` is no setting".to_owned(),
            offset: None,
        };
        let check = |limit: &str, conf: &str, code, expected: Option<&str>| {
            let conditions = Conditions {
                limit: text(limit),
                alloc_conf: text(conf),
                ..Conditions::default()
            };
            let wrong = wrong_field(&conditions, Some(&refused(code)));
            assert_eq!(wrong.as_deref(), expected, "{limit} {conf}");
        };
        use ProblemCode::{BadRequest, Busy};
        let settings = Some("Allocator: `x` is no setting");
        check("", "x:1", BadRequest, settings);
        check("24GiB", "x:1", BadRequest, settings);
        check("24GiB", "", BadRequest, None);
        check("", "x:1", Busy, None);
        let limit = wrong_field(
            &Conditions {
                limit: text("banana"),
                ..Conditions::default()
            },
            None,
        );
        assert!(limit.is_some_and(|why| why.starts_with("Limit: ")));
    }

    #[test]
    fn remedies_become_conditions() {
        let check = |change: &str, query: Option<&str>| {
            let conditions = tried(change);
            let found = conditions.map(|conditions| conditions.query());
            assert_eq!(found.as_deref(), query, "{change}");
        };
        check("no leaks", Some("&without_leaks=true"));
        check(
            "expandable_segments:True",
            Some("&alloc_conf=expandable_segments%3ATrue"),
        );
        check("default settings", Some("&alloc_conf="));
        check("1/2 of the batch", None);
    }

    #[test]
    fn a_limit_that_is_refused_is_told_beside_what_is_said_without_it() {
        let of = |limit: &str| Conditions {
            limit: Some(limit.to_owned()),
            ..Conditions::default()
        };
        assert_eq!(asked_limit(&of("24 GiB")).as_deref(), Some("24 GiB"));
        assert_eq!(asked_limit(&of("much")), None);
        assert_eq!(asked_limit(&Conditions::default()), None);
        let held = "limit: the recording reserved more: 1.50 GiB";
        let problem = |code| Problem {
            code,
            status: 400,
            title: String::new(),
            detail: held.to_owned(),
            offset: None,
        };
        let told = limit_refused(&problem(ProblemCode::BadRequest));
        let expected = "The recording reserved more: 1.50 GiB. What follows is about the recording \
                        as it is.";
        assert_eq!(told.as_deref(), Some(expected));
        assert_eq!(limit_refused(&problem(ProblemCode::Busy)), None);
    }
}
