//! What the engine knows about the tensors of a run, as columns. They are stored packed, and
//! searched by the block under the pointer.

use crate::store::{AliveTensor, Store, StoreError, StoreResult};
use api::ids::RunId;
use api::timeline::{BlockDetail, TensorDetail};
use engine::recording::TensorInfo;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use trace::units::{Bytes, DeviceAddr, EventIdx};

/// Version of the encoding.
pub const VERSION: u32 = 1;

/// zstd level: these columns are written once and repeat themselves a lot.
const LEVEL: i32 = 3;

/// The tensor tables of stored runs. The table that was used last stays unpacked.
pub struct Tensors {
    store: Store,
    last: Mutex<Option<(RunId, Arc<TensorTable>)>>,
}

impl Tensors {
    /// The tables in `store`.
    pub fn new(store: Store) -> Tensors {
        let last = Mutex::default();
        Tensors { store, last }
    }

    /// The table of a run; `None` if nothing is known, as for every upload.
    ///
    /// # Errors
    /// The database's.
    pub async fn get(&self, run: &RunId) -> StoreResult<Option<Arc<TensorTable>>> {
        if let Some(table) = self.kept(run) {
            return Ok(Some(table));
        }
        let wanted = run.clone();
        let read = self.store.read(move |reader| {
            let packed = reader.tensor_columns(&wanted, VERSION)?;
            packed
                .map(|packed| TensorTable::unpack(&packed).map_err(StoreError::Packing))
                .transpose()
        });
        let table = read.await?.map(Arc::new);
        if let Some(table) = &table {
            *self.lock() = Some((run.clone(), Arc::clone(table)));
        }
        Ok(table)
    }

    fn kept(&self, run: &RunId) -> Option<Arc<TensorTable>> {
        let last = self.lock();
        let (_, table) = last.as_ref().filter(|(id, _)| id == run)?;
        Some(Arc::clone(table))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(RunId, Arc<TensorTable>)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tensors of a recording: first those that existed before it, then those made during it, by
/// their event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorTable {
    /// Every distinct text.
    texts: Vec<String>,
    /// Every distinct shape.
    shapes: Vec<Vec<u64>>,
    event: Vec<Option<u32>>,
    address: Vec<u64>,
    bytes: Vec<u64>,
    name: Vec<u32>,
    op: Vec<u32>,
    module: Vec<u32>,
    shape: Vec<u32>,
    dtype: Vec<Option<u32>>,
    role: Vec<u32>,
    made_step: Vec<Option<u32>>,
    owner: Vec<Option<u32>>,
}

impl TensorTable {
    /// The table of a recording.
    pub fn of(tensors: impl Iterator<Item = TensorInfo>) -> TensorTable {
        let mut table = TensorTable::default();
        let (mut texts, mut shapes) = (HashMap::new(), HashMap::new());
        for tensor in tensors {
            let mut text = |text: String| intern(&mut texts, &mut table.texts, text);
            table.name.push(text(tensor.name));
            table.op.push(text(tensor.op));
            table.module.push(text(tensor.module));
            table.dtype.push(tensor.dtype.map(&mut text));
            table.owner.push(tensor.owner.map(&mut text));
            let role = serde_json::to_value(tensor.role).expect("a role is a word");
            table
                .role
                .push(text(role.as_str().unwrap_or_default().to_owned()));
            let shape = intern(&mut shapes, &mut table.shapes, tensor.shape);
            table.shape.push(shape);
            table.event.push(tensor.event);
            table.address.push(tensor.address.0);
            table.bytes.push(tensor.bytes.0);
            table.made_step.push(tensor.step);
        }
        table
    }

    /// The table, packed.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn pack(&self) -> io::Result<Vec<u8>> {
        let columns = serde_json::to_vec(self)?;
        zstd::bulk::compress(&columns, LEVEL)
    }

    /// The table that was packed.
    ///
    /// # Errors
    /// When the bytes are not such a table.
    pub fn unpack(packed: &[u8]) -> io::Result<TensorTable> {
        let table: TensorTable = serde_json::from_slice(&zstd::decode_all(packed)?)?;
        match table.is_whole() {
            true => Ok(table),
            false => Err(io::Error::other("a table of tensors is damaged")),
        }
    }

