//! Checks and repairs a data folder: whether everything is whole, which blobs the database does not
//! know, and how to make a new database from the blobs.

#[cfg(test)]
mod tests;

use crate::app::{OpenError, open_blobs, owner_of};
use crate::blobs::{BlobError, Blobs, Claim, Ownership};
use crate::config::Config;
use crate::ingest::{Admission, Arrived, IngestError, UploadLimits, Uploads};
use crate::limits::budget::Budget;
use crate::pictures::Pictures;
use crate::problems::describe;
use crate::projects;
use crate::store::{
    BlobRow, CopyContents, IdentityRow, MemberRow, Quarantined, Rescued, Salvaged, Store,
    StoreError, StoreResult, TokenRow, Writer,
};
use crate::system::clock::now_ms;
use crate::system::data_folder::{DATABASE, REBUILDING};
use crate::system::data_lock::{DataLock, For, Unusable};
use crate::tensors::{self, TensorTable};
use api::ids::{JobId, PersonId};
use api::people::Person;
use api::projects::ProjectName;
use api::views::View;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::broadcast;

/// How many characters of a hash are enough to name a blob of one folder.
const SHORT: usize = 12;

/// What was found.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The database's file.
    pub database: PathBuf,
    /// What is wrong with it; empty if it is fine.
    pub damage: Vec<String>,
    /// Whether an older version wrote it: the next start brings it up to date.
    pub older: bool,
    /// Runs in it, including deleted ones.
    pub runs: usize,
    /// Blobs that were read to their end.
    pub checked: usize,
    /// Blobs that are damaged or missing: a sentence each.
    pub bad_blobs: Vec<String>,
    /// Blobs that no run uses and that were not deleted; none if the database is damaged, for then
    /// nobody knows.
    pub unused: Vec<Unused>,
    /// What was found in the other projects.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub projects: BTreeMap<ProjectName, Report>,
}

/// A blob that no run uses.
#[derive(Clone, Debug, Serialize)]
pub struct Unused {
    /// BLAKE3 of its bytes, hexadecimal.
    pub hash: String,
    /// The name that its run will get.
    pub name: String,
    /// Why it is not a run.
    pub why: String,
    /// When it was put there, in milliseconds since the epoch.
    pub since_ms: i64,
}

impl Report {
    /// Whether there is damage.
    pub fn is_bad(&self) -> bool {
        !self.damage.is_empty() || !self.bad_blobs.is_empty()
    }
}

/// Reads everything in a data folder and changes nothing.
///
/// # Errors
/// When it is not a data folder, or cannot be read at all.
pub async fn examine(config: &Config) -> Result<Report, OpenError> {
    let database = config.data.join(DATABASE);
    let blobs = open_blobs(config)?;
    let mut report = Report {
        damage: damage_of(&database)?,
        database,
        ..Report::default()
    };
    if config.data.join(REBUILDING).exists() {
        let unfinished = "making it again did not end: names, people and links are not in it yet";
        report.damage.push(unfinished.to_owned());
    }
    let mut known = CopyContents::default();
    if report.damage.is_empty() && report.database.exists() {
        known = Store::look_into(&report.database)?;
    }
    report.runs = known.runs;
    report.older = known.is_older;
    let (known, aside) = (known.blobs, known.aside);
    let found = blobs.list().await?;
    let is_known = |hash: &str| known.iter().any(|row: &BlobRow| row.hash == hash);
    let unknown = found.iter().filter(|blob| !is_known(&blob.hash));
    let unknown: Vec<Unused> = unknown
        .map(|blob| unused(&blob.hash, blob.modified_ms, &aside))
        .collect();
    let hashes: Vec<String> = unknown.iter().map(|blob| blob.hash.clone()).collect();
    report.checked = known.len() + hashes.len();
    report.bad_blobs = read_all(blobs, known, hashes).await;
    // What a damaged database knows cannot be said.
    if report.damage.is_empty() {
        report.unused = unknown;
    }
    Ok(report)
}

