//! Which devices of two runs are compared with each other.
//!
//! Devices are compared one by one, in order. A process often has a context on a device that it
//! does not use, with a tensor or a workspace. If only one of two runs has it, the devices that
//! matter would not meet. So if the runs have different numbers of devices, those that hold next to
//! nothing come last.

use super::profile::DeviceProfile;
use crate::trace::{DeviceTrace, Series};
use crate::units::Bytes;

/// How much happens on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Largest *allocated*.
    pub peak: Bytes,
    /// Events.
    pub events: u32,
}

impl Load {
    /// Of a device of a trace.
    pub fn of(device: &DeviceTrace) -> Load {
        Load {
            peak: device.summary[Series::Allocated as usize].peak,
            events: device.events.len(),
        }
    }

    pub(super) fn of_profile(device: &DeviceProfile) -> Load {
        Load {
            peak: device.summary[Series::Allocated as usize].peak,
            events: device.events,
        }
    }

    /// Whether it holds next to nothing, beside the largest device: less than a hundredth of its
    /// memory, and less than a tenth of its events.
    fn is_idle(self, most: Load) -> bool {
        let held = self.peak.0.saturating_mul(100) <= most.peak.0;
        held && u64::from(self.events) * 10 <= u64::from(most.events)
    }
}

/// The positions of the devices of each run in the order in which they are compared. As many as
/// both have are pairs.
pub fn in_order(base: &[Load], new: &[Load]) -> [Vec<usize>; 2] {
    let as_they_are = base.len() == new.len();
    [base, new].map(|devices| {
        let most = Load {
            peak: devices
                .iter()
                .map(|load| load.peak)
                .max()
                .unwrap_or_default(),
            events: devices.iter().map(|load| load.events).max().unwrap_or(0),
        };
        let mut order: Vec<usize> = (0..devices.len()).collect();
        // The sort keeps the order of equals.
        order.sort_by_key(|&at| !as_they_are && devices[at].is_idle(most));
        order
    })
}

/// The devices of two runs: the pairs, and those that only one run has.
pub(super) struct Pairs<'a> {
    pub pairs: Vec<[&'a DeviceProfile; 2]>,
    pub only_base: Vec<&'a DeviceProfile>,
    pub only_new: Vec<&'a DeviceProfile>,
}

impl<'a> Pairs<'a> {
    pub fn of(base: &'a [DeviceProfile], new: &'a [DeviceProfile]) -> Pairs<'a> {
        let loads = |devices: &[DeviceProfile]| -> Vec<Load> {
            devices.iter().map(Load::of_profile).collect()
        };
        let [of_base, of_new] = in_order(&loads(base), &loads(new));
        let mut base: Vec<_> = of_base.into_iter().map(|at| &base[at]).collect();
        let mut new: Vec<_> = of_new.into_iter().map(|at| &new[at]).collect();
        let n = base.len().min(new.len());
        let (only_base, only_new) = (base.split_off(n), new.split_off(n));
        Pairs {
            pairs: base
                .into_iter()
                .zip(new)
                .map(|(base, new)| [base, new])
                .collect(),
            only_base,
            only_new,
        }
    }
}
