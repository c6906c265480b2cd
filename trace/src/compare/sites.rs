//! Differences by stack: which sites are the same, and which hold more or less.
//!
//! 1. Sites with equal keys are the same: the key is a call shape without lines and install paths
//!    ([`crate::site`]).
//! 2. The other sites are matched by the part of their stack that a rename would not change. There
//!    are four rounds. First by function names alone (a file was renamed). Then with each function
//!    that the other run does not have replaced by a blank (a function was renamed). Then with
//!    these functions left out (a wrapper was added, or a call inlined). In each round, sites with
//!    equal remainders are paired by how similar their sizes are; at least half of the bytes must
//!    be in sizes that both have. In a last round, sites are paired whose innermost function and
//!    whose innermost function of the program are the same, and that make as many blocks of the
//!    same sizes, whatever callers lie between. Such pairs are marked as inferred.
//! 3. All others are new or gone, but for those that cancel ([`super::cancel`]).

use super::cancel::{self, Row, Unnamed};
use super::names::{Names, Room};
use super::noise;
use super::profile::{DeviceProfile, Place, SiteProfile};
use crate::footprint::of_vec_after;
use crate::site::SiteKey;
use crate::stacks::{FxHashMap, fx_hash};
use crate::units::Bytes;
use crate::watch::{EVERY, Stopped, Watch};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Share of the bytes that must be in sizes that both sites have.
const ALIKE: f64 = 0.5;
/// How many pairs are looked at, in all buckets and rounds together. Only a file that was made to
/// be slow has more.
const MAX_PAIRS: usize = 1_000_000;
/// Rows of the table, the largest differences first.
pub const MAX_ROWS: usize = 500;

/// What became of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SiteChange {
    /// It holds more.
    Grown,
    /// It holds less.
    Shrunk,
    /// It holds as much as before, but more or less of it when the runs hold most.
    Shifted,
    /// Only the new run has it.
    New,
    /// Only the baseline has it.
    Gone,
}

/// How two sites were found to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Matched {
    /// By their key.
    Exactly,
    /// By what remains of their stacks, and their sizes.
    Inferred,
    /// There is only one.
    Alone,
}

/// A site of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SiteSide {
    /// The stack that accounts for most of it, an index of its run's stacks.
    pub stack: u32,
    /// The frame that a person would recognise.
    pub place: Option<Place>,
    /// Frames, innermost first.
    pub frames: Vec<Place>,
    /// Blocks.
    pub count: u64,
    /// Bytes of all of them.
    pub made: Bytes,
    /// Live at the site's own highest moment.
    pub peak: Bytes,
    /// Live when *allocated* stood highest.
    pub at_peak: Bytes,
    /// Live after the last event.
    pub at_end: Bytes,
    /// Growth of what is live at the ends of steps, bytes a step.
    pub growth: f64,
    /// Whether it is found to leak.
    pub leaks: bool,
    /// The requested size that accounts for most bytes.
    pub size: Bytes,
}

/// One row of the table of differences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SiteDelta {
    /// Names the row in links: the key of the site in the newer run that has it.
    pub id: String,
    /// What became of it.
    pub change: SiteChange,
    /// How the two were found to be the same.
    pub matched: Matched,
    /// Difference of the site's own peaks, bytes.
    pub peak: i64,
    /// Difference of what is live at the two runs' peaks; with what no row tells, these add up to
    /// that of the peaks.
    pub at_peak: i64,
    /// Difference of what is live at the end; with what no row tells, these add up to that of the
    /// ends.
    pub at_end: i64,
    /// Difference of growth, bytes a step.
    pub growth: f64,
    /// In the baseline.
    pub base: Option<SiteSide>,
    /// In the new run.
    pub new: Option<SiteSide>,
}

impl SiteDelta {
    /// The sort key of rows: the largest of the differences, bytes.
    pub fn weight(&self) -> u64 {
        self.peak.unsigned_abs().max(self.at_end.unsigned_abs())
    }

    /// The difference to name, bytes: of the site's own peak, or where that is the same, of what it
    /// holds at the end or at the peaks of the runs.
    pub fn by(&self) -> i64 {
        let mut levels = [self.peak, self.at_end, self.at_peak].into_iter();
        let found = levels.find(|by| by.unsigned_abs() > noise::SITE_FLOOR.0);
        found.unwrap_or(self.peak)
    }