fn unused(hash: &str, since_ms: i64, aside: &[Quarantined]) -> Unused {
    let aside = aside.iter().find(|blob| blob.hash == hash);
    Unused {
        name: aside.map_or_else(|| name_of(hash), |blob| blob.name.clone()),
        why: aside.map_or_else(
            || "the database does not know it".to_owned(),
            |blob| blob.why.clone(),
        ),
        hash: hash.to_owned(),
        since_ms,
    }
}

fn name_of(hash: &str) -> String {
    format!("recovered-{}", hash.get(..SHORT).unwrap_or(hash))
}

/// Forgets that this data folder and its projects have seen a time that has not come: a clock was
/// wrong. Runs with such a date get that of now. Returns how many.
///
/// # Errors
/// When a server runs on it, and the databases'.
pub async fn forget_time(config: &Config) -> Result<usize, OpenError> {
    let mut dated = 0;
    let projects = projects::found_in(&config.data);
    for project in std::iter::once(ProjectName::main()).chain(projects) {
        let folder = projects::folder_of(&config.data, &project);
        if !folder.join(DATABASE).exists() {
            continue;
        }
        let _lock = DataLock::take(&folder, For::Serving)?;
        let store = Store::open(&folder.join(DATABASE))?;
        let forget = store.write(|writer| {
            writer.forget_time(now_ms())?;
            writer.date_runs(now_ms())
        });
        dated += forget.await?;
    }
    Ok(dated)
}

/// What is wrong with a database; a missing one counts as fine.
fn damage_of(database: &Path) -> StoreResult<Vec<String>> {
    if !database.exists() {
        return Ok(Vec::new());
    }
    match Store::examine(database) {
        Err(StoreError::Damaged { found, .. }) => Ok(vec![found]),
        other => other,
    }
}

/// Reads blobs to their end. Returns what is wrong with them.
async fn read_all(blobs: Blobs, known: Vec<BlobRow>, unused: Vec<String>) -> Vec<String> {
    let work = move || {
        let runtime = Handle::current();
        let known = known.iter().map(|row| blobs.check(&runtime, row));
        let unused = unused
            .iter()
            .map(|hash| blobs.identify(&runtime, hash).map(drop));
        let bad = known.chain(unused).filter_map(Result::err);
        bad.map(|error| error.to_string()).collect()
    };
    let read = tokio::task::spawn_blocking(work).await;
    read.unwrap_or_else(|_| vec!["the blobs cannot be read".to_owned()])
}

/// A data folder under repair. No server may run on it.
pub struct Repair {
    data: PathBuf,
    store: Store,
    uploads: Uploads,
    _locks: (DataLock, Ownership),
}

impl Repair {
    /// Opens a data folder. If its blobs belong to a database that is gone, takes them over.
    ///
    /// # Errors
    /// When a server runs on it, or the database is damaged.
    pub async fn begin(config: &Config) -> Result<Repair, OpenError> {
        let lock = DataLock::take(&config.data, For::Serving)?;
        let store = Store::open(&config.data.join(DATABASE))?;
        Repair::on(config, lock, store).await
    }

    /// Moves a damaged database aside and makes a new one. Also returns everything that could be
    /// read from the old one, and the old one's new place. Until [`Repair::remember`] has ended, a
    /// mark in the folder names that place: no server starts, and the next call continues.
    ///
    /// # Errors
    /// When a server runs on the folder, or nothing is wrong with the database.
    pub async fn rebuild(config: &Config) -> Result<(Repair, Salvaged, PathBuf), RebuildError> {
        let lock = DataLock::take(&config.data, For::Rebuilding)?;
        let database = config.data.join(DATABASE);
        let aside = match marked(&config.data)? {
            Some(aside) if aside.exists() => aside,
            _ => set_aside(&config.data)?,
        };
        if !database.exists() {
            // The rest of the damaged one, for a new one must not read it.
            for part in ["-wal", "-shm"] {
                move_if_there(&beside(&database, part), &beside(&aside, part))?;
            }
        } else if !damage_of(&database).map_err(OpenError::from)?.is_empty() {
            // The new one, which has nothing that is not in the stored files or the old one.
            for part in ["-wal", "-shm", ""] {
                remove_if_there(&beside(&database, part))?;
            }
        }
        let salvaged = Salvaged::of(&aside);
        let store = Store::open(&database).map_err(OpenError::from)?;
        let repair = Repair::on(config, lock, store).await?;
        Ok((repair, salvaged, aside))
    }

