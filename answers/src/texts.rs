//! Which texts of a trace a reader may see.

use trace::redact::Key;

/// Which texts of a trace a reader may see. Everything that is derived from a trace is made and
/// stored for one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Texts {
    /// All, and blocks under the team's own names.
    All(OwnNames),
    /// Only texts that are known to be harmless. The others become stand-ins, made with a link's
    /// key.
    Redacted(Key),
}

/// Which rules for a team's own categories hold ([`trace::naming::Rules::key`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnNames(pub u64);

impl OwnNames {
    /// No rules.
    pub const NONE: OwnNames = OwnNames(0);
}

impl Texts {
    /// All, where the team has no categories of its own.
    pub const AS_RECORDED: Texts = Texts::All(OwnNames::NONE);

    /// Whether names are left out.
    pub const fn are_redacted(self) -> bool {
        matches!(self, Texts::Redacted(_))
    }

    /// The same, with Tidemark's categories in place of the team's own.
    #[must_use]
    pub const fn without_own(self) -> Texts {
        match self {
            Texts::All(_) => Texts::AS_RECORDED,
            Texts::Redacted(_) => self,
        }
    }

    /// A mark that keeps results for one kind of reader apart from those for another; `None` if all
    /// texts are shown as they were recorded. A link's key cannot be found from it.
    pub fn tag(self) -> Option<String> {
        let word = |key: Key, n: u8| key.word(&format!("\0tag {n}"));
        match self {
            Texts::All(OwnNames::NONE) => None,
            Texts::All(OwnNames(key)) => Some(format!("own-{key:016x}")),
            // Two words are 70 bits: enough that no two links ever share a stored picture.
            Texts::Redacted(key) => Some(format!("redacted-{}{}", word(key, 1), word(key, 2))),
        }
    }
}
