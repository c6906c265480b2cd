//! Turns the role of each event's stack into phases.

use super::role::{Role, Roles};
use super::{Phase, PhaseSpan};
use crate::code;
use crate::footprint::{of_map, of_vec};
use crate::site;
use crate::span::Span;
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks, StrIdx};
use crate::trace::{Action, BlockIdx, DeviceTrace, NO_TARGET};
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};
use std::collections::HashSet;

/// What an event alone says, without its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Nothing: the event belongs to the current phase.
    Same,
    Known(Phase),
    /// The program's own code, at lines before the call of `backward`, or elsewhere.
    Program,
    /// The program's own code, at lines after the call of `backward`.
    Behind,
    /// The same, in a function called `step`.
    Update,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    mark: Mark,
    start: u32,
    end: u32,
}

impl Run {
    fn is_major(&self) -> bool {
        let major = [Phase::Backward, Phase::Optimizer].map(Mark::Known);
        major.contains(&self.mark) || self.mark == Mark::Update
    }
}

/// The phases of a device's events. Every event is in one span, and neighbouring spans differ.
///
/// # Errors
/// [`Stopped`].
pub(super) fn spans(
    device: &DeviceTrace,
    stacks: &Stacks,
    roles: &Roles,
    watch: Watch<'_>,
) -> Result<Vec<PhaseSpan>, Stopped> {
    let runs = runs(device, stacks, roles, watch)?;
    // There are at most as many spans as runs, in a vector that may have twice the capacity; and
    // one phase for each run.
    watch.look(of_vec(&runs) + runs.len() * (2 * size_of::<PhaseSpan>() + 1))?;
    let mut spans: Vec<PhaseSpan> = Vec::new();
    let mut push = |phase, run: &Run| match spans.last_mut() {
        Some(last) if last.phase == phase => {
            last.events = Span::new(last.events.start(), EventIdx(run.end));
        }
        _ => spans.push(PhaseSpan {
            phase,
            events: Span::new(EventIdx(run.start), EventIdx(run.end)),
        }),
    };
    // Between two major runs lies a window: the way to a backward pass, or from a backward pass to
    // the optimizer.
    let mut at = 0;
    let (mut functional, mut led) = (false, !runs.iter().any(Run::is_major));
    while at < runs.len() {
        if runs[at].is_major() {
            let phase = match runs[at].mark {
                Mark::Known(phase) => phase,
                _ => Phase::Optimizer,
            };
            push(phase, &runs[at]);
            at += 1;
            continue;
        }
        let end = (at..runs.len()).find(|&i| runs[i].is_major());
        let window = Window {
            device,
            runs: &runs[at..end.unwrap_or(runs.len())],
            before: at.checked_sub(1).map(|i| runs[i]),
            then: end.map(|i| runs[i].mark),
            functional,
            failed: match end {
                None if led => failed(device, runs[at].start),
                _ => None,
            },
        };
        functional |= window.is_functional();
        led |= window.leads_to_backward() && window.forwards().is_some();
        for (run, phase) in window.runs.iter().zip(window.phases()) {
            push(phase, run);
        }
        at = end.unwrap_or(runs.len());
    }
    Ok(spans)
}

/// Runs of events with the same mark.
fn runs(
    device: &DeviceTrace,
    stacks: &Stacks,
    roles: &Roles,
    watch: Watch<'_>,
) -> Result<Vec<Run>, Stopped> {
    let mut marks = Marks::new(device, stacks, roles);
    let mut runs: Vec<Run> = Vec::new();
    for event in 0..device.events.len() {
        watch.at_row(event as usize, || {
            2 * of_vec(&runs) + 3 * (of_map(&marks.sides) + of_map(&marks.calls))
        })?;
        let mark = marks.of(event);
        match runs.last_mut() {
            Some(last) if mark == Mark::Same || last.mark == mark => last.end = event + 1,
            // The first events have no phase yet.
            _ => runs.push(Run {
                mark: match mark {
                    Mark::Same => Mark::Known(Phase::Unknown),
                    mark => mark,
                },
                start: event,
                end: event + 1,
            }),
        }
    }
    Ok(runs)
}

/// The last failed allocation from an event on.
fn failed(device: &DeviceTrace, from: u32) -> Option<u32> {
    let actions = &device.events.action[from as usize..];
    let at = actions.iter().rposition(|&action| action == Action::Oom)?;
    Some(from + at as u32)
}

