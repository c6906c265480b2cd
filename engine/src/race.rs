//! A race detector for streams and events: vector clocks over device memory.
//!
//! Two accesses to the same bytes conflict if one of them writes. They race if nothing orders them:
//! they are on different streams, no event and no `wait_stream` is between them, and the host did
//! not wait for the first one before it enqueued the second. The detector works with addresses and
//! not with tensors, because the damage of #5694 happens when a block already belongs to another
//! tensor (docs/offloader-rules.md, "Kinds of leaks").

mod log;

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use smallvec::SmallVec;
use trace::units::DeviceAddr;

use log::{Log, Past, Shortest};

/// A stream known to the detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(pub u16);

/// Everything that a stream, an event or the host is known to come after: one tick for each stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clock(SmallVec<[u64; 4]>);

impl Clock {
    fn tick_of(&self, lane: Lane) -> u64 {
        self.0.get(usize::from(lane.0)).copied().unwrap_or(0)
    }

    fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    fn advance(&mut self, lane: Lane) -> u64 {
        let index = usize::from(lane.0);
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] += 1;
        self.0[index]
    }
}

/// Whether an access changes the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
}

/// A place in the program that makes an access; [`Detector::site`] gives it a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site(u32);

/// Bytes `start..end` of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Range {
    /// First address.
    pub start: DeviceAddr,
    /// Address after the last.
    pub end: DeviceAddr,
}

/// Two accesses to the same bytes that nothing orders, with both places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Race {
    /// The access that was enqueued first.
    pub earlier: Access,
    /// The place of the earlier access.
    pub earlier_site: String,
    /// The access that nothing orders after it.
    pub later: Access,
    /// The place of the later access.
    pub later_site: String,
    /// The bytes of the first occurrence.
    pub range: Range,
    /// How often this pair of places has raced.
    pub count: u64,
}

type Pair = (Access, Site, Access, Site);

/// A race found in a part of a range, and the operation that may have wrong bytes because of it.
type Found = (Pair, u64, Range);

/// Records synchronisation and accesses, and reports races.
#[derive(Debug, Default)]
pub struct Detector {
    lanes: Vec<Clock>,
    host: Clock,
    /// The accesses of each stream, except those that all other streams are known to come after.
    logs: Vec<Log>,
    /// How often a clock has learned of another stream's work. While this number stays the same,
    /// the work that all streams come after stays the same too, because work only moves the clock
    /// of its own stream.
    orders: u64,
    /// The value of `orders` when each stream last took over what the host knows.
    joined: Vec<u64>,
    /// The value of `orders` when each log last forgot what all other streams come after.
    forgotten: Vec<u64>,
    sites: Vec<String>,
    site_ids: HashMap<String, Site>,
    races: Vec<(Pair, Race)>,
    operation: u64,
    /// Operations that may have read or left wrong bytes.
    spoilt: HashSet<u64>,
    /// Such operations in steps that were not computed.
    written_down: u64,
    /// The length from which on logs are tidied up.
    tidied_from: Shortest,
}

impl Detector {
    /// A detector that has seen nothing.
    pub fn new() -> Detector {
        Detector::default()
    }

    /// Adds a stream. This must happen before the first access, because the detector forgets what
    /// all streams come after.
    pub fn add_lane(&mut self) -> Lane {
        let lane = Lane(u16::try_from(self.lanes.len()).expect("a run has few streams"));
        self.lanes.push(Clock::default());
        self.logs.push(Log::tidied_from(self.tidied_from));
        self.joined.push(0);
        self.forgotten.push(0);
        lane
    }

    /// The number of a place with this name; gives a new number if the name is new.
    pub fn site(&mut self, name: &str) -> Site {
        if let Some(&site) = self.site_ids.get(name) {
            return site;
        }
        let site = Site(u32::try_from(self.sites.len()).expect("a program has few places"));
        self.sites.push(name.to_owned());
        self.site_ids.insert(name.to_owned(), site);
        site
    }

    /// The clock of an event that is recorded on `lane` now.
    pub fn record_event(&self, lane: Lane) -> Clock {
        self.clock(lane).clone()
    }

    /// Later work on `lane` comes after the event.
    pub fn wait_event(&mut self, lane: Lane, event: &Clock) {
        self.orders += 1;
        self.lanes[usize::from(lane.0)].join(event);
    }

    /// Later work on `waiter` comes after all work enqueued so far on `on`.
    pub fn wait_lane(&mut self, waiter: Lane, on: Lane) {
        self.orders += 1;
        let clock = self.clock(on).clone();
        self.lanes[usize::from(waiter.0)].join(&clock);
    }

    /// The host has waited for all work on `lane`.
    pub fn host_waited(&mut self, lane: Lane) {
        self.orders += 1;
        let clock = self.clock(lane).clone();
        self.host.join(&clock);
    }

    /// The host has waited for all work on all streams.
    pub fn host_waited_for_all(&mut self) {
        self.orders += 1;
        for lane in &self.lanes {
            self.host.join(lane);
        }
    }

    /// The host has seen that an event is complete (a query, or the allocator's deferred free).
    pub fn host_saw(&mut self, event: &Clock) {
        self.orders += 1;
        self.host.join(event);
    }

    /// The next accesses belong to one kernel or copy.
    pub fn begin_operation(&mut self) {
        self.operation += 1;
    }

    /// The number of kernels and copies that may have used wrong bytes: they read what another
    /// operation writes, before or after it, and nothing says which. If two writes have no order,
    /// the first one counts.
    pub fn spoilt(&self) -> u64 {
        self.spoilt.len() as u64 + self.written_down
    }

