//! A link to a view: how long it lives, what it does not show, and what became of it.

use ::timeline::format::{self, UnixMillis};
use api::shares::{Redaction, Share, ShareKind, ShareState};

/// Seconds of a day.
const DAY_S: u32 = 24 * 3600;

/// The lifetimes of a link: text in the menu, and seconds.
pub const LIVES: [(&str, Option<u32>); 5] = [
    ("in a day", Some(DAY_S)),
    ("in a week", Some(7 * DAY_S)),
    ("in 30 days", Some(30 * DAY_S)),
    ("in a year", Some(365 * DAY_S)),
    ("never", None),
];

/// What a redacted link shows, and what it does not.
pub const ABOUT_REDACTION: &str = "\
    Names of PyTorch, of well-known packages and of Python, sizes, counts and line numbers are \
    shown. Your own files, functions, scopes, metadata and settings get stand-ins, the same ones \
    everywhere in this link and in no other. What is searched for is left out. The note and the \
    name that you type below are shown as they are.";

/// What a redacted link is called, wherever it is made, listed or opened.
pub const REDACTED: &str = "names hidden";

/// The entry of [`LIVES`] that is selected at first.
pub const FIRST_LIFE: usize = 2;

/// What is chosen and typed for a link, until the link is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Who can open it.
    pub kind: ShareKind,
    /// The entry of [`LIVES`].
    pub life: usize,
    /// Whether it hides names.
    pub redacted: bool,
    /// What it is for.
    pub note: String,
}

impl Default for Draft {
    fn default() -> Draft {
        Draft {
            kind: ShareKind::Team,
            life: FIRST_LIFE,
            redacted: false,
            note: String::new(),
        }
    }
}

impl Draft {
    /// As a text, which the tab keeps.
    pub fn write(&self) -> String {
        let is_open = self.kind == ShareKind::Capability;
        let [is_open, redacted] = [is_open, self.redacted].map(u8::from);
        format!("{is_open}{redacted}{} {}", self.life, self.note)
    }

    /// Reads such a text; `None` if it is none.
    pub fn read(text: &str) -> Option<Draft> {
        let (chosen, note) = text.split_once(' ')?;
        let (flags, life) = chosen.split_at_checked(2)?;
        let kind = match flags.starts_with('1') {
            true => ShareKind::Capability,
            false => ShareKind::Team,
        };
        Some(Draft {
            kind,
            life: life.parse().ok().filter(|life| *life < LIVES.len())?,
            redacted: flags.ends_with('1'),
            note: note.to_owned(),
        })
    }
}

/// Kind and state of a link.
pub fn what(share: &Share) -> String {
    let mut kind = match share.kind {
        ShareKind::Team => "Team link".to_owned(),
        ShareKind::Capability => "Link without login".to_owned(),
    };
    if share.redaction == Redaction::Redacted {
        kind += ", ";
        kind += REDACTED;
    }
    let when = |ms: Option<i64>| format::date_time(UnixMillis(ms.unwrap_or_default()));
    match share.state {
        ShareState::Active => match share.expires_ms {
            Some(end) => format!("{kind}, until {}", when(Some(end))),
            None => format!("{kind}, without end"),
        },
        ShareState::Expired => format!("{kind}, expired {}", when(share.expires_ms)),
        ShareState::Revoked => {
            let by = share.revoked_by.as_deref().unwrap_or_default();
            let by = if by.is_empty() {
                String::new()
            } else {
                format!(" by {by}")
            };
            format!("{kind}, revoked {}{by}", when(share.revoked_ms))
        }
    }
}

/// Who made it, and when it was last opened.
pub fn history(share: &Share) -> String {
    let date = |ms: i64| format::date_time(UnixMillis(ms));
    let made = match share.created_by.as_str() {
        "" => format!("made {}", date(share.created_ms)),
        who => format!("made {} by {who}", date(share.created_ms)),
    };
    match share.last_opened_ms {
        Some(opened) => format!("{made} · last opened {}", date(opened)),
        None => format!("{made} · never opened"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_for_a_link_is_kept() {
        let typed = Draft {
            kind: ShareKind::Capability,
            life: 4,
            redacted: true,
            note: "for the review, 2 GiB ü\n".to_owned(),
        };
        for draft in [Draft::default(), typed] {
            assert_eq!(Draft::read(&draft.write()), Some(draft));
        }
        for strange in ["", "00", "002", "009 note", "00x note", "ü note"] {
            assert_eq!(Draft::read(strange), None, "{strange}");
        }
    }

    #[test]
    fn a_link_ends_unless_someone_wants_otherwise() {
        assert_eq!(LIVES[FIRST_LIFE].1, Some(30 * DAY_S));
        assert_eq!(LIVES.iter().filter(|life| life.1.is_none()).count(), 1);
    }
}
