//! Group commit: changes that wait for one another share one transaction and one sync to disk.
//!
//! A sync takes milliseconds, a closure microseconds. So the last thread that waits commits for all
//! of them. Each closure runs on its own thread in its own savepoint: if one fails, the others are
//! not affected. Success is reported only after the changes are on disk.

use super::{StoreError, StoreResult, lock, revision};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most changes that share a commit, and how long the first one waits for others.
const MOST_MEMBERS: usize = 64;
const LONGEST: Duration = Duration::from_millis(50);

/// The one connection that writes.
pub(super) struct GroupWriter {
    state: Mutex<State>,
    /// Number of threads that wait to write.
    waiting: AtomicUsize,
    commits: AtomicU64,
    revision: AtomicU64,
}

struct State {
    connection: Connection,
    open: Option<Group>,
    /// Changes of what lists of runs say, as of the last commit.
    counted: Option<i64>,
}

/// A transaction that is not committed yet.
struct Group {
    outcome: Arc<Outcome>,
    members: usize,
    since: Instant,
}

/// Whether a group was committed or failed, once that is known.
#[derive(Default)]
struct Outcome {
    told: Mutex<Option<Result<(), Failure>>>,
    changed: Condvar,
}

/// Why a group failed: the error that each of its members gets.
type Failure = (rusqlite::ffi::Error, Option<String>);

impl GroupWriter {
    pub(super) fn new(connection: Connection) -> GroupWriter {
        GroupWriter {
            state: Mutex::new(State {
                counted: revision::counted(&connection),
                connection,
                open: None,
            }),
            waiting: AtomicUsize::new(0),
            commits: AtomicU64::new(0),
            revision: AtomicU64::new(0),
        }
    }

    /// Transactions that were committed since the start.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Another number after each commit that changed what a list of runs says.
    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::SeqCst)
    }

    /// Runs a change. Returns when the change is on disk, or when it has failed and was undone.
    pub(super) fn synced<T>(
        &self,
        change: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let mut state = self.enter();
        let joined = state.join(change);
        if self.waiting.load(Ordering::SeqCst) == 0 || state.is_due() {
            self.commit(&mut state);
        }
        drop(state);
        let (changed, outcome) = joined?;
        match changed {
            // Its own failure, or a panic of its closure: the other members are not affected.
            Ok(Err(error)) => Err(error),
            Err(panic) => resume_unwind(panic),
            Ok(Ok(value)) => outcome.wait().map(|()| value),
        }
    }

    /// Runs a change to derived data, alone and without a sync. A power cut may lose it; then it is
    /// derived again. It is on disk as soon as the next synced change is.
    pub(super) fn unsynced<T>(
        &self,
        change: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let mut state = self.enter();
        self.commit(&mut state);
        state
            .connection
            .pragma_update(None, "synchronous", "NORMAL")?;
        let joined = state.join(change);
        self.commit(&mut state);
        let restored = state.connection.pragma_update(None, "synchronous", "FULL");
        drop(state);
        let (changed, outcome) = joined?;
        restored?;
        match changed {
            Ok(value) => value.and_then(|value| outcome.wait().map(|()| value)),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Runs something outside of transactions.
    pub(super) fn apart<T>(
        &self,
        work: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let mut state = self.enter();
        self.commit(&mut state);
        work(&state.connection)
    }

    /// Waits for the connection. The thread that holds it sees that another one waits, and leaves
    /// the commit to that one.
    fn enter(&self) -> MutexGuard<'_, State> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let state = lock(&self.state);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        state
    }

    fn commit(&self, state: &mut State) {
        let Some(group) = state.open.take() else {
            return;
        };
        let committed = state.connection.execute_batch("COMMIT");
        if committed.is_err() && !state.connection.is_autocommit() {
            // If the rollback fails, nothing more can be done: the group has failed anyway.
            let _ = state.connection.execute_batch("ROLLBACK");
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
        // Before anybody is told of success: who is told then reads what they changed. If nobody
        // counts, all may have changed.
        let counted = revision::counted(&state.connection);
        if counted.is_none() || counted != state.counted {
            state.counted = counted;
            self.revision.fetch_add(1, Ordering::SeqCst);
        }
        group
            .outcome
            .tell(committed.map_err(|error| failure(&error)));
    }
}

/// What a closure returned, unless it panicked.
type Changed<T> = std::thread::Result<StoreResult<T>>;

impl State {
    /// Runs a change in the open group, or opens a group for it.
    fn join<T>(
        &mut self,
        change: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<(Changed<T>, Arc<Outcome>)> {
        let (group, first) = match self.open.take() {
            Some(group) => (group, false),
            None => (Group::begin(&self.connection)?, true),
        };
        let outcome = Arc::clone(&group.outcome);
        self.open = Some(Group {
            members: group.members + 1,
            ..group
        });
        if !first && let Err(error) = self.connection.execute_batch("SAVEPOINT member") {
            return Err(error.into());
        }
        let changed = catch_unwind(AssertUnwindSafe(|| change(&self.connection)));
        let undone = match (&changed, first) {
            (Ok(Ok(_)), true) => Ok(()),
            (Ok(Ok(_)), false) => self.connection.execute_batch("RELEASE member"),
            (_, true) => self.connection.execute_batch("ROLLBACK"),
            (_, false) => self
                .connection
                .execute_batch("ROLLBACK TO member; RELEASE member"),
        };
        // A full disk makes SQLite undo the whole transaction, not only the statement that did not
        // fit.
        if self.connection.is_autocommit()
            && let Some(group) = self.open.take()
        {
            let lost = match (&changed, &undone) {
                (Ok(Err(StoreError::Full)), _) => full(),
                (_, Err(error)) => failure(error),
                _ => aborted(),
            };
            group.outcome.tell(Err(lost));
        }
        Ok((changed, outcome))
    }

    fn is_due(&self) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|group| group.members >= MOST_MEMBERS || group.since.elapsed() >= LONGEST)
    }
}

