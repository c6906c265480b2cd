//! `tidemark ranks`: how the ranks of a job differ, without a server.

use super::CliError;
use super::failed_apart::FailedApart;
use super::files::{self, Found, JobFiles};
use super::output::{json, print};
use super::reading::{apart, trace_of};

use crate::limits::processor_time::within;
use crate::system::table::Table;
use answers::questions::JUDGING;
use api::jobs::{FileOfRank, JobNotes, RanksReport, Unreadable};
use clap::Args;
use std::path::PathBuf;
use timeline::format::doing;
use trace::compare::profile::Place;
use trace::compare::words::signed;
use trace::leaks::Verdict;
use trace::naming::Rules;
use trace::ranks::names::{Ordered, common_folders};
use trace::ranks::odd::rate;
use trace::ranks::profile::RankProfile;
use trace::ranks::sites::{RankHolds, SiteAcross};
use trace::ranks::{Surveyor, missing};
use trace::watch::Watch;

const EXAMPLES: &str = "\
Examples:
  tidemark ranks snapshots/                  rank0.pickle, rank1.pickle, …
  tidemark ranks snapshots.tar.gz            a folder in an archive: tar or zip
  tidemark ranks ddp_rank0.pickle ddp_rank1.pickle
  tidemark ranks 0=trainer.pickle 1=rollout.pickle
  tidemark ranks snapshots/ --json | jq '.ranks[] | select(.odd != []) | .rank'

The rank is read from the file's name, or its folder's: rank0, global_rank_12, x_r3; or it is given
before the file. The files of a folder are one job; with several jobs in it, each is told of. Files
of a folder that name no rank are numbered by role (actor_0), by several numbers (pp0_tp1), or by
host or pod, and it is said how.

Exit status: 0 when every rank was read, 2 when one was not, when a file of an archive could not be
unpacked, or when no two files are ranks of one job, 1 when Tidemark failed on one; the others are
told of all the same.";

/// Words in the name of a job that is the part of one host.
const HOSTS: [&str; 3] = ["local", "node", "host"];
/// Rows printed of long tables.
const SHOWN: usize = 24;

/// Options of `tidemark ranks`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RanksArgs {
    /// A folder or archive (tar, zip) with a snapshot of each rank, or the snapshots; RANK=FILE
    /// says which rank a file is
    #[arg(required = true, value_name = "DIR|FILE|RANK=FILE")]
    paths: Vec<PathBuf>,
    /// Print one JSON document, an array when there are several jobs; sizes in bytes
    #[arg(long)]
    json: bool,
}

/// Prints how they differ.
///
/// # Errors
/// [`CliError::BadInput`] and [`CliError::Usage`] if there is nothing to report.
pub fn ranks(args: &RanksArgs) -> Result<(), CliError> {
    for path in args.paths.iter().map(|path| files::file_of(path)) {
        path.metadata().map_err(|error| CliError::BadInput {
            path: path.to_owned(),
            why: format!("cannot open it: {error}"),
        })?;
    }
    let mut found = files::find(&args.paths)?;
    let jobs = std::mem::take(&mut found.jobs);
    let mut lost = std::mem::take(&mut found.lost);
    let failed = FailedApart::among(&found, &found.others);
    let are_local = local_ranks(&jobs);
    if jobs.is_empty() {
        // Of an archive whose files are all lost, that is all there is to say.
        if lost.is_empty() || !found.others.is_empty() {
            lost.push(CliError::Usage(no_job(&args.paths, &found)));
        }
        return Err(CliError::Several(lost));
    }
    let (mut reports, mut panicked) = (Vec::new(), Vec::new());
    for job in jobs {
        reports.push(report(&found, job, &mut panicked)?);
    }
    // Other files beside the snapshots of a folder are often not snapshots.
    if reports.iter().any(|report| !report.ranks.is_empty()) {
        reports.retain(|report| !report.ranks.is_empty());
    }
    if let [report] = &reports[..]
        && let (true, [first, ..]) = (report.ranks.is_empty(), &report.unreadable[..])
    {
        lost.push(unread(first));
        return Err(CliError::Several(lost));
    }
    for failed in failed.told(&found) {
        // The rank that a job lacks, in the last job of several.
        let lacks = |report: &&mut RanksReport| report.missing.contains(&failed.rank);
        if let Some(report) = reports.iter_mut().rev().find(lacks) {
            report.sentences.insert(0, failed.told());
        }
    }
    let text = match (args.json, &reports[..]) {
        (true, [one]) => json(one),
        (true, several) => json(&several),
        (false, several) => {
            let told: Vec<String> = several.iter().map(for_people).collect();
            told.join("\n") + &left_out(&found, &failed) + &are_local
        }
    };
    print(&text)?;
    panicked.append(&mut lost);
    match panicked.is_empty() {
        true => all_read(&reports),
        false => Err(CliError::Several(panicked)),
    }
}

