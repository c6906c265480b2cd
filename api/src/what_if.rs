//! What `tidemark what-if --json` prints, and what a run is asked.
//!
//! `calibration` says how far the answer can be trusted, `recorded` what was, `what_if` what would
//! be. Sizes are bytes.

use serde::{Deserialize, Serialize};
use trace::units::{Bytes, EventIdx};
use trace::what_if::{Answer, Failed, LimitSeen, Outcome, Reach};

/// The answer about one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhatIf {
    /// CUDA ordinal as the process saw it.
    pub device: u32,
    /// How well the rules give what was recorded.
    pub calibration: Calibration,
    /// What was recorded.
    pub recorded: Recorded,
    /// What was asked.
    pub what_if: Replayed,
    /// The same under the limit that the recording shows, where none was asked for.
    pub at_recorded_limit: Option<Replayed>,
    /// The answer in words.
    pub sentence: String,
}

/// How well the allocator's rules give what was recorded, under the file's own settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Calibration {
    /// Allocations.
    pub allocs: u64,
    /// Those whose address the rules predict.
    pub predicted: u64,
    /// Computed peak of reserved memory against the recorded one, as a share: 0.01 is 1 % too much.
    pub peak_reserved_error: f64,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Recorded {
    /// Highest *allocated*.
    pub peak_allocated: Bytes,
    /// Highest *reserved*.
    pub peak_reserved: Bytes,
    /// The step in which an allocation failed first, from 0; `null` when none did.
    pub oom_step: Option<u32>,
    /// What the recording shows of the limit that it ran under.
    pub limit: Option<Limit>,
}

/// A limit, as far as a recording shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Limit {
    /// So much was reserved.
    pub at_least: Bytes,
    /// So much was too much.
    pub below: Bytes,
}

/// What would happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Replayed {
    /// What the process may reserve; `null`: what it likes.
    pub limit: Option<Bytes>,
    /// Highest *allocated*.
    pub peak_allocated: Bytes,
    /// Highest *reserved*.
    pub peak_reserved: Bytes,
    /// Requests that needed the cache emptied first (`num_alloc_retries`).
    pub retries: u64,
    /// The step in which an allocation fails first, from 0; `null` when none does. A recording
    /// without steps is step 0.
    pub oom_step: Option<u32>,
    /// The event at which it fails.
    pub oom_event: Option<EventIdx>,
    /// The segment that could not be had.
    pub oom_segment: Option<Bytes>,
    /// How far this goes.
    pub reaches: Reaches,
}

/// How far an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Reaches {
    /// To the end of the recording.
    End,
    /// To the allocation that fails.
    Failure,
    /// To the allocation that failed when recorded and does not here: what would have come next was
    /// not recorded.
    RecordedFailure,
}

impl WhatIf {
    /// An answer about a device, with itself in words.
    pub fn of(device: u32, answer: &Answer, sentence: String) -> WhatIf {
        let calibration = &answer.calibration;
        let recorded = &answer.recorded;
        let own_limit = recorded.limit.map(LimitSeen::taken);
        let at_recorded = answer.at_recorded_limit.as_ref();
        WhatIf {
            device,
            calibration: Calibration {
                allocs: calibration.addresses.allocs,
                predicted: calibration.addresses.predicted,
                peak_reserved_error: calibration.peak_reserved_error,
            },
            recorded: Recorded {
                peak_allocated: recorded.peak_allocated,
                peak_reserved: recorded.peak_reserved,
                oom_step: recorded.failed.map(|(_, step)| step),
                limit: recorded
                    .limit
                    .map(|LimitSeen { at_least, below }| Limit { at_least, below }),
            },
            what_if: Replayed::of(answer.limit, &answer.what_if),
            at_recorded_limit: at_recorded.map(|outcome| Replayed::of(own_limit, outcome)),
            sentence,
        }
    }
}

impl Replayed {
    fn of(limit: Option<Bytes>, outcome: &Outcome) -> Replayed {
        let failed: Option<Failed> = outcome.failed;
        Replayed {
            limit,
            peak_allocated: outcome.peak_allocated,
            peak_reserved: outcome.peak_reserved,
            retries: outcome.retries,
            oom_step: failed.map(|failed| failed.step),
            oom_event: failed.map(|failed| failed.event),
            oom_segment: failed.map(|failed| failed.segment),
            reaches: match outcome.reach {
                Reach::End => Reaches::End,
                Reach::Failure => Reaches::Failure,
                Reach::Recorded(_) => Reaches::RecordedFailure,
            },
        }
    }
}
