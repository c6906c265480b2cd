//! `tidemark backup` and `tidemark restore`.

use super::output::{json, print};
use super::{CliError, whose};
use crate::backup::{AtDamage, BackupError, Depth, Report, Restored, Scope, back_up};
use crate::config::Config;
use crate::system::private;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use timeline::format::{UnixMillis, date_time, plural};
use trace::units::Bytes;

/// Examples of `tidemark backup`.
pub const BACKUP_EXAMPLES: &str = "\
Examples:
  tidemark backup /mnt/backup --data /srv/tidemark          while the server runs
  tidemark backup /mnt/backup --data /srv/tidemark --check  read what is there already, too
  tidemark backup /mnt/backup --data /srv/tidemark --blobs s3://bucket/prefix --database-only

A folder holds one backup, the latest; files that it has are not copied again. A backup that is
killed leaves the one before as it was. The exit status is 1 when a stored file could not be
copied, because it is damaged or gone where it should be; all else is then in the backup. It is 2
when a folder is not the right one.";

/// Examples of `tidemark restore`.
pub const RESTORE_EXAMPLES: &str = "\
Examples:
  tidemark restore /mnt/backup --data /srv/restored
  tidemark restore /mnt/backup --data /srv/restored --skip-damaged

All of the backup is read first. Nothing is overwritten: the data folder must be empty or not there.
The exit status is 1 when something was not restored: files that the backup lacks, and projects
whose first backup did not end; 2 when a folder is not the right one. Links that were revoked and
runs that were deleted after the backup are there again.";

/// Options of `tidemark backup`.
#[derive(Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub struct BackupArgs {
    /// Folder of the backup; made when it is not there
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Folder of the database and the uploaded files
    #[arg(long, value_name = "DIR", default_value = "tidemark-data")]
    data: PathBuf,
    /// Where uploaded files are kept, if `serve` uses another place [default: DIR/blobs]
    #[arg(long, value_name = "WHERE")]
    blobs: Option<String>,
    /// Copy only the database, and check that the uploaded files are in their place
    #[arg(long)]
    database_only: bool,
    /// Read the files that the backup has already; copy those again that are damaged
    #[arg(long, conflicts_with = "database_only")]
    check: bool,
    /// Print one JSON document: {"database", "runs", "files", "copied", "lacking", "projects"}
    #[arg(long)]
    json: bool,
}

/// Options of `tidemark restore`.
#[derive(Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub struct RestoreArgs {
    /// Folder of the backup
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// Folder to restore into: empty or missing
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where uploaded files are to be kept, if `serve` uses another place [default: DIR/blobs]
    #[arg(long, value_name = "WHERE")]
    blobs: Option<String>,
    /// Leave out what is damaged in the backup
    #[arg(long)]
    skip_damaged: bool,
    /// Print one JSON document: {"made_ms", "runs", "files", "left_at", "lacking", "projects"}
    #[arg(long)]
    json: bool,
}

/// What `backup --json` prints.
#[derive(Serialize)]
struct BackedUp<'a> {
    /// The copy of the database.
    database: &'a Path,
    runs: usize,
    files: usize,
    copied: Copied,
    /// Files that are damaged or missing, a sentence each.
    lacking: &'a [String],
    projects: BTreeMap<&'a str, BackedUp<'a>>,
}

/// The files that were copied now.
#[derive(Serialize)]
struct Copied {
    files: usize,
    bytes: Bytes,
}

impl<'a> BackedUp<'a> {
    fn of(report: &'a Report) -> BackedUp<'a> {
        let (files, bytes) = report.copied;
        let projects = report.projects.iter();
        BackedUp {
            database: &report.database,
            runs: report.runs,
            files: report.files,
            copied: Copied {
                files,
                bytes: Bytes(bytes),
            },
            lacking: &report.lacking,
            projects: projects
                .map(|(name, of)| (name.as_str(), BackedUp::of(of)))
                .collect(),
        }
    }
}

/// What `restore --json` prints.
#[derive(Serialize)]
struct PutBack<'a> {
    made_ms: i64,
    /// `null` if the database was damaged and left out.
    runs: Option<usize>,
    files: usize,
    /// Where the stored files are that were not in the backup.
    left_at: Option<&'a str>,
    lacking: &'a [String],
    projects: BTreeMap<&'a str, PutBack<'a>>,
}

