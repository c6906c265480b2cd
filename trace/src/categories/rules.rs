//! The rules themselves, one function for each phase in which a block can be made.

use super::batches::Batches;
use super::facts::{Fact, Facts};
use super::history::{History, Nth, Place};
use super::sizes::Sizes;
use super::survey::Survey;
use super::{Category, caches, dropped, kept};
use crate::footprint::{of_map, of_vec};
use crate::phases::{Phase, Phases, Role, Roles};
use crate::stacks::{FxHashMap, StackIdx, Stacks};
use crate::trace::{Action, BlockIdx, BlockKind, DeviceTrace};
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use crate::workspaces;

/// How many backward passes are remembered, to judge blocks that are still there at the end.
const REMEMBERED: usize = 3;

/// The category of every block, and the phases.
///
/// # Errors
/// [`Stopped`].
pub(super) fn apply(
    device: &DeviceTrace,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<(Vec<Category>, Phases), Stopped> {
    let roles = Roles::of(stacks);
    let facts = Facts::of(stacks, &roles);
    let watch = watch.beside(stacks.len() + facts.heap_bytes());
    watch.look(stacks.n_frames())?;
    let phases = Phases::watched(device, stacks, &roles, watch)?;
    let survey = Survey::of((device, stacks), &roles, &facts, &phases, watch)?;
    let watch = watch.beside(survey.heap_bytes());
    let growing = caches::growing(device, &roles, &facts, &survey);
    let dropped = dropped::blocks(device, &roles, &facts, &survey, watch)?;
    let batches = Batches::of(device, &roles, &facts, &survey, watch)?;
    let watch = watch.beside(of_vec(&dropped) + batches.heap_bytes());
    let mut rules = Rules {
        device,
        stacks,
        roles: &roles,
        facts: &facts,
        budget: survey.of_no_module(),
        survey: &survey,
        growing: &growing,
        dropped: &dropped,
        batches: &batches,
        failures: failures(device),
        history: History::default(),
    };
    let found = rules.all(watch)?;
    Ok((found, phases))
}

/// The events at which an allocation failed.
fn failures(device: &DeviceTrace) -> Vec<u32> {
    let actions = device.events.action.iter().enumerate();
    let failed = actions.filter(|(_, action)| **action == Action::Oom);
    failed.map(|(event, _)| event as u32).collect()
}

/// One block and what became of it.
struct Life<'a> {
    block: BlockIdx,
    kind: &'a BlockKind,
    fact: &'a Fact,
    role: Role,
    /// Position of the part in which it was made.
    part: usize,
    freed: u32,
}

/// A verdict, or a guess because the recording ends too early for a verdict.
enum Verdict {
    Is(Category),
    /// The block is still there, or was when memory ran out. What became of similar blocks decides;
    /// if that is unknown, it is this category.
    AsBefore(Category),
}

/// A block that is still there.
struct Open {
    block: BlockIdx,
    place: Place,
    nth: Nth,
    pass: u32,
    by_module: bool,
}

/// Counts the blocks of a place within a pass.
#[derive(Default)]
struct Ordinals {
    pass: u32,
    counts: FxHashMap<Place, Nth>,
}

impl Ordinals {
    fn next(&mut self, place: Place, pass: u32) -> Nth {
        if self.pass != pass {
            self.pass = pass;
            self.counts.clear();
        }
        let count = self.counts.entry(place).or_default();
        *count += 1;
        *count
    }
}

struct Rules<'a> {
    device: &'a DeviceTrace,
    stacks: &'a Stacks,
    roles: &'a Roles,
    facts: &'a Facts,
    survey: &'a Survey,
    growing: &'a [StackIdx],
    dropped: &'a [u32],
    batches: &'a Batches,
    /// Events at which memory ran out.
    failures: Vec<u32>,
    /// Gradients whose parameter has not been found yet. Modules have theirs, so what the program
    /// makes before them, as large as a weight, is not taken for it.
    budget: Sizes,
    history: History,
}

