//! The side table of a recording: what each allocation was, and who still holds it.

use serde::{Deserialize, Serialize};

use super::Recording;
use super::owners::Owner;
use crate::memory::{Allocation, Label, Role};
use trace::units::{Bytes, DeviceAddr};

/// One tensor, or piece of scratch memory, of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorInfo {
    /// Index of its `alloc` among the recording's events, which is its index in the snapshot's
    /// trace; `None` if it existed before the recording.
    pub event: Option<u32>,
    /// Index of its `free_requested`; `None` while it is alive.
    pub freed: Option<u32>,
    /// First address.
    pub address: DeviceAddr,
    /// Bytes asked for.
    pub bytes: Bytes,
    /// The program's name for it, or the module and operation that made it.
    pub name: String,
    /// The operation that made it; empty if the program made it.
    pub op: String,
    /// The module in which it was made.
    pub module: String,
    /// Shape; empty for a number, and for memory that is not a tensor.
    pub shape: Vec<u64>,
    /// Element type under PyTorch's name; `None` for memory that is not a tensor.
    pub dtype: Option<String>,
    /// What it is for.
    pub role: Role,
    /// Step in which it was made, from 0; `None` before the first.
    pub step: Option<u32>,
    /// Who keeps it alive at the end of the recording; `None` if it has been freed.
    pub owner: Option<String>,
}

impl Recording {
    /// What the recording knows of each tensor: first those from before the recording that are
    /// still alive, by address; then those made during it, in order.
    pub fn tensors(&self) -> impl Iterator<Item = TensorInfo> + '_ {
        let mut made_here: Vec<DeviceAddr> = self
            .allocations
            .iter()
            .filter(|allocation| allocation.freed.is_none())
            .map(|allocation| allocation.start)
            .collect();
        made_here.sort_unstable();
        let standing = self
            .owners
            .iter()
            .filter(move |(start, _)| made_here.binary_search(start).is_err());
        standing
            .map(|(&start, owner)| self.standing(start, owner))
            .chain(self.allocations.iter().map(|made| self.made(made)))
    }

    fn standing(&self, start: DeviceAddr, owner: &Owner) -> TensorInfo {
        TensorInfo {
            event: None,
            freed: None,
            address: start,
            bytes: owner.bytes,
            step: owner.step,
            role: owner.role,
            name: owner
                .name
                .clone()
                .unwrap_or_else(|| self.name(&owner.label)),
            owner: Some(owner.text.clone()),
            ..self.described(&owner.label)
        }
    }

    fn made(&self, made: &Allocation) -> TensorInfo {
        let owner = self
            .owners
            .get(&made.start)
            .filter(|_| made.freed.is_none());
        let name = owner.and_then(|owner| owner.name.clone());
        TensorInfo {
            event: Some(made.event),
            freed: made.freed,
            address: made.start,
            bytes: made.bytes,
            step: made.step,
            role: owner.map_or(made.label.role, |owner| owner.role),
            name: name.unwrap_or_else(|| self.name(&made.label)),
            owner: owner.map(|owner| owner.text.clone()),
            ..self.described(&made.label)
        }
    }

    fn described(&self, label: &Label) -> TensorInfo {
        TensorInfo {
            event: None,
            freed: None,
            address: DeviceAddr(0),
            bytes: Bytes::ZERO,
            name: String::new(),
            op: label.op.to_owned(),
            module: self.module(label.site).to_owned(),
            shape: label.shape.iter().collect(),
            dtype: label.dtype.map(|dtype| dtype.torch_name().to_owned()),
            role: label.role,
            step: None,
            owner: None,
        }
    }

    /// Such as `layers.3: Mul`: the module, and the node of the operation.
    fn name(&self, label: &Label) -> String {
        let op = label.op.trim_end_matches("Backward0");
        let op = op.trim_end_matches("Backward");
        let module = self.module(label.site);
        match op.is_empty() {
            true => module.to_owned(),
            false => format!("{module}: {op}"),
        }
    }

    fn module(&self, site: u32) -> &str {
        self.modules
            .get(site as usize)
            .map_or("program", String::as_str)
    }
}
