//! Many ranks of one job: how they differ, which is odd, and why.
//!
//! Each rank is reduced to a [`RankProfile`] of some kilobytes, made from the [`Profile`] that
//! comparisons use. A [`Surveyor`] takes one after the other, so that thousands of profiles are
//! never in memory at once. The result is a [`Survey`]. For each rank it has the levels and the
//! reasons why it is odd ([`odd`]). It also has the spread of the peaks, the same allocation site
//! in all ranks ([`sites`]), curves over one axis ([`curves`]) and sentences ([`words`]). The rules
//! and their reasons are in `docs/ranks.md`.
//!
//! [`Profile`]: crate::compare::profile::Profile

pub mod archives;
mod backward;
mod begin;
pub mod curves;
pub mod failure;
pub mod leaking_place;
mod listed;
pub mod moment;
pub mod names;
mod notes;
pub mod odd;
pub mod other_devices;
pub mod profile;
pub mod rank_site;
mod roles;
pub mod sites;
mod together;
mod words;

use crate::compare::numbering::{Numbering, places_of_many};
use crate::compare::told_peak;
use crate::device::DeviceIdx;
use crate::leaks::Verdict;
use crate::median;
use crate::trace::StepSource;
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use curves::{Aligned, Band, Curve};
use failure::RankFailure;
use leaking_place::RankPlace;
use listed::Extent;
use odd::Odd;
use other_devices::OtherDevice;
use profile::RankProfile;
use roles::Code;
use serde::{Deserialize, Serialize};
use sites::{Across, SiteAcross};
use std::collections::BTreeSet;
use std::fmt;

/// Ranks of a job, at most: they are the numbers below this.
pub const MAX_RANKS: u32 = 4096;
/// Kinds of code that ranks run, at most: of more, each is that of some ranks by chance, and nobody
/// can tell.
pub const MAX_GROUPS: usize = 8;

/// The number of a process among those of a job, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rank(pub u32);

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The ranks below the highest of `present` that are not there, and that a job can have. How many
/// ranks a program had is not recorded: what is missing above the highest cannot be known.
pub fn missing(present: impl IntoIterator<Item = Rank>) -> Vec<Rank> {
    missing_of(0, present)
}

/// The same of a job that is known to have so many ranks, if not more.
pub fn missing_of(at_least: u32, present: impl IntoIterator<Item = Rank>) -> Vec<Rank> {
    let present: BTreeSet<Rank> = present.into_iter().collect();
    let highest = present.last().map_or(0, |rank| rank.0);
    let below = (0..highest.max(at_least).min(MAX_RANKS)).map(Rank);
    below.filter(|rank| !present.contains(rank)).collect()
}

/// The sentence about missing ranks; `None` if none is missing.
pub fn missing_in_words(missing: &[Rank]) -> Option<String> {
    notes::missing(missing)
}

/// The first sentence where ranks cannot be read beside so many that can; `None` if all can.
pub fn unread_in_words(read: usize, unread: &[Rank]) -> Option<String> {
    notes::unread(read, unread)
}

/// What was found about all ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// What a person should know first, a sentence each.
    pub sentences: Vec<String>,
    /// Spread of the peaks of *allocated*; `None` without ranks.
    pub allocated: Option<Spread>,
    /// Spread of the peaks of *reserved*.
    pub reserved: Option<Spread>,
    /// The ranks, by rank.
    pub ranks: Vec<RankRow>,
    /// *Allocated* of all ranks over one axis.
    pub band: Band,
    /// The same for each rank, in the order of `ranks`.
    pub curves: Vec<Curve>,
    /// Sites that differ between ranks, the largest difference first.
    pub sites: Vec<SiteAcross>,
    /// Sites that differ but are not in `sites`, since there are too many.
    pub sites_left_out: u32,
    /// Sites that hold the same in all ranks.
    pub sites_same: u32,
    /// Sites that may hold the same: some ranks hold memory from before their recordings, and that
    /// may belong there.
    pub sites_unclear: u32,
    /// What is said of the sites if none differs: `all 9 sites hold the same in all ranks`. That is
    /// not said of ranks whose peaks differ: some site holds more, and its own steps differ by as
    /// much.
    pub none_differs: Option<String>,
    /// Whether the ranks stand highest at different moments of their program, so that what a site
    /// holds then cannot be compared.
    pub moments_differ: bool,
}

