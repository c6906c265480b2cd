//! Unpack: backward needs a saved tensor again (docs/offloader-rules.md, "Unpack").

use super::OffloadActivations;
use super::error::OffloadError;
use super::hooks::{PostHook, Restored};
use super::runtime::Runtime;
use super::saved::View;
use super::tracker::{TensorId, Tracked};
use super::version::Change;
use crate::deviation::Deviation;

/// Where unpack got a tensor from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It never left the device.
    Kept,
    /// Its source was still in the forward stash: there is no copy back, and no wait for its event.
    ForwardStash,
    /// Copied back from the host.
    Host,
}

impl<R: Runtime> OffloadActivations<R> {
    /// The unpack hook.
    ///
    /// # Errors
    /// [`OffloadError::Untracked`] for an id that the tracker does not hold;
    /// [`OffloadError::OutOfBounds`] if the saved layout does not fit the copy (a view of a larger
    /// storage, before #5694); [`OffloadError::Sparse`] before #4247, whose copy has no storage to
    /// count the users of; while no backward pass runs, [`OffloadError::NoBackwardPass`] and
    /// [`OffloadError::NoNode`]; and the device's errors.
    pub fn unpack(
        &mut self,
        id: TensorId,
        runtime: &mut R,
    ) -> Result<(R::Tensor, Origin), OffloadError<R::Error>> {
        self.begin_backward_if_armed(runtime)?;
        let (tensor, origin) = match self.state.tracker.get(id) {
            None => return Err(OffloadError::Untracked(id)),
            Some(Tracked::Kept(tensor)) => (tensor.clone(), Origin::Kept),
            Some(Tracked::Offloaded { .. }) => match self.side {
                Some(side) => self.restore_with_streams(id, side, runtime)?,
                None => {
                    let stream = runtime.current_stream();
                    (self.copy_back(id, stream, runtime)?, Origin::Host)
                }
            },
        };
        self.state.tracker.remove(id);
        self.state.release_key(id);
        if self.has(Change::RearmWhenEmpty) && self.state.tracker.is_empty() {
            self.state.phase.first_forward_call = true;
        }
        Ok((tensor, origin))
    }

    /// The first unpack since the flag was set: notes the backward pass, and queues the clean-up
    /// for its end. If the flag is never set again, neither happens again (docs/offloader-rules.md,
    /// "What each version gets wrong").
    fn begin_backward_if_armed(&mut self, runtime: &mut R) -> Result<(), OffloadError<R::Error>> {
        if !self.state.phase.first_backward_call {
            return Ok(());
        }
        if self.side.is_some() {
            if !runtime.is_in_backward() {
                return Err(OffloadError::NoBackwardPass);
            }
            self.state.graph = Some(runtime.current_graph_task());
            runtime.queue_end_of_backward();
        }
        if self.state.phase.first_forward_pass {
            self.state.phase.first_forward_pass = false;
            if self.config.use_pin_memory {
                runtime.check_host_memory();
            }
        }
        self.state.phase.first_backward_call = false;
        if !self.has(Change::RearmWhenEmpty) {
            self.state.phase.first_forward_call = true;
        }
        Ok(())
    }

    fn restore_with_streams(
        &mut self,
        id: TensorId,
        side: R::Stream,
        runtime: &mut R,
    ) -> Result<(R::Tensor, Origin), OffloadError<R::Error>> {
        let node = runtime.current_node();
        let mut previous = Vec::new();
        if runtime.is_in_backward()
            && self.state.graph == Some(runtime.current_graph_task())
            && self.state.node.as_ref() != Some(&node)
        {
            self.state.node = Some(node.clone());
            previous = self.state.bwd_tensor_stash.keys().copied().collect();
            if self.deviates(Deviation::FreePreviousEarly) {
                self.state.bwd_tensor_stash.clear();
            }
        }
        let stashed = self
            .state
            .fwd_stash
            .get(&id)
            .map(|stashed| stashed.tensor.clone());
        let (tensor, origin, restored) = match stashed {
            Some(tensor) => (tensor, Origin::ForwardStash, Restored::FromStash),
            None => {
                let tensor = self.copy_back(id, side, runtime)?;
                let compute = self.compute_stream(runtime);
                runtime.wait_stream(compute, side)?;
                self.state.bwd_tensor_stash.insert(id, tensor.clone());
                if !runtime.saved(&tensor).layout.is_strided() {
                    return Err(OffloadError::Sparse(id));
                }
                let use_count = runtime.storage_use_count(&tensor);
                (tensor, Origin::Host, Restored::FromHost { use_count })
            }
        };
        if !runtime.is_in_backward() {
            return Err(OffloadError::NoNode(id));
        }
        runtime.register_post_hook(
            &node,
            PostHook {
                id,
                restored,
                previous,
            },
        );
        Ok((tensor, origin))
    }

    /// Copies to the device on `stream`, and applies the saved layout to the copy.
    fn copy_back(
        &mut self,
        id: TensorId,
        stream: R::Stream,
        runtime: &mut R,
    ) -> Result<R::Tensor, OffloadError<R::Error>> {
        let Some(Tracked::Offloaded {
            host,
            layout,
            elements,
        }) = self.state.tracker.get(id)
        else {
            return Err(OffloadError::Untracked(id));
        };
        let tensor = runtime.copy_to_device(host, stream)?;
        match layout {
            None => Ok(tensor),
            Some(layout) => {
                check_bounds(id, layout, *elements)?;
                Ok(runtime.as_strided(tensor, host, layout))
            }
        }
    }
}

fn check_bounds<E: std::error::Error + 'static>(
    id: TensorId,
    layout: &impl View,
    available: u64,
) -> Result<(), OffloadError<E>> {
    let needed = layout.required_elements();
    if needed > available {
        return Err(OffloadError::OutOfBounds {
            id,
            needed,
            available,
        });
    }
    Ok(())
}
