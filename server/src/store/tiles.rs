//! Encoded pictures: overviews that stay, and a bounded cache of the rest.

use super::columns::pack;
use super::rows::int;
use super::{Reader, StoreResult, Writer};
use rusqlite::{OptionalExtension, params};

/// Which picture.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TileKey {
    /// Of which trace.
    pub trace: i64,
    /// CUDA ordinal.
    pub device: u32,
    /// `series`, `mountain/stack`, `marks` …
    pub kind: String,
    /// Level in the tile grid; 0 for marks.
    pub level: u8,
    /// Index in the tile grid; 0 for marks.
    pub index: u32,
    /// Version of the encoding.
    pub version: u32,
}

/// Whether a picture may be thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It is the first thing that a link shows: it stays.
    Overview,
    /// It can go when the cache is full.
    Cached,
}

/// Packs a picture as it is kept and sent.
///
/// # Errors
/// When memory for it cannot be had.
pub fn pack_tile(encoded: &[u8]) -> StoreResult<Vec<u8>> {
    pack(encoded)
}

/// Whether a packed picture is what was packed.
fn is_whole(packed: &[u8]) -> bool {
    zstd::stream::copy_decode(packed, std::io::sink()).is_ok()
}

impl Reader<'_> {
    /// A picture as it was packed (zstd), if it is there. A damaged one is not: it can be drawn
    /// again.
    pub fn tile(&self, key: &TileKey) -> StoreResult<Option<Vec<u8>>> {
        let sql = "SELECT bytes FROM tiles WHERE trace = ?1 AND device = ?2 AND kind = ?3 \
                   AND level = ?4 AND idx = ?5 AND version = ?6";
        let mut statement = self.tx.prepare_cached(sql)?;
        let found = statement.query_row(
            params![
                key.trace,
                key.device,
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
    /// Loses every picture: they are derived.
    #[cfg(test)]
    pub fn lose_tiles(&mut self) -> StoreResult<usize> {
        Ok(self.tx.execute("DELETE FROM tiles", [])?)
    }

    /// Keeps a packed picture. Nothing is kept when the trace is gone.
    pub fn put_tile(&mut self, key: &TileKey, packed: &[u8], keep: Keep) -> StoreResult<()> {
        self.tx.execute(
            "INSERT OR REPLACE INTO tiles \
             (trace, device, kind, level, idx, version, overview, bytes) \
             SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM traces WHERE id = ?1",
            params![
                key.trace,
                key.device,
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

    /// Throws the oldest cached pictures away until the rest has at most `limit` bytes.
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
