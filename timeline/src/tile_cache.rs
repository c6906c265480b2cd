//! Which tiles a window needs, which are drawn in the meantime, and which are dropped.
//!
//! The wanted tile of a window is the finest one that covers it whole. Until it has arrived, the
//! window is put together from the tiles that are there: finer tiles as far as they reach, coarser
//! ones elsewhere. The tile of the whole trace lies under everything and is never dropped.

use super::order;
use std::collections::HashMap;
use std::rc::Rc;
use trace::tiles::TileId;

/// The state of a tile.
#[derive(Debug)]
enum State<T> {
    Requested,
    Ready(Rc<T>),
    /// Must not be requested again before the given time.
    Failed {
        retry_at_ms: f64,
    },
}

#[derive(Debug)]
struct Entry<T> {
    state: State<T>,
    cost: usize,
    /// Value of the clock when it was last drawn or arrived.
    used: u64,
}

/// Tiles by place, bounded by their cost in bytes.
#[derive(Debug)]
pub struct TileCache<T> {
    entries: HashMap<TileId, Entry<T>>,
    n_events: u64,
    max_cost: usize,
    clock: u64,
}

/// A part of the window and the tile to draw it from.
#[derive(Debug)]
pub struct Piece<T> {
    /// The tile.
    pub tile: Rc<T>,
    /// Its place.
    pub id: TileId,
    /// First event position of the part.
    pub from: f64,
    /// One past its last.
    pub to: f64,
}

/// The largest number of requests at the same time: the newest request should not wait behind old
/// ones.
const MAX_IN_FLIGHT: usize = 3;
/// How long to wait after a failed request.
const RETRY_AFTER_MS: f64 = 3000.0;

/// The finest tile that holds the window whole.
pub fn wanted(from: f64, to: f64, n_events: u64) -> TileId {
    let start = from.floor().max(0.0) as u64;
    let end = (to.ceil() as u64).clamp(start + 1, n_events.max(start + 1));
    TileId::covering(start, end)
}

/// The finest tile that holds the whole trace.
pub fn root(n_events: u64) -> TileId {
    TileId::covering(0, n_events.max(1))
}

impl<T> TileCache<T> {
    /// An empty cache for a device with that many events.
    pub fn new(n_events: u64, max_cost: usize) -> TileCache<T> {
        TileCache {
            entries: HashMap::new(),
            n_events,
            max_cost,
            clock: 0,
        }
    }

    /// The tile, when it is there.
    pub fn get(&self, id: TileId) -> Option<&Rc<T>> {
        match &self.entries.get(&id)?.state {
            State::Ready(tile) => Some(tile),
            State::Requested | State::Failed { .. } => None,
        }
    }

    /// Whether no tile has arrived.
    pub fn is_empty(&self) -> bool {
        let ready = |e: &Entry<T>| matches!(e.state, State::Ready(_));
        !self.entries.values().any(ready)
    }

    /// Tiles to ask for now, most urgent first; they count as requested from here on.
    pub fn take_requests(&mut self, from: f64, to: f64, now_ms: f64) -> Vec<TileId> {
        let in_flight = self.in_flight();
        let wishes = self.wishes(from, to);
        let mut requests = Vec::new();
        for (rank, id) in wishes.into_iter().enumerate() {
            // Prefetching waits until all tiles on screen are there.
            let urgent = rank < 2;
            let room = if urgent { MAX_IN_FLIGHT } else { 1 };
            if in_flight + requests.len() >= room || !self.may_ask(id, now_ms) {
                continue;
            }
            self.entries.insert(
                id,
                Entry {
                    state: State::Requested,
                    cost: 0,
                    used: self.clock,
                },
            );
            requests.push(id);
        }
        requests
    }

    /// Tiles that are requested and have not arrived.
    pub fn in_flight(&self) -> usize {
        let requested = |e: &&Entry<T>| matches!(e.state, State::Requested);
        self.entries.values().filter(requested).count()
    }

