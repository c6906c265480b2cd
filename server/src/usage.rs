//! What takes the disk: each part of what is stored, each project, the largest runs and what holds
//! them, and what the rules for old runs would free.
//!
//! Measuring reads the lengths of what is stored, not the bytes, and the pages of the tables of
//! reports and of tensors; then it sorts out the runs, as a rule does each hour. Both are kept for
//! a while ([`Sizes`]).

use crate::projects::folder_of;
use crate::projects::retention::{self, Outlook};
use crate::store::{Reader, RunSize, Store, StoreResult, UNDO};
use crate::system::data_folder::DATABASE;
use api::ids::RunId;
use api::projects::{Keep, ProjectName};
use api::usage::{
    DeletedRuns, FreedByRule, LargeRun, PersonUsage, ProjectUsage, StoredParts, Usage,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use trace::units::Bytes;

/// How long an answer is kept.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// How long the parts are kept for programs, which ask all the time.
const PARTS_KEPT_FOR: Duration = Duration::from_secs(600);

/// What was measured of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    at_ms: i64,
    keep: Option<Keep>,
    of_project: ProjectUsage,
    largest: Vec<LargeRun>,
    people: Vec<PersonUsage>,
}

impl Measured {
    /// Measures a project with this rule for old runs.
    ///
    /// # Errors
    /// The database's.
    pub fn of(
        reader: &Reader,
        project: &ProjectName,
        keep: Option<Keep>,
        now_ms: i64,
    ) -> StoreResult<Measured> {
        let sizes = reader.run_sizes()?;
        let parts = reader.stored_parts(&sizes)?;
        // A rule that is not carried out, as each hour, frees nothing.
        let rule = keep.as_ref();
        let rule = rule.filter(|keep| retention::check(keep).is_ok());
        let outlook = retention::outlook(reader, rule, now_ms)?;
        let people = people(sizes.iter().map(|run| PersonUsage {
            uploaded_by: run.uploaded_by.clone(),
            runs: 1,
            stored: run.all(),
        }));
        let (deleted, listed): (Vec<RunSize>, Vec<RunSize>) =
            sizes.into_iter().partition(|run| run.deleted_ms.is_some());
        let of_project = ProjectUsage {
            project: project.clone(),
            parts,
            runs: listed.len() as u64,
            deleted: still_there(&deleted),
            rule: rule.map(|_| freed(&listed, &outlook)),
        };
        Ok(Measured {
            at_ms: now_ms,
            keep,
            of_project,
            largest: largest(reader, project, listed, &outlook)?,
            people,
        })
    }
}

/// Measures a project whose database somebody else may use, or nobody, and changes nothing. `None`:
/// an older version wrote it.
///
/// # Errors
/// When the database cannot be read.
pub fn glance(
    data: &Path,
    project: &ProjectName,
    keep: Option<Keep>,
    now_ms: i64,
) -> StoreResult<Option<Measured>> {
    let database = folder_of(data, project).join(DATABASE);
    Store::glance(&database, |reader| {
        Measured::of(reader, project, keep, now_ms)
    })
}

fn still_there(deleted: &[RunSize]) -> DeletedRuns {
    let last = deleted.iter().filter_map(|run| run.deleted_ms).max();
    DeletedRuns {
        runs: deleted.len() as u64,
        stored: deleted.iter().map(RunSize::all).sum(),
        until_ms: last.map(|last| last + UNDO.as_millis() as i64),
    }
}

fn freed(listed: &[RunSize], outlook: &Outlook) -> FreedByRule {
    let going: HashSet<&RunId> = outlook.going.iter().collect();
    let going = listed.iter().filter(|size| going.contains(&size.run));
    let sizes: Vec<_> = going.map(RunSize::all).collect();
    FreedByRule {
        runs: sizes.len() as u64,
        stored: sizes.into_iter().sum(),
    }
}

