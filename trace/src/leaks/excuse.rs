//! Innocent explanations for growth.
//!
//! * Optimizer state (of a first step, of parameters that are seldom used, the history of LBFGS):
//!   it is made in the optimizer's own code. But if as much is made again and again at equal
//!   distances, a new optimizer may be made each time while the old one is kept: nobody can tell.
//!   Nor can anybody where no stacks show the code, if all that is kept now and then was made
//!   within the optimizer's scopes: parameters may be trained from different steps on.
//! * Weights being made or loaded: the code that makes them does nothing else, and most of what it
//!   allocates stays.
//! * A model to which layers are added: after each growth, the steps make more, too. Nobody can
//!   tell: perhaps old models are kept while the work grows for another reason.
//! * The key/value cache of one request: there is no backward pass, and in every iteration buffers
//!   are replaced by ones that are larger by the same amount.
//! * Graphs that wait: nothing shows a backward pass, and the iterations of a loop that nothing
//!   marks give back hardly anything. Nobody can tell: an evaluation may keep its graphs, or one
//!   long pass goes on.
//! * A buffer that is enlarged while some of the program's work grows too: perhaps it holds longer
//!   and longer data.

use super::judge::{self, Growth};
use super::report::Pattern;
use super::survivors::Kept;
use super::thresholds::{MIN_GROWTHS, MIN_LATE_GROWTHS};
use super::view::View;
use crate::growth::settled;
use crate::median;
use crate::oom;
use crate::optimizer::{self, is_step_scope};
use crate::phases::Role;
use crate::site::SiteKey;
use crate::span::Span;
use crate::stacks::{Frame, StackIdx};
use crate::steps;
use crate::trace::{Annotation, BlockIdx, StepSource};
use crate::units::EventIdx;
use std::cell::OnceCell;

/// Why growth is not a leak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// The optimizer keeps this memory and limits it.
    OptimizerState,
    /// Weights are being made or loaded.
    Loading,
    /// An optimizer's state grows by the same amount again and again, which no optimizer needs.
    StateAgain,
    /// Without stacks, and not in every step: it was made while an optimizer stepped.
    MadeInUpdates,
    /// Weights are added now and then, and the steps that follow do more work each time.
    MoreLayers,
    /// Each step keeps nearly all that its forward pass makes, and there is no backward pass.
    GraphsWait,
    /// One request's key/value cache grows with every token.
    OneRequest,
    /// A buffer is enlarged, and so is some of the program's work.
    LargerSteps,
}

impl Excuse {
    /// Whether it may be a leak after all.
    pub fn leaves_doubt(self) -> bool {
        self != Excuse::OptimizerState
    }

    /// Whether it is an optimizer's state.
    pub fn is_state(self) -> bool {
        matches!(self, Excuse::OptimizerState | Excuse::StateAgain)
    }
}

/// While weights are loaded, at least this share of what is allocated stays.
const LOADED: f64 = 0.5;

/// Requested amounts are alike if they differ by one part in this many.
const ALIKE: u64 = 16;

/// How often an optimizer's state must be made, as much each time and at equal distances, to say
/// that it is made again: three times may be parameters that are used for the first time.
const AGAIN: usize = 4;

/// Looks for excuses.
pub struct Excuses<'v> {
    view: &'v View<'v>,
    /// Per site, whether all that it keeps was made within an optimizer's scopes.
    in_updates: OnceCell<Vec<bool>>,
    /// Whether steps keep nearly all that they make.
    graphs_wait: OnceCell<bool>,
}

