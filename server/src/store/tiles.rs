//! Encoded pictures: overviews, which are never thrown away, and a bounded cache of the others.

use super::columns::pack;
use super::rows::int;
use super::{Reader, StoreResult, Writer};
use rusqlite::{OptionalExtension, params};
use trace::device::DeviceIdx;

/// The key of a picture.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TileKey {
    /// The trace that it shows.
    pub trace: i64,
    /// CUDA ordinal.
    pub device: DeviceIdx,
    /// `series`, `mountain/stack`, `marks` …
    pub kind: String,
    /// Level in the tile grid; 0 for marks.
    pub level: u8,
    /// Index in the tile grid; 0 for marks.
    pub index: u32,
    /// Version of the encoding.
    pub version: u32,
}

/// Whether a picture may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// An overview, which a link shows first: never deleted.
    Overview,
    /// May be deleted when the cache is full.
    Cached,
}

/// Compresses a picture into the form in which it is stored and sent.
///
/// # Errors
/// When there is not enough memory.
pub fn pack_tile(encoded: &[u8]) -> StoreResult<Vec<u8>> {
    pack(encoded)
}

/// Whether a packed picture is undamaged.
fn is_whole(packed: &[u8]) -> bool {
    zstd::stream::copy_decode(packed, std::io::sink()).is_ok()
}

impl Reader<'_> {
    /// A picture in its packed form (zstd), if it is stored. A damaged one counts as missing,
    /// because it can be drawn again.
    pub fn tile(&self, key: &TileKey) -> StoreResult<Option<Vec<u8>>> {
        let sql = "SELECT bytes FROM tiles WHERE trace = ?1 AND device = ?2 AND kind = ?3 \
                   AND level = ?4 AND idx = ?5 AND version = ?6";
        let mut statement = self.tx.prepare_cached(sql)?;
        let found = statement.query_row(
            params![
                key.trace,
                key.device.0,
                key.kind,
                key.level,
                key.index,
                key.version
            ],
            |row| row.get(0),
        );
        let found: Option<Vec<u8>> = found.optional()?;
        Ok(found.filter(|packed| is_whole(packed)))
    }
}

impl Writer<'_> {
    /// Deletes every picture; pictures can be drawn again.
    #[cfg(test)]
    pub fn lose_tiles(&mut self) -> StoreResult<usize> {
        Ok(self.tx.execute("DELETE FROM tiles", [])?)
    }

    /// Stores a packed picture, unless its trace is gone.
    pub fn put_tile(&mut self, key: &TileKey, packed: &[u8], keep: Keep) -> StoreResult<()> {
        self.tx.execute(
            "INSERT OR REPLACE INTO tiles \
             (trace, device, kind, level, idx, version, overview, bytes) \
             SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM traces WHERE id = ?1",
            params![
                key.trace,
                key.device.0,
                key.kind,
                key.level,
                key.index,
                key.version,
                keep == Keep::Overview,
                packed,
            ],
        )?;
        Ok(())
    }

    /// Deletes the oldest cached pictures until the others have at most `limit` bytes.
    pub fn trim_tiles(&mut self, limit: u64) -> StoreResult<usize> {
        let removed = self.tx.execute(
            "DELETE FROM tiles WHERE overview = 0 AND id <= (SELECT max(id) FROM \
             (SELECT id, sum(length(bytes)) OVER (ORDER BY id DESC) AS newer \
              FROM tiles WHERE overview = 0) WHERE newer > ?1)",
            [int(limit)],
        )?;
        Ok(removed)
    }
}
