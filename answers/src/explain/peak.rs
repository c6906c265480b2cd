//! How the step of the peak differs from the others, and what it still held of the step before.

use super::Look;
use super::words::{self, Outside};
use crate::names::shown;
use crate::places::Places;
use api::explain::{Moment, OutlivedStep, UnlikeOthers};
use api::leaks::Verdict;
use timeline::lanes::plain_step_name;
use trace::device::DeviceIdx;
use trace::failing::Times;
use trace::peaking::{OnlyThere, Outlived, Peaking, Unlike};
use trace::steps::Word;
use trace::tiles::frame_label;
use trace::trace::Step;
use trace::units::{Bytes, EventIdx};
use trace::watch::Stopped;

/// The work at the peak. What leaks makes the last steps peak highest, and is told as a leak;
/// memory of the host is not what a step works with.
///
/// # Errors
/// [`Stopped`].
pub fn at(look: &Look<'_>, peak: &Moment) -> Result<Peaking, Stopped> {
    let is_told = look.leaks.verdict != Verdict::Leak && look.device.device != DeviceIdx::PINNED;
    match peak.event.filter(|_| is_told) {
        Some(event) => {
            let kinds = (&look.categories, &look.phases);
            Peaking::of(look.device, look.stacks(), kinds, event, look.watch)
        }
        None => Ok(Peaking::default()),
    }
}

/// What is told of it.
pub fn told(
    look: &Look<'_>,
    places: &mut Places<'_>,
    (event, peaking): (Option<EventIdx>, &Peaking),
) -> (Option<UnlikeOthers>, Option<OutlivedStep>) {
    let unlike = peaking.unlike.as_ref().zip(event);
    let unlike = unlike.map(|(unlike, event)| differs(look, unlike, event));
    let outlived = peaking.outlived.as_ref();
    let outlived = outlived.and_then(|outlived| held(look, places, outlived));
    (unlike, outlived)
}

/// Where an event lies that is in none of these steps.
fn outside(steps: &[Step], event: EventIdx) -> Outside {
    match steps.partition_point(|step| step.events.start() <= event) {
        0 => Outside::Before,
        at if at == steps.len() => Outside::After,
        _ => Outside::Between,
    }
}

fn differs(look: &Look<'_>, unlike: &Unlike, event: EventIdx) -> UnlikeOthers {
    let steps = &look.device.steps;
    let place = |there: OnlyThere| shown(&frame_label(look.stacks(), there.frame));
    let mut told = UnlikeOthers {
        steps: (unlike.steps.iter().take(UnlikeOthers::MAX_STEPS))
            .map(|at| plain_step_name(&steps[*at]))
            .collect(),
        n_steps: unlike.steps.len() as u64,
        rises: unlike.rises,
        usual_peak: unlike.usual,
        place: unlike.only_there.map(place),
        place_bytes: unlike.only_there.map_or(Bytes::ZERO, |there| there.bytes),
        times_as_large: unlike.times.map(Times::number),
        sentence: String::new(),
    };
    let word = Word::of(steps);
    told.sentence = match unlike.steps.is_empty() {
        true => words::outside(unlike.usual, outside(steps, event), word),
        false => words::differs(&told, steps.len(), word),
    };
    told
}

/// `None` where no line of the program is known.
fn held(look: &Look<'_>, places: &mut Places<'_>, outlived: &Outlived) -> Option<OutlivedStep> {
    let (place, _) = places.most_of(&outlived.blocks)?;
    let mut told = OutlivedStep {
        bytes: outlived.bytes,
        place,
        peak_without: outlived.peak_without,
        sentence: String::new(),
    };
    told.sentence = words::still_held(&told, Word::of(&look.device.steps));
    Some(told)
}
