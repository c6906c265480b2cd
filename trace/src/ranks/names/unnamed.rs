//! Ranks of a folder whose files do not name their rank: by role (`actor_0`), by several numbers
//! (`pp0_tp1`), by host and date, or by pod.
//!
//! What all names share tells nothing. What is left must be words that are known as roles of
//! processes, numbers behind words that are known as axes, one number alone, or the names of hosts
//! or pods: else the files may be anything, such as steps or experiments, and are no job. One
//! number that counts all files is the rank. Otherwise they are numbered in an order that is told
//! ([`Ordered`]).

use super::fields::{Field, Writing, fields_of, is_axis, is_role, may_be_of_pod};
use super::named::{SEPARATORS, folder_name, folder_of, without_ending};
use super::numbering::Ordered;
use super::one_number::{self, may_be_ranks};
use super::{MAX_RANKS, Rank, RankSet, by_number, common_folders};
use std::collections::{BTreeMap, BTreeSet};

/// Those that are rank 0 where the others are counted from 1 on.
const FIRST: [&str; 6] = [
    "chief",
    "coordinator",
    "head",
    "launcher",
    "leader",
    "master",
];

struct File {
    /// Position among the paths.
    at: usize,
    /// Without dates.
    fields: Vec<Field>,
    date: Option<Writing>,
}

impl File {
    fn words(&self) -> Vec<&str> {
        let words = self.fields.iter().filter_map(|field| match field {
            Field::Word(word) => Some(word.as_str()),
            _ => None,
        });
        words.collect()
    }

    fn number(&self, at: usize) -> Option<u32> {
        match self.fields.get(at) {
            Some(Field::Number(n)) => Some(*n),
            _ => None,
        }
    }
}

/// The jobs in a folder: all files, or those of each folder by itself.
pub(super) fn jobs(paths: &[&str]) -> Vec<RankSet> {
    let own = of_commonest_ending(paths);
    if let Some(job) = job(paths, &own) {
        return vec![job];
    }
    let mut folders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for at in own {
        folders
            .entry(folder_of(paths[at]).unwrap_or_default())
            .or_default()
            .push(at);
    }
    let mut folders: Vec<(&str, Vec<usize>)> = folders.into_iter().collect();
    folders.sort_by(|(a, _), (b, _)| by_number(a, b));
    match folders.len() {
        1 => Vec::new(),
        _ => folders
            .iter()
            .filter_map(|(_, own)| job(paths, own))
            .collect(),
    }
}

/// Whether files are called by host and time, as PyTorch's guide to snapshots does.
pub(super) fn are_by_host(paths: &[&str]) -> bool {
    let own = of_commonest_ending(paths);
    let is_by_host = |&at: &usize| file(at, paths[at]).date == Some(Writing::WithMonth);
    !own.is_empty() && own.iter().all(is_by_host)
}

/// The files with the ending that most have: others are notes and the like.
fn of_commonest_ending(paths: &[&str]) -> Vec<usize> {
    let ending = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let ending = &name[without_ending(name).len()..];
        match ending {
            "" => name
                .rsplit_once('.')
                .map_or("", |(_, ending)| ending)
                .to_owned(),
            known => known.to_owned(),
        }
    };
    let mut by_ending: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, path) in paths.iter().enumerate() {
        by_ending.entry(ending(path)).or_default().push(at);
    }
    by_ending
        .into_values()
        .max_by_key(Vec::len)
        .unwrap_or_default()
}

fn job(paths: &[&str], own: &[usize]) -> Option<RankSet> {
    let texts: Vec<&str> = own.iter().map(|&at| paths[at]).collect();
    let apart = common_folders(&texts);
    let files: Vec<File> = own
        .iter()
        .map(|&at| file(at, &paths[at][apart..]))
        .collect();
    let distinct: BTreeSet<&[Field]> = files.iter().map(|file| &file.fields[..]).collect();
    if files.len() < 2 || distinct.len() < files.len() {
        return None;
    }
    let (ranks, ordered) = numbered(&files, paths)?;
    let mut numbered: Vec<(Rank, usize)> = ranks.into_iter().zip(own.iter().copied()).collect();
    numbered.sort_unstable();
    let job = RankSet {
        name: common_start(&texts),
        files: numbered,
        ordered,
    };
    let are_allowed = job.files.iter().all(|(rank, _)| rank.0 < MAX_RANKS);
    (job.is_distinct() && are_allowed).then_some(job)
}

