//! The tracker: what pack saved and unpack has not asked for yet, with running counts of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::runtime::Runtime;
use super::saved::{Element, View};
use crate::tensor::{Placement, SavedTensor};
use trace::units::Bytes;

/// The id that pack returns and unpack takes; the first one is 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct TensorId(pub u64);

impl std::fmt::Display for TensorId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One entry of the tracker.
pub(super) enum Tracked<R: Runtime> {
    /// "Unmodified": the accelerator tensor itself, as a strong reference.
    Kept(R::Tensor),
    /// "Modified": only a host copy.
    Offloaded {
        host: R::Host,
        /// The layout to restore; `None` before #4247, which saved no layout.
        layout: Option<R::Layout>,
        /// Number of elements in the host copy, the limit for `as_strided`.
        elements: u64,
    },
}

/// An entry, and what it counts for.
struct Entry<R: Runtime> {
    tracked: Tracked<R>,
    /// Accelerator memory that the entry itself keeps.
    kept: Bytes,
}

/// Logical bytes of a tensor in the accelerator's memory.
pub(super) fn accelerator_bytes<L: View, D: Element>(saved: &SavedTensor<L, D>) -> Bytes {
    match saved.placement {
        Placement::Accelerator => saved.bytes(),
        Placement::Host => Bytes::ZERO,
    }
}

/// All entries. The counts are kept up to date, because a replay asks for them after each call.
pub(super) struct Tracker<R: Runtime> {
    entries: BTreeMap<TensorId, Entry<R>>,
    offloaded: u64,
    kept: Bytes,
}

impl<R: Runtime> Tracker<R> {
    pub fn new() -> Tracker<R> {
        Tracker {
            entries: BTreeMap::new(),
            offloaded: 0,
            kept: Bytes::ZERO,
        }
    }

    /// Tracks a tensor that stays where it is, with so much of the accelerator's memory.
    pub fn keep(&mut self, id: TensorId, tensor: R::Tensor, kept: Bytes) {
        let tracked = Tracked::Kept(tensor);
        self.insert(id, Entry { tracked, kept });
    }

    /// Tracks a tensor that was copied to the host.
    pub fn offload(&mut self, id: TensorId, copy: Tracked<R>) {
        let (tracked, kept) = (copy, Bytes::ZERO);
        self.insert(id, Entry { tracked, kept });
    }

    fn insert(&mut self, id: TensorId, entry: Entry<R>) {
        self.remove(id);
        self.offloaded += entry.is_offloaded();
        // Only a hostile tape can have more than a number can hold; then both wrap alike.
        self.kept.0 = self.kept.0.wrapping_add(entry.kept.0);
        self.entries.insert(id, entry);
    }

    pub fn remove(&mut self, id: TensorId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.offloaded -= entry.is_offloaded();
            self.kept.0 = self.kept.0.wrapping_sub(entry.kept.0);
        }
    }

    pub fn clear(&mut self) {
        *self = Tracker::new();
    }

    pub fn get(&self, id: TensorId) -> Option<&Tracked<R>> {
        self.entries.get(&id).map(|entry| &entry.tracked)
    }

    /// All entries, the lowest id first.
    pub fn iter(&self) -> impl Iterator<Item = (TensorId, &Tracked<R>)> {
        self.entries.iter().map(|(&id, entry)| (id, &entry.tracked))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many ids from this one on are tracked.
    pub fn count_from(&self, id: TensorId) -> u64 {
        self.entries.range(id..).count() as u64
    }

    /// How many entries are host copies.
    pub fn offloaded(&self) -> u64 {
        self.offloaded
    }

    /// Logical bytes of the accelerator tensors.
    pub fn kept(&self) -> Bytes {
        self.kept
    }
}

impl<R: Runtime> Entry<R> {
    /// 1 for a host copy, else 0.
    fn is_offloaded(&self) -> u64 {
        u64::from(matches!(self.tracked, Tracked::Offloaded { .. }))
    }
}
