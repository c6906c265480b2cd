//! What if: replays the requests of a recording under other allocator settings, or another limit.
//!
//! ```text
//! recorded    what the recorded allocator did of its own accord, and what that says of its limit
//! collected   what the segments that were collected say of the limit
//! refusals    which limit refused a failed allocation, also where somebody tells it
//! batch       what grows with the batch, as an estimate
//! early       blocks that are given back earlier than they were, or never asked for
//! begin       the memory before the first event
//! run         the requests, one by one, through allocator::caching
//! curve       the levels on the way, for a picture
//! spread      the same with segments at other addresses
//! endings     how it ends where something else is assumed
//! waits       when frees that wait for another stream complete
//! waiting     the same if they complete at other events
//! earlier     the same with another cache from before the recording
//! remedies    which single change would have got past a recorded failure
//! ```
//!
//! A program requests the same memory in the same order whatever the allocator does with it; the
//! recorded sizes are the requested ones, before rounding. What the allocator did by itself
//! (segments, retries, collecting) is left out and decided again. What the program did (allocating,
//! freeing, emptying the cache) stays. Calibration comes first: a replay under the file's own
//! settings must give what was recorded. `docs/what-if.md` lists the assumptions, and how right the
//! answers are.

pub mod batch;
mod begin;
mod collected;
mod curve;
mod earlier;
mod early;
mod endings;
mod recorded;
mod refusals;
mod remedies;
mod run;
mod spread;
mod waiting;
mod waits;
pub mod words;

pub use crate::allocator::caching::{Limit, Placement, Refuser};
use crate::allocator::{Config, PoolKey};
use crate::oom;
use crate::trace::{DeviceTrace, Fidelity, FormatInfo, PoolId, Series};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};
pub use begin::Before;
pub use collected::evidence;
pub use curve::Curve;
pub use earlier::Earlier;
pub use early::Early;
pub use endings::Ending;
pub use recorded::{Evidence, LimitSeen};
pub use refusals::{NotTheLimit, contradiction};
pub use remedies::{Change, Diagnosis, Remedy, Tried, remedies, simpler};
pub use run::{Conditions, Refused, Replay};
pub use spread::{Spread, is_wide};
pub use waiting::Waiting;
pub use waits::Waits;

/// A question; all its parts apply together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// Other settings; `None` for those of the file.
    pub settings: Option<Config>,
    /// The limit of what the process may reserve, as a memory fraction sets it. Without one no
    /// request fails. The exception is a question that asks for nothing else either: then the limit
    /// that the recording shows is taken.
    pub limit: Option<Bytes>,
    /// Blocks that are given back early, or never requested.
    pub early: Early,
    /// The largest number of columns of the curves; 0 for no curves.
    pub columns: u32,
}

/// A request that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The event at which it was made.
    pub event: EventIdx,
    /// Position among the steps, from 0, of the step in which it was made.
    pub step: u32,
    /// The segment that could not be had. `None`: no request failed, but the memory from before the
    /// recording needs more than the limit.
    pub segment: Option<Bytes>,
    /// *Allocated* at that moment.
    pub allocated: Bytes,
    /// *Reserved* at that moment.
    pub reserved: Bytes,
    /// How many requests so far, including this one, emptied the cache.
    pub retries: u64,
    /// Whether the recorded program gave it back at once, as a library does with work space that it
    /// may do without.
    pub at_once: bool,
    /// Whether the program may have asked for less, which would have been served: the recording
    /// tells the size rounded up under its own settings.
    pub may_be_less: bool,
}

/// How far the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To the end of the recording.
    End,
    /// To a request that fails here and did not fail in the recording: nobody knows what the
    /// program would have done then.
    Failure,
    /// To this event, at which the recorded program ran out of memory and this one does not: nobody
    /// knows what it would have done next.
    Recorded(EventIdx),
}

