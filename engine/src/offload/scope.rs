//! Entering and leaving the context (docs/offloader-rules.md, "Entering and leaving").
//!
//! Pushing and popping the hooks themselves is up to the caller, who owns the hook stack; it must
//! pop even where [`OffloadActivations::exit`] fails, as upstream's `finally` does.

use super::OffloadActivations;
use super::error::OffloadError;
use super::runtime::Runtime;
use super::state::TensorId;
use super::version::Change;
use crate::deviation::Deviation;

impl<R: Runtime> OffloadActivations<R> {
    /// `__enter__`: nothing before #5730; then everything that the last step left is dropped.
    ///
    /// axolotl's backport shadows TRL's own method, so where both are present it alone runs: it
    /// keeps counting ids and leaves the cache alone. Neither synchronises a stream.
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

    /// `__exit__`: nothing before #5700; then two host syncs and empty stashes. The tracker stays:
    /// backward may still come.
    ///
    /// # Errors
    /// A synchronisation that reports earlier faults; the stashes are left as they were.
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
