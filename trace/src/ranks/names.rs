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
//! The files of a folder are one job if each rank is there once. Otherwise, files whose names
//! differ only in the rank are one job (`step10/rank0`, `step20/rank0`: two jobs). Files that were
//! chosen one by one must always differ only in the rank. If no file of a folder names a rank, all
//! names must differ in one and the same number, and that is the rank. A number that no rank can
//! have ([`MAX_RANKS`]) is something else, such as a date.

use super::{MAX_RANKS, Rank};
use crate::code::file_name;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

/// The largest number of digits of a rank.
const DIGITS: usize = 6;
/// Endings that say how a file is written.
const ENDINGS: [&str; 10] = [
    ".zst", ".gz", ".tgz", ".tar", ".zip", ".pickle", ".pkl", ".pt", ".json", ".bin",
];
const SEPARATORS: [char; 5] = ['_', '-', '.', '=', ' '];

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
    let named = named(paths);
    let mut sets = match chosen {
        Chosen::Folder if named.iter().all(Option::is_none) => by_one_number(paths),
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
fn common_folders(paths: &[&str]) -> usize {
    let Some((first, others)) = paths.split_first() else {
        return 0;
    };
    let slashes = first.trim_end_matches('/').match_indices('/');
    let ends = slashes.map(|(at, _)| at + 1);
    let all_in = |end: &usize| others.iter().all(|path| path.starts_with(&first[..*end]));
    ends.take_while(all_in).last().unwrap_or(0)
}

/// A path that names a rank.
struct Named {
    rank: Rank,
    /// Position of the word and the number in the path.
    token: Range<usize>,
    /// Position of the number.
    digits: Range<usize>,
    /// Whether the rank is in the file's own name.
    by_file: bool,
}

impl Named {
    fn of(path: &str) -> Option<Named> {
        Named::below(path, 0)
    }

    /// What the path names behind this position; what is before it does not count.
    fn below(path: &str, top: usize) -> Option<Named> {
        let path = path.trim_end_matches('/');
        let mut end = path.len();
        let mut by_file = true;
        while end >= top {
            let start = path[..end].rfind('/').map_or(0, |at| at + 1);
            if let Some((token, digits)) = token(&path[start..end]) {
                let digits = start + digits.start..start + digits.end;
                return Some(Named {
                    rank: Rank(path[digits.clone()].parse().ok()?),
                    token: start + token.start..start + token.end,
                    digits,
                    by_file,
                });
            }
            by_file = false;
            end = start.checked_sub(1)?;
        }
        None
    }

    /// The path without the number.
    fn rest(&self, path: &str) -> String {
        format!(
            "{}#{}",
            &path[..self.digits.start],
            &path[self.digits.end..]
        )
    }

    /// The file's name without the rank; empty if nothing is left.
    fn name(&self, path: &str) -> String {
        let path = path.trim_end_matches('/');
        if !self.by_file {
            return folder_name(folder_of(&path[..self.token.start])).to_owned();
        }
        let start = folder_of(path).map_or(0, |folder| folder.len() + 1);
        let before = path[start..self.token.start].trim_end_matches(SEPARATORS);
        let after = without_ending(&path[self.token.end..]).trim_matches(SEPARATORS);
        match (before, after) {
            ("", "") => folder_name(folder_of(path)).to_owned(),
            ("", one) | (one, "") => one.trim_matches(SEPARATORS).to_owned(),
            (before, after) => format!("{before}_{after}"),
        }
    }
}

/// The last word for a rank in a name, with its number.
fn token(name: &str) -> Option<(Range<usize>, Range<usize>)> {
    let lower = name.to_ascii_lowercase();
    let bytes = lower.as_bytes();
    let mut best: Option<(u8, Range<usize>, Range<usize>)> = None;
    for at in 0..bytes.len() {
        let (word, standing) = match &bytes[at..] {
            [b'r', b'a', b'n', b'k', ..] => (4, Standing::Word),
            [b'r', ..] => (1, Standing::Letter),
            _ => continue,
        };
        let Some(digits) = number(bytes, at, word, standing) else {
            continue;
        };
        let trust = match standing {
            Standing::Letter => 1,
            Standing::Word if lower[..at].trim_end_matches(SEPARATORS).ends_with("local") => 0,
            Standing::Word => 2,
        };
        if best.as_ref().is_none_or(|(known, ..)| trust >= *known) {
            best = Some((trust, at..digits.end, digits));
        }
    }
    best.map(|(_, token, digits)| (token, digits))
}

/// The text before a number.
#[derive(Clone, Copy)]
enum Standing {
    /// `rank`, with no letter before it.
    Word,
    /// `r`, with no letter or digit around it and its number.
    Letter,
}

fn number(bytes: &[u8], at: usize, word: usize, standing: Standing) -> Option<Range<usize>> {
    let before = at.checked_sub(1).map(|at| bytes[at]);
    let mut start = at + word;
    let stands = match standing {
        Standing::Word => !before.is_some_and(|b| b.is_ascii_alphabetic()),
        Standing::Letter => !before.is_some_and(|b| b.is_ascii_alphanumeric()),
    };
    if let (Standing::Word, Some(b' ' | b'_' | b'-' | b'.' | b'=')) = (standing, bytes.get(start)) {
        start += 1;
    }
    let n = bytes[start.min(bytes.len())..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let next = bytes.get(start + n);
    let ends = match standing {
        Standing::Word => true,
        Standing::Letter => !next.is_some_and(|b| b.is_ascii_alphanumeric()),
    };
    (stands && ends && (1..=DIGITS).contains(&n)).then_some(start..start + n)
}

fn by_folder(paths: &[&str], named: &[Option<Named>]) -> Vec<RankSet> {
    let folder = |found: &Named, at: usize| match found.by_file {
        true => folder_of(paths[at]).unwrap_or_default().to_owned(),
        false => found.rest(paths[at]),
    };
    let mut sets = Vec::new();
    for files in grouped(named, 0..paths.len(), folder) {
        let set = RankSet {
            name: common_name(paths, named, &files),
            files,
        };
        match set.is_distinct() {
            true => sets.push(set),
            false => {
                let files = set.files.into_iter().map(|(_, at)| at);
                sets.extend(by_rest(paths, named, files));
            }
        }
    }
    sets
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

/// The order of two texts whose numbers count as numbers: `step5` comes before `step10`.
pub fn by_number(a: &str, b: &str) -> Ordering {
    let parts = parts_of(a).into_iter().zip(parts_of(b));
    let of_parts = parts.map(|(a, b)| {
        let is_number = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
        match is_number(a) && is_number(b) {
            true => {
                let [a, b] = [a, b].map(|part| part.trim_start_matches('0'));
                a.len().cmp(&b.len()).then_with(|| a.cmp(b))
            }
            false => a.cmp(b),
        }
    });
    let first = of_parts.into_iter().find(|order| order.is_ne());
    first.unwrap_or_else(|| parts_of(a).len().cmp(&parts_of(b).len()))
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
    });
    // `rank1` and `rank01`: the same rank twice makes no job.
    sets.filter(RankSet::is_distinct).collect()
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
    });
    sets.filter(RankSet::is_distinct).collect()
}