    /// Whether all columns have the same length, and every index in them points at an existing
    /// entry.
    fn is_whole(&self) -> bool {
        let n = self.event.len();
        let texts = self.texts.len();
        let of_texts = [&self.name, &self.op, &self.module, &self.role];
        let maybe_texts = [&self.dtype, &self.owner];
        let there = |&text: &u32| (text as usize) < texts;
        of_texts.iter().all(|c| c.len() == n && c.iter().all(there))
            && maybe_texts
                .iter()
                .all(|c| c.len() == n && c.iter().flatten().all(there))
            && self.shape.len() == n
            && self.shape.iter().all(|&s| (s as usize) < self.shapes.len())
            && [self.address.len(), self.bytes.len(), self.made_step.len()] == [n; 3]
    }

    /// What is known of a block.
    pub fn of_block(&self, block: &BlockDetail) -> Option<TensorDetail> {
        self.find(block.alloc.map(|(event, _)| event), block.addr)
    }

    /// What is known of a block, found by the event of its allocation or, if that was before the
    /// recording, by its address.
    pub fn find(&self, alloc: Option<EventIdx>, addr: DeviceAddr) -> Option<TensorDetail> {
        let at = match alloc {
            Some(event) => {
                let wanted = Some(event.0);
                let from = self.event.partition_point(|event| *event < wanted);
                (self.event.get(from) == Some(&wanted)).then_some(from)
            }
            None => {
                let standing = self.event.partition_point(Option::is_none);
                let mut addresses = self.address[..standing].iter();
                addresses.position(|address| *address == addr.0)
            }
        };
        at.map(|at| self.detail(at))
    }

    /// Tensors that are alive at the end.
    pub fn alive(&self) -> impl Iterator<Item = AliveTensor> + '_ {
        let alive = (0..self.event.len()).filter(|&at| self.owner[at].is_some());
        alive.map(|at| AliveTensor {
            position: at as u32,
            event: self.event[at],
            address: DeviceAddr(self.address[at]),
            bytes: Bytes(self.bytes[at]),
            detail: self.detail(at),
        })
    }

    fn detail(&self, at: usize) -> TensorDetail {
        let text = |text: u32| self.texts[text as usize].clone();
        TensorDetail {
            name: text(self.name[at]),
            op: text(self.op[at]),
            module: text(self.module[at]),
            shape: self.shapes[self.shape[at] as usize].clone(),
            dtype: self.dtype[at].map(text),
            role: text(self.role[at]),
            made_step: self.made_step[at],
            owner: self.owner[at].map(text),
        }
    }
}

fn intern<T: Clone + Eq + std::hash::Hash>(
    known: &mut HashMap<T, u32>,
    all: &mut Vec<T>,
    item: T,
) -> u32 {
    *known.entry(item).or_insert_with_key(|item| {
        all.push(item.clone());
        all.len() as u32 - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::bench::{RunSpec, run_recorded};
    use engine::systems::System;
    use std::sync::atomic::AtomicU64;
    use trace::trace::BlockIdx;

    fn recorded() -> engine::recording::Recording {
        let spec = RunSpec {
            steps: Some(3),
            record_steps: 2,
            ..RunSpec::new(System::REUSE, &[])
        };
        run_recorded(&spec, &mut |_| true).1
    }

    #[test]
    fn a_table_survives_packing_and_a_damaged_one_is_refused() {
        let table = TensorTable::of(recorded().tensors());
        assert!(table.event.len() > 50);
        let packed = table.pack().unwrap();
        assert_eq!(TensorTable::unpack(&packed).unwrap(), table);
        let mut damaged = table.clone();
        damaged.owner.pop();
        assert!(TensorTable::unpack(&damaged.pack().unwrap()).is_err());
    }

    #[test]
    fn every_block_of_a_recording_is_a_tensor_of_its_table() {
        let recording = recorded();
        let table = TensorTable::of(recording.tensors());
        let mut pickle = Vec::new();
        recording.write_pickle(&mut pickle).unwrap();
        let snapshot = crate::ingest::parse([pickle].iter(), &AtomicU64::new(0)).unwrap();
        let trace = trace::replay::run(snapshot);
        let budget = crate::limits::budget::Budget::new(trace::units::Bytes::mib(1));
        let decoded = crate::pictures::Decoded::new(trace, budget.nothing());
        let device = &decoded.trace.devices[0];
        let mut standing = 0;
        for block in 0..device.blocks.len() as u32 {
            let detail = crate::pictures::details::block(&decoded, device, BlockIdx(block));
            let detail = detail.unwrap();
            let tensor = table.of_block(&detail);
            let tensor = tensor.unwrap_or_else(|| panic!("{detail:?}"));
            standing += usize::from(detail.alloc.is_none());
            let live = detail.free_requested.is_none();
            assert_eq!(tensor.owner.is_some(), live, "{tensor:?} {detail:?}");
        }
        assert!(standing > 0 && (standing as u32) < device.blocks.len() as u32);
    }
}
