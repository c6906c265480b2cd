//! People, what they may do, their tokens, and the audit.

use crate::ids::{PersonId, TokenId};
use crate::project_name::ProjectName;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a request does, and what a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Looks at runs, and asks questions about them.
    Read,
    /// Sends recordings, and labels them.
    Upload,
    /// Names, deletes and shares runs, and starts benches.
    Manage,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 3] = [Scope::Read, Scope::Upload, Scope::Manage];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Upload => "upload",
            Scope::Manage => "manage",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that is not known here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not one of {known}")]
pub struct UnknownWord {
    word: String,
    known: String,
}

fn word<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, UnknownWord> {
    let found = all.iter().copied().find(|one| name(*one) == text);
    found.ok_or_else(|| UnknownWord {
        word: text.to_owned(),
        known: all
            .iter()
            .map(|one| name(*one))
            .collect::<Vec<_>>()
            .join(", "),
    })
}

impl FromStr for Scope {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Scope, UnknownWord> {
        word(text, &Scope::ALL, Scope::name)
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<Scope>", into = "Vec<Scope>")]
pub struct Scopes(u8);

impl Scopes {
    /// None.
    pub const NONE: Scopes = Scopes(0);
    /// All.
    pub const ALL: Scopes = Scopes(0b111);

    const fn bit(scope: Scope) -> u8 {
        1 << scope as u8
    }

    /// Whether this scope is in the set.
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & Scopes::bit(scope) != 0
    }

    /// Those that are in both.
    pub const fn both(self, other: Scopes) -> Scopes {
        Scopes(self.0 & other.0)
    }

    /// The scopes, one after the other.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }
}

impl From<Vec<Scope>> for Scopes {
    fn from(scopes: Vec<Scope>) -> Scopes {
        scopes.into_iter().collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Scopes {
        Scopes(scopes.into_iter().fold(0, |bits, s| bits | Scopes::bit(s)))
    }
}

impl From<Scopes> for Vec<Scope> {
    fn from(scopes: Scopes) -> Vec<Scope> {
        scopes.iter().collect()
    }
}

impl fmt::Display for Scopes {
    /// `read, upload`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, scope) in self.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{scope}")?;
        }
        Ok(())
    }
}

impl FromStr for Scopes {
    type Err = UnknownWord;
    /// Words with commas between them.
    fn from_str(text: &str) -> Result<Scopes, UnknownWord> {
        let words = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty());
        words.map(Scope::from_str).collect()
    }
}

/// The most that a person may do, whatever their tokens say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything; also says who else may.
    Admin,
    /// Everything but say who else may.
    Member,
    /// Looks.
    Reader,
    /// Nothing, but in projects that let them in.
    Guest,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Admin, Role::Member, Role::Reader, Role::Guest];

    /// What people can be in a project.
    pub const IN_PROJECT: [Role; 3] = [Role::Admin, Role::Member, Role::Reader];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Member => "member",
            Role::Reader => "reader",
            Role::Guest => "guest",
        }
    }

    /// The most that such a person may do.
    pub const fn scopes(self) -> Scopes {
        match self {
            Role::Admin | Role::Member => Scopes::ALL,
            Role::Reader => Scopes(Scopes::bit(Scope::Read)),
            Role::Guest => Scopes::NONE,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Role, UnknownWord> {
        word(text, &Role::ALL, Role::name)
    }
}

/// A person who may sign in, or once could.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Person {
    /// Names them for good.
    pub id: PersonId,
    /// What the others call them.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// When they were added.
    pub created_ms: i64,
    /// When their access was ended, if it was.
    pub left_ms: Option<i64>,
}

/// A person to be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewPerson {
    /// What the others call them: 1 to 64 characters, nobody else's name.
    pub name: String,
    /// What they may do.
    pub role: Role,
}

impl NewPerson {
    /// Longest name, characters.
    pub const MAX_NAME: usize = 64;
}

/// A person who was added, and the token that they sign in with first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AddedPerson {
    /// The person.
    pub person: Person,
    /// Their first token.
    pub token: CreatedToken,
}

/// What changes about a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ChangePerson {
    /// Their new role.
    pub role: Option<Role>,
    /// `true` ends their access at once, with all tokens and sessions; `false` lets them in again.
    pub left: Option<bool>,
}

/// A token of a person, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PersonalToken {
    /// Names it.
    pub id: TokenId,
    /// Whose it is.
    pub person: PersonId,
    /// What it is for, in their words.
    pub name: String,
    /// What it is good for, unless the person's role says less.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Scope>))]
    pub scopes: Scopes,
    /// When it was made.
    pub created_ms: i64,
    /// When it ends by itself.
    pub expires_ms: Option<i64>,
    /// When it was used last, to some minutes.
    pub used_ms: Option<i64>,
    /// The only project that it opens, if it is bound to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectName>,
}

/// A token to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// What it is for: 1 to 64 characters.
    pub name: String,
    /// What it is good for.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Scope>))]
    pub scopes: Scopes,
    /// After how many seconds it ends by itself; never, unless given.
    #[serde(default)]
    pub expires_in_s: Option<u32>,
    /// Whose it is to be: yours, unless given. Only an admin makes tokens for others.
    #[serde(default)]
    pub person: Option<PersonId>,
    /// The only project that it is to open; all of the person's, unless given. Such a token does
    /// nothing to the server itself.
    #[serde(default)]
    pub project: Option<ProjectName>,
}

/// A token that was made. Only this answer holds its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// The token.
    pub token: PersonalToken,
    /// What programs send, and what is typed to sign in.
    pub secret: String,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Me {
    /// The person; none where nobody needs to sign in, or who came with the server's own token.
    pub person: Option<Person>,
    /// What this request may do.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Scope>))]
    pub scopes: Scopes,
    /// Whether it may say who else may.
    pub admin: bool,
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Counts up; newer ones are higher.
    pub id: u64,
    /// When.
    pub at_ms: i64,
    /// Who, by the name of then.
    pub who: String,
    /// From which address.
    pub address: String,
    /// What: `upload`, `share`, `revoke_link`, `delete_run`, `sign_in` …
    pub action: String,
    /// What it was done to: an id, a name, or a name and an id: `llama (run_…)`.
    pub subject: String,
    /// In which project, where the server has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectName>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_written_and_read() {
        let check = |text: &str, expected: &str| {
            let read: Result<Scopes, _> = text.parse();
            let said = read.map_or_else(|error| error.to_string(), |scopes| scopes.to_string());
            assert_eq!(said, expected, "{text}");
        };
        check("", "");
        check("read", "read");
        check("upload,read", "read, upload");
        check("manage, read,upload", "read, upload, manage");
        check("all", "`all` is not one of read, upload, manage");
        let json = serde_json::to_string(&Scopes::ALL).unwrap();
        assert_eq!(json, r#"["read","upload","manage"]"#);
        assert_eq!(serde_json::from_str::<Scopes>(&json).unwrap(), Scopes::ALL);
    }

    #[test]
    fn a_role_bounds_what_a_token_is_good_for() {
        let check = |role: Role, token: &str, may: &str| {
            let scopes = role.scopes().both(token.parse().unwrap());
            assert_eq!(scopes.to_string(), may, "{role} {token}");
        };
        check(Role::Admin, "upload", "upload");
        check(Role::Member, "read,manage", "read, manage");
        check(Role::Reader, "read,upload,manage", "read");
        check(Role::Reader, "upload", "");
    }
}