    async fn on(config: &Config, lock: DataLock, store: Store) -> Result<Repair, OpenError> {
        let blobs = open_blobs(config)?;
        let owner = owner_of(&config.data, &store);
        let ownership = blobs.claim(&owner, Claim::TakeOver).await?;
        let budget = Budget::new(config.memory);
        let limits = UploadLimits {
            upload: config.upload_limit,
            keep_free: config.keep_free,
        };
        let uploads = Uploads::new(
            store.clone(),
            blobs,
            Pictures::new(store.clone(), &budget, config.cache),
            broadcast::Sender::new(1),
            describe,
            limits,
            Arc::new(Admission::new(&config.clients, &budget)),
        );
        Ok(Repair {
            data: config.data.clone(),
            store,
            uploads,
            _locks: (lock, ownership),
        })
    }

    /// Blobs that can become runs.
    ///
    /// # Errors
    /// The database's and the blob store's.
    pub async fn unused(&self) -> Result<Vec<Unused>, IngestError> {
        let aside = self.store.read(|reader| reader.quarantine()).await?;
        let unknown = self.uploads.unknown_blobs().await?;
        let unknown = unknown
            .iter()
            .map(|blob| unused(&blob.hash, blob.modified_ms, &[]));
        let mut all: Vec<Unused> = unknown.collect();
        all.extend(
            aside
                .iter()
                .map(|blob| unused(&blob.hash, now_ms(), &aside)),
        );
        Ok(all)
    }

    /// Makes a run from a blob.
    ///
    /// # Errors
    /// Why it cannot become a run; the blob stays.
    pub async fn adopt(&self, blob: &Unused) -> Result<Arrived, IngestError> {
        let arrived = self.uploads.adopt_blob(&blob.hash, &blob.name).await?;
        let (run, since_ms) = (arrived.run.clone(), blob.since_ms);
        let date = self
            .store
            .write(move |writer| writer.date_run(&run, since_ms));
        date.await?;
        Ok(arrived)
    }

    /// Restores what was read from the old database: names, sources, dates, senders, deletions and
    /// labels of runs, ranks, keys and deletions of jobs, recorded comparisons, own categories,
    /// views, people, tokens and links. Carries over what else no stored file tells: benches,
    /// tensors, live trainings and the audit. What an interrupted call has restored already stays.
    /// After that, servers may start.
    ///
    /// # Errors
    /// The database's, and when the mark cannot be removed.
    pub async fn remember(&self, mut salvaged: Salvaged) -> Result<Kept, RebuildError> {
        let shares = std::mem::take(&mut salvaged.shares);
        let read = std::mem::take(&mut salvaged.tables);
        let old = salvaged.database.clone();
        let rest = self.store.write(move |writer| remember(writer, &salvaged));
        rest.await.map_err(OpenError::from)?;
        let carry = self
            .store
            .write(move |writer| writer.carry_over(&old, are_tensors));
        let carried = carry.await.map_err(OpenError::from)?;
        let there = self.store.read(|reader| reader.all_shares()).await;
        let there = there.map_err(OpenError::from)?;
        let mut links = 0;
        for share in shares {
            let is_there = there.iter().any(|row| row.share.id == share.share.id);
            // A damaged link is lost: it no longer opens, and can be made again.
            let put_back = is_there || {
                let put_back = self.store.write(move |writer| writer.restore_share(&share));
                put_back.await.is_ok()
            };
            links += usize::from(put_back);
        }
        remove_if_there(&self.data.join(REBUILDING))?;
        Ok(Kept {
            links,
            read,
            carried,
        })
    }
}

