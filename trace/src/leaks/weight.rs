//! Which device's answer stands for the whole trace.

use super::report::{LeakReport, Verdict};
use crate::device::DeviceIdx;
use std::cmp::Ordering;

/// How much the answer of one device counts where one stands for the whole trace. A leak comes
/// before *cannot tell*, and that before *clean*; devices come before the host's pinned memory. Of
/// several the fastest leak counts, and among equals the first device.
#[derive(Clone, Copy, Debug)]
pub struct Weight {
    verdict: Verdict,
    /// Bytes a step.
    speed: f64,
    device: DeviceIdx,
}

impl Weight {
    /// That of a device with this verdict and these bytes a step.
    pub fn new(device: DeviceIdx, verdict: Verdict, bytes_per_step: f64) -> Weight {
        Weight {
            verdict,
            speed: bytes_per_step,
            device,
        }
    }

    /// That of a device with this report.
    pub fn of(device: DeviceIdx, report: &LeakReport) -> Weight {
        Weight::new(device, report.verdict, report.bytes_per_step)
    }

    fn severity(self) -> u8 {
        match self.verdict {
            Verdict::Clean => 0,
            Verdict::CannotTell => 1,
            Verdict::Leak => 2,
        }
    }
}

impl Ord for Weight {
    fn cmp(&self, other: &Weight) -> Ordering {
        let of_devices = |weight: &Weight| !weight.device.is_pinned();
        (self.severity(), of_devices(self))
            .cmp(&(other.severity(), of_devices(other)))
            .then(self.speed.total_cmp(&other.speed))
            .then(other.device.cmp(&self.device))
    }
}

impl PartialOrd for Weight {
    fn partial_cmp(&self, other: &Weight) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Weight {
    fn eq(&self, other: &Weight) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Weight {}

/// The position of the answer that stands for the whole trace. `None` if there are none.
pub fn worst(answers: impl IntoIterator<Item = Weight>) -> Option<usize> {
    let numbered = answers.into_iter().enumerate();
    numbered.max_by_key(|(_, weight)| *weight).map(|(at, _)| at)
}
