//! One row of the result table.

use serde::Serialize;

use super::known::Known;
use super::patch::Patch;
use crate::device::HardwareFacts;

/// The word that sums a row up. The first five are those of the published table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Status {
    /// The run without patches.
    #[serde(rename = "BASELINE")]
    Baseline,
    /// The patch changes nothing that it was to change.
    #[serde(rename = "NOT REPRODUCIBLE")]
    NotReproducible,
    /// It takes away most of the growth.
    #[serde(rename = "ROOT CAUSE FIX")]
    RootCauseFix,
    /// The baseline raises, the patched run does not.
    #[serde(rename = "PREVENTS CRASH")]
    PreventsCrash,
    /// It ran out of memory.
    #[serde(rename = "FAIL (OOM)")]
    OutOfMemory,
    /// It raised.
    #[serde(rename = "FAIL (CRASH)")]
    Crash,
    /// It reads bytes that nothing says have been written: the published table has no word for it.
    #[serde(rename = "FAIL (CORRUPTION)")]
    Corruption,
    /// Less memory, but the growth stays.
    #[serde(rename = "LOWERS PEAK")]
    LowersPeak,
}

/// A run, summed up. Bytes are integers; growth is fitted over the steps after the fifth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Id of the configuration.
    pub config: &'static str,
    /// Version before patches.
    pub base: &'static str,
    /// Ids of the patches; none for the baseline.
    pub patches: Vec<Patch>,
    /// Steps that completed.
    pub steps_run: u32,
    /// Highest allocated memory of the run.
    pub peak_allocated: u64,
    /// Highest reserved memory.
    pub peak_reserved: u64,
    /// Allocated memory after the last step.
    pub allocated_end: u64,
    /// Slope of allocated memory, bytes a step.
    pub growth_per_step: f64,
    /// Standard error of the slope.
    pub growth_error: f64,
    /// Step, from 0, at which memory ran out.
    pub oom_step: Option<u32>,
    /// Exception that ended the run, other than out of memory.
    pub crash: Option<String>,
    /// On a card, restored tensors whose bytes are not those that were packed; on the simulation,
    /// reads that nothing orders after their write, in the watched steps.
    pub corrupted_tensors: u64,
    /// Pairs of places that race, in the watched steps.
    pub races: u64,
    /// Entries of the tracker at the end.
    pub tracker_end: u64,
    /// Tensors in the backward stash at the end.
    pub bwd_stash_end: u64,
    /// Pinned host memory in use at the end.
    pub host_pinned_end: u64,
    /// Bytes copied to the host.
    pub d2h_bytes: u64,
    /// Bytes copied to the device.
    pub h2d_bytes: u64,
    /// Median time of a step after the fifth, seconds, in the device's own time.
    pub step_seconds: f64,
    /// Device that ran it.
    pub device: String,
    /// What only a card can say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareFacts>,
    /// The verdict.
    pub status: Status,
    /// Why the row is a hypothesis, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypothesis: Option<&'static str>,
    /// What was published.
    pub published: Option<Known>,
    /// What was measured on a real card.
    pub measured: Option<Known>,
}

/// The table of a bench run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// Device that ran it.
    pub device: String,
    /// One row for each configuration and set of patches.
    pub rows: Vec<Row>,
}

/// Least-squares slope of `values` over their index, and its standard error.
pub fn slope(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    if values.len() < 2 {
        return (0.0, 0.0);
    }
    let mean_x = (n - 1.0) / 2.0;
    let mean_y = values.iter().sum::<f64>() / n;
    let (mut sxx, mut sxy) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let dx = index as f64 - mean_x;
        sxx += dx * dx;
        sxy += dx * (value - mean_y);
    }
    let slope = sxy / sxx;
    let residual = |(index, value): (usize, &f64)| {
        let fit = mean_y + slope * (index as f64 - mean_x);
        (value - fit).powi(2)
    };
    let rest: f64 = values.iter().enumerate().map(residual).sum();
    let error = if values.len() > 2 {
        (rest / (n - 2.0) / sxx).sqrt()
    } else {
        0.0
    };
    (slope, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_a_line_is_exact_and_certain() {
        let values: Vec<f64> = (0..50).map(|step| 7.0 + 3.0 * f64::from(step)).collect();
        let (slope, error) = slope(&values);
        assert!((slope - 3.0).abs() < 1e-12 && error < 1e-12);
    }

    #[test]
    fn a_zigzag_has_a_wide_error_and_a_single_value_none() {
        let values = [0.0, 10.0, 0.0, 10.0, 0.0, 10.0];
        let (fitted, error) = slope(&values);
        assert!(error > fitted.abs() / 2.0);
        assert_eq!(slope(&[5.0]), (0.0, 0.0));
    }
}