/// Whether every rank was read. The answer itself names those that were not.
fn all_read(reports: &[RanksReport]) -> Result<(), CliError> {
    let mut all = reports.iter().flat_map(|report| &report.unreadable);
    match all.next() {
        None => Ok(()),
        Some(first) => Err(CliError::Said(Box::new(unread(first)))),
    }
}

fn unread(file: &Unreadable) -> CliError {
    CliError::BadInput {
        path: PathBuf::from(&file.file),
        why: file.why.clone(),
    }
}

/// What is said of jobs with the same ranks, if their names say that these may be those of the
/// hosts of one program.
fn local_ranks(jobs: &[JobFiles]) -> String {
    let ranks = |job: &JobFiles| job.files.iter().map(|(rank, _)| *rank).collect::<Vec<_>>();
    let [first, others @ ..] = jobs else {
        return String::new();
    };
    let is_of_host = |job: &JobFiles| {
        let name = job.name.to_ascii_lowercase();
        HOSTS.iter().any(|word| name.contains(word))
    };
    let are_alike = others.iter().all(|job| ranks(job) == ranks(first));
    if others.is_empty() || !are_alike || !jobs.iter().all(is_of_host) {
        return String::new();
    }
    let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    format!(
        "\n{} have the same ranks. If these are the local ranks of one program, name the files by \
         the global rank.\n",
        names.join(" and ")
    )
}

/// The files that are no ranks of a job, and which of them ran out of memory.
fn left_out(found: &Found, failed: &FailedApart) -> String {
    let head = match found.others.len() {
        0 => return String::new(),
        1 => "1 other file is not a rank of a job:".to_owned(),
        n => format!("{n} other files are not ranks of a job:"),
    };
    let lines = found.listed(found.others.iter(), |file| failed.says(file));
    format!("\n{head}\n{}\n", lines.join("\n"))
}

/// Why there is nothing to compare.
fn no_job(paths: &[PathBuf], found: &Found) -> String {
    let files: Vec<&PathBuf> = found.others.iter().collect();
    match &files[..] {
        [] => {
            let named: Vec<String> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let why = match found.has_archives() {
                true => "the archive holds no file",
                false => "there is no file in it",
            };
            format!("{}: {why}", named.join(", "))
        }
        [one] => format!(
            "{} is the only file: name a snapshot of each rank, or a folder with them",
            found.called(one)
        ),
        _ => {
            let why = found.why_no_job(&files);
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            format!(
                "no two of the files are ranks of one job{why}: a rank is named as in rank0.pickle \
                 or given as in 0=FILE 1=FILE"
            )
        }
    }
}

/// Reads one file after the other: only their profiles stay in memory. Those that the program
/// failed on are `panicked`, too.
fn report(
    found: &Found,
    job: JobFiles,
    panicked: &mut Vec<CliError>,
) -> Result<RanksReport, CliError> {
    let mut surveyor = Surveyor::default();
    let (mut read, mut unreadable) = (Vec::new(), Vec::new());
    let missing = missing(job.files.iter().map(|(rank, _)| *rank));
    let notes = JobNotes {
        numbered: job.ordered.as_ref().map(Ordered::told),
        ..JobNotes::default()
    };
    for (rank, path) in job.files {
        let file = found.called(&path);
        let profile = || {
            let trace = trace_of(&path, None, &Rules::default())?;
            Ok(within(JUDGING, |judging| {
                Watch::undisturbed(|watch| RankProfile::of(&trace, judging, watch))
            }))
        };
        let why = match apart(&path, profile) {
            Ok(profile) => {
                surveyor.add(rank, profile);
                read.push(file);
                continue;
            }
            Err(CliError::Panicked(path)) => {
                panicked.push(CliError::Panicked(path));
                "Tidemark failed on it, and that is its own fault".to_owned()
            }
            Err(CliError::BadInput { why, .. }) => why,
            Err(other) => return Err(other),
        };
        unreadable.push(Unreadable { rank, file, why });
    }
    if !unreadable.is_empty() || !missing.is_empty() {
        surveyor.lacks_some();
    }
    Ok(RanksReport::of(
        job.name,
        surveyor.finish(),
        read,
        unreadable,
        missing,
        &notes,
    ))
}

