//! The same allocation site in all ranks.
//!
//! Sites are matched by their key ([`crate::site`]), the first way in which comparisons match them:
//! all ranks run one program, so nothing is renamed between them. A rank that does not have a site
//! holds 0 of it. If its smallest sites were left out, it may hold up to its floor; a difference
//! below that does not count.

use super::Rank;
use super::odd::median;
use super::profile::{RankProfile, RankSite};
use crate::compare::noise;
use crate::compare::profile::Place;
use crate::compare::sites::is_of_size;
use crate::stacks::FxHashMap;
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use serde::{Deserialize, Serialize};

/// How many sites of all ranks together are looked at. Only a file that was made to be large has
/// more.
const MAX_KNOWN: usize = 1 << 15;
/// Rows, the largest differences first.
pub const MAX_ROWS: usize = 1000;
/// Ranks named in a row.
pub const MAX_NAMED: usize = 8;

/// One site in all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SiteAcross {
    /// Names the row: equal in all ranks, and in comparisons.
    pub id: String,
    /// The frame that a person would recognise; absent without a stack.
    pub place: Option<Place>,
    /// Live when *allocated* of the rank stood highest: smallest, median, largest of all ranks.
    pub at_peak: [Bytes; 3],
    /// Live after the last event, the same.
    pub at_end: [Bytes; 3],
    /// Ranks that have the site.
    pub ranks: u32,
    /// Ranks in which it is found to leak.
    pub leaks: u32,
    /// How far a rank is from the median at most, at its peak or at its end. Rows are sorted by it.
    pub difference: Bytes,
    /// The ranks that differ most from the median, the farthest first.
    pub farthest: Vec<RankHolds>,
}

impl SiteAcross {
    /// The three levels at the peaks, or those at the ends and `true` if the ranks differ more
    /// there.
    pub fn shown(&self) -> ([Bytes; 3], bool) {
        let width = |[low, _, high]: [Bytes; 3]| high.saturating_sub(low);
        match width(self.at_end) > width(self.at_peak) {
            true => (self.at_end, true),
            false => (self.at_peak, false),
        }
    }
}

/// What a rank holds of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RankHolds {
    /// Which rank.
    pub rank: Rank,
    /// Live when *allocated* stood highest.
    pub at_peak: Bytes,
    /// Live after the last event.
    pub at_end: Bytes,
    /// Whether it is found to leak there.
    pub leaks: bool,
}

/// What was found.
pub(super) struct Found {
    pub rows: Vec<SiteAcross>,
    pub left_out: u32,
    pub same: u32,
    /// Ranks that could not be compared.
    pub silent: Vec<Rank>,
}

/// Collects what each rank holds.
#[derive(Default)]
pub(super) struct Across {
    ranks: Vec<Rank>,
    /// Of each rank, whether it does not say where most of its memory was allocated.
    silent: Vec<bool>,
    floor: Bytes,
    sites: FxHashMap<String, Site>,
}

#[derive(Default)]
struct Site {
    place: Option<Place>,
    wobble: Bytes,
    /// Positions among the ranks, rising.
    held: Vec<Held>,
}

#[derive(Clone, Copy)]
struct Held {
    at: u32,
    at_peak: Bytes,
    at_end: Bytes,
    leaks: bool,
}

impl Across {
    pub fn add(&mut self, rank: Rank, profile: &RankProfile) {
        let at = self.ranks.len() as u32;
        self.ranks.push(rank);
        let mut ids = profile.sites.iter().map(|site| &site.id);
        let has_no_stacks = ids.len() > 0 && ids.all(|id| is_of_size(id));
        self.silent.push(profile.wrapped || has_no_stacks);
        self.floor = self.floor.max(profile.floor);
        for site in &profile.sites {
            self.add_site(at, site);
        }
    }

    fn add_site(&mut self, at: u32, site: &RankSite) {
        if !self.sites.contains_key(&site.id) && self.sites.len() >= MAX_KNOWN {
            return;
        }
        let known = self.sites.entry(site.id.clone()).or_default();
        if known.place.is_none() {
            known.place.clone_from(&site.place);
        }
        known.wobble = known.wobble.max(site.wobble);
        known.held.push(Held {
            at,
            at_peak: site.at_peak,
            at_end: site.at_end,
            leaks: site.leaks,
        });
    }

