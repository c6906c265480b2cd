//! The limits for clients, each number in one place. SECURITY.md repeats them for people.

use super::Pace;
use super::quota::Quota;
use std::time::Duration;
use trace::units::Bytes;

/// A limit for one address, and one for all. For clients on this machine only the second holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Of one address.
    pub each: usize,
    /// Of all.
    pub all: usize,
}

impl Share {
    const fn new(each: usize, all: usize) -> Share {
        Share { each, all }
    }

    /// A quota with this limit.
    pub fn quota(self, what: &'static str, retry: Duration) -> Quota {
        Quota::new(what, self.each, self.all, retry)
    }
}

/// The limits for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Open connections.
    pub connections: Share,
    /// Streams of events; each holds a connection for as long as a page is open.
    pub event_streams: Share,
    /// Uploads whose bytes are arriving or being read.
    pub uploads: Share,
    /// Uploads that were announced and have not started.
    pub announcements: Share,
    /// How long an announcement may keep its place when another client needs one.
    pub announcement_patience: Duration,
    /// Exports under way.
    pub exports: Share,
    /// Cards that are being drawn or wait for that.
    pub cards: Share,
    /// Questions about a recording that are being answered or wait for that.
    pub questions: Share,
    /// The same, of readers with a link; these are counted apart.
    pub questions_of_links: Share,
    /// Waiting rows of benches, of all clients together.
    pub bench_rows: u32,
    /// The slowest pace allowed for an upload or a download.
    pub pace: Pace,
    /// An upload slower than this gives up the parser; its bytes are read when all have arrived.
    pub parse_pace: Pace,
    /// Any request that is not an upload must arrive completely within this time.
    pub body_within: Duration,
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            connections: Share::new(128, 1024),
            event_streams: Share::new(32, 256),
            uploads: Share::new(8, 32),
            announcements: Share::new(32, 256),
            announcement_patience: Duration::from_secs(10),
            exports: Share::new(2, 4),
            cards: Share::new(16, 64),
            questions: Share::new(32, 128),
            questions_of_links: Share::new(12, 48),
            bench_rows: 360,
            pace: Pace {
                rate: Bytes::kib(16),
                over: Duration::from_secs(30),
            },
            parse_pace: Pace {
                rate: Bytes::mib(1),
                over: Duration::from_secs(2),
            },
            body_within: Duration::from_secs(30),
        }
    }
}
