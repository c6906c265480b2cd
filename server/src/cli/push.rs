//! `tidemark push`: upload files and jobs, print their links, compare them.

use super::CliError;
use super::alert::AlertArgs;
use super::failed_apart::FailedApart;
use super::files::{self, Found, JobFiles};
use super::labels::{self, LabelArgs, environment};
use super::output::{json, print, tell};
use super::pull_request::{self, CommentArgs};
use super::remote::{Remote, RemoteArgs};
use answers::cards::markdown::{self, Links};
use api::compare::{Comparison, RUNS, RecordComparison, RecordedComparison};
use api::ids::{JobId, RunId};
use api::jobs::{self, JobDetail, JobNotes, JobSummary, NewJob};
use api::labels::{Label, listed};
use api::routes;
use api::runs::{FinishedUpload, RunSummary};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use trace::ranks::names::Ordered;
use trace::ranks::{Rank, missing, missing_in_words};

/// The longest name of a file that the server is told.
const LONGEST_NAME: usize = 200;

const EXAMPLES: &str = "\
Examples:
  tidemark push snapshot.pickle
  tidemark push snapshots/                   the ranks of a job: rank0.pickle, rank1.pickle, …
  tidemark push snapshots.tar.gz             the same folder, packed
  tidemark push 0=trainer.pickle 1=rollout.pickle
  ssh gpu-box cat snapshot.pickle | tidemark push -
  tidemark push before.pickle after.pickle --compare
  tidemark push after.pickle --base main.pickle --pr https://github.com/me/repo/pull/7 --comment
  tidemark push after.pickle --label config=qlora --base branch=main,config=qlora
  TIDEMARK_TOKEN=… tidemark push snapshot.pickle.zst --server http://gpu-box:7878 --json

--pr records the comparison for the pull request, and implies --compare.

Of a folder or archive, the ranks of jobs are sent and nothing else.

Exit status: 0 when all of that was sent, 2 when a file is no snapshot (the others are sent all the
same, and not compared), or when an option or the baseline is wrong, otherwise 1.";

/// Options of `tidemark push`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PushArgs {
    /// Snapshots (`-`: the standard input); a folder or an archive (tar, zip) of snapshots, files
    /// that differ only in the rank, or files with their ranks (RANK=FILE) become a job
    #[arg(required = true, value_name = "FILE|DIR|RANK=FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Compare the files, the first being the baseline unless --base names one
    #[arg(long)]
    compare: bool,
    /// The baseline: a run's id, the newest run of that name, or the newest with these labels
    /// (branch=main,config=a). In CI, `auto`: the newest of the branch that the change goes to,
    /// with the labels given here. A run of the same file is passed over. Implies --compare
    #[arg(long, value_name = "RUN|LABELS|auto")]
    base: Option<String>,
    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    comment: CommentArgs,
    #[command(flatten)]
    alert: AlertArgs,
    /// Print the server's answers as one JSON document: of a file, of several files in an array, of
    /// a job {"job", "link", "uploads", …}, of a comparison {"comparison", "link", "uploads", …}
    #[arg(long)]
    json: bool,
}

/// What `--json` prints with `--compare`.
#[derive(Serialize)]
struct Pushed {
    uploads: Vec<FinishedUpload>,
    link: String,
    markdown: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<RecordedComparison>,
    comparison: Comparison,
}

/// What `--json` prints for a job.
#[derive(Serialize)]
struct PushedJob {
    job: JobSummary,
    link: String,
    /// Whether an earlier push made this job.
    known: bool,
    /// Ranks below the highest that have no recording.
    missing: Vec<Rank>,
    uploads: Vec<FinishedUpload>,
    refused: Vec<String>,
}

