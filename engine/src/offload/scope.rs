//! Entering and leaving the context (docs/offloader-rules.md, "Entering and leaving").
//!
//! The caller owns the stack of hooks, and pushes and pops them. It must also pop if
//! [`OffloadActivations::exit`] fails, like `finally` in the original.

use super::OffloadActivations;
use super::error::OffloadError;
use super::runtime::Runtime;
use super::tracker::TensorId;
use super::version::Change;
use crate::deviation::Deviation;

impl<R: Runtime> OffloadActivations<R> {
    /// `__enter__`: does nothing before #5730; since then it drops everything that the last step
    /// left.
    ///
    /// axolotl's backport shadows TRL's own method, so if both are present, only the backport runs.
    /// It continues to count ids, and does not empty the cache. Neither method synchronises a
    /// stream.
    pub fn enter(&mut self, runtime: &mut R) {
        if self.deviates(Deviation::ResetMapEveryStep) {
            self.state.id_by_key.clear();
        }
        let backport = self.has(Change::AxolotlBackport);
        let upstream = self.has(Change::EnterReset) && !backport;
        if !backport && !upstream {
            return;
        }
        self.state.tracker.clear();
        self.state.id_by_key.clear();
        if upstream {
            self.state.key_by_id.clear();
            self.state.last_id = TensorId(0);
        }
        self.state.phase.first_forward_call = true;
        self.state.phase.first_backward_call = true;
        if self.side.is_some() {
            self.state.clear_stashes();
        }
        if upstream && self.config.bitsandbytes_imported {
            runtime.empty_cache();
        }
    }

    /// `__exit__`: does nothing before #5700; since then the host waits for two streams, and the
    /// stashes are emptied. The tracker stays, because backward may come later.
    ///
    /// # Errors
    /// A synchronisation that reports earlier faults; then the stashes stay as they were.
    pub fn exit(&mut self, runtime: &mut R) -> Result<(), OffloadError<R::Error>> {
        if !self.has(Change::ExitSyncAndClear) {
            return Ok(());
        }
        if let Some(side) = self.side {
            let compute = self.compute_stream(runtime);
            runtime.synchronize(compute)?;
            runtime.synchronize(side)?;
            self.state.clear_stashes();
        }
        Ok(())
    }
}
