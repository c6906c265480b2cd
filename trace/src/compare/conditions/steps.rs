//! Whether two recordings have the same steps, from the same place on, and whether one ends early.

use super::super::beginnings::{self, Beginnings};
use super::super::profile::DeviceProfile;
use super::super::shared_steps::SharedSteps;
use super::{Condition, ConditionKind};
use crate::trace::StepSource;

/// Whether both have as many steps, and of the same numbers.
pub(super) fn number(
    base: &DeviceProfile,
    new: &DeviceProfile,
    shared: &SharedSteps,
) -> Option<Condition> {
    if !shared.extra {
        return None;
    }
    let is_shifted = shared.places[0] != shared.places[1];
    let counted = |device: &DeviceProfile, first: u32| match (device.steps.len(), is_shifted) {
        (steps, true) => format!("{steps} from number {first}"),
        (steps, false) => steps.to_string(),
    };
    let whole = "the peaks of whole recordings are compared";
    Some(Condition {
        kind: ConditionKind::Steps,
        name: "steps".to_owned(),
        base: counted(base, shared.places[0]),
        new: counted(new, shared.places[1]),
        meaning: match &shared.steps {
            Some(_) => format!(
                "peaks are compared over {}; ends are not comparable where something grows",
                shared.told()
            ),
            None if shared.beginnings == Beginnings::Unknown => {
                format!("one recording begins later, at a step that is not known: {whole}")
            }
            None if shared.beginnings == Beginnings::OneIsFlat => {
                format!("one recording begins later; the steps of one run are all alike: {whole}")
            }
            None if base.wrapped || new.wrapped => {
                format!("a ring that wrapped does not begin with the first step: {whole}")
            }
            None => format!("one recording has no steps: {whole}"),
        },
    })
}

/// Whether one recording begins later in its program than the other.
pub(super) fn beginning(
    base: &DeviceProfile,
    new: &DeviceProfile,
    shared: &SharedSteps,
) -> Option<Condition> {
    let [before, after] = beginnings::starts([base, new])?;
    let meaning = match shared.beginnings {
        Beginnings::Apart([by, after]) => format!(
            "one recording begins {} later: there, the levels of both agree",
            plural_steps(by.max(after))
        ),
        Beginnings::Unknown => {
            "one recording begins later, at a step that is not known: where memory \
                           grows, levels are not comparable"
                .to_owned()
        }
        Beginnings::OneIsFlat => {
            "one recording begins later; the steps of one run are all alike, so \
                             peaks can be compared, and ends cannot"
                .to_owned()
        }
        Beginnings::Together => {
            "one recording began later, or the program held other memory before it; \
                            such memory has no stack"
                .to_owned()
        }
    };
    Some(Condition {
        kind: ConditionKind::Steps,
        name: "held when the recording begins".to_owned(),
        base: before.to_string(),
        new: after.to_string(),
        meaning,
    })
}

fn plural_steps(steps: u32) -> String {
    match steps {
        1 => "one step".to_owned(),
        steps => format!("{steps} steps"),
    }
}

/// Whether their steps are found in the same way.
pub(super) fn step_source(base: &DeviceProfile, new: &DeviceProfile) -> Option<Condition> {
    (base.step_source != new.step_source).then(|| Condition {
        kind: ConditionKind::StepSource,
        name: "steps come from".to_owned(),
        base: source(base.step_source).to_owned(),
        new: source(new.step_source).to_owned(),
        meaning: "steps may begin in different places".to_owned(),
    })
}

fn source(source: StepSource) -> &'static str {
    match source {
        StepSource::Annotations => "annotations",
        StepSource::Inferred => "what repeats",
        StepSource::None => "nothing",
    }
}

/// Whether one of them ran out of memory, and where.
pub(super) fn out_of_memory(base: &DeviceProfile, new: &DeviceProfile) -> Option<Condition> {
    if base.oom.is_some() == new.oom.is_some() {
        return None;
    }
    let said = |device: &DeviceProfile| match device.oom {
        None => "no".to_owned(),
        Some(oom) => match (oom.step, device.numbering()) {
            (Some(step), Some(numbering)) => format!("in step {}", numbering.first() + step),
            (Some(step), None) if !device.wrapped => format!("in step {step}"),
            _ => format!("at event {}", oom.event.0),
        },
    };
    Some(Condition {
        kind: ConditionKind::OutOfMemory,
        name: "ran out of memory".to_owned(),
        base: said(base),
        new: said(new),
        meaning: "a run that fails ends early: what it would have needed is not known".to_owned(),
    })
}
