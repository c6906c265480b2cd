//! What the rules have to know of a whole recording before they judge a block.

use super::Category;
use super::facts::{Fact, Facts};
use super::sizes::Sizes;
use super::surplus::Surplus;
use crate::footprint::{of_map, of_vec};
use crate::phases::{Phase, Phases, Role, Roles};
use crate::stacks::{FxHashMap, StackIdx, Stacks};
use crate::tally::Tally;
use crate::trace::{BlockIdx, BlockKind, DeviceTrace, Origin};
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use crate::workspaces::{self, Alike};
use std::collections::HashSet;

/// If at least this share of a forward pass's blocks stays, they wait for a backward pass. A model
/// that only infers gives back nearly everything.
const KEPT: f64 = 0.25;

/// A part of the recording in one phase, and what follows it.
pub(super) struct Part {
    pub phase: Phase,
    pub start: u32,
    pub end: u32,
    /// Position of the backward pass that it leads to.
    pub backward: Option<usize>,
    /// First event of the next forward pass.
    pub forward: Option<u32>,
    /// How many backward passes come before it.
    pub pass: u32,
}

impl Part {
    /// Whether a block of it, given back at an event, is one that setup leaves behind.
    fn sets_up(&self, freed: u32) -> bool {
        self.phase == Phase::Setup && freed >= self.end
    }
}

pub(super) struct Survey {
    pub parts: Vec<Part>,
    /// What backward passes leave behind: for each size, the largest count that one pass left.
    pub gradients: Sizes,
    /// Blocks that were made as part of a module, or that are from before the recording and stay.
    pub parameters: Sizes,
    /// Blocks that were made as part of a module.
    of_modules: Sizes,
    /// Whether all of these were moved to the device, and none was made there.
    pub moves_modules: bool,
    /// Blocks from before that stay.
    before: Sizes,
    /// Those of them that were moved to the device with a module.
    moved_before: Sizes,
    /// The line of `Module._apply` that moves buffers.
    pub buffer_line: Option<u32>,
    /// The line at which Megatron's buffer of gradients is made: the last one.
    pub gradient_line: Option<u32>,
    /// The first line at which DeepSpeed's optimizer makes flat blocks: those of the parameters.
    pub shard_line: Option<u32>,
    /// Stacks of the program whose blocks are a copy of all that is trained, and what these are.
    pub copies: FxHashMap<StackIdx, Category>,
    /// Whether an optimizer of PyTorch, or of a library, is at work.
    pub has_optimizer: bool,
    /// What backward passes leave behind, as large as a parameter or not.
    pub left_behind: Sizes,
    /// The first event of a forward pass.
    pub first_forward: Option<u32>,
    /// Events at which the program allocates outside of any module.
    pub program: Vec<u32>,
    /// How many blocks there are of each size of a workspace, by stream.
    like_workspaces: Alike,
    /// Backward passes.
    pub passes: u32,
    /// Whether, for nearly all gradients, as many lasting blocks of the same size are from before
    /// the recording.
    bare: bool,
    /// Whether there is a backward pass.
    pub learns: bool,
    /// Whether forward passes without a backward pass keep much of what they make.
    pub keeps: bool,
    /// Whether a module is called.
    calls_modules: bool,
    /// Whether it is known where blocks were given back.
    pub frees_tell: bool,
    /// Sizes of what optimizers make and keep.
    states: Sizes,
    /// Blocks of a workspace's size beside tensors of that size.
    surplus: Surplus,
}

