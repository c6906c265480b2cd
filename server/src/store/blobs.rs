//! Blobs: which uploaded bytes the blob store holds, and how they are packed.

use super::rows::{int, uint};
use super::{Reader, StoreResult, Writer};
use rusqlite::{OptionalExtension, Row, params};

/// How a blob is packed in the blob store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobCodec {
    /// The server compressed it, at this level.
    Zstd {
        /// zstd level.
        level: i32,
    },
    /// Stored as uploaded, because the upload was already compressed.
    Identity,
}

/// A blob that no run uses and that was not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// BLAKE3 of its bytes, hexadecimal.
    pub hash: String,
    /// Name of the upload that it came with.
    pub name: String,
    /// Why it is not a run, as a sentence.
    pub why: String,
}

/// How much is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Runs that are not deleted.
    pub runs: u64,
    /// Bytes of blobs, as they are packed.
    pub blob_bytes: u64,
}

/// Uploaded bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRow {
    /// BLAKE3 of the bytes as uploaded, hexadecimal.
    pub hash: String,
    /// Bytes as uploaded.
    pub file_bytes: u64,
    /// Bytes in the blob store.
    pub stored_bytes: u64,
    /// How it is packed there.
    pub codec: BlobCodec,
}

impl Reader<'_> {
    /// A blob.
    pub fn blob(&self, hash: &str) -> StoreResult<Option<BlobRow>> {
        let sql = "SELECT * FROM blobs WHERE hash = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        Ok(statement.query_row([hash], blob_of).optional()?)
    }

    /// How much is stored.
    pub fn stored(&self) -> StoreResult<Stored> {
        let sql = "SELECT (SELECT count(*) FROM runs WHERE deleted_ms IS NULL) AS runs, \
                   (SELECT coalesce(sum(stored_bytes), 0) FROM blobs) AS blob_bytes";
        let mut statement = self.tx.prepare_cached(sql)?;
        let stored = |row: &Row| {
            Ok(Stored {
                runs: uint(row, "runs")?,
                blob_bytes: uint(row, "blob_bytes")?,
            })
        };
        Ok(statement.query_row([], stored)?)
    }

    /// Bytes of the database that hold something.
    pub fn database_bytes(&self) -> StoreResult<u64> {
        let sql = "SELECT (page_count - freelist_count) * page_size AS bytes \
                   FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()";
        let mut statement = self.tx.prepare_cached(sql)?;
        Ok(statement.query_row([], |row| uint(row, "bytes"))?)
    }

    /// Hashes of all blobs.
    pub fn blob_hashes(&self) -> StoreResult<Vec<String>> {
        let mut statement = self.tx.prepare("SELECT hash FROM blobs")?;
        let rows = statement.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// All blobs.
    pub fn blobs(&self) -> StoreResult<Vec<BlobRow>> {
        let mut statement = self
            .tx
            .prepare("SELECT * FROM blobs ORDER BY created_ms, hash")?;
        let rows = statement.query_map([], blob_of)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Hashes of blobs whose removal was decided but not carried out, and when it was decided.
    pub fn blob_removals(&self) -> StoreResult<Vec<(String, i64)>> {
        let sql = "SELECT hash, decided_ms FROM blob_removals ORDER BY decided_ms";
        let mut statement = self.tx.prepare(sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Blobs that are kept although no run uses them, and the reason.
    pub fn quarantine(&self) -> StoreResult<Vec<Quarantined>> {
        let sql = "SELECT hash, name, why FROM quarantine ORDER BY since_ms, hash";
        let mut statement = self.tx.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            Ok(Quarantined {
                hash: row.get(0)?,
                name: row.get(1)?,
                why: row.get(2)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Blobs that a run uses and that were packed at a lower level than `level`.
    pub fn blobs_below_level(&self, level: i32) -> StoreResult<Vec<BlobRow>> {
        let sql = "SELECT * FROM blobs WHERE codec = 'zstd' AND level < ?1 \
                   AND hash IN (SELECT blob FROM runs) ORDER BY created_ms";
        let mut statement = self.tx.prepare(sql)?;
        let rows = statement.query_map([level], blob_of)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

impl Writer<'_> {
    /// Makes the files so large that the sum of two cannot be read.
    #[cfg(test)]
    pub fn overflow_blobs(&mut self) -> StoreResult<usize> {
        let sql = "UPDATE blobs SET stored_bytes = 9223372036854775807";
        Ok(self.tx.execute(sql, [])?)
    }

    /// Records that a blob is in the blob store. If it was there before, it has just been replaced,
    /// and may be packed in another way now.
    pub fn insert_blob(&mut self, blob: &BlobRow, now_ms: i64) -> StoreResult<()> {
        let (codec, level) = codec_columns(blob.codec);
        self.tx.execute(
            "INSERT INTO blobs (hash, file_bytes, stored_bytes, codec, level, created_ms) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (hash) DO UPDATE SET \
             stored_bytes = excluded.stored_bytes, codec = excluded.codec, level = excluded.level",
            params![
                blob.hash,
                int(blob.file_bytes),
                int(blob.stored_bytes),
                codec,
                level,
                now_ms
            ],
        )?;
        // The blob is needed now, so an earlier decision to remove it or set it aside is void.
        for table in ["blob_removals", "quarantine"] {
            let sql = format!("DELETE FROM {table} WHERE hash = ?1");
            self.tx.execute(&sql, [&blob.hash])?;
        }
        Ok(())
    }

    /// Records that a blob was packed again.
    pub fn repack_blob(&mut self, hash: &str, stored: u64, level: i32) -> StoreResult<()> {
        self.tx.execute(
            "UPDATE blobs SET stored_bytes = ?2, level = ?3 WHERE hash = ?1",
            params![hash, int(stored), level],
        )?;
        Ok(())
    }

    /// Forgets blobs that no run and no unfinished upload uses, and returns their hashes. The
    /// caller must now remove these blobs from the blob store; the database remembers that until
    /// [`Writer::blob_removed`]. Blobs in quarantine stay there.
    pub fn forget_unused_blobs(&mut self, now_ms: i64) -> StoreResult<Vec<String>> {
        let mut statement = self.tx.prepare(
            "DELETE FROM blobs WHERE hash NOT IN (SELECT blob FROM runs) AND hash NOT IN \
             (SELECT blob FROM uploads WHERE blob IS NOT NULL) RETURNING hash",
        )?;
        let rows = statement.query_map([], |row| row.get(0))?;
        let mut unused: Vec<String> = rows.collect::<Result<_, _>>()?;
        let kept = self.reader().quarantine()?;
        unused.retain(|hash| kept.iter().all(|blob| blob.hash != *hash));
        let sql = "INSERT OR REPLACE INTO blob_removals (hash, decided_ms) VALUES (?1, ?2)";
        let mut decide = self.tx.prepare(sql)?;
        for hash in &unused {
            decide.execute(params![hash, now_ms])?;
        }
        Ok(unused)
    }

    /// Records that a removal was carried out or called off.
    pub fn blob_removed(&mut self, hash: &str) -> StoreResult<()> {
        let sql = "DELETE FROM blob_removals WHERE hash = ?1";
        self.tx.execute(sql, [hash])?;
        Ok(())
    }

    /// Sets a blob aside: it stays in the blob store although no run uses it.
    pub fn set_aside(&mut self, blob: &Quarantined, now_ms: i64) -> StoreResult<()> {
        let sql = "INSERT OR REPLACE INTO quarantine (hash, name, why, since_ms) \
                   VALUES (?1, ?2, ?3, ?4)";
        self.tx
            .execute(sql, params![blob.hash, blob.name, blob.why, now_ms])?;
        Ok(())
    }
}

fn codec_columns(codec: BlobCodec) -> (&'static str, i32) {
    match codec {
        BlobCodec::Zstd { level } => ("zstd", level),
        BlobCodec::Identity => ("identity", 0),
    }
}

fn blob_of(row: &Row) -> rusqlite::Result<BlobRow> {
    let codec: String = row.get("codec")?;
    let level = row.get("level")?;
    Ok(BlobRow {
        hash: row.get("hash")?,
        file_bytes: uint(row, "file_bytes")?,
        stored_bytes: uint(row, "stored_bytes")?,
        codec: match codec.as_str() {
            "identity" => BlobCodec::Identity,
            _ => BlobCodec::Zstd { level },
        },
    })
}
