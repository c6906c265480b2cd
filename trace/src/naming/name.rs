//! The names under which bytes are shown: Tidemark's categories, and those that a team made.

use super::Category;
use crate::fingerprint::Fingerprint;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The name of a team's own category: 1 to [`OwnName::LONGEST`] of the characters `a-z A-Z 0-9`,
/// space, `_ - . / +`, beginning with a letter or a digit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnName {
    // Zeros after the text, so that the derived order is the order of the texts.
    text: [u8; OwnName::LONGEST],
    len: u8,
}

/// The text is not a name for a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// It has other characters, none, or too many.
    #[error(
        "a name has 1 to {} letters, digits, spaces and _ - . / +, and begins with a letter or a \
         digit",
        OwnName::LONGEST
    )]
    Spelling,
    /// One of Tidemark's own categories has it.
    #[error("one of Tidemark's categories has this name")]
    Taken,
}

impl OwnName {
    /// The most bytes of a name.
    pub const LONGEST: usize = 31;

    /// Identifies its band in a picture, and chooses its colour: the same in every recording.
    pub fn key(self) -> u32 {
        /// Below are Tidemark's categories, and above the keys that have a meaning of their own.
        const FIRST: u32 = 16;
        const KEYS: u64 = 1 << 24;
        let print = Fingerprint::default().text(self.as_str());
        FIRST + (print.key() % KEYS) as u32
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl FromStr for OwnName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<OwnName, BadName> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" _-./+".contains(&byte);
        let begins = text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric());
        let fits = text.len() <= OwnName::LONGEST && !text.ends_with(' ');
        if !begins || !fits || !text.bytes().all(is_plain) {
            return Err(BadName::Spelling);
        }
        let is_ours = |c: Category| {
            c.name().eq_ignore_ascii_case(text) || c.label().eq_ignore_ascii_case(text)
        };
        if Category::ALL.into_iter().any(is_ours) {
            return Err(BadName::Taken);
        }
        let mut name = OwnName {
            text: [0; OwnName::LONGEST],
            len: text.len() as u8,
        };
        name.text[..text.len()].copy_from_slice(text.as_bytes());
        Ok(name)
    }
}

impl fmt::Debug for OwnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// What a block is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Named {
    /// One of Tidemark's categories.
    Ours(Category),
    /// One of the team's.
    Own(OwnName),
}

impl Named {
    /// The name in JSON, and in a filter.
    pub fn name(&self) -> &str {
        match self {
            Named::Ours(category) => category.name(),
            Named::Own(name) => name.as_str(),
        }
    }

    /// The name for people.
    pub fn label(&self) -> &str {
        match self {
            Named::Ours(category) => category.label(),
            Named::Own(name) => name.as_str(),
        }
    }

    /// Identifies its band in a picture, and chooses its colour: the same in every recording.
    pub fn key(&self) -> u32 {
        match self {
            Named::Ours(category) => *category as u32,
            Named::Own(name) => name.key(),
        }
    }
}

impl From<Category> for Named {
    fn from(category: Category) -> Named {
        Named::Ours(category)
    }
}

impl PartialEq<Category> for Named {
    fn eq(&self, category: &Category) -> bool {
        *self == Named::Ours(*category)
    }
}

impl FromStr for Named {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Named, BadName> {
        match Category::ALL.into_iter().find(|c| c.name() == text) {
            Some(category) => Ok(Named::Ours(category)),
            None => text.parse().map(Named::Own),
        }
    }
}

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Named, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Named;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a category")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Named, E> {
                text.parse().map_err(E::custom)
            }
        }
        from.deserialize_str(Text)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Named {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let names = Category::ALL.map(Category::name).join("`, `");
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::Type::String)
            .description(Some(format!(
                "What blocks are for: `{names}`, or the name of one of the team's own categories."
            )))
            .build()
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Named {
    fn name() -> std::borrow::Cow<'static, str> {
        "CategoryName".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_refused() {
        let check = |text: &str, expected: Result<&str, BadName>| {
            let read = text.parse::<OwnName>();
            let read = read.as_ref().map(OwnName::as_str).map_err(|error| *error);
            assert_eq!(read, expected, "{text:?}");
        };
        check("attention", Ok("attention"));
        check("KV cache/8-bit", Ok("KV cache/8-bit"));
        check("1st", Ok("1st"));
        check(&"x".repeat(31), Ok(&"x".repeat(31)));
        check(&"x".repeat(32), Err(BadName::Spelling));
        check("", Err(BadName::Spelling));
        check("-x", Err(BadName::Spelling));
        check("x ", Err(BadName::Spelling));
        check("a<b", Err(BadName::Spelling));
        check("é", Err(BadName::Spelling));
        check("Activation", Err(BadName::Taken));
        check("optimizer state", Err(BadName::Taken));
    }

    #[test]
    fn a_name_keeps_its_key_and_its_json() {
        let own: Named = "attention".parse().unwrap();
        assert_eq!(own.key(), own.key());
        assert!((16..16 + (1 << 24)).contains(&own.key()));
        let json = serde_json::to_string(&[own, Category::KvCache.into()]).unwrap();
        assert_eq!(json, r#"["attention","kv_cache"]"#);
        let read: Vec<Named> = serde_json::from_str(&json).unwrap();
        assert_eq!(read, [own, Category::KvCache.into()]);
        assert!(serde_json::from_str::<Named>(r#""a\u0000b""#).is_err());
    }

    #[test]
    fn names_are_in_alphabetical_order_after_ours() {
        let name = |text: &str| text.parse::<Named>().unwrap();
        let mut names = [name("b"), name("ab"), name("a"), Category::Unknown.into()];
        names.sort_unstable();
        let expected = [Category::Unknown.into(), name("a"), name("ab"), name("b")];
        assert_eq!(names, expected);
    }
}
