//! Replays a recorded failure, and finds the single changes that would have got past it.

use super::batch::{Batch, Share};
use super::begin::lies_alike;
use super::waiting;
use super::waits::Waits;
use super::{
    Before, Conditions, Early, Evidence, Failed, Limit, LimitSeen, Outcome, Placement, Reach,
    Refuser, Replay, Spread,
};
use crate::allocator::{Config, conf};
use crate::units::{Bytes, EventIdx};
use crate::watch::Stopped;
use std::cell::Cell;
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
    let all = all.map(|config| config.under_version_of(own));
    all.filter(|config| config != own).collect()
}

/// Into so many parts the range of limits is cut.
const LIMITS: u64 = 4;

/// Into so many at most where its upper end does not give the recorded failure.
const PARTS: u32 = 16;

/// The failure under the largest limit that fits the recording. Where that does not give it, as
/// garbage may be collected elsewhere then, so many others are tried from above, and the range is
/// that of the first ones that give it.
pub(super) fn reproduced(
    seen: LimitSeen,
    parts: u64,
    fails: impl Fn(Limit) -> Result<Option<Failed>, Stopped>,
) -> Result<Option<(Failed, LimitSeen)>, Stopped> {
    if let Some(failed) = fails(seen.limit())? {
        return Ok(Some((failed, seen)));
    }
    let (low, high) = (seen.at_least, seen.taken());
    let mut below = high;
    let mut found: Option<(Failed, LimitSeen)> = None;
    for part in (0..if low < high { parts } else { 0 }).rev() {
        let bytes = low + (high - low) / parts * part;
        let failed = fails(Limit { bytes, by: seen.by })?;
        found = match (failed, found) {
            (None, None) => {
                below = bytes;
                None
            }
            (None, found) => return Ok(found),
            (Some(failed), None) => Some((
                failed,
                LimitSeen {
                    at_least: bytes,
                    below,
                    by: seen.by,
                },
            )),
            (Some(_), Some((failed, limits))) => Some((
                failed,
                LimitSeen {
                    at_least: bytes,
                    ..limits
                },
            )),
        };
    }
    Ok(found)
}

/// A recorded failure that replay gives again.
pub(super) struct FoundAgain {
    /// The failure.
    pub failed: Failed,
    /// The limits that fit the recording and give it ([`reproduced`]).
    pub limits: LimitSeen,
    /// The largest of them that was tried.
    pub largest: Bytes,
}

/// The failure at an event as replay gives it under the settings of the recording.
///
/// # Errors
/// [`Stopped`].
pub(super) fn found_again(
    replay: Replay<'_>,
    own: &Config,
    seen: LimitSeen,
    failure: EventIdx,
) -> Result<Option<FoundAgain>, Stopped> {
    let parts = Spread::others(replay.device, 1).min(PARTS);
    let largest = Cell::new(seen.at_least);
    let found = reproduced(seen, u64::from(parts), |limit| {
        let outcome = replay.under(&Conditions::as_recorded(own, Some(limit)))?;
        let failed = outcome.failed.filter(|failed| failed.event == failure);
        if failed.is_some() {
            largest.set(largest.get().max(limit.bytes));
        }
        Ok(failed)
    })?;
    Ok(found.map(|(failed, limits)| FoundAgain {
        failed,
        limits,
        largest: largest.get(),
    }))
}

/// What is tried besides settings, and what is known beside the recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tried<'a> {
    /// The limit, if somebody tells it. One that the recording contradicts is not believed:
    /// [`super::contradiction`] tells why.
    pub limit: Option<Bytes>,
    /// What leaks, to be given back when its step ends; `None` if nothing leaks.
    pub leaks: Option<&'a Early>,
    /// A smaller batch.
    pub batch: Option<&'a Batch>,
    /// The largest share of it with which there is room for more than the failed request. The
    /// largest share up to this one is told beside the largest that gets past the failure.
    pub share: Option<Share>,
}