/// Uploads the files one after the other, prints a link for each, and compares them.
///
/// # Errors
/// For the files that cannot be read or are refused, after the others were sent, and when there is
/// nothing to compare.
pub fn push(args: &PushArgs) -> Result<(), CliError> {
    check(args)?;
    let thread = args.comment.thread()?;
    let alert = args.alert.alert()?;
    let mut push = Push {
        args,
        remote: Remote::new(&args.remote)?,
        refused: Vec::new(),
    };
    let compares = args.compare || args.base.is_some() || args.comment.pr.is_some();
    if compares {
        check_count(args)?;
    } else if args.alert.is_named() {
        let why = "--alert tells of a comparison: say with what, by --base or --compare";
        return Err(CliError::Usage(why.to_owned()));
    } else {
        let found = files::find(&args.files)?;
        let folders = found.has_archives() || args.files.iter().any(|path| path.is_dir());
        if !found.jobs.is_empty() || folders {
            return push.send_found(found);
        }
    }
    // Before anything is sent: a baseline that is not there makes the rest useless.
    let base = match &args.base {
        Some(base) => Some(push.baseline(base)?),
        None => None,
    };
    let uploads = push.send_each(&args.files)?;
    // Without one of the files there is no comparison, and what was sent is told as without one.
    if compares && push.refused.is_empty() {
        let pushed = push.compare(base, uploads)?;
        print(&match args.json {
            true => json(&pushed),
            false => format!("{}\n\n{}", pushed.link, pushed.markdown),
        })?;
        let verdicts = pushed.comparison.against.iter().map(|one| &one.gate);
        let status = pull_request::status(verdicts, Some(pushed.link.clone()));
        if let Some(thread) = thread {
            thread.post(&pushed.markdown, &status);
        }
        if let Some(alert) = alert {
            alert.send(&status, &args.labels.all(environment));
        }
        return Ok(());
    }
    match (args.json, &uploads[..]) {
        (false, _) | (true, []) => {}
        (true, [one]) if args.files.len() == 1 => print(&json(one))?,
        (true, several) => print(&json(&several))?,
    }
    push.end()
}

/// A push under way.
struct Push<'a> {
    args: &'a PushArgs,
    remote: Remote<'a>,
    /// Why files were refused; the others are sent.
    refused: Vec<CliError>,
}