fn for_people(report: &RanksReport) -> String {
    let mut out = format!("{}\n", report.job);
    for sentence in &report.sentences {
        out += &format!("  {sentence}\n");
    }
    out += &format!("\n{}", ranks_table(report));
    out += &sites_table(report);
    for failed in &report.unreadable {
        out += &format!("  {} cannot be read: {}\n", failed.file, failed.why);
    }
    out
}

/// All ranks if there are few, otherwise the oddest.
fn ranks_table(report: &RanksReport) -> String {
    let mut shown: Vec<&FileOfRank> = report.ranks.iter().collect();
    // Where no file says its rank, which is which must be seen.
    let are_named = report.numbered.is_some();
    let files: Vec<&str> = report.ranks.iter().map(|one| one.file.as_str()).collect();
    let around = common_folders(&files);
    let n = shown.len();
    if n > SHOWN {
        shown.sort_by_key(|file| file.row.by_oddness);
        shown.truncate(SHOWN);
    }
    let heads = [
        "rank",
        "allocated, peak",
        "reserved, peak",
        "end",
        "a step",
        "steps",
        "leaks",
    ];
    let mut table = Table::new(heads);
    let mut whys = vec![String::new()];
    for FileOfRank { row, file } in shown {
        table.row([
            row.rank.to_string(),
            row.peak(),
            row.told(row.peak_reserved),
            row.end.to_string(),
            match row.growth {
                None => "?".to_owned(),
                Some(slope) if slope.abs() < 0.5 => "0".to_owned(),
                Some(slope) => signed(slope),
            },
            row.steps.to_string(),
            match row.verdict {
                Verdict::Leak => rate(row).to_string(),
                Verdict::Clean => "no".to_owned(),
                Verdict::CannotTell => "cannot tell".to_owned(),
            },
        ]);
        let name = are_named.then(|| &file[around..]);
        let odd = row.odd.iter().map(|odd| odd.why.as_str());
        let told: Vec<&str> = name.into_iter().chain(odd).collect();
        whys.push(told.join("; "));
    }
    let more = match n.saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("    … {more} more, less odd\n"),
    };
    beside(&table, &whys) + &more
}

fn sites_table(report: &RanksReport) -> String {
    let same = report.sites_same;
    if let Some(told) = &report.none_differs {
        return format!("\n  by stack: {told}\n");
    }
    let mut table = Table::new(["at most", "median", "ranks", "differs most"]);
    let mut places = vec![String::new()];
    for site in report.sites.iter().take(SHOWN) {
        let level = site.shown();
        let farthest = site.farthest.first();
        table.row([
            level[2].to_string(),
            level[1].to_string(),
            site.ranks.to_string(),
            farthest.map_or_else(String::new, |holds| told(site, holds)),
        ]);
        let without = || site.without_stack();
        let place = site.place.as_ref().map_or_else(without, Place::told);
        // What only some ranks hold, they come to by another way.
        let is_in_all = site.ranks as usize == report.ranks.len();
        let caller = site.caller.as_ref().filter(|_| !is_in_all);
        let caller = caller.map_or_else(String::new, |by| format!(", called by {}", by.told()));
        places.push(place + &caller);
    }
    let total = report.sites.len() + report.sites_left_out as usize;
    let more = match total.saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("    … {more} more\n"),
    };
    let table = beside(&table, &places);
    let differ = doing(total as u64, "site differs", "sites differ");
    let same = doing(u64::from(same), "holds the same", "hold the same");
    let unclear = match report.sites_unclear {
        0 => String::new(),
        n => format!(", {n} more may"),
    };
    let moments = match report.moments_differ {
        true => {
            "\n  the peaks are at different moments: what is compared is the most that a site \
             holds, or what it holds at the end where ranks differ more there"
        }
        false => "",
    };
    format!("\n  by stack: {differ} between ranks, {same}{unclear}{moments}\n{table}{more}")
}