fn file(at: usize, path: &str) -> File {
    let all = fields_of(path);
    let date = all.iter().find_map(|field| match field {
        Field::Date(writing) => Some(*writing),
        _ => None,
    });
    let fields = all
        .into_iter()
        .filter(|field| !matches!(field, Field::Date(_)));
    File {
        at,
        fields: fields.collect(),
        date,
    }
}

/// The rank of each file, and the order where that is not what the files say.
type Numbers = (Vec<Rank>, Option<Ordered>);

fn numbered(files: &[File], paths: &[&str]) -> Option<Numbers> {
    let all: Vec<&File> = files.iter().collect();
    let roles: BTreeSet<Vec<&str>> = files.iter().map(File::words).collect();
    let found = match roles.len() {
        1 => of_one_role(&all, paths),
        _ => by_role(files, paths),
    };
    if files
        .iter()
        .any(|file| file.date != Some(Writing::WithMonth))
    {
        return found;
    }
    // A host has any name, and its number need not be that of the rank, unless it counts them all.
    let counts_all = |(ranks, ordered): &Numbers| {
        matches!(ordered, None | Some(Ordered::ByNumber(_))) && count_all(ranks)
    };
    Some(match found.filter(counts_all) {
        Some((ranks, _)) => (ranks, None),
        None => (in_order(&all, paths), Some(Ordered::ByHost)),
    })
}

/// Whether these are the numbers from 0 on, each once.
fn count_all(ranks: &[Rank]) -> bool {
    let distinct: BTreeSet<u32> = ranks.iter().map(|rank| rank.0).collect();
    distinct.len() == ranks.len() && (0..).zip(&distinct).all(|(at, rank)| at == *rank)
}

/// Files that are numbered as their names are sorted.
fn in_order(files: &[&File], paths: &[&str]) -> Vec<Rank> {
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by(|&a, &b| by_number(paths[files[a].at], paths[files[b].at]));
    ranks_in(&order)
}

/// The rank of each by the order of all.
fn ranks_in(order: &[usize]) -> Vec<Rank> {
    let mut ranks = vec![Rank(0); order.len()];
    for (rank, &at) in (0..).zip(order) {
        ranks[at] = Rank(rank);
    }
    ranks
}

/// Files whose names have the same words.
fn of_one_role(files: &[&File], paths: &[&str]) -> Option<Numbers> {
    let first = &files.first()?.fields;
    let kinds = |file: &File| {
        file.fields
            .iter()
            .map(std::mem::discriminant)
            .collect::<Vec<_>>()
    };
    if files.iter().any(|file| kinds(file) != kinds(files[0])) {
        return None;
    }
    let varies = |&at: &usize| files.iter().any(|file| file.fields[at] != first[at]);
    let varying: Vec<usize> = (0..first.len()).filter(varies).collect();
    let is_other_code = |&at: &usize| {
        files.iter().any(|file| match &file.fields[at] {
            Field::Code(code) => !may_be_of_pod(code),
            _ => false,
        })
    };
    if varying.iter().any(is_other_code) {
        return None;
    }
    let numbers = varying
        .into_iter()
        .filter(|&at| files[0].number(at).is_some());
    match &numbers.collect::<Vec<usize>>()[..] {
        // Only the codes of pods differ, or there is one file.
        [] => Some((in_order(files, paths), Some(Ordered::ByName))),
        [at] => {
            let numbers: Vec<u32> = files.iter().filter_map(|file| file.number(*at)).collect();
            let word = match at.checked_sub(1).map(|before| &first[before]) {
                Some(Field::Word(word)) => word,
                _ => "",
            };
            let highest = numbers.iter().max().map_or(0, |&n| n as usize);
            // Beside dates a number is often a count of steps, with gaps.
            let may_be = files[0].date.is_none() || highest < 2 * files.len();
            (may_be && may_be_ranks(word, &numbers)).then(|| {
                let ranks = numbers.into_iter().map(Rank).collect();
                (ranks, one_number::ordered(word))
            })
        }
        several => by_axes(files, several),
    }
}

