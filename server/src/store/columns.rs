//! Traces as compressed chunks of columns.

use super::{Reader, StoreError, StoreResult, Writer};
use rusqlite::params;

/// zstd level of chunks and tiles: on real columns level 3 is no smaller than 1.
const LEVEL: i32 = 1;

/// One chunk, packed and ready to insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRow {
    /// CUDA ordinal, or what `trace::stored` uses for parts that belong to no device.
    pub device: u32,
    /// Column.
    pub column: u32,
    /// Position within the column.
    pub seq: u32,
    packed: Vec<u8>,
}

/// One chunk, unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChunk {
    /// As in [`ChunkRow`].
    pub device: u32,
    /// Column.
    pub column: u32,
    /// Position within the column.
    pub seq: u32,
    /// What `trace::stored` encoded.
    pub bytes: Vec<u8>,
}

impl ChunkRow {
    /// Packs a chunk.
    ///
    /// # Errors
    /// When memory for it cannot be had.
    pub fn pack(device: u32, column: u32, seq: u32, bytes: &[u8]) -> StoreResult<ChunkRow> {
        let packed = pack(bytes)?;
        Ok(ChunkRow {
            device,
            column,
            seq,
            packed,
        })
    }

    /// Bytes it takes in the database.
    pub fn packed_len(&self) -> usize {
        self.packed.len()
    }
}

/// Compresses a chunk or a tile.
pub(super) fn pack(bytes: &[u8]) -> StoreResult<Vec<u8>> {
    zstd::bulk::compress(bytes, LEVEL).map_err(StoreError::Packing)
}

fn unpack(packed: &[u8]) -> StoreResult<Vec<u8>> {
    zstd::stream::decode_all(packed).map_err(StoreError::Packing)
}

impl Reader<'_> {
    /// Hands every chunk of a trace, by device, column and position, to `each`.
    ///
    /// # Errors
    /// The database's; `each` may stop with its own.
    pub fn chunks(
        &self,
        trace: i64,
        mut each: impl FnMut(StoredChunk) -> StoreResult<()>,
    ) -> StoreResult<()> {
        let sql = "SELECT device, col, seq, bytes FROM chunks WHERE trace = ?1 \
                   ORDER BY device, col, seq";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([trace])?;
        while let Some(row) = rows.next()? {
            let packed = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
            each(StoredChunk {
                device: row.get(0)?,
                column: row.get(1)?,
                seq: row.get(2)?,
                bytes: unpack(packed)?,
            })?;
        }
        Ok(())
    }

    /// The version of the encoding that a trace's chunks have.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn stored_version(&self, trace: i64) -> StoreResult<u32> {
        let sql = "SELECT stored_version FROM traces WHERE id = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        match statement.query_row([trace], |row| row.get(0)) {
            Err(rusqlite::Error::QueryReturnedNoRows) => {
                let id = trace.to_string();
                Err(StoreError::NotFound { what: "trace", id })
            }
            version => Ok(version?),
        }
    }
}

impl Writer<'_> {
    /// Makes an empty trace, to be filled with [`Writer::insert_chunks`].
    pub fn new_trace(&mut self, stored_version: u32, now_ms: i64) -> StoreResult<i64> {
        self.tx.execute(
            "INSERT INTO traces (stored_version, created_ms) VALUES (?1, ?2)",
            params![stored_version, now_ms],
        )?;
        Ok(self.tx.last_insert_rowid())
    }

    /// Adds chunks to a trace.
    pub fn insert_chunks(&mut self, trace: i64, chunks: &[ChunkRow]) -> StoreResult<()> {
        let sql = "INSERT INTO chunks (trace, device, col, seq, bytes) VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut statement = self.tx.prepare_cached(sql)?;
        for chunk in chunks {
            statement.execute(params![
                trace,
                chunk.device,
                chunk.column,
                chunk.seq,
                chunk.packed
            ])?;
        }
        Ok(())
    }

    /// Removes a trace that no run points at.
    pub fn drop_trace(&mut self, trace: i64) -> StoreResult<()> {
        self.tx
            .execute("DELETE FROM traces WHERE id = ?1", [trace])?;
        Ok(())
    }
}