fn told(site: &SiteAcross, holds: &RankHolds) -> String {
    let (held, when) = (holds.held(site.when), site.when.words());
    let leaks = if holds.leaks { ", leaks" } else { "" };
    format!("rank {}: {held} {when}{leaks}", holds.rank)
}

/// A table with a text of any length after each line.
fn beside<const N: usize>(table: &Table<N>, texts: &[String]) -> String {
    let lines = table.print("    ");
    let lines = lines.lines().zip(texts);
    let line =
        |(line, text): (&str, &String)| format!("{}\n", format!("{line}  {text}").trim_end());
    lines.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::ranks::Rank;

    #[test]
    fn a_rank_that_ran_out_of_memory_alone_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, fixture: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/");
            std::fs::copy(format!("{from}{fixture}"), path).unwrap();
        };
        put("step_5/rank0_s.pickle.zst", "ddp_rank0.pickle.zst");
        put("step_5/rank1_s.pickle.zst", "ddp_rank1.pickle.zst");
        let told = |found: &Found| left_out(found, &FailedApart::among(found, &found.others));
        let found = files::find(&[folder.path().to_owned()]).unwrap();
        assert_eq!(told(&found), "");
        put("step_8_exit/rank1_s.pickle.zst", "oom.pickle.zst");
        std::fs::write(folder.path().join("notes_rank0.txt"), "x").unwrap();
        let found = files::find(&[folder.path().to_owned()]).unwrap();
        let at = folder.path().display();
        let expected = format!(
            "\n2 other files are not ranks of a job:\n  {at}/notes_rank0.txt\n  \
             {at}/step_8_exit/rank1_s.pickle.zst: rank 1 ran out of memory\n"
        );
        assert_eq!(told(&found), expected);
    }

    /// As a job leaves its files that is killed while it writes them.
    #[test]
    fn ranks_that_cannot_be_read_are_told_first() {
        let folder = tempfile::tempdir().unwrap();
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/");
        let whole = std::fs::read(format!("{fixtures}ddp_rank0.pickle.zst")).unwrap();
        for rank in 0..4 {
            let file = folder.path().join(format!("rank{rank}.pickle.zst"));
            let kept = if rank < 2 { whole.len() } else { 1000 };
            std::fs::write(file, &whole[..kept]).unwrap();
        }
        let mut found = files::find(&[folder.path().to_owned()]).unwrap();
        let job = found.jobs.remove(0);
        let report = report(&found, job, &mut Vec::new()).unwrap();
        let told = "2 of 4 ranks could be read; ranks 2 and 3 could not.";
        assert_eq!(report.sentences[0], told);
        let of_all = |said: &&String| said.starts_with("All") || said.starts_with("Both");
        assert_eq!(report.sentences.iter().find(of_all), None);
        let unread: Vec<Rank> = report.unreadable.iter().map(|one| one.rank).collect();
        assert_eq!(unread, [Rank(2), Rank(3)]);
        let ended = all_read(&[report]).unwrap_err();
        assert_eq!((ended.exit_code(), ended.for_stderr()), (2, None));
    }

    #[test]
    fn the_ranks_of_two_hosts_may_be_those_of_one_program() {
        let job = |name: &str, ranks: &[u32]| JobFiles {
            name: name.to_owned(),
            files: ranks
                .iter()
                .map(|&rank| (Rank(rank), PathBuf::new()))
                .collect(),
            ordered: None,
        };
        let told = "\nhostA and hostB have the same ranks. If these are the local ranks of one \
                    program, name the files by the global rank.\n";
        let check = |jobs: &[JobFiles], expected: &str| {
            assert_eq!(local_ranks(jobs), expected);
        };
        check(&[job("hostA", &[0, 1]), job("hostB", &[0, 1])], told);
        check(&[job("hostA", &[0, 1]), job("hostB", &[0, 1, 2])], "");
        check(&[job("step_10", &[0, 1]), job("step_20", &[0, 1])], "");
        check(&[job("hostA", &[0, 1])], "");
    }
}
