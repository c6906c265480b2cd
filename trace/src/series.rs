//! The four series of a device, and levels of them.

use crate::units::{Bytes, EventIdx};
use serde::{Deserialize, Serialize};

/// The four series (docs/snapshot-format.md, "The four series"). They are never mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Series {
    /// Σ requested bytes of active blocks.
    Requested,
    /// Σ block sizes from alloc to `free_requested`: `torch.cuda.memory_allocated()`.
    Allocated,
    /// Σ block sizes from alloc to `free_completed`: allocated plus pending frees.
    Active,
    /// Σ segment sizes: `torch.cuda.memory_reserved()`.
    Reserved,
}

impl Series {
    /// All four, in the order in which [`Levels`] holds them.
    pub const ALL: [Series; 4] = [
        Series::Requested,
        Series::Allocated,
        Series::Active,
        Series::Reserved,
    ];

    /// Lower-case name, as in JSON and URLs.
    pub const fn name(self) -> &'static str {
        match self {
            Series::Requested => "requested",
            Series::Allocated => "allocated",
            Series::Active => "active",
            Series::Reserved => "reserved",
        }
    }
}

/// The four levels at one moment, indexed by [`Series`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Levels(pub [Bytes; 4]);

impl Levels {
    /// One of them.
    pub fn get(&self, series: Series) -> Bytes {
        self.0[series as usize]
    }

    /// One of them, to change.
    pub fn get_mut(&mut self, series: Series) -> &mut Bytes {
        &mut self.0[series as usize]
    }
}

/// Which way an event moves the levels: no event raises one and lowers another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// No level moves.
    Level,
    /// Some levels rise.
    Up,
    /// Some levels fall.
    Down,
}

/// Start, peak and end of one series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SeriesSummary {
    /// Before the first event.
    pub start: Bytes,
    /// The largest level, start included.
    pub peak: Bytes,
    /// The first event at which it stood; `None` when that was before the first event.
    pub peak_event: Option<EventIdx>,
    /// After the last event.
    pub end: Bytes,
}

/// Min, max and last level of one series in one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Lowest level at an event of the bucket.
    pub min: Bytes,
    /// Highest level at an event of the bucket.
    pub max: Bytes,
    /// Level at the last event of the bucket.
    pub last: Bytes,
}
