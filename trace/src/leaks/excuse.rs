//! Growth that has an innocent explanation.
//!
//! * Optimizer state (of a first step, of parameters that are seldom used, the history of LBFGS):
//!   it is made in the optimizer's own code.
//! * Weights being made or loaded: they are made in code that does nothing else, and most of what
//!   is allocated stays.
//! * The cache of keys and values of one request: there is no backward pass, and in every iteration
//!   buffers are replaced by ones that are larger by the same amount.

use super::judge::Growth;
use super::{Pattern, View};
use crate::phases::Role;
use crate::stacks::StackIdx;

/// Why growth is not a leak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// The optimizer keeps it and bounds it.
    OptimizerState,
    /// Weights are being made or loaded.
    Loading,
    /// One request's key/value cache grows with every token.
    OneRequest,
}

/// Of what is allocated, the share that stays while weights are loaded.
const LOADED: f64 = 0.5;

/// Looks for excuses.
pub struct Excuses<'v> {
    view: &'v View<'v>,
}

impl<'v> Excuses<'v> {
    pub fn new(view: &'v View<'v>) -> Excuses<'v> {
        Excuses { view }
    }

    /// The excuse of a site that grows.
    pub fn of(&self, site: usize, growth: &Growth) -> Option<Excuse> {
        let role = self.view.roles.get(self.view.sites.stacks[site]);
        if matches!(role, Role::Optimizer | Role::OptimizerSetup) {
            Some(Excuse::OptimizerState)
        } else if role == Role::ModelSetup && self.mostly_kept(growth) {
            Some(Excuse::Loading)
        } else if growth.pattern == Pattern::Enlarged
            && self.by_equal_amounts(site, growth)
            && !self.has_backward()
        {
            Some(Excuse::OneRequest)
        } else {
            None
        }
    }

    /// Whether most of what the periods allocate is what grows.
    fn mostly_kept(&self, growth: &Growth) -> bool {
        let churn = &self.view.survey.churn[growth.first..];
        let made = churn.iter().sum::<u64>() as f64;
        growth.bytes_per_period * churn.len() as f64 >= LOADED * made
    }

    /// Whether every period enlarges by the same amount, as a token does.
    fn by_equal_amounts(&self, site: usize, growth: &Growth) -> bool {
        let Some(kept) = self.view.survey.kept[site].as_deref() else {
            return false;
        };
        let live = &kept.live[growth.first..];
        let rises = || live.windows(2).map(|w| w[1].saturating_sub(w[0]));
        let mut sorted: Vec<u64> = rises().collect();
        sorted.sort_unstable();
        let Some(&median) = sorted.get(sorted.len() / 2) else {
            return false;
        };
        // Blocks are multiples of 512 B, and large ones keep what is not worth splitting off.
        let near = |rise: &u64| rise.abs_diff(median) * 4 <= median.max(2048);
        rises().filter(near).count() * 10 >= sorted.len() * 9
    }

    /// Whether gradients are computed. Without any stack this cannot be known.
    fn has_backward(&self) -> bool {
        let kinds = &self.view.device.blocks.kinds;
        let mut stacks = kinds.iter().map(|kind| kind.alloc_stack);
        stacks.clone().all(|stack| stack == StackIdx::NONE)
            || stacks.any(|stack| is_backward(self.view, stack))
    }
}

/// Whether autograd's engine allocates: its threads have no Python frames in a recording that has
/// them elsewhere.
pub fn is_backward(view: &View<'_>, stack: StackIdx) -> bool {
    match view.roles.get(stack) {
        Role::Backward => true,
        Role::Silent => view.roles.has_python && !view.roles.has_engine,
        _ => false,
    }
}
