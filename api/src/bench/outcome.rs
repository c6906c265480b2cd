//! The result of a row, as the engine returns it, the API sends it and the store keeps it.

use serde::{Deserialize, Serialize};
use trace::units::Bytes;

/// A run, summed up. Bytes are integers; slopes are fitted over the steps after the fifth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchResult {
    /// Device that ran it.
    pub device: String,
    /// Steps that completed.
    pub steps_run: u32,
    /// Highest allocated memory.
    pub peak_allocated: Bytes,
    /// Highest reserved memory.
    pub peak_reserved: Bytes,
    /// Whether the first step began, where no step completed: otherwise the program was still being
    /// built, or the device could not be opened. Older results do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<bool>,
    /// Allocated memory after the last step. This and the other numbers at the end are 0 if no step
    /// completed (`steps_run` is 0): then they are not known.
    pub allocated_end: Bytes,
    /// Slope of allocated memory, bytes a step.
    pub growth_per_step: f64,
    /// Standard error of the slope.
    pub growth_error: f64,
    /// Slope of pinned host memory in use, bytes a step.
    #[serde(default)]
    pub host_growth_per_step: f64,
    /// Step, from 0, at which memory ran out.
    pub oom_step: Option<u32>,
    /// Exception that ended the run, other than out of memory.
    pub crash: Option<String>,
    /// On a card, restored tensors whose bytes are not those that were packed; on the simulated
    /// device, restored tensors with the elements of another view, and kernels and copies that may
    /// have worked on wrong bytes, because nothing orders them and another access. Over all steps.
    pub corrupted_tensors: u64,
    /// Pairs of places that race. On the simulated device without any, all that is counted above
    /// has the elements of another view.
    pub races: u64,
    /// Entries of the tracker at the end.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub tracker_end: u64,
    /// Tensors in the backward stash at the end.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub bwd_stash_end: u64,
    /// Pinned host memory in use at the end.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub host_pinned_end: Bytes,
    /// Most pinned host memory that was taken from the system; the pool gives none back. `null`
    /// where an older result does not say.
    #[serde(default)]
    pub host_pinned_peak: Option<Bytes>,
    /// Bytes copied to the host.
    pub d2h_bytes: Bytes,
    /// Bytes copied to the device.
    pub h2d_bytes: Bytes,
    /// Seconds a step takes in the device's own time.
    pub step_seconds: f64,
    /// What only a card can say; none of the simulated device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<CardFacts>,
}

impl BenchResult {
    /// Allocated memory after the last step; `None` if no step completed.
    pub fn at_end(&self) -> Option<Bytes> {
        (self.steps_run > 0).then_some(self.allocated_end)
    }

    /// Where a run that was to have `steps` ended early, in words: `in step 3 of 8`. Of an older
    /// result it may not be known whether the first step began: nothing is copied out before.
    pub fn ended(&self, steps: u32) -> String {
        let shown = self.steps_run > 0 || self.d2h_bytes > Bytes::ZERO;
        let step = self.steps_run + 1;
        match self.began.or(shown.then_some(true)) {
            Some(true) => format!("in step {step} of {steps}"),
            Some(false) => format!("before step {step} of {steps}"),
            None => format!("in step {step} of {steps}, or while it was built"),
        }
    }
}

/// What only a real card can say of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CardFacts {
    /// Memory of the card.
    pub total: Bytes,
    /// Free before the row allocated anything, as the driver sees it.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub free_at_start: Bytes,
    /// Lowest free memory after any segment was allocated, as the driver sees it.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub free_min: Bytes,
    /// Most memory that the row took, as the driver sees it.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub peak_used: Bytes,
    /// Restored tensors whose checksum was compared with what was packed.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub verified_tensors: u64,
    /// Of the verified tensors, how many held other bytes.
    #[serde(default)]
    pub corrupted_tensors: u64,
    /// Events that were waited for, because the decisions' clock was ahead of the card.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub early_decisions: u64,
}
