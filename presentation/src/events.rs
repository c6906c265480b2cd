//! Server-sent events: what a tab learns from the server, or from the tab that listens for all.

use crate::json;
use api::progress::ServerEvent;
use std::time::Duration;

/// What a subscriber learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The server said something.
    Event(ServerEvent),
    /// The connection is there (again); earlier events were missed.
    Back,
    /// The connection is lost; it will be tried again.
    Lost,
}

/// What tabs send each other when the connection is there again, besides the unchanged events.
pub const BACK: &str = "back";

/// What they send when it is lost.
pub const LOST: &str = "lost";

/// What a word means that a tab has sent: one of these two, or an event as the server sent it.
pub fn notice_of(word: &str) -> Option<Notice> {
    match word {
        BACK => Some(Notice::Back),
        LOST => Some(Notice::Lost),
        data => parse(data).map(Notice::Event),
    }
}

/// The pause before attempt `n` (from 0): half a second, doubling, at most half a minute.
pub fn pause_before(attempt: u32) -> Duration {
    Duration::from_millis(500u64.saturating_mul(1 << attempt.min(10)).min(30_000))
}

/// Reads the `data` of one event. Kinds from a newer server are skipped, not errors.
fn parse(data: &str) -> Option<ServerEvent> {
    json::read(data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let pauses: Vec<u64> = (0..8).map(|n| pause_before(n).as_millis() as u64).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        assert_eq!(pause_before(u32::MAX), Duration::from_secs(30));
    }

    #[test]
    fn events_of_a_newer_server_are_skipped() {
        assert_eq!(
            parse(r#"{"kind":"runs_changed"}"#),
            Some(ServerEvent::RunsChanged)
        );
        assert_eq!(parse(r#"{"kind":"missed"}"#), Some(ServerEvent::Missed));
        assert_eq!(parse(r#"{"kind":"full_moon"}"#), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn tabs_tell_one_another_what_the_server_said_and_how_it_is() {
        let event = Notice::Event(ServerEvent::RunsChanged);
        assert_eq!(notice_of(r#"{"kind":"runs_changed"}"#), Some(event));
        assert_eq!(notice_of(BACK), Some(Notice::Back));
        assert_eq!(notice_of(LOST), Some(Notice::Lost));
        assert_eq!(notice_of("anything else"), None);
    }
}
