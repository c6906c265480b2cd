//! What the offloader holds between two steps; used to find out whether a step repeats.

use super::OffloadActivations;
use super::runtime::{KeyPlace, Runtime, StorageKey};
use super::tracker::{TensorId, Tracked};
use super::version::Change;
use crate::tensor::{DType, Layout};

/// The containers between two steps. Ids are counted back from the last one: the offloader only
/// compares and subtracts them, so their absolute values do not matter.
pub(crate) struct Standing<'o, R: Runtime> {
    /// Flags, sizes, ids and keys.
    pub numbers: Vec<u64>,
    /// The tensors that it holds, container by container.
    pub tensors: Vec<&'o R::Tensor>,
    /// The host copies that it holds.
    pub hosts: Vec<&'o R::Host>,
    /// Events that may still be asked for.
    pub events: Vec<&'o R::Event>,
    /// The last node that unpacked.
    pub node: Option<&'o R::Node>,
}

/// Only programs of this engine can repeat, so only its own layouts and types are told apart.
impl<R: Runtime<Layout = Layout, DType = DType>> OffloadActivations<R> {
    /// What it holds now.
    pub(crate) fn standing(&self) -> Standing<'_, R> {
        let state = &self.state;
        let mut standing = Standing {
            numbers: self.flags(),
            tensors: Vec::new(),
            hosts: Vec::new(),
            events: Vec::new(),
            node: state.node.as_ref(),
        };
        let back = |id: &TensorId| state.last_id.0.wrapping_sub(id.0);
        for (id, tracked) in state.tracker.iter() {
            match tracked {
                Tracked::Kept(tensor) => {
                    standing.numbers.extend([back(&id), 0]);
                    standing.tensors.push(tensor);
                }
                Tracked::Offloaded {
                    host,
                    layout,
                    elements,
                } => {
                    standing.numbers.extend([back(&id), 1, *elements]);
                    let layout = layout.iter().flat_map(Layout::numbers);
                    standing.numbers.extend(layout);
                    standing.hosts.push(host);
                }
            }
        }
        for (id, stashed) in &state.fwd_stash {
            standing.numbers.push(back(id));
            standing.tensors.push(&stashed.tensor);
            standing.events.push(&stashed.copied);
        }
        for (id, tensor) in &state.bwd_tensor_stash {
            standing.numbers.push(back(id));
            standing.tensors.push(tensor);
        }
        for (id, event) in &state.bwd_ev_stash {
            // Events are looked up by the ids of restored tensors. If an id is neither tracked nor
            // restored now, it is never given out again, and nothing looks up its event.
            if state.tracker.get(*id).is_some() || state.bwd_tensor_stash.contains_key(id) {
                standing.numbers.push(back(id));
                standing.events.push(event);
            }
        }
        standing.numbers.extend(self.keys(back));
        standing
    }

    /// Flags and sizes.
    fn flags(&self) -> Vec<u64> {
        let state = &self.state;
        let phase = state.phase;
        let restarts = self.has(Change::EnterReset) && !self.has(Change::AxolotlBackport);
        vec![
            u64::from(phase.first_forward_call),
            u64::from(phase.first_backward_call),
            u64::from(phase.first_forward_pass),
            // If enter resets the ids, their absolute values count.
            if restarts { state.last_id.0 } else { 0 },
            state.tracker.len() as u64,
            state.fwd_stash.len() as u64,
            state.bwd_tensor_stash.len() as u64,
            state.param_storages.len() as u64,
            // This is only compared with the running pass, so it does not matter which past pass it
            // was.
            u64::from(state.graph.is_some()),
        ]
    }

    /// The de-duplication map in both directions, sorted.
    fn keys(&self, back: impl Fn(&TensorId) -> u64) -> Vec<u64> {
        let number = |key: &StorageKey| match key.place {
            KeyPlace::Address(address) => [0, address, key.dtype as u64],
            KeyPlace::Object(object) => [1, object, key.dtype as u64],
        };
        let by_key = self.state.id_by_key.iter();
        let mut by_key: Vec<_> = by_key.map(|(key, id)| (number(key), back(id))).collect();
        let by_id = self.state.key_by_id.iter();
        let mut by_id: Vec<_> = by_id.map(|(id, key)| (number(key), back(id))).collect();
        by_key.sort_unstable();
        by_id.sort_unstable();
        let sizes = [by_key.len() as u64, by_id.len() as u64];
        let entries = by_key.into_iter().chain(by_id);
        let entries = entries.flat_map(|(key, id)| key.into_iter().chain([id]));
        sizes.into_iter().chain(entries).collect()
    }
}