impl Survey {
    pub fn of(
        (device, stacks): (&DeviceTrace, &Stacks),
        roles: &Roles,
        facts: &Facts,
        phases: &Phases,
        watch: Watch<'_>,
    ) -> Result<Survey, Stopped> {
        watch.look(phases.heap_bytes() + phases.spans().len() * size_of::<Part>())?;
        let parts = parts(phases);
        let forward = parts.iter().find(|s| s.phase == Phase::Forward);
        let mut survey = Survey {
            first_forward: forward.map(|s| s.start),
            learns: phases.has(Phase::Backward),
            parts,
            gradients: Sizes::default(),
            parameters: Sizes::default(),
            of_modules: Sizes::default(),
            moves_modules: false,
            before: Sizes::default(),
            moved_before: Sizes::default(),
            buffer_line: None,
            gradient_line: None,
            shard_line: None,
            copies: FxHashMap::default(),
            has_optimizer: has_optimizer(device, stacks, roles, facts),
            left_behind: Sizes::default(),
            program: Vec::new(),
            like_workspaces: Alike::default(),
            keeps: false,
            passes: 0,
            bare: false,
            calls_modules: false,
            frees_tell: device
                .blocks
                .kinds
                .iter()
                .any(|kind| kind.free_stack != StackIdx::NONE),
            states: Sizes::default(),
            surplus: Surplus::default(),
        };
        let mut backward = survey.parts.iter().filter(|s| s.phase == Phase::Backward);
        survey.passes = backward.clone().count() as u32;
        survey.surplus = Surplus::new(facts.len(), backward.next().map(|s| s.end));
        let watch = watch.beside(phases.heap_bytes());
        survey.count_like_workspaces(device, watch)?;
        let candidates = survey.blocks(device, roles, facts, watch)?;
        survey.bare = survey.gradients.equal_in(&survey.before);
        survey.find_buffer_line(device, roles, facts);
        survey.surplus.buffers_at(survey.buffer_line);
        let made = device.blocks.kinds.iter().map(|kind| kind.alloc_stack);
        let lines = made.filter_map(|stack| facts.get(stack).buffer_of_gradients);
        survey.gradient_line = lines.max();
        survey.moves_modules = moves_modules(device, roles, facts);
        survey.find_copies(candidates, facts, keeps_pairs(device, stacks));
        Ok(survey)
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        let sizes = [
            &self.gradients,
            &self.left_behind,
            &self.parameters,
            &self.of_modules,
            &self.before,
            &self.moved_before,
            &self.states,
        ];
        let sizes: usize = sizes.into_iter().map(Sizes::heap_bytes).sum();
        // The rules keep a copy of `gradients`: those whose parameter is not found yet.
        let alike = self.like_workspaces.heap_bytes() + self.surplus.heap_bytes();
        let tables = of_vec(&self.program) + alike;
        of_vec(&self.parts) + tables + sizes + self.gradients.heap_bytes()
    }

    /// Walks over the blocks once. Returns, by stack, the sizes of the blocks that the program made
    /// before the first forward pass and keeps.
    fn blocks(
        &mut self,
        device: &DeviceTrace,
        roles: &Roles,
        facts: &Facts,
        watch: Watch<'_>,
    ) -> Result<FxHashMap<StackIdx, Sizes>, Stopped> {
        let blocks = &device.blocks;
        let n_events = device.events.len();
        let mut candidates: FxHashMap<StackIdx, Sizes> = FxHashMap::default();
        let mut left = Sizes::default();
        let (mut at, mut made, mut kept) = (0, Tally::default(), Tally::default());
        // Number of sizes of all candidates; in the worst case each has a table of its own.
        let mut n_candidates = 0;
        for block in (0..blocks.len() as u32).map(BlockIdx) {
            watch.at_row(block.index(), || {
                let tables = left.heap_bytes() + of_map(&candidates) + n_candidates * 96;
                self.held_with(tables)
            })?;
            let (kind, freed) = (blocks.kind(block), blocks.free_requested[block.index()]);
            let (stack, requested) = (kind.alloc_stack, kind.requested);
            let (role, fact) = (roles.get(stack), facts.get(stack));
            if block.0 < blocks.n_preexisting {
                if blocks.origin(block, n_events) == Origin::Preexisting && !fact.workspace {
                    self.add_earlier(requested, role, fact);
                }
                continue;
            }
            let alloc = blocks.alloc[block.index()];
            while self.parts[at].end <= alloc {
                self.end_part(at, &mut left);
                at += 1;
            }
            if role == Role::Program {
                self.program.push(alloc);
            }
            self.note(role, fact, (requested, freed >= n_events));
            let part = &self.parts[at];
            let early = self.first_forward.is_none_or(|first| alloc < first);
            let line = fact.shard_line.filter(|_| part.sets_up(freed));
            self.shard_line = self.shard_line.into_iter().chain(line).min();
            match part.phase {
                Phase::Forward if part.backward.is_none() && role == Role::Forward => {
                    made.add(requested);
                    if freed >= n_events && !fact.workspace {
                        kept.add(requested);
                    }
                }
                _ if freed < part.end || fact.workspace => {}
                _ if freed >= n_events && self.is_taken_for_a_product(device, role, block) => {}
                Phase::Backward => left.add(requested),
                Phase::Setup if fact.of_module => {
                    self.parameters.add(requested);
                    self.of_modules.add(requested);
                    self.surplus.of_module(fact, requested);
                }
                Phase::Setup | Phase::Other if early && freed >= n_events => {
                    n_candidates += 1;
                    candidates.entry(stack).or_default().add(requested);
                    self.parameters.add(requested);
                }
                _ => {}
            }
        }
        self.end_passes(&left);
        let much = |kept: u64, made: u64| kept as f64 >= KEPT * made.max(1) as f64;
        self.keeps = much(kept.count, made.count) || much(kept.bytes.0, made.bytes.0);
        Ok(candidates)
    }

