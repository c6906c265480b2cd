//! Finds which rank a file belongs to, and which files are the ranks of one job.
//!
//! # The rule
//!
//! A rank is the number behind the word `rank`, or behind an `r` that stands alone: `rank0`,
//! `global_rank_12`, `run.rank3.pickle`, `step5_r3`. Between the word `rank` and the number there
//! may be a space or one of `_`, `-`, `.`, `=`. There must be no letter before the word (`frank3`
//! is no rank). If there are several, the last counts. `rank` goes before `r`. `local_rank` comes
//! last, because its numbers begin again on each host. If a file's own name has no rank, the
//! innermost folder with a rank decides. A folder in which all files lie tells nothing: `r5/a0` and
//! `r5/a1` are not both rank 5.
//!
//! The files of a folder are one job if each rank is there once; those of several folders too if
//! the files' own names differ only in the rank, as where each host has a folder. Otherwise, files
//! whose names differ only in the rank are one job (`step10/rank0`, `step20/rank0`: two jobs).
//! Several starts of one program in a folder, told apart by dates in the names, are a job each.
//! Files that were chosen one by one must always differ only in the rank. If no file of a folder
//! names a rank, all names must differ in one and the same number, which counts processes
//! (`one_number.rs`), and that is the rank. A number that no rank can have ([`MAX_RANKS`]) is
//! something else, such as a date. Else files may be named by role, by several numbers, or by host
//! or pod (`unnamed.rs`).

mod fields;
mod named;
mod numbering;
mod one_number;
mod order;
#[cfg(test)]
mod tests;
mod unnamed;

use super::{MAX_RANKS, Rank};
use crate::code::file_name;
use named::{Named, SEPARATORS, folder_name, folder_of, without_ending};
pub use numbering::Ordered;
use one_number::{may_be_ranks, word_before};
pub use order::by_number;
use order::parts_of;
use std::collections::BTreeMap;
pub use unnamed::common_start;

/// How the files were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// A folder with everything in it.
    Folder,
    /// One by one.
    OneByOne,
}

/// Files that are the ranks of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankSet {
    /// The common name of the files without the rank, or the name of their folder.
    pub name: String,
    /// Rank and position among the paths, by rank.
    pub files: Vec<(Rank, usize)>,
    /// How they are numbered if the files do not say it.
    pub ordered: Option<Ordered>,
}

impl RankSet {
    /// Whether each rank is there only once; the files are sorted.
    fn is_distinct(&self) -> bool {
        let pairs = self.files.windows(2);
        pairs.into_iter().all(|pair| pair[0].0 != pair[1].0)
    }
}

/// The rank that a path names.
pub fn rank_of(path: &str) -> Option<Rank> {
    Named::of(path).map(|named| named.rank)
}

/// Which of the paths are the ranks of a job. Also the positions of the paths that belong to no
/// job.
pub fn sets(paths: &[&str], chosen: Chosen) -> (Vec<RankSet>, Vec<usize>) {
    sets_or(paths, chosen, |paths| match unnamed::are_by_host(paths) {
        true => unnamed::jobs(paths),
        false => match by_one_number(paths) {
            sets if sets.is_empty() => unnamed::jobs(paths),
            sets => sets,
        },
    })
}

/// The same, of paths that say which rank each is: the page has no room for the rules of others.
pub fn sets_that_say(paths: &[&str], chosen: Chosen) -> (Vec<RankSet>, Vec<usize>) {
    sets_or(paths, chosen, by_one_number)
}

/// `unnamed` finds the jobs of a folder in which no file says its rank.
fn sets_or(
    paths: &[&str],
    chosen: Chosen,
    unnamed: fn(&[&str]) -> Vec<RankSet>,
) -> (Vec<RankSet>, Vec<usize>) {
    let named = named(paths);
    let mut sets = match chosen {
        Chosen::Folder if named.iter().all(Option::is_none) => unnamed(paths),
        Chosen::Folder => by_folder(paths, &named),
        Chosen::OneByOne => by_rest(paths, &named, 0..paths.len()),
    };
    sets.retain(|set| set.files.len() > 1);
    tell_apart(&mut sets, paths);
    let mut is_taken = vec![false; paths.len()];
    for (_, at) in sets.iter().flat_map(|set| &set.files) {
        is_taken[*at] = true;
    }
    let left = (0..paths.len()).filter(|&at| !is_taken[at]).collect();
    (sets, left)
}

