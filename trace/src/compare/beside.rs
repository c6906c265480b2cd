//! Leaks of memory that no pair of devices covers: devices that only one run has, and the pinned
//! memory of the host.

use super::difference::Leaks;
use super::names::Room;
use super::pairs::Pairs;
use super::profile::{DeviceProfile, Profile};
use super::sides::{Counterparts, leaks_of};
use crate::device::DeviceIdx;
use crate::leaks::Verdict;
use serde::{Deserialize, Serialize};

/// Memory beside the pairs that leaks in at least one of the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaksBeside {
    /// CUDA ordinal, or the number of pinned memory.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub device: DeviceIdx,
    /// In the baseline; absent where it was not recorded.
    pub base: Option<Leaks>,
    /// In the new run; absent where it was not recorded.
    pub new: Option<Leaks>,
}

/// What leaks beside the pairs that [`super::compare`] makes of the two runs.
pub fn leaks_beside(base: &Profile, new: &Profile) -> Vec<LeaksBeside> {
    let pairs = Pairs::of(&base.devices, &new.devices);
    let gone = pairs.only_base.into_iter();
    let gone = gone.map(|device| [Some(device), None]);
    let added = pairs.only_new.into_iter();
    let added = added.map(|device| [None, Some(device)]);
    let pinned = [base.pinned.as_ref(), new.pinned.as_ref()];
    let mut room = Room::new();
    let found = gone.chain(added).chain([pinned]);
    found.filter_map(|sides| beside(sides, &mut room)).collect()
}

fn beside(sides: [Option<&DeviceProfile>; 2], room: &mut Room) -> Option<LeaksBeside> {
    let leaks = |side: &&DeviceProfile| side.leaks.verdict == Verdict::Leak;
    let device = sides.iter().flatten().find(|side| leaks(side))?.device;
    let [base, new] = sides;
    let nothing = DeviceProfile::default();
    let mut told = |side: Option<&DeviceProfile>, other: Option<&DeviceProfile>| {
        let other = other.unwrap_or(&nothing);
        side.map(|side| leaks_of([side, other], &Counterparts::default(), room))
    };
    Some(LeaksBeside {
        device,
        base: told(base, new),
        new: told(new, base),
    })
}