/// The runs between two major runs.
struct Window<'a> {
    device: &'a DeviceTrace,
    runs: &'a [Run],
    before: Option<Run>,
    then: Option<Mark>,
    /// Whether an earlier way to a backward pass called no module.
    functional: bool,
    /// Where memory ran out on a way that leads nowhere, if earlier ones led from modules to a
    /// backward pass, or if there were none: up to there it was such a way, too.
    failed: Option<u32>,
}

impl Window<'_> {
    fn forwards(&self) -> Option<(usize, usize)> {
        let is_forward = |run: &Run| run.mark == Mark::Known(Phase::Forward);
        let first = self.runs.iter().position(is_forward)?;
        Some((first, self.runs.iter().rposition(is_forward)?))
    }

    fn leads_to_backward(&self) -> bool {
        self.then == Some(Mark::Known(Phase::Backward))
    }

    /// Whether a run leads to a backward pass, or would have if memory had not run out.
    fn leads(&self, run: usize) -> bool {
        let fails = self.failed.is_some_and(|at| self.runs[run].start <= at);
        self.leads_to_backward() || fails
    }

    /// Whether this window leads to a backward pass and calls no module.
    fn is_functional(&self) -> bool {
        self.leads_to_backward() && self.forwards().is_none()
    }

    fn phases(&self) -> Vec<Phase> {
        let forwards = self.forwards();
        let update = self.is_update();
        let program = |at: usize| match forwards {
            Some((first, last)) if at > first && (at < last || self.leads(at)) => Phase::Forward,
            None if self.leads_to_backward() || (self.functional && self.then.is_none()) => {
                Phase::Forward
            }
            _ => Phase::Other,
        };
        let phase = |(at, run): (usize, &Run)| match run.mark {
            Mark::Known(phase) => phase,
            // For example code of the next call of a function that holds a whole step.
            Mark::Behind if forwards.is_some_and(|(first, _)| at > first) => program(at),
            Mark::Behind if update => Phase::Optimizer,
            Mark::Behind => Phase::Other,
            Mark::Program | Mark::Same | Mark::Update => program(at),
        };
        self.runs.iter().enumerate().map(phase).collect()
    }

    /// Whether the program's code after a backward pass is an optimizer written by hand. Then most
    /// bytes that it allocates are in blocks as large as gradients, and most gradients have such a
    /// block.
    fn is_update(&self) -> bool {
        let Some(backward) = self.before else {
            return false;
        };
        let first_forward = self.forwards().map_or(self.runs.len(), |(first, _)| first);
        let behind = self.runs[..first_forward].iter();
        let behind: Vec<&Run> = behind.filter(|run| run.mark == Mark::Behind).collect();
        if behind.is_empty() || backward.mark != Mark::Known(Phase::Backward) {
            return false;
        }
        let blocks = &self.device.blocks;
        let made =
            |run: &Run| blocks.allocated_in(Span::new(EventIdx(run.start), EventIdx(run.end)));
        let requested = |block: u32| blocks.kind(BlockIdx(block)).requested.0;
        let kept = made(&backward).filter(|&b| blocks.free_requested[b as usize] >= backward.end);
        let gradients: HashSet<u64> = kept.map(requested).collect();
        let made: Vec<u64> = behind.into_iter().flat_map(made).map(requested).collect();
        let alike: HashSet<u64> = made.iter().copied().collect();
        let alike: u64 = alike.intersection(&gradients).sum();
        let of_them = made.iter().filter(|size| gradients.contains(size));
        alike > 0
            && alike * 2 >= gradients.iter().sum()
            && of_them.sum::<u64>() * 2 >= made.iter().sum()
    }
}

/// Finds the mark of each event.
struct Marks<'a> {
    device: &'a DeviceTrace,
    stacks: &'a Stacks,
    roles: &'a Roles,
    scopes: Vec<PhaseSpan>,
    next_scope: usize,
    /// Whether frees have stacks. Then a free without a stack says as much as an allocation without
    /// one.
    frees_tell: bool,
    /// The main thread's stack at the last call of `backward`.
    call: Option<StackIdx>,
    sides: FxHashMap<(StackIdx, StackIdx), Mark>,
    /// Stacks that were checked, and whether they show the call.
    calls: FxHashMap<StackIdx, bool>,
}

