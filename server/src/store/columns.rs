//! Traces as compressed chunks of columns.

use super::rows::corrupt;
use super::{Reader, StoreError, StoreResult, Writer};
use rusqlite::params;
use trace::device::DeviceIdx;
use trace::stored::{Chunk, Column};

/// zstd level of chunks and tiles. On 21 MB of real columns, level 3 gives 5 % less than level 1
/// and takes 50 ms more; level 9 gives another 4 % less and takes 350 ms more.
const LEVEL: i32 = 3;

/// Device number for data that all devices share. NULL would not do: SQL counts NULLs as different,
/// so the key would not be unique.
const SHARED: i64 = -1;

/// One chunk, packed and ready to insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedChunk {
    device: Option<DeviceIdx>,
    column: Column,
    seq: u32,
    bytes: Vec<u8>,
}

impl PackedChunk {
    /// Packs a chunk.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn pack(chunk: &Chunk) -> StoreResult<PackedChunk> {
        Ok(PackedChunk {
            device: chunk.device,
            column: chunk.column,
            seq: chunk.seq,
            bytes: pack(&chunk.bytes)?,
        })
    }

    /// The chunk.
    ///
    /// # Errors
    /// When its bytes are damaged.
    pub fn unpack(&self) -> StoreResult<Chunk> {
        Ok(Chunk {
            device: self.device,
            column: self.column,
            seq: self.seq,
            bytes: unpack(&self.bytes)?,
        })
    }

    /// What it is a part of.
    pub fn column(&self) -> Column {
        self.column
    }

    /// Bytes of the chunk, as its own header states them.
    pub fn unpacked_len(&self) -> usize {
        stated(&self.bytes).map_or(self.bytes.len(), |bytes| bytes as usize)
    }

    /// Bytes that the packed chunk takes in the database.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no bytes: never, because packing adds a header.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Compresses a chunk or a tile and adds a checksum, because SQLite has none.
pub(super) fn pack(bytes: &[u8]) -> StoreResult<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL).map_err(StoreError::Packing)?;
    compressor
        .include_checksum(true)
        .and_then(|()| compressor.compress(bytes))
        .map_err(StoreError::Packing)
}

/// How long a chunk is, which the start of the packed one says.
fn stated(packed: &[u8]) -> Option<u64> {
    zstd::zstd_safe::get_frame_content_size(packed)
        .ok()
        .flatten()
}

fn unpack(packed: &[u8]) -> StoreResult<Vec<u8>> {
    zstd::stream::decode_all(packed).map_err(StoreError::Packing)
}

impl Reader<'_> {
    /// All chunks of a trace.
    pub fn chunks(&self, trace: i64) -> StoreResult<Vec<PackedChunk>> {
        let sql = "SELECT device, col, seq, bytes FROM chunks WHERE trace = ?1 \
                   ORDER BY device, col, seq";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([trace])?;
        let mut chunks = Vec::new();
        while let Some(row) = rows.next()? {
            let column: u32 = row.get(1)?;
            let unknown = || corrupt("column", &column.to_string());
            chunks.push(PackedChunk {
                device: u32::try_from(row.get::<_, i64>(0)?).ok().map(DeviceIdx),
                column: Column::from_id(column).ok_or_else(unknown)?,
                seq: row.get(2)?,
                bytes: row.get(3)?,
            });
        }
        Ok(chunks)
    }

    /// Bytes of all chunks of a trace, unpacked.
    pub fn chunks_bytes(&self, trace: i64) -> StoreResult<u64> {
        let sql = "SELECT substr(bytes, 1, 18), length(bytes) FROM chunks WHERE trace = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([trace])?;
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let start = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
            bytes += stated(start).unwrap_or(row.get::<_, i64>(1)?.unsigned_abs());
        }
        Ok(bytes)
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
    /// Deletes the columns of every trace, as damage to the database could. Returns how many.
    #[cfg(test)]
    pub fn lose_chunks(&mut self) -> StoreResult<usize> {
        Ok(self.tx.execute("DELETE FROM chunks", [])?)
    }

    /// Deletes everything that is derived, so that the database looks as if an older version wrote
    /// it.
    #[cfg(test)]
    pub fn lose_all_derived(&mut self) -> StoreResult<()> {
        let sql = "DELETE FROM tiles; DELETE FROM chunks; DELETE FROM steps; \
                   DELETE FROM quality; UPDATE traces SET stored_version = 0;";
        Ok(self.tx.execute_batch(sql)?)
    }

    /// Makes an empty trace. [`Writer::insert_chunks`] fills it. Its number was never given before:
    /// caches keep what they found by it, also when the run is purged.
    pub fn new_trace(&mut self, stored_version: u32, now_ms: i64) -> StoreResult<i64> {
        let sql = "UPDATE trace_numbers SET highest = highest + 1 RETURNING highest";
        let number: i64 = self.tx.query_row(sql, [], |row| row.get(0))?;
        self.tx.execute(
            "INSERT INTO traces (id, stored_version, created_ms) VALUES (?1, ?2, ?3)",
            params![number, stored_version, now_ms],
        )?;
        Ok(number)
    }

    /// Adds chunks to a trace.
    pub fn insert_chunks(&mut self, trace: i64, chunks: &[PackedChunk]) -> StoreResult<()> {
        let sql = "INSERT INTO chunks (trace, device, col, seq, bytes) VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut statement = self.tx.prepare_cached(sql)?;
        for chunk in chunks {
            statement.execute(params![
                trace,
                chunk.device.map_or(SHARED, |device| i64::from(device.0)),
                chunk.column.id(),
                chunk.seq,
                chunk.bytes
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

#[cfg(test)]
mod tests {
    use super::super::Store;

    #[tokio::test]
    async fn no_number_of_a_trace_is_given_twice() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let new = |writer: &mut super::Writer<'_>| {
            let trace = writer.new_trace(1, 0)?;
            writer.drop_trace(trace)?;
            Ok(trace)
        };
        let first = store.write(new).await.unwrap();
        let second = store.write(new).await.unwrap();
        assert_eq!((first, second), (1, 2));
    }
}
