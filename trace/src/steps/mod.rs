//! Steps: the iterations of a program's outermost working loop.
//!
//! ```text
//! annotated    scopes that call themselves steps
//! hooks        optimizers that step within the backward pass
//! skipped      iterations whose optimizer's step was left out
//! frames       what a frame says of where the program is
//! calls        stacks -> contexts and spots
//! walk         allocations -> moves from stack to stack
//! regions      moves -> where the walk goes round
//! work         allocations counted by the kind of work that makes them
//! mark         where the iterations of a loop begin and end
//! iterations   walk, marks -> the iterations of loops
//! loops        iterations -> the loops that may be the steps
//! choose       loops -> the one whose iterations are the steps
//! rounds       a loop around another one in the same function
//! choices      the loops that a reader can choose instead
//! ending       the end of the program, which is no part of its last step
//! recording    what a recording holds: a loop, one pass, a model being loaded
//! replays      replays of a CUDA graph, without stacks
//! by_time      the steps of one device, for another one that shows none
//! pinned       the steps of its devices, for the pinned memory of the host
//! inferred     sizes that repeat, where there are no stacks
//! beside       what another device says of a name
//! word         what the iterations of a loop are called
//! step_levels  the levels of memory in each step
//! ```

mod annotated;
mod beside;
mod by_time;
mod calls;
pub mod choices;
mod choose;
mod ending;
mod frames;
mod hooks;
mod inferred;
mod iterations;
mod loops;
mod mark;
mod pinned;
pub mod recording;
mod regions;
mod replays;
mod rounds;
mod skipped;
mod step_levels;
mod walk;
mod word;
mod work;

use crate::stacks::Stacks;
use crate::trace::{DeviceTrace, Step, StepSource};
use crate::watch::{Stopped, Watch};
use annotated::Scopes;
use ending::without_ending;
use loops::Analysis;

pub(crate) use annotated::family_name;
pub use by_time::Shown;
pub(crate) use choose::{GIVEN_BACK, MOST_GIVEN_BACK};
pub(crate) use pinned::take_steps;
pub use step_levels::{StepLevels, levels};
pub use word::Word;

/// Finds the steps of all devices of a recording.
///
/// # Errors
/// [`Stopped`]; the steps of some devices are then unchanged.
pub fn find_all(
    devices: &mut [DeviceTrace],
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<(), Stopped> {
    let n_devices = devices.len();
    let mut shown = Vec::with_capacity(n_devices);
    for device in devices.iter_mut() {
        shown.push(find(device, stacks, n_devices, watch)?);
    }
    by_time::share(devices, &shown);
    beside::name_alike(devices);
    Ok(())
}

/// Finds the steps of a device and notes where they come from. Returns what shows them.
///
/// In a trace of several devices, each device may have its share of the [`MAX_STEPS`] that are
/// kept.
///
/// # Errors
/// [`Stopped`]; the steps of the device are then unchanged.
pub fn find(
    device: &mut DeviceTrace,
    stacks: &Stacks,
    n_devices: usize,
    watch: Watch<'_>,
) -> Result<Shown, Stopped> {
    let (shown, source, mut steps) = found(device, stacks, watch)?;
    steps.truncate(MAX_STEPS / n_devices.max(1));
    steps.shrink_to_fit();
    (device.step_source, device.steps) = (source, steps);
    Ok(shown)
}

/// Scopes that call themselves steps come first, then the loops that the stacks show, then other
/// scopes. Sizes that repeat count only if nothing else is known.
fn found(
    device: &DeviceTrace,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<(Shown, StepSource, Vec<Step>), Stopped> {
    const NONE: (Shown, StepSource, Vec<Step>) = (Shown::Nothing, StepSource::None, Vec::new());
    let watch = watch.beside(memory_of_scopes(device));
    watch.look(0)?;
    let scopes = Scopes::new(device, stacks, watch)?;
    if let Some(steps) = scopes.numbered() {
        return Ok((Shown::Other, StepSource::Annotations, steps));
    }
    // There is only one step of an optimizer, so whatever repeats in it are layers and parameters.
    if scopes.optimizer_steps() == Some(1) {
        return Ok((Shown::Other, StepSource::None, Vec::new()));
    }
    let analysis = Analysis::new(device, stacks, watch)?;
    if let Some(analysis) = &analysis {
        let loops = analysis.loops()?;
        if let Some(chosen) = analysis.choose(&loops) {
            let chosen = &loops[chosen];
            let word = choices::word(analysis, stacks, chosen, (&loops, Some(chosen)));
            let steps = analysis.steps(&chosen.iterations, word.unwrap_or(Word::Step));
            return Ok((Shown::Loop, StepSource::Inferred, steps));
        }
    }
    if analysis.is_none()
        && let Some(mut steps) = scopes.replayed()
    {
        without_ending(device, stacks, &mut steps);
        return Ok((Shown::Other, StepSource::Inferred, steps));
    }
    if let Some(mut steps) = scopes.repeating() {
        without_ending(device, stacks, &mut steps);
        return Ok((Shown::Nothing, StepSource::Annotations, steps));
    }
    if let Some(steps) = scopes.numbered_anyhow() {
        return Ok((Shown::Other, StepSource::Annotations, steps));
    }
    if analysis.is_some() {
        return Ok(NONE);
    }
    let Some(mut steps) = inferred::steps(device, watch)? else {
        return Ok(NONE);
    };
    without_ending(device, stacks, &mut steps);
    Ok((Shown::Other, StepSource::Inferred, steps))
}

/// This many steps are needed to say anything about steps.
pub const MIN_STEPS: usize = 4;

/// How many steps of a trace are kept, the first ones. A run of a week has some ten thousand.
pub const MAX_STEPS: usize = 1 << 17;

/// Bytes of a step's name that are kept.
const STEP_NAME: usize = 160;

/// The most memory that families of scopes take, including the steps that are kept, bytes.
fn memory_of_scopes(device: &DeviceTrace) -> usize {
    let n = device.annotations.len();
    n * annotated::PER_SCOPE + MAX_STEPS.min(n) * 224
}

#[cfg(test)]
mod tests;