/// What the runs of each person take, the largest first.
fn people(parts: impl Iterator<Item = PersonUsage>) -> Vec<PersonUsage> {
    let mut found: BTreeMap<Option<String>, PersonUsage> = BTreeMap::new();
    for part in parts {
        let none = PersonUsage {
            uploaded_by: part.uploaded_by.clone(),
            runs: 0,
            stored: Bytes::ZERO,
        };
        let person = found.entry(part.uploaded_by).or_insert(none);
        person.runs += part.runs;
        person.stored += part.stored;
    }
    let mut people: Vec<PersonUsage> = found.into_values().collect();
    people.sort_by_key(|person| Reverse(person.stored));
    people
}

fn largest(
    reader: &Reader,
    project: &ProjectName,
    mut listed: Vec<RunSize>,
    outlook: &Outlook,
) -> StoreResult<Vec<LargeRun>> {
    listed.sort_by(|a, b| (b.all(), &a.run).cmp(&(a.all(), &b.run)));
    listed.truncate(Usage::MOST_LARGEST);
    let named = listed.into_iter().map(|size| {
        let run = reader.run(&size.run)?;
        let held = outlook.held.get(&size.run);
        Ok(LargeRun {
            project: project.clone(),
            name: run.called(),
            run: size.run.clone(),
            stored: size.all(),
            created_ms: run.created_ms,
            uploaded_by: run.uploaded_by,
            held: held.into_iter().flatten().copied().collect(),
        })
    });
    named.collect()
}

/// All projects of a server as one answer, and those that cannot be read.
pub fn together(projects: &[Arc<Measured>], unknown: Vec<ProjectName>) -> Usage {
    let of_project = |one: &Arc<Measured>| one.of_project.clone();
    let all: Vec<ProjectUsage> = projects.iter().map(of_project).collect();
    let mut largest: Vec<LargeRun> = projects
        .iter()
        .flat_map(|one| one.largest.clone())
        .collect();
    // What is equally large stays in the order of projects.
    largest.sort_by_key(|run| Reverse(run.stored));
    largest.truncate(Usage::MOST_LARGEST);
    let mut people = people(projects.iter().flat_map(|one| one.people.iter().cloned()));
    people.truncate(Usage::MOST_PEOPLE);
    Usage {
        at_ms: projects.iter().map(|one| one.at_ms).min().unwrap_or(0),
        parts: all.iter().map(|project| project.parts).sum(),
        projects: all,
        largest,
        people,
        unknown,
    }
}

/// What was measured last of a project. Whoever asks meanwhile waits for it, and measures nothing.
#[derive(Default)]
pub struct Sizes {
    parts: Mutex<Option<(Instant, StoredParts)>>,
    all: Mutex<Option<(Instant, Arc<Measured>)>>,
}

impl Sizes {
    /// All of it; at most a minute old, and with this rule.
    ///
    /// # Errors
    /// The database's.
    pub async fn measured(
        &self,
        store: &Store,
        project: &ProjectName,
        keep: Option<Keep>,
    ) -> StoreResult<Arc<Measured>> {
        let mut kept = self.all.lock().await;
        if let Some((at, known)) = kept.as_ref()
            && at.elapsed() < KEPT_FOR
            && known.keep == keep
        {
            return Ok(Arc::clone(known));
        }
        let (project, now_ms) = (project.clone(), store.latest_ms());
        let measure = store.read(move |reader| Measured::of(reader, &project, keep, now_ms));
        let found = Arc::new(measure.await?);
        *kept = Some((Instant::now(), Arc::clone(&found)));
        Ok(found)
    }

    /// The parts alone; at most ten minutes old.
    ///
    /// # Errors
    /// The database's.
    pub async fn parts(&self, store: &Store) -> StoreResult<StoredParts> {
        let mut kept = self.parts.lock().await;
        if let Some((at, parts)) = *kept
            && at.elapsed() < PARTS_KEPT_FOR
        {
            return Ok(parts);
        }
        let measure = store.read(|reader| reader.stored_parts(&reader.run_sizes()?));
        let parts = measure.await?;
        *kept = Some((Instant::now(), parts));
        Ok(parts)
    }
}
