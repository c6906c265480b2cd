//! Which texts of a trace a reader may see.

use trace::redact::Key;

/// Which texts of a trace a reader may see. Everything that is derived from a trace is made and
/// stored for one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Texts {
    /// All.
    All,
    /// Only texts that are known to be harmless. The others become stand-ins, made with a link's
    /// key.
    Redacted(Key),
}

impl Texts {
    /// Whether names are left out.
    pub const fn are_redacted(self) -> bool {
        matches!(self, Texts::Redacted(_))
    }

    /// A mark that keeps results for one kind of reader apart from those for another; `None` if all
    /// texts are shown. The key cannot be found from it.
    pub fn tag(self) -> Option<String> {
        let word = |key: Key, n: u8| key.word(&format!("\0tag {n}"));
        match self {
            Texts::All => None,
            // Two words are 70 bits: enough that no two links ever share a stored picture.
            Texts::Redacted(key) => Some(format!("redacted-{}{}", word(key, 1), word(key, 2))),
        }
    }
}