    /// Notes what a block shows by itself: its size, and whether it stays.
    fn note(&mut self, role: Role, fact: &Fact, (requested, stays): (Bytes, bool)) {
        self.calls_modules |= fact.calls_module;
        if role == Role::Optimizer && stays && !fact.clips {
            self.states.add(requested);
        }
    }

    /// Notes what a part left behind, if it is a backward pass.
    fn end_part(&mut self, at: usize, left: &mut Sizes) {
        if self.parts[at].phase == Phase::Backward {
            self.surplus.left(self.parts[at].pass, left);
            self.gradients.at_least(&std::mem::take(left));
        }
    }

    /// Tells the gradients from the rest of what backward passes leave behind; so much is of the
    /// last one.
    fn end_passes(&mut self, left: &Sizes) {
        self.gradients.at_least(left);
        self.left_behind = self.gradients.clone();
        self.gradients.retain_in(&self.parameters);
    }

    /// Heap bytes while tables grow: a full one moves to a larger one, and both exist then. The
    /// parts are complete.
    fn held_with(&self, tables: usize) -> usize {
        let parts = of_vec(&self.parts);
        parts + 3 * (self.heap_bytes() - parts + tables)
    }

    /// Counts a block from before the recording that stays. What a pass has made is no parameter.
    fn add_earlier(&mut self, requested: Bytes, role: Role, fact: &Fact) {
        self.before.add(requested);
        // Nor is what a library's function makes beside a product: its workspace.
        let in_library = role == Role::Program && !fact.of_program && !fact.of_module;
        let is_product = in_library && workspaces::is_size(requested);
        if !matches!(role, Role::Forward | Role::Backward) && !is_product {
            self.parameters.add(requested);
        }
        if fact.apply_line.is_some() {
            self.moved_before.add(requested);
        }
    }

    fn count_like_workspaces(
        &mut self,
        device: &DeviceTrace,
        watch: Watch<'_>,
    ) -> Result<(), Stopped> {
        let blocks = &device.blocks;
        for index in 0..blocks.len() as u32 {
            watch.at_row(index as usize, || {
                3 * (self.like_workspaces.heap_bytes() + self.surplus.heap_bytes())
            })?;
            let kind = blocks.kind(BlockIdx(index));
            self.like_workspaces.add(kind);
            if index >= blocks.n_preexisting {
                let [alloc, freed] =
                    [&blocks.alloc, &blocks.free_requested].map(|of| of[index as usize]);
                self.surplus.made(kind, alloc, freed >= device.events.len());
            }
        }
        Ok(())
    }

    /// `Module._apply` goes through parameters first, so the last of its lines is that of buffers.
    fn find_buffer_line(&mut self, device: &DeviceTrace, roles: &Roles, facts: &Facts) {
        let stacks = device.blocks.kinds.iter().map(|kind| kind.alloc_stack);
        let setup = stacks.filter(|&stack| roles.get(stack) == Role::ModelSetup);
        let lines: HashSet<u32> = setup
            .filter_map(|stack| facts.get(stack).apply_line)
            .filter(|&line| line > 0)
            .collect();
        self.buffer_line = lines.iter().copied().max().filter(|_| lines.len() > 1);
    }

