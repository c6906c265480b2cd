//! Which texts of a trace a reader may see.

use trace::redact::Key;

/// Which texts of a trace a reader may see. Whatever is made of a trace is made, and kept, for one
/// of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Texts {
    /// All.
    All,
    /// What is known to be harmless, and stand-ins made with a link's key.
    Redacted(Key),
}

impl Texts {
    /// Whether names are left out.
    pub const fn are_redacted(self) -> bool {
        matches!(self, Texts::Redacted(_))
    }

    /// A mark that separates what was made for one reader from what was made for another; nothing
    /// where all texts are there. It says nothing of the key.
    pub fn tag(self) -> Option<String> {
        let word = |key: Key, n: u8| key.word(&format!("\0tag {n}"));
        match self {
            Texts::All => None,
            // Two words are 70 bits: enough that no two links ever share what was drawn for one.
            Texts::Redacted(key) => Some(format!("redacted-{}{}", word(key, 1), word(key, 2))),
        }
    }
}
