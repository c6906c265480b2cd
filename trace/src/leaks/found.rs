//! What was found at all sites: what grows, what may grow, and what has an excuse.

use super::edges::Emptied;
use super::excuse::{Excuse, Excuses};
use super::judge::{self, Finding, Growth};
use super::states::Weights;
use super::survivors::Survey;
use super::thresholds::{MIN_BYTES, MIN_GROWTHS};
use super::view::View;
use crate::phases::Role;
use crate::watch::{Stopped, Watch};

/// The result for all sites.
#[derive(Default)]
pub(super) struct Found {
    pub(super) grown: Vec<(usize, Growth)>,
    pub(super) unsure: Vec<(usize, Growth)>,
    /// What was kept once, and may be the first of many. Without stacks, sizes that differ may each
    /// be kept once, and all of them again and again: so this comes last.
    pub(super) once: Vec<(usize, Growth)>,
    /// Growth that has an innocent explanation, with its site.
    pub(super) excused: Vec<(Excuse, usize, Growth)>,
    /// Bytes that the other growing sites add whenever they grow.
    pub(super) at_once: f64,
}

impl Found {
    pub(super) fn of(view: &View<'_>) -> Result<Found, Stopped> {
        let mut found = Found::default();
        let excuses = Excuses::new(view);
        let emptied = Emptied::of(view.device);
        let began_late = view.device.unmatched_frees > 0;
        let is_first_model = |site: usize, growth: &Growth| {
            let role = view.roles.get(view.sites.stacks[site]);
            growth.first == 0 && role == Role::ModelSetup && view.device.blocks.n_preexisting == 0
        };
        for (site, finding) in findings(view.survey, view.watch)? {
            let kept = view.survey.kept[site].as_deref();
            let finding = match finding {
                // Every program makes a model in its first step: that is no growth.
                Finding::Grows(growth)
                    if growth.growths <= MIN_GROWTHS && is_first_model(site, &growth) =>
                {
                    Finding::TooFew(growth)
                }
                Finding::Grows(growth)
                    if kept.is_some_and(|kept| {
                        judge::is_filling(kept)
                            || emptied.may_be_collected_again(kept, growth.growths)
                    }) =>
                {
                    Finding::TooFew(growth)
                }
                // At its beginning, a program makes much that it makes once.
                Finding::TooFew(growth)
                    if growth.growths == 1
                        && !began_late
                        && !judge::is_halfway(growth.first, view.ends.len()) =>
                {
                    Finding::Bounded
                }
                found => found,
            };
            match finding {
                Finding::Grows(growth) => match excuses.of(site, &growth) {
                    Some(excuse) => found.excused.push((excuse, site, growth)),
                    None => {
                        let (growth, once) = growth.apart();
                        found.grown.push((site, growth));
                        found.unsure.extend(once.map(|once| (site, once)));
                    }
                },
                Finding::TooFew(growth) => match excuses.of(site, &growth) {
                    // However seldom a parameter is used, its state is bounded. What was made once
                    // has no rate to tell.
                    Some(Excuse::OptimizerState) if growth.growths == 1 => {}
                    Some(Excuse::OptimizerState) => {
                        found.excused.push((Excuse::OptimizerState, site, growth));
                    }
                    _ if growth.growths == 1 => found.once.push((site, growth)),
                    _ => found.unsure.push((site, growth)),
                },
                Finding::Bounded => {}
            }
        }
        found.forget_first_uses(began_late);
        let grown = found.grown.iter();
        let grown = grown.filter_map(|(at, g)| view.survey.kept[*at].as_deref().zip(Some(g)));
        if judge::takes_the_place_of_older(grown, view.survey) {
            found.unsure.append(&mut found.grown);
        }
        found.add_states_of_weights(view, &excuses);
        found.at_once = found.grown.iter().map(|(_, g)| g.bytes_per_growth).sum();
        Ok(found)
    }

    /// The state of models that leak is a part of their leak.
    fn add_states_of_weights(&mut self, view: &View<'_>, excuses: &Excuses<'_>) {
        let weights = Weights::of(view, &self.grown);
        for (why, site, growth) in std::mem::take(&mut self.excused) {
            let kept = view.survey.kept[site].as_deref();
            let is_theirs = why.is_state()
                && !excuses.is_history(site)
                && kept.is_some_and(|kept| weights.have_state(kept, &growth));
            match is_theirs {
                true => self.grown.push((site, growth)),
                false => self.excused.push((why, site, growth)),
            }
        }
    }

    /// Optimizer state that grows and has no other explanation, in bytes a period, and whether it
    /// is made again and again.
    pub(super) fn states(&self) -> (f64, bool) {
        let states = || self.excused.iter().filter(|(why, ..)| why.is_state());
        let bytes = states().map(|(.., growth)| growth.bytes_per_period).sum();
        (bytes, states().any(|(why, ..)| *why == Excuse::StateAgain))
    }

    /// Where several sites keep something once, in different steps, the code there is used for the
    /// first time. In a program that had run before, little is.
    fn forget_first_uses(&mut self, began_late: bool) {
        let mut steps = self.once.iter().map(|(_, growth)| growth.first);
        let first = steps.next();
        if !began_late && steps.any(|step| Some(step) != first) {
            self.once.clear();
        }
    }

    /// Adds what was kept once to what is not sure, unless something else leaves a doubt already.
    pub(super) fn doubt_what_came_once(&mut self) {
        let excuse = self.main_excuse();
        if self.unsure.is_empty() && !excuse.is_some_and(|(why, _)| why.leaves_doubt()) {
            self.unsure.append(&mut self.once);
        }
    }

    /// The excuse to tell, with its bytes a period: one that leaves a doubt comes first, then the
    /// one for most bytes. Growth of less than [`MIN_BYTES`] needs none.
    pub(super) fn main_excuse(&self) -> Option<(Excuse, f64)> {
        let total = |why: Excuse| {
            let alike = self.excused.iter().filter(|(other, ..)| *other == why);
            alike
                .map(|(.., growth)| growth.bytes_per_period)
                .sum::<f64>()
        };
        let all = self.excused.iter().map(|&(why, ..)| (why, total(why)));
        let enough = all.filter(|&(_, bytes)| bytes >= MIN_BYTES.0 as f64);
        enough.max_by(|(a, more), (b, less)| {
            let doubts = a.leaves_doubt().cmp(&b.leaves_doubt());
            doubts.then(more.total_cmp(less))
        })
    }
}

/// What each site does that is not bounded.
///
/// # Errors
/// [`Stopped`].
pub(super) fn findings(
    survey: &Survey,
    watch: Watch<'_>,
) -> Result<Vec<(usize, Finding)>, Stopped> {
    let mut found = Vec::new();
    for (site, kept) in survey.kept.iter().enumerate() {
        let Some(kept) = kept.as_deref() else {
            continue;
        };
        watch.look(0)?;
        let finding = judge::judge(kept, survey);
        if finding != Finding::Bounded {
            found.push((site, finding));
        }
    }
    Ok(found)
}
