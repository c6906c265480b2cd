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

/// The device of each run that belongs to a pair, the baseline first, where all are drawn over one
/// baseline: `None` where a run has none. Beside another run, the baseline may have another device
/// at that place: the one that it has beside most of them is drawn, of several the first.
pub fn together(runs: &[Vec<Load>], pair: usize) -> Vec<Option<usize>> {
    let Some((base, others)) = runs.split_first() else {
        return Vec::new();
    };
    let orders: Vec<_> = others.iter().map(|other| in_order(base, other)).collect();
    let at_place = |order: &[Vec<usize>; 2]| order[0].get(pair).copied();
    let beside = |device: Option<usize>| {
        let same = orders.iter().filter(|order| at_place(order) == device);
        same.count()
    };
    // Of equals, `max_by_key` takes the last.
    let places = orders.iter().rev().map(at_place);
    let drawn = places.max_by_key(|device| beside(*device)).flatten();
    let of_other = |[base, new]: &[Vec<usize>; 2]| {
        let place = base.iter().position(|&device| Some(device) == drawn)?;
        new.get(place).copied()
    };
    std::iter::once(drawn)
        .chain(orders.iter().map(of_other))
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Load = Load {
        peak: Bytes::mib(1000),
        events: 1000,
    };
    const IDLE: Load = Load {
        peak: Bytes::mib(1),
        events: 1,
    };

    #[test]
    fn all_runs_are_drawn_over_one_device_of_the_baseline() {
        let check = |runs: &[&[Load]], expected: [&[Option<usize>]; 2]| {
            let loads: Vec<Vec<Load>> = runs.iter().map(|run| run.to_vec()).collect();
            for (pair, expected) in expected.into_iter().enumerate() {
                assert_eq!(together(&loads, pair), expected, "{runs:?} {pair}");
            }
        };
        let (one, two): (&[Load], &[Load]) = (&[BUSY], &[IDLE, BUSY]);
        // Of two runs, their pairs.
        check(&[two, two], [&[Some(0), Some(0)], &[Some(1), Some(1)]]);
        check(&[two, one], [&[Some(1), Some(0)], &[Some(0), None]]);
        check(&[one, two], [&[Some(0), Some(1)], &[None, None]]);
        // Whichever of the others comes first: most have the busy one beside it.
        let busy = [Some(1), Some(0), Some(1), Some(0)];
        let idle = [Some(0), None, Some(0), None];
        check(&[two, one, two, one], [&busy, &idle]);
        let busy = [Some(1), Some(1), Some(0), Some(0)];
        let idle = [Some(0), Some(0), None, None];
        check(&[two, two, one, one], [&busy, &idle]);
        // Of equally many, the first.
        check(
            &[two, two, one],
            [&[Some(0), Some(0), None], &[Some(1), Some(1), Some(0)]],
        );
    }
}
