//! A summary of one rank, small enough to keep for thousands of ranks.

use super::backward;
use super::begin;
use super::curves::{Curve, PARTS};
use super::failure::RankFailure;
use super::leaking_place::{RankPlace, places};
use super::moment::Moment;
use super::other_devices::{self, OtherDevice};
use super::rank_site::RankSite;
use super::together::{self, Together};
use crate::allocator::conf;
use crate::code;
use crate::compare::curves::{Align, Alignment};
use crate::compare::noise::SITE_FLOOR;
use crate::compare::numbering::Numbering;
use crate::compare::profile::{DeviceProfile, Profile};
use crate::device::DeviceIdx;
use crate::growth::{Growth, wobble};
use crate::leaks::Verdict;
use crate::main_device;
use crate::stacks::Stacks;
use crate::trace::{DeviceTrace, Series, StepSource, Trace};
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use crate::what_if;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// How many sites of a rank are kept, the largest ones.
pub const MAX_SITES: usize = 256;

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankProfile {
    /// CUDA ordinal of the device that is looked at: [`main_device`].
    pub device: DeviceIdx,
    /// Largest *allocated*.
    pub peak_allocated: Bytes,
    /// Largest *reserved*.
    pub peak_reserved: Bytes,
    /// Largest *requested*.
    pub peak_requested: Bytes,
    /// Settings of the allocator, as text; `None` where the file does not tell them.
    pub settings: Option<String>,
    /// *Allocated* after the last event.
    pub end: Bytes,
    /// What it holds without a stack when the recording begins: which code made that is not known.
    pub from_before: Bytes,
    /// Where the steps come from.
    pub step_source: StepSource,
    /// How many ran to their end.
    pub whole_steps: u32,
    /// The numbers in the names of its steps.
    pub numbering: Option<Numbering>,
    /// Whether the ring of events wrapped.
    pub wrapped: bool,
    /// Whether its peaks are only known to be no lower: its ring wrapped, or it holds no events.
    pub at_least: bool,
    /// The first failed allocation.
    pub oom: Option<RankFailure>,
    /// Growth of *allocated* at the ends of whole steps.
    pub growth: Option<Growth>,
    /// Where in its program it stands highest.
    pub moment: Moment,
    /// How much the peaks of its whole steps but the first differ, apart from their trend.
    pub wobble: Bytes,
    /// Whether it leaks.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// Bytes that accumulate with each step; with each part of one, when it grows within steps.
    pub leaked_per_step: f64,
    /// Where: what grows from step to step first, then the fastest first.
    pub leaks: Vec<RankPlace>,
    /// The device that this verdict is about, if it is another one.
    #[serde(default)]
    pub leaks_on: Option<DeviceIdx>,
    /// The other devices of its file.
    #[serde(default)]
    pub others: Vec<OtherDevice>,
    /// Whether it runs a stage of a pipeline.
    #[serde(default)]
    pub is_stage: bool,
    /// The sites that hold most.
    pub sites: Vec<RankSite>,
    /// Every site that was left out holds at most this much.
    pub floor: Bytes,
    /// *Allocated*.
    pub curve: Curve,
}

impl RankProfile {
    /// The profile of a trace; the search for leaks ends when `judging` stops it, and everything
    /// when `watch` does.
    ///
    /// # Errors
    /// [`Stopped`] by `watch`.
    pub fn of(trace: &Trace, judging: Watch<'_>, watch: Watch<'_>) -> Result<RankProfile, Stopped> {
        let profile = Profile::judged_while(trace, judging, watch)?;
        let devices = profile.devices.iter().zip(&trace.devices);
        let main = devices
            .clone()
            .max_by_key(|(_, device)| weight_in_a_job(device));
        let Some((profile, device)) = main else {
            return Ok(RankProfile::of_device(&DeviceProfile::default(), &[]));
        };
        let others = devices
            .filter(|(_, other)| other.device != device.device)
            .map(|(profile, other)| OtherDevice::of(profile, other, &trace.stacks, watch))
            .collect::<Result<Vec<OtherDevice>, Stopped>>()?;
        let mut sites = together::sites(profile, device, &trace.stacks, watch)?;
        backward::name(&mut sites, device, &trace.stacks, watch)?;
        let alignment = Alignment::new(device, Align::Step, &[]);
        let domain = alignment.domain();
        let (extents, _) = alignment.curve(Series::Allocated, domain, PARTS);
        let parts = extents.into_iter();
        let own = RankProfile::of_device(profile, &sites);
        Ok(RankProfile {
            moment: Moment::of_peak(profile, device, &trace.stacks),
            from_before: begin::from_before(device, watch)?,
            settings: (!trace.format.settings.is_empty())
                .then(|| conf::text(&what_if::own_settings(&trace.format, device))),
            oom: RankFailure::of(profile, device, &trace.stacks),
            curve: Curve {
                window: domain,
                parts: parts.map(|part| part.map(|e| [e.min, e.max])).collect(),
            },
            others,
            is_stage: runs_a_stage(&trace.stacks),
            ..own
        }
        .judged_over_devices())
    }