    /// A kernel or copy on `lane` touches `range`. One call is one tick of the stream.
    pub fn access(&mut self, lane: Lane, access: Access, range: Range, site: Site) {
        if range.start >= range.end {
            return;
        }
        let of = usize::from(lane.0);
        let clock = &mut self.lanes[of];
        // The host enqueues this access, so it comes after everything that the host has waited for.
        if self.joined[of] != self.orders {
            clock.join(&self.host);
            self.joined[of] = self.orders;
        }
        let now = Past {
            range,
            access,
            tick: clock.advance(lane),
            operation: self.operation,
            site,
        };
        for other in (0..self.logs.len()).filter(|other| *other != of) {
            if !self.logs[other].is_empty() {
                self.meet(other, lane, &now);
            }
        }
        // If there is only one stream, nothing can race with it.
        if self.lanes.len() > 1 && self.logs[of].push(now) {
            let known_by_all = self.known_by_all(of);
            self.logs[of].tidy(known_by_all);
        }
    }

    /// Compares an access on `lane` with what another stream has done.
    fn meet(&mut self, other: usize, lane: Lane, now: &Past) {
        if self.forgotten[other] != self.orders {
            let known_by_all = self.known_by_all(other);
            self.logs[other].forget(known_by_all);
            self.forgotten[other] = self.orders;
        }
        let known = self.clock(lane).tick_of(Lane(other as u16));
        let mut found = Vec::new();
        self.logs[other].meet(now, known, &mut found);
        for (pair, operation, part) in found {
            self.spoilt.insert(operation);
            self.report(pair, part);
        }
    }

    /// The last tick of a stream that all other streams come after in any case, because the host
    /// has to enqueue their work.
    fn known_by_all(&self, of: usize) -> u64 {
        let of_lane = Lane(of as u16);
        let others = self.lanes.iter().enumerate().filter(|(at, _)| *at != of);
        let known = others.map(|(_, clock)| clock.tick_of(of_lane)).min();
        known.unwrap_or(u64::MAX).max(self.host.tick_of(of_lane))
    }

    /// Everything that decides which races later accesses are part of, as numbers. If two moments
    /// have equal numbers, equal accesses find equal races after them. Ticks are only compared, so
    /// each is replaced by its rank among the ticks of its stream. `events` are the ones that a
    /// stream may still wait for.
    pub(crate) fn standing(&self, events: &[Option<&Clock>]) -> Vec<u64> {
        let clocks = || {
            let events = events.iter().copied().flatten();
            self.lanes.iter().chain([&self.host]).chain(events)
        };
        let mut ticks: Vec<Vec<u64>> = (0..self.lanes.len())
            .map(|lane| {
                let lane = Lane(lane as u16);
                let known = clocks().map(|clock| clock.tick_of(lane));
                known.chain([0]).collect()
            })
            .collect();
        let standing_of = |of: usize| self.logs[of].standing(self.known_by_all(of));
        let logs: Vec<Vec<Past>> = (0..self.logs.len()).map(standing_of).collect();
        let mut operations = Vec::new();
        for (lane, log) in logs.iter().enumerate() {
            ticks[lane].extend(log.iter().map(|past| past.tick));
            operations.extend(log.iter().map(|past| past.operation));
        }
        ticks.push(operations);
        for of_lane in &mut ticks {
            of_lane.sort_unstable();
            of_lane.dedup();
        }
        let rank = |lane: usize, tick: u64| ticks[lane].partition_point(|known| *known < tick);
        let operation = |past: &Past| {
            // It matters which operation it was, because each operation is counted only once.
            let spoilt = self.spoilt.contains(&past.operation);
            2 * rank(self.lanes.len(), past.operation) as u64 + u64::from(spoilt)
        };
        let pairs = self.races.len() as u64;
        let mut standing = vec![self.lanes.len() as u64, events.len() as u64, pairs];
        standing.extend(events.iter().map(|event| u64::from(event.is_some())));
        for clock in clocks() {
            let of_lane = |lane: usize| rank(lane, clock.tick_of(Lane(lane as u16))) as u64;
            standing.extend((0..self.lanes.len()).map(of_lane));
        }
        for (lane, log) in logs.iter().enumerate() {
            standing.push(log.len() as u64);
            for past in log {
                let Range { start, end } = past.range;
                let (place, writes) = (u64::from(past.site.0), past.access == Access::Write);
                let tick = rank(lane, past.tick) as u64;
                standing.extend([
                    start.0,
                    end.0,
                    u64::from(writes),
                    tick,
                    place,
                    operation(past),
                ]);
            }
        }
        standing
    }

    /// Counts operations with wrong bytes that no access shows: those of steps that are written
    /// down, and tensors that came back with other contents.
    pub(crate) fn add_spoilt(&mut self, more: u64) {
        self.written_down += more;
    }

    /// Races found so far, one for each pair of places.
    pub fn races(&self) -> impl Iterator<Item = &Race> {
        self.races.iter().map(|(_, race)| race)
    }

    fn clock(&self, lane: Lane) -> &Clock {
        &self.lanes[usize::from(lane.0)]
    }

    fn report(&mut self, pair: Pair, range: Range) {
        if let Some((_, race)) = self.races.iter_mut().find(|(known, _)| *known == pair) {
            race.count += 1;
            return;
        }
        let (earlier, earlier_site, later, later_site) = pair;
        let name = |site: Site| self.sites[site.0 as usize].clone();
        let race = Race {
            earlier,
            earlier_site: name(earlier_site),
            later,
            later_site: name(later_site),
            range,
            count: 1,
        };
        self.races.push((pair, race));
    }
}

#[cfg(test)]
mod tests;