/// Splits a path into numbers and the text between them, in turn.
fn parts_of(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let bytes = path.as_bytes();
    for at in 1..=bytes.len() {
        let turns =
            at == bytes.len() || bytes[at].is_ascii_digit() != bytes[at - 1].is_ascii_digit();
        if turns {
            parts.push(&path[start..at]);
            start = at;
        }
    }
    parts
}

fn folder_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(folder, _)| folder)
}

fn folder_name(folder: Option<&str>) -> &str {
    let name = folder.and_then(|folder| folder.rsplit('/').find(|part| !part.is_empty()));
    name.unwrap_or("ranks")
}

fn without_ending(name: &str) -> &str {
    let shorter = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
    shorter.map_or(name, without_ending)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn a_name_tells_its_rank() {
        let check = |path: &str, rank: Option<u32>| {
            assert_eq!(rank_of(path), rank.map(Rank), "{path}");
        };
        check("ddp_rank0.pickle.zst", Some(0));
        check("rank0_memory_snapshot.pickle", Some(0));
        check("memory_snapshot-Rank_12.pkl", Some(12));
        check("host_171_rank=7.pickle", Some(7));
        check("x.rank3.pickle", Some(3));
        check("run of rank 12.pickle", Some(12));
        check("Rank 3", Some(3));
        check("rank  3.pickle", None);
        check("x r 3.pickle", None);
        check("x_r3.pickle", Some(3));
        check("r3", Some(3));
        check("local_rank0_global_rank12.pickle", Some(12));
        check("global_rank12_local_rank0.pickle", Some(12));
        check("local_rank1.pickle", Some(1));
        check("rank_3/snapshot.pickle", Some(3));
        check("rank3/step_5/snapshot.pickle", Some(3));
        check("rank3/rank5.pickle", Some(5));
        check("rank1_r2.pickle", Some(1));
        check("rank1/", Some(1));
        check("step5.pickle", None);
        check("frank3.pickle", None);
        check("run3.pickle", None);
        check("r3b.pickle", None);
        check("ranking.pickle", None);
        check("rank1234567.pickle", None);
        check("", None);
        check("/", None);
    }

    #[test]
    fn numbers_are_sorted_as_numbers() {
        let check = |a: &str, b: &str, expected| {
            assert_eq!(by_number(a, b), expected, "{a} {b}");
            assert_eq!(by_number(b, a), expected.reverse(), "{b} {a}");
        };
        check("step5/x", "step10/x", Ordering::Less);
        check("step05", "step5", Ordering::Equal);
        check("a", "a1", Ordering::Less);
        check("", "1", Ordering::Less);
        check("a9", "b1", Ordering::Less);
        check("1", "a", Ordering::Less);
        check(
            "x99999999999999999999",
            "x100000000000000000000",
            Ordering::Less,
        );
    }

    /// Sets as `name: rank rank …`, and how many files belong to none.
    fn told(paths: &[&str], chosen: Chosen) -> (Vec<String>, usize) {
        let (sets, left) = sets(paths, chosen);
        let told = sets.iter().map(|set| {
            let ranks = set.files.iter().map(|(rank, _)| rank.to_string());
            format!("{}: {}", set.name, ranks.collect::<Vec<_>>().join(" "))
        });
        (told.collect(), left.len())
    }

    /// Folders in which all files lie, such as where a disk is mounted, tell nothing.
    #[test]
    fn where_a_folder_lies_says_nothing() {
        let check = |paths: &[&str], expected: &[&str], left: usize| {
            let (sets, n) = told(paths, Chosen::Folder);
            assert_eq!(sets, expected, "{paths:?}");
            assert_eq!(n, left, "{paths:?}");
        };
        check(&["/r5/w/s_0.pkl", "/r5/w/s_1.pkl"], &["s: 0 1"], 0);
        check(&["rank3/s_0.pkl", "rank3/s_1.pkl"], &["s: 0 1"], 0);
        check(&["r5/rank0/s.pkl", "r5/rank1/s.pkl"], &["r5: 0 1"], 0);
        check(&["r5/a/rank0.pkl", "r5/b/x.pkl"], &[], 2);
    }

    #[test]
    fn the_files_of_a_folder_are_a_job() {
        let check = |paths: &[&str], expected: &[&str], left: usize| {
            let (sets, n) = told(paths, Chosen::Folder);
            assert_eq!(sets, expected, "{paths:?}");
            assert_eq!(n, left, "{paths:?}");
        };
        check(&["d/rank1.pickle", "d/rank0.pickle"], &["d: 0 1"], 0);
        check(
            &["d/a_rank0.pkl", "d/a_rank1.pkl", "d/notes.txt"],
            &["a: 0 1"],
            1,
        );
        // The hosts differ, but each rank is there only once.
        check(&["d/n1_rank0.pkl", "d/n2_rank1.pkl"], &["d: 0 1"], 0);
        check(
            &[
                "s10/rank0.pkl",
                "s10/rank1.pkl",
                "s20/rank0.pkl",
                "s20/rank1.pkl",
            ],
            &["s10: 0 1", "s20: 0 1"],
            0,
        );
        check(
            &[
                "d/a_rank0.pkl",
                "d/a_rank1.pkl",
                "d/b_rank0.pkl",
                "d/b_rank1.pkl",
            ],
            &["a: 0 1", "b: 0 1"],
            0,
        );
        check(&["job/rank_0/s.pkl", "job/rank_1/s.pkl"], &["job: 0 1"], 0);
        check(
            &["d/mem_0.pkl", "d/mem_1.pkl", "d/mem_10.pkl"],
            &["mem: 0 1 10"],
            0,
        );
        check(&["d/0.pkl", "d/1.pkl"], &["d: 0 1"], 0);
        check(&["d/0.pkl", "d/4095.pkl"], &["d: 0 4095"], 0);
        // A job has fewer ranks than that: these are dates, or counts.
        check(&["d/0.pkl", "d/4096.pkl"], &[], 2);
        check(
            &["snap_1732100000.pickle", "snap_1732100400.pickle"],
            &[],
            2,
        );
        // Two numbers differ, or something else differs: the rank is unknown.
        check(&["d/0_1.pkl", "d/1_2.pkl"], &[], 2);
        check(&["d/a0.pkl", "d/b1.pkl"], &[], 2);
        check(&["d/a0.pkl", "d/a00.pkl"], &[], 2);
        check(&["d/rank0.pkl"], &[], 1);
        check(&[], &[], 0);
    }

    #[test]
    fn jobs_with_one_name_are_told_apart_by_their_folders() {
        let check = |paths: &[&str], expected: &[&str], left: usize| {
            let (sets, n) = told(paths, Chosen::Folder);
            assert_eq!(sets, expected, "{paths:?}");
            assert_eq!(n, left, "{paths:?}");
        };
        // Ranks that were packed one by one, with several files each.
        check(
            &[
                "job/x_rank0/s10.pkl",
                "job/x_rank0/s20.pkl",
                "job/x_rank1/s10.pkl",
                "job/x_rank1/s20.pkl",
            ],
            &["job/s10: 0 1", "job/s20: 0 1"],
            0,
        );
        // A folder for each step, and the same name in all.
        check(
            &[
                "d/step_10/rank0_s.pkl",
                "d/step_10/rank1_s.pkl",
                "d/step_5/rank0_s.pkl",
                "d/step_5/rank1_s.pkl",
            ],
            &["step_5/s: 0 1", "step_10/s: 0 1"],
            0,
        );
        check(
            &[
                "d/step_10/out/a_r0.pkl",
                "d/step_10/out/a_r1.pkl",
                "d/step_9/out/a_r0.pkl",
                "d/step_9/out/a_r1.pkl",
                "d/step_9/out/b_r0.pkl",
                "d/step_9/out/b_r1.pkl",
            ],
            &["step_9/a: 0 1", "b: 0 1", "step_10/a: 0 1"],
            0,
        );
    }

    #[test]
    fn files_chosen_one_by_one_must_differ_in_the_rank_alone() {
        let check = |paths: &[&str], expected: &[&str], left: usize| {
            let (sets, n) = told(paths, Chosen::OneByOne);
            assert_eq!(sets, expected, "{paths:?}");
            assert_eq!(n, left, "{paths:?}");
        };
        check(&["a_rank0.pkl", "a_rank1.pkl"], &["a: 0 1"], 0);
        check(&["a_rank0.tar.gz", "a_rank1.tar.gz"], &["a: 0 1"], 0);
        check(&["a_rank0.zip", "a_rank1.zip"], &["a: 0 1"], 0);
        check(&["a_rank0.pkl", "b_rank1.pkl"], &[], 2);
        check(&["before1.pkl", "before2.pkl"], &[], 2);
        check(&["a_rank1.pkl", "a_rank01.pkl"], &[], 2);
    }

    proptest! {
        #[test]
        fn any_paths_are_sorted_into_sets_once(
            paths in prop::collection::hash_set("[a-c/_.r0-9]{0,12}|d/(x_)?rank[0-9]{1,2}", 0..12),
            folder: bool,
        ) {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let chosen = if folder { Chosen::Folder } else { Chosen::OneByOne };
            let (sets, left) = sets(&paths, chosen);
            let mut seen: Vec<usize> = left;
            for set in &sets {
                let ranks: HashSet<Rank> = set.files.iter().map(|f| f.0).collect();
                prop_assert_eq!(ranks.len(), set.files.len());
                prop_assert!(set.files.len() > 1 && !set.name.is_empty());
                seen.extend(set.files.iter().map(|f| f.1));
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..paths.len()).collect::<Vec<_>>());
        }
    }
}
