//! Steps that repeat. Where all that a process holds between two steps is what it held a few steps
//! before, the steps since then come again, and again after that: they are written down instead of
//! computed. (One tensor that is handed over to the next step and lies in two places by turns makes
//! two steps of it.)
//!
//! What is compared is everything that a later step could notice: the allocator's blocks, the
//! pinned pool, the offloader's containers, every tensor and node that is alive with what refers to
//! it, what the race detector would compare, and what stands around. Numbers that only tell one
//! thing from another (addresses of objects, ids, ticks) are replaced by their order. Time is not
//! compared: it is played on from a tape of the step ([`crate::device::Player`]), sum by sum, and a
//! step in which an event would be done that was not, or the other way round, is not repeated.
//! Engine tests hold each row against the same row without this.

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

/// Steps that come again together, at most.
const LONGEST_CYCLE: usize = 4;

/// Steps that were compared with those before them in vain, after which no more are.
const MOST_FAILURES: u32 = 12;

/// How steps are come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steps {
    /// Those that repeat are written down; where a program grows, its steps are played from a
    /// script.
    #[default]
    Jump,
    /// As soon as there is a script, all are played from it.
    Play,
    /// Those that repeat are written down, and the others are computed by the program.
    Compute,
    /// All are computed by the program: what the others are held against.
    All,
}

/// What a process holds between two steps, and what it has counted until then.
#[derive(Debug)]
struct Standing {
    numbers: [Vec<u64>; 5],
    events: Vec<EventId>,
    copied: Copied,
    spoilt: u64,
}

impl Standing {
    /// What is held now; `None` where not all of it is known.
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

/// The end of a step, and the step that led there.
struct Seen {
    standing: Standing,
    /// Of the step; none of the first that was looked at.
    tape: Option<Tape>,
    fact: BenchStep,
}

/// Looks for steps that repeat.
pub(crate) struct Watch {
    steps: Steps,
    /// The last steps, without a gap.
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

    /// After a step: how it repeats, where it does. `facts` are those of all steps so far.
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
            // Where it does not go on for ever, it is looked for anew.
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

/// Whether the last step is one of those before it as far as their numbers tell: seldom for a leak,
/// so that its steps need not be compared.
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
    /// The cycle between the first and the last end of a step, which are alike.
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

    /// Writes steps down from `next` on for as long as they repeat, at most until step `end`;
    /// `each` may stop it. `before` is when the last step ended; the answer is when the last one
    /// that was written down did. Only whole cycles are, but at the end of the run.
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

    /// Lets the session go on where the steps that were written down end.
    pub(crate) fn go_on(self, session: &mut Session) {
        session.accelerator.add(self.copied, self.spoilt);
        if let Some(sim) = session.heap().borrow_mut().device.as_sim() {
            sim.go_on_from(self.player);
        }
    }
}
