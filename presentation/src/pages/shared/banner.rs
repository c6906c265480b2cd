//! The strip that tells with which kind of link the page was opened.

use crate::components::share::REDACTED;
use ::timeline::format::{self, UnixMillis};
use api::shares::{Redaction, Share, ShareKind};

/// What kind of link it is and until when it is valid, in one line.
pub fn sentence(share: &Share) -> String {
    let mut parts = vec![
        match share.kind {
            ShareKind::Team => "Team link".to_owned(),
            ShareKind::Capability => "Read-only link without login".to_owned(),
        },
        match share.expires_ms {
            Some(end) => format!("expires {}", format::date_time(UnixMillis(end))),
            None => "does not expire".to_owned(),
        },
    ];
    if share.redaction == Redaction::Redacted {
        parts.push(REDACTED.to_owned());
    }
    if !share.created_by.is_empty() {
        parts.push(format!("from {}", share.created_by));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::shares::{ShareState, ShareTarget};

    #[test]
    fn the_strip_says_kind_end_and_redaction() {
        let share = Share {
            id: "shr_a".parse().unwrap(),
            kind: ShareKind::Capability,
            target: ShareTarget::Run {
                run: "run_a".parse().unwrap(),
            },
            query: String::new(),
            redaction: Redaction::Redacted,
            note: String::new(),
            created_ms: 0,
            created_by: "Kim".to_owned(),
            expires_ms: Some(86_400_000),
            revoked_ms: None,
            revoked_by: None,
            last_opened_ms: None,
            state: ShareState::Active,
        };
        assert_eq!(
            sentence(&share),
            "Read-only link without login · expires 1970-01-02 00:00 UTC · names hidden · from Kim"
        );
    }
}