/// What the new database has of the damaged one.
pub struct Kept {
    /// Links that are there again.
    pub links: usize,
    /// The tables that were read, and what became of them.
    pub read: Vec<Rescued>,
    /// The tables that were carried over as they are: of what no stored file tells.
    pub carried: Vec<Rescued>,
}

/// Whether a packed table of tensors is whole. One of another version is never unpacked.
fn are_tensors(version: i64, packed: &[u8]) -> bool {
    version != i64::from(tensors::VERSION) || TensorTable::unpack(packed).is_ok()
}

/// Restores all but links. Rows that are there already stay: an interrupted rebuild put them there.
fn remember(writer: &mut Writer<'_>, salvaged: &Salvaged) -> StoreResult<()> {
    // First these: a run that was one before has a name of its own.
    let mut files = salvaged.file_names.iter();
    files.try_for_each(|(hash, name)| writer.remember_file_name(hash, name))?;
    let runs = &salvaged.runs;
    runs.iter().try_for_each(|run| writer.remember_run(run))?;
    remember_ranks(writer, salvaged)?;
    let mut keys = salvaged.keys.iter();
    keys.try_for_each(|(job, key)| writer.remember_key(job, key))?;
    let mut notes = salvaged.job_notes.iter();
    notes.try_for_each(|(job, notes)| writer.remember_notes(job, notes))?;
    let mut senders = salvaged.senders.iter();
    senders.try_for_each(|(run, name)| writer.remember_sender(run, name))?;
    let mut labels = salvaged.labels.iter();
    labels.try_for_each(|(run, label)| writer.remember_label(run, label))?;
    let mut comparisons = salvaged.comparisons.iter();
    comparisons.try_for_each(|comparison| writer.record_comparison(comparison, false))?;
    writer.set_own_categories(&salvaged.own_categories, "", salvaged.latest_ms)?;
    let there = writer.reader().views()?;
    let is_new = |view: &&View| !there.iter().any(|one| one.id == view.id);
    let mut views = salvaged.views.iter().filter(is_new);
    views.try_for_each(|view| writer.put_view(view).map(drop))?;
    remember_people(writer, salvaged)?;
    writer.saw_time(salvaged.latest_ms)
}

/// Restores jobs with their ranks, first those that are deleted: they must not be taken for the
/// earlier of two that are the same.
fn remember_ranks(writer: &mut Writer<'_>, salvaged: &Salvaged) -> StoreResult<()> {
    let deleted = &salvaged.deleted_jobs;
    let gone: BTreeSet<&JobId> = deleted.iter().map(|(job, _)| job).collect();
    let ranks = salvaged.ranks.iter();
    let (hidden, shown): (Vec<_>, Vec<_>) = ranks.partition(|rank| gone.contains(&rank.job));
    let mut hidden = hidden.into_iter();
    hidden.try_for_each(|rank| writer.remember_rank(rank))?;
    let mut dates = deleted.iter();
    dates.try_for_each(|(job, at_ms)| writer.remember_deletion(job, *at_ms))?;
    let mut shown = shown.into_iter();
    shown.try_for_each(|rank| writer.remember_rank(rank))
}