/// Smallest, median and largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RankSpread))]
pub struct Spread {
    /// Smallest.
    pub min: Bytes,
    /// The rank that has it, the first of several.
    pub min_rank: Rank,
    /// In the middle; the mean of two middles.
    pub median: Bytes,
    /// Largest.
    pub max: Bytes,
    /// The rank that has it, the first of several.
    pub max_rank: Rank,
}

impl Spread {
    /// Of values of ranks; `None` without any.
    pub fn of(values: &[(Rank, Bytes)]) -> Option<Spread> {
        let (min_rank, min) = *values.iter().min_by_key(|&&(rank, n)| (n, rank))?;
        let largest = |&&(rank, n): &&(Rank, Bytes)| (n, std::cmp::Reverse(rank));
        let (max_rank, max) = *values.iter().max_by_key(largest)?;
        let median = median::mean(values.iter().map(|(_, n)| n.0))?;
        Some(Spread {
            min,
            min_rank,
            median: Bytes(median),
            max,
            max_rank,
        })
    }
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RankRow {
    /// Which.
    pub rank: Rank,
    /// The same number for ranks that run the same code: only these are held against one another.
    #[serde(default)]
    pub group: u32,
    /// CUDA ordinal of the device that is looked at: the main one.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub device: DeviceIdx,
    /// Largest *allocated*.
    pub peak_allocated: Bytes,
    /// Largest *reserved*.
    pub peak_reserved: Bytes,
    /// Largest *requested*, which no setting of the allocator changes.
    #[serde(default)]
    pub peak_requested: Bytes,
    /// Settings of the allocator as `PYTORCH_CUDA_ALLOC_CONF` sets them, empty for its defaults;
    /// absent where the file does not tell them.
    #[serde(default)]
    pub settings: Option<String>,
    /// *Allocated* after the last event.
    pub end: Bytes,
    /// What it holds without a stack when the recording begins: which code made that is not known.
    #[serde(default)]
    pub from_before: Bytes,
    /// Growth of *allocated* a step, bytes; absent with fewer than three settled steps.
    pub growth: Option<f64>,
    /// Steps that ran to their end.
    pub steps: u32,
    /// Where they come from.
    pub step_source: StepSource,
    /// Whether the ring of events wrapped: what came before it is not known.
    pub wrapped: bool,
    /// Whether its peaks are only known to be no lower: its ring wrapped, or it holds no events.
    #[serde(default)]
    pub at_least: bool,
    /// The first failed allocation.
    pub oom: Option<RankFailure>,
    /// Whether it leaks.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// Bytes that accumulate with each step; with each part of one, if it grows within steps only.
    pub leaked_per_step: f64,
    /// Where: what grows from step to step first, then the fastest first.
    pub leaks: Vec<RankPlace>,
    /// The device that leaks, if it is another than the one that is compared.
    #[serde(skip)]
    pub leaks_on: Option<DeviceIdx>,
    /// What it has on other devices.
    #[serde(skip)]
    pub others: Vec<OtherDevice>,
    /// Whether it runs a stage of a pipeline: stages differ by design.
    #[serde(skip)]
    pub is_stage: bool,
    /// What sets it apart from the others, the gravest first.
    pub odd: Vec<Odd>,
    /// Its position when ranks are sorted by how odd they are; 0 is the oddest.
    pub by_oddness: u32,
}

impl RankRow {
    /// Its peak of *allocated* in words.
    pub fn peak(&self) -> String {
        self.told(self.peak_allocated)
    }

    /// A peak of it in words: `8.00 GiB`, or `at least 8.00 GiB`.
    pub fn told(&self, peak: Bytes) -> String {
        told_peak(peak, self.at_least)
    }

    /// Where it peaks: `peaks at 8.00 GiB`, or `reaches at least 8.00 GiB`.
    pub fn peaks(&self) -> String {
        match self.at_least {
            true => format!("reaches {}", self.peak()),
            false => format!("peaks at {}", self.peak()),
        }
    }

    /// ` on device 1`, where another device than the one that is compared leaks.
    fn on_which(&self) -> String {
        self.leaks_on
            .map_or_else(String::new, |device| format!(" on {}", device.name()))
    }