impl Push<'_> {
    /// Uploads files that were named, one after the other, and prints their links. Files that are
    /// refused are noted, and the others are sent.
    fn send_each<'f>(
        &mut self,
        files: impl IntoIterator<Item = &'f PathBuf>,
    ) -> Result<Vec<FinishedUpload>, CliError> {
        let mut uploads = Vec::new();
        for path in files {
            let answer = match self.sent(path, None) {
                Ok(answer) => answer,
                Err(error @ CliError::BadInput { .. }) => {
                    self.refused.push(error);
                    continue;
                }
                Err(error) => {
                    self.refused.push(error);
                    return Err(CliError::Several(std::mem::take(&mut self.refused)));
                }
            };
            if !self.args.json {
                print_link(
                    &self
                        .remote
                        .page_beside(&routes::run_page(&answer.run.id), &answer),
                    answer.known,
                )?;
            }
            uploads.push(answer);
        }
        Ok(uploads)
    }

    /// What was refused is the error at the end: the rest was sent.
    fn end(self) -> Result<(), CliError> {
        match self.refused.is_empty() {
            true => Ok(()),
            false => Err(CliError::Several(self.refused)),
        }
    }

    /// Uploads jobs, and other files that were named. What is refused is the error at the end: the
    /// rest was sent, but whoever waits for all ranks must notice.
    fn send_found(mut self, mut found: Found) -> Result<(), CliError> {
        self.refused.append(&mut found.lost);
        if found.jobs.is_empty() && found.others.is_empty() {
            if self.refused.is_empty() {
                let why = match found.has_archives() {
                    true => "there is no file to upload: the archive holds no file",
                    false => "there is no file to upload",
                };
                self.refused.push(CliError::Usage(why.to_owned()));
            }
            return self.end();
        }
        // A folder may have other files than snapshots. Only files named directly must be
        // snapshots.
        let (named, left): (Vec<_>, Vec<_>) = found
            .others
            .iter()
            .partition(|path| self.args.files.contains(path));
        let failed = FailedApart::among(&found, left.iter().copied());
        let mut jobs = Vec::new();
        for (at, job) in found.jobs.iter().enumerate() {
            let notes = notes(&found.jobs[at..], &failed, &found);
            if let Some(pushed) = self.send_job(job, notes)? {
                if !self.args.json {
                    print_link(&pushed.link, pushed.known)?;
                }
                jobs.push(pushed);
            }
        }
        let only_a_job = named.is_empty();
        let uploads = self.send_each(named)?;
        match (self.args.json, &jobs[..], &uploads[..]) {
            (_, [], []) if !self.refused.is_empty() => {}
            (_, [], []) => return Err(CliError::Usage(no_job(&found, &left))),
            (false, _, _) => {}
            (true, [one], []) if only_a_job => print(&json(one))?,
            (true, jobs, uploads) => print(&json(&(jobs, uploads)))?,
        }
        let in_archives = left.iter().filter(|file| found.is_in_archive(file)).count();
        let told = not_sent(left.len() - in_archives, in_archives).into_iter();
        let listed = found.listed(left.iter().copied(), |file| failed.says(file));
        told.chain(listed).for_each(|line| tell(&line));
        self.end()
    }

    /// Uploads the ranks of a job. Files that are refused are noted, and the others are sent;
    /// `None` if no file is left.
    fn send_job(&mut self, job: &JobFiles, notes: JobNotes) -> Result<Option<PushedJob>, CliError> {
        let numbered = notes.numbered.clone();
        let new = NewJob {
            name: job.name.clone(),
            key: None,
            notes,
        };
        let made: JobSummary = self.remote.post(routes::JOBS, &new)?;
        let mut uploads = Vec::new();
        let before = self.refused.len();
        for (rank, path) in &job.files {
            match self.sent(path, Some((&made.id, *rank))) {
                Ok(answer) => uploads.push(answer),
                Err(error @ CliError::BadInput { .. }) => self.refused.push(error),
                Err(error) => return Err(error),
            }
        }
        if uploads.is_empty() {
            // No rank was uploaded, so the job is deleted. If this token may not do that, the
            // server later deletes an empty job by itself.
            drop(self.remote.delete(&routes::job(&made.id)));
            return Ok(None);
        }
        let JobDetail { job, missing, .. } = self.remote.get(&routes::job(&made.id))?;
        if let Some(told) = missing_in_words(&missing) {
            tell(&format!("{}: {told}", job.name));
        }
        if let Some(told) = numbered {
            tell(&format!("{}: {told}", job.name));
        }
        Ok(Some(PushedJob {
            link: self
                .remote
                .page_beside(&routes::job_page(&job.id), &uploads[0]),
            // The server has found out that these are the ranks of an earlier job.
            known: job.id != made.id,
            job,
            missing,
            uploads,
            refused: self.refused[before..]
                .iter()
                .map(CliError::to_string)
                .collect(),
        }))
    }

    /// Uploads a file and labels its run.
    fn sent(
        &self,
        path: &Path,
        in_job: Option<(&JobId, Rank)>,
    ) -> Result<FinishedUpload, CliError> {
        let mut answer = self.remote.upload(path, in_job)?;
        let labels = self.args.labels.all(environment);
        if let Some(labelled) = labels::put(&self.remote, &answer.run.id, &labels)? {
            answer.run = labelled;
        }
        Ok(answer)
    }

    /// The run with this id; or the newest run with this name, or with these labels. A run of the
    /// files that are sent is not the baseline, unless its id is given: an earlier push may have
    /// sent them.
    fn baseline(&self, wanted: &str) -> Result<RunId, CliError> {
        let labels = match wanted {
            "auto" => Some(self.args.labels.of_baseline(environment)?),
            wanted => listed(wanted),
        };
        // What is no regular file can be read only once.
        let readable = self.args.files.iter().filter(|path| path.is_file());
        let sent = readable.map(|path| {
            files::run_of(path).map_err(|why| CliError::BadInput {
                path: path.clone(),
                why,
            })
        });
        let sent = sent.collect::<Result<Vec<RunId>, CliError>>()?;
        let mut is_sent = false;
        let mut newest = None;
        let mut consider = |run: &RunSummary| {
            is_sent |= sent.contains(&run.id);
            if newest.is_none() && !sent.contains(&run.id) {
                newest = Some(run.id.clone());
            }
            newest.is_some()
        };
        // The list is sorted, newest first.
        let (by_id, what) = match &labels {
            Some(labels) => {
                self.remote.find(&routes::runs_with(labels), consider)?;
                let texts: Vec<String> = labels.iter().map(Label::to_string).collect();
                (None, format!("labels {}", texts.join(", ")))
            }
            None => {
                let by_id = self.remote.find(routes::RUNS, |run: &RunSummary| {
                    if run.name == wanted || run.called() == wanted {
                        consider(run);
                    }
                    run.id.as_str() == wanted
                })?;
                (by_id, format!("id or name {wanted}"))
            }
        };
        let found = by_id.map(|run| run.id).or(newest);
        found.ok_or_else(|| {
            let other = if is_sent { "other " } else { "" };
            let advice = match labels {
                Some(_) => "; push one of that branch first",
                None => "",
            };
            let why = format!("the server has no {other}run with the {what}{advice}");
            CliError::Usage(format!("--base: {why}"))
        })
    }

    fn compare(
        &self,
        base: Option<RunId>,
        uploads: Vec<FinishedUpload>,
    ) -> Result<Pushed, CliError> {
        let pushed = uploads.iter().map(|upload| upload.run.id.clone());
        let runs: Vec<RunId> = base.into_iter().chain(pushed).collect();
        let recorded = match &self.args.comment.pr {
            None => None,
            Some(pr) => Some(self.remote.post(
                routes::COMPARISONS,
                &RecordComparison {
                    runs: runs.clone(),
                    pr: Some(pr.clone()),
                    name: None,
                },
            )?),
        };
        let comparison: Comparison = self.remote.get(&routes::compare(&runs))?;
        let page = routes::compare_page(&runs);
        let link = match uploads.first() {
            Some(sent) => self.remote.page_beside(&page, sent),
            None => self.remote.page(&page),
        };
        let links = Links {
            page: link.clone(),
            // The page needs a token, or is only on this machine: a pull request could not show its
            // picture.
            image: None,
        };
        Ok(Pushed {
            markdown: markdown::comparison(&comparison, Some(&links)),
            uploads,
            link,
            recorded,
            comparison,
        })
    }
}