    /// Whether the window is drawn from a tile that is coarser than the wanted one.
    pub fn is_waiting(&self, from: f64, to: f64) -> bool {
        self.get(wanted(from, to, self.n_events)).is_none()
    }

    /// The tile of the whole trace, the wanted tile, then those that a person will probably look at
    /// next.
    fn wishes(&self, from: f64, to: f64) -> Vec<TileId> {
        let n = self.n_events as f64;
        let width = to - from;
        let here = wanted(from, to, self.n_events);
        let around = [
            (from - width / 2.0, to + width / 2.0),
            (from + width * 0.6, to + width * 0.6),
            (from - width * 0.6, to - width * 0.6),
        ];
        let mut wishes = vec![here, root(self.n_events)];
        if self.get(root(self.n_events)).is_none() {
            wishes.swap(0, 1);
        }
        for (from, to) in around {
            wishes.push(wanted(from.clamp(0.0, n), to.clamp(0.0, n), self.n_events));
        }
        wishes
    }

    fn may_ask(&self, id: TileId, now_ms: f64) -> bool {
        match self.entries.get(&id).map(|e| &e.state) {
            None => true,
            Some(State::Failed { retry_at_ms }) => now_ms >= *retry_at_ms,
            Some(State::Requested | State::Ready(_)) => false,
        }
    }

    /// A tile has arrived. `cost` is its memory in bytes.
    pub fn arrived(&mut self, id: TileId, tile: T, cost: usize) {
        self.clock += 1;
        let state = State::Ready(Rc::new(tile));
        let used = self.clock;
        self.entries.insert(id, Entry { state, cost, used });
        self.forget_oldest();
    }

    /// A tile could not be fetched.
    pub fn failed(&mut self, id: TileId, now_ms: f64) {
        let retry_at_ms = now_ms + RETRY_AFTER_MS;
        self.entries.insert(
            id,
            Entry {
                state: State::Failed { retry_at_ms },
                cost: 0,
                used: self.clock,
            },
        );
    }

    fn forget_oldest(&mut self) {
        let root = root(self.n_events);
        while self.entries.values().map(|e| e.cost).sum::<usize>() > self.max_cost {
            let oldest = self
                .entries
                .iter()
                .filter(|(id, e)| **id != root && e.cost > 0)
                .min_by_key(|(_, e)| e.used)
                .map(|(id, e)| (*id, e.used));
            match oldest {
                Some((id, used)) if used < self.clock => self.entries.remove(&id),
                // Either the newest tile alone is too large, or only the root is left: these are
                // kept.
                _ => return,
            };
        }
    }

    /// The window in pieces, left to right. If the wanted tile is there, only that one; otherwise
    /// coarser and finer ones. Empty if not even the root is there.
    pub fn picture(&mut self, from: f64, to: f64) -> Vec<Piece<T>> {
        self.clock += 1;
        let here = wanted(from, to, self.n_events);
        let mut ready: Vec<TileId> = self
            .entries
            .iter()
            .filter(|(_, e)| matches!(e.state, State::Ready(_)))
            .map(|(id, _)| *id)
            .collect();
        // Tiles of levels near the wanted one look most similar. Of two equally near levels, the
        // coarser has fewer seams.
        let distance = |id: &TileId| (id.level.abs_diff(here.level), id.level < here.level);
        order::sort_by_key(&mut ready, |id| (*id != here, distance(id), id.index));
        let mut pieces: Vec<Piece<T>> = Vec::new();
        let mut gaps = vec![(from, to)];
        for id in ready {
            let mut left = Vec::new();
            let (first, end) = (id.first_event() as f64, id.end_event() as f64);
            for (a, b) in gaps {
                let (from, to) = (a.max(first), b.min(end));
                if to <= from {
                    left.push((a, b));
                    continue;
                }
                if let Some(tile) = self.touch(id) {
                    pieces.push(Piece { tile, id, from, to });
                }
                left.extend([(a, from), (to, b)].into_iter().filter(|(x, y)| y > x));
            }
            gaps = left;
        }
        order::sort_by(&mut pieces, |a, b| a.from.total_cmp(&b.from));
        pieces
    }