impl<'a> Rules<'a> {
    fn all(&mut self, watch: Watch<'_>) -> Result<Vec<Category>, Stopped> {
        let blocks = &self.device.blocks;
        let remembered = self.remembered();
        watch.look(blocks.len())?;
        let mut categories = Vec::with_capacity(blocks.len());
        let mut open: Vec<Open> = Vec::new();
        let mut nth = Ordinals::default();
        let mut at = 0;
        for block in (0..blocks.len() as u32).map(BlockIdx) {
            watch.at_row(block.index(), || {
                let tables = self.history.heap_bytes() + of_map(&nth.counts);
                // A full table moves to a larger one: while it moves, both exist.
                of_vec(&categories) + 3 * tables + 2 * of_vec(&open)
            })?;
            if let Some(recorded) = self.recorded(block) {
                categories.push(recorded);
                continue;
            }
            if block.0 < blocks.n_preexisting {
                categories.push(self.judge_earlier(block));
                continue;
            }
            let alloc = blocks.alloc[block.index()];
            while self.survey.parts[at].end <= alloc {
                at += 1;
            }
            let life = self.life(block, at);
            let verdict = self.judge(&life);
            let part = &self.survey.parts[at];
            let place = (life.fact.place, life.kind.requested);
            let noted = matches!(part.phase, Phase::Forward | Phase::Other) && alloc >= remembered;
            categories.push(match verdict {
                Verdict::Is(category) => {
                    if noted {
                        let nth = nth.next(place, part.pass);
                        self.history.note(place, nth, category, part.pass);
                    }
                    category
                }
                Verdict::AsBefore(otherwise) => {
                    self.history.stays(place, part.pass);
                    let nth = nth.next(place, part.pass);
                    let (pass, by_module) = (part.pass, life.role == Role::Forward);
                    open.push(Open {
                        block,
                        place,
                        nth,
                        pass,
                        by_module,
                    });
                    otherwise
                }
            });
        }
        for open in open {
            let category = &mut categories[open.block.index()];
            *category = self.recall(&open).unwrap_or(*category);
        }
        if self.survey.learns {
            let trace = (self.device, self.stacks);
            let (facts, survey) = (self.facts, self.survey);
            kept::forget(&mut categories, trace, facts, survey, &self.failures, watch)?;
        }
        Ok(categories)
    }

    /// The category of a block that is still there, judged by what became of similar blocks.
    fn recall(&self, open: &Open) -> Option<Category> {
        if open.by_module && self.survey.learns && self.history.is_collected(open.place) {
            return Some(Category::Activation);
        }
        let earlier = self.history.recall(open.place, open.nth, open.pass);
        // Where nothing learns, a loop of calls is one pass. What autograd saved in earlier calls
        // tells; what else went says nothing of what a single call keeps.
        let within = || match self.survey.learns {
            true => None,
            false => self.history.recall(open.place, open.nth, open.pass + 1),
        };
        let is_saved = |category: &Category| *category == Category::Activation;
        earlier.or_else(|| within().filter(is_saved))
    }

    /// The first event of the passes that are remembered.
    fn remembered(&self) -> u32 {
        let backward = |s: &&super::survey::Part| s.phase == Phase::Backward;
        let last = self.survey.parts.iter().rev().filter(backward);
        last.map(|s| s.end).nth(REMEMBERED).unwrap_or(0)
    }

