//! Steps from annotations.
//!
//! In order of preference:
//! 1. numbered scopes that call themselves steps or iterations (`## step 7 ##`, `ProfilerStep#7`,
//!    `train_iter_7`) and are the program's: most of the optimizer's steps lie in them, or one in
//!    each gap between two; without an optimizer, they cover a quarter of the events. Those that
//!    cover most are taken, because micro-batches lie inside and evaluations are shorter;
//! 2. if the stacks show no loop: optimizer steps (`Optimizer.step#AdamW.step`), each with the
//!    events that belong directly to it. If there are several optimizers, the one that runs last in
//!    the cycle;
//! 3. also if the stacks show no loop: any other numbered scopes (`batch 12`), or scopes of one
//!    name, that repeat, cover most of the events between the first and the last, and are not
//!    inside one another.
//!
//! Families of fewer than [`MIN_SCOPES`] scopes (epochs, a warm-up) mark no steps. The exception:
//! they call themselves steps and there is nothing else. Numbered scopes that are not the program's
//! (`save_checkpoint_step_500`) count only where nothing else shows steps.
//!
//! ```text
//! families    scopes whose names differ only in numbers
//! cycles      steps from the scopes of an optimizer
//! ```

mod cycles;
mod families;

use super::{MAX_STEPS, STEP_NAME, replays};
use crate::clip::clipped;
use crate::optimizer::clearing_scope;
use crate::stacks::Stacks;
use crate::trace::{DeviceTrace, Step};
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};
use cycles::up_to_each;
use families::{Family, MIN_SCOPES, families, followed};
use std::cmp::Reverse;

pub(super) use families::PER_SCOPE;
pub(crate) use families::family_name;

/// A family must cover this share of the events, unless its name says step.
const COVERED: f64 = 0.5;
/// The same as [`COVERED`], if its name says step.
const COVERED_BY_STEPS: f64 = 0.25;

/// The scopes of a device.
pub struct Scopes<'a> {
    device: &'a DeviceTrace,
    families: Vec<Family<'a>>,
}

impl<'a> Scopes<'a> {
    /// Puts the scopes into families.
    pub fn new(
        device: &'a DeviceTrace,
        stacks: &'a Stacks,
        watch: Watch<'_>,
    ) -> Result<Scopes<'a>, Stopped> {
        let families = followed(families(&device.annotations, stacks, watch)?);
        Ok(Scopes { device, families })
    }

    /// The steps that call themselves steps.
    pub fn numbered(&self) -> Option<Vec<Step>> {
        let trains = self.optimizer_moments();
        self.largest_named(&trains, |family| match trains.len() {
            0 | 1 => family.covered() >= COVERED_BY_STEPS,
            n => family.inside_and_marked(&trains).1 * 2 >= n,
        })
    }

    /// The same, also if the scopes are only of something that happens now and then.
    pub fn numbered_anyhow(&self) -> Option<Vec<Step>> {
        let any = || self.largest_named(&self.optimizer_moments(), |_| true);
        self.numbered().or_else(any)
    }

    /// Of the families that call themselves steps, the one that covers most. Those that have the
    /// optimizer's steps inside go first, unless they cover little else.
    fn largest_named(
        &self,
        trains: &[EventIdx],
        is_one: impl Fn(&Family<'a>) -> bool,
    ) -> Option<Vec<Step>> {
        let has_training = |family: &Family<'_>| {
            let (inside, _) = family.inside_and_marked(trains);
            inside * 2 >= trains.len() && family.covered() >= COVERED_BY_STEPS
        };
        let families = self.families.iter();
        families
            .filter(|f| f.numbered && f.says_step() && f.counts_up() && is_one(f))
            .min_by_key(|f| {
                (
                    f.scopes.len() < MIN_SCOPES,
                    !has_training(f),
                    Reverse(f.events()),
                    (f.depth(), f.scopes.len()),
                    &f.name,
                )
            })
            .map(|family| enclosed(self.device, family))
    }

    /// When the optimizer that ends the cycle steps.
    fn optimizer_moments(&self) -> Vec<EventIdx> {
        let family = self.optimizer_of_the_cycle();
        family.map(Family::recorded).unwrap_or_default()
    }

    /// How many optimizer steps there were; `None` if no scope shows it.
    pub fn optimizer_steps(&self) -> Option<usize> {
        let optimizers = self.optimizers();
        let n: usize = optimizers.map(|f| f.scopes.len()).sum();
        (n > 0).then_some(n)
    }

    /// Steps from the optimizer that ends the cycle; otherwise from scopes that repeat.
    pub fn repeating(&self) -> Option<Vec<Step>> {
        if let Some(steps) = self.up_to_each_optimizer_step() {
            return Some(steps);
        }
        let repeating = self
            .families
            .iter()
            .filter(|f| f.scopes.len() >= MIN_SCOPES && f.is_apart() && f.covered() >= COVERED)
            .filter(|f| !f.is_of_torch())
            .filter(|f| !f.numbered || f.counts_up())
            .min_by_key(|f| (!f.numbered, f.depth(), Reverse(f.events()), &f.name));
        repeating.map(|family| enclosed(self.device, family))
    }

    fn optimizers(&self) -> impl Iterator<Item = &Family<'a>> {
        let families = self.families.iter();
        families.filter(|f| f.is_of_an_optimizer())
    }

    /// Steps from the optimizer that ends the cycle.
    pub fn up_to_each_optimizer_step(&self) -> Option<Vec<Step>> {
        let family = self.optimizer_of_the_cycle()?;
        let steps = up_to_each(self.device, family, self.cleared_by(family));
        (steps.len() > 1).then_some(steps)
    }

    /// The scopes in which an optimizer clears its gradients.
    fn cleared_by(&self, optimizer: &Family<'a>) -> Option<&Family<'a>> {
        let name = clearing_scope(&optimizer.name)?;
        self.families.iter().find(|family| family.name == name)
    }

    /// The replays of a CUDA graph that follow the optimizer's steps.
    pub fn replayed(&self) -> Option<Vec<Step>> {
        replays::after(self.device, &self.up_to_each_optimizer_step()?)
    }

    /// The scopes of the optimizer that ends the cycle.
    fn optimizer_of_the_cycle(&self) -> Option<&Family<'a>> {
        let most = self.optimizers().map(|f| f.scopes.len()).max()?;
        // An optimizer that runs only now and then (a tenth as often as the most frequent one)
        // marks no steps. Of the others, the least frequent one closes a cycle: a discriminator may
        // step five times for each step of the generator.
        self.optimizers()
            .filter(|f| f.scopes.len() * 10 >= most && f.scopes.len() > 1)
            .min_by_key(|f| (f.scopes.len(), Reverse(f.scopes[0].events.start())))
    }
}

/// Makes a step of each scope. Steps that ended before the first event (a ring that wrapped) are
/// left out, because nothing is known of them; the others keep their number. So is what
/// [`Family::is_opened_in_vain`] says of the last scope.
fn enclosed(device: &DeviceTrace, family: &Family<'_>) -> Vec<Step> {
    let n = family.scopes.len() - usize::from(family.is_opened_in_vain(device));
    let scopes = family.scopes[..n].iter().enumerate();
    let recorded = scopes.filter(|(_, scope)| scope.events.end() > EventIdx(0));
    recorded
        .take(MAX_STEPS)
        .map(|(index, scope)| Step {
            index: index as u32,
            name: clipped(scope.name, STEP_NAME).into_owned(),
            events: scope.events,
        })
        .collect()
}

#[cfg(test)]
mod tests;
