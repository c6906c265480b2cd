//! A race detector for streams and events: vector clocks over device memory.
//!
//! Two accesses to the same bytes conflict when one of them writes. They race when nothing orders
//! them: not the same stream, no event, no `wait_stream`, no host that waited for the one before
//! it enqueued the other. Memory is watched by address, not by tensor, because the damage of
//! #5694 happens after a block has changed hands (docs/offloader-rules.md, "Kinds of leaks").

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use smallvec::SmallVec;
use trace::units::DeviceAddr;

/// A stream known to the detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(pub u16);

/// Everything a stream, an event or the host is known to come after: one tick for each stream.
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

/// Place in the program that makes an access, interned by [`Detector::site`].
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

#[derive(Debug, Clone, Copy)]
struct Past {
    tick: u64,
    operation: u64,
    site: Site,
    lane: Lane,
}

/// The place of a cell among the others. The map holds these and not the cells: it is searched for
/// every access, and what is small is searched in few lines of the cache.
type Slot = u32;

/// What is known of one range: the last write, and the reads since.
#[derive(Debug, Clone, Default)]
struct Cell {
    start: DeviceAddr,
    end: DeviceAddr,
    write: Option<Past>,
    reads: SmallVec<[Past; 2]>,
}

/// Two unordered accesses to the same bytes, with both places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Race {
    /// The access that was enqueued first.
    pub earlier: Access,
    /// Where.
    pub earlier_site: String,
    /// The access that nothing orders after it.
    pub later: Access,
    /// Where.
    pub later_site: String,
    /// The bytes of the first occurrence.
    pub range: Range,
    /// How often this pair of places has raced.
    pub count: u64,
}

type Pair = (Access, Site, Access, Site);

/// For a few bits of an address, the place where a cell that begins there was last found.
#[derive(Debug)]
struct Guesses(Vec<Slot>);

impl Guesses {
    const BITS: u32 = 13;

    fn of(&mut self, address: DeviceAddr) -> &mut Slot {
        // An odd multiplier carries every bit of the address into the upper ones.
        let spread = address.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.0[(spread >> (64 - Guesses::BITS)) as usize]
    }
}

impl Default for Guesses {
    fn default() -> Guesses {
        Guesses(vec![0; 1 << Guesses::BITS])
    }
}

/// Cells by their first addresses, in order.
type Parts = SmallVec<[(DeviceAddr, Slot); 8]>;

/// A race found in a part of a range, and the operation whose bytes it may spoil.
type Found = (Pair, u64, Range);

/// Records synchronisation and accesses, reports races.
#[derive(Debug, Default)]
pub struct Detector {
    lanes: Vec<Clock>,
    host: Clock,
    /// Ranges by their first address; they never overlap.
    by_start: BTreeMap<DeviceAddr, Slot>,
    cells: Vec<Cell>,
    /// Places that hold no range.
    vacant: Vec<Slot>,
    /// Places where ranges that begin at some address were last found: a guess, to be checked.
    guesses: Guesses,
    sites: Vec<String>,
    site_ids: HashMap<String, Site>,
    races: Vec<(Pair, Race)>,
    operation: u64,
    /// Operations that may have read, or left, other bytes than the program means.
    spoilt: HashSet<u64>,
    /// Such operations of steps that were not computed.
    written_down: u64,
}

impl Detector {
    /// A detector that has seen nothing.
    pub fn new() -> Detector {
        Detector::default()
    }

    /// Adds a stream.
    pub fn add_lane(&mut self) -> Lane {
        let lane = Lane(u16::try_from(self.lanes.len()).expect("a run has few streams"));
        self.lanes.push(Clock::default());
        lane
    }

    /// Interns the name of a place.
    pub fn site(&mut self, name: &str) -> Site {
        if let Some(&site) = self.site_ids.get(name) {
            return site;
        }
        let site = Site(u32::try_from(self.sites.len()).expect("a program has few places"));
        self.sites.push(name.to_owned());
        self.site_ids.insert(name.to_owned(), site);
        site
    }

    /// The clock an event recorded now on `lane` carries.
    pub fn record_event(&self, lane: Lane) -> Clock {
        self.clock(lane).clone()
    }

    /// Later work on `lane` comes after the event.
    pub fn wait_event(&mut self, lane: Lane, event: &Clock) {
        self.lanes[usize::from(lane.0)].join(event);
    }