    /// Whether the site only holds more or less at the peaks of the runs: its own peak and its end
    /// are the same.
    pub fn is_of_the_peaks(&self) -> bool {
        self.at_peak.unsigned_abs() > noise::SITE_FLOOR.0 && self.weight() <= noise::SITE_FLOOR.0
    }

    /// The frame that a person would recognise, of the side that [`SiteDelta::told`] tells.
    pub fn place(&self) -> Option<&Place> {
        self.told().and_then(|side| side.place.as_ref())
    }

    /// The side that is told: that of the new run if it has the site. If only the baseline's leaks,
    /// or if the new run holds next to nothing of it, the baseline's stack is that of the bytes,
    /// and the other one is that of other lines.
    pub fn told(&self) -> Option<&SiteSide> {
        let is_little = |side: &SiteSide| side.peak <= noise::SITE_FLOOR;
        match (&self.base, &self.new) {
            (Some(base), Some(new))
                if !new.leaks && (base.leaks || is_little(new) && !is_little(base)) =>
            {
                Some(base)
            }
            (base, new) => new.as_ref().or(base.as_ref()),
        }
    }
}

/// Which sites of two runs are the same.
#[derive(Debug)]
pub struct Matching {
    /// Positions in the baseline and in the new run.
    pub pairs: Vec<(usize, usize, Matched)>,
    /// Positions in the baseline that have no match.
    pub gone: Vec<usize>,
    /// Positions in the new run that have no match.
    pub new: Vec<usize>,
    /// The functions of both runs.
    common: HashSet<u64>,
}

impl Matching {
    /// Matches the sites of two runs.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn of(
        base: &[SiteProfile],
        new: &[SiteProfile],
        watch: Watch<'_>,
    ) -> Result<Matching, Stopped> {
        let known: FxHashMap<SiteKey, usize> = base
            .iter()
            .enumerate()
            .map(|(at, site)| (site.key, at))
            .collect();
        let mut matching = Matching {
            pairs: Vec::new(),
            gone: Vec::new(),
            new: Vec::new(),
            common: HashSet::new(),
        };
        let mut taken = vec![false; base.len()];
        for (at, site) in new.iter().enumerate() {
            match known.get(&site.key) {
                Some(&other) => {
                    taken[other] = true;
                    matching.pairs.push((other, at, Matched::Exactly));
                }
                None => matching.new.push(at),
            }
        }
        matching.gone = (0..base.len()).filter(|&at| !taken[at]).collect();
        let functions = Functions::of(base, new);
        // A table for each run, and what a round finds.
        let held = (base.len() + new.len()) * PER_SITE + functions.common.len() * 2 * PER_FUNCTION;
        watch.look(held)?;
        let mut left = MAX_PAIRS;
        for round in [
            Round::NamesOnly,
            Round::Blanks,
            Round::CommonOnly,
            Round::Innermost,
        ] {
            matching.infer(
                [base, new],
                &functions,
                round,
                &mut left,
                watch.beside(held),
            )?;
        }
        matching.common = functions.common;
        Ok(matching)
    }

    /// `left` is how many pairs may still be looked at.
    fn infer(
        &mut self,
        [base, new]: [&[SiteProfile]; 2],
        functions: &Functions,
        round: Round,
        left: &mut usize,
        watch: Watch<'_>,
    ) -> Result<(), Stopped> {
        let mut buckets: FxHashMap<u64, (Vec<usize>, Vec<usize>)> = FxHashMap::default();
        for &at in &self.gone {
            if let Some(rest) = functions.remainder(&base[at], round) {
                buckets.entry(rest).or_default().0.push(at);
            }
        }
        for &at in &self.new {
            if let Some(rest) = functions.remainder(&new[at], round) {
                buckets.entry(rest).or_default().1.push(at);
            }
        }
        // The smallest buckets first: large ones tell least, and must not leave nothing for others.
        let both = |(olds, news): &(Vec<usize>, Vec<usize>)| !olds.is_empty() && !news.is_empty();
        let mut buckets: Vec<_> = buckets.into_values().filter(both).collect();
        buckets.sort_by_key(|(olds, news)| (olds.len().saturating_mul(news.len()), olds[0]));
        let mut candidates: Vec<(u64, usize, usize)> = Vec::new();
        let mut looked = 0;
        for (olds, news) in &buckets {
            let pairs = olds.iter().flat_map(|&b| news.iter().map(move |&n| (b, n)));
            for (b, n) in pairs.take(*left) {
                *left -= 1;
                watch.at_row(looked, || of_vec_after(&candidates, EVERY))?;
                looked += 1;
                let alike = match round {
                    Round::Innermost => nearness(&base[b], &new[n]),
                    _ => likeness(&base[b], &new[n]),
                };
                if alike >= ALIKE || matches!(round, Round::Innermost) {
                    candidates.push(((alike * 1e6) as u64, b, n));
                }
            }
        }
        // The most similar pairs first; among equal pairs the order of the runs decides, so that
        // the answer is always the same.
        candidates.sort_by_key(|&(alike, b, n)| (std::cmp::Reverse(alike), b, n));
        let (mut old_taken, mut new_taken) = (HashSet::new(), HashSet::new());
        for (_, b, n) in candidates {
            if !old_taken.contains(&b) && !new_taken.contains(&n) {
                old_taken.insert(b);
                new_taken.insert(n);
                self.pairs.push((b, n, Matched::Inferred));
            }
        }
        self.gone.retain(|at| !old_taken.contains(at));
        self.new.retain(|at| !new_taken.contains(at));
        Ok(())
    }
}