/// The first failed allocation of a recording, replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The failure.
    pub failed: Failed,
    /// The limit that refused the request, as far as it shows. Where the largest one does not give
    /// the failure, those that do.
    pub limit: LimitSeen,
    /// Whether the recording fits other limits, too, that do not give the failure.
    pub is_narrowed: bool,
    /// The single changes that get past it, those that reserve least first.
    pub remedies: Vec<Remedy>,
    /// Where no settings do: those that would under the largest limit, which nobody knows to be the
    /// one that was set.
    pub perhaps: Vec<Remedy>,
}

/// A failure that changes are tried on. A recording does not tell everything, and what is told as a
/// remedy must be one however the rest was:
///
/// * the limit may be the smallest that fits the recording, the largest, or one between: under a
///   larger limit other blocks may be handed out;
/// * where it shows no difference, a program may have emptied the cache, or a request did;
/// * memory from before the recording may lie close together under other settings, or as recorded;
/// * the driver may put segments elsewhere than is guessed.
struct Trial<'a> {
    own: &'a Config,
    replay: Replay<'a>,
    otherwise: Option<Evidence>,
    seen: LimitSeen,
    failure: EventIdx,
}

impl Trial<'_> {
    /// The recording as it was, under the smallest limit that fits it.
    fn as_it_was(&self) -> Conditions<'_> {
        Conditions::as_recorded(self.own, Some(self.seen.smallest()))
    }

    /// This change with its outcome; `None` if it does not get past the failure in all readings.
    fn remedy(
        &self,
        change: Change,
        conditions: Conditions<'_>,
    ) -> Result<Option<Remedy>, Stopped> {
        let outcome = self.run(conditions)?;
        let helps = self.gets_past(&outcome) && self.holds(conditions, &outcome)?;
        Ok(helps.then_some(Remedy { change, outcome }))
    }

    fn without_leaks(&self, leaks: Option<&Early>) -> Result<Option<Remedy>, Stopped> {
        let Some(early) = leaks.filter(|early| !early.is_empty()) else {
            return Ok(None);
        };
        let conditions = Conditions {
            early,
            ..self.as_it_was()
        };
        self.remedy(Change::NoLeaks, conditions)
    }

    /// Other settings, for each option the first that helps.
    fn other_settings(&self) -> Result<Vec<Remedy>, Stopped> {
        let mut found = Vec::new();
        let mut helped = None;
        for (option, settings) in tried_instead(self.own, self.seen.by) {
            if helped == Some(option) {
                continue;
            }
            let conditions = Conditions {
                settings: &settings,
                ..self.as_it_was()
            };
            let remedy = self.remedy(Change::Settings(conf::text(&settings)), conditions)?;
            if remedy.is_some() {
                helped = Some(option);
            }
            found.extend(remedy);
        }
        Ok(found)
    }

    /// Other settings that help under the largest limit that fits the recording, if there are
    /// several that fit it. None are tried for the longest recordings.
    fn settings_of_largest(&self) -> Result<Vec<Remedy>, Stopped> {
        let seen = self.seen;
        let is_long = Spread::others(self.replay.device, 1) == 0;
        if is_long || seen.at_least == seen.taken() {
            return Ok(Vec::new());
        }
        let largest = Trial {
            otherwise: self.otherwise.clone(),
            seen: LimitSeen {
                at_least: seen.taken(),
                ..seen
            },
            ..*self
        };
        largest.other_settings()
    }

    /// The largest share of the batch that helps, and the largest up to this one.
    fn smaller_batches(&self, batch: &Batch, most: Option<Share>) -> Result<Vec<Remedy>, Stopped> {
        let mut found: Vec<Remedy> = Vec::new();
        for share in Share::TRIED {
            let is_small = most.is_none_or(|most| share.0 <= most.0);
            if !found.is_empty() && !is_small {
                continue;
            }
            let conditions = Conditions {
                batch: Some((batch, share)),
                ..self.as_it_was()
            };
            let remedy = self.remedy(Change::Batch(share), conditions)?;
            let is_last = is_small && remedy.is_some();
            found.extend(remedy);
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    fn run(&self, conditions: Conditions<'_>) -> Result<Outcome, Stopped> {
        self.replay.under(&conditions)
    }

    fn gets_past(&self, outcome: &Outcome) -> bool {
        outcome.reach == Reach::Recorded(self.failure)
    }

    /// Whether what got past the failure with this outcome does so in all readings.
    fn holds(&self, conditions: Conditions<'_>, outcome: &Outcome) -> Result<bool, Stopped> {
        for reading in self.readings(conditions, outcome) {
            if !self.gets_past(&self.run(reading)?) {
                return Ok(false);
            }
        }
        let Some(otherwise) = &self.otherwise else {
            return Ok(true);
        };
        let replay = Replay {
            evidence: otherwise,
            ..self.replay
        };
        let outcome = replay.under(&conditions)?;
        Ok(self.gets_past(&outcome))
    }

    /// The readings besides that with this outcome; the likeliest to fail come first.
    fn readings<'c>(
        &self,
        conditions: Conditions<'c>,
        outcome: &Outcome,
    ) -> impl Iterator<Item = Conditions<'c>> {
        let under = move |bytes: Bytes| Conditions {
            limit: conditions.limit.map(|limit| Limit { bytes, ..limit }),
            ..conditions
        };
        let before = self.before(conditions.settings);
        let before = before.map(|before| Conditions {
            before,
            ..conditions
        });
        // Many replays of a long recording would take too long.
        let most = Spread::others(self.replay.device, SETTINGS.len());
        let (low, high) = (self.seen.at_least, self.seen.taken());
        let between = (1..LIMITS).map(move |n| low + (high - low) / LIMITS * n);
        let between = between.take(if low < high { most as usize } else { 0 });
        let orders = 0..if outcome.is_guessed { most } else { 0 };
        let orders = orders.map(move |order| Conditions {
            placement: Placement::Other(order),
            ..conditions
        });
        let largest = (low < high).then_some(high);
        let limits = largest.into_iter().chain(between).map(under);
        let others = match waiting::count(self.replay.device) {
            (0, _) => 0,
            _ => most.min(waiting::OTHERS),
        };
        let waits = Waits::others(others).map(move |waits| Conditions {
            waits,
            ..conditions
        });
        limits.chain(before).chain(orders).chain(waits)
    }

    /// The other way in which the memory from before the first event may lie under these settings:
    /// as if they had been in force since the program began, or only from the first event on.
    fn before(&self, settings: &Config) -> Option<Before> {
        let may_differ = self.replay.device.blocks.n_preexisting > 0 && settings != self.own;
        may_differ.then(|| match lies_alike(self.replay.device, settings) {
            true => Before::RequestedAgain,
            false => Before::Kept,
        })
    }
}