/// The rank that each of the paths names, where they are looked at together.
pub fn ranks_of(paths: &[&str]) -> Vec<Option<Rank>> {
    let named = named(paths).into_iter();
    named.map(|named| Some(named?.rank)).collect()
}

fn named(paths: &[&str]) -> Vec<Option<Named>> {
    let apart = common_folders(paths);
    let named = |path: &&str| Named::below(path, apart);
    paths.iter().map(named).collect()
}

/// The length of the folders in which all paths lie, with the last slash.
pub fn common_folders(paths: &[&str]) -> usize {
    let Some((first, others)) = paths.split_first() else {
        return 0;
    };
    let slashes = first.trim_end_matches('/').match_indices('/');
    let ends = slashes.map(|(at, _)| at + 1);
    let all_in = |end: &usize| others.iter().all(|path| path.starts_with(&first[..*end]));
    ends.take_while(all_in).last().unwrap_or(0)
}

fn by_folder(paths: &[&str], named: &[Option<Named>]) -> Vec<RankSet> {
    let folder = |found: &Named, at: usize| match found.by_file {
        true => folder_of(paths[at]).unwrap_or_default().to_owned(),
        false => found.rest(paths[at]),
    };
    let mut sets = Vec::new();
    let groups = grouped(named, 0..paths.len(), folder);
    if groups.len() > 1
        && let Some(job) = in_folders_of_hosts(paths, named)
    {
        return vec![job];
    }
    for files in groups {
        let set = RankSet {
            name: common_name(paths, named, &files),
            files,
            ordered: None,
        };
        match set.is_distinct() {
            true => sets.push(set),
            false => {
                let files = || set.files.iter().map(|&(_, at)| at);
                let mut found = by_rest(paths, named, files());
                if found.iter().all(|set| set.files.len() < 2) {
                    found = by_start(paths, named, files());
                }
                sets.extend(found);
            }
        }
    }
    sets
}

/// The ranks of one job in several folders, as where each host writes into its own: the names of
/// the files differ only in the rank, and each rank is there once.
fn in_folders_of_hosts(paths: &[&str], named: &[Option<Named>]) -> Option<RankSet> {
    let found = named.iter().enumerate();
    let found = found.filter_map(|(at, named)| Some((at, named.as_ref()?)));
    let mut files = Vec::new();
    let mut rests = Vec::new();
    for (at, named) in found {
        if !named.by_file {
            return None;
        }
        files.push((named.rank, at));
        rests.push(file_name(&named.rest(paths[at])).to_owned());
    }
    files.sort_unstable();
    let own: Vec<&str> = files.iter().map(|&(_, at)| paths[at]).collect();
    let around = &own.first()?[..common_folders(&own)];
    let name = match named[files.first()?.1]
        .as_ref()?
        .name(paths[files.first()?.1])
    {
        name if own.iter().all(|path| file_name(path).contains(&name)) => name,
        _ => folder_name(Some(around)).to_owned(),
    };
    let job = RankSet {
        name,
        files,
        ordered: None,
    };
    let are_alike = rests.iter().all(|rest| *rest == rests[0]);
    (are_alike && job.is_distinct()).then_some(job)
}

/// Files with equal keys, by rank.
fn grouped(
    named: &[Option<Named>],
    files: impl Iterator<Item = usize>,
    key: impl Fn(&Named, usize) -> String,
) -> Vec<Vec<(Rank, usize)>> {
    let keyed = files.filter_map(|at| {
        let found = named[at].as_ref()?;
        Some((key(found, at), found.rank, at))
    });
    in_groups(keyed.collect())
}

/// Files with equal keys, by rank; the groups by key, with numbers in it as numbers: `step5` comes
/// before `step10`.
fn in_groups(mut keyed: Vec<(String, Rank, usize)>) -> Vec<Vec<(Rank, usize)>> {
    keyed.sort_by(|a, b| {
        let keys = by_number(&a.0, &b.0).then_with(|| a.0.cmp(&b.0));
        keys.then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
    });
    let groups = keyed.chunk_by(|a, b| a.0 == b.0);
    let files = |group: &[(String, Rank, usize)]| {
        let files = group.iter().map(|&(_, rank, at)| (rank, at));
        files.collect()
    };
    groups.map(files).collect()
}