    /// A leak on another device is one of the rank, too: its own device may be without.
    pub(super) fn judged_over_devices(self) -> RankProfile {
        let leaking = other_devices::fastest(&self.others);
        let Some(other) = leaking.filter(|_| self.verdict != Verdict::Leak) else {
            return self;
        };
        RankProfile {
            verdict: other.verdict,
            reason: format!("{}: {}", other.device.name(), other.reason),
            leaked_per_step: other.leaked_per_step,
            leaks: other.leaks.clone(),
            leaks_on: Some(other.device),
            ..self
        }
    }

    /// `sites` are all that the device has.
    fn of_device(device: &DeviceProfile, sites: &[Together]) -> RankProfile {
        let leaks = &device.leaks;
        let summary = |series: Series| device.summary[series as usize];
        let whole = &device.steps[..device.steps.len().min(device.whole_steps as usize)];
        // The first one makes what lasts; what a later one alone does counts.
        let peaks: Vec<u64> = whole.iter().skip(1).map(|step| step.peak.0).collect();
        let (largest, floor) = largest(sites);
        RankProfile {
            device: device.device,
            peak_allocated: summary(Series::Allocated).peak,
            peak_reserved: summary(Series::Reserved).peak,
            peak_requested: summary(Series::Requested).peak,
            settings: None,
            end: summary(Series::Allocated).end,
            from_before: Bytes::ZERO,
            step_source: device.step_source,
            whole_steps: device.whole_steps,
            numbering: device.numbering(),
            wrapped: device.wrapped,
            at_least: device.is_least(),
            oom: None,
            growth: device
                .growth
                .map(|growth| match leaks.rates.by_steps.bytes > 0.0 {
                    true => growth,
                    false => growth.proven(0.0, Some(growth)),
                }),
            moment: Moment::default(),
            wobble: Bytes(wobble(&peaks)),
            verdict: leaks.verdict,
            reason: leaks.reason.clone(),
            leaked_per_step: leaks.told().0,
            leaks: places(device, sites),
            leaks_on: None,
            others: Vec::new(),
            is_stage: false,
            sites: largest,
            floor,
            curve: Curve::default(),
        }
    }
}

/// Whether a schedule of PyTorch's pipelines called something. A model is cut into such stages by
/// layers, and they hold what their layers need.
fn runs_a_stage(stacks: &Stacks) -> bool {
    let frames = stacks.all_frames().iter();
    let mut files = frames.map(|frame| code::slashed(stacks.str(frame.filename)));
    files.any(|file| file.ends_with("torch/distributed/pipelining/schedules.py"))
}

/// What decides between the devices of a rank: as for a file alone, but a device where most steps
/// do something comes before one that only holds something, however much that is.
fn weight_in_a_job(device: &DeviceTrace) -> (bool, bool, Bytes, Reverse<DeviceIdx>) {
    let (failed, peak, order) = main_device::weight_of(device);
    let at_work = device.steps.iter().filter(|step| !step.events.is_empty());
    let works = !device.steps.is_empty() && at_work.count() * 2 >= device.steps.len();
    (failed, works, peak, order)
}

/// The largest sites, those that leak first; and the most that any other site holds.
fn largest(sites: &[Together]) -> (Vec<RankSite>, Bytes) {
    let held = |site: &RankSite| site.most.max(site.at_end);
    let mut sorted: Vec<&Together> = sites.iter().collect();
    sorted.sort_by_key(|site| (Reverse((site.held.leaks, held(&site.held))), site.keys[0]));
    let worth = |site: &&&Together| site.held.leaks || held(&site.held) > SITE_FLOOR;
    let n = sorted.iter().take(MAX_SITES).take_while(worth).count();
    let (kept, rest) = sorted.split_at(n);
    let kept = kept.iter().map(|site| site.held.clone());
    let floor = rest.iter().map(|site| held(&site.held)).max();
    (kept.collect(), floor.unwrap_or(Bytes::ZERO))
}
