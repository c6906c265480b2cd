//! Where memory lies at a moment: pools, their segments, and the blocks in them.

use serde::{Deserialize, Serialize};
use trace::units::{Bytes, DeviceAddr, EventIdx};

/// Version of the map; part of its entity tags.
pub const VERSION: u32 = 7;

/// The largest number of blocks in an answer. Segments beyond that are left out and counted.
pub const MAX_BLOCKS: usize = 40_000;

/// The largest number of segments in an answer.
pub const MAX_SEGMENTS: usize = 10_000;

/// Where memory lies after an event. A recording of a state alone has no event; then it is where
/// memory lies in that state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MemoryMap {
    /// The event; absent where the recording has none.
    pub event: Option<EventIdx>,
    /// The step it lies in.
    pub step: Option<String>,
    /// The pools of each stream, those that hold most first; `null` where segments are missing
    /// from the recording, so that they do not sum to *reserved*.
    pub pools: Option<Vec<PoolMap>>,
    /// Segments that were not sent.
    pub segments_left_out: u64,
}

/// Reserved memory over a recording, and how the unused part was distributed: a column for
/// each number, an entry for each of at most [`trace::layout::MOST_MOMENTS`] moments. Each is the
/// moment of its part of the recording at which most was unused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RoomOverTime {
    /// The events after which it was so. Moments are left out at which segments are missing from
    /// the recording.
    pub events: Vec<EventIdx>,
    /// Bytes of all segments.
    pub reserved: Vec<Bytes>,
    /// Bytes in use; what another stream still waits for is.
    pub used: Vec<Bytes>,
    /// Bytes of these that were given back and that another stream still uses.
    pub waiting: Vec<Bytes>,
    /// Bytes of segments nothing of which is in use: they can be given back.
    pub cached: Vec<Bytes>,
    /// Free bytes of segments that are partly in use, or of a private pool that is.
    pub split: Vec<Bytes>,
    /// Of these, bytes of whole segments, which a private pool keeps as long as it is in use.
    #[serde(default)]
    pub kept: Vec<Bytes>,
    /// The largest free range.
    pub largest_gap: Vec<Bytes>,
    /// How many segments.
    pub segments: Vec<u32>,
}

/// What a pool of a stream holds, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PoolMap {
    /// `large pool, stream 0`.
    pub name: String,
    /// Bytes of its segments.
    pub reserved: Bytes,
    /// Bytes in use; what another stream still waits for is.
    pub used: Bytes,
    /// Bytes of segments nothing of which is in use: they can be given back.
    pub cached: Bytes,
    /// Free bytes of segments that are partly in use, or of a private pool that is.
    pub split: Bytes,
    /// Of these, bytes of whole segments, which a private pool keeps as long as it is in use.
    #[serde(default)]
    pub kept: Bytes,
    /// The largest free range.
    pub largest_gap: Bytes,
    /// Its segments, by address.
    pub segments: Vec<SegmentMap>,
}

/// A segment and the blocks in it, by address: a column for each property of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SegmentMap {
    /// First address.
    pub addr: DeviceAddr,
    /// Bytes.
    pub size: Bytes,
    /// Whether it is part of an expandable segment.
    pub expandable: bool,
    /// The blocks.
    pub blocks: Vec<u32>,
    /// Where each begins, from the segment's first address on.
    pub offsets: Vec<Bytes>,
    /// How large each is.
    pub sizes: Vec<Bytes>,
    /// Positions in `blocks` of those that were given back and that another stream still uses.
    pub pending: Vec<u32>,
}
