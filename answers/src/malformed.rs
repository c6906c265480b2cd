//! What the server's framework says of a request that it cannot read, in plain words. The page
//! without a server reads requests with the same readers, and says the same.
//!
//! They speak of Rust: `Failed to deserialize query string: limit: invalid value: integer `0`,
//! expected a nonzero usize`. Whoever sent the request wants to read what `limit` must be.

/// How a sentence about a body begins that is not JSON.
const NOT_JSON: &str = "the body is not JSON: ";

/// How it begins, and how we do.
const BEGINNINGS: [(&str, &str); 7] = [
    ("Failed to deserialize query string: ", ""),
    (
        "Failed to deserialize the JSON body into the target type: ",
        "",
    ),
    ("Failed to parse the request body as JSON: ", NOT_JSON),
    ("Failed to deserialize form body: ", ""),
    ("Failed to deserialize form: ", ""),
    ("Invalid URL: Cannot parse ", "the address: cannot read "),
    ("Expected request with ", "send the body with "),
];

/// What it says is wrong, and what we say. It stands at the beginning, or after the field's name.
const FAULTS: [(&str, &str); 13] = [
    (
        "invalid digit found in string",
        "must be a whole number, 0 or more",
    ),
    ("cannot parse integer from empty string", "must be a number"),
    ("number too large to fit in target type", "is too large"),
    ("number too small to fit in target type", "is too small"),
    ("invalid float literal", "must be a number"),
    ("cannot parse float from empty string", "must be a number"),
    (
        "provided string was not `true` or `false`",
        "must be `true` or `false`",
    ),
    ("invalid type: ", "cannot be "),
    ("invalid value: ", "cannot be "),
    ("unknown variant ", "cannot be "),
    ("unknown field ", "there is no field "),
    ("missing field ", "there must be a field "),
    ("duplicate field ", "there are two fields "),
];

/// Its names of what a value must be, and ours.
const TYPES: [(&str, &str); 16] = [
    ("nonzero u8", "a whole number above 0"),
    ("nonzero u16", "a whole number above 0"),
    ("nonzero u32", "a whole number above 0"),
    ("nonzero u64", "a whole number above 0"),
    ("nonzero usize", "a whole number above 0"),
    ("u8", "a whole number"),
    ("u16", "a whole number"),
    ("u32", "a whole number"),
    ("u64", "a whole number"),
    ("usize", "a whole number"),
    ("i64", "a whole number"),
    ("f32", "a number"),
    ("f64", "a number"),
    ("map", "an object"),
    ("sequence", "a list"),
    ("boolean", "`true` or `false`"),
];

/// What the framework said, in plain words; or what its reader of queries and documents said, where
/// there is no framework.
pub fn in_words(said: &str) -> String {
    let begun = BEGINNINGS.iter().find_map(|(theirs, ours)| {
        let rest = said.strip_prefix(theirs)?;
        Some((*ours, rest))
    });
    let (begin, rest) = begun.unwrap_or(("", said));
    let rest = match rest.rsplit_once(" to a ") {
        Some((value, name)) if begin.starts_with("the address") => {
            format!("{value} as {}", type_of(name))
        }
        _ => fault(rest),
    };
    format!("{begin}{rest}")
}

/// What the reader of documents said of a body that is not JSON, in plain words.
pub fn not_json(said: &str) -> String {
    format!("{NOT_JSON}{}", fault(said))
}

/// `limit: invalid digit found in string`, or the same without a field.
fn fault(said: &str) -> String {
    let (said, expected) = match said.rsplit_once(", expected ") {
        Some((said, expected)) => (said, format!("; it must be {}", type_of(expected))),
        None => (said, String::new()),
    };
    let found = FAULTS.iter().find_map(|(theirs, ours)| {
        let at = said.find(theirs)?;
        let rest = &said[at + theirs.len()..];
        match said[..at].strip_suffix(": ") {
            Some(field) if ours.starts_with("there") => Some(format!("`{field}`: {ours}{rest}")),
            Some(field) => Some(format!("`{field}` {ours}{rest}")),
            None => (at == 0).then(|| format!("{ours}{rest}")),
        }
    });
    found.unwrap_or_else(|| said.to_owned()) + &expected
}

/// What a value must be. Behind it, JSON has the place: `u64 at line 1 column 9`.
fn type_of(expected: &str) -> String {
    let (name, place) = match expected.split_once(" at line ") {
        Some((name, place)) => (name, format!(" (line {place})")),
        None => (expected, String::new()),
    };
    let bare = name.trim_start_matches("a ").trim_matches('`');
    let ours = match TYPES.iter().find(|(theirs, _)| *theirs == bare) {
        Some((_, ours)) => ours,
        None if bare.starts_with("struct ") => "an object",
        None => name,
    };
    format!("{ours}{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_framework_the_words_are_the_same() {
        let check = |beginning: &str, said: &str| {
            assert_eq!(in_words(said), in_words(&format!("{beginning}{said}")));
        };
        check(
            "Failed to deserialize query string: ",
            "at: invalid digit found in string",
        );
        check(
            "Failed to deserialize the JSON body into the target type: ",
            "name: invalid type: integer `1`, expected a string at line 1 column 9",
        );
        let said = "EOF while parsing an object at line 1 column 1";
        let whole = format!("Failed to parse the request body as JSON: {said}");
        assert_eq!(not_json(said), in_words(&whole));
    }

    #[test]
    fn the_frameworks_words_become_plain_ones() {
        let check = |said: &str, expected: &str| assert_eq!(in_words(said), expected);
        check(
            "Failed to deserialize query string: limit: invalid value: integer `0`, expected a \
             nonzero usize",
            "`limit` cannot be integer `0`; it must be a whole number above 0",
        );
        check(
            "Failed to deserialize query string: at: invalid digit found in string",
            "`at` must be a whole number, 0 or more",
        );
        check(
            "Failed to deserialize the JSON body into the target type: missing field `kind` at \
             line 1 column 15",
            "there must be a field `kind` at line 1 column 15",
        );
        check(
            "Failed to deserialize the JSON body into the target type: size: invalid type: string \
             \"x\", expected u64 at line 1 column 9",
            "`size` cannot be string \"x\"; it must be a whole number (line 1 column 9)",
        );
        check(
            "Failed to deserialize query string: by: unknown variant `colour`, expected one of \
             `site`, `category`",
            "`by` cannot be `colour`; it must be one of `site`, `category`",
        );
        check(
            "Failed to deserialize the JSON body into the target type: rows[0]: missing field `y` \
             at line 1 column 23",
            "`rows[0]`: there must be a field `y` at line 1 column 23",
        );
        check(
            "Failed to parse the request body as JSON: expected value at line 1 column 1",
            "the body is not JSON: expected value at line 1 column 1",
        );
        check(
            "Invalid URL: Cannot parse `device` with value `main` to a `u32`",
            "the address: cannot read `device` with value `main` as a whole number",
        );
        check(
            "Expected request with `Content-Type: application/json`",
            "send the body with `Content-Type: application/json`",
        );
        // What somebody wrote is left as it is.
        check(
            "Failed to deserialize the JSON body into the target type: name: a project's name has \
             small letters, and no missing field `x`",
            "name: a project's name has small letters, and no missing field `x`",
        );
    }
}