    fn life(&self, block: BlockIdx, part: usize) -> Life<'a> {
        let kind = self.device.blocks.kind(block);
        Life {
            block,
            kind,
            fact: self.facts.get(kind.alloc_stack),
            role: self.roles.get(kind.alloc_stack),
            part,
            freed: self.device.blocks.free_requested[block.index()],
        }
    }

    fn lasts(&self, life: &Life<'_>) -> bool {
        life.freed >= self.device.events.len()
    }

    fn recorded(&self, block: BlockIdx) -> Option<Category> {
        let text = self.device.blocks.kind(block).metadata?;
        super::recorded(self.stacks.str(text))
    }

    fn judge(&mut self, life: &Life<'_>) -> Verdict {
        let fact = life.fact;
        if fact.workspace {
            return Verdict::Is(Category::Temporary);
        }
        if fact.bucket || self.is_buffer_of_gradients(fact) {
            return Verdict::Is(Category::Gradient);
        }
        if fact.of_parameter {
            return Verdict::Is(Category::Parameter);
        }
        if self.lasts(life)
            && life.role != Role::ModelSetup
            && self
                .survey
                .is_taken_for_a_product(self.device, life.role, life.block)
        {
            return Verdict::Is(Category::Temporary);
        }
        if self.is_cleared(life) {
            return Verdict::Is(Category::Gradient);
        }
        let part = &self.survey.parts[life.part];
        let grows = self.growing.binary_search(&life.kind.alloc_stack).is_ok();
        let cached = fact.cache || grows && !self.may_be_workspace(life);
        if cached
            && (life.role != Role::ModelSetup || fact.of_cache)
            && part.phase != Phase::Backward
            && !self.is_brief(life)
        {
            return self.made_by_cache(life);
        }
        match (part.phase, life.role) {
            (Phase::Backward, _) => Verdict::Is(self.made_in_backward(life)),
            (_, Role::Optimizer | Role::OptimizerSetup) | (Phase::Optimizer, _) => {
                // The norm that clipping returns is the program's, which logs it, or keeps it.
                Verdict::Is(if life.freed < part.end || fact.clips {
                    Category::Temporary
                } else if life.role == Role::Program && self.survey.has_optimizer {
                    // The optimizer has its own state. This may be copies of the weights.
                    Category::Unknown
                } else {
                    Category::OptimizerState
                })
            }
            (Phase::Setup, _) | (_, Role::ModelSetup) => Verdict::Is(self.made_in_setup(life)),
            (Phase::Forward, _) => self.made_in_forward(life),
            (Phase::Other, _) => self.made_by_program(life),
            (Phase::Unknown, _) => Verdict::Is(Category::Unknown),
        }
    }

    /// Whether `zero_grad` takes what a line of the program makes, as copies of gradients in 32
    /// bits for weights of 32 bits. It has not come to the newest ones yet.
    fn is_cleared(&self, life: &Life<'_>) -> bool {
        let part = &self.survey.parts[life.part];
        let stack = life.kind.alloc_stack;
        life.role == Role::Program
            && part.pass > 0
            && self.batches.is_cleared(stack)
            && (self.lasts(life) || self.roles.get(life.kind.free_stack) == Role::ZeroGrad)
    }

    /// The category of a block of a cache of keys and values. Where a model is trained with
    /// `use_cache=True`, its cache holds what the backward pass needs, and goes with it.
    fn made_by_cache(&self, life: &Life<'_>) -> Verdict {
        let part = &self.survey.parts[life.part];
        let Some(at) = part.backward.filter(|_| part.phase == Phase::Forward) else {
            return match self.survey.learns && self.lasts(life) {
                true => Verdict::AsBefore(Category::KvCache),
                false => Verdict::Is(Category::KvCache),
            };
        };
        let backward = &self.survey.parts[at];
        let saved = self.facts.get(life.kind.free_stack).saved;
        let n_events = self.device.events.len();
        if saved {
            Verdict::Is(Category::Activation)
        } else if life.freed < backward.start {
            Verdict::Is(Category::KvCache)
        } else if self.lasts(life) && backward.end == n_events {
            Verdict::AsBefore(Category::Activation)
        } else if self.lasts(life) {
            Verdict::AsBefore(Category::KvCache)
        } else if self.survey.passes_between(at, life.freed) < 2 {
            // A variable may hold it until the next step sets it again.
            Verdict::Is(Category::Activation)
        } else {
            Verdict::Is(Category::KvCache)
        }
    }

    /// Whether a block stays, and by its size may be a workspace. Where nothing learns, it must be
    /// the only one of that size on its stream.
    fn may_be_workspace(&self, life: &Life<'_>) -> bool {
        let requested = life.kind.requested;
        self.lasts(life)
            && (workspaces::is_size(requested) && self.survey.learns
                || self.survey.is_like_workspace(life.kind))
    }

    /// Whether a block is gone before the next call of the model. Such a block of a cache's code is
    /// only scratch.
    fn is_brief(&self, life: &Life<'_>) -> bool {
        let alloc = self.device.blocks.alloc[life.block.index()];
        let calls = &self.survey.program;
        let next = calls.partition_point(|&event| event <= alloc);
        let next = calls.get(next).copied();
        life.freed < next.unwrap_or(self.device.events.len())
    }

    /// Whether a block outlived a call of the model and was given back when a cache made its next
    /// block. Such blocks hold the keys and values of the prompt.
    fn feeds_cache(&self, life: &Life<'_>) -> bool {
        if self.growing.is_empty() || self.is_brief(life) {
            return false;
        }
        let (events, blocks) = (&self.device.events, &self.device.blocks);
        let near = life.freed.saturating_sub(caches::NEAR)..life.freed;
        let mut made = near.filter(|&e| events.action[e as usize] == Action::Alloc);
        made.any(|event| {
            let stack = blocks
                .kind(BlockIdx(events.target[event as usize]))
                .alloc_stack;
            self.growing.binary_search(&stack).is_ok()
        })
    }

    fn made_in_setup(&mut self, life: &Life<'_>) -> Category {
        let (fact, kind) = (life.fact, life.kind);
        if fact.apply_line.is_none() && life.freed < self.survey.parts[life.part].end {
            return Category::Temporary;
        }
        let buffer_line = self.survey.buffer_line;
        // Counters are buffers, so they do not move with the parameters.
        let moves_first = fact.apply_line > Some(0) && fact.apply_line < buffer_line;
        let counter = kind.requested == Bytes(8) && fact.of_module && !moves_first;
        let buffer = fact.apply_line.is_some() && fact.apply_line == buffer_line;
        if counter || buffer {
            return Category::Buffer;
        }
        let copies = self.survey.copies.get(&kind.alloc_stack);
        if let Some(&copies) = copies.filter(|_| !fact.of_module) {
            return match self.budget.take(kind.requested) {
                true => Category::Parameter,
                false => copies,
            };
        }
        let is_trained = fact.of_module || self.budget.take(kind.requested);
        if fact.shard_line > self.survey.shard_line {
            Category::OptimizerState
        } else if fact.of_object && !is_trained && self.survey.shows_gradients() {
            // An object of the program may be anything. What it makes may be data; or buffers, if
            // it may be a module.
            match fact.beside_forward {
                true => Category::Unknown,
                false => Category::Input,
            }
        } else if !is_trained && self.may_be_a_pool(fact) {
            Category::Unknown
        } else {
            Category::Parameter
        }
    }

    fn is_buffer_of_gradients(&self, fact: &Fact) -> bool {
        fact.buffer_of_gradients.is_some() && fact.buffer_of_gradients == self.survey.gradient_line
    }

    /// Whether an object of the program made a block on the device itself, while modules are moved
    /// there: a pool or a buffer, as far as anyone can tell.
    fn may_be_a_pool(&self, fact: &Fact) -> bool {
        fact.in_init && self.survey.moves_modules
    }

    fn made_in_backward(&self, life: &Life<'_>) -> Category {
        let part = &self.survey.parts[life.part];
        let free = self.facts.get(life.kind.free_stack);
        if life.freed < part.end {
            // A checkpoint recomputes this block, and the backward pass then consumes it, or would
            // have done so.
            let is_consumed = !free.calls_module || self.is_cut_off(life);
            let again = life.fact.calls_module && is_consumed;
            return if again {
                Category::Activation
            } else {
                Category::Temporary
            };
        }
        let cleared = self.roles.get(life.kind.free_stack) == Role::ZeroGrad
            || self.lasts(life) && self.batches.is_cleared(life.kind.alloc_stack);
        let parameters = &self.survey.parameters;
        let waits = self.survey.waits_for_later_pass(life.part, life.freed);
        if cleared || life.fact.accumulates {
            Category::Gradient
        } else if self.is_spare(life) {
            Category::Temporary
        } else if waits && self.roles.get(life.kind.free_stack) != Role::Program {
            // A second backward pass goes through what the first one made, and gives it back. The
            // gradient of a weight goes when the program clears it.
            Category::Activation
        } else if part.end == self.device.events.len() && life.fact.calls_module {
            // The backward pass is not over, and a checkpoint recomputes this block, whatever its
            // size.
            Category::Activation
        } else if parameters.has(life.kind.requested) {
            Category::Gradient
        } else if self.lasts(life) && workspaces::is_size(life.kind.requested) {
            Category::Temporary
        } else if waits {
            Category::Activation
        } else if parameters.is_empty() && !self.lasts(life) {
            // Nothing is known about the parameters.
            Category::Gradient
        } else if part.end == self.device.events.len() {
            Category::Temporary
        } else {
            Category::Unknown
        }
    }

    /// Whether a block that autograd's thread made, with no code in Python, is one more than there
    /// can be gradients: its workspace.
    fn is_spare(&self, life: &Life<'_>) -> bool {
        let pass = self.survey.parts[life.part].pass;
        life.role == Role::Silent
            && self.lasts(life)
            && self.survey.is_beyond_gradients(pass, life.kind.requested)
    }

    /// Whether memory ran out while the block was there. The exception then gave it back, so that
    /// its end says nothing of what it was for.
    fn is_cut_off(&self, life: &Life<'_>) -> bool {
        let made = self.device.blocks.alloc[life.block.index()];
        let next = self.failures.partition_point(|&event| event <= made);
        self.failures
            .get(next)
            .is_some_and(|&event| event <= life.freed)
    }

    fn made_in_forward(&self, life: &Life<'_>) -> Verdict {
        let part = &self.survey.parts[life.part];
        if self.is_cut_off(life) && !self.lasts(life) && !self.feeds_cache(life) {
            return Verdict::AsBefore(Category::Activation);
        }
        if self.is_batch(life) {
            return Verdict::Is(self.given(life));
        }
        if life.freed < part.end {
            return Verdict::Is(self.gone_in_forward(life));
        }
        let lasts = self.lasts(life);
        let saved = self.is_saved(life) || self.is_dropped(life) || self.is_walked_through(life);
        let Some(at) = part.backward else {
            return if saved {
                Verdict::Is(Category::Activation)
            } else if !lasts {
                Verdict::Is(Category::Temporary)
            } else if self.may_be_workspace(life) {
                Verdict::AsBefore(Category::Temporary)
            } else if self.survey.learns || self.survey.keeps {
                Verdict::AsBefore(Category::Activation)
            } else {
                Verdict::AsBefore(Category::Unknown)
            };
        };
        let backward = &self.survey.parts[at];
        if saved {
            Verdict::Is(Category::Activation)
        } else if life.freed < backward.start {
            Verdict::Is(Category::Temporary)
        } else if life.freed < backward.end {
            Verdict::Is(Category::Activation)
        } else if self.survey.waits_for_later_pass(at, life.freed) {
            // The pass of another loss comes first.
            Verdict::Is(Category::Activation)
        } else if lasts && workspaces::is_size(life.kind.requested) {
            // A workspace is made once and kept, while other blocks of this size are made again and
            // again.
            Verdict::Is(Category::Temporary)
        } else if lasts && backward.end == self.device.events.len() {
            Verdict::AsBefore(Category::Activation)
        } else if lasts {
            Verdict::AsBefore(Category::Temporary)
        } else if self.survey.passes_between(at, life.freed) < 2 {
            // A variable holds the block until the next step sets it again. If it is held longer,
            // the program keeps it on purpose.
            Verdict::Is(Category::Temporary)
        } else {
            Verdict::Is(match life.role {
                // A trainer that ends gives back the workspaces, too.
                Role::Forward if self.survey.is_like_workspace(life.kind) => Category::Temporary,
                Role::Forward => Category::Activation,
                // As large as what is trained: weights that are kept, for example the best so far.
                _ if self.is_owned(life) => Category::Unknown,
                _ => Category::Temporary,
            })
        }
    }

    /// The category of a block that is given back before its forward pass ends.
    fn gone_in_forward(&self, life: &Life<'_>) -> Category {
        if self.feeds_cache(life) {
            Category::KvCache
        } else if self.is_dropped(life) || self.is_saved(life) && !self.survey.learns {
            // Where nothing learns, a loop of many calls is one pass. What autograd saved in a call
            // waits for a backward pass until the next call's output takes its place.
            Category::Activation
        } else {
            Category::Temporary
        }
    }

    /// Whether a stack of autograd gave back a block.
    fn is_saved(&self, life: &Life<'_>) -> bool {
        self.facts.get(life.kind.free_stack).saved
    }

    /// Whether a block went with a graph that no backward pass goes through.
    fn is_dropped(&self, life: &Life<'_>) -> bool {
        self.dropped.binary_search(&life.block.0).is_ok()
    }

    /// Whether a backward pass gave back a block. The program waits while it runs, so nothing but
    /// autograd held the block. That may be a later pass, behind an optimizer's step: what a
    /// generator has made waits until the discriminator has learned from it.
    fn is_walked_through(&self, life: &Life<'_>) -> bool {
        let by = self.roles.get(life.kind.free_stack);
        self.survey.frees_tell
            && matches!(by, Role::Backward | Role::Silent)
            && self.survey.is_in_backward(life.freed)
    }

    /// Whether another block of the same line of the program was made before the model was called
    /// at all, and both were there in the next call.
    fn is_batch(&self, life: &Life<'_>) -> bool {
        let (stack, made) = (
            life.kind.alloc_stack,
            self.device.blocks.alloc[life.block.index()],
        );
        life.role == Role::Program && self.batches.has(stack, made, life.freed)
    }

    /// The category of what the program hands to a model.
    fn given(&self, life: &Life<'_>) -> Category {
        match self.is_owned(life) {
            true => Category::Unknown,
            false => Category::Input,
        }
    }

    fn made_by_program(&mut self, life: &Life<'_>) -> Verdict {
        let part = &self.survey.parts[life.part];
        if life.freed < part.end {
            return Verdict::Is(Category::Temporary);
        }
        let alloc = self.device.blocks.alloc[life.block.index()];
        let lasts = self.lasts(life);
        let first = self.survey.first_forward;
        if first.is_none_or(|first| alloc < first) && lasts {
            let requested = life.kind.requested;
            return Verdict::Is(match self.survey.copies.get(&life.kind.alloc_stack) {
                _ if !self.survey.was_there(requested) && self.budget.take(requested) => {
                    Category::Parameter
                }
                Some(&copies) => copies,
                // All parameters in one, or all gradients.
                None if self.survey.is_of_a_flat_parameter(requested) => Category::Unknown,
                None if first.is_some() => Category::Input,
                None => Category::Unknown,
            });
        }
        match part.forward {
            Some(_) if self.survey.is_functional() && self.is_walked_through(life) => {
                Verdict::Is(Category::Activation)
            }
            Some(forward) if life.freed >= forward => Verdict::Is(self.given(life)),
            None if lasts => Verdict::AsBefore(Category::Unknown),
            _ => Verdict::Is(Category::Temporary),
        }
    }

    /// Whether a block that the program made in training outlives two backward passes, and is as
    /// large as what such passes leave behind: a weight that takes the place of another, or the
    /// state of an optimizer written by hand. Data go with their step.
    fn is_owned(&self, life: &Life<'_>) -> bool {
        let part = &self.survey.parts[life.part];
        let outlives = |backward| self.survey.passes_between(backward, life.freed) > 0;
        part.pass > 0
            && part.backward.is_some_and(outlives)
            && self.survey.left_behind.has(life.kind.requested)
    }

    /// Judges blocks that existed before the first event, by what became of them, or by where they
    /// were made if the recorder noted that.
    fn judge_earlier(&self, block: BlockIdx) -> Category {
        let blocks = &self.device.blocks;
        let kind = blocks.kind(block);
        let freed = blocks.free_requested[block.index()];
        let stays = freed >= self.device.events.len();
        let made = match (
            self.roles.get(kind.alloc_stack),
            self.facts.get(kind.alloc_stack),
        ) {
            (_, fact) if fact.workspace || fact.clips => Some(Category::Temporary),
            (_, fact) if fact.bucket || self.is_buffer_of_gradients(fact) => {
                Some(Category::Gradient)
            }
            (_, fact) if fact.of_parameter => Some(Category::Parameter),
            (_, fact) if fact.cache && !fact.of_module => Some(Category::KvCache),
            (Role::ModelSetup, fact) => Some(match fact.apply_line {
                Some(_) if fact.apply_line == self.survey.buffer_line => Category::Buffer,
                _ if self.may_be_a_pool(fact) && self.survey.was_moved(kind.requested) => {
                    Category::Unknown
                }
                _ => Category::Parameter,
            }),
            (Role::Optimizer | Role::OptimizerSetup, _) => Some(Category::OptimizerState),
            // Beside a gradient, there is its parameter.
            (Role::Backward, _) if stays && self.survey.is_alone_of_workspaces(kind) => {
                Some(Category::Temporary)
            }
            (Role::Backward, _) if self.survey.parameters.has(kind.requested) => {
                Some(Category::Gradient)
            }
            (Role::Backward, _) if stays && self.survey.is_like_workspace(kind) => {
                Some(Category::Temporary)
            }
            (Role::Forward, _) => Some(if stays && self.survey.is_like_workspace(kind) {
                Category::Temporary
            } else if stays && workspaces::is_size(kind.requested) && self.survey.passes > 1 {
                // Backward passes have come, and none took it.
                Category::Unknown
            } else {
                Category::Activation
            }),
            _ => None,
        };
        if let Some(made) = made {
            return made;
        }
        let free = kind.free_stack;
        if stays {
            match self.survey.is_bare(kind.requested) {
                true => Category::Parameter,
                false => Category::Before,
            }
        } else if self.roles.get(free) == Role::ZeroGrad {
            Category::Gradient
        } else if self.facts.get(free).saved {
            Category::Activation
        } else {
            Category::Before
        }
    }
}
