//! What clients may take, each number in one place. SECURITY.md repeats them for people.

use super::Pace;
use super::quota::Quota;
use std::time::Duration;
use trace::units::Bytes;

/// So many of one address, and of all. Clients on this machine may have all of them.
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

    /// Places of this number.
    pub fn quota(self, what: &'static str, retry: Duration) -> Quota {
        Quota::new(what, self.each, self.all, retry)
    }
}

/// What clients may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Open connections.
    pub connections: Share,
    /// Streams of events; each holds a connection for as long as a page is open.
    pub event_streams: Share,
    /// Uploads whose bytes are on their way or being read.
    pub uploads: Share,
    /// Uploads that were announced and have not begun.
    pub announcements: Share,
    /// How long an announcement keeps a place that another one wants.
    pub announcement_patience: Duration,
    /// Exports under way.
    pub exports: Share,
    /// Cards being drawn or waiting for it.
    pub cards: Share,
    /// Rows of benches that wait, of everybody.
    pub bench_rows: u32,
    /// The least that an upload must bring and a download must take.
    pub pace: Pace,
    /// An upload that is slower gives the parser to others; its bytes are read when all are there.
    pub parse_pace: Pace,
    /// A request that is not an upload must arrive whole in this time.
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
