//! Where a rank leaks.

use super::together::Together;
use crate::code;
use crate::compare::profile::{DeviceProfile, LeakingSite, Place};
use crate::leaks::Pattern;
use crate::site::SiteKey;
use crate::stacks::Frame;
use serde::{Deserialize, Serialize};

/// How many places of leaks are kept for a rank.
pub const MAX_PLACES: usize = 8;

/// A site that leaks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RankPlace {
    /// Names its row among the sites.
    pub site: String,
    /// The function that explains it best.
    pub place: Place,
    /// The innermost line of the program itself, if that function is in a package.
    #[serde(default)]
    pub caller: Option<Place>,
    /// Bytes a step (a part of a step, when it grows within steps).
    pub bytes_per_step: f64,
    /// Whether it grows within steps and is given back at their ends.
    pub within_step: bool,
}

/// Where a device leaks; `sites` are all that it has.
pub(super) fn places(device: &DeviceProfile, sites: &[Together]) -> Vec<RankPlace> {
    let id_of = |key: SiteKey| {
        let found = sites.iter().find(|site| site.keys.contains(&key));
        found.map_or_else(|| key.id(), |site| site.held.id.clone())
    };
    let groups = device.leaks.groups.iter().take(MAX_PLACES);
    let place = |group: &LeakingSite| RankPlace {
        site: id_of(group.key),
        place: (group.place).map_or_else(Place::default, |frame| device.names.place(frame)),
        caller: (group.place).and_then(|place| caller(device, group.key, place)),
        bytes_per_step: group.bytes_per_step,
        within_step: group.pattern == Pattern::WithinStep,
    };
    groups.map(place).collect()
}

/// The innermost frame of the program itself in the stack of a leak, for a place in a package.
fn caller(device: &DeviceProfile, key: SiteKey, place: Frame) -> Option<Place> {
    let place = device.names.place(place);
    code::is_installed(&place.filename).then_some(())?;
    let site = device.sites.iter().find(|site| site.key == key)?;
    let mut frames = site.frames.iter().map(|&frame| device.names.place(frame));
    frames.find(|frame| {
        let file = &frame.filename;
        let is_package = code::is_installed(file) || code::is_framework(file, frame.line);
        !is_package && !code::is_generated(file)
    })
}