impl Group {
    fn begin(connection: &Connection) -> StoreResult<Group> {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        Ok(Group {
            outcome: Arc::default(),
            members: 0,
            since: Instant::now(),
        })
    }
}

impl Outcome {
    fn tell(&self, result: Result<(), Failure>) {
        *lock(&self.told) = Some(result);
        self.changed.notify_all();
    }

    fn wait(&self) -> StoreResult<()> {
        let told = lock(&self.told);
        let told = self.changed.wait_while(told, |told| told.is_none());
        let told = told.unwrap_or_else(PoisonError::into_inner);
        match &*told {
            Some(Err((code, text))) => {
                Err(rusqlite::Error::SqliteFailure(*code, text.clone()).into())
            }
            _ => Ok(()),
        }
    }
}

fn failure(error: &rusqlite::Error) -> Failure {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => (*code, text.clone()),
        other => (aborted().0, Some(other.to_string())),
    }
}

fn full() -> Failure {
    (rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None)
}

fn aborted() -> Failure {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT);
    (
        code,
        Some("another change in the same transaction failed".to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn writer() -> (GroupWriter, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("t.db")).unwrap();
        let setup = "PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER PRIMARY KEY) STRICT;";
        connection.execute_batch(setup).unwrap();
        (GroupWriter::new(connection), folder)
    }

    fn insert(n: i64) -> impl FnOnce(&Connection) -> StoreResult<()> {
        move |connection| {
            connection.execute("INSERT INTO t VALUES (?1)", [n])?;
            Ok(())
        }
    }

    fn rows(writer: &GroupWriter) -> Vec<i64> {
        let read = |connection: &Connection| {
            let mut statement = connection.prepare("SELECT n FROM t ORDER BY n")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        writer.apart(read).unwrap()
    }

    /// Runs `changes` so that all of them wait for a first writer, which holds the connection until
    /// then. Returns whether the first writer succeeded.
    fn behind_a_slow_one(
        writer: &GroupWriter,
        changes: usize,
        change: impl Fn(usize) + Sync,
    ) -> bool {
        std::thread::scope(|scope| {
            let (go, wait) = mpsc::channel::<()>();
            let (inside, entered) = mpsc::channel();
            let slow = scope.spawn(move || {
                writer.synced(|connection| {
                    inside.send(()).unwrap();
                    wait.recv().unwrap();
                    insert(-1)(connection)
                })
            });
            entered.recv().unwrap();
            let change = &change;
            for n in 0..changes {
                scope.spawn(move || change(n));
            }
            while writer.waiting.load(Ordering::SeqCst) < changes {
                std::thread::yield_now();
            }
            go.send(()).unwrap();
            slow.join().unwrap().is_ok()
        })
    }

    #[test]
    fn changes_that_wait_share_a_commit() {
        let (writer, _folder) = writer();
        let change = |n| writer.synced(insert(n as i64)).unwrap();
        assert!(behind_a_slow_one(&writer, 40, change));
        assert_eq!(rows(&writer).len(), 41);
        // Usually one; more if the machine was so busy that the first ones did not wait for the
        // last.
        assert!(writer.commits() <= 20, "{} commits", writer.commits());
    }

    #[test]
    fn a_change_that_fails_or_panics_leaves_the_others_alone() {
        let (writer, _folder) = writer();
        let first = behind_a_slow_one(&writer, 12, |n| match n % 3 {
            0 => writer.synced(insert(n as i64)).unwrap(),
            1 => {
                let half = |connection: &Connection| {
                    insert(100 + n as i64)(connection)?;
                    Err::<(), _>(StoreError::Conflict("no".to_owned()))
                };
                assert!(matches!(writer.synced(half), Err(StoreError::Conflict(_))));
            }
            _ => {
                let panics = || writer.synced::<()>(|_| panic!("on purpose"));
                assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
            }
        });
        assert!(first);
        assert_eq!(rows(&writer), [-1, 0, 3, 6, 9]);
    }

    #[test]
    fn a_group_that_cannot_commit_tells_all_its_members() {
        let (writer, _folder) = writer();
        let failed = AtomicUsize::new(0);
        let limit = "PRAGMA max_page_count = 3";
        let setup = writer.apart(|connection| Ok(connection.query_row(limit, [], |_| Ok(()))?));
        setup.unwrap();
        let large = |connection: &Connection| {
            connection.execute_batch(
                "CREATE TABLE large (b BLOB); INSERT INTO large VALUES (zeroblob(1000000))",
            )?;
            Ok(())
        };
        let first = behind_a_slow_one(&writer, 8, |n| {
            let written = match n {
                3 => writer.synced(large),
                n => writer.synced(insert(n as i64)),
            };
            if matches!(written, Err(StoreError::Full)) {
                failed.fetch_add(1, Ordering::SeqCst);
            }
        });
        let failed = failed.into_inner() + usize::from(!first);
        // The rows that were acknowledged are there, and no others.
        assert!(failed >= 1);
        assert_eq!(rows(&writer).len() + failed, 9);
    }

    #[test]
    fn what_can_be_derived_again_is_written_without_a_sync() {
        let (writer, _folder) = writer();
        writer.unsynced(insert(1)).unwrap();
        let again = writer.unsynced(insert(1));
        assert!(matches!(again, Err(StoreError::Sqlite(_))));
        let synchronous = writer.apart(|connection| {
            Ok(connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))?)
        });
        assert_eq!(synchronous.unwrap(), 2);
        assert_eq!(rows(&writer), [1]);
    }
}
