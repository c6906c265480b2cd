//! The device that a run's page shows.

use super::recording::Cut;
use api::runs::{DeviceSummary, RunDetail};
use trace::device::DeviceIdx;
use trace::steps::choices;
use trace::trace::StepSource;

/// The device of a view: the one that it names, which may be the host's pinned memory; otherwise
/// the main one.
pub fn chosen_device(run: &RunDetail, wanted: Option<DeviceIdx>) -> Option<DeviceSummary> {
    let devices = &run.summary.devices;
    let mut all = devices.iter().chain(&run.summary.pinned);
    let named = wanted.and_then(|device| all.find(|d| d.device == device));
    named
        .or_else(|| run.summary.main_device())
        .or(run.summary.pinned.as_ref())
        .cloned()
}

/// What is said where a view names a device that the recording does not have.
pub fn missing_device(wanted: Option<DeviceIdx>, shown: Option<DeviceIdx>) -> Option<String> {
    let (wanted, shown) = (wanted?, shown?);
    let name = |device| match device {
        DeviceIdx::PINNED => "pinned memory".to_owned(),
        device => format!("device {device}"),
    };
    (shown != wanted).then(|| {
        let (wanted, shown) = (name(wanted), name(shown));
        format!("This recording has no {wanted}, which the link names; you see {shown}.")
    })
}

/// The device with the selected steps.
pub fn with_cut(mut device: DeviceSummary, cut: &Cut) -> DeviceSummary {
    if let Cut::Other(level) = cut {
        device.steps = level.count;
        device.step_source = match level.key.as_str() {
            choices::ANNOTATED | choices::OPTIMIZER => StepSource::Annotations,
            _ => StepSource::Inferred,
        };
    }
    device
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_is_told() {
        let check = |wanted: Option<u32>, shown: Option<u32>, expected: Option<&str>| {
            let (wanted, shown) = (wanted.map(DeviceIdx), shown.map(DeviceIdx));
            assert_eq!(missing_device(wanted, shown).as_deref(), expected);
        };
        check(None, Some(0), None);
        check(Some(1), Some(1), None);
        check(Some(1), None, None);
        let told = "This recording has no device 7, which the link names; you see device 0.";
        check(Some(7), Some(0), Some(told));
        let told = "This recording has no pinned memory, which the link names; you see device 0.";
        check(Some(DeviceIdx::PINNED.0), Some(0), Some(told));
    }
}