/// The result under some settings and some limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Highest *allocated*.
    pub peak_allocated: Bytes,
    /// Highest *reserved*.
    pub peak_reserved: Bytes,
    /// How many requests succeeded only after the cache was emptied, or failed even then.
    pub retries: u64,
    /// The first request that fails.
    pub failed: Option<Failed>,
    /// How far the answer goes.
    pub reach: Reach,
    /// Whether a segment lies at an address that the recording does not tell.
    pub is_guessed: bool,
    /// How much this depends on such addresses. `None` if it does not, or if it was not tried: only
    /// [`ask`] does, and not for the longest recordings.
    pub spread: Option<Spread>,
    /// How much this depends on when other streams are done with blocks. `None` if it hardly does,
    /// or if it was not tried, as above.
    pub waiting: Option<Waiting>,
    /// How much this depends on what was cached before the recording. `None` if it hardly does, or
    /// if it was not tried: only [`ask`] does.
    pub earlier: Option<Earlier>,
    /// How it ends if the program makes do without the work space that is refused. `None` where
    /// that is not what fails, or if it was not tried: only [`ask`] does.
    pub without_work_space: Option<Ending>,
    /// How it ends on a card that is full at the limit, if a memory fraction refuses another
    /// request, and the recording does not show which of the two there is. `None` if it was not
    /// tried: only [`ask`] does.
    pub on_full_card: Option<Ending>,
}

impl Outcome {
    /// Before anything is replayed.
    pub const NOTHING: Outcome = Outcome {
        peak_allocated: Bytes::ZERO,
        peak_reserved: Bytes::ZERO,
        retries: 0,
        failed: None,
        reach: Reach::End,
        is_guessed: false,
        spread: None,
        waiting: None,
        earlier: None,
        without_work_space: None,
        on_full_card: None,
    };

    /// Lowest and highest peak of *reserved*, wherever segments lie and however long frees wait for
    /// other streams, as far as that was tried.
    pub fn peak_reserved_range(&self) -> [Bytes; 2] {
        let by_place = self.spread.as_ref();
        let by_wait = self.waiting.as_ref().map(|found| &found.spread);
        let told = [self.peak_reserved; 2];
        let both = by_place.into_iter().chain(by_wait);
        both.fold(told, |[low, high], spread| {
            let [least, most] = spread.peak_reserved;
            [low.min(least), high.max(most)]
        })
    }
}

/// What was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Highest *allocated*.
    pub peak_allocated: Bytes,
    /// Highest *reserved*.
    pub peak_reserved: Bytes,
    /// The first failed allocation: its event, and its step as in [`Failed::step`].
    pub failed: Option<(EventIdx, u32)>,
    /// What the recording shows about its own limit.
    pub limit: Option<LimitSeen>,
}

/// How well the rules reproduce the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// How many addresses the rules predict, when segments lie as recorded.
    pub addresses: Fidelity,
    /// The result under the file's own settings and limit, when the rules also place the segments.
    pub own: Outcome,
    /// The difference of its peak of *reserved* from the recorded one: 0.01 is 1 % too much.
    pub peak_reserved_error: f64,
}

/// Curves of the levels, as recorded and as they would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curves {
    /// As recorded.
    pub recorded: Curve,
    /// The curve of the answer. If the question has no limit, under the limit that the recording
    /// shows.
    pub what_if: Curve,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// How far it can be trusted.
    pub calibration: Calibration,
    /// What was recorded.
    pub recorded: Recorded,
    /// The limit in the question, or the one found in the recording.
    pub limit: Option<Bytes>,
    /// Whether garbage is collected only if a memory fraction is set, which the recording does not
    /// show.
    pub needs_fraction: bool,
    /// What was cached and free before the first event, and is left out of the answer because other
    /// segments would have held it.
    pub left_out: Bytes,
    /// How many recorded requests failed, and the program went on without them.
    pub passed_over: u64,
    /// Whether the limit of the recording is told within narrower bounds than the recording shows:
    /// those within which replay gives the recorded failure.
    pub is_limit_narrowed: bool,
    /// The answer to the question.
    pub what_if: Outcome,
    /// The same under the limit that the recording shows, if the question has no limit.
    pub at_recorded_limit: Option<Outcome>,
    /// The curves, if the question asks for them.
    pub curves: Option<Curves>,
}

