//! Geometry of the picture of reserved memory over a recording. Four parts are stacked over the
//! events, in a box of 1000 × 1000: memory in use, memory that was given back and that another
//! stream still uses, free memory between blocks, and free whole segments.

use super::areas::{SIDE, nice_above, walked};
use super::map_tab::told_apart;
use ::timeline::format;
use api::memory_map::RoomOverTime;
use std::sync::Arc;
use trace::units::{Bytes, EventIdx};

/// Stacked parts of what is reserved, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In use.
    Used,
    /// Given back, still used by another stream.
    Waiting,
    /// Free, between blocks in use.
    Split,
    /// Free in whole segments.
    Cached,
}

/// The picture, laid out.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    rooms: Arc<RoomOverTime>,
    last: EventIdx,
    /// The level at the upper edge.
    pub high: u64,
}

impl Room {
    /// Lays out an answer of at least two moments; `last` is the recording's last event.
    pub fn of(rooms: Arc<RoomOverTime>, last: EventIdx) -> Option<Room> {
        let highest = rooms.reserved.iter().map(|bytes| bytes.get()).max()?;
        (rooms.events.len() > 1).then(|| Room {
            high: nice_above(highest),
            rooms,
            last,
        })
    }

    /// The horizontal position of an event, from the left.
    pub fn x(&self, event: EventIdx) -> f64 {
        f64::from(event.0) / f64::from(self.last.0.max(1)) * SIDE
    }

    /// The vertical position of a level, from the top.
    pub fn y(&self, level: u64) -> f64 {
        SIDE - level as f64 / self.high.max(1) as f64 * SIDE
    }

    /// The levels below and above a part at a moment.
    fn edges(&self, part: Part, moment: usize) -> (u64, u64) {
        let of = |column: &[trace::units::Bytes]| column[moment].get();
        let used = of(&self.rooms.used);
        let own = used.saturating_sub(of(&self.rooms.waiting));
        let split = used + of(&self.rooms.split);
        match part {
            Part::Used => (0, own),
            Part::Waiting => (own, used),
            Part::Split => (used, split),
            Part::Cached => (split, split + of(&self.rooms.cached)),
        }
    }

    /// The outline of a part, as SVG path data.
    pub fn path(&self, part: Part) -> String {
        let moments = 0..self.rooms.events.len();
        let x = |moment: usize| self.x(self.rooms.events[moment]);
        let upper = moments
            .clone()
            .map(|m| (x(m), self.y(self.edges(part, m).1)));
        let lower = moments.rev().map(|m| (x(m), self.y(self.edges(part, m).0)));
        line(upper.chain(lower)) + "Z"
    }

    /// The largest free range, as SVG path data.
    pub fn largest_gap(&self) -> String {
        let gaps = self.rooms.events.iter().zip(&self.rooms.largest_gap);
        line(gaps.map(|(&event, gap)| (self.x(event), self.y(gap.get()))))
    }

    /// The moment nearest to a share of the width.
    pub fn moment(&self, x: f64) -> usize {
        let event = EventIdx((x.clamp(0.0, 1.0) * f64::from(self.last.0)).round() as u32);
        let events = &self.rooms.events;
        let after = events.partition_point(|at| *at < event);
        let before = after.saturating_sub(1);
        let away = |at: usize| events.get(at).map(|at| at.0.abs_diff(event.0));
        match away(after).is_some_and(|far| away(before).is_none_or(|near| far < near)) {
            true => after,
            false => before,
        }
    }

    /// The moment that a key leads to, from an event.
    pub fn moved(&self, from: EventIdx, key: &str) -> Option<usize> {
        let share = f64::from(from.0) / f64::from(self.last.0.max(1));
        walked(Some(self.moment(share)), self.rooms.events.len(), key)
    }

    /// The event of a moment.
    pub fn event(&self, moment: usize) -> EventIdx {
        self.rooms.events[moment]
    }

    /// Whether anything waits for another stream at one of the moments.
    pub fn waits(&self) -> bool {
        self.rooms.waiting.iter().any(|bytes| *bytes > Bytes::ZERO)
    }

