//! The name of a project, which stands in addresses.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The name of a project: 1 to 32 small letters, digits and single dashes between them. It never
/// changes, because it stands in addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String))]
pub struct ProjectName(String);

/// Text that cannot be the name of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a project's name has 1 to 32 small letters and digits, with single dashes between them")]
pub struct BadProjectName;

impl ProjectName {
    /// The project that every server has.
    pub const MAIN: &'static str = "main";

    /// Longest name.
    const LONGEST: usize = 32;

    /// The project that every server has.
    pub fn main() -> ProjectName {
        ProjectName(ProjectName::MAIN.to_owned())
    }

    /// Whether it is the one that every server has.
    pub fn is_main(&self) -> bool {
        self.0 == ProjectName::MAIN
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ProjectName {
    type Err = BadProjectName;
    fn from_str(text: &str) -> Result<ProjectName, BadProjectName> {
        let is_word = |word: &str| {
            let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
            !word.is_empty() && word.bytes().all(fits)
        };
        match text.len() <= ProjectName::LONGEST && text.split('-').all(is_word) {
            true => Ok(ProjectName(text.to_owned())),
            false => Err(BadProjectName),
        }
    }
}

impl TryFrom<String> for ProjectName {
    type Error = BadProjectName;
    fn try_from(text: String) -> Result<ProjectName, BadProjectName> {
        text.parse()
    }
}

impl From<ProjectName> for String {
    fn from(name: ProjectName) -> String {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_stand_in_an_address() {
        let check = |name: &str, ok: bool| assert_eq!(name.parse::<ProjectName>().is_ok(), ok);
        check("main", true);
        check("vision-2", true);
        check("7b", true);
        check("", false);
        check("-a", false);
        check("a-", false);
        check("a--b", false);
        check("Vision", false);
        check("a/b", false);
        check("a b", false);
        check("..", false);
        check(&"x".repeat(32), true);
        check(&"x".repeat(33), false);
    }
}