/// What remains of a stack in each round.
#[derive(Clone, Copy)]
enum Round {
    NamesOnly,
    Blanks,
    CommonOnly,
    Innermost,
}

/// Bytes that a site takes while sites are matched, and a function that both runs have.
const PER_SITE: usize = 160;
const PER_FUNCTION: usize = 32;

/// The functions of both runs.
struct Functions {
    common: HashSet<u64>,
}

impl Functions {
    fn of(base: &[SiteProfile], new: &[SiteProfile]) -> Functions {
        let all = |sites: &[SiteProfile]| -> HashSet<u64> {
            let functions = sites.iter().flat_map(|site| &site.functions);
            functions.map(|function| function.full).collect()
        };
        let (base, new) = (all(base), all(new));
        Functions {
            common: base.intersection(&new).copied().collect(),
        }
    }

    /// The hash of what remains of a site's stack in this round; `None` if nothing remains.
    fn remainder(&self, site: &SiteProfile, round: Round) -> Option<u64> {
        let functions = site.functions.iter();
        let known = |full: &u64| self.common.contains(full);
        let rest: Vec<u64> = match round {
            Round::NamesOnly => functions.map(|f| f.name).collect(),
            Round::Blanks => functions
                .map(|f| if known(&f.full) { f.full } else { 0 })
                .collect(),
            Round::CommonOnly => functions.map(|f| f.full).filter(known).collect(),
            // Of code that the program did not write, the call must be the program's.
            Round::Innermost => {
                let innermost = site.functions.first()?.full;
                let made = (innermost, site.own?, site.count, &site.sizes);
                vec![fx_hash(&made)]
            }
        };
        (!rest.is_empty()).then(|| fx_hash(&rest))
    }
}

/// The share of callers that both sites have, from the innermost and from the outermost on.
fn nearness(base: &SiteProfile, new: &SiteProfile) -> f64 {
    let (a, b) = (&base.functions, &new.functions);
    let inner = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let outer = a.iter().rev().zip(b.iter().rev());
    let outer = outer.take_while(|(a, b)| a == b).count();
    let (same, most) = (inner + outer, a.len().max(b.len()).max(1));
    (same as f64 / most as f64).min(1.0)
}

/// The share of bytes in sizes that both sites have.
fn likeness(base: &SiteProfile, new: &SiteProfile) -> f64 {
    let bytes = |&(size, n): &(Bytes, u64)| size.0.wrapping_mul(n);
    let total = |site: &SiteProfile| {
        let sum = site.sizes.iter().map(bytes).fold(0, u64::wrapping_add);
        sum.max(1) as f64
    };
    let (all_base, all_new) = (total(base), total(new));
    // A site has a dozen sizes at most.
    let both = base.sizes.iter().filter_map(|of_base| {
        let of_new = new.sizes.iter().find(|of_new| of_new.0 == of_base.0)?;
        Some((bytes(of_base) as f64 / all_base).min(bytes(of_new) as f64 / all_new))
    });
    both.sum()
}