/// Replays the first failed allocation of a recording with single changes. What gets past it must
/// do so however what the recording does not tell is read ([`Trial`]). The outcome is that of the
/// smallest limit. `None` if nothing failed, or if the replay does not reproduce the failure under
/// any limit that is tried.
///
/// `own` are the settings of the file, and `evidence` is what it shows of its allocator
/// ([`super::evidence`]).
///
/// # Errors
/// [`Stopped`].
pub fn remedies(
    replay: Replay<'_>,
    own: &Config,
    tried: Tried<'_>,
) -> Result<Option<Diagnosis>, Stopped> {
    let Replay {
        device, evidence, ..
    } = replay;
    let (Some(failure), Some(seen)) = (crate::oom::first(device), evidence.limit) else {
        return Ok(None);
    };
    let mut trial = Trial {
        replay,
        own,
        otherwise: evidence.otherwise(),
        seen: seen.or_told(tried.limit),
        failure: failure.event,
    };
    let Some(found) = found_again(replay, own, trial.seen, failure.event)? else {
        return Ok(None);
    };
    let is_narrowed = found.limits != trial.seen;
    trial.seen = found.limits;
    let mut remedies: Vec<Remedy> = Vec::new();
    remedies.extend(trial.without_leaks(tried.leaks)?);
    let settings = trial.other_settings()?;
    let perhaps = match settings.is_empty() {
        true => trial.settings_of_largest()?,
        false => Vec::new(),
    };
    remedies.extend(settings);
    if let Some(batch) = tried.batch {
        remedies.extend(trial.smaller_batches(batch, tried.share)?);
    }
    remedies.sort_by_key(|remedy| remedy.outcome.peak_reserved);
    Ok(Some(Diagnosis {
        failed: found.failed,
        limit: trial.seen,
        is_narrowed,
        remedies,
        perhaps,
    }))
}
