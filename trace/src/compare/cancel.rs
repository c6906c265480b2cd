//! Rows that cancel: the same blocks, told under other stacks.
//!
//! * *Moved*: a function was inlined, became a module, or is called from elsewhere. Blocks are set
//!   against one another whose innermost function that both runs have is the same. If there are as
//!   many of each size in both runs, and they hold as much at the peak and at the end, they are the
//!   same blocks.
//! * *Unnamed*: one recording has no stack for what the other one tells with a stack. It began
//!   later, or was made without stacks or without C++ frames. If what has no stack holds as much
//!   more, at the peak and at the end, as what has one holds less, nothing differs.

use super::beginnings::starts;
use super::noise;
use super::profile::{DeviceProfile, SiteProfile};
use crate::site::SiteKey;
use crate::units::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

/// Of more rows than these with one function, only the sum is looked at.
const MOST_ALIKE: usize = 64;

/// The sites that a row compares.
pub(super) type Row<'a> = [Option<&'a SiteProfile>; 2];

/// What one of two recordings tells without stacks, and the other one with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unnamed {
    /// No more than the other one.
    Nothing,
    /// What it held when it began.
    FromBefore,
    /// What has no Python frames, or everything.
    FromBothSides,
}

impl Unnamed {
    pub fn of(runs: [&DeviceProfile; 2]) -> Unnamed {
        let [base, new] = runs;
        match base.has_stacks != new.has_stacks || base.has_native != new.has_native {
            true => Unnamed::FromBothSides,
            false if runs.iter().any(|run| run.wrapped) || starts(runs).is_some() => {
                Unnamed::FromBefore
            }
            false => Unnamed::Nothing,
        }
    }
}

/// The positions of the rows that cancel, and how many sites these are. `common` are the functions
/// of both runs.
pub(super) fn cancelled(
    rows: &[Row<'_>],
    common: &HashSet<u64>,
    which: Unnamed,
) -> (HashSet<usize>, u32) {
    let mut found = moved(rows, common);
    let left: Vec<usize> = (0..rows.len()).filter(|at| !found.contains(at)).collect();
    let of_left: Vec<Row<'_>> = left.iter().map(|&at| rows[at]).collect();
    found.extend(unnamed(&of_left, which).into_iter().map(|at| left[at]));
    let sites = [0, 1].map(|run| {
        let there = found.iter().filter(|&&at| rows[at][run].is_some());
        there.count() as u32
    });
    (found, sites[0].max(sites[1]))
}

/// What sites hold together, in each run.
#[derive(Clone, Debug, Default)]
struct Sum {
    made: [u64; 2],
    at_peak: [u64; 2],
    at_end: [u64; 2],
    sizes: [BTreeMap<Bytes, u64>; 2],
}

impl Sum {
    fn of<'a>(rows: impl IntoIterator<Item = &'a Row<'a>>) -> Sum {
        let mut sum = Sum::default();
        for sides in rows {
            for (run, site) in sides.iter().enumerate() {
                let Some(site) = site else { continue };
                sum.made[run] += site.made.0;
                sum.at_peak[run] += site.requested.at_peak.0;
                sum.at_end[run] += site.requested.at_end.0;
                for &(size, n) in &site.sizes {
                    *sum.sizes[run].entry(size).or_default() += n;
                }
            }
        }
        sum
    }

    /// Whether both runs hold as much.
    fn is_level(&self) -> bool {
        [self.at_peak, self.at_end].into_iter().all(are_alike)
    }

    fn is_of_the_same_blocks(&self) -> bool {
        self.is_level() && self.sizes[0] == self.sizes[1]
    }
}

fn are_alike(levels: [u64; 2]) -> bool {
    let [base, new] = levels.map(Bytes);
    let by = noise::delta(base, new).unsigned_abs();
    by <= noise::site(base, new, Bytes::ZERO).0
}

fn is_alone(row: &Row<'_>) -> bool {
    row.contains(&None)
}

fn leaks(row: &Row<'_>) -> bool {
    row.iter().flatten().any(|site| site.leaks)
}

/// The rows of blocks that moved. Only what one run lacks makes others move.
fn moved(rows: &[Row<'_>], common: &HashSet<u64>) -> HashSet<usize> {
    let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| !leaks(row)) {
        let site = row[1].or(row[0]);
        let mut functions = site.into_iter().flat_map(|site| &site.functions);
        if let Some(function) = functions.find(|function| common.contains(&function.full)) {
            groups.entry(function.full).or_default().push(at);
        }
    }
    let mut found = HashSet::new();
    for mut group in groups.into_values() {
        // What only one run has: one by one, then with what took its blocks in, then all.
        let alone = |at: &usize| is_alone(&rows[*at]);
        let firsts = group.iter().copied().filter(alone);
        let firsts: Vec<usize> = match group.len() <= MOST_ALIKE {
            true => firsts.collect(),
            false => Vec::new(),
        };
        for first in firsts {
            let is_left = group.contains(&first);
            let other = group.iter().copied().filter(|&at| at != first);
            let mut other: Vec<usize> = other.filter(|_| is_left).collect();
            other.sort_by_key(|at| !alone(at));
            let fits = |at: &usize| Sum::of([&rows[first], &rows[*at]]).is_of_the_same_blocks();
            if let Some(at) = other.into_iter().find(fits) {
                found.extend([first, at]);
                group.retain(|&one| one != first && one != at);
            }
        }
        let is_any = group.iter().any(alone);
        if is_any && Sum::of(group.iter().map(|&at| &rows[at])).is_of_the_same_blocks() {
            found.extend(group);
        }
    }
    found
}

/// The rows of blocks that have a stack in one run only.
fn unnamed(rows: &[Row<'_>], which: Unnamed) -> HashSet<usize> {
    let of = |which: &[usize]| Sum::of(which.iter().map(|&at| &rows[at]));
    let cancels = |pool: &[usize]| {
        let sum = of(pool);
        // What was made before a recording began is not all that a site made.
        sum.is_level() && (which == Unnamed::FromBefore || are_alike(sum.made))
    };
    let is_size = |at: &usize| matches!(key(&rows[*at]), Some(SiteKey::Size(_)));
    let is_held = |at: &usize| {
        let sum = of(&[*at]);
        which == Unnamed::FromBothSides || [sum.at_peak, sum.at_end] != [[0; 2]; 2]
    };
    if which == Unnamed::Nothing {
        return HashSet::new();
    }
    let (all, passing): (Vec<usize>, Vec<usize>) = (0..rows.len()).partition(is_held);
    // What has no stack and is soon given back was made before the recording, too.
    let from_before = |at: &usize| is_size(at) && is_alone(&rows[*at]);
    let passing: Vec<usize> = passing.into_iter().filter(from_before).collect();
    if !all.iter().any(is_size) {
        return passing.into_iter().collect();
    }
    let is_first = |at: &usize| is_size(at) || is_alone(&rows[*at]);
    let (mut pool, named): (Vec<usize>, Vec<usize>) = all.into_iter().partition(is_first);
    if !cancels(&pool) {
        // A part of what some sites made has no stack in one run: they hold less with a stack.
        let more = |sum: &Sum| [sum.at_peak, sum.at_end].map(|[base, new]| new.cmp(&base));
        let wanted = more(&of(&pool)).map(Ordering::reverse);
        pool.extend(named.into_iter().filter(|&at| more(&of(&[at])) == wanted));
    }
    match cancels(&pool) {
        true => pool.into_iter().chain(passing).collect(),
        false => HashSet::new(),
    }
}

fn key(row: &Row<'_>) -> Option<SiteKey> {
    row[1].or(row[0]).map(|site| site.key)
}
