//! Which single change would have got past a recorded failure.

use super::{Conditions, Early, Evidence, Outcome, Reach, replay};
use crate::allocator::Config;
use crate::trace::DeviceTrace;
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use std::fmt;

const MIB: u64 = 1 << 20;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A setting of the allocator, the others left as they were.
    Setting {
        /// Its option in `PYTORCH_CUDA_ALLOC_CONF`.
        option: &'static str,
        /// Its value there.
        value: &'static str,
    },
    /// What leaks, given back at the end of the step that made it.
    NoLeaks,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Setting { option, value } => write!(f, "{option}:{value}"),
            Change::NoLeaks => f.write_str("no leaks"),
        }
    }
}

/// A change that gets past the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The change.
    pub change: Change,
    /// What happens then, up to the failure.
    pub outcome: Outcome,
}

/// A setting that is tried: option, value, and what they do.
type Setting = (&'static str, &'static str, fn(&mut Config));

/// What is tried. Of an option the first value that helps is enough.
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

/// The single changes that get past the first failed allocation of a recording, those that reserve
/// least first. The limit is the smallest that the recording allows for, so each of them would have
/// got past it. Empty where nothing failed, and where the rules do not give the failure itself.
///
/// # Errors
/// [`Stopped`].
pub fn remedies(
    device: &DeviceTrace,
    own: &Config,
    leaks: &Early,
    watch: Watch<'_>,
) -> Result<Option<Vec<Remedy>>, Stopped> {
    let evidence = Evidence::of(device, own, watch)?;
    let failures = crate::oom::failures(device);
    let (Some(failure), Some(seen)) = (failures.first(), evidence.limit) else {
        return Ok(None);
    };
    let try_out = |settings: &Config, early: &Early, limit: Bytes| {
        let conditions = Conditions {
            settings,
            limit: Some(limit),
            early,
        };
        replay(device, &evidence, &conditions, watch)
    };
    let none = Early::default();
    let as_recorded = try_out(own, &none, seen.taken())?;
    if as_recorded
        .failed
        .is_none_or(|failed| failed.event != failure.event)
    {
        return Ok(None);
    }
    let mut found: Vec<Remedy> = Vec::new();
    let mut keep = |change, outcome: Outcome| {
        if outcome.reach == Reach::Recorded(failure.event) {
            found.push(Remedy { change, outcome });
        }
        outcome.reach == Reach::Recorded(failure.event)
    };
    if !leaks.is_empty() {
        keep(Change::NoLeaks, try_out(own, leaks, seen.at_least)?);
    }
    let mut helped = "";
    for (option, value, change) in SETTINGS {
        let mut settings = own.clone();
        change(&mut settings);
        if option == helped || settings == *own {
            continue;
        }
        let outcome = try_out(&settings, &none, seen.at_least)?;
        if keep(Change::Setting { option, value }, outcome) {
            helped = option;
        }
    }
    found.sort_by_key(|remedy| remedy.outcome.peak_reserved);
    Ok(Some(found))
}
