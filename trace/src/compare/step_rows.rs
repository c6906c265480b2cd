//! The steps of both runs, one by one, by the numbers that the program gives them.

use super::difference::{StepDelta, StepSide};
use super::profile::DeviceProfile;
use crate::trace::StepSource;

/// A row for each number. `places` are the numbers of the first steps of the two runs.
pub(super) fn of(base: &DeviceProfile, new: &DeviceProfile, places: [u32; 2]) -> Vec<StepDelta> {
    let side = |device: &DeviceProfile, place: u32, number: u32| {
        let index = number.checked_sub(place)? as usize;
        device.steps.get(index).map(|step| StepSide {
            // Without names of their own, steps are called by their place in the table.
            name: match device.step_source {
                StepSource::Annotations => step.name.clone(),
                StepSource::Inferred | StepSource::None => format!("step {number}"),
            },
            first_event: step.events.start(),
            end_event: step.events.end(),
            peak: step.peak,
            end: step.end,
            reserved_end: step.reserved_end,
            work: step.work,
            allocs: step.allocs,
            is_cut: device.is_cut(step),
        })
    };
    let end = |device: &DeviceProfile, place: u32| place + device.steps.len() as u32;
    (places[0].min(places[1])..end(base, places[0]).max(end(new, places[1])))
        .map(|number| StepDelta {
            index: number,
            base: side(base, places[0], number),
            new: side(new, places[1], number),
        })
        .collect()
}
