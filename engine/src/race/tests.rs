//! Tests the detector with cases made by hand, and against a model of single bytes.

use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

const A: Range = Range {
    start: DeviceAddr(0x1000),
    end: DeviceAddr(0x2000),
};

fn two_lanes() -> (Detector, Lane, Lane) {
    let mut detector = Detector::new();
    let (first, second) = (detector.add_lane(), detector.add_lane());
    (detector, first, second)
}

fn touch(detector: &mut Detector, lane: Lane, access: Access, range: Range, name: &str) {
    let site = detector.site(name);
    detector.access(lane, access, range, site);
}

fn pairs(detector: &Detector) -> Vec<(String, String)> {
    detector
        .races()
        .map(|race| (race.earlier_site.clone(), race.later_site.clone()))
        .collect()
}

#[test]
fn one_stream_never_races_with_itself() {
    let (mut detector, s0, _) = two_lanes();
    touch(&mut detector, s0, Access::Write, A, "w");
    touch(&mut detector, s0, Access::Read, A, "r");
    touch(&mut detector, s0, Access::Write, A, "w2");
    assert_eq!(pairs(&detector), []);
}

#[test]
fn an_unordered_read_and_write_are_reported_with_both_places() {
    let (mut detector, s0, s1) = two_lanes();
    touch(&mut detector, s1, Access::Write, A, "copy");
    touch(&mut detector, s0, Access::Read, A, "kernel");
    assert_eq!(pairs(&detector), [("copy".into(), "kernel".into())]);
    touch(&mut detector, s0, Access::Read, A, "kernel");
    assert_eq!(detector.races().next().unwrap().count, 2);
}

/// A kernel reads a copy too early, and the next copy may overwrite what it reads. The kernel has
/// used wrong bytes, but this counts only once.
#[test]
fn an_operation_that_races_twice_counts_once() {
    let (mut detector, s0, s1) = two_lanes();
    for round in 1..=3 {
        detector.begin_operation();
        touch(&mut detector, s1, Access::Write, A, "copy");
        detector.begin_operation();
        touch(&mut detector, s0, Access::Read, A, "kernel");
        assert_eq!(detector.spoilt(), round);
    }
    assert_eq!(detector.races().count(), 2);
}

#[test]
fn two_reads_do_not_conflict() {
    let (mut detector, s0, s1) = two_lanes();
    touch(&mut detector, s1, Access::Read, A, "copy");
    touch(&mut detector, s0, Access::Read, A, "kernel");
    assert_eq!(pairs(&detector), []);
}

#[test]
fn an_event_orders_what_came_before_it_and_nothing_after() {
    let (mut detector, s0, s1) = two_lanes();
    touch(&mut detector, s1, Access::Write, A, "before");
    let event = detector.record_event(s1);
    let other = Range {
        start: DeviceAddr(0x3000),
        end: DeviceAddr(0x4000),
    };
    touch(&mut detector, s1, Access::Write, other, "after");
    detector.wait_event(s0, &event);
    touch(&mut detector, s0, Access::Read, A, "kernel");
    touch(&mut detector, s0, Access::Read, other, "kernel");
    assert_eq!(pairs(&detector), [("after".into(), "kernel".into())]);
}

#[test]
fn order_is_transitive_over_streams_and_host() {
    let (mut detector, s0, s1) = two_lanes();
    let s2 = detector.add_lane();
    touch(&mut detector, s0, Access::Write, A, "w");
    detector.wait_lane(s1, s0);
    touch(&mut detector, s1, Access::Read, A, "r1");
    detector.wait_lane(s2, s1);
    touch(&mut detector, s2, Access::Write, A, "w2");
    detector.host_waited(s2);
    touch(&mut detector, s0, Access::Write, A, "w3");
    assert_eq!(pairs(&detector), []);
}

/// A stream takes over what the host knows each time that the host has learned more.
#[test]
fn what_the_host_learns_counts_every_time() {
    let check = |waits_again: bool, expected: usize| {
        let (mut detector, main, side) = two_lanes();
        touch(&mut detector, side, Access::Write, A, "first write");
        detector.host_waited(side);
        touch(&mut detector, main, Access::Read, A, "read");
        touch(&mut detector, main, Access::Read, A, "read");
        detector.wait_lane(side, main);
        touch(&mut detector, side, Access::Write, A, "second write");
        if waits_again {
            detector.host_waited(side);
        }
        touch(&mut detector, main, Access::Read, A, "read");
        assert_eq!(detector.races().count(), expected);
    };
    check(true, 0);
    check(false, 1);
}

