//! What a recording holds: what it is, its loops, its phases, and what its peak consists of.

use serde::{Deserialize, Serialize};
use trace::categories::Named;
use trace::phases::Phase;
use trace::span::Span;
use trace::steps::choices::LoopChoice;
use trace::steps::recording::Recording;
use trace::units::{Bytes, EventIdx};

/// What the recording of one device holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Contents {
    /// What it is, in a sentence.
    pub recording: Recording,
    /// The loops whose iterations can be taken for steps, fewest iterations first.
    pub levels: Vec<LoopChoice>,
    /// Where there is no loop: the passes, in order, inferred. The longest where there are many.
    pub phases: Vec<PhaseMark>,
    /// What is allocated where *allocated* peaks; absent where nothing is.
    pub peak: Option<Held>,
}

impl Contents {
    /// Version of the meaning of these answers; part of their address.
    pub const VERSION: u32 = 20;

    /// The largest number of phases in an answer.
    pub const MAX_PHASES: usize = 48;
}

/// Events that are one forward pass, one backward pass, one step of the optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PhaseMark {
    /// Which.
    pub phase: Phase,
    /// Its events.
    #[cfg_attr(feature = "openapi", schema(value_type = [u32; 2]))]
    pub events: Span<EventIdx>,
}

/// What is allocated at a moment, by what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Held {
    /// The moment; absent when it is before the first event.
    pub event: Option<EventIdx>,
    /// Bytes of each category that holds any, most first.
    pub categories: Vec<CategoryBytes>,
}

/// Bytes of one category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CategoryBytes {
    /// What they are for.
    pub category: Named,
    /// How many.
    pub bytes: Bytes,
    /// How many of them are put there by inference rather than by the recorder's word.
    pub inferred: Bytes,
}
