//! Checks and repairs a data folder: whether everything is whole, which blobs the database does not
//! know, and how to make a new database from the blobs.

use crate::app::{DataLock, OpenError, lock, open_blobs, owner_of};
use crate::blobs::{BlobError, Blobs, Claim, Ownership};
use crate::budget::Budget;
use crate::clock::now_ms;
use crate::config::Config;
use crate::data_folder::DATABASE;
use crate::ingest::{Admission, Arrived, DiskShare, IngestError, UploadLimits, Uploads};
use crate::pictures::Pictures;
use crate::problems::describe;
use crate::store::{
    BlobRow, MemberRow, Quarantined, Remembered, RememberedRank, Salvaged, Store, StoreError,
    StoreResult,
};
use api::ids::PersonId;
use api::projects::ProjectName;
use serde::Serialize;
use std::collections::BTreeMap;
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
    /// Runs in it, including deleted ones.
    pub runs: usize,
    /// Blobs that were read to their end.
    pub checked: usize,
    /// Blobs that are damaged or missing: a sentence each.
    pub bad_blobs: Vec<String>,
    /// Blobs that no run uses and that were not deleted.
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
    let mut known = Vec::new();
    let mut aside = Vec::new();
    if report.damage.is_empty() && report.database.exists() {
        let store = Store::open(&report.database)?;
        report.runs = store.read(|reader| reader.all_runs()).await?;
        known = store.read(|reader| reader.blobs()).await?;
        aside = store.read(|reader| reader.quarantine()).await?;
    }
    let found = blobs.list().await?;
    let is_known = |hash: &str| known.iter().any(|row: &BlobRow| row.hash == hash);
    let unknown = found.iter().filter(|blob| !is_known(&blob.hash));
    report.unused = unknown
        .map(|blob| unused(&blob.hash, blob.modified_ms, &aside))
        .collect();
    let unused: Vec<String> = report.unused.iter().map(|blob| blob.hash.clone()).collect();
    report.checked = known.len() + unused.len();
    report.bad_blobs = read_all(blobs, known, unused).await;
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
        let lock = lock(&config.data)?;
        let store = Store::open(&config.data.join(DATABASE))?;
        Repair::on(config, lock, store).await
    }

    /// Moves a damaged database aside and makes a new one, with everything that could be read from
    /// the old one. Also returns the old one's new place.
    ///
    /// # Errors
    /// When a server runs on the folder, or nothing is wrong with the database.
    pub async fn rebuild(config: &Config) -> Result<(Repair, Salvaged, PathBuf), RebuildError> {
        let lock = lock(&config.data)?;
        let database = config.data.join(DATABASE);
        if damage_of(&database).map_err(OpenError::from)?.is_empty() {
            return Err(RebuildError::Whole(database));
        }
        let salvaged = Salvaged::of(&database);
        let aside = config.data.join(format!("{DATABASE}.damaged-{}", now_ms()));
        for part in ["-wal", "-shm", ""] {
            let part_of = |file: &Path| PathBuf::from(format!("{}{part}", file.display()));
            match std::fs::rename(part_of(&database), part_of(&aside)) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(RebuildError::Move { database, source });
                }
                _ => {}
            }
        }
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
            (
                Arc::new(Admission::new(&config.clients, &budget)),
                DiskShare::default(),
            ),
        );
        Ok(Repair {
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

    /// Restores what was read from the old database: names, dates, senders, deletions and labels of
    /// runs, ranks and keys of jobs, own categories, views, people, tokens and links. Returns the
    /// numbers of runs and links.
    ///
    /// # Errors
    /// The database's.
    pub async fn remember(&self, salvaged: Salvaged) -> StoreResult<(usize, usize)> {
        let Salvaged {
            runs,
            ranks,
            keys,
            senders,
            labels,
            own_categories,
            views,
            people,
            tokens,
            identities,
            shares,
            projects,
            members,
            latest_ms,
        } = salvaged;
        let n_runs = runs.len();
        self.store
            .write(move |writer| {
                let mut each = runs.iter();
                each.try_for_each(|run: &Remembered| writer.remember_run(run))?;
                let mut each = ranks.iter();
                each.try_for_each(|rank: &RememberedRank| writer.remember_rank(rank))?;
                let mut each = keys.iter();
                each.try_for_each(|(job, key)| writer.remember_key(job, key))?;
                let mut each = senders.iter();
                each.try_for_each(|(run, name)| writer.remember_sender(run, name))?;
                let mut each = labels.iter();
                each.try_for_each(|(run, label)| writer.remember_label(run, label))?;
                writer.set_own_categories(&own_categories, "", latest_ms)?;
                let mut each = views.iter();
                each.try_for_each(|view| writer.put_view(view).map(drop))?;
                let mut each = people.iter();
                each.try_for_each(|person| writer.insert_person(person))?;
                // Those of people who could not be read are lost with them.
                let known = |id: &PersonId| people.iter().any(|person| person.id == *id);
                let mut each = tokens.iter().filter(|row| known(&row.token.person));
                each.try_for_each(|token| writer.insert_token(token))?;
                let mut each = identities.iter().filter(|row| known(&row.person));
                each.try_for_each(|identity| writer.insert_identity(identity))?;
                let mut each = projects.iter();
                each.try_for_each(|project| writer.put_project(project))?;
                // A project that could not be read gets a new row at the next start.
                let read = |row: &&MemberRow| projects.iter().any(|one| one.name == row.project);
                let mut each = members.iter().filter(|row| known(&row.person)).filter(read);
                each.try_for_each(|row| {
                    writer.set_member(&row.project, &row.person, Some(row.role))
                })?;
                writer.saw_time(latest_ms)
            })
            .await?;
        let mut n_shares = 0;
        for share in shares {
            // A damaged link is lost: it no longer opens, and can be made again.
            let put_back = self.store.write(move |writer| writer.restore_share(&share));
            n_shares += usize::from(put_back.await.is_ok());
        }
        Ok((n_runs, n_shares))
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
        source: std::io::Error,
    },
    /// The folder cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl From<BlobError> for RebuildError {
    fn from(error: BlobError) -> RebuildError {
        RebuildError::Open(error.into())
    }
}