/// What no rank of the first of these jobs tells: how its files are numbered, how many ranks there
/// are, since the file of one may be refused, and the ranks that it lacks and that failed, unless a
/// later job lacks them too. Of their files, the names and the innermost folders.
fn notes(found_jobs: &[JobFiles], failed: &FailedApart, found: &Found) -> JobNotes {
    let lacks = |job: &JobFiles, failed: &jobs::FailedApart| {
        missing(job.files.iter().map(|(rank, _)| *rank)).contains(&failed.rank)
    };
    let [job, later @ ..] = found_jobs else {
        return JobNotes::default();
    };
    let apart = failed.told(found).into_iter();
    let apart = apart.filter(|one| lacks(job, one) && !later.iter().any(|job| lacks(job, one)));
    let apart = apart.map(|one| jobs::FailedApart {
        file: innermost(&one.file),
        ..one
    });
    JobNotes {
        numbered: job.ordered.as_ref().map(Ordered::told),
        failed_apart: apart.take(JobNotes::MOST).collect(),
        ranks: job.files.iter().map(|(rank, _)| rank.0 + 1).max(),
    }
}

/// The end of a path: what lies around that is nobody's concern on the server.
fn innermost(path: &str) -> String {
    let folders = path.rmatch_indices(['/', '\\']);
    let from = folders.map(|(at, _)| at + 1).nth(1).unwrap_or(0);
    let end: Vec<char> = path[from..].chars().collect();
    end[end.len().saturating_sub(LONGEST_NAME)..]
        .iter()
        .collect()
}

/// What was not sent, because it is no rank of a job and was not named.
fn not_sent(in_folders: usize, in_archives: usize) -> Vec<String> {
    let told = |n: usize, [one, several]: [&str; 2]| match n {
        0 => None,
        1 => Some(format!(
            "1 other file is not a rank of a job and was not sent: {one}"
        )),
        n => Some(format!(
            "{n} other files are not ranks of a job and were not sent: {several}"
        )),
    };
    let to_name = ["name it to send it", "name them to send them"];
    let to_unpack = [
        "it lies in an archive: unpack it and name it to send it",
        "they lie in an archive: unpack them and name them to send them",
    ];
    let all = [told(in_folders, to_name), told(in_archives, to_unpack)];
    all.into_iter().flatten().collect()
}