/// Adds to names that several sets have the part of the path in which they differ: the folder
/// before the name, or what comes behind it.
fn tell_apart(sets: &mut [RankSet], paths: &[&str]) {
    let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, set) in sets.iter().enumerate() {
        by_name.entry(set.name.clone()).or_default().push(at);
    }
    for (name, same) in by_name.into_iter().filter(|(_, same)| same.len() > 1) {
        let first = |&at: &usize| sets[at].files.first().map(|&(_, file)| paths[file]);
        let files: Vec<&str> = same.iter().filter_map(first).collect();
        let apart = common_folders(&files);
        // A name is that of a folder if it is not in the file's own.
        let is_of_folder = |file: &&str| {
            let mut folders = file[..apart].split('/');
            folders.any(|folder| folder == name) && !file_name(file).contains(&name)
        };
        let is_before = !files.iter().all(is_of_folder);
        for (&at, part) in same.iter().zip(differing(&files, apart)) {
            sets[at].name = match (part.as_str(), is_before) {
                ("", _) => continue,
                (part, true) => format!("{part}/{name}"),
                (part, false) => format!("{name}/{part}"),
            };
        }
    }
}

/// The folders behind this position that files do not have in common; their own names without the
/// ending if that is all.
fn differing(files: &[&str], apart: usize) -> Vec<String> {
    let folders = |file: &str| folder_of(&file[apart..]).unwrap_or_default().to_owned();
    let all: Vec<String> = files.iter().map(|file| folders(file)).collect();
    if all.iter().all(|folder| *folder == all[0]) {
        let own = files.iter().map(|file| without_ending(&file[apart..]));
        return own.map(str::to_owned).collect();
    }
    let parts: Vec<Vec<&str>> = all
        .iter()
        .map(|folder| folder.split('/').collect())
        .collect();
    let is_common = |at: usize| {
        let same = |other: &Vec<&str>| other.get(at) == parts[0].get(at);
        parts
            .iter()
            .all(|other| other.len() == parts[0].len() && same(other))
    };
    let own = parts.iter().map(|parts| {
        let kept = parts.iter().enumerate().filter(|&(at, _)| !is_common(at));
        kept.map(|(_, part)| *part).collect::<Vec<_>>().join("/")
    });
    own.collect()
}

/// The common name of all files without the rank, or of their folder.
fn common_name(paths: &[&str], named: &[Option<Named>], files: &[(Rank, usize)]) -> String {
    let name = |&(_, at): &(Rank, usize)| Some(named[at].as_ref()?.name(paths[at]));
    let mut names = files.iter().filter_map(name);
    let first = names.next().unwrap_or_default();
    match !first.is_empty() && names.all(|name| name == first) {
        true => first,
        false => {
            let first = files.first().map(|&(_, at)| paths[at]);
            folder_name(first.and_then(folder_of)).to_owned()
        }
    }
}

fn by_rest(
    paths: &[&str],
    named: &[Option<Named>],
    files: impl Iterator<Item = usize>,
) -> Vec<RankSet> {
    let groups = grouped(named, files, |found, at| found.rest(paths[at]));
    let sets = groups.into_iter().map(|files| RankSet {
        name: common_name(paths, named, &files),
        files,
        ordered: None,
    });
    // `rank1` and `rank01`: the same rank twice makes no job.
    sets.filter(RankSet::is_distinct).collect()
}