    /// The sites that differ.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn finish(mut self, watch: Watch<'_>) -> Result<Found, Stopped> {
        let silent = self.without_silent();
        let Across {
            ranks,
            floor,
            sites,
            ..
        } = self;
        let n = sites.len();
        let mut rows: Vec<SiteAcross> = Vec::new();
        for (at, (id, site)) in sites.into_iter().enumerate() {
            watch.at_row(at, || 0)?;
            rows.extend(row(id, site, &ranks, floor));
        }
        let differ = rows.len();
        rows.sort_by(|a, b| {
            b.difference
                .cmp(&a.difference)
                .then_with(|| a.id.cmp(&b.id))
        });
        rows.truncate(MAX_ROWS);
        Ok(Found {
            left_out: (differ - rows.len()) as u32,
            same: (n - differ) as u32,
            rows,
            silent,
        })
    }

    /// Leaves out ranks that would seem to hold nothing at sites of others, because they were
    /// recorded without stacks or their rings wrapped. If all ranks are like that, none is.
    fn without_silent(&mut self) -> Vec<Rank> {
        if self.silent.iter().all(|&silent| silent) {
            return Vec::new();
        }
        let silent = std::mem::take(&mut self.silent);
        // The new position of each rank that stays.
        let mut place = Vec::with_capacity(silent.len());
        let mut kept = 0;
        for &is_silent in &silent {
            place.push((!is_silent).then_some(kept));
            kept += u32::from(!is_silent);
        }
        self.sites.retain(|_, site| {
            site.held.retain_mut(|held| match place[held.at as usize] {
                Some(at) => {
                    held.at = at;
                    true
                }
                None => false,
            });
            !site.held.is_empty()
        });
        let ranks = std::mem::take(&mut self.ranks).into_iter().zip(silent);
        let (out, ranks): (Vec<_>, Vec<_>) = ranks.partition(|(_, silent)| *silent);
        self.ranks = ranks.into_iter().map(|(rank, _)| rank).collect();
        if self.ranks.len() < 2 {
            self.sites.clear();
        }
        out.into_iter().map(|(rank, _)| rank).collect()
    }
}

/// The row of a site, if it differs.
fn row(id: String, site: Site, ranks: &[Rank], floor: Bytes) -> Option<SiteAcross> {
    let absent = ranks.len() - site.held.len();
    let spread = |level: fn(&Held) -> Bytes| {
        let held = site.held.iter().map(|held| level(held).0);
        let mut values: Vec<u64> = held.chain(std::iter::repeat_n(0, absent)).collect();
        let middle = median(&mut values);
        let (low, high) = (values.first().copied(), values.last().copied());
        [low.unwrap_or(0), middle, high.unwrap_or(0)].map(Bytes)
    };
    let (at_peak, at_end) = (spread(|h| h.at_peak), spread(|h| h.at_end));
    let off = |held: &Held| {
        let at_peak = held.at_peak.0.abs_diff(at_peak[1].0);
        Bytes(at_peak.max(held.at_end.0.abs_diff(at_end[1].0)))
    };
    let nothing = (0..ranks.len() as u32)
        .filter(|at| site.held.binary_search_by_key(at, |held| held.at).is_err())
        .map(|at| Held {
            at,
            at_peak: Bytes::ZERO,
            at_end: Bytes::ZERO,
            leaks: false,
        });
    // Among equally distant ranks, those that hold more come first, then the lower ranks.
    let mut all: Vec<Held> = site.held.iter().copied().chain(nothing).collect();
    let more = |held: &Held| held.at_peak.max(held.at_end);
    all.sort_by_key(|held| std::cmp::Reverse((off(held), more(held), std::cmp::Reverse(held.at))));
    let difference = all.first().map(off)?;
    let middle = at_peak[1].max(at_end[1]);
    let tolerance = noise::site(middle, middle, site.wobble);
    let tolerance = if absent > 0 {
        tolerance.max(floor)
    } else {
        tolerance
    };
    if difference <= tolerance {
        return None;
    }
    let farthest = all.iter().take_while(|held| off(held) > tolerance);
    Some(SiteAcross {
        id,
        place: site.place,
        at_peak,
        at_end,
        ranks: site.held.len() as u32,
        leaks: site.held.iter().filter(|held| held.leaks).count() as u32,
        difference,
        farthest: farthest
            .take(MAX_NAMED)
            .map(|held| RankHolds {
                rank: ranks[held.at as usize],
                at_peak: held.at_peak,
                at_end: held.at_end,
                leaks: held.leaks,
            })
            .collect(),
    })
}