impl Question {
    /// The settings that it asks for, under the version of PyTorch that the file is of.
    fn settings_beside(&self, own: &Config) -> Config {
        let settings = self.settings.as_ref().unwrap_or(own).clone();
        settings.under_version_of(own)
    }
}

/// Answers a question about a device of a file with these settings.
///
/// # Errors
/// [`Stopped`].
pub fn ask(
    device: &DeviceTrace,
    own: &Config,
    question: &Question,
    watch: Watch<'_>,
) -> Result<Answer, Stopped> {
    let mut evidence = evidence(device, own, watch)?;
    let mut calibration = calibrate(Replay::new(device, &evidence, watch), own)?;
    let narrowed = narrowed(Replay::new(device, &evidence, watch), own, &calibration.own)?;
    if narrowed.is_some() {
        evidence.limit = narrowed;
        calibration = calibrate(Replay::new(device, &evidence, watch), own)?;
    }
    let seen = evidence.limit;
    let own_limit = seen.map(LimitSeen::limit);
    let replay = Replay::new(device, &evidence, watch);
    let settings = &question.settings_beside(own);
    let limit = match question {
        Question {
            settings: None,
            limit: None,
            ..
        } => own_limit,
        _ => question.limit.map(Limit::of_process),
    };
    let under = |limit| Conditions {
        early: &question.early,
        ..Conditions::as_recorded(settings, limit)
    };
    let run = |limit, columns| {
        let as_recorded = settings == own && limit == own_limit && question.early.is_empty();
        let conditions = under(limit);
        let (outcome, curve) = match (as_recorded, columns) {
            (true, 0) => return Ok((calibration.own, None)),
            (true, _) => replay.drawn(&conditions, columns)?,
            (false, _) => told(replay, conditions, columns)?,
        };
        Ok((outcome, Some(curve)))
    };
    let second = own_limit.filter(|_| question.limit.is_none() && limit.is_none());
    // The curve belongs to the outcome that the answer is about.
    let columns = |is_second| match is_second == second.is_some() {
        true => question.columns,
        false => 0,
    };
    let (what_if, first_curve) = run(limit, columns(false))?;
    let at_limit = second.map(|limit| run(Some(limit), columns(true)));
    let (at_recorded_limit, second_curve) = at_limit.transpose()?.unzip();
    let drawn = second_curve.unwrap_or(first_curve);
    let drawn = drawn.filter(|_| question.columns > 0);
    Ok(Answer {
        recorded: recorded(device, seen),
        limit: limit.map(|limit| limit.bytes),
        needs_fraction: settings.garbage_collection_threshold > 0.0
            && limit.or(second).is_some()
            && seen.is_none_or(|seen| seen.by == Refuser::Device),
        left_out: left_out(device, settings),
        passed_over: oom::passed_over(device).len() as u64,
        is_limit_narrowed: narrowed.is_some(),
        what_if,
        at_recorded_limit,
        curves: drawn.map(|what_if| Curves {
            recorded: Curve::recorded(device, question.columns),
            what_if,
        }),
        calibration,
    })
}

/// The limits that fit the recording and give its first failure in replay, if the largest that fits
/// does not, with this outcome. `None` if it does, or none of those that are tried.
fn narrowed(
    replay: Replay<'_>,
    own: &Config,
    outcome: &Outcome,
) -> Result<Option<LimitSeen>, Stopped> {
    let (Some(failure), Some(seen)) = (oom::first(replay.device), replay.evidence.limit) else {
        return Ok(None);
    };
    if outcome
        .failed
        .is_some_and(|failed| failed.event == failure.event)
    {
        return Ok(None);
    }
    let found = remedies::found_again(replay, own, seen, failure.event)?;
    // Those above the largest that was tried may not give it.
    Ok(found.map(|found| LimitSeen {
        below: found.largest.saturating_add(Bytes(1)),
        ..found.limits
    }))
}