    /// The text about a moment, after its event.
    pub fn words(&self, moment: usize) -> String {
        let rooms = &self.rooms;
        let in_use = told_apart(rooms.used[moment], rooms.waiting[moment]);
        let segments = format::plural(u64::from(rooms.segments[moment]), "segment");
        let kept = rooms.kept.get(moment).copied().unwrap_or_default();
        let by_pools = match kept {
            Bytes::ZERO => String::new(),
            kept => format!(" and {kept} in those that a private pool keeps"),
        };
        format!(
            "{} reserved in {segments}, {in_use}; free: {} between blocks, {} in whole \
             segments{by_pools}, largest gap {}",
            rooms.reserved[moment],
            rooms.split[moment].saturating_sub(kept),
            rooms.cached[moment],
            rooms.largest_gap[moment]
        )
    }
}

fn line(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.enumerate() {
        path += if i == 0 { "M" } else { "L" };
        path += &format!("{x:.1} {y:.1}");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Room {
        let bytes = |all: [u64; 3]| all.map(Bytes::mib).to_vec();
        let rooms = RoomOverTime {
            events: [0, 10, 100].map(EventIdx).to_vec(),
            reserved: bytes([64, 64, 128]),
            used: bytes([16, 32, 64]),
            waiting: bytes([0, 0, 16]),
            split: bytes([0, 32, 32]),
            kept: bytes([0, 0, 8]),
            cached: bytes([48, 0, 32]),
            largest_gap: bytes([48, 16, 32]),
            segments: vec![1, 1, 2],
        };
        Room::of(Arc::new(rooms), EventIdx(100)).unwrap()
    }

    #[test]
    fn parts_lie_on_one_another_up_to_what_is_reserved() {
        let mut room = room();
        assert_eq!(room.high, 150 << 20, "a round number");
        room.high = 128 << 20;
        let check = |part, expected: &str| assert_eq!(room.path(part), expected, "{part:?}");
        check(
            Part::Used,
            "M0.0 875.0L100.0 750.0L1000.0 625.0L1000.0 1000.0L100.0 1000.0L0.0 1000.0Z",
        );
        check(
            Part::Waiting,
            "M0.0 875.0L100.0 750.0L1000.0 500.0L1000.0 625.0L100.0 750.0L0.0 875.0Z",
        );
        check(
            Part::Split,
            "M0.0 875.0L100.0 500.0L1000.0 250.0L1000.0 500.0L100.0 750.0L0.0 875.0Z",
        );
        check(
            Part::Cached,
            "M0.0 500.0L100.0 500.0L1000.0 0.0L1000.0 250.0L100.0 500.0L0.0 875.0Z",
        );
        assert_eq!(room.largest_gap(), "M0.0 625.0L100.0 875.0L1000.0 750.0");
    }

    #[test]
    fn what_waits_for_another_stream_is_told_apart() {
        let room = room();
        assert!(room.waits());
        let check = |moment: usize, expected: &str| {
            let words = room.words(moment);
            assert!(words.contains(expected), "{words}");
        };
        check(1, "1 segment, 32.0 MiB in use; free");
        check(
            1,
            "free: 32.0 MiB between blocks, 0 B in whole segments, largest gap",
        );
        let kept = "free: 24.0 MiB between blocks, 32.0 MiB in whole segments and 8.00 MiB in \
                    those that a private pool keeps, largest gap";
        check(2, kept);
        check(
            2,
            "2 segments, 48.0 MiB in use, 16.0 MiB given back that another stream still uses; free",
        );
    }

    #[test]
    fn a_point_means_the_moment_next_to_it() {
        let room = room();
        let check = |x: f64, expected: usize| assert_eq!(room.moment(x), expected, "{x}");
        check(-1.0, 0);
        check(0.04, 0);
        check(0.06, 1);
        check(0.5, 1);
        check(0.56, 2);
        check(2.0, 2);
    }

    #[test]
    fn keys_lead_from_moment_to_moment() {
        let room = room();
        let check = |from: u32, key: &str, expected| {
            assert_eq!(room.moved(EventIdx(from), key), expected, "{from} {key}");
        };
        check(0, "ArrowRight", Some(1));
        check(90, "ArrowLeft", Some(1));
        check(100, "ArrowRight", Some(2));
        check(12, "End", Some(2));
        check(12, "Home", Some(0));
        check(12, "Enter", None);
    }

    #[test]
    fn one_moment_is_no_picture() {
        let one = RoomOverTime {
            events: vec![EventIdx(0)],
            reserved: vec![Bytes(1)],
            ..RoomOverTime::default()
        };
        assert_eq!(Room::of(Arc::new(one), EventIdx(0)), None);
        assert_eq!(Room::of(Arc::default(), EventIdx(9)), None);
    }
}
