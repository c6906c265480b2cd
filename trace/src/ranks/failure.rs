//! The failed allocation of a rank.

use crate::compare::profile::{DeviceProfile, Place};
use crate::oom::{self, Asker};
use crate::redact::numbered;
use crate::stacks::Stacks;
use crate::trace::{DeviceTrace, StepSource};
use crate::units::{Bytes, EventIdx};
use serde::{Deserialize, Serialize};

/// The first failed allocation of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RankFailure {
    /// The event.
    pub event: EventIdx,
    /// The step in which it failed, by the program's number.
    pub step: Option<u32>,
    /// The last step that ran to its end before, by the program's number, where it failed in none:
    /// a step that did not finish does not count.
    #[serde(default)]
    pub after: Option<u32>,
    /// The requested bytes.
    pub wanted: Bytes,
    /// The innermost line of the program that asked for it.
    #[serde(default)]
    pub place: Option<Place>,
    /// Whether no step ran to its end after it.
    #[serde(default)]
    pub is_last: bool,
}

impl RankFailure {
    /// Of a device, if an allocation failed. Ranks whose rings wrapped at different places hold
    /// other positions, so steps are told by the numbers in their names.
    pub(super) fn of(
        profile: &DeviceProfile,
        device: &DeviceTrace,
        stacks: &Stacks,
    ) -> Option<RankFailure> {
        let failure = oom::first(device)?;
        let number = |position: u32| {
            let step = profile.steps.get(position as usize);
            let named = step.filter(|_| profile.step_source == StepSource::Annotations);
            match named.and_then(|step| numbered(&step.name)) {
                Some((_, number)) => Some(number),
                None => (!profile.wrapped).then_some(position),
            }
        };
        let begun = |event: EventIdx| {
            let begun = profile.steps.iter();
            begun.filter(|step| step.events.start() <= event).count() as u32
        };
        let before = begun(failure.event).checked_sub(1);
        let own = failure.step.or(before.filter(|&at| {
            let step = &profile.steps[at as usize];
            step.events.contains(failure.event)
        }));
        let asker = Asker::of(stacks, failure.stack);
        let place = asker.frame.filter(|frame| frame.line > 0);
        let whole = &profile.steps[..profile.steps.len().min(profile.whole_steps as usize)];
        Some(RankFailure {
            event: failure.event,
            step: own.and_then(number),
            after: match own {
                Some(_) => None,
                None => before.and_then(number),
            },
            wanted: failure.asked,
            place: place.map(|frame| Place::of(stacks, frame)),
            is_last: !whole.iter().any(|step| step.events.start() > failure.event),
        })
    }

    /// ` in step 5`, or ` after step 4`; empty where that is not known.
    pub(super) fn when(&self) -> String {
        match (self.step, self.after) {
            (Some(step), _) => format!(" in step {step}"),
            (None, Some(step)) => format!(" after step {step}"),
            (None, None) => String::new(),
        }
    }

    /// ` on 64.0 MiB in loss_of (net.py:46)`: what was asked for, and where.
    pub(super) fn what(&self) -> String {
        let place = self.place.as_ref();
        let place = place.map_or_else(String::new, |place| format!(" in {}", place.told()));
        format!(" on {}{place}", self.wanted)
    }
}
