//! Steps that repeat. If a process holds the same things between two steps as it did a few steps
//! before, the steps since then will come again, and again. So they are written down instead of
//! computed. (If one tensor is handed to the next step and lies at two addresses in turn, two steps
//! repeat together.)
//!
//! Everything that a later step could notice is compared: the allocator's blocks, the pinned pool,
//! the offloader's containers, every live tensor and node with what refers to it, what the race
//! detector would compare, and what is around the steps. Numbers that only identify something
//! (addresses of objects, ids, ticks) are replaced by their order. Time is not compared: a tape of
//! the step ([`crate::device::Player`]) continues it, sum by sum. If an event would then be done
//! that was not done on the tape, or the other way round, the step is not repeated. Tests of the
//! engine compare each row with the same row without repetition.

mod scripts;
mod walk;

use std::collections::VecDeque;
use std::ops::ControlFlow;

use api::bench::BenchStep;

use crate::device::{EventId, Player, Tape, Taped};
use crate::race::Detector;
use crate::session::{Copied, Session};
use crate::workload::Workload;

pub(crate) use scripts::{Interrupted, Scripts};

/// How many steps can repeat together, at most.
const LONGEST_CYCLE: usize = 4;

/// After this many comparisons without success, steps are no longer compared.
const MOST_FAILURES: u32 = 12;

/// How steps are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steps {
    /// Steps that repeat are written down. If a program grows, its steps are played from a script.
    #[default]
    Jump,
    /// As soon as there is a script, all steps are played from it.
    Play,
    /// Steps that repeat are written down, and the program computes the others.
    Compute,
    /// The program computes all steps; the other ways are compared with this one.
    All,
}

/// What a process holds between two steps, and its counters at that time.
#[derive(Debug)]
struct Standing {
    numbers: [Vec<u64>; 5],
    events: Vec<EventId>,
    copied: Copied,
    spoilt: u64,
}

impl Standing {
    /// What is held now; `None` if not all of it is known.
    fn of(session: &mut Session, workload: &dyn Workload) -> Option<Standing> {
        let around = session.standing()?;
        let mut clocks = Vec::new();
        let mut alive = walk::alive(session, workload, &mut clocks)?;
        let heap = session.heap().borrow();
        if heap.caching.is_recorded() {
            return None;
        }
        for event in heap.caching.awaited() {
            alive.events.push(event);
            clocks.push(session.accelerator.awaited(event).cloned());
        }
        let clocks: Vec<_> = clocks.iter().map(Option::as_ref).collect();
        let races = session.accelerator.detector();
        Some(Standing {
            numbers: [
                around,
                alive.numbers,
                heap.caching.standing(),
                heap.host.standing(),
                races.map_or_else(Vec::new, |races| races.standing(&clocks)),
            ],
            events: alive.events,
            copied: session.accelerator.copied(),
            spoilt: races.map_or(0, Detector::spoilt),
        })
    }

    fn repeats(&self, earlier: &Standing) -> bool {
        self.numbers == earlier.numbers && self.events.len() == earlier.events.len()
    }
}

/// The end of a step, and the step before it.
struct Seen {
    standing: Standing,
    /// The tape of the step; `None` for the first step that was looked at.
    tape: Option<Tape>,
    fact: BenchStep,
}

/// Looks for steps that repeat.
pub(crate) struct Watch {
    steps: Steps,
    /// The last steps, without gaps.
    seen: VecDeque<Seen>,
    failures: u32,
}

impl Watch {
    pub(crate) fn new(steps: Steps) -> Watch {
        Watch {
            steps,
            seen: VecDeque::new(),
            failures: 0,
        }
    }

    fn jumps(&self) -> bool {
        matches!(self.steps, Steps::Jump | Steps::Compute)
    }