impl<'v> Excuses<'v> {
    pub fn new(view: &'v View<'v>) -> Excuses<'v> {
        Excuses {
            view,
            in_updates: OnceCell::new(),
            graphs_wait: OnceCell::new(),
        }
    }

    /// The excuse of a site that grows.
    pub fn of(&self, site: usize, growth: &Growth) -> Option<Excuse> {
        let role = self.view.roles.get(self.view.sites.stacks[site]);
        let is_update = matches!(role, Role::Optimizer | Role::OptimizerSetup);
        // The norm of all gradients, which the program gets, is no state.
        if is_update && !self.is_clipping(site) {
            Some(match self.is_state_again(site, growth) {
                true => Excuse::StateAgain,
                false => Excuse::OptimizerState,
            })
        } else if matches!(growth.pattern, Pattern::EveryNth(_)) && self.is_made_in_updates(site) {
            Some(Excuse::MadeInUpdates)
        } else if role == Role::ModelSetup && self.mostly_kept(growth) {
            Some(Excuse::Loading)
        } else if self.do_graphs_wait() {
            Some(Excuse::GraphsWait)
        } else if self.may_be_layers(site, growth) || self.may_be_thawed(site, growth) {
            Some(Excuse::MoreLayers)
        } else if growth.pattern == Pattern::Enlarged
            && self.by_equal_amounts(site, growth)
            && !self.has_backward()
        {
            Some(Excuse::OneRequest)
        } else if self
            .kept(site)
            .is_some_and(|kept| judge::is_ambiguous(kept, self.view.survey, growth))
        {
            Some(Excuse::LargerSteps)
        } else {
            None
        }
    }

    fn kept(&self, site: usize) -> Option<&Kept> {
        self.view.survey.kept[site].as_deref()
    }

    /// Whether as much state as before is made again and again, at equal distances. An optimizer
    /// makes the state of each parameter once: parameters that are seldom used come in no rhythm.
    /// L-BFGS keeps a history that it limits.
    fn is_state_again(&self, site: usize, growth: &Growth) -> bool {
        let Some(kept) = self.kept(site) else {
            return false;
        };
        let made = (growth.first..=growth.last).filter(|&p| kept.survivors[p] > 0);
        let made: Vec<usize> = made.collect();
        let distance = |pair: &[usize]| pair[1] - pair[0];
        let made_in = |p: usize| kept.survivors_requested[p];
        let first = made_in(growth.first);
        let near = |&p: &usize| made_in(p).abs_diff(first) * ALIKE <= first;
        made.len() >= AGAIN
            && made
                .windows(2)
                .all(|pair| distance(pair) == distance(&made))
            && made.iter().all(near)
            && !self.is_history(site)
    }

    /// Whether a site is that of L-BFGS, which makes a history in each step.
    pub fn is_history(&self, site: usize) -> bool {
        let stacks = self.view.stacks;
        let stack = stacks.frames(self.view.sites.stacks[site]).iter();
        let mut files = stack.map(|&frame| stacks.str(stacks.frame(frame).filename));
        files.any(|file| file.to_lowercase().contains("lbfgs"))
    }

    /// Whether a site without a stack keeps only what was made within an optimizer's scopes.
    fn is_made_in_updates(&self, site: usize) -> bool {
        let in_updates = || made_in_updates(self.view);
        matches!(self.view.sites.keys[site], SiteKey::Size(_))
            && self.in_updates.get_or_init(in_updates)[site]
    }

    /// Whether the innermost code of an optimizer at a site is that of gradient clipping.
    fn is_clipping(&self, site: usize) -> bool {
        let stacks = self.view.stacks;
        let frames = stacks.frames(self.view.sites.stacks[site]).iter();
        let mut frames = frames.map(|&frame| stacks.frame(frame));
        let part = |frame: &Frame| {
            let (file, name) = (stacks.str(frame.filename), stacks.str(frame.name));
            optimizer::part(file, name).map(|_| file)
        };
        let innermost = frames.find_map(|frame| part(&frame));
        innermost.is_some_and(optimizer::is_clipping)
    }

    /// Whether what a site keeps may be the weights of layers that are added to a model a few
    /// times: whenever it grows, the steps that follow make more than those before, by half of the
    /// growth or more. Their gradients alone are as large as the weights.
    fn may_be_layers(&self, site: usize, growth: &Growth) -> bool {
        let role = self.view.roles.get(self.view.sites.stacks[site]);
        let may_be_weights =
            role == Role::ModelSetup || matches!(self.view.sites.keys[site], SiteKey::Size(_));
        let Some(kept) = self.kept(site).filter(|_| may_be_weights) else {
            return false;
        };
        let made = &self.view.survey.churn;
        let n = made.len();
        // The first period may make the model itself.
        let births = growth.first.max(1)..=growth.last;
        let births = births.filter(|&p| kept.survivors[p] > 0);
        let births: Vec<usize> = births.collect();
        let ends = births.iter().skip(1).chain([&n]);
        let mut from = settled(n);
        let rises = births.iter().zip(ends).filter(|&(&birth, &end)| {
            let usual = |periods: &[u64]| median::upper(periods.iter().copied());
            let before = usual(made.get(from..birth).unwrap_or_default());
            let after = usual(&made[birth + 1..end]);
            from = birth + 1;
            let both = before.zip(after);
            both.is_some_and(|(a, b)| b >= a.saturating_add(kept.survivors[birth] / 2))
        });
        let rises = rises.count();
        matches!(growth.pattern, Pattern::EveryNth(_))
            && births.len() < MIN_LATE_GROWTHS
            && rises + 1 >= MIN_GROWTHS.max(births.len())
    }

    /// Whether what grows may be the gradients of layers that are trained from different steps on:
    /// they have no stack but autograd's, and whenever there are more of them, the optimizer makes
    /// state, which it does when it sees a parameter for the first time.
    fn may_be_thawed(&self, site: usize, growth: &Growth) -> bool {
        let role = self.view.roles.get(self.view.sites.stacks[site]);
        let may_be_gradients = matches!(role, Role::Backward | Role::Silent)
            || matches!(self.view.sites.keys[site], SiteKey::Size(_));
        let Some(kept) = self.kept(site).filter(|_| may_be_gradients) else {
            return false;
        };
        let level = &kept.requested;
        let rises = (growth.first.max(1)..=growth.last).filter(|&p| level[p] > level[p - 1]);
        let states = || self.view.survey.kept.iter().zip(&self.view.sites.stacks);
        let makes_state = |p: &usize| {
            let own = states().filter(|(_, stack)| self.view.roles.get(**stack) == Role::Optimizer);
            let made = own.filter_map(|(kept, _)| kept.as_deref()?.survivors_requested.get(*p));
            // A state of 8 bits is a quarter as large.
            made.sum::<u64>() >= (level[*p] - level[*p - 1]) / 4
        };
        let rises: Vec<usize> = rises.collect();
        growth.pattern == Pattern::Enlarged && !rises.is_empty() && rises.iter().all(makes_state)
    }

    /// Whether the growth is most of what the periods allocate.
    fn mostly_kept(&self, growth: &Growth) -> bool {
        let churn = &self.view.survey.churn[growth.first..];
        let made = churn.iter().sum::<u64>() as f64;
        let kept = match growth.slowed {
            // It kept more at first than its rate says.
            true => growth.bytes_per_growth * growth.growths as f64,
            false => growth.bytes_per_period * churn.len() as f64,
        };
        kept >= LOADED * made
    }

    /// Whether every period makes the buffer larger by the same amount, as a token does.
    fn by_equal_amounts(&self, site: usize, growth: &Growth) -> bool {
        let Some(kept) = self.kept(site) else {
            return false;
        };
        // Requested bytes: block sizes are multiples of 512 B, so small rises would come at times.
        let level = &kept.requested[growth.first..];
        let rises = || level.windows(2).map(|w| w[1].saturating_sub(w[0]));
        let Some(usual) = median::upper(rises()) else {
            return false;
        };
        let near = |rise: &u64| rise.abs_diff(usual) * 4 <= usual;
        rises().filter(near).count() * 10 >= rises().count() * 9
    }

    /// Whether the steps, which nothing marks, keep nearly all that they make, and nothing shows a
    /// backward pass.
    fn do_graphs_wait(&self) -> bool {
        let is_inferred = self.view.device.step_source == StepSource::Inferred;
        let wait = || !self.has_backward() && !gives_back(self.view) && !self.is_trained();
        is_inferred && *self.graphs_wait.get_or_init(wait)
    }

    /// Whether scopes show that an optimizer steps in most steps. A second device, on which a
    /// program only keeps something, shows no backward pass of its own.
    fn is_trained(&self) -> bool {
        let is_update = |scope: &&Annotation| is_step_scope(self.view.stacks.str(scope.name));
        let updates = self.view.device.annotations.iter().filter(is_update);
        updates.count() * 2 > self.view.ends.len()
    }

    /// Whether the program computes gradients. Without any stack this is not known.
    fn has_backward(&self) -> bool {
        let mut stacks = recorded_stacks(self.view);
        stacks.clone().all(|stack| stack == StackIdx::NONE)
            || stacks.any(|stack| is_backward(self.view, stack))
    }
}