/// Whether the number in which files of a role differ counts processes: not behind a word for
/// something else, such as a step.
fn counts_processes(files: &[&File]) -> bool {
    let [first, others @ ..] = files else {
        return true;
    };
    let fields = first.fields.iter().enumerate();
    let mut varying = fields.filter(|(at, field)| {
        matches!(field, Field::Number(_)) && others.iter().any(|file| file.fields[*at] != **field)
    });
    varying.all(
        |(at, _)| match at.checked_sub(1).map(|at| &first.fields[at]) {
            Some(Field::Word(word)) => is_axis(word) || is_role(word),
            _ => true,
        },
    )
}

/// Files with several numbers, each behind a word that is known for that.
fn by_axes(files: &[&File], numbers: &[usize]) -> Option<Numbers> {
    let word = |&at: &usize| match files[0].fields.get(at.checked_sub(1)?) {
        Some(Field::Word(word)) if is_axis(word) => Some(word.clone()),
        _ => None,
    };
    let axes: Vec<String> = numbers.iter().map(word).collect::<Option<_>>()?;
    let values = |at: usize| files.iter().filter_map(move |file| file.number(at));
    let alone = |&&at: &&usize| count_all(&values(at).map(Rank).collect::<Vec<_>>());
    if let Some(&at) = numbers.iter().rfind(alone) {
        return Some((values(at).map(Rank).collect(), None));
    }
    // The place in the mesh, so that a missing file leaves the numbers of the others.
    let mut places = vec![0_usize; files.len()];
    let mut size = 1;
    for &at in numbers {
        let known: Vec<u32> = values(at).collect::<BTreeSet<u32>>().into_iter().collect();
        size = known.len().saturating_mul(size);
        for (place, n) in places.iter_mut().zip(values(at)) {
            *place = place.saturating_mul(known.len()) + known.partition_point(|&other| other < n);
        }
    }
    let ranks = match size <= 2 * files.len() && size <= MAX_RANKS as usize {
        true => places.into_iter().map(|place| Rank(place as u32)).collect(),
        false => {
            let mut order: Vec<usize> = (0..files.len()).collect();
            order.sort_by_key(|&at| places[at]);
            ranks_in(&order)
        }
    };
    Some((ranks, Some(Ordered::ByAxes(axes))))
}

/// Files of several roles: each has words that the others do not have.
fn by_role(files: &[File], paths: &[&str]) -> Option<Numbers> {
    let mut by_words: BTreeMap<Vec<&str>, Vec<usize>> = BTreeMap::new();
    for (at, file) in files.iter().enumerate() {
        by_words.entry(file.words()).or_default().push(at);
    }
    let words: Vec<&Vec<&str>> = by_words.keys().collect();
    let (before, behind) = common(&words);
    let mut roles: Vec<(String, &Vec<usize>)> = Vec::new();
    for (words, own) in &by_words {
        let own_words = &words[before..words.len() - behind];
        if !own_words.iter().any(|word| is_role(word)) {
            return None;
        }
        roles.push((own_words.join("_"), own));
    }
    roles.sort_by_cached_key(|(role, _)| {
        let is_first = role.split('_').any(|word| FIRST.contains(&word));
        (!is_first, role.clone())
    });
    if let Some(ranks) = one_number(files) {
        return Some((ranks, None));
    }
    let mut order = Vec::with_capacity(files.len());
    let mut told = Vec::with_capacity(roles.len());
    for (role, own) in roles {
        let of_role: Vec<&File> = own.iter().map(|&at| &files[at]).collect();
        let (ranks, ordered) = of_one_role(&of_role, paths)?;
        if ordered.is_none() && !counts_processes(&of_role) {
            return None;
        }
        let mut inside: Vec<(Rank, usize)> = ranks.into_iter().zip(own.iter().copied()).collect();
        inside.sort_unstable();
        let first = order.len();
        order.extend(inside.into_iter().map(|(_, at)| at));
        let ends = [first, order.len() - 1];
        told.push((role, ends.map(|end| Rank(end as u32))));
    }
    Some((ranks_in(&order), Some(Ordered::ByRole(told))))
}

/// The one number of each file, if these count all files.
fn one_number(files: &[File]) -> Option<Vec<Rank>> {
    let fields: Vec<&Vec<Field>> = files.iter().map(|file| &file.fields).collect();
    let (before, behind) = common(&fields);
    let number = |file: &File| {
        let own = before..file.fields.len() - behind;
        let mut numbers = own.filter_map(|at| file.number(at));
        let one = numbers.next()?;
        numbers.next().is_none().then_some(Rank(one))
    };
    let ranks: Option<Vec<Rank>> = files.iter().map(number).collect();
    ranks.filter(|ranks| count_all(ranks))
}