    /// Later work on `waiter` comes after all work enqueued so far on `on`.
    pub fn wait_lane(&mut self, waiter: Lane, on: Lane) {
        let clock = self.clock(on).clone();
        self.lanes[usize::from(waiter.0)].join(&clock);
    }

    /// The host has waited for all work on `lane`.
    pub fn host_waited(&mut self, lane: Lane) {
        let clock = self.clock(lane).clone();
        self.host.join(&clock);
    }

    /// The host has waited for all work on all streams.
    pub fn host_waited_for_all(&mut self) {
        for lane in &self.lanes {
            self.host.join(lane);
        }
    }

    /// The host has seen that an event is complete (a query, or the allocator's deferred free).
    pub fn host_saw(&mut self, event: &Clock) {
        self.host.join(event);
    }

    /// The next accesses belong to one kernel or copy.
    pub fn begin_operation(&mut self) {
        self.operation += 1;
    }

    /// Kernels and copies that may have worked on wrong bytes: they read what another one writes,
    /// before it or after it, and nothing says which. Of two unordered writes the first counts.
    pub fn spoilt(&self) -> u64 {
        self.spoilt.len() as u64 + self.written_down
    }

    /// A kernel or copy on `lane` touches `range`. One call is one tick of the stream.
    pub fn access(&mut self, lane: Lane, access: Access, range: Range, site: Site) {
        if range.start >= range.end {
            return;
        }
        // Enqueued by the host, so after everything the host has waited for.
        let host = std::mem::take(&mut self.host);
        let clock = &mut self.lanes[usize::from(lane.0)];
        clock.join(&host);
        self.host = host;
        let tick = clock.advance(lane);
        let now = Past {
            lane,
            tick,
            operation: self.operation,
            site,
        };
        let mut found = Vec::new();
        let clock = &self.lanes[usize::from(lane.0)];
        // Most accesses are to what was accessed before as a whole: nothing to cut or to join.
        let guess = *self.guesses.of(range.start);
        let is_range = |cell: &&mut Cell| (cell.start, cell.end) == (range.start, range.end);
        match self.cells.get_mut(guess as usize).filter(is_range) {
            Some(cell) => {
                cell.check(access, clock, range, now, &mut found);
                cell.update(access, clock, now);
            }
            None => {
                let slot = self.access_parts(access, range, now, &mut found);
                *self.guesses.of(range.start) = slot;
            }
        }
        for (pair, operation, part) in found {
            self.spoilt.insert(operation);
            self.report(pair, part);
        }
    }

    /// [`Detector::access`] to a range that perhaps no single cell stands for; the place of its
    /// first one.
    fn access_parts(
        &mut self,
        access: Access,
        range: Range,
        now: Past,
        found: &mut Vec<Found>,
    ) -> Slot {
        let mut parts = self.cut_out(range);
        if access == Access::Read {
            self.fill_gaps(range, &mut parts);
        }
        let clock = &self.lanes[usize::from(now.lane.0)];
        for &(start, slot) in &parts {
            let cell = &mut self.cells[slot as usize];
            let part = Range {
                start,
                end: cell.end,
            };
            cell.check(access, clock, part, now, found);
            if access == Access::Read {
                cell.update(access, clock, now);
            }
        }
        match access {
            Access::Read => parts.first().map_or(0, |&(_, slot)| slot),
            Access::Write => self.replace(range, &parts, now),
        }
    }

    /// The cells within a range, in order, none of which reaches out of it.
    fn cut_out(&mut self, range: Range) -> Parts {
        if let Some((_, &slot)) = self.by_start.range(..range.start).next_back() {
            self.cut(slot, range.start);
        }
        let parts = self.by_start.range(range.start..range.end);
        let parts: Parts = parts.map(|(&start, &slot)| (start, slot)).collect();
        if let Some(&(_, last)) = parts.last() {
            self.cut(last, range.end);
        }
        parts
    }
    /// All that decides which races later accesses are part of, as numbers: equal for two moments
    /// from which equal accesses find equal races. Ticks are compared, never counted with, so each
    /// is replaced by its rank among the ticks of its stream. `events` are those that may still be
    /// waited for.
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
        let mut operations = Vec::new();
        for past in self.ranges().flat_map(|(_, cell)| cell.pasts()) {
            ticks[usize::from(past.lane.0)].push(past.tick);
            operations.push(past.operation);
        }
        ticks.push(operations);
        for of_lane in &mut ticks {
            of_lane.sort_unstable();
            of_lane.dedup();
        }
        let rank = |lane: usize, tick: u64| ticks[lane].partition_point(|known| *known < tick);
        let operation = |past: &Past| {
            // Which operation it was counts once races are found: each is spoilt once.
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
        for (start, cell) in self.ranges() {
            let (written, reads) = (u64::from(cell.write.is_some()), cell.reads.len() as u64);
            standing.extend([start.0, cell.end.0, written, reads]);
            for past in cell.pasts() {
                let lane = usize::from(past.lane.0);
                let place = u64::from(past.site.0);
                let tick = rank(lane, past.tick) as u64;
                standing.extend([lane as u64, tick, place, operation(past)]);
            }
        }
        standing
    }