    /// Finds stacks that made one block for each of most trained tensors, of equal size or of twice
    /// the size (32 bits for 16). An optimizer of PyTorch or of a library makes its own state: what
    /// is equally large may be anything then. Twice the size of a large tensor is often another
    /// tensor's, so most of them must have such a block, and not only most bytes.
    ///
    /// An optimizer that keeps two tensors for each parameter (`pairs`) and makes none has loaded
    /// them: if two for each parameter stay of what was read from a file, these are its state.
    fn find_copies(&mut self, candidates: FxHashMap<StackIdx, Sizes>, facts: &Facts, pairs: bool) {
        let trained = match self.gradients.is_empty() {
            true => &self.of_modules,
            false => &self.gradients,
        };
        let all = trained.bytes();
        let pairs = pairs && trained.bytes_in(&self.states, 1) == 0;
        for (stack, own) in candidates {
            let loaded = pairs && facts.get(stack).loads && trained.times_in(&own, 2);
            let [alike, twice] = [1, 2].map(|factor| trained.bytes_in(&own, factor) * 2 >= all);
            let twice = twice && trained.blocks_in(&own, 2) * 2 >= trained.blocks();
            let copies = match self.has_optimizer && !twice && !loaded {
                true => Category::Unknown,
                false => Category::OptimizerState,
            };
            if all > 0 && (alike || twice) {
                self.copies.insert(stack, copies);
            }
        }
    }

    /// Whether a block is the only one of its size on its stream, and that is a workspace's. What a
    /// model makes comes again in the next call. Where it learns, autograd's thread has a workspace
    /// of its own.
    pub fn is_like_workspace(&self, kind: &BlockKind) -> bool {
        let alike = self.like_workspaces.count(kind);
        alike == 1 || self.learns && alike == 2
    }

    /// Whether a block is [like a workspace](Survey::is_like_workspace), and the line that made it
    /// made something else, too, just before or after it: a product needs a workspace beside what
    /// it is for. A line that makes a parameter makes nothing else, or its equals. Or the line of
    /// the program runs in training, and left a block of such a size [once](Surplus::is_left_once).
    pub fn is_taken_for_a_product(
        &self,
        device: &DeviceTrace,
        role: Role,
        block: BlockIdx,
    ) -> bool {
        let kind = device.blocks.kind(block);
        let is_beside = |other: u32| {
            device.blocks.made().contains(&other) && {
                let other = device.blocks.kind(BlockIdx(other));
                other.alloc_stack == kind.alloc_stack && other.requested != kind.requested
            }
        };
        let is_alone = || {
            self.is_like_workspace(kind)
                && (is_beside(block.0.wrapping_sub(1)) || is_beside(block.0 + 1))
        };
        let alloc = device.blocks.alloc[block.index()];
        let is_once = || self.surplus.is_left_once(kind, role, alloc);
        workspaces::is_size(kind.requested) && (is_alone() || is_once())
    }

    /// Whether a block that a backward pass leaves behind, and that lasts, has the size of a
    /// workspace, and is one more than there can be gradients of it.
    pub fn is_beyond_gradients(&self, pass: u32, requested: Bytes) -> bool {
        workspaces::is_size(requested) && self.surplus.is_beyond(pass, requested, &self.parameters)
    }

    /// The gradients whose parameter was not made as part of a module.
    pub fn of_no_module(&self) -> Sizes {
        self.gradients.without(&self.of_modules)
    }

    /// Whether an event is in a backward pass.
    pub fn is_in_backward(&self, event: u32) -> bool {
        let at = self.parts.partition_point(|part| part.end <= event);
        let part = self.parts.get(at);
        part.is_some_and(|part| part.phase == Phase::Backward)
    }

    /// Whether the program calls no module, so that its own lines are the forward pass.
    pub fn is_functional(&self) -> bool {
        !self.calls_modules
    }

    /// Whether an optimizer keeps blocks of this size, and no gradient has it: they belong to a
    /// parameter into whose gradient backward passes only write.
    pub fn is_of_a_flat_parameter(&self, requested: Bytes) -> bool {
        self.states.has(requested) && !self.gradients.has(requested)
    }

    /// Whether a block that outlived a backward pass was given back in a later one, with no step of
    /// an optimizer between the two.
    pub fn waits_for_later_pass(&self, backward: usize, freed: u32) -> bool {
        let later = self.parts[backward + 1..].iter();
        let mut until = later.take_while(|part| part.start <= freed);
        let last = until.clone().last();
        last.is_some_and(|part| part.phase == Phase::Backward && freed < part.end)
            && until.all(|part| part.phase != Phase::Optimizer)
    }

    /// Whether no other block on its stream has the size of a block, and that is a workspace's.
    pub fn is_alone_of_workspaces(&self, kind: &BlockKind) -> bool {
        self.like_workspaces.has_alone(kind)
    }

    /// Whether the recording shows the gradients of most of what was made as part of a module.
    pub fn shows_gradients(&self) -> bool {
        let gradients = self.gradients.bytes();
        gradients > 0 && gradients * 2 >= self.of_modules.bytes()
    }

