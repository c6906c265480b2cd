//! The device that a run's page shows.

use super::recording::Cut;
use api::runs::{DeviceSummary, RunDetail};
use trace::steps::levels;
use trace::trace::StepSource;

/// The device of a view: the one that it names, which may be the host's pinned memory; otherwise
/// the main one.
pub fn chosen_device(run: &RunDetail, wanted: Option<u32>) -> Option<DeviceSummary> {
    let devices = &run.summary.devices;
    let mut all = devices.iter().chain(&run.summary.pinned);
    let named = wanted.and_then(|device| all.find(|d| d.device == device));
    named
        .or_else(|| run.summary.main_device())
        .or(run.summary.pinned.as_ref())
        .cloned()
}

/// The device with the selected steps.
pub fn with_cut(mut device: DeviceSummary, cut: &Cut) -> DeviceSummary {
    if let Cut::Other(level) = cut {
        device.steps = level.count;
        device.step_source = match level.key.as_str() {
            levels::ANNOTATED | levels::OPTIMIZER => StepSource::Annotations,
            _ => StepSource::Inferred,
        };
    }
    device
}