/// Several starts of one program, whose files differ in a date beside the rank: the first file of
/// each rank belongs to the first start. Each rank must have a file of each start, and no start
/// may begin before all files of the one before are there.
fn by_start(
    paths: &[&str],
    named: &[Option<Named>],
    files: impl Iterator<Item = usize>,
) -> Vec<RankSet> {
    let rest = |at: usize| named[at].as_ref().map(|named| named.rest(paths[at]));
    let order = |a: &(Rank, usize), b: &(Rank, usize)| {
        let [a, b] = [a.1, b.1].map(|at| rest(at).unwrap_or_default());
        by_number(&a, &b)
    };
    let mut sets = Vec::new();
    for group in grouped(named, files, |found, at| {
        without_dates(&found.rest(paths[at]))
    }) {
        let mut ranks: Vec<Vec<(Rank, usize)>> = group
            .chunk_by(|a, b| a.0 == b.0)
            .map(<[_]>::to_vec)
            .collect();
        ranks.iter_mut().for_each(|files| files.sort_by(order));
        let starts = ranks.iter().map(Vec::len).max().unwrap_or(0);
        if ranks.len() < 2 || ranks.iter().any(|files| files.len() != starts) {
            continue;
        }
        let start = |at: usize| ranks.iter().map(move |files| files[at]);
        let are_apart = (1..starts).all(|at| {
            let (last, first) = (start(at - 1).max_by(order), start(at).min_by(order));
            last.zip(first)
                .is_some_and(|(last, first)| order(&last, &first).is_lt())
        });
        if !are_apart {
            continue;
        }
        sets.extend((0..starts).map(|at| {
            let files: Vec<(Rank, usize)> = start(at).collect();
            let first = files[0].1;
            let name = named[first].as_ref().map(|named| named.name(paths[first]));
            RankSet {
                name: name.unwrap_or_default(),
                files,
                ordered: None,
            }
        }));
    }
    sets
}

/// A path with `@` for each date: at least this many digits, with no more than a sign between them.
fn without_dates(path: &str) -> String {
    const DIGITS: usize = 8;
    let is_sign = |part: &str| matches!(part, "_" | "-" | "." | ":" | "T");
    let is_number = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    let parts = parts_of(path);
    let (mut out, mut at) = (String::new(), 0);
    while at < parts.len() {
        let mut end = at;
        let mut digits = 0;
        while end < parts.len() && is_number(parts[end]) {
            digits += parts[end].len();
            end += 1;
            let goes_on = parts.get(end + 1).is_some_and(|next| is_number(next));
            if goes_on && is_sign(parts[end]) {
                end += 1;
            }
        }
        match digits >= DIGITS {
            true => out.push('@'),
            false => {
                end = at + 1;
                out += parts[at];
            }
        }
        at = end;
    }
    out
}

/// All paths differ in one number and in nothing else: that number is the rank.
fn by_one_number(paths: &[&str]) -> Vec<RankSet> {
    let parts: Vec<Vec<&str>> = paths.iter().map(|path| parts_of(path)).collect();
    let Some(first) = parts.first() else {
        return Vec::new();
    };
    let alike = parts.iter().all(|parts| parts.len() == first.len());
    let varies = |&at: &usize| parts.iter().any(|parts| parts[at] != first[at]);
    let varying: Vec<usize> = match alike {
        true => (0..first.len()).filter(varies).collect(),
        false => Vec::new(),
    };
    let [at] = varying[..] else { return Vec::new() };
    let rank = |parts: &Vec<&str>| {
        let number = parts[at].parse().ok();
        number.filter(|&number| number < MAX_RANKS).map(Rank)
    };
    let ranks: Option<Vec<Rank>> = parts.iter().map(rank).collect();
    let Some(ranks) = ranks else {
        return Vec::new();
    };
    let before: String = first[..at].concat();
    let word = word_before(&before);
    let numbers: Vec<u32> = ranks.iter().map(|rank| rank.0).collect();
    // `7b` and `13b` are sizes.
    let is_bare = |parts: &Vec<&str>| {
        let behind = parts.get(at + 1).and_then(|part| part.chars().next());
        !behind.is_some_and(char::is_alphabetic)
    };
    if !may_be_ranks(&word, &numbers) || !parts.iter().all(is_bare) {
        return Vec::new();
    }
    let name = before.rsplit('/').next().unwrap_or_default();
    let name = match name.trim_matches(SEPARATORS) {
        "" => folder_name(folder_of(paths[0])),
        name => name,
    };
    let keyed = ranks.into_iter().zip(0..);
    let keyed = keyed.map(|(rank, at)| (String::new(), rank, at));
    let sets = in_groups(keyed.collect()).into_iter().map(|files| RankSet {
        name: name.to_owned(),
        files,
        ordered: one_number::ordered(&word),
    });
    sets.filter(RankSet::is_distinct).collect()
}
