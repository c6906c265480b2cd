//! What a rank uses beside the device that is compared.
//!
//! A process of a job has one device by design, but it may use more: half a model on each of two,
//! or what was left on device 0 by mistake, where a checkpoint was loaded or a tensor gathered. The
//! bytes of these devices stand in no row. So it is told that they are there, a leak there is a
//! leak of the rank, and what a rank holds of a site there is not called nothing (the module
//! `sites`).

use super::leaking_place::{RankPlace, places};
use super::listed::{listed, listed_words, named};
use super::together::{self, Together};
use super::{Rank, RankRow};
use crate::compare::noise::SITE_FLOOR;
use crate::compare::profile::{DeviceProfile, Place};
use crate::device::DeviceIdx;
use crate::leaks::{Verdict, rate_unit};
use crate::stacks::Stacks;
use crate::trace::{DeviceTrace, Series};
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Less than this on another device is not told: the context of a process needs none of it, but a
/// barrier or a flag may.
const TOLD: Bytes = Bytes::mib(1);
/// From more sentences than this on, one stands for all.
const SENTENCES: usize = 3;
/// How many sites of another device are kept, the largest ones.
const SITES: usize = 256;

/// Another device in the file of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherDevice {
    /// Which.
    pub device: DeviceIdx,
    /// Largest *allocated*.
    pub peak_allocated: Bytes,
    /// *Allocated* after the last event.
    pub end: Bytes,
    /// The place that holds most at the end, or at the peak if nothing is left.
    pub place: Option<Place>,
    /// Whether it leaks.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// Bytes that accumulate with each step or part of one, as those of a rank.
    pub leaked_per_step: f64,
    /// Where.
    pub leaks: Vec<RankPlace>,
    /// The sites that hold most, and how much at any moment.
    pub sites: Vec<(String, Bytes)>,
}

impl OtherDevice {
    /// # Errors
    /// [`Stopped`].
    pub(super) fn of(
        profile: &DeviceProfile,
        device: &DeviceTrace,
        stacks: &Stacks,
        watch: Watch<'_>,
    ) -> Result<OtherDevice, Stopped> {
        let sites = together::sites(profile, device, stacks, watch)?;
        let allocated = profile.summary[Series::Allocated as usize];
        let held = |site: &&Together| match allocated.end >= TOLD {
            true => site.held.at_end,
            false => site.held.at_peak,
        };
        let with_place = sites.iter().filter(|site| site.held.place.is_some());
        let place = with_place
            .max_by_key(held)
            .and_then(|site| site.held.place.clone());
        let mut largest: Vec<(String, Bytes)> = sites
            .iter()
            .map(|site| (site.held.id.clone(), site.held.most))
            .filter(|(_, most)| *most > SITE_FLOOR)
            .collect();
        largest.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
        largest.truncate(SITES);
        Ok(OtherDevice {
            device: profile.device,
            peak_allocated: allocated.peak,
            end: allocated.end,
            place,
            verdict: profile.leaks.verdict,
            reason: profile.leaks.reason.clone(),
            leaked_per_step: profile.leaks.told().0,
            leaks: places(profile, &sites),
            sites: largest,
        })
    }

    fn is_told(&self) -> bool {
        self.peak_allocated >= TOLD
    }

    fn leaks(&self) -> bool {
        self.verdict == Verdict::Leak
    }
}

/// The device that leaks fastest of these, if any does.
pub(super) fn fastest(others: &[OtherDevice]) -> Option<&OtherDevice> {
    let leaking = others.iter().filter(|other| other.leaks());
    leaking.max_by(|a, b| a.leaked_per_step.total_cmp(&b.leaked_per_step))
}

/// Whether nobody knows of some memory on another device whether it leaks.
pub(super) fn some_are_unknown(ranks: &[RankRow]) -> bool {
    let is_unknown = |other: &OtherDevice| other.is_told() && other.verdict != Verdict::Clean;
    ranks.iter().any(|row| row.others.iter().any(is_unknown))
}

/// What is said of ranks that leak on further devices than the one that their leak is told of.
pub(super) fn leak_too(ranks: &[RankRow]) -> Vec<String> {
    let further = |row: &RankRow| -> Vec<OtherDevice> {
        let told = row.leaks_on;
        let others = row.others.iter();
        others
            .filter(|other| other.leaks() && Some(other.device) != told)
            .cloned()
            .collect()
    };
    let rows = ranks.iter().map(|row| (row, further(row)));
    let rows: Vec<_> = rows.filter(|(_, others)| !others.is_empty()).collect();
    if rows.len() > SENTENCES {
        let who: Vec<&RankRow> = rows.iter().map(|(row, _)| *row).collect();
        return vec![format!("{} leak on other devices, too.", named(&who))];
    }
    let told = |(row, others): (&RankRow, Vec<OtherDevice>)| {
        let fastest = fastest(&others)?;
        let on: BTreeSet<DeviceIdx> = others.iter().map(|other| other.device).collect();
        let place = fastest.leaks.first();
        let within = place.is_some_and(|place| place.within_step);
        let place = place.filter(|leak| !leak.place.name.is_empty());
        Some(format!(
            "{} leaks on {}, too: {}{} {}{}.",
            listed(&[row.rank]),
            devices(&on),
            if on.len() > 1 { "up to " } else { "" },
            Bytes(fastest.leaked_per_step.max(0.0).round() as u64),
            rate_unit(within),
            place.map_or_else(String::new, |leak| format!(", in {}", leak.place.told())),
        ))
    };
    rows.into_iter().filter_map(told).collect()
}

