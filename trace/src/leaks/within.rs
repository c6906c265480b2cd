//! Growth within a step: parts of a step (micro-batches) each leave something behind, and all of it
//! is given back together when the step ends.
//!
//! Comparing the ends of steps does not show this, yet the peak grows with the number of parts.
//! Many things inside a step accumulate for a good reason: layers keep activations until the
//! backward pass frees them one by one, and gradients fill until they are zeroed. So all of these
//! must hold:
//!
//! * The parts are the work of the step, one after another, at least [`MIN_PARTS`] of them, and not
//!   only a piece of it. They are scopes of one family. Or, if steps are shorter than optimizer
//!   steps, the steps between two optimizer steps. Or the iterations of a loop inside the steps
//!   that holds all backward passes, as the stacks show it.
//! * The site adds to the live bytes with nearly every part after the first, in every step that is
//!   looked at, and by about the same amount each time.
//! * Everything that accumulated is given back in one sweep near the step's end, not one by one
//!   between allocations, as in a backward pass. Only what the last part made may go later: the
//!   loop's variables hold it. What waits for a later step (weights that the next step replaces, a
//!   queue) is compared at the ends of steps.
//! * If a part keeps most of its own peak ([`MOST_KEPT`]), it has had its own backward pass.
//!   Otherwise it is building something up for a later one.

use super::excuse::is_backward;
use super::found::findings;
use super::judge::{self, Finding};
use super::report::{LeakGroup, Pattern};
use super::survivors::{Ends, Survey};
use super::thresholds::MIN_BYTES;
use super::view::View;
use crate::median;
use crate::optimizer::is_step_scope;
use crate::span::Span;
use crate::stacks::{FxHashMap, StackIdx, StrIdx, fx_hash};
use crate::steps::choices::micro_batches;
use crate::steps::family_name;
use crate::trace::{Annotation, Series, Step};
use crate::units::EventIdx;
use crate::watch::Stopped;

/// The least number of parts of a step: the first differs, and three must grow.
const MIN_PARTS: usize = 4;
/// Share of a step's events that must lie in its parts, if each part had as many events as the
/// median part. So no single long part makes up for short ones.
const COVERED: f64 = 0.6;
/// How many steps are looked at, the last ones: each costs a pass over its blocks.
const MAX_STEPS: usize = 3;
/// In a part without a backward pass, a leak may be at most this share of the part's own peak.
const MOST_KEPT: f64 = 0.5;

/// A step with its parts.
struct Whole {
    /// Positions of its first and last step in the list of steps.
    steps: (usize, usize),
    events: Span<EventIdx>,
    parts: Vec<Span<EventIdx>>,
}

/// A candidate for the parts of steps.
struct Parts {
    /// Name of the scopes, where scopes mark them.
    name: Option<StrIdx>,
    wholes: Vec<Whole>,
}

/// Groups that accumulate within steps.
///
/// # Errors
/// [`Stopped`].
pub fn find(view: &View<'_>) -> Result<Vec<LeakGroup>, Stopped> {
    let candidates = scopes(view).into_iter();
    let candidates = candidates.chain(between_optimizer_steps(view));
    let found = first_found(view, candidates)?;
    if !found.is_empty() {
        return Ok(found);
    }
    // The most expensive search comes last: it reads the loops from all stacks.
    first_found(view, loops(view)?)
}

