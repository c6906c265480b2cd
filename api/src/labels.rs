//! Labels: what a team says about a run, to find it again.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use trace::plain::is_plain;

/// Values by key. CI sets `branch` and `commit`.
pub type Labels = BTreeMap<String, String>;

/// The largest number of labels of one run.
pub const MOST: usize = 32;
/// Longest key, characters.
pub const KEY_CHARS: usize = 64;
/// Longest value, characters.
pub const VALUE_CHARS: usize = 200;
/// The parameter of a list that names a label; it may be repeated.
pub const PARAMETER: &str = "label";

/// `PATCH` of a run's labels: what is named changes, the others stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeLabels {
    /// The new value of each key; `null` takes the label off.
    pub labels: BTreeMap<String, Option<String>>,
}

/// Labels in one text: `branch=main,config=a`. `None` if any part is not a label.
pub fn listed(text: &str) -> Option<Vec<Label>> {
    text.split(',').map(|label| label.parse().ok()).collect()
}

/// One label, written `key=value`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Letters, digits, `.`, `_`, `-` and `/`; 1 to [`KEY_CHARS`].
    pub key: String,
    /// One line of 1 to [`VALUE_CHARS`] characters, none of which hides or reorders others.
    pub value: String,
}

/// Why this is not a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotALabel {
    /// No `=`.
    NoValue,
    /// The key is empty, too long, or has other characters.
    Key,
    /// The value is empty, too long, or has characters that hide or reorder others.
    Value,
}

impl fmt::Display for NotALabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotALabel::NoValue => f.write_str("a label is written key=value"),
            NotALabel::Key => write!(
                f,
                "the key of a label has 1 to {KEY_CHARS} letters, digits, and `.`, `_`, `-` or `/`"
            ),
            NotALabel::Value => write!(
                f,
                "the value of a label has 1 to {VALUE_CHARS} characters, none of which hides or \
                 turns others"
            ),
        }
    }
}

impl std::error::Error for NotALabel {}

impl Label {
    /// A label.
    ///
    /// # Errors
    /// When a part of it is not allowed.
    pub fn new(key: &str, value: &str) -> Result<Label, NotALabel> {
        let (key, value) = (key.trim(), value.trim());
        let of_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        if !(1..=KEY_CHARS).contains(&key.len()) || !key.chars().all(of_key) {
            return Err(NotALabel::Key);
        }
        let fits = (1..=VALUE_CHARS).contains(&value.chars().count());
        if !fits || !value.chars().all(is_plain) {
            return Err(NotALabel::Value);
        }
        Ok(Label {
            key: key.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl FromStr for Label {
    type Err = NotALabel;

    fn from_str(text: &str) -> Result<Label, NotALabel> {
        let (key, value) = text.split_once('=').ok_or(NotALabel::NoValue)?;
        Label::new(key, value)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_key_and_a_value() {
        let check = |text: &str, expected: Result<(&str, &str), NotALabel>| {
            let found: Result<Label, NotALabel> = text.parse();
            let found = found.as_ref().map(|l| (l.key.as_str(), l.value.as_str()));
            assert_eq!(found, expected.as_ref().map(|&parts| parts), "{text:?}");
        };
        check("branch=main", Ok(("branch", "main")));
        check(" config = a b, c=d ", Ok(("config", "a b, c=d")));
        check(
            "ml.team/stage=pre-train",
            Ok(("ml.team/stage", "pre-train")),
        );
        check("branch", Err(NotALabel::NoValue));
        check("=main", Err(NotALabel::Key));
        check("ключ=1", Err(NotALabel::Key));
        check("a b=1", Err(NotALabel::Key));
        check("branch=", Err(NotALabel::Value));
        check("branch=a\u{202e}b", Err(NotALabel::Value));
        check("branch=a\nb", Err(NotALabel::Value));
        check(&format!("k={}", "x".repeat(201)), Err(NotALabel::Value));
        check(&format!("{}=x", "k".repeat(65)), Err(NotALabel::Key));
    }
}