/// How much the beginnings and the ends of all have in common.
fn common<T: PartialEq>(all: &[&Vec<T>]) -> (usize, usize) {
    let Some((first, others)) = all.split_first() else {
        return (0, 0);
    };
    let least = all.iter().map(|one| one.len()).min().unwrap_or(0);
    let same = |at: usize| others.iter().all(|other| other[at] == first[at]);
    let before = (0..least).take_while(|&at| same(at)).count();
    let same = |at: usize| {
        let from_end = |one: &Vec<T>| one.len() - 1 - at;
        others
            .iter()
            .all(|other| other[from_end(other)] == first[from_end(first)])
    };
    let behind = (0..least - before).take_while(|&at| same(at)).count();
    (before, behind)
}

/// What the names begin with, up to where a field ends; else the folder's name.
pub fn common_start(paths: &[&str]) -> String {
    let Some((first, others)) = paths.split_first() else {
        return String::new();
    };
    let mut end = first.len();
    for other in others {
        let mut pairs = first.char_indices().zip(other.chars());
        let differs = pairs.find(|((_, a), b)| a != b).map(|((at, _), _)| at);
        end = end.min(differs.unwrap_or(other.len()));
    }
    let own = first[..end].rsplit('/').next().unwrap_or_default();
    let own = own.rfind(SEPARATORS).map_or("", |at| &own[..at]);
    match own.trim_matches(SEPARATORS) {
        "" => folder_name(Some(
            first[..end]
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder),
        ))
        .to_owned(),
        own => own.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chosen, sets};

    /// The ranks of each file in a folder, in order of the files, and how they are numbered.
    fn check(paths: &[&str], ranks: &[u32], how: &str) {
        let (sets, left) = sets(paths, Chosen::Folder);
        let [job] = &sets[..] else {
            assert!(sets.is_empty() && ranks.is_empty(), "{paths:?}: {sets:?}");
            return;
        };
        let mut by_file: Vec<(usize, u32)> = job.files.iter().map(|(r, at)| (*at, r.0)).collect();
        by_file.sort_unstable();
        let found: Vec<u32> = by_file.into_iter().map(|(_, rank)| rank).collect();
        assert_eq!(found, ranks, "{paths:?}");
        assert_eq!(left.len() + found.len(), paths.len(), "{paths:?}");
        let told = job
            .ordered
            .as_ref()
            .map(super::Ordered::told)
            .unwrap_or_default();
        let told = told.strip_prefix("No file names its rank, so the ranks are numbered ");
        let told = told.and_then(|told| told.split_once(". If the program"));
        let told = told.map_or("", |(told, _)| told);
        assert_eq!(format!("{}: {told}", job.name), how, "{paths:?}");
    }

    #[test]
    fn ranks_are_numbered_role_by_role() {
        check(
            &[
                "d/actor_0.pkl",
                "d/actor_1.pkl",
                "d/critic_0.pkl",
                "d/learner.pkl",
            ],
            &[0, 1, 2, 3],
            "d: role by role (actor 0 to 1, critic 2, learner 3)",
        );
        // The numbers count all of them, or do not.
        check(
            &["d/trainer_2.pkl", "d/rollout_1.pkl", "d/rollout_0.pkl"],
            &[2, 1, 0],
            "d: ",
        );
        check(
            &["d/actor_0.pickle", "d/critic_1.pickle", "d/learner.pickle"],
            &[0, 1, 2],
            "d: role by role (actor 0, critic 1, learner 2)",
        );
        // As PyTorchJob calls its pods.
        check(
            &[
                "d/llm-worker-0.pkl",
                "d/llm-worker-1.pkl",
                "d/llm-master-0.pkl",
            ],
            &[1, 2, 0],
            "llm: role by role (master 0, worker 1 to 2)",
        );
        check(
            &[
                "d/actors/tp1_dp0.pkl",
                "d/actors/tp0_dp1.pkl",
                "d/actors/tp0_dp0.pkl",
                "d/critic/0.pkl",
            ],
            &[2, 1, 0, 3],
            "d: role by role (actors_tp_dp 0 to 2, critic 3)",
        );
        // Nobody knows what these are.
        check(&["d/before.pkl", "d/after.pkl"], &[], "");
        check(&["d/resnet_0.pkl", "d/bert_0.pkl", "d/bert_1.pkl"], &[], "");
        check(
            &["d/actor_0.pkl", "d/actor_1.pkl", "d/notes_0.pkl"],
            &[],
            "",
        );
        check(
            &[
                "d/actor_step5_1.pkl",
                "d/actor_step9_1.pkl",
                "d/critic_step5_1.pkl",
            ],
            &[],
            "",
        );
    }

    #[test]
    fn ranks_are_numbered_by_several_numbers() {
        check(
            &[
                "m_pp1_tp0.pkl",
                "m_pp0_tp1.pkl",
                "m_pp0_tp0.pkl",
                "m_pp1_tp1.pkl",
            ],
            &[2, 1, 0, 3],
            "m: by pp, tp, the outermost first",
        );
        // A file is missing; notes are no rank.
        check(
            &[
                "d/node3/gpu0.pkl",
                "d/node3/gpu1.pkl",
                "d/node2/gpu1.pkl",
                "d/notes.txt",
            ],
            &[2, 3, 1],
            "d: by node, gpu, the outermost first",
        );
        // One of the numbers counts all of them.
        check(
            &[
                "node0_gpu0.pkl",
                "node0_gpu1.pkl",
                "node1_gpu2.pkl",
                "node1_gpu3.pkl",
            ],
            &[0, 1, 2, 3],
            "ranks: ",
        );
        // Few places of a large mesh.
        check(
            &["pp0_tp0_dp9.pkl", "pp3_tp0_dp1.pkl", "pp3_tp7_dp1.pkl"],
            &[0, 1, 2],
            "ranks: by pp, tp, dp, the outermost first",
        );
        check(
            &["epoch0_step1.pkl", "epoch1_step0.pkl", "epoch0_step0.pkl"],
            &[],
            "",
        );
        check(&["a0_1.pkl", "a1_2.pkl"], &[], "");
        // A folder for each step.
        let (sets, _) = sets(
            &[
                "step1/tp0_dp0.pkl",
                "step1/tp0_dp1.pkl",
                "step1/tp1_dp0.pkl",
                "step2/tp0_dp0.pkl",
                "step2/tp1_dp1.pkl",
            ],
            Chosen::Folder,
        );
        let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(names, ["step1", "step2"]);
    }

    #[test]
    fn ranks_are_numbered_by_host_or_pod() {
        check(
            &[
                "gpu-node-3_Nov_28_12_00_01.pickle",
                "gpu-node-4_Nov_28_12_00_01.pickle",
            ],
            &[0, 1],
            "gpu-node: as the names of their hosts are sorted",
        );
        check(
            &[
                "gpu-node-12_Nov_28_12_00_01.pickle",
                "gpu-node-3_Nov_28_12_00_02.pickle",
            ],
            &[1, 0],
            "gpu-node: as the names of their hosts are sorted",
        );
        check(
            &["alice_Nov_28_12_00_01.pickle", "bob_Nov_28_12_00_02.pickle"],
            &[0, 1],
            "ranks: as the names of their hosts are sorted",
        );
        check(
            &["w-0_Nov_28_12_00_01.pickle", "w-1_Nov_28_12_00_02.pickle"],
            &[0, 1],
            "w: ",
        );
        check(
            &["w-0_20261129_100612.pkl", "w-1_20261129_100613.pkl"],
            &[0, 1],
            "w: ",
        );
        check(&["job-0-x7k2p.pkl", "job-1-q9zbd.pkl"], &[0, 1], "job: ");
        check(&["worker-0.pkl", "worker-1.pkl"], &[0, 1], "worker: ");
        check(
            &[
                "trainer-7f9c6d-vwxyz_rank.pickle",
                "trainer-7f9c6d-abcde_rank.pickle",
            ],
            &[1, 0],
            "trainer-7f9c6d: as their names are sorted",
        );
        // Several files of one host; steps; other programs.
        check(
            &[
                "a_Nov_28_12_00_01.pkl",
                "a_Nov_28_12_00_09.pkl",
                "b_Nov_28_12_00_01.pkl",
            ],
            &[],
            "",
        );
        check(
            &["s100_20261129_100612.pkl", "s200_20261129_100613.pkl"],
            &[],
            "",
        );
        check(
            &["bert_20261129_100612.pkl", "gpt_20261129_100613.pkl"],
            &[],
            "",
        );
    }
}
