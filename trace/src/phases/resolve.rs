//! From the role of each event's stack to phases.

use super::role::{Role, Roles};
use super::{Phase, PhaseSpan};
use crate::site;
use crate::span::Span;
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks};
use crate::trace::{Action, BlockIdx, DeviceTrace, NO_TARGET};
use crate::units::EventIdx;
use std::collections::HashSet;

/// What an event says, before its neighbours are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Nothing: it belongs to what is going on.
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

/// The phases of a device's events: every event in one span, neighbours different.
pub(super) fn spans(device: &DeviceTrace, stacks: &Stacks, roles: &Roles) -> Vec<PhaseSpan> {
    let runs = runs(device, stacks, roles);
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
    // Between two majors lies a window: the way to a backward pass, or from one to the optimizer.
    let mut at = 0;
    let mut functional = false;
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
        };
        functional |= window.is_functional();
        for (run, phase) in window.runs.iter().zip(window.phases()) {
            push(phase, run);
        }
        at = end.unwrap_or(runs.len());
    }
    spans
}

/// Runs of events that say the same.
fn runs(device: &DeviceTrace, stacks: &Stacks, roles: &Roles) -> Vec<Run> {
    let mut marks = Marks::new(device, stacks, roles);
    let mut runs: Vec<Run> = Vec::new();
    for event in 0..device.events.len() {
        let mark = marks.of(event);
        match runs.last_mut() {
            Some(last) if mark == Mark::Same || last.mark == mark => last.end = event + 1,
            // What comes first belongs to nothing yet.
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
    runs
}

/// The runs between two majors.
struct Window<'a> {
    device: &'a DeviceTrace,
    runs: &'a [Run],
    before: Option<Run>,
    then: Option<Mark>,
    /// Whether an earlier forward pass called no module.
    functional: bool,
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

    /// A way to a backward pass on which no module is called.
    fn is_functional(&self) -> bool {
        self.leads_to_backward() && self.forwards().is_none()
    }

    fn phases(&self) -> Vec<Phase> {
        let forwards = self.forwards();
        let update = self.is_update();
        let program = |at: usize| match forwards {
            Some((first, last)) if at > first && (at < last || self.leads_to_backward()) => {
                Phase::Forward
            }
            None if self.leads_to_backward() || (self.functional && self.then.is_none()) => {
                Phase::Forward
            }
            _ => Phase::Other,
        };
        let phase = |(at, run): (usize, &Run)| match run.mark {
            Mark::Known(phase) => phase,
            // Of the next call of a function that holds a whole step, say.
            Mark::Behind if forwards.is_some_and(|(first, _)| at > first) => program(at),
            Mark::Behind if update => Phase::Optimizer,
            Mark::Behind => Phase::Other,
            Mark::Program | Mark::Same | Mark::Update => program(at),
        };
        self.runs.iter().enumerate().map(phase).collect()
    }

    /// Whether what the program does behind a backward pass is an optimizer written by hand: most
    /// bytes that it allocates are in blocks as large as gradients, and most gradients have one.
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

/// Asks events what they say.
struct Marks<'a> {
    device: &'a DeviceTrace,
    stacks: &'a Stacks,
    roles: &'a Roles,
    scopes: Vec<PhaseSpan>,
    next_scope: usize,
    /// Whether frees have stacks: then one without any is as telling as an allocation.
    frees_tell: bool,
    /// The main thread's stack at the last call of `backward`.
    call: Option<StackIdx>,
    sides: FxHashMap<(StackIdx, StackIdx), Mark>,
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
        };
        marks.call = call.filter(|&stack| marks.is_call(stack)).min();
        marks
    }

    fn of(&mut self, event: u32) -> Mark {
        let (row, events) = (event as usize, &self.device.events);
        let (action, target) = (events.action[row], events.target[row]);
        // A block is given back where that is asked for; when it completes says nothing.
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

    /// What the innermost scope around an event says; events are asked in order.
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
    fn is_call(&self, stack: StackIdx) -> bool {
        self.roles.get(stack) == Role::Backward && self.caller(stack).next().is_some()
    }

    /// Python frames of a stack outside the call of `backward`, outermost first.
    fn caller(&self, stack: StackIdx) -> impl Iterator<Item = Frame> + use<'a> {
        let stacks = self.stacks;
        let inside = move |frame: &Frame| {
            let file = stacks.str(frame.filename);
            file.ends_with("torch/_tensor.py") || file.contains("torch/autograd/")
        };
        python(stacks, stack).take_while(move |frame| !inside(frame))
    }

    /// On which side of the call of `backward` a stack of the program lies.
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

/// Scopes that name a phase, flattened: where they nest, the innermost counts.
fn scopes(device: &DeviceTrace, stacks: &Stacks) -> Vec<PhaseSpan> {
    let mut flat: Vec<PhaseSpan> = Vec::new();
    for annotation in &device.annotations {
        let Some(phase) = named(stacks.str(annotation.name)) else {
            continue;
        };
        let events = annotation.events;
        if events.is_empty() {
            continue;
        }
        // Scopes come by their first event, the outer first: a later one lies inside, or behind.
        let mut behind = None;
        if let Some(last) = flat.last_mut()
            && last.events.end() > events.start()
        {
            if last.events.end() > events.end() {
                let rest = Span::new(events.end(), last.events.end());
                behind = Some(PhaseSpan {
                    phase: last.phase,
                    events: rest,
                });
            }
            last.events = Span::new(last.events.start(), events.start());
        }
        flat.push(PhaseSpan { phase, events });
        flat.extend(behind);
    }
    flat.retain(|span| !span.events.is_empty());
    flat
}

fn named(scope: &str) -> Option<Phase> {
    let name = scope.to_lowercase();
    match () {
        () if name.starts_with("optimizer.zero_grad") => Some(Phase::Other),
        () if name.starts_with("optimizer.step") || name == "optimizer" => Some(Phase::Optimizer),
        () if name.contains("backward") => Some(Phase::Backward),
        () if name.contains("forward") => Some(Phase::Forward),
        () => None,
    }
}
