//! What can be asked about a run under other conditions.

use super::sizes::size_of;
use ::timeline::format;
use api::what_if::{Conditions, WhatIf};

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

/// Which parts of the question matched something in the recording.
pub fn otherwise(answer: &WhatIf) -> Option<String> {
    let otherwise = &answer.otherwise;
    let part =
        |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", format::plural(n, "block")));
    let parts = [
        part(otherwise.given_back, "given back at the end of their steps"),
        part(otherwise.gone, "never asked for"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{}.", parts.join(", ")))
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
}