/// Why no job was found, and what to do: what lies in an archive cannot be named.
fn no_job(found: &Found, files: &[&PathBuf]) -> String {
    let unpack = files.iter().any(|file| found.is_in_archive(file));
    let advice = match unpack {
        true => {
            "unpack the archive and name the files to upload, or rename them inside, so that only \
             the rank differs (rank0.pickle, rank1.pickle)"
        }
        false => {
            "name the files to upload, or say which file is which rank of a job: 0=FILE 1=FILE"
        }
    };
    let place = if unpack { "archive" } else { "folder" };
    match found.why_no_job(files) {
        None if files.len() == 1 => {
            let one = found.called(files[0]);
            format!("{one} is the only file of the {place}, and ranks of one job are two: {advice}")
        }
        Some(why) => {
            format!("no two files of the {place} are ranks of one job ({why}): {advice}")
        }
        None => format!("no two files of the {place} are ranks of one job: {advice}"),
    }
}

fn print_link(link: &str, known: bool) -> Result<(), CliError> {
    let known = if known { " (known before)" } else { "" };
    print(&format!("{link}{known}\n"))
}

/// Refuses, before anything is sent, what would be refused after it.
fn check(args: &PushArgs) -> Result<(), CliError> {
    args.labels.check(environment)?;
    let named = args.files.iter().map(|path| files::file_of(path));
    files::input_once(named.clone())?;
    files::all_open(named.filter(|path| !path.is_dir()))
}

fn check_count(args: &PushArgs) -> Result<(), CliError> {
    if let Some(path) = args
        .files
        .iter()
        .find(|path| files::with_rank(path).is_some())
    {
        let path = path.display();
        let why = format!("{path}: files with ranks are a job, and a comparison takes single runs");
        return Err(CliError::Usage(why));
    }
    let n = args.files.len() + usize::from(args.base.is_some());
    match n {
        n if RUNS.contains(&n) => Ok(()),
        1 => Err(CliError::Usage(
            "one run is not a comparison: give two files, or a baseline with --base".to_owned(),
        )),
        n => Err(CliError::Usage(format!(
            "a comparison takes 2 to 8 runs, not {n}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn what_lies_in_an_archive_is_not_asked_to_be_named() {
        let told = |in_folders, in_archives| not_sent(in_folders, in_archives).join("; ");
        assert_eq!(told(0, 0), "");
        assert!(told(1, 0).ends_with("was not sent: name it to send it"));
        assert!(told(0, 1).ends_with("it lies in an archive: unpack it and name it to send it"));
        assert_eq!(not_sent(3, 2).len(), 2);

        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("r.zip");
        let mut zip = zip::ZipWriter::new(File::create(&archive).unwrap());
        for name in ["a_rank0.pickle", "b_rank0.pickle"] {
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(name, options).unwrap();
        }
        zip.finish().unwrap();
        let found = files::find(std::slice::from_ref(&archive)).unwrap();
        let refused = no_job(&found, &found.others.iter().collect::<Vec<_>>());
        let both = format!(
            "{0}:a_rank0.pickle and {0}:b_rank0.pickle",
            archive.display()
        );
        assert!(
            refused.contains(&format!("({both} both name rank 0)")),
            "{refused}"
        );
        assert!(refused.contains("unpack the archive"), "{refused}");
        assert!(refused.contains("rename them inside"), "{refused}");

        for name in ["before.pickle", "later.pickle"] {
            File::create(folder.path().join(name)).unwrap();
        }
        let listed = found.listed(found.others.iter(), |_| ": left".to_owned());
        let a_and_b =
            ["a", "b"].map(|one| format!("  {}:{one}_rank0.pickle: left", archive.display()));
        assert_eq!(listed, a_and_b);

        std::fs::remove_file(archive).unwrap();
        let found = files::find(&[folder.path().to_owned()]).unwrap();
        let refused = no_job(&found, &found.others.iter().collect::<Vec<_>>());
        let advice = ": name the files to upload, or say which file is which rank of a job: 0=FILE \
                      1=FILE";
        assert!(refused.ends_with(advice), "{refused}");
    }
}
