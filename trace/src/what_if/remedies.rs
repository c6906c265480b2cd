//! Replays a recorded failure, and finds the single changes that would have got past it.

use super::batch::{Batch, Share};
use super::{Conditions, Early, Evidence, Failed, LimitSeen, Outcome, Placement, Reach, replay};
use crate::allocator::{Config, conf};
use crate::trace::DeviceTrace;
use crate::watch::{Stopped, Watch};
use std::fmt;

const MIB: u64 = 1 << 20;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Other settings of the allocator: the whole text of `PYTORCH_CUDA_ALLOC_CONF`. It is empty
    /// for the defaults.
    Settings(String),
    /// What leaks is given back at the end of the step that made it.
    NoLeaks,
    /// Only a share of the batch is computed at once: an estimate.
    Batch(Share),
}

impl Change {
    /// The change back to the defaults, in words.
    pub const DEFAULTS: &str = "default settings";
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Settings(conf) if conf.is_empty() => f.write_str(Change::DEFAULTS),
            Change::Settings(conf) => f.write_str(conf),
            Change::NoLeaks => f.write_str("no leaks"),
            Change::Batch(share) => write!(f, "{share} of the batch"),
        }
    }
}

/// A change that gets past the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The change.
    pub change: Change,
    /// The result with this change, up to the failure.
    pub outcome: Outcome,
}

/// An option that is set beside the settings of a file.
type Setting = (&'static str, fn(&mut Config));

/// The options that are tried. For each of them, the first value that helps is enough.
const SETTINGS: [Setting; 8] = [
    (EXPANDABLE, |c| c.expandable_segments = true),
    ("max_split_size_mb", |c| c.max_split_size = Some(512 * MIB)),
    ("max_split_size_mb", |c| c.max_split_size = Some(256 * MIB)),
    ("max_split_size_mb", |c| c.max_split_size = Some(128 * MIB)),
    ("max_split_size_mb", |c| c.max_split_size = Some(64 * MIB)),
    ("roundup_power2_divisions", |c| {
        c.roundup_power2_divisions = [8; 16]
    }),
    ("roundup_power2_divisions", |c| {
        c.roundup_power2_divisions = [4; 16]
    }),
    ("garbage_collection_threshold", |c| {
        c.garbage_collection_threshold = 0.8
    }),
];

const EXPANDABLE: &str = "expandable_segments";

/// The settings that are tried instead of a file's own, with the option that they are tried for.
fn tried_instead(own: &Config) -> Vec<(&'static str, Config)> {
    let simple = simpler(own).into_iter().map(|config| match config {
        expandable if expandable.expandable_segments => (EXPANDABLE, expandable),
        defaults => ("", defaults),
    });
    let more = SETTINGS.iter().map(|(option, set)| {
        let mut config = own.clone();
        set(&mut config);
        (*option, config)
    });
    let all = simple.chain(more);
    all.filter(|(_, config)| config != own).collect()
}

/// The settings with nothing of a file's own: expandable segments alone, and the defaults. Where
/// the file was recorded under the defaults, expandable segments are left.
pub fn simpler(own: &Config) -> Vec<Config> {
    let expandable = Config {
        expandable_segments: true,
        ..Config::default()
    };
    let all = [expandable, Config::default()].into_iter();
    all.filter(|config| config != own).collect()
}

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
    let mut helped = None;
    for (option, settings) in tried_instead(own) {
        if helped == Some(option) {
            continue;
        }
        let outcome = try_out(Conditions {
            settings: &settings,
            ..as_it_was
        })?;
        if keep(Change::Settings(conf::text(&settings)), outcome) {
            helped = Some(option);
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