    fn touch(&mut self, id: TileId) -> Option<Rc<T>> {
        let clock = self.clock;
        let entry = self.entries.get_mut(&id)?;
        entry.used = clock;
        match &entry.state {
            State::Ready(tile) => Some(Rc::clone(tile)),
            State::Requested | State::Failed { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u64 = 1 << 20;

    fn tile(level: u8, index: u32) -> TileId {
        TileId { level, index }
    }

    fn shown(cache: &mut TileCache<&'static str>, from: f64, to: f64) -> Vec<(TileId, f64, f64)> {
        let pieces = cache.picture(from, to);
        pieces.iter().map(|p| (p.id, p.from, p.to)).collect()
    }

    #[test]
    fn the_whole_comes_first_then_the_window_then_its_surroundings() {
        let mut cache: TileCache<&str> = TileCache::new(N, 1000);
        let first = cache.take_requests(5000.0, 5800.0, 0.0);
        assert_eq!(first, vec![root(N), tile(0, 4)]);
        assert_eq!(cache.take_requests(5000.0, 5800.0, 0.0), vec![]);
        cache.arrived(root(N), "root", 1);
        cache.arrived(tile(0, 4), "here", 1);
        let prefetched = cache.take_requests(5000.0, 5800.0, 0.0);
        assert_eq!(prefetched, vec![tile(1, 2)], "one at a time");
    }

    #[test]
    fn the_coarser_picture_stays_until_the_finer_one_is_there() {
        let mut cache = TileCache::new(N, 1000);
        assert_eq!(shown(&mut cache, 5000.0, 5800.0), vec![]);
        cache.arrived(root(N), "root", 1);
        assert_eq!(
            shown(&mut cache, 5000.0, 5800.0),
            vec![(root(N), 5000.0, 5800.0)]
        );
        cache.arrived(tile(0, 4), "here", 1);
        assert_eq!(
            shown(&mut cache, 5000.0, 5800.0),
            vec![(tile(0, 4), 5000.0, 5800.0)]
        );
    }

    #[test]
    fn a_window_that_outgrew_its_tile_is_pieced_together() {
        let mut cache = TileCache::new(N, 1000);
        cache.arrived(root(N), "root", 1);
        cache.arrived(tile(0, 4), "fine", 1);
        assert_eq!(
            shown(&mut cache, 3000.0, 7000.0),
            vec![
                (root(N), 3000.0, 4096.0),
                (tile(0, 4), 4096.0, 6144.0),
                (root(N), 6144.0, 7000.0)
            ]
        );
    }

    #[test]
    fn the_longest_unseen_tile_is_forgotten_and_the_root_never() {
        let mut cache = TileCache::new(N, 30);
        cache.arrived(root(N), "root", 10);
        cache.arrived(tile(0, 0), "a", 10);
        cache.arrived(tile(0, 9), "b", 10);
        shown(&mut cache, 100.0, 200.0);
        cache.arrived(tile(0, 20), "c", 10);
        assert!(cache.get(root(N)).is_some());
        assert!(cache.get(tile(0, 0)).is_some(), "drawn a moment ago");
        assert!(cache.get(tile(0, 9)).is_none());
    }

    #[test]
    fn what_failed_is_asked_for_again_after_a_while() {
        let mut cache: TileCache<&str> = TileCache::new(100, 30);
        assert_eq!(cache.take_requests(0.0, 100.0, 0.0), vec![tile(0, 0)]);
        cache.failed(tile(0, 0), 10.0);
        assert_eq!(cache.take_requests(0.0, 100.0, 20.0), vec![]);
        assert_eq!(cache.take_requests(0.0, 100.0, 5000.0), vec![tile(0, 0)]);
    }
}
