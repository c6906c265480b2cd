//! Explanations of large runs, kept so that they are not computed again.

use super::{Reader, StoreError, StoreResult, Writer};
use api::explain::Explanation;
use api::ids::RunId;
use rusqlite::{OptionalExtension, params};
use trace::device::DeviceIdx;

/// Most bytes that one stored explanation may unpack to: far more than any has.
const MOST: usize = 16 << 20;

impl Reader<'_> {
    /// The stored explanation of a run, made by this version: of `device`, or of the device that
    /// was explained when nobody named one. The file's name in it is empty.
    ///
    /// # Errors
    /// The database's. An explanation that cannot be read counts as missing.
    pub fn explanation(
        &self,
        run: &RunId,
        device: Option<DeviceIdx>,
        version: u32,
    ) -> StoreResult<Option<Explanation>> {
        let sql = "SELECT words FROM explanations \
                   WHERE run = ?1 AND version = ?2 AND (?3 IS NULL OR device = ?3)";
        let mut statement = self.tx.prepare_cached(sql)?;
        let words: Option<Vec<u8>> = statement
            .query_row(
                params![run.as_str(), version, device.map(|device| device.0)],
                |row| row.get(0),
            )
            .optional()?;
        let unpacked = words.and_then(|words| zstd::bulk::decompress(&words, MOST).ok());
        Ok(unpacked.and_then(|json| serde_json::from_slice(&json).ok()))
    }
}

impl Writer<'_> {
    /// Stores the explanation of a run and replaces the earlier one. Does nothing if the run is
    /// gone.
    ///
    /// # Errors
    /// The database's.
    pub fn put_explanation(
        &mut self,
        run: &RunId,
        version: u32,
        explanation: &Explanation,
    ) -> StoreResult<()> {
        let nameless = Explanation {
            file: String::new(),
            ..explanation.clone()
        };
        let json = serde_json::to_vec(&nameless).expect("explanations are plain data");
        let words = zstd::bulk::compress(&json, 3).map_err(StoreError::Packing)?;
        let device = explanation.device.as_ref().map(|device| device.device.0);
        self.tx.execute(
            "INSERT OR REPLACE INTO explanations (run, device, version, words) \
             SELECT id, ?2, ?3, ?4 FROM runs WHERE id = ?1",
            params![run.as_str(), device, version, words],
        )?;
        Ok(())
    }
}