/// The outcome under these conditions that is to be told, with its curve.
fn told(
    replay: Replay<'_>,
    mut conditions: Conditions<'_>,
    columns: u32,
) -> Result<(Outcome, Curve), Stopped> {
    let (mut outcome, mut curve) = replay.drawn(&conditions, columns)?;
    if let Some((spread, placement)) = Spread::of(replay, &conditions, &outcome)? {
        if placement != conditions.placement {
            conditions.placement = placement;
            (outcome, curve) = replay.drawn(&conditions, columns)?;
        }
        outcome.spread = Some(spread);
    }
    outcome.waiting = Waiting::of(replay, &conditions, &outcome)?;
    outcome.earlier = Earlier::of(replay, &conditions, &outcome)?;
    outcome.without_work_space = Ending::without_work_space(replay, &conditions, &outcome)?;
    outcome.on_full_card = Ending::on_full_card(replay, &conditions, &outcome)?;
    Ok((outcome, curve))
}

/// What was cached and free before the first event, if these settings would hold it in other
/// segments.
fn left_out(device: &DeviceTrace, settings: &Config) -> Bytes {
    let start = |series: Series| device.summary[series as usize].start;
    match begin::lies_alike(device, settings) {
        true => Bytes::ZERO,
        false => start(Series::Reserved).saturating_sub(start(Series::Active)),
    }
}

/// The settings that a device was recorded under.
pub fn own_settings(format: &FormatInfo, device: &DeviceTrace) -> Config {
    let actions = device.events.action.iter().copied();
    let torch = format.torch_guess.as_deref();
    let mut settings = Config::of_recording(&format.settings, torch, actions);
    // What was mapped before the first event shows that, too.
    settings.expandable_segments |= device.segments_before.iter().any(|s| s.expandable);
    settings.padding = Config::padding_of(&device.blocks.kinds);
    let kinds = device.blocks.kinds.iter();
    let of_kinds = kinds.map(|kind| (PoolKey::of(kind), kind.size.0, kind.requested.0));
    settings.unsplit_pools = settings.unsplit_pools_of(of_kinds);
    let mut before = device.segments_before.iter();
    settings.expandable_private |=
        before.any(|segment| segment.expandable && segment.pool != PoolId::default());
    settings
}

fn calibrate(replay: Replay<'_>, own: &Config) -> Result<Calibration, Stopped> {
    let device = replay.device;
    let limit = replay.evidence.limit.map(LimitSeen::limit);
    let outcome = replay.under(&Conditions::as_recorded(own, limit))?;
    let recorded = device.summary[Series::Reserved as usize].peak;
    let difference = outcome.peak_reserved.0 as f64 - recorded.0 as f64;
    Ok(Calibration {
        addresses: device.fidelity,
        own: outcome,
        peak_reserved_error: match recorded {
            Bytes::ZERO => 0.0,
            recorded => difference / recorded.0 as f64,
        },
    })
}

fn recorded(device: &DeviceTrace, limit: Option<LimitSeen>) -> Recorded {
    let failed = oom::first(device).map(|failure| failure.event);
    Recorded {
        peak_allocated: device.summary[Series::Allocated as usize].peak,
        peak_reserved: device.summary[Series::Reserved as usize].peak,
        failed: failed.map(|event| (event, step_at(device, event))),
        limit,
    }
}

/// The step that an event lies in; between two steps, the next one. That is the number of steps
/// that had ended. A recording without steps counts as one step.
fn step_at(device: &DeviceTrace, event: EventIdx) -> u32 {
    device
        .steps
        .partition_point(|step| step.events.end() <= event) as u32
}

#[cfg(test)]
mod tests;