    /// Called after a step: returns how the step repeats, if it does. `facts` are those of all
    /// steps so far.
    pub(crate) fn look(
        &mut self,
        session: &mut Session,
        workload: &dyn Workload,
        facts: &[BenchStep],
    ) -> Option<Repetition> {
        let tape = match session.heap().borrow_mut().device.as_sim() {
            Some(sim) if self.jumps() && sim.repeats() => sim.take_tape(),
            _ => return None,
        };
        let may_repeat = workload.shows_all() && self.failures < MOST_FAILURES;
        if !may_repeat || !look_alike(facts) {
            self.seen.clear();
            return None;
        }
        let Some(standing) = Standing::of(session, workload) else {
            self.seen.clear();
            return None;
        };
        let like = self
            .seen
            .iter()
            .rposition(|seen| standing.repeats(&seen.standing));
        let fact = *facts.last()?;
        self.seen.push_back(Seen {
            standing,
            tape,
            fact,
        });
        let mut heap = session.heap().borrow_mut();
        let sim = heap.device.as_sim()?;
        if let Some(from) = like {
            let cycle = Vec::from(self.seen.split_off(from));
            // If the repetition ends some time, the search begins again.
            self.seen.clear();
            self.failures += 1;
            return Repetition::new(cycle, |taped| sim.play(taped));
        }
        self.failures += u32::from(self.seen.len() > 1);
        if self.seen.len() > LONGEST_CYCLE {
            self.seen.pop_front();
        }
        sim.start_tape();
        None
    }
}

/// Whether the last step has the same numbers as one of the steps before it. This is rare with a
/// leak, so the steps of a leak need not be compared.
fn look_alike(facts: &[BenchStep]) -> bool {
    let Some((last, before)) = facts.split_last() else {
        return false;
    };
    let same = |before: &BenchStep| {
        let BenchStep { step, seconds, .. } = *last;
        BenchStep {
            step,
            seconds,
            ..*before
        } == *last
    };
    before.iter().rev().take(LONGEST_CYCLE).any(same)
}

/// One step of a cycle.
struct Repeated {
    fact: BenchStep,
    copied: Copied,
    spoilt: u64,
}

/// Steps that repeat.
pub(crate) struct Repetition {
    player: Player,
    cycle: Vec<Repeated>,
    copied: Copied,
    spoilt: u64,
}

impl Repetition {
    /// The cycle between the first and the last of these ends of steps, which are alike.
    fn new(ends: Vec<Seen>, play: impl FnOnce(Vec<Taped>) -> Player) -> Option<Repetition> {
        let mut cycle = Vec::new();
        let mut taped = Vec::new();
        for pair in ends.windows(2) {
            let [before, after] = pair else { continue };
            cycle.push(Repeated {
                fact: after.fact,
                copied: after.standing.copied.since(before.standing.copied),
                spoilt: after.standing.spoilt - before.standing.spoilt,
            });
            taped.push(Taped {
                tape: after.tape.clone()?,
                began: before.standing.events.clone(),
                ended: after.standing.events.clone(),
            });
        }
        Some(Repetition {
            player: play(taped),
            cycle,
            copied: Copied::default(),
            spoilt: 0,
        })
    }

    /// Writes down steps from `next` on while they repeat, at most until step `end`; `each` may
    /// stop this. `before` is when the last step ended; returns when the last written step ended.
    /// Only whole cycles are written, except at the end of the run.
    pub(crate) fn write_down(
        &mut self,
        mut next: u32,
        end: u32,
        mut before: f64,
        each: &mut dyn FnMut(BenchStep) -> ControlFlow<()>,
    ) -> f64 {
        while next < end {
            let steps = self.cycle.len().min((end - next) as usize);
            let Some(ends) = self.player.play(steps) else {
                break;
            };
            for (repeated, after) in self.cycle.iter().zip(ends) {
                self.copied = self.copied.and(repeated.copied);
                self.spoilt += repeated.spoilt;
                let fact = BenchStep {
                    step: next,
                    seconds: after - before,
                    ..repeated.fact
                };
                (next, before) = (next + 1, after);
                if each(fact).is_break() {
                    return before;
                }
            }
        }
        before
    }

    /// The session continues after the steps that were written down.
    pub(crate) fn go_on(self, session: &mut Session) {
        session.accelerator.add(self.copied, self.spoilt);
        if let Some(sim) = session.heap().borrow_mut().device.as_sim() {
            sim.go_on_from(self.player);
        }
    }
}
