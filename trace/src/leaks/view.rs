//! What all questions about one device look at.

use super::survivors::{Ends, Survey};
use crate::median;
use crate::phases::Roles;
use crate::site::Sites;
use crate::stacks::Stacks;
use crate::trace::{Action, DeviceTrace, Step};
use crate::watch::Watch;

/// The input of the analysis.
pub(super) struct View<'a> {
    pub(super) watch: Watch<'a>,
    pub(super) device: &'a DeviceTrace,
    pub(super) stacks: &'a Stacks,
    pub(super) roles: &'a Roles,
    pub(super) sites: &'a Sites,
    /// The steps that ran to their end.
    pub(super) steps: &'a [&'a Step],
    /// The events at which these end.
    pub(super) ends: &'a Ends,
    pub(super) survey: &'a Survey,
}

/// Steps that ran to their end. A last step that ran out of memory or was cut off by the end of the
/// trace does not show what it would have kept.
pub(crate) fn whole_steps(device: &DeviceTrace) -> Vec<&Step> {
    let mut steps: Vec<_> = device.steps.iter().collect();
    let Some(last) = steps.last() else {
        return steps;
    };
    let events = last.events;
    let range = events.start().index()..events.end().index();
    let out_of_memory = device.events.action[range].contains(&Action::Oom);
    let usual = median::upper(steps.iter().map(|s| s.events.len())).unwrap_or(0);
    let open = events.end().0 == device.events.len();
    if out_of_memory || (open && events.len() * 2 < usual) {
        steps.pop();
    }
    steps
}