#[test]
fn overlap_is_by_bytes() {
    let (mut detector, s0, s1) = two_lanes();
    touch(&mut detector, s0, Access::Write, A, "whole");
    let tail = Range {
        start: DeviceAddr(0x1fff),
        end: DeviceAddr(0x2800),
    };
    touch(&mut detector, s1, Access::Write, tail, "tail");
    assert_eq!(pairs(&detector), [("whole".into(), "tail".into())]);
    let beside = Range {
        start: DeviceAddr(0x2800),
        end: DeviceAddr(0x2900),
    };
    touch(&mut detector, s0, Access::Write, beside, "beside");
    assert_eq!(pairs(&detector).len(), 1);
}

#[test]
fn a_later_write_hides_an_ordered_reader_but_not_an_unordered_one() {
    let (mut detector, s0, s1) = two_lanes();
    touch(&mut detector, s0, Access::Write, A, "w");
    detector.wait_lane(s1, s0);
    touch(&mut detector, s1, Access::Read, A, "copy out");
    touch(&mut detector, s0, Access::Read, A, "kernel");
    touch(&mut detector, s0, Access::Write, A, "reuse");
    assert_eq!(pairs(&detector), [("copy out".into(), "reuse".into())]);
}

/// An access to a byte.
#[derive(Clone, Copy)]
struct Was {
    lane: Lane,
    tick: u64,
    operation: u64,
    site: Site,
}

/// What the detector knows, byte by byte.
#[derive(Default)]
struct Model {
    bytes: BTreeMap<u64, (Option<Was>, Vec<Was>)>,
    pairs: Vec<Pair>,
    spoilt: HashSet<u64>,
}

impl Model {
    fn access(&mut self, access: Access, range: Range, now: Was, clock: &Clock) {
        let unordered = |past: &Was| clock.tick_of(past.lane) < past.tick;
        for byte in range.start.0..range.end.0 {
            let (write, reads) = self.bytes.entry(byte).or_default();
            if let Some(write) = write.filter(unordered) {
                self.pairs
                    .push((Access::Write, write.site, access, now.site));
                self.spoilt.insert(match access {
                    Access::Read => now.operation,
                    Access::Write => write.operation,
                });
            }
            if access == Access::Read {
                // If this read comes after an earlier one, whatever races with the earlier one
                // races with this one too.
                reads.retain(unordered);
                reads.push(now);
                continue;
            }
            for read in reads.drain(..).filter(|read| unordered(read)) {
                self.pairs.push((Access::Read, read.site, access, now.site));
                self.spoilt.insert(read.operation);
            }
            *write = Some(now);
        }
    }
}

/// Each operation is an access, or one stream waits for another.
fn operations() -> impl Strategy<Value = Vec<(u16, bool, u64, u64, bool)>> {
    let lane = 0..3_u16;
    proptest::collection::vec(
        (lane, any::<bool>(), 0..24_u64, 1..12_u64, any::<bool>()),
        1..120,
    )
}

proptest! {
    /// Logs hide, forget and tidy up; they still find the same races as the model of single bytes.
    #[test]
    fn logs_say_what_bytes_would(operations in operations()) {
        let mut detector = Detector {
            tidied_from: Shortest(16),
            ..Detector::new()
        };
        let lanes = [detector.add_lane(), detector.add_lane(), detector.add_lane()];
        let mut model = Model::default();
        for (lane, writes, start, length, waits) in operations {
            let lane = lanes[usize::from(lane)];
            if waits {
                detector.wait_lane(lane, lanes[(start % 3) as usize]);
            } else if start == 23 {
                detector.host_waited(lane);
            }
            let access = if writes { Access::Write } else { Access::Read };
            let range = Range {
                start: DeviceAddr(start),
                end: DeviceAddr(start + length),
            };
            let site = detector.site(&format!("{}{}", lane.0, start % 2));
            detector.begin_operation();
            detector.access(lane, access, range, site);
            let clock = detector.clock(lane).clone();
            let (tick, operation) = (clock.tick_of(lane), detector.operation);
            let now = Was { lane, tick, operation, site };
            model.access(access, range, now, &clock);
        }
        let found: HashSet<Pair> = detector.races.iter().map(|(pair, _)| *pair).collect();
        prop_assert_eq!(found, model.pairs.into_iter().collect::<HashSet<Pair>>());
        prop_assert_eq!(detector.spoilt, model.spoilt);
    }
}