impl<'a> PutBack<'a> {
    fn of(restored: &'a Restored) -> PutBack<'a> {
        let projects = restored.projects.iter();
        PutBack {
            made_ms: restored.made_ms,
            runs: restored.runs,
            files: restored.files,
            left_at: restored.left_at.as_deref(),
            lacking: &restored.lacking,
            projects: projects
                .map(|(name, of)| (name.as_str(), PutBack::of(of)))
                .collect(),
        }
    }
}

/// Backs up.
///
/// # Errors
/// Why there is no backup, or which files it lacks.
pub fn backup(args: BackupArgs) -> Result<(), CliError> {
    whose::check(&args.data)?;
    let config = Config {
        blobs: args.blobs,
        ..Config::new(args.data)
    };
    let scope = match args.database_only {
        true => Scope::Database,
        false => Scope::Whole,
    };
    let depth = match args.check {
        true => Depth::All,
        false => Depth::New,
    };
    let report = apart(move || back_up(&config, &args.to, scope, depth))?;
    let mut text = match args.json {
        true => json(&BackedUp::of(&report)),
        false => told(&report, scope),
    };
    let mut lacks = report.lacking;
    for (project, report) in report.projects {
        if !args.json {
            text += &format!("project {project}:\n{}", told(&report, scope));
        }
        lacks.extend(report.lacking);
    }
    print(&text)?;
    lacking(&lacks, "the backup lacks them")
}

/// Restores.
///
/// # Errors
/// Why nothing was restored, or what is lacking.
pub fn restore(args: RestoreArgs) -> Result<(), CliError> {
    whose::check_before_filling(&args.data)?;
    let config = Config {
        blobs: args.blobs,
        ..Config::new(args.data.clone())
    };
    let at_damage = match args.skip_damaged {
        true => AtDamage::Skip,
        false => AtDamage::Refuse,
    };
    let restored = apart(move || crate::backup::restore(&args.from, &config, at_damage))?;
    let mut text = match args.json {
        true => json(&PutBack::of(&restored)),
        false => told_restored(&restored, &args.data.display().to_string()),
    };
    let mut lacks = restored.lacking;
    for (project, restored) in restored.projects {
        let runs = restored
            .runs
            .map_or("no database".to_owned(), |runs| plural(runs as u64, "run"));
        let files = plural(restored.files as u64, "stored file");
        if !args.json {
            text += &format!("project {project}: {runs}, {files}\n");
        }
        lacks.extend(restored.lacking);
    }
    print(&text)?;
    lacking(&lacks, "these were not restored")
}

/// Runs work on a thread that may block, as the blob store needs it.
fn apart<T, F>(work: F) -> Result<T, CliError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, BackupError> + Send + 'static,
{
    private::make_everything_private();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| CliError::Failed(format!("no threads: {error}")))?;
    let done = runtime.block_on(async { tokio::task::spawn_blocking(work).await });
    match done {
        Ok(done) => done.map_err(|error| match error.names_wrong_folder() {
            true => CliError::Usage(error.to_string()),
            false => CliError::Failed(error.to_string()),
        }),
        Err(_) => Err(CliError::Failed("it stopped in the middle".to_owned())),
    }
}

fn told(report: &Report, scope: Scope) -> String {
    let Report { runs, files, .. } = report;
    let (copied, bytes) = report.copied;
    let database = report.database.display();
    let stored = match scope {
        Scope::Whole => format!(
            "{copied} copied now ({}), the others were there",
            Bytes(bytes)
        ),
        Scope::Database => "not copied: they stay where they are".to_owned(),
    };
    let runs = plural(*runs as u64, "run");
    format!("{database}: {runs}\nstored files: {files}, {stored}\n")
}

fn told_restored(restored: &Restored, data: &str) -> String {
    let made = date_time(UnixMillis(restored.made_ms));
    let runs = match restored.runs {
        Some(runs) => format!("{} as of {made}", plural(runs as u64, "run")),
        None => format!(
            "no database: `tidemark doctor --data {data} --adopt` makes runs of the stored files"
        ),
    };
    let files = match &restored.left_at {
        None => format!(
            "{}, each checked against its hash",
            plural(restored.files as u64, "stored file")
        ),
        Some(place) => format!(
            "the stored files were left at {place}: start with --blobs, and never two servers on \
             one such place"
        ),
    };
    format!(
        "{data}: {runs}\n{files}\nnext: `tidemark doctor --data {data}`, then `tidemark serve \
         --data {data}`\n"
    )
}

fn lacking(files: &[String], what: &str) -> Result<(), CliError> {
    match files {
        [] => Ok(()),
        files => {
            let list = files.join("\n  ");
            Err(CliError::Failed(format!("{what}:\n  {list}")))
        }
    }
}