/// What is known of two runs when their sites are compared.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// How many steps later the new run ends. A site that grows steadily holds more after more
    /// steps, and that is not a difference between the programs.
    pub extra_steps: i64,
    /// Whether their peaks differ. Then what sites hold at the peaks is told, too: it may be that
    /// each holds as much as before, but no longer at the same time.
    pub peaks_differ: bool,
    /// Whether both runs know what was requested.
    pub requested: bool,
    /// Which run failed before it came to all that a step does: what only the other one has is no
    /// news.
    pub unreached: [bool; 2],
    /// What only one of them tells with stacks.
    pub unnamed: Unnamed,
}

/// What is found at the sites of two runs.
pub(super) struct Found {
    /// The rows of sites that differ, the largest difference first.
    pub rows: Vec<SiteDelta>,
    /// Those beyond [`MAX_ROWS`].
    pub left_out: usize,
    /// How many sites of both are the same.
    pub same: u32,
    /// What no row tells.
    pub untold: Untold,
}

/// How much more the new run holds at the sites without a row, bytes: at the peaks of the runs, and
/// at their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Untold {
    /// Of what they did not ask for.
    pub unsplit: [i64; 2],
    /// Of what they asked for.
    pub unlisted: [i64; 2],
}

impl Untold {
    fn add(&mut self, sides: Row<'_>, knows_requested: bool) {
        for (site, sign) in sides.into_iter().zip([-1_i64, 1]) {
            let Some(site) = site else { continue };
            let asked = site.requested;
            let levels = [(asked.at_peak, site.at_peak), (asked.at_end, site.at_end)];
            for (at, (asked, held)) in levels.into_iter().enumerate() {
                let told = if knows_requested { asked } else { held };
                let add = |sum: i64, by: i64| sum.saturating_add(sign * by);
                self.unsplit[at] = add(self.unsplit[at], noise::delta(told, held));
                self.unlisted[at] = add(self.unlisted[at], noise::delta(Bytes::ZERO, told));
            }
        }
    }
}

