//! An optimizer that is made anew while the old one is kept.
//!
//! An optimizer makes the state of a parameter in its first step with it. So where it makes state
//! for all gradients there are, a tensor for each, and the steps before had gradients of the same
//! sizes and an optimizer stepped with them, these had state already: this one is another
//! optimizer's. If about as much older state is given back around that time, it has taken the place
//! of the first one. Otherwise both are kept, and it may happen again and again.
//!
//! Layers that are trained later, and experts that are seldom used, are some of the gradients, not
//! all. A scaler of gradients that leaves out the first steps is no optimizer.

use super::excuse::{Excuses, is_backward};
use super::judge::{self, MUCH, SHORT};
use super::view::View;
use crate::optimizer::{self, is_step_scope};
use crate::phases::Role;
use crate::span::Span;
use crate::stacks::{FxHashMap, StackIdx};
use crate::trace::BlockIdx;
use crate::units::{Bytes, EventIdx};
use crate::watch::Stopped;

/// State that was made though an optimizer had stepped with its parameters before.
pub(super) struct Second {
    /// Bytes each time.
    pub(super) bytes: f64,
    /// The first period that makes it.
    pub(super) first: usize,
    /// The last one.
    pub(super) last: usize,
    /// How many do.
    pub(super) times: usize,
}

/// Blocks by their requested sizes, which are the same for a gradient and its state.
type Sizes = FxHashMap<Bytes, u32>;

/// Sizes are the same if all but a tenth of the bytes are.
const NEARLY_ALL: f64 = 0.9;

impl Second {
    /// `None` if there is none, or if another is overdue.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) fn of(view: &View<'_>) -> Result<Option<Second>, Stopped> {
        let states = States::of(view);
        let mut found = Vec::new();
        let mut bytes = 0;
        for period in states.births() {
            view.watch.look(0)?;
            if let Some(made) = states.made_again(period) {
                bytes += made;
                found.push(period);
            }
        }
        let n = view.ends.len();
        let (Some(&first), Some(&last)) = (found.first(), found.last()) else {
            return Ok(None);
        };
        let longest = found.windows(2).map(|pair| pair[1] - pair[0]).max();
        let may_go_on = match longest {
            Some(longest) => (n - 1 - last) * 2 <= longest * 3,
            None => n < SHORT || judge::is_halfway(last, n),
        };
        let times = found.len();
        Ok(may_go_on.then_some(Second {
            bytes: bytes as f64 / times as f64,
            first,
            last,
            times,
        }))
    }
}

/// The state that optimizers make.
struct States<'v> {
    view: &'v View<'v>,
    /// Per site, whether an optimizer makes state there, once for each parameter.
    is_state: Vec<bool>,
    /// The first event of an optimizer's step.
    stepped: Option<u32>,
}