/// Per site, whether all that it keeps for good was made while an optimizer stepped, as the scopes
/// show.
fn made_in_updates(view: &View<'_>) -> Vec<bool> {
    let is_update = |scope: &&Annotation| is_step_scope(view.stacks.str(scope.name));
    let scopes = view.device.annotations.iter().filter(is_update);
    let scopes: Vec<_> = scopes.map(|scope| scope.events).collect();
    // Scopes are sorted by their starts; those of optimizers hardly ever lie in one another.
    let is_within = |made: EventIdx| {
        let before = scopes.partition_point(|scope| scope.start() <= made);
        before > 0 && scopes[before - 1].contains(made)
    };
    let mut made = vec![[false; 2]; view.sites.keys.len()];
    // The first step makes weights, too, and the gradients of the last one may be as large.
    if let [first, .., before_last, last] = *view.ends.as_slice() {
        let blocks = &view.device.blocks;
        let settled = blocks.allocated_in(Span::new(EventIdx(first), EventIdx(before_last)));
        for block in settled.map(|block| block as usize) {
            if blocks.free_requested[block] >= last {
                let site = view.sites.of_kind[blocks.kind[block].index()] as usize;
                let within = is_within(EventIdx(blocks.alloc[block]));
                made[site][usize::from(within)] = true;
            }
        }
    }
    made.into_iter().map(|made| made == [false, true]).collect()
}

