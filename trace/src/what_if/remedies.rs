//! Replays a recorded failure, and finds the single changes that would have got past it.

use super::batch::{Batch, Share};
use super::{
    Conditions, Early, Evidence, Failed, LimitSeen, Outcome, Placement, Reach, Refuser, replay,
};
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
    (COLLECTING, |c| c.garbage_collection_threshold = 0.8),
];

const EXPANDABLE: &str = "expandable_segments";
const COLLECTING: &str = "garbage_collection_threshold";

/// The settings that are tried instead of a file's own, with the option that they are tried for.
/// Garbage is collected only under a memory fraction.
fn tried_instead(own: &Config, by: Refuser) -> Vec<(&'static str, Config)> {
    let simple = simpler(own).into_iter().map(|config| match config {
        expandable if expandable.expandable_segments => (EXPANDABLE, expandable),
        defaults => ("", defaults),
    });
    let has_fraction = by == Refuser::Process;
    let works = |(option, _): &&Setting| has_fraction || *option != COLLECTING;
    let more = SETTINGS.iter().filter(works).map(|(option, set)| {
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

/// Replays the first failed allocation of a recording with single changes. What gets past it must
/// do so both with the smallest limit that fits the recording and with the largest, because under
/// a larger limit other blocks may be handed out. The outcome is that of the smallest. `None` if
/// nothing failed, or if the replay does not reproduce the failure.
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
        limit: Some(seen.smallest()),
        early: &none,
        batch: None,
        placement: Placement::Seen,
    };
    let try_out = |conditions: Conditions<'_>| replay(device, &evidence, &conditions, watch);
    let as_recorded = try_out(Conditions {
        limit: Some(seen.limit()),
        ..as_it_was
    })?;
    let Some(failed) = as_recorded.failed.filter(|f| f.event == failure.event) else {
        return Ok(None);
    };
    let mut remedies: Vec<Remedy> = Vec::new();
    let gets_past = |outcome: &Outcome| outcome.reach == Reach::Recorded(failure.event);
    let mut keep = |change, conditions: Conditions<'_>| {
        let outcome = try_out(conditions)?;
        let limit = Some(seen.limit());
        let helps = gets_past(&outcome)
            && (limit == conditions.limit
                || gets_past(&try_out(Conditions {
                    limit,
                    ..conditions
                })?));
        remedies.extend(helps.then_some(Remedy { change, outcome }));
        Ok::<bool, Stopped>(helps)
    };
    if let Some(early) = tried.leaks.filter(|early| !early.is_empty()) {
        keep(Change::NoLeaks, Conditions { early, ..as_it_was })?;
    }
    let mut helped = None;
    for (option, settings) in tried_instead(own, seen.by) {
        if helped == Some(option) {
            continue;
        }
        let conditions = Conditions {
            settings: &settings,
            ..as_it_was
        };
        if keep(Change::Settings(conf::text(&settings)), conditions)? {
            helped = Some(option);
        }
    }
    for share in tried.batch.iter().flat_map(|_| Share::TRIED) {
        let batch = tried.batch.map(|batch| (batch, share));
        if keep(Change::Batch(share), Conditions { batch, ..as_it_was })? {
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