impl<'a> Marks<'a> {
    fn new(device: &'a DeviceTrace, stacks: &'a Stacks, roles: &'a Roles) -> Marks<'a> {
        let kinds = &device.blocks.kinds;
        let call = kinds.iter().map(|kind| kind.alloc_stack);
        let mut marks = Marks {
            device,
            stacks,
            roles,
            scopes: scopes(device, stacks),
            next_scope: 0,
            frees_tell: kinds.iter().any(|kind| kind.free_stack != StackIdx::NONE),
            call: None,
            sides: FxHashMap::default(),
            calls: FxHashMap::default(),
        };
        marks.call = call.filter(|&stack| marks.is_call(stack)).min();
        marks
    }

    fn of(&mut self, event: u32) -> Mark {
        let (row, events) = (event as usize, &self.device.events);
        let (action, target) = (events.action[row], events.target[row]);
        // A free belongs to the phase in which the program asks for it; its completion says
        // nothing.
        if target == NO_TARGET || action == Action::FreeCompleted {
            return Mark::Same;
        }
        let kind = || self.device.blocks.kind(BlockIdx(target));
        let (stack, tells) = match action {
            Action::Alloc => (kind().alloc_stack, true),
            Action::FreeRequested => (kind().free_stack, self.frees_tell),
            Action::SegmentAlloc | Action::SegmentMap => {
                (events.segments[target as usize].stack, false)
            }
            Action::Oom => (events.others[target as usize].stack, false),
            _ => return Mark::Same,
        };
        let role = self.roles.get(stack);
        let said = match role {
            Role::Forward => Mark::Known(Phase::Forward),
            Role::Backward => Mark::Known(Phase::Backward),
            Role::Optimizer => Mark::Known(Phase::Optimizer),
            Role::OptimizerSetup | Role::ModelSetup => Mark::Known(Phase::Setup),
            Role::ZeroGrad => Mark::Known(Phase::Other),
            Role::Program => self.side(stack),
            Role::Silent if self.roles.has_python && !self.roles.has_engine && tells => {
                Mark::Known(Phase::Backward)
            }
            Role::OtherThread | Role::Silent => Mark::Same,
        };
        if role == Role::Backward && self.is_call(stack) {
            self.call = Some(stack);
        }
        match said {
            Mark::Same | Mark::Program | Mark::Behind => self.scope(event).unwrap_or(match said {
                Mark::Same if !self.roles.has_python && !self.roles.has_engine => {
                    Mark::Known(Phase::Unknown)
                }
                said => said,
            }),
            said => said,
        }
    }

    /// The mark of the innermost scope around an event. Must be called with rising events.
    fn scope(&mut self, event: u32) -> Option<Mark> {
        let ended = |s: &PhaseSpan| s.events.end().0 <= event;
        while self.scopes.get(self.next_scope).is_some_and(ended) {
            self.next_scope += 1;
        }
        let scope = self.scopes.get(self.next_scope)?;
        scope
            .events
            .contains(EventIdx(event))
            .then_some(Mark::Known(scope.phase))
    }

    /// Whether a stack shows where the program calls `backward`.
    fn is_call(&mut self, stack: StackIdx) -> bool {
        if self.roles.get(stack) != Role::Backward {
            return false;
        }
        if let Some(&known) = self.calls.get(&stack) {
            return known;
        }
        let is_call = self.caller(stack).next().is_some();
        self.calls.insert(stack, is_call);
        is_call
    }

    /// The Python frames of a stack that are outside the call of `backward`, outermost first.
    fn caller(&self, stack: StackIdx) -> impl Iterator<Item = Frame> + use<'a> {
        let stacks = self.stacks;
        let inside = move |frame: &Frame| {
            let file = code::slashed(stacks.str(frame.filename));
            file.ends_with("torch/_tensor.py") || file.contains("torch/autograd/")
        };
        python(stacks, stack).take_while(move |frame| !inside(frame))
    }

    /// Whether a stack of the program lies before or after the call of `backward`.
    fn side(&mut self, stack: StackIdx) -> Mark {
        let Some(call) = self.call else {
            return Mark::Program;
        };
        if let Some(&known) = self.sides.get(&(call, stack)) {
            return known;
        }
        let mut own = python(self.stacks, stack);
        let mut theirs = self.caller(call);
        let mark = loop {
            match (own.next(), theirs.next()) {
                (Some(a), Some(b)) if a == b => {}
                (Some(a), Some(b)) => {
                    let same_function = (a.name, a.filename) == (b.name, b.filename);
                    let is_step = |f: Frame| self.stacks.str(f.name) == "step";
                    break match same_function && a.line > b.line {
                        true if own.any(is_step) => Mark::Update,
                        true => Mark::Behind,
                        false => Mark::Program,
                    };
                }
                _ => break Mark::Program,
            }
        };
        self.sides.insert((call, stack), mark);
        mark
    }
}

