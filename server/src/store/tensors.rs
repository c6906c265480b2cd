//! What the engine knows about the tensors of its runs.

use super::rows::{bytes, corrupt, int, uint};
use super::{Reader, StoreResult, Writer};
use api::ids::RunId;
use api::timeline::TensorDetail;
use rusqlite::{OptionalExtension, params};
use trace::units::{Bytes, DeviceAddr};

/// A tensor that is alive at the end of its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliveTensor {
    /// Its place in the table.
    pub position: u32,
    /// The event of its allocation; `None` if it was allocated before the recording.
    pub event: Option<u32>,
    /// First address.
    pub address: DeviceAddr,
    /// Requested bytes.
    pub bytes: Bytes,
    /// What it is, and what keeps it alive.
    pub detail: TensorDetail,
}

impl Reader<'_> {
    /// The packed table of a run, if it has one of this version.
    pub fn tensor_columns(&self, run: &RunId, version: u32) -> StoreResult<Option<Vec<u8>>> {
        let sql = "SELECT bytes FROM tensor_columns WHERE run = ?1 AND version = ?2";
        let mut statement = self.tx.prepare_cached(sql)?;
        let found = statement.query_row(params![run.as_str(), version], |row| row.get(0));
        Ok(found.optional()?)
    }

    /// The tensors of a run that are alive at its end.
    pub fn alive_tensors(&self, run: &RunId) -> StoreResult<Vec<AliveTensor>> {
        let sql = "SELECT * FROM tensors WHERE run = ?1 ORDER BY position";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([run.as_str()])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let shape: String = row.get("shape")?;
            let sides = shape.split('x').filter(|side| !side.is_empty());
            let shape = sides.map(|side| side.parse().map_err(|_| corrupt("shape", &shape)));
            found.push(AliveTensor {
                position: row.get("position")?,
                event: row.get("event")?,
                address: DeviceAddr(uint(row, "address")?),
                bytes: bytes(row, "bytes")?,
                detail: TensorDetail {
                    name: row.get("name")?,
                    op: row.get("op")?,
                    module: row.get("module")?,
                    shape: shape.collect::<StoreResult<_>>()?,
                    dtype: row.get("dtype")?,
                    role: row.get("role")?,
                    made_step: row.get("made_step")?,
                    owner: row.get("owner")?,
                },
            });
        }
        Ok(found)
    }
}

impl Writer<'_> {
    /// Stores the table of a run's tensors and replaces the earlier one.
    pub fn set_tensors(
        &mut self,
        run: &RunId,
        version: u32,
        packed: &[u8],
        alive: &[AliveTensor],
    ) -> StoreResult<()> {
        let sql = "INSERT OR REPLACE INTO tensor_columns (run, version, bytes) VALUES (?1, ?2, ?3)";
        self.tx
            .execute(sql, params![run.as_str(), version, packed])?;
        let sql = "DELETE FROM tensors WHERE run = ?1";
        self.tx.execute(sql, [run.as_str()])?;
        let sql = "INSERT INTO tensors (run, position, event, address, bytes, name, op, module, \
                   shape, dtype, role, made_step, owner) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        let mut statement = self.tx.prepare_cached(sql)?;
        for tensor in alive {
            let detail = &tensor.detail;
            let shape: Vec<String> = detail.shape.iter().map(u64::to_string).collect();
            statement.execute(params![
                run.as_str(),
                tensor.position,
                tensor.event,
                int(tensor.address.0),
                int(tensor.bytes.0),
                detail.name,
                detail.op,
                detail.module,
                shape.join("x"),
                detail.dtype,
                detail.role,
                detail.made_step,
                detail.owner,
            ])?;
        }
        Ok(())
    }
}