    /// Counts operations that are spoilt and that no access shows: those of steps that are written
    /// down, and tensors that came back as others.
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

    /// Ends a cell before an address; what lies behind becomes another.
    fn cut(&mut self, slot: Slot, address: DeviceAddr) {
        let cell = &mut self.cells[slot as usize];
        if cell.end > address {
            let tail = Cell {
                start: address,
                ..cell.clone()
            };
            cell.end = address;
            self.insert(tail);
        }
    }

    fn insert(&mut self, cell: Cell) -> Slot {
        let start = cell.start;
        let slot = self.vacant.pop().unwrap_or(self.cells.len() as Slot);
        match self.cells.get_mut(slot as usize) {
            Some(vacant) => *vacant = cell,
            None => self.cells.push(cell),
        }
        self.by_start.insert(start, slot);
        slot
    }

    /// Cells for what nothing has touched yet.
    fn fill_gaps(&mut self, range: Range, parts: &mut Parts) {
        let mut at = range.start;
        let mut filled = Parts::new();
        let end = (range.end, None);
        let known = std::mem::take(parts).into_iter();
        for (start, slot) in known.map(|(start, slot)| (start, Some(slot))).chain([end]) {
            if at < start {
                let gap = Cell {
                    start: at,
                    end: start,
                    ..Cell::default()
                };
                filled.push((at, self.insert(gap)));
            }
            if let Some(slot) = slot {
                filled.push((start, slot));
                at = self.cells[slot as usize].end;
            }
        }
        *parts = filled;
    }

    /// A write leaves one state over the whole range, so one cell is enough for it.
    fn replace(&mut self, range: Range, parts: &Parts, now: Past) -> Slot {
        for &(start, slot) in parts {
            self.by_start.remove(&start);
            self.cells[slot as usize] = Cell::default();
            self.vacant.push(slot);
        }
        let written = Cell {
            start: range.start,
            end: range.end,
            write: Some(now),
            reads: SmallVec::new(),
        };
        self.insert(written)
    }

    /// The ranges that have been touched, in order.
    fn ranges(&self) -> impl Iterator<Item = (DeviceAddr, &Cell)> {
        let cell = |(&start, &slot): (&DeviceAddr, &Slot)| (start, &self.cells[slot as usize]);
        self.by_start.iter().map(cell)
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

impl Cell {
    fn pasts(&self) -> impl Iterator<Item = &Past> {
        self.write.iter().chain(&self.reads)
    }

    fn check(&self, access: Access, clock: &Clock, part: Range, now: Past, found: &mut Vec<Found>) {
        let unordered = |past: &&Past| clock.tick_of(past.lane) < past.tick;
        if let Some(write) = self.write.as_ref().filter(unordered) {
            let pair = (Access::Write, write.site, access, now.site);
            let spoilt = match access {
                Access::Read => now.operation,
                Access::Write => write.operation,
            };
            found.push((pair, spoilt, part));
        }
        if access == Access::Write {
            for read in self.reads.iter().filter(unordered) {
                let pair = (Access::Read, read.site, access, now.site);
                found.push((pair, read.operation, part));
            }
        }
    }

    fn update(&mut self, access: Access, clock: &Clock, now: Past) {
        match access {
            Access::Write => {
                self.write = Some(now);
                self.reads.clear();
            }
            Access::Read => {
                // A read that this one comes after can no longer race with what comes later
                // unless this one does too.
                self.reads
                    .retain(|read| clock.tick_of(read.lane) < read.tick);
                self.reads.push(now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