/// Whether steps give back a part of what they make before the next one ends, as most do. Where
/// memory runs out, half of the bytes: a pass that is not over looks like steps of which each keeps
/// more than that.
fn gives_back(view: &View<'_>) -> bool {
    let (blocks, ends) = (&view.device.blocks, view.ends.as_slice());
    let (mut made, mut freed) = ((0, 0), (0, 0));
    for three in ends.windows(3) {
        for block in blocks.allocated_in(Span::new(EventIdx(three[0]), EventIdx(three[1]))) {
            let size = blocks.kind(BlockIdx(block)).size.0;
            made = (made.0 + 1, made.1 + size);
            if blocks.free_requested[block as usize] < three[2] {
                freed = (freed.0 + 1, freed.1 + size);
            }
        }
    }
    match oom::count(view.device) {
        0 => freed.0 as f64 >= steps::GIVEN_BACK * made.0 as f64,
        _ => freed.1 as f64 >= steps::MOST_GIVEN_BACK * made.1 as f64,
    }
}

/// The stacks of what was allocated while it was recorded. Blocks from before it have no stack,
/// which says nothing about the program.
pub fn recorded_stacks(view: &View<'_>) -> impl Iterator<Item = StackIdx> + Clone {
    let blocks = &view.device.blocks;
    let kinds = blocks.kind[blocks.n_preexisting as usize..].iter();
    kinds.map(|kind| blocks.kinds[kind.index()].alloc_stack)
}

/// Whether autograd's engine made the allocation. Its threads have no Python frames, while the
/// other stacks of the recording have some.
pub fn is_backward(view: &View<'_>, stack: StackIdx) -> bool {
    match view.roles.get(stack) {
        Role::Backward => true,
        Role::Silent => view.roles.has_python && !view.roles.has_engine,
        _ => false,
    }
}