    /// Whether it leaks within steps only: then its rate is bytes a part of a step.
    fn leaks_within(&self) -> bool {
        self.leaks.first().is_some_and(|leak| leak.within_step)
    }
}

/// Takes profiles, one after the other.
#[derive(Default)]
pub struct Surveyor {
    rows: Vec<RankRow>,
    extent: Extent,
    wobbles: Vec<Bytes>,
    codes: Vec<Code>,
    curves: Vec<Curve>,
    numberings: Vec<Option<Numbering>>,
    across: Across,
}

impl Surveyor {
    /// Says that the job has other ranks than those that are added: some are missing, or cannot be
    /// read. Then nothing is said of all ranks.
    pub const fn lacks_some(&mut self) {
        self.extent = Extent::Part;
    }

    /// Adds a rank. Each rank must be added once, in rising order.
    pub fn add(&mut self, rank: Rank, profile: RankProfile) {
        self.wobbles.push(profile.wobble);
        self.codes.push(Code::of(&profile.sites));
        self.across.add(rank, &profile);
        self.curves.push(profile.curve);
        self.numberings.push(profile.numbering);
        self.rows.push(RankRow {
            rank,
            group: 0,
            device: profile.device,
            peak_allocated: profile.peak_allocated,
            peak_reserved: profile.peak_reserved,
            peak_requested: profile.peak_requested,
            settings: profile.settings,
            end: profile.end,
            from_before: profile.from_before,
            // From two ends nothing is told.
            growth: (profile.growth.filter(|growth| growth.error.is_some()))
                .map(|growth| growth.slope),
            steps: profile.whole_steps,
            step_source: profile.step_source,
            wrapped: profile.wrapped,
            at_least: profile.at_least,
            oom: profile.oom,
            verdict: profile.verdict,
            reason: profile.reason,
            leaked_per_step: profile.leaked_per_step,
            leaks: profile.leaks,
            leaks_on: profile.leaks_on,
            others: profile.others,
            is_stage: profile.is_stage,
            odd: Vec::new(),
            by_oddness: 0,
        });
    }

    /// The result for all ranks.
    pub fn finish(self) -> Survey {
        Watch::undisturbed(|watch| self.finish_while(watch))
    }

    /// The same, with a `watch` that may stop it.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn finish_while(self, watch: Watch<'_>) -> Result<Survey, Stopped> {
        watch.look(0)?;
        let mut ranks = self.rows;
        for (row, group) in ranks.iter_mut().zip(roles::groups(&self.codes)) {
            row.group = group;
        }
        odd::judge(&mut ranks, &self.wobbles);
        let spread = |level: fn(&RankRow) -> Bytes| {
            let values: Vec<_> = ranks.iter().map(|row| (row.rank, level(row))).collect();
            Spread::of(&values)
        };
        let (allocated, reserved) = (spread(|r| r.peak_allocated), spread(|r| r.peak_reserved));
        let mut places = places_of_many(&self.numberings);
        let firsts: Vec<Option<u32>> = self
            .numberings
            .iter()
            .map(|own| Some(own.as_ref()?.first()))
            .collect();
        begin::lay_at_the_end(&ranks, &firsts, &mut places);
        let placed = self.curves.into_iter().zip(places);
        let placed: Vec<Curve> = placed.map(|(curve, at)| curve.beginning_at(at)).collect();
        let Aligned { band, curves } = {
            let groups: Vec<u32> = ranks.iter().map(|row| row.group).collect();
            curves::aligned(&placed, &groups, watch)?
        };
        let found = self.across.finish(watch)?;
        let mut sentences = words::sentences(&ranks, self.extent, allocated.as_ref(), &found.rows);
        sentences.extend(notes::elsewhere(&ranks, &found.elsewhere));
        sentences.extend(notes::from_before(&ranks, &firsts, found.unclear));
        sentences.extend(notes::silent(&found.silent));
        let none_differs = notes::none_differs(&ranks, self.extent, &found);
        Ok(Survey {
            sentences,
            allocated,
            reserved,
            band,
            curves,
            sites: found.rows,
            sites_left_out: found.left_out,
            sites_same: found.same,
            sites_unclear: found.unclear + found.on_other_devices,
            none_differs,
            moments_differ: found.moments_differ,
            ranks,
        })
    }
}

#[cfg(test)]
mod tests;
