//! Optimizer state that belongs to models which leak.
//!
//! An optimizer makes the state of a parameter once, in its first step with it. Where new weights
//! come again and again and stay, and state comes with them each time, the optimizer of the new
//! weights is kept with them: the state is a part of that leak.

use super::judge::Growth;
use super::survivors::Kept;
use super::thresholds::MIN_GROWTHS;
use super::view::View;
use crate::phases::Role;

/// State is at most so many times as large as its weights: three tensors a parameter, of 32 bits
/// for weights of 16, with room for some that are not counted.
const MOST_STATE: u64 = 8;

/// The weights that leak, in requested bytes per period.
pub(super) struct Weights(Vec<u64>);

impl Weights {
    /// Of the sites that grow.
    pub(super) fn of(view: &View<'_>, grown: &[(usize, Growth)]) -> Weights {
        let mut weights = vec![0_u64; view.ends.len()];
        let role = |site: usize| view.roles.get(view.sites.stacks[site]);
        let models = grown.iter().filter(|(at, _)| role(*at) == Role::ModelSetup);
        for kept in models.filter_map(|(at, _)| view.survey.kept[*at].as_deref()) {
            for (all, bytes) in weights.iter_mut().zip(&kept.survivors_requested) {
                *all = all.saturating_add(*bytes);
            }
        }
        Weights(weights)
    }

    /// Whether the state that a site keeps comes with these weights, and only with them: in the
    /// step in which they are made or in the next one, no more than they need, and each time.
    pub(super) fn have_state(&self, state: &Kept, growth: &Growth) -> bool {
        let made = &state.survivors_requested;
        let span = growth.first..=growth.last;
        let births = || span.clone().filter(|&p| made[p] > 0);
        let new_weights = |p: usize| {
            let before = p.checked_sub(1).map_or(0, |before| self.0[before]);
            self.0[p].saturating_add(before)
        };
        let is_theirs = |p: usize| made[p] <= new_weights(p).saturating_mul(MOST_STATE);
        let has_state = |p: usize| made[p..].iter().take(2).any(|&bytes| bytes > 0);
        births().count() >= MIN_GROWTHS
            && births().all(is_theirs)
            && span.clone().filter(|&p| self.0[p] > 0).all(has_state)
    }
}
