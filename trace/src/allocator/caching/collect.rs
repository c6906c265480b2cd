//! `garbage_collection_threshold`: cached segments that go back before a request asks for more.
//!
//! Source: `garbage_collect_cached_blocks` of `c10/cuda/CUDACachingAllocator.cpp`. A recording
//! under such a setting also shows where the threshold lies. What was collected was collected above
//! it, and as much as it took to get below. Where nothing was collected that could have been, it
//! was not reached.

use super::{Arena, Caching, Slot};
use crate::trace::{PoolId, PoolSize};
use std::collections::HashSet;

/// The pool whose cached segments are collected.
pub(super) const COLLECTED: (PoolId, PoolSize) = (PoolId(0, 0), PoolSize::Large);

/// Where a threshold lies, bytes of reserved memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// It is this high, or higher.
    pub at_least: u64,
    /// It is lower than this.
    pub below: u64,
}

/// What a recording tells while it is replayed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Learnt {
    pub threshold: Threshold,
    /// No request that reserves this much, or less, was refused.
    pub granted: u64,
}

/// The segments that may be collected, and how many unused ones count for their average age.
struct Cached {
    segments: Vec<Slot>,
    left: u64,
    age: u64,
}

impl Caching {
    /// Above the threshold, gives back cached segments of the large pool, until enough was given
    /// back. `more` is the segment that is wanted.
    pub(super) fn collect(&mut self, more: u64) {
        let Some(threshold) = self.collects() else {
            return;
        };
        if self.collect_as_recorded(more) || self.reserved <= threshold {
            return;
        }
        let target = self.reserved - threshold;
        let mut cached = self.cached();
        let mut reclaimed = 0;
        while reclaimed < target {
            let old = cached.take_old(&self.arena);
            if old.is_empty() {
                return;
            }
            reclaimed += self.release_all(old);
        }
    }

    /// Collects what the recording collected, and learns from that. Returns whether the recording
    /// tells what it was.
    fn collect_as_recorded(&mut self, more: u64) -> bool {
        let Some(mut learnt) = self.learnt else {
            return false;
        };
        let before = self.reserved;
        let Some(mut gone) = self.driver.given_back_next() else {
            return false;
        };
        let mut cached = self.cached();
        let (mut reclaimed, mut last) = (0, None);
        let mut old = cached.take_old(&self.arena);
        let is_gone = |gone: &HashSet<u64>, allocator: &Caching, old: &[Slot]| {
            let mut addrs = old.iter().map(|&slot| allocator.arena.addr(slot));
            !old.is_empty() && addrs.all(|addr| gone.contains(&addr))
        };
        while is_gone(&gone, self, &old) {
            for &slot in &old {
                gone.remove(&self.arena.addr(slot));
            }
            last = Some(reclaimed);
            reclaimed += self.release_all(old);
            old = cached.take_old(&self.arena);
        }
        // A request that was refused empties the cache, too; under `max_split_size_mb`, it gives
        // back a few large segments first. So what went back was only collected if something was
        // left without that option, or if the request was not refused before.
        let is_all = gone.is_empty();
        let is_left = !old.is_empty();
        let may_be_few = self.arena.config().max_split_size.is_some();
        let was_granted = before.saturating_add(more) <= learnt.granted;
        if is_all && (was_granted || is_left && !may_be_few) {
            let threshold = &mut learnt.threshold;
            if let Some(last) = last {
                threshold.below = threshold.below.min(before - last);
            }
            if is_left {
                threshold.at_least = threshold.at_least.max(before - reclaimed);
            }
            self.learnt = Some(learnt);
        }
        true
    }

    fn cached(&self) -> Cached {
        let mut segments = self.whole_and_free(COLLECTED.0, COLLECTED.1);
        let left = segments.len() as u64;
        let age = segments.iter().map(|&slot| self.arena.age(slot)).sum();
        segments.retain(|&slot| !self.arena.is_expandable(slot));
        Cached {
            segments,
            left,
            age,
        }
    }

    fn release_all(&mut self, slots: Vec<Slot>) -> u64 {
        slots.into_iter().map(|slot| self.release(slot)).sum()
    }
}

impl Cached {
    /// Takes out what was unused for at least the average of all of them.
    fn take_old(&mut self, arena: &Arena) -> Vec<Slot> {
        let average = self.age as f64 / self.left as f64;
        let is_old = |slot: &Slot| arena.age(*slot) as f64 >= average;
        let all = std::mem::take(&mut self.segments);
        let (old, young): (Vec<Slot>, Vec<Slot>) = all.into_iter().partition(is_old);
        self.segments = young;
        self.left -= old.len() as u64;
        self.age -= old.iter().map(|&slot| arena.age(slot)).sum::<u64>();
        old
    }
}