/// Restores people, what they sign in with, and where they may enter.
fn remember_people(writer: &mut Writer<'_>, salvaged: &Salvaged) -> StoreResult<()> {
    let there = writer.reader().people()?;
    // By name, too: whoever stands for people who cannot be read gets a new id each time.
    let is_new = |new: &&Person| {
        let is_same = |old: &Person| old.id == new.id || old.name.eq_ignore_ascii_case(&new.name);
        !there.iter().any(is_same)
    };
    let mut people = salvaged.people.iter().filter(is_new);
    people.try_for_each(|person| writer.insert_person(person))?;
    // Tokens of people who could not be read are lost with them, and so on.
    let people = writer.reader().people()?.into_iter();
    let people: BTreeSet<PersonId> = people.map(|person| person.id).collect();
    let there = writer.reader().tokens()?;
    let is_new = |row: &&TokenRow| !there.iter().any(|one| one.token.id == row.token.id);
    let tokens = salvaged.tokens.iter().filter(is_new);
    let mut tokens = tokens.filter(|row| people.contains(&row.token.person));
    tokens.try_for_each(|token| writer.insert_token(token))?;
    let there = writer.reader().identities()?;
    let is_new = |row: &&IdentityRow| {
        let is_same = |one: &IdentityRow| one.issuer == row.issuer && one.subject == row.subject;
        !there.iter().any(is_same)
    };
    let identities = salvaged.identities.iter().filter(is_new);
    let mut identities = identities.filter(|row| people.contains(&row.person));
    identities.try_for_each(|identity| writer.insert_identity(identity))?;
    let projects = &salvaged.projects;
    projects
        .iter()
        .try_for_each(|project| writer.put_project(project))?;
    // A project that could not be read gets a new row at the next start.
    let read = |row: &&MemberRow| projects.iter().any(|one| one.name == row.project);
    let members = salvaged.members.iter().filter(read);
    let mut members = members.filter(|row| people.contains(&row.person));
    members.try_for_each(|row| writer.set_member(&row.project, &row.person, Some(row.role)))
}

/// The damaged database that the mark of an unfinished rebuild names.
fn marked(data: &Path) -> Result<Option<PathBuf>, RebuildError> {
    let mark = data.join(REBUILDING);
    match std::fs::read_to_string(&mark) {
        Ok(name) => Ok(Some(data.join(name))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RebuildError::File { path: mark, source }),
    }
}

/// Moves the damaged database aside, with a mark that names its new place.
fn set_aside(data: &Path) -> Result<PathBuf, RebuildError> {
    let database = data.join(DATABASE);
    if damage_of(&database).map_err(OpenError::from)?.is_empty() {
        // A rebuild that ended before it moved anything, and a database that was replaced since.
        remove_if_there(&data.join(REBUILDING))?;
        return Err(RebuildError::Whole(database));
    }
    let name = format!("{DATABASE}.damaged-{}", now_ms());
    let (mark, part) = (
        data.join(REBUILDING),
        data.join(format!("{REBUILDING}.part")),
    );
    let marked = File::create(&part).and_then(|mut file| {
        file.write_all(name.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&part, &mark)?;
        File::open(data)?.sync_all()
    });
    marked.map_err(|source| RebuildError::File { path: mark, source })?;
    // First the database: as long as it is in its place, its log is there, too.
    let aside = data.join(name);
    std::fs::rename(&database, &aside).map_err(|source| RebuildError::Move { database, source })?;
    Ok(aside)
}

/// The database's file, or one that SQLite puts beside it.
fn beside(database: &Path, part: &str) -> PathBuf {
    PathBuf::from(format!("{}{part}", database.display()))
}

fn move_if_there(from: &Path, to: &Path) -> Result<(), RebuildError> {
    if_there(std::fs::rename(from, to)).map_err(|source| RebuildError::Move {
        database: from.to_owned(),
        source,
    })
}

fn remove_if_there(path: &Path) -> Result<(), RebuildError> {
    if_there(std::fs::remove_file(path)).map_err(|source| RebuildError::File {
        path: path.to_owned(),
        source,
    })
}

fn if_there(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Why the database was not made again.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The database is not damaged.
    #[error("the database {} is whole: there is nothing to rebuild", .0.display())]
    Whole(PathBuf),
    /// The damaged one cannot be moved.
    #[error("cannot move the database {} aside: {source}", .database.display())]
    Move {
        /// Which.
        database: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of the data folder cannot be read, written or removed.
    #[error("{}: {source}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The folder cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] Unusable),
}

impl From<BlobError> for RebuildError {
    fn from(error: BlobError) -> RebuildError {
        RebuildError::Open(error.into())
    }
}