/// What is said of the memory that ranks have on other devices; a sentence for those that use the
/// same ones.
pub(super) fn used(ranks: &[RankRow]) -> Vec<String> {
    let mut users: BTreeMap<DeviceIdx, Vec<Rank>> = BTreeMap::new();
    for row in ranks {
        for other in row.others.iter().filter(|other| other.is_told()) {
            users.entry(other.device).or_default().push(row.rank);
        }
    }
    let mut alike: BTreeMap<Vec<Rank>, BTreeSet<DeviceIdx>> = BTreeMap::new();
    for (device, by) in users {
        alike.entry(by).or_default().insert(device);
    }
    if alike.len() > SENTENCES {
        return Vec::from_iter(used_by_many(ranks));
    }
    let of = |by: &[Rank], on: &BTreeSet<DeviceIdx>| -> Vec<&OtherDevice> {
        let rows = ranks.iter().filter(|row| by.contains(&row.rank));
        let others = rows.flat_map(|row| &row.others);
        others
            .filter(|other| other.is_told() && on.contains(&other.device))
            .collect()
    };
    let told = alike.iter();
    told.filter_map(|(by, on)| used_by(ranks, by, on, &of(by, on)))
        .collect()
}

/// One sentence for many ranks, with the one that has most.
fn used_by_many(ranks: &[RankRow]) -> Option<String> {
    let others = |row: &RankRow| row.others.iter().any(OtherDevice::is_told);
    let by: Vec<&RankRow> = ranks.iter().filter(|row| others(row)).collect();
    let all = by.iter();
    let all = all.flat_map(|row| row.others.iter().map(move |other| (row.rank, other)));
    let size = |(rank, other): &(Rank, &OtherDevice)| {
        (
            other.peak_allocated,
            other.end,
            Reverse(*rank),
            Reverse(other.device),
        )
    };
    let (rank, most) = all.max_by_key(size)?;
    let (who, device) = (named(&by), most.device);
    let left = match most.end >= TOLD {
        true => format!(", of which {} are still there at the end", most.end),
        false => String::new(),
    };
    Some(format!(
        "{who} also used other devices: up to {} (rank {rank} on device {device}){left}.",
        most.peak_allocated
    ))
}

fn used_by(
    ranks: &[RankRow],
    by: &[Rank],
    on: &BTreeSet<DeviceIdx>,
    others: &[&OtherDevice],
) -> Option<String> {
    let peak = others.iter().map(|other| other.peak_allocated).max()?;
    let last = others
        .iter()
        .max_by_key(|other| (other.end, other.peak_allocated))?;
    let each = match (by.len(), on.len()) {
        (1, 1) => "",
        (1, _) => " on each",
        _ => " each",
    };
    let up_to = if each.is_empty() { "" } else { "up to " };
    let place = last.place.as_ref().map(Place::told);
    let rest = match (last.end >= TOLD, place) {
        (true, place) => format!(
            ", of which {up_to}{} are still there at the end{}",
            last.end,
            place.map_or_else(String::new, |place| format!(", most of it in {place}")),
        ),
        (false, Some(place)) => format!(", most of it in {place}; little is left at the end"),
        (false, None) => "; little is left at the end".to_owned(),
    };
    Some(format!(
        "{} also used {}{}: up to {peak}{each}{rest}.",
        listed(by),
        devices(on),
        owner(ranks, on),
    ))
}

/// `, the one of rank 0`: whose device it is, where each rank has one of its own.
fn owner(ranks: &[RankRow], on: &BTreeSet<DeviceIdx>) -> String {
    let own: BTreeSet<DeviceIdx> = ranks.iter().map(|row| row.device).collect();
    let is_of_one_host = own.len() == ranks.len();
    let device = on.first().filter(|_| on.len() == 1 && is_of_one_host);
    let owner = ranks.iter().find(|row| Some(&row.device) == device);
    owner.map_or_else(String::new, |row| format!(", the one of rank {}", row.rank))
}

/// `device 0`, `devices 1, 2 and 3`.
fn devices(on: &BTreeSet<DeviceIdx>) -> String {
    let numbers: Vec<String> = on.iter().map(DeviceIdx::to_string).collect();
    match &numbers[..] {
        [one] => format!("device {one}"),
        _ => format!("devices {}", listed_words(&numbers)),
    }
}