    /// How many trained parameters of a size are known: as many as were made as part of a module,
    /// or as one backward pass left gradients of.
    pub fn parameters_of(&self, requested: Bytes) -> u32 {
        let made = self.of_modules.count(requested);
        made.max(self.gradients.count(requested))
    }

    /// The events at which backward passes begin.
    pub fn backward_starts(&self) -> Vec<u32> {
        let backward = self.parts.iter().filter(|s| s.phase == Phase::Backward);
        backward.map(|s| s.start).collect()
    }

    /// How many backward passes end between the end of a given one and an event.
    pub fn passes_between(&self, backward: usize, event: u32) -> usize {
        let ended = self.parts.partition_point(|s| s.end <= event);
        let before = |at: usize| match self.parts.get(at) {
            Some(part) => part.pass,
            None => self.passes,
        };
        before(ended.max(backward + 1)) as usize - before(backward + 1) as usize
    }

    /// Whether the parameters of all gradients of this size may be from before the recording, as
    /// they are where a ring began in the middle of training.
    pub fn was_there(&self, requested: Bytes) -> bool {
        let count = self.gradients.count(requested);
        count > 0 && self.before.count(requested) >= count
    }

    /// Whether as many blocks from before were moved to the device with a module as there are
    /// gradients of this size: all parameters of it.
    pub fn was_moved(&self, requested: Bytes) -> bool {
        self.moved_before.count(requested) >= self.gradients.count(requested)
    }

    /// Whether there is exactly one lasting block from before the recording for each gradient of
    /// this size, and this holds for nearly all gradients. Then there is no optimizer state.
    pub fn is_bare(&self, requested: Bytes) -> bool {
        let count = self.gradients.count(requested);
        count > 0 && self.before.count(requested) == count && self.bare
    }
}

/// Whether an optimizer of PyTorch, or of a library, is at work, as scopes or stacks show.
fn has_optimizer(device: &DeviceTrace, stacks: &Stacks, roles: &Roles, facts: &Facts) -> bool {
    let mut scopes = device.annotations.iter();
    let mut makers = device.blocks.kinds.iter().map(|kind| kind.alloc_stack);
    let is_step = |stack| roles.get(stack) == Role::Optimizer && !facts.get(stack).clips;
    scopes.any(|scope| stacks.str(scope.name).starts_with("Optimizer.step")) || makers.any(is_step)
}

/// Whether an optimizer steps that keeps two tensors for each parameter.
fn keeps_pairs(device: &DeviceTrace, stacks: &Stacks) -> bool {
    const CLASSES: [&str; 5] = ["Adam", "AdamW", "NAdam", "RAdam", "Adamax"];
    let mut scopes = device.annotations.iter();
    scopes.any(|scope| {
        let name = stacks.str(scope.name);
        let class = name.strip_prefix("Optimizer.step#");
        class.is_some_and(|class| CLASSES.contains(&class.trim_end_matches(".step")))
    })
}

/// Whether what modules hold was made elsewhere, and then moved to the device or copied there.
fn moves_modules(device: &DeviceTrace, roles: &Roles, facts: &Facts) -> bool {
    let stacks = device.blocks.kinds.iter().map(|kind| kind.alloc_stack);
    let setup = stacks.filter(|&stack| roles.get(stack) == Role::ModelSetup);
    let (mut moves, mut makes) = (false, false);
    for fact in setup.map(|stack| facts.get(stack)).filter(|f| f.of_module) {
        moves |= fact.apply_line.is_some();
        makes |= fact.apply_line.is_none() && !fact.of_parameter;
    }
    moves && !makes
}

fn parts(phases: &Phases) -> Vec<Part> {
    let mut pass = 0;
    let spans = phases.spans().iter();
    let mut parts: Vec<Part> = spans
        .map(|span| {
            let part = Part {
                phase: span.phase,
                start: span.events.start().0,
                end: span.events.end().0,
                backward: None,
                forward: None,
                pass,
            };
            pass += u32::from(span.phase == Phase::Backward);
            part
        })
        .collect();
    let (mut backward, mut forward) = (None, None);
    for at in (0..parts.len()).rev() {
        parts[at].backward = backward;
        parts[at].forward = forward;
        match parts[at].phase {
            Phase::Backward => backward = Some(at),
            Phase::Optimizer => backward = None,
            Phase::Forward => forward = Some(parts[at].start),
            _ => {}
        }
    }
    parts
}