/// The Python frames of a stack, outermost first.
fn python(stacks: &Stacks, stack: StackIdx) -> impl Iterator<Item = Frame> + use<'_> {
    let frames = stacks.frames(stack).iter().rev();
    let frames = frames.map(|&f| stacks.frame(f));
    frames.filter(|&f| site::is_python(stacks, f))
}

/// Scopes that name a phase, flattened: where they are nested, the innermost counts.
fn scopes(device: &DeviceTrace, stacks: &Stacks) -> Vec<PhaseSpan> {
    // Very many scopes may have the same name of some kilobytes.
    let mut known: FxHashMap<StrIdx, Option<Phase>> = FxHashMap::default();
    let closures = closures(device, stacks);
    let named = device.annotations.iter().enumerate().filter_map(|(at, a)| {
        let phase = known.entry(a.name);
        let phase = (*phase.or_insert_with(|| named(stacks.str(a.name))))?;
        (!closures.contains(&at)).then_some(PhaseSpan {
            phase,
            events: a.events,
        })
    });
    flatten(named)
}

/// Cuts scopes into spans that do not overlap, in order. Where several scopes are open, the one
/// that was opened last counts. Scopes are sorted by their first event, outer scopes first. They
/// may lie in one another as deep as they like: FSDP marks passes in passes in passes.
pub(super) fn flatten(scopes: impl Iterator<Item = PhaseSpan>) -> Vec<PhaseSpan> {
    let mut flat = Flat {
        spans: Vec::new(),
        reached: EventIdx(0),
    };
    let mut open: Vec<PhaseSpan> = Vec::new();
    for scope in scopes.filter(|scope| !scope.events.is_empty()) {
        let start = scope.events.start();
        while let Some(last) = open.pop_if(|last| last.events.end() <= start) {
            flat.push(last.phase, last.events.end());
        }
        if let Some(last) = open.last() {
            flat.push(last.phase, start);
        }
        flat.reached = flat.reached.max(start);
        open.push(scope);
    }
    while let Some(last) = open.pop() {
        flat.push(last.phase, last.events.end());
    }
    flat.spans
}

/// Spans that have been cut, and the event up to which they are done.
struct Flat {
    spans: Vec<PhaseSpan>,
    reached: EventIdx,
}

impl Flat {
    /// Gives what lies between the event that was reached and `end` to a phase.
    fn push(&mut self, phase: Phase, end: EventIdx) {
        if end > self.reached {
            let events = Span::new(self.reached, end);
            self.spans.push(PhaseSpan { phase, events });
            self.reached = end;
        }
    }
}

/// The largest number of optimizer steps that are open at one moment: one that calls another is
/// rare. Every scope is held against these, and a hostile file has very many.
const MAX_OPEN_STEPS: usize = 64;

/// The scopes of optimizer steps that call a closure (`crate::optimizer`): gradients are cleared in
/// them. The whole step of the program lies in such a scope, so it tells nothing.
fn closures(device: &DeviceTrace, stacks: &Stacks) -> HashSet<usize> {
    let mut closures = HashSet::new();
    let mut open: Vec<usize> = Vec::new();
    for (at, annotation) in device.annotations.iter().enumerate() {
        let name = stacks.str(annotation.name);
        let starts = annotation.events.start();
        open.retain(|&step| device.annotations[step].events.end() > starts);
        if name.starts_with("Optimizer.step") && open.len() < MAX_OPEN_STEPS {
            open.push(at);
        } else if name.starts_with("Optimizer.zero_grad") {
            // A scope without an event may lie beside the next one.
            let inside = |&step: &usize| device.annotations[step].depth < annotation.depth;
            closures.extend(open.iter().copied().filter(inside));
        }
    }
    closures
}

fn named(scope: &str) -> Option<Phase> {
    let name = scope.to_lowercase();
    if name.starts_with("optimizer.zero_grad") {
        Some(Phase::Other)
    } else if name.starts_with("optimizer.step") || name == "optimizer" {
        Some(Phase::Optimizer)
    } else if name.contains("backward") {
        Some(Phase::Backward)
    } else if name.contains("forward") {
        Some(Phase::Forward)
    } else {
        None
    }
}