/// Compares the sites of two runs.
pub(super) fn deltas(
    [of_base, of_new]: [&DeviceProfile; 2],
    matching: &Matching,
    known: Known,
    room: &mut Room,
) -> Found {
    let (base, new) = (&of_base.sites, &of_new.sites);
    let pairs = matching
        .pairs
        .iter()
        .map(|&(b, n, m)| (Some(&base[b]), Some(&new[n]), m));
    let [in_base, in_new] = known.unreached;
    let gone = matching.gone.iter().filter(|_| !in_new);
    let gone = gone.map(|&b| (Some(&base[b]), None, Matched::Alone));
    let fresh = matching.new.iter().filter(|_| !in_base);
    let fresh = fresh.map(|&n| (None, Some(&new[n]), Matched::Alone));
    let mut rows: Vec<(SiteDelta, Row<'_>)> = Vec::new();
    let (mut same, mut untold) = (0, Untold::default());
    for (base, new, matched) in pairs.chain(gone).chain(fresh) {
        match compare_site(base, new, matched, known) {
            Some(row) => rows.push((row, [base, new])),
            None => {
                // What only one run has is told by its bytes, and is not the same.
                same += u32::from(base.is_some() && new.is_some());
                untold.add([base, new], known.requested);
            }
        }
    }
    let sides: Vec<Row<'_>> = rows.iter().map(|&(_, sides)| sides).collect();
    let (cancelled, sites) = cancel::cancelled(&sides, &matching.common, known.unnamed);
    same += sites;
    let of_cancelled = cancelled.iter().map(|&at| sides[at]);
    of_cancelled.for_each(|row| untold.add(row, known.requested));
    let mut at = 0..;
    rows.retain(|_| at.next().is_some_and(|at| !cancelled.contains(&at)));
    let weight = |row: &SiteDelta| (row.weight(), row.at_peak.unsigned_abs());
    rows.sort_by(|(a, _), (b, _)| weight(b).cmp(&weight(a)).then_with(|| a.id.cmp(&b.id)));
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    // Only the rows that are listed get their texts.
    let named = rows.into_iter().map(|(row, [base, new])| {
        let mut side =
            |site: Option<&SiteProfile>, names: &Names| site.map(|site| side(site, names, room));
        SiteDelta {
            base: side(base, &of_base.names),
            new: side(new, &of_new.names),
            ..row
        }
    });
    Found {
        rows: named.collect(),
        left_out,
        same,
        untold,
    }
}

/// What differs, without its two sides.
fn compare_site(
    base: Option<&SiteProfile>,
    new: Option<&SiteProfile>,
    matched: Matched,
    known: Known,
) -> Option<SiteDelta> {
    let key = new.or(base)?.key;
    let of = |side: Option<&SiteProfile>, level: fn(&SiteProfile) -> Bytes| {
        side.map_or(Bytes::ZERO, level)
    };
    let difference =
        |level: fn(&SiteProfile) -> Bytes| noise::delta(of(base, level), of(new, level));
    let (peak, at_end) = (difference(|s| s.peak), difference(|s| s.at_end));
    let at_peak = difference(|s| s.at_peak);
    // What the allocator rounds up, or does not split off, depends on addresses.
    let judged = match known.requested {
        true => [
            difference(|s| s.requested.peak),
            difference(|s| s.requested.at_end),
            difference(|s| s.requested.at_peak),
        ],
        false => [peak, at_end, at_peak],
    };
    // Steps that differ are no excuse for a stack that only one run has. Without stacks, another
    // length is another site.
    let wobble = match (base, new, key) {
        (None, _, SiteKey::Shape(_)) | (_, None, SiteKey::Shape(_)) => Bytes::ZERO,
        (Some(base), Some(new), SiteKey::Shape(_)) if is_out_of_reach(base, new) => Bytes::ZERO,
        _ => of(base, |s| s.wobble).max(of(new, |s| s.wobble)),
    };
    let tolerance = noise::site(of(base, |s| s.peak), of(new, |s| s.peak), wobble);
    let growth = |side: Option<&SiteProfile>| side.map_or(0.0, |site| site.growth);
    // The longer run has the extra steps, so its growth says what they added.
    let expected = match (base, new) {
        (Some(_), Some(new)) if known.extra_steps > 0 => new.growth * known.extra_steps as f64,
        (Some(base), Some(_)) => base.growth * known.extra_steps as f64,
        _ => 0.0,
    } as i64;
    let differs = |delta: i64| {
        delta.unsigned_abs() > tolerance.0 && (delta - expected).unsigned_abs() > tolerance.0
    };
    let [of_peak, of_end, of_both] = judged;
    let larger = match differs(of_peak) || differs(of_end) {
        true if of_peak.abs() >= of_end.abs() => Some(of_peak),
        true => Some(of_end),
        false if known.peaks_differ && differs(of_both) => None,
        false => return None,
    };
    Some(SiteDelta {
        id: key.id(),
        change: match (base, new) {
            (None, _) => SiteChange::New,
            (_, None) => SiteChange::Gone,
            _ => match larger {
                Some(more) if more > 0 => SiteChange::Grown,
                Some(_) => SiteChange::Shrunk,
                None => SiteChange::Shifted,
            },
        },
        matched,
        peak,
        at_peak,
        at_end,
        growth: growth(new) - growth(base),
        base: None,
        new: None,
    })
}

/// Whether one run never holds half of what the other does at some moment: no step of it is like
/// that, however much its steps differ.
fn is_out_of_reach(base: &SiteProfile, new: &SiteProfile) -> bool {
    let (less, more) = (base.peak.min(new.peak), base.peak.max(new.peak));
    less.0.saturating_mul(2) < more.0
}

fn side(site: &SiteProfile, names: &Names, room: &mut Room) -> SiteSide {
    SiteSide {
        stack: site.stack.0,
        place: site.headline.map(|frame| room.place(names, frame)),
        frames: room.places(names, &site.frames),
        count: site.count,
        made: site.made,
        peak: site.peak,
        at_peak: site.at_peak,
        at_end: site.at_end,
        growth: site.growth,
        leaks: site.leaks,
        size: site.sizes.first().map_or(Bytes::ZERO, |(size, _)| *size),
    }
}
