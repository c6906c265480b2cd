//! Which files are the ranks of one job.

use super::*;
use proptest::prelude::*;
use std::cmp::Ordering;
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

/// Checks the sets of files that come in folders.
fn in_folders(paths: &[&str], expected: &[&str], left: usize) {
    let (sets, n) = told(paths, Chosen::Folder);
    assert_eq!(sets, expected, "{paths:?}");
    assert_eq!(n, left, "{paths:?}");
}

/// Checks the sets of files that somebody chose one by one.
fn one_by_one(paths: &[&str], expected: &[&str], left: usize) {
    let (sets, n) = told(paths, Chosen::OneByOne);
    assert_eq!(sets, expected, "{paths:?}");
    assert_eq!(n, left, "{paths:?}");
}

/// Folders in which all files lie, such as where a disk is mounted, tell nothing.
#[test]
fn where_a_folder_lies_says_nothing() {
    let check = in_folders;
    check(&["/r5/w/s_0.pkl", "/r5/w/s_1.pkl"], &["s: 0 1"], 0);
    check(&["rank3/s_0.pkl", "rank3/s_1.pkl"], &["s: 0 1"], 0);
    check(&["r5/rank0/s.pkl", "r5/rank1/s.pkl"], &["r5: 0 1"], 0);
    check(&["r5/a/rank0.pkl", "r5/b/x.pkl"], &[], 2);
}

#[test]
fn the_files_of_a_folder_are_a_job() {
    let check = in_folders;
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
    // These count moments or variants of a program, and no processes.
    check(&["d/step10.pkl", "d/step20.pkl"], &[], 2);
    check(&["d/llama-step1.pkl", "d/llama-step2.pkl"], &[], 2);
    check(&["d/iteration_0/s.pkl", "d/iteration_1/s.pkl"], &[], 2);
    check(&["d/Epochs1.pkl", "d/Epochs2.pkl"], &[], 2);
    check(&["d/bs8.pkl", "d/bs16.pkl"], &[], 2);
    check(&["d/v1.pkl", "d/v2.pkl"], &[], 2);
    check(&["d/run0/s.pkl", "d/run1/s.pkl"], &[], 2);
    check(&["d/lr1e-3.pkl", "d/lr1e-4.pkl"], &[], 2);
    check(&["d/llama7b.pkl", "d/llama1b.pkl"], &[], 2);
    check(&["d/100.pkl", "d/200.pkl"], &[], 2);
    check(&["d/s_7.pkl", "d/s_9.pkl"], &[], 2);
    check(&["d/worker7.pkl", "d/worker9.pkl"], &["worker: 7 9"], 0);
    check(&["d/actor-7.pkl", "d/actor-9.pkl"], &["actor: 7 9"], 0);
    check(&["d/s_1.pkl", "d/s_2.pkl"], &["s: 1 2"], 0);
    check(&["d/s_0.pkl", "d/s_2.pkl", "d/s_3.pkl"], &["s: 0 2 3"], 0);
    // Two numbers differ, or something else differs: the rank is unknown.
    check(&["d/0_1.pkl", "d/1_2.pkl"], &[], 2);
    check(&["d/a0.pkl", "d/b1.pkl"], &[], 2);
    check(&["d/a0.pkl", "d/a00.pkl"], &[], 2);
    check(&["d/rank0.pkl"], &[], 1);
    check(&[], &[], 0);
}

#[test]
fn each_host_may_write_into_a_folder_of_its_own() {
    let check = in_folders;
    check(
        &[
            "d/n0/rank0.pkl",
            "d/n0/rank1.pkl",
            "d/n1/rank2.pkl",
            "d/n1/rank3.pkl",
        ],
        &["d: 0 1 2 3"],
        0,
    );
    check(&["d/n0/s_rank0.pkl", "d/n1/s_rank1.pkl"], &["s: 0 1"], 0);
    check(
        &[
            "d/a/s_rank0.pkl",
            "d/a/s_rank1.pkl",
            "d/b/t_rank2.pkl",
            "d/b/t_rank3.pkl",
        ],
        &["s: 0 1", "t: 2 3"],
        0,
    );
}

#[test]
fn starts_of_a_program_are_told_apart_by_their_dates() {
    let check = in_folders;
    let all = [
        "e/rank0_20261129_100612.pkl",
        "e/rank0_20261129_113041.pkl",
        "e/rank1_20261129_100613.pkl",
        "e/rank1_20261129_113042.pkl",
    ];
    let jobs = ["20261129_100612: 0 1", "20261129_113041: 0 1"];
    check(&all, &jobs, 0);
    // Which start lacks a rank is not known.
    check(&all[..3], &[], 3);
    // One rank began anew before the other had written.
    let mixed = [
        all[0],
        all[1],
        "e/rank1_20261129_120000.pkl",
        "e/rank1_20261129_130000.pkl",
    ];
    check(&mixed, &[], 4);
    // No dates: counts.
    check(
        &[
            "e/rank0_1.pkl",
            "e/rank0_2.pkl",
            "e/rank1_3.pkl",
            "e/rank1_4.pkl",
        ],
        &[],
        4,
    );
}

#[test]
fn jobs_with_one_name_are_told_apart_by_their_folders() {
    let check = in_folders;
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
    let check = one_by_one;
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