/// The groups of the first candidate that has any.
fn first_found(
    view: &View<'_>,
    candidates: impl Iterator<Item = Parts>,
) -> Result<Vec<LeakGroup>, Stopped> {
    for parts in candidates {
        let found = of_parts(view, &parts)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// The loops inside the steps that hold all of the backward passes, the loop with the fewest
/// iterations first.
fn loops(view: &View<'_>) -> Result<impl Iterator<Item = Parts>, Stopped> {
    let steps = view.steps;
    let skip = steps.len().saturating_sub(MAX_STEPS);
    let whole = move |parts: &[Span<EventIdx>], index: usize, step: &Step| {
        let inside = |part: &&Span<EventIdx>| step.events.contains(part.start());
        let end = step.events.end();
        let clipped = |part: &Span<EventIdx>| Span::new(part.start(), part.end().min(end));
        Whole {
            steps: (index, index),
            events: step.events,
            parts: parts.iter().filter(inside).map(clipped).collect(),
        }
    };
    let found = micro_batches(view.device, view.stacks, steps.len(), view.watch)?;
    Ok(found.into_iter().filter_map(move |parts| {
        let last = steps.iter().enumerate().skip(skip);
        let wholes: Vec<Whole> = last.map(|(i, step)| whole(&parts, i, step)).collect();
        wholes
            .iter()
            .all(is_work)
            .then_some(Parts { name: None, wholes })
    }))
}

/// Families of scopes that make up the last steps, the family with the fewest scopes first.
fn scopes(view: &View<'_>) -> Vec<Parts> {
    let steps = view.steps;
    let skip = steps.len().saturating_sub(MAX_STEPS);
    // By the hash of the name, because very many scopes may have names of some kilobytes, equal or
    // different.
    let mut families: FxHashMap<u64, Parts> = FxHashMap::default();
    let mut names: FxHashMap<StrIdx, u64> = FxHashMap::default();
    for (index, step) in steps.iter().enumerate().skip(skip) {
        let annotations = &view.device.annotations;
        let from = annotations.partition_point(|a| a.events.start() < step.events.start());
        let inside = annotations[from..]
            .iter()
            .take_while(|a| a.events.start() < step.events.end())
            .filter(|a| a.events.end() <= step.events.end() && a.events != step.events);
        for scope in inside {
            let name = names.entry(scope.name);
            let name = name.or_insert_with(|| fx_hash(&family_name(view.stacks.str(scope.name))));
            let family = families.entry(*name).or_insert_with(|| Parts {
                name: Some(scope.name),
                wholes: Vec::new(),
            });
            match family.wholes.last_mut() {
                Some(whole) if whole.steps.0 == index => whole.parts.push(scope.events),
                _ => family.wholes.push(Whole {
                    steps: (index, index),
                    events: step.events,
                    parts: vec![scope.events],
                }),
            }
        }
    }
    let looked_at = steps.len() - skip;
    let mut found: Vec<Parts> = families
        .into_values()
        .filter(|f| f.wholes.len() == looked_at && f.wholes.iter().all(is_work))
        .collect();
    found.sort_by_key(|f| {
        (
            f.wholes.iter().map(|w| w.parts.len()).sum::<usize>(),
            f.name,
        )
    });
    found
}

/// If steps are shorter than the optimizer's (micro-batches of gradient accumulation), they are the
/// parts between two optimizer steps.
fn between_optimizer_steps(view: &View<'_>) -> Option<Parts> {
    let steps = view.steps;
    let is_update = |scope: &&Annotation| is_step_scope(view.stacks.str(scope.name));
    let updates = view.device.annotations.iter().filter(is_update);
    let mut updates: Vec<EventIdx> = updates.map(|a| a.events.end()).collect();
    // Scopes are sorted by their starts, and an optimizer may step another one in its closure.
    updates.sort_unstable();
    let wholes = updates.windows(2).filter_map(|ends| {
        let middle = |step: &&Step| {
            let events = step.events;
            EventIdx(events.start().0.midpoint(events.end().0))
        };
        let from = steps.partition_point(|s| middle(s) < ends[0]);
        let to = steps.partition_point(|s| middle(s) < ends[1]);
        let parts: Vec<Span<EventIdx>> = steps[from..to].iter().map(|s| s.events).collect();
        let (first, last) = (parts.first()?.start(), parts.last()?.end());
        Some(Whole {
            steps: (from, to - 1),
            // Memory is given back in the optimizer's update, or when the next step begins.
            events: Span::new(first, last.max(ends[1])),
            parts,
        })
    });
    let mut wholes: Vec<Whole> = wholes.filter(is_work).collect();
    wholes.drain(..wholes.len().saturating_sub(MAX_STEPS));
    (wholes.len() >= 2).then_some(Parts { name: None, wholes })
}

/// Whether the parts make up the work of a step, one after another.
fn is_work(whole: &Whole) -> bool {
    let parts = &whole.parts;
    let apart = parts.windows(2).all(|w| w[0].end() <= w[1].start());
    let usual = median::upper(parts.iter().map(|part| part.len())).unwrap_or(0);
    let covered = f64::from(usual) * parts.len() as f64;
    parts.len() >= MIN_PARTS && apart && covered >= COVERED * f64::from(whole.events.len())
}

fn of_parts(view: &View<'_>, parts: &Parts) -> Result<Vec<LeakGroup>, Stopped> {
    let mut seen: FxHashMap<usize, usize> = FxHashMap::default();
    let mut last = None;
    for whole in &parts.wholes {
        let ends = Ends::new(whole.parts.iter().map(|p| p.end().0).collect());
        let from = whole.events.start().0;
        let survey = Survey::new(&view.device.blocks, view.sites, &ends, from, view.watch)?;
        let inner = View {
            ends: &ends,
            survey: &survey,
            ..*view
        };
        let grown = grown(&inner, whole)?;
        for (site, _) in &grown {
            *seen.entry(*site).or_default() += 1;
        }
        let groups = inner.groups(&grown)?;
        let sites: Vec<usize> = grown.iter().map(|(site, _)| *site).collect();
        last = Some((whole.steps.1, sites, groups));
    }
    let Some((last_step, sites, groups)) = last else {
        return Ok(Vec::new());
    };
    let first_step = parts.wholes[0].steps.0;
    let in_all = |site: &usize| seen.get(site) == Some(&parts.wholes.len());
    let groups = sites.iter().zip(groups).filter(|(site, _)| in_all(site));
    let groups = groups.map(|(_, group)| LeakGroup {
        pattern: Pattern::WithinStep,
        scope: parts.name,
        first_step: first_step as u32,
        last_step: last_step as u32,
        ..group
    });
    Ok(groups.collect())
}

/// Sites that grow with every part of one step and are given back together near its end.
fn grown(view: &View<'_>, whole: &Whole) -> Result<Vec<(usize, judge::Growth)>, Stopped> {
    let found = findings(view.survey, view.watch)?;
    let mut grown: Vec<(usize, judge::Growth)> = found
        .into_iter()
        .filter_map(|(site, finding)| match finding {
            Finding::Grows(growth) if growth.pattern == Pattern::EveryStep => Some((site, growth)),
            _ => None,
        })
        .collect();
    if !grown.is_empty() {
        let swept = swept(view, whole)?;
        grown.retain(|(site, _)| swept[*site]);
    }
    let kept: f64 = grown.iter().map(|(_, g)| g.bytes_per_growth).sum();
    let enough = kept >= MIN_BYTES.0 as f64;
    // A part that keeps most of its own peak is building something up for later, unless its
    // backward pass is already over.
    let builds_up = || kept > MOST_KEPT * usual_rise(view, &whole.parts) as f64;
    match enough && (!builds_up() || have_backward(view, &whole.parts)) {
        true => Ok(grown),
        false => Ok(Vec::new()),
    }
}

/// Whether each part computes gradients itself. Without stacks this is not known.
fn have_backward(view: &View<'_>, parts: &[Span<EventIdx>]) -> bool {
    let blocks = &view.device.blocks;
    let stacks = |part: Span<EventIdx>| {
        let inside = blocks.allocated_in(part);
        inside.map(|block| blocks.kinds[blocks.kind[block as usize].index()].alloc_stack)
    };
    parts.iter().all(|&part| {
        stacks(part).any(|stack| stack != StackIdx::NONE)
            && stacks(part).any(|stack| is_backward(view, stack))
    })
}

/// How far *allocated* rises above its level at the beginning of a part: the median over the parts.
fn usual_rise(view: &View<'_>, parts: &[Span<EventIdx>]) -> u64 {
    let rises = parts.iter().map(|&part| {
        let before = view.device.levels_before(part.start());
        let peak = view.device.allocated_peak(part);
        peak.saturating_sub(before.get(Series::Allocated)).0
    });
    median::upper(rises).unwrap_or(0)
}

/// When the memory that a site keeps until the last part is given back.
#[derive(Clone, Copy)]
struct Sweep {
    first_free: u32,
    last_free: u32,
    n: u32,
    /// The same as `last_free`, of what the last part made.
    last_part: u32,
}

/// Per site, whether the memory that it keeps until the last part is given back in one sweep near
/// the step's end. That means: between the first and the last free there are fewer allocations than
/// blocks, and the next step has not got further than its first part. What the last part made may
/// go later than the rest: the variables of the loop hold it until the next step's first part.
fn swept(view: &View<'_>, whole: &Whole) -> Result<Vec<bool>, Stopped> {
    let last_end = *view.ends.as_slice().last().expect("a step has parts");
    let last_part = whole.parts.last().expect("a step has parts").start().0;
    let blocks = &view.device.blocks;
    let none = Sweep {
        first_free: u32::MAX,
        last_free: 0,
        n: 0,
        last_part: 0,
    };
    let mut sweeps = vec![none; view.sites.keys.len()];
    let inside = Span::new(whole.events.start(), EventIdx(last_end));
    for index in blocks.allocated_in(inside) {
        view.watch.at_row(index as usize, || 0)?;
        let freed = blocks.free_requested[index as usize];
        if freed >= last_end {
            let kind = blocks.kind[index as usize].index();
            let sweep = &mut sweeps[view.sites.of_kind[kind] as usize];
            if blocks.alloc[index as usize] >= last_part {
                sweep.last_part = sweep.last_part.max(freed);
                continue;
            }
            sweep.n += 1;
            sweep.first_free = sweep.first_free.min(freed);
            sweep.last_free = sweep.last_free.max(freed);
        }
    }
    let n_events = view.device.events.len();
    let a_part = whole.parts.iter().map(|part| part.len()).max().unwrap_or(0);
    let too_late = whole.events.end().0.saturating_add(a_part).min(n_events);
    let is_swept = |sweep: &Sweep| {
        // If no further part was recorded, nobody knows when it would have been given back.
        let is_late =
            sweep.last_free >= too_late || sweep.last_part >= too_late && too_late < n_events;
        if sweep.n == 0 || is_late {
            return false;
        }
        let freeing = Span::new(EventIdx(sweep.first_free), EventIdx(sweep.last_free));
        (blocks.allocated_in(freeing).len() as u32) < sweep.n
    };
    Ok(sweeps.iter().map(is_swept).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{Pattern, Verdict, of_trace};
    use crate::phases::program::{ADAM, MODULE, Program, TENSOR};
    use crate::trace::{BlockIdx, Trace};
    use crate::watch::Watch;

    const MIB: u64 = 1 << 20;

    /// A frame of the training function, and what it calls.
    fn run(program: &mut Program, line: u32, calls: &[&str], mib: u64) -> BlockIdx {
        let this = format!("train t.py:{line}");
        let frames = ["main t.py:90", &this].into_iter();
        let frames: Vec<&str> = frames.chain(calls.iter().copied()).collect();
        program.alloc(mib * MIB, &frames)
    }

    /// What gradient accumulation does with a block of each micro-batch.
    #[derive(Clone, Copy, PartialEq)]
    enum Saved {
        GivenBack,
        Kept,
        /// A list keeps all of them, and the loop's variable the last one.
        KeptAndHeld,
    }

    /// Gradient accumulation without any scope; each micro-batch has its own backward pass.
    fn accumulating(saved: Saved) -> Trace {
        let mut program = Program::default();
        let call = format!("_call_impl {MODULE}:1562");
        let engine = format!("backward {TENSOR}:500");
        let update = format!("step {ADAM}:200");
        let mut held = None;
        for _ in 0..6 {
            let mut waits = Vec::new();
            for _ in 0..4 {
                let batch = run(&mut program, 20, &[], 1);
                let made = run(&mut program, 21, &[&call, "forward m.py:3"], 8);
                let logits = run(&mut program, 21, &[&call, "forward m.py:4"], 2);
                let scratch = run(&mut program, 22, &[&engine], 4);
                let old = held.take_if(|_| waits.is_empty());
                for block in [batch, logits, scratch].into_iter().chain(old) {
                    program.free(block);
                }
                match saved {
                    Saved::GivenBack => program.free(made),
                    Saved::Kept | Saved::KeptAndHeld => waits.push(made),
                }
            }
            if saved == Saved::KeptAndHeld {
                held = waits.pop();
            }
            waits.push(run(&mut program, 23, &[&update], 1));
            waits.into_iter().for_each(|block| program.free(block));
        }
        let mut trace = program.finish();
        let (devices, stacks) = (&mut trace.devices, &trace.stacks);
        crate::steps::find(&mut devices[0], stacks, 1, Watch::nobody()).unwrap();
        trace
    }

    #[test]
    fn what_each_micro_batch_keeps_is_seen_without_scopes() {
        for saved in [Saved::Kept, Saved::KeptAndHeld] {
            let trace = accumulating(saved);
            assert_eq!(trace.devices[0].steps.len(), 6, "the optimizer's steps");
            let [report] = &of_trace(&trace)[..] else {
                panic!("one device")
            };
            assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
            let [group] = &report.groups[..] else {
                panic!("one group: {:?}", report.groups)
            };
            assert_eq!(group.pattern, Pattern::WithinStep);
            assert_eq!(group.bytes_per_step, 8.0 * MIB as f64);
        }

        let trace = accumulating(Saved::GivenBack);
        let report = &of_trace(&trace)[0];
        assert_eq!(report.verdict, Verdict::Clean, "{}", report.reason);
    }

    /// Weights that every step makes again, one after another, and the next step replaces. Their
    /// loop is as long as the rest of the step.
    #[test]
    fn what_the_next_step_replaces_does_not_accumulate() {
        let mut program = Program::default();
        let call = format!("_call_impl {MODULE}:1562");
        let engine = format!("backward {TENSOR}:500");
        let mut weights: Vec<BlockIdx> = Vec::new();
        for _ in 0..8 {
            let mut made = Vec::new();
            for _ in 0..6 {
                let saved = run(&mut program, 21, &[&call, "forward m.py:3"], 8);
                let gradient = run(&mut program, 22, &[&engine], 4);
                made.push(run(&mut program, 23, &[], 3));
                program.free(gradient);
                program.free(saved);
            }
            for old in std::mem::replace(&mut weights, made) {
                program.free(old);
            }
        }
        let mut trace = program.finish();
        let (devices, stacks) = (&mut trace.devices, &trace.stacks);
        crate::steps::find(&mut devices[0], stacks, 1, Watch::nobody()).unwrap();
        let report = &of_trace(&trace)[0];
        assert_eq!(report.verdict, Verdict::Clean, "{}", report.reason);
    }
}
