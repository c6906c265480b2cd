//! Replays a recorded failure, and finds the single changes that would have got past it.

use super::batch::{Batch, Share};
use super::{Conditions, Early, Evidence, Failed, LimitSeen, Outcome, Placement, Reach, replay};
use crate::allocator::Config;
use crate::trace::DeviceTrace;
use crate::watch::{Stopped, Watch};
use std::fmt;

const MIB: u64 = 1 << 20;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A setting of the allocator; the others stay as they were.
    Setting {
        /// Its option in `PYTORCH_CUDA_ALLOC_CONF`.
        option: &'static str,
        /// Its value there.
        value: &'static str,
    },
    /// What leaks is given back at the end of the step that made it.
    NoLeaks,
    /// Only a share of the batch is computed at once: an estimate.
    Batch(Share),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Setting { option, value } => write!(f, "{option}:{value}"),
            Change::NoLeaks => f.write_str("no leaks"),
            Change::Batch(share) => write!(f, "{share} of the batch"),
        }
    }
}

/// A change that gets past the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The change.
    pub change: Change,
    /// The result with this change, up to the failure.
    pub outcome: Outcome,
}

/// A setting that is tried: option, value, and its effect.
type Setting = (&'static str, &'static str, fn(&mut Config));

/// The settings that are tried. For each option, the first value that helps is enough.
const SETTINGS: [Setting; 8] = [
    ("expandable_segments", "True", |c| {
        c.expandable_segments = true
    }),
    ("max_split_size_mb", "512", |c| {
        c.max_split_size = Some(512 * MIB)
    }),
    ("max_split_size_mb", "256", |c| {
        c.max_split_size = Some(256 * MIB)
    }),
    ("max_split_size_mb", "128", |c| {
        c.max_split_size = Some(128 * MIB)
    }),
    ("max_split_size_mb", "64", |c| {
        c.max_split_size = Some(64 * MIB)
    }),
    ("roundup_power2_divisions", "8", |c| {
        c.roundup_power2_divisions = [8; 16]
    }),
    ("roundup_power2_divisions", "4", |c| {
        c.roundup_power2_divisions = [4; 16]
    }),
    ("garbage_collection_threshold", "0.8", |c| {
        c.garbage_collection_threshold = 0.8
    }),
];

/// What is tried besides settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tried<'a> {
    /// What leaks, to be given back when its step ends; `None` if nothing leaks.
    pub leaks: Option<&'a Early>,
    /// A smaller batch.
    pub batch: Option<&'a Batch>,
}

/// The first failed allocation of a recording, replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The failure.
    pub failed: Failed,
    /// The limit that refused the request, as far as it shows.
    pub limit: LimitSeen,
    /// The single changes that get past it, those that reserve least first.
    pub remedies: Vec<Remedy>,
}

/// Replays the first failed allocation of a recording with single changes. The limit is the
/// smallest that fits the recording. So a change that gets past it here would have got past it
/// then. `None` if nothing failed, or if the replay does not reproduce the failure.
///
/// # Errors
/// [`Stopped`].
pub fn remedies(
    device: &DeviceTrace,
    own: &Config,
    tried: Tried<'_>,
    watch: Watch<'_>,
) -> Result<Option<Diagnosis>, Stopped> {
    let evidence = Evidence::of(device, own, watch)?;
    let failures = crate::oom::failures(device);
    let (Some(failure), Some(seen)) = (failures.first(), evidence.limit) else {
        return Ok(None);
    };
    let none = Early::default();
    let as_it_was = Conditions {
        settings: own,
        limit: Some(seen.at_least),
        early: &none,
        batch: None,
        placement: Placement::Seen,
    };
    let try_out = |conditions: Conditions<'_>| replay(device, &evidence, &conditions, watch);
    let as_recorded = try_out(Conditions {
        limit: Some(seen.taken()),
        ..as_it_was
    })?;
    let Some(failed) = as_recorded.failed.filter(|f| f.event == failure.event) else {
        return Ok(None);
    };
    let mut remedies: Vec<Remedy> = Vec::new();
    let mut keep = |change, outcome: Outcome| {
        let helps = outcome.reach == Reach::Recorded(failure.event);
        remedies.extend(helps.then_some(Remedy { change, outcome }));
        helps
    };
    if let Some(early) = tried.leaks.filter(|early| !early.is_empty()) {
        keep(Change::NoLeaks, try_out(Conditions { early, ..as_it_was })?);
    }
    let mut helped = "";
    for (option, value, set) in SETTINGS {
        let mut settings = own.clone();
        set(&mut settings);
        if option == helped || settings == *own {
            continue;
        }
        let settings = &settings;
        if keep(
            Change::Setting { option, value },
            try_out(Conditions {
                settings,
                ..as_it_was
            })?,
        ) {
            helped = option;
        }
    }
    for share in tried.batch.iter().flat_map(|_| Share::TRIED) {
        let batch = tried.batch.map(|batch| (batch, share));
        if keep(
            Change::Batch(share),
            try_out(Conditions { batch, ..as_it_was })?,
        ) {
            break;
        }
    }
    remedies.sort_by_key(|remedy| remedy.outcome.peak_reserved);
    Ok(Some(Diagnosis {
        failed,
        limit: seen,
        remedies,
    }))
}