impl<'v> States<'v> {
    fn of(view: &'v View<'v>) -> States<'v> {
        let excuses = Excuses::new(view);
        let is_state = view.sites.stacks.iter().enumerate().map(|(site, &stack)| {
            view.roles.get(stack) == Role::Optimizer
                && is_of_an_optimizer(view, stack)
                && !excuses.is_history(site)
        });
        let mut states = States {
            view,
            is_state: is_state.collect(),
            stepped: None,
        };
        let scopes = view.device.annotations.iter();
        let mut scopes = scopes.filter(|scope| is_step_scope(view.stacks.str(scope.name)));
        let scope = scopes.next().map(|scope| scope.events.start().0);
        let blocks = &view.device.blocks;
        let mut made = blocks.n_preexisting..blocks.len() as u32;
        let made = made.find(|&block| states.has(block));
        let made = made.map(|block| blocks.alloc[block as usize]);
        states.stepped = scope.into_iter().chain(made).min();
        states
    }

    /// Whether an optimizer made a block.
    fn has(&self, block: u32) -> bool {
        let kind = self.view.device.blocks.kind[block as usize];
        self.is_state[self.view.sites.of_kind[kind.index()] as usize]
    }

    /// The periods after the first in which state was made that is older than any that the same
    /// place gave back.
    fn births(&self) -> Vec<usize> {
        let sites = self.view.survey.kept.iter().zip(&self.is_state);
        let states = sites.filter_map(|(kept, is_state)| kept.as_deref().filter(|_| *is_state));
        let mut births: Vec<usize> = states.flat_map(judge::births).filter(|&p| p > 0).collect();
        births.sort_unstable();
        births.dedup();
        births
    }

    /// The bytes of state that a period makes for all gradients, and keeps, if they had state.
    fn made_again(&self, period: usize) -> Option<u64> {
        let (blocks, ends) = (&self.view.device.blocks, self.view.ends.as_slice());
        let before = ends[period - 1];
        let start = period.checked_sub(2).map_or(0, |at| ends[at]);
        let own = blocks.allocated_in(Span::new(EventIdx(before), EventIdx(ends[period])));
        let last = *ends.last()?;
        let stays = |block: &u32| blocks.free_requested[*block as usize] >= last;
        let made: Vec<u32> = own.filter(|&block| self.has(block)).filter(stays).collect();
        let first = blocks.alloc[*made.first()? as usize];
        let is_alive = |block: &u32| blocks.free_requested[*block as usize] > first;
        let gradients = self.gradients(start, first, is_alive);
        let is_theirs = self
            .by_line(&made)
            .into_values()
            .any(|line| bytes(&gradients) >= MUCH.0 && are_same(&line, &gradients));
        let were_there = || are_within(&gradients, &self.gradients(start, before, |_| true));
        let stepped = self.stepped.is_some_and(|stepped| stepped < before);
        let made = self.sizes(made.into_iter());
        let until = ends.get(period + 1).copied().unwrap_or(u32::MAX);
        let is_replaced = || self.gone(first, start..until, &made) >= bytes(&made);
        let is_second = stepped && is_theirs && were_there() && !is_replaced();
        is_second.then(|| bytes(&made))
    }

    /// What backward passes make between two events.
    fn gradients(&self, from: u32, to: u32, is_one: impl Fn(&u32) -> bool) -> Sizes {
        let blocks = &self.view.device.blocks;
        let made = blocks.allocated_in(Span::new(EventIdx(from), EventIdx(to)));
        let stack = |block: u32| blocks.kind(BlockIdx(block)).alloc_stack;
        self.sizes(made.filter(|&b| is_backward(self.view, stack(b)) && is_one(&b)))
    }

    fn sizes(&self, blocks: impl Iterator<Item = u32>) -> Sizes {
        let mut sizes = Sizes::default();
        for block in blocks {
            let kind = self.view.device.blocks.kind(BlockIdx(block));
            *sizes.entry(kind.requested).or_default() += 1;
        }
        sizes
    }

    fn by_line(&self, made: &[u32]) -> FxHashMap<StackIdx, Sizes> {
        let mut lines: FxHashMap<StackIdx, Sizes> = FxHashMap::default();
        for &block in made {
            let kind = self.view.device.blocks.kind(BlockIdx(block));
            let line = lines.entry(kind.alloc_stack).or_default();
            *line.entry(kind.requested).or_default() += 1;
        }
        lines
    }

    /// Bytes of older state of these sizes that are given back in a span of events. Of what is
    /// older than the recording, only the size is known.
    fn gone(&self, made_before: u32, span: std::ops::Range<u32>, sizes: &Sizes) -> u64 {
        let blocks = &self.view.device.blocks;
        let until = blocks.alloc.partition_point(|&event| event < made_before) as u32;
        let older = (0..until).filter(|&block| {
            (block < blocks.n_preexisting || self.has(block))
                && span.contains(&blocks.free_requested[block as usize])
        });
        let requested = older.map(|block| blocks.kind(BlockIdx(block)).requested);
        requested
            .filter(|size| sizes.contains_key(size))
            .map(|size| size.0)
            .sum()
    }
}

/// Whether the innermost code of an optimizer in a stack is one, not what clips or scales
/// gradients.
fn is_of_an_optimizer(view: &View<'_>, stack: StackIdx) -> bool {
    let frames = view.stacks.frames(stack).iter();
    let mut files = frames.filter_map(|&frame| {
        let frame = view.stacks.frame(frame);
        let (file, name) = (view.stacks.str(frame.filename), view.stacks.str(frame.name));
        optimizer::part(file, name).map(|_| file)
    });
    let is_scaler = |file: &str| file.ends_with("grad_scaler.py");
    files
        .next()
        .is_some_and(|file| !optimizer::is_clipping(file) && !is_scaler(file))
}

fn bytes(sizes: &Sizes) -> u64 {
    sizes.iter().map(|(size, &n)| size.0 * u64::from(n)).sum()
}

/// Whether nearly all of the first are among the others.
fn are_within(sizes: &Sizes, others: &Sizes) -> bool {
    let both = sizes.iter().map(|(size, &n)| {
        let other = others.get(size).copied().unwrap_or(0);
        size.0 * u64::from(n.min(other))
    });
    let both: u64 = both.sum();
    both as f64 >= NEARLY_ALL * bytes(sizes) as f64
}

fn are_same(a: &Sizes, b: &Sizes) -> bool {
    are_within(a, b) && are_within(b, a)
}
