//! What the rules have to know of a whole recording before they judge a block.

use super::facts::Facts;
use super::sizes::Sizes;
use crate::phases::{Phase, Phases, Role, Roles};
use crate::stacks::{FxHashMap, StackIdx};
use crate::tally::Tally;
use crate::trace::{BlockIdx, DeviceTrace, Origin};
use std::collections::HashSet;

/// Share of a forward pass's blocks that stay, from which on they wait for a backward pass: a model
/// that only infers gives back nearly everything.
const KEPT: f64 = 0.25;

/// A span of events in one phase, and what follows it.
pub(super) struct Part {
    pub phase: Phase,
    pub start: u32,
    pub end: u32,
    /// Position of the backward pass that it leads to.
    pub backward: Option<usize>,
    /// First event of the next forward pass.
    pub forward: Option<u32>,
    /// Backward passes before it.
    pub pass: u32,
}

pub(super) struct Survey {
    pub spans: Vec<Part>,
    /// What backward passes leave behind: the most of each size that one of them did.
    pub gradients: Sizes,
    /// What was made as part of a module, or was there before and stays.
    pub parameters: Sizes,
    /// What was made as part of a module.
    of_modules: Sizes,
    /// Blocks from before that stay.
    before: Sizes,
    /// The line of `Module._apply` that moves buffers.
    pub buffer_line: Option<u32>,
    /// Stacks of the program whose blocks are a copy of all that is trained.
    pub copies: HashSet<StackIdx>,
    /// The first event of a forward pass.
    pub first_forward: Option<u32>,
    /// Events at which the program allocates outside of any module.
    pub program: Vec<u32>,
    /// Whether there is a backward pass.
    pub learns: bool,
    /// Whether forward passes without a backward pass keep much of what they make.
    pub keeps: bool,
}

impl Survey {
    pub fn of(device: &DeviceTrace, roles: &Roles, facts: &Facts, phases: &Phases) -> Survey {
        let spans = parts(phases);
        let forward = spans.iter().find(|s| s.phase == Phase::Forward);
        let mut survey = Survey {
            first_forward: forward.map(|s| s.start),
            learns: phases.has(Phase::Backward),
            spans,
            gradients: Sizes::default(),
            parameters: Sizes::default(),
            of_modules: Sizes::default(),
            before: Sizes::default(),
            buffer_line: None,
            copies: HashSet::new(),
            program: Vec::new(),
            keeps: false,
        };
        let candidates = survey.blocks(device, roles, facts);
        survey.find_buffer_line(device, roles, facts);
        survey.find_copies(candidates);
        survey
    }

    /// One pass over the blocks. Gives, by stack, the sizes of what the program made before the
    /// first forward pass and keeps.
    fn blocks(
        &mut self,
        device: &DeviceTrace,
        roles: &Roles,
        facts: &Facts,
    ) -> FxHashMap<StackIdx, Sizes> {
        let blocks = &device.blocks;
        let n_events = device.events.len();
        let mut candidates: FxHashMap<StackIdx, Sizes> = FxHashMap::default();
        let mut left = Sizes::default();
        let (mut span, mut made, mut kept) = (0, Tally::default(), Tally::default());
        for block in (0..blocks.len() as u32).map(BlockIdx) {
            let (kind, freed) = (blocks.kind(block), blocks.free_requested[block.index()]);
            let (stack, requested) = (kind.alloc_stack, kind.requested);
            let (role, fact) = (roles.get(stack), facts.get(stack));
            if block.0 < blocks.n_preexisting {
                if blocks.origin(block, n_events) == Origin::Preexisting && !fact.workspace {
                    self.before.add(requested);
                    self.parameters.add(requested);
                }
                continue;
            }
            let alloc = blocks.alloc[block.index()];
            while self.spans[span].end <= alloc {
                if self.spans[span].phase == Phase::Backward {
                    self.gradients.at_least(&std::mem::take(&mut left));
                }
                span += 1;
            }
            if role == Role::Program {
                self.program.push(alloc);
            }
            let part = &self.spans[span];
            let early = self.first_forward.is_none_or(|first| alloc < first);
            match part.phase {
                Phase::Forward if part.backward.is_none() && role == Role::Forward => {
                    made.add(requested);
                    if freed >= n_events && !fact.workspace {
                        kept.add(requested);
                    }
                }
                _ if freed < part.end || fact.workspace => {}
                Phase::Backward => left.add(requested),
                Phase::Setup if fact.of_module => {
                    self.parameters.add(requested);
                    self.of_modules.add(requested);
                }
                Phase::Setup | Phase::Other if early && freed >= n_events => {
                    candidates.entry(stack).or_default().add(requested);
                    self.parameters.add(requested);
                }
                _ => {}
            }
        }
        self.gradients.at_least(&left);
        self.gradients.retain_in(&self.parameters);
        let much = |kept: u64, made: u64| kept as f64 >= KEPT * made.max(1) as f64;
        self.keeps = much(kept.count, made.count) || much(kept.bytes.0, made.bytes.0);
        candidates
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

    /// Stacks that made one block for most of what is trained, as large or twice as large (32 bits
    /// for 16).
    fn find_copies(&mut self, candidates: FxHashMap<StackIdx, Sizes>) {
        let trained = match self.gradients.is_empty() {
            true => &self.of_modules,
            false => &self.gradients,
        };
        let all = trained.bytes();
        for (stack, own) in candidates {
            let copied = [1, 2].map(|factor| trained.bytes_in(&own, factor));
            if all > 0 && copied.iter().any(|bytes| bytes * 2 >= all) {
                self.copies.insert(stack);
            }
        }
    }

    /// Backward passes that end between the end of one and an event.
    pub fn passes_between(&self, backward: usize, event: u32) -> usize {
        let later = self.spans[backward + 1..].iter();
        let ended = later.take_while(|s| s.end <= event);
        ended.filter(|s| s.phase == Phase::Backward).count()
    }

    /// Whether there was exactly one lasting block from before for each gradient of a size, and
    /// that holds for nearly all gradients: there is no optimizer state.
    pub fn is_bare(&self, requested: crate::units::Bytes) -> bool {
        let count = self.gradients.count(requested);
        count > 0 && self.before.count(requested) == count && self.gradients.equal_in(&self.before)
    }
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
