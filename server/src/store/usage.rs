//! How much of the disk each part of a database and each run takes.

use super::rows::{bytes, corrupt};
use super::{Reader, StoreResult};
use api::ids::RunId;
use api::usage::StoredParts;
use trace::units::Bytes;

/// What a run takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSize {
    /// Which.
    pub run: RunId,
    /// When it was deleted, while that can be undone.
    pub deleted_ms: Option<i64>,
    /// Who sent it, where people sign in.
    pub uploaded_by: Option<String>,
    /// Its file, as it is packed.
    pub file: Bytes,
    /// Its events.
    pub events: Bytes,
    /// Its pictures.
    pub pictures: Bytes,
    /// Its packed tensors.
    pub tensors: Bytes,
}

impl RunSize {
    /// All of that.
    pub fn all(&self) -> Bytes {
        self.file + self.events + self.pictures + self.tensors
    }
}

impl Reader<'_> {
    /// What each run takes, deleted or not. Of large values only their lengths are read, so that
    /// this takes some milliseconds for each thousand runs.
    pub fn run_sizes(&self) -> StoreResult<Vec<RunSize>> {
        let sql = "SELECT id, deleted_ms, uploaded_by, \
             coalesce((SELECT stored_bytes FROM blobs WHERE hash = runs.blob), 0) AS file, \
             (SELECT coalesce(sum(length(bytes)), 0) FROM chunks WHERE trace = runs.trace) \
               AS events, \
             (SELECT coalesce(sum(length(bytes)), 0) FROM tiles WHERE trace = runs.trace) \
               AS pictures, \
             coalesce((SELECT length(bytes) FROM tensor_columns WHERE run = runs.id), 0) \
               AS tensors FROM runs";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get("id")?;
            found.push(RunSize {
                run: id.parse().map_err(|_| corrupt("run id", &id))?,
                deleted_ms: row.get("deleted_ms")?,
                uploaded_by: row.get("uploaded_by")?,
                file: bytes(row, "file")?,
                events: bytes(row, "events")?,
                pictures: bytes(row, "pictures")?,
                tensors: bytes(row, "tensors")?,
            });
        }
        Ok(found)
    }

    /// What each part takes, of a database with runs of these sizes. The pages of reports and of
    /// tensors are counted, each once.
    pub fn stored_parts(&self, runs: &[RunSize]) -> StoreResult<StoredParts> {
        let of = |part: fn(&RunSize) -> Bytes| runs.iter().map(part).sum::<Bytes>();
        let mut parts = StoredParts {
            files: Bytes(self.stored()?.blob_bytes),
            events: of(|run| run.events),
            pictures: of(|run| run.pictures),
            live: self.pages_of("live")? + self.pages_of("live_steps")?,
            tensors: of(|run| run.tensors) + self.pages_of("tensors")?,
            other: Bytes::ZERO,
        };
        let named = parts.all() - parts.files;
        parts.other = Bytes(self.database_bytes()?).saturating_sub(named);
        Ok(parts)
    }

    /// The pages of a table.
    fn pages_of(&self, table: &str) -> StoreResult<Bytes> {
        let sql = "SELECT coalesce(sum(pgsize), 0) AS bytes FROM dbstat \
                   WHERE name = ?1 AND aggregate = TRUE";
        let mut statement = self.tx.prepare_cached(sql)?;
        Ok(statement.query_row([table], |row| bytes(row, "bytes"))?)
    }
}

#[cfg(test)]
mod tests {
    use crate::store::Store;
    use api::ids::LiveId;
    use api::labels::Labels;
    use api::live::{LiveStep, NewLive};
    use trace::units::Bytes;

    #[test]
    fn reports_of_trainings_are_a_part_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let parts = || {
            let read = store.read_now(|reader| {
                let parts = reader.stored_parts(&reader.run_sizes()?)?;
                Ok((parts, Bytes(reader.database_bytes()?)))
            });
            read.unwrap()
        };
        let (before, all) = parts();
        assert_eq!(
            before.all(),
            all,
            "nothing is stored outside of the database"
        );
        assert!(
            before.live.get() > 0 && before.other > before.live,
            "{before:?}"
        );
        let live: LiveId = "live_a".parse().unwrap();
        let new = NewLive {
            name: "llama".to_owned(),
            rank: None,
            ranks: None,
            job: None,
            device: 0,
            limit: None,
            labels: Labels::default(),
        };
        let steps = (1..=5000).map(|step| LiveStep {
            step,
            ..LiveStep::default()
        });
        let steps: Vec<LiveStep> = steps.collect();
        let written = store.write_now(|writer| {
            writer.begin_live(&live, &new, 1)?;
            writer.add_live_steps(&live, &steps, 2)
        });
        written.unwrap();
        let (after, all) = parts();
        assert!(after.live > before.live + Bytes(5000 * 10), "{after:?}");
        assert_eq!(after.all(), all);
        assert_eq!((after.files, after.events), (Bytes::ZERO, Bytes::ZERO));
    }
}
