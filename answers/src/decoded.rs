//! A trace in memory, with what is made from it once and used by many answers.

use crate::texts::OwnNames;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trace::categories::{self, Categories};
use trace::device::DeviceIdx;
use trace::intervals::LiveIndex;
use trace::naming::Rules;
use trace::oom;
use trace::steps::choices;
use trace::tiles::{GroupBy, MountainIndex};
use trace::trace::{DeviceTrace, Trace};
use trace::units::Bytes;

/// A recording has no device with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no device {0}")]
pub struct NoDevice(pub DeviceIdx);

/// Something that is held as long as a trace is in memory: the permit for that memory.
pub trait Held: Send {
    /// Gives back everything beyond this many bytes.
    fn shrink(&mut self, bytes: Bytes);
}

/// Nothing is held where nobody counts memory.
impl Held for () {
    fn shrink(&mut self, _: Bytes) {}
}

/// A trace in memory, with the indexes for its mountains.
pub struct Decoded {
    /// The trace.
    pub trace: Trace,
    indexes: Mutex<HashMap<(DeviceIdx, GroupBy), Arc<MountainIndex>>>,
    live: Mutex<HashMap<DeviceIdx, Arc<LiveIndex>>>,
    categories: Mutex<HashMap<DeviceIdx, Arc<Categories>>>,
    /// The most memory that all of this takes.
    weight: Bytes,
    /// The permit for this memory, and for more while the trace is being stored.
    permit: Mutex<Box<dyn Held>>,
}

impl Decoded {
    /// A decoded trace, with the permit for its memory.
    pub fn new(trace: Trace, permit: impl Held + 'static) -> Decoded {
        Decoded {
            weight: Decoded::weight_of(&trace),
            trace,
            indexes: Mutex::default(),
            live: Mutex::default(),
            categories: Mutex::default(),
            permit: Mutex::new(Box::new(permit)),
        }
    }

    /// Which names of the team's own it has.
    pub fn own_names(&self) -> OwnNames {
        let own = self.trace.stacks.own.as_deref();
        OwnNames(own.map_or(0, Rules::key))
    }

    /// The most memory that the trace and its indexes take.
    pub fn weight(&self) -> Bytes {
        self.weight
    }

    /// Memory of a trace and of the indexes that are made from it.
    pub fn weight_of(trace: &Trace) -> Bytes {
        let blocks: usize = trace.with_pinned().map(|device| device.blocks.len()).sum();
        Bytes((trace.heap_bytes() + blocks * PER_BLOCK) as u64)
    }

    /// Memory for one answer.
    pub fn answering_takes(trace: &Trace) -> Bytes {
        let stacks = &trace.stacks;
        let names = stacks.len() + stacks.n_frames();
        let devices = trace.with_pinned().map(|device| {
            let kinds = device.blocks.kinds.len();
            // A site keeps something for each step (trace::leaks), and a group has its levels.
            let cells = kinds.saturating_mul(device.steps.len()).min(CELLS);
            (kinds + names) * PER_GROUP + cells * PER_CELL
        });
        // A question is about one device at a time.
        Bytes((devices.max().unwrap_or(0) + WORK) as u64)
    }

    /// Memory for reading the stacks of a device once more: to find the categories of its blocks,
    /// and its loops.
    pub fn reading_takes(trace: &Trace) -> Bytes {
        let devices = trace.with_pinned();
        let most = devices.map(|device| {
            let categories = categories::memory_needed(device, &trace.stacks);
            categories.max(choices::memory_needed(device, &trace.stacks))
        });
        Bytes(most.max().unwrap_or(0) as u64)
    }

    /// Additional memory for storing a trace: a table of its addresses, its pictures and its
    /// verdict.
    pub fn storing_takes(trace: &Trace) -> Bytes {
        let blocks: usize = trace.with_pinned().map(|device| device.blocks.len()).sum();
        let encoding = Bytes((blocks * 48 + (8 << 20)) as u64);
        let failed = trace.devices.iter().any(|device| oom::count(device) > 0);
        let judging = match is_judged_now(trace) {
            true => Decoded::answering_takes(trace) + Decoded::reading_takes(trace),
            false => Bytes::ZERO,
        };
        let marking = match failed {
            true => Decoded::reading_takes(trace),
            false => Bytes::ZERO,
        };
        encoding.max(judging).max(marking)
    }

    /// Gives back the memory for storing, after the trace is stored.
    pub fn settle(&self) {
        lock(&self.permit).shrink(self.weight);
    }

    /// This device, which may be the pinned memory of the host.
    ///
    /// # Errors
    /// [`NoDevice`].
    pub fn device(&self, device: DeviceIdx) -> Result<&DeviceTrace, NoDevice> {
        let found = self.trace.with_pinned().find(|d| d.device == device);
        found.ok_or(NoDevice(device))
    }

    /// The index for mountains of a device with one grouping; made once.
    pub fn mountain_index(&self, device: &DeviceTrace, group_by: GroupBy) -> Arc<MountainIndex> {
        let key = (device.device, group_by);
        if let Some(index) = lock(&self.indexes).get(&key) {
            return Arc::clone(index);
        }
        let index = Arc::new(MountainIndex::new(device, group_by, &self.trace.stacks));
        Arc::clone(lock(&self.indexes).entry(key).or_insert(index))
    }

    /// The index for questions about moments of a device; made once.
    pub fn live_index(&self, device: &DeviceTrace) -> Arc<LiveIndex> {
        let mut live = lock(&self.live);
        let index = live.entry(device.device);
        Arc::clone(index.or_insert_with(|| Arc::new(LiveIndex::new(&device.blocks))))
    }

    /// The categories of a device's blocks; inferred once.
    pub fn categories(&self, device: &DeviceTrace) -> Arc<Categories> {
        let mut categories = lock(&self.categories);
        let known = categories.entry(device.device);
        let infer = || Arc::new(Categories::of(device, &self.trace.stacks));
        Arc::clone(known.or_insert_with(infer))
    }
}

/// Bytes for a block in the indexes of moments and mountains, and for its category.
const PER_BLOCK: usize = 16 + 2;
/// Bytes of a group with its names, in an answer.
const PER_GROUP: usize = 96;
/// Bytes for one place at one step, and the largest number of these.
const PER_CELL: usize = 48;
const CELLS: usize = trace::leaks::MAX_CELLS;
/// Bytes that any work needs.
const WORK: usize = 2 << 20;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Traces with at most this many blocks are judged while they are stored: that takes some tens of
/// milliseconds.
const SMALL: usize = 400_000;

/// Whether a trace is small enough to be judged while it is stored.
pub fn is_judged_now(trace: &Trace) -> bool {
    let blocks: usize = trace.with_pinned().map(|d| d.blocks.len()).sum();
    blocks <= SMALL
}
