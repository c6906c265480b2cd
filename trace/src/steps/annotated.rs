//! Steps from annotations.
//!
//! In order of preference:
//! 1. numbered scopes that call themselves steps or iterations (`## step 7 ##`, `ProfilerStep#7`,
//!    `train_iter_7`) and are the program's: most of the optimizer's steps lie in them, or one in
//!    each gap between two; without an optimizer, they cover a quarter of the events. Those that
//!    cover most are taken, because micro-batches lie inside and evaluations are shorter;
//! 2. if the stacks show no loop: optimizer steps (`Optimizer.step#AdamW.step`), each with the
//!    events that belong directly to it. If there are several optimizers, the one that runs last in
//!    the cycle;
//! 3. also if the stacks show no loop: any other numbered scopes (`batch 12`), or scopes of one
//!    name, that repeat, cover most of the events between the first and the last, and are not
//!    inside one another.
//!
//! Families of fewer than [`MIN_SCOPES`] scopes (epochs, a warm-up) mark no steps. The exception:
//! they call themselves steps and there is nothing else. Numbered scopes that are not the program's
//! (`save_checkpoint_step_500`) count only where nothing else shows steps.

use super::{MAX_STEPS, STEP_NAME, hooks, replays, skipped};
use crate::clip::clipped;
use crate::span::Span;
use crate::stacks::{FxHashMap, Stacks, StrIdx};
use crate::trace::{Action, Annotation, DeviceTrace, Step};
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};
use std::cmp::Reverse;

/// Bytes of a scope in its family.
pub(super) const PER_SCOPE: usize = 96;
/// A family needs this many scopes, unless its name says step.
const MIN_SCOPES: usize = 3;
/// A family must cover this share of the events, unless its name says step.
const COVERED: f64 = 0.5;
/// So many times the longest gap between an optimizer's steps is longer than a step, if forward and
/// backward passes lie in the gaps.
const MUCH_IN_A_GAP: u32 = 10;
/// The same as [`COVERED`], if its name says step.
const COVERED_BY_STEPS: f64 = 0.25;

/// A scope, or several of one name that overlap (threads that each open it).
#[derive(Clone, Copy)]
struct Scope<'a> {
    name: &'a str,
    /// Equal for equal names: comparing names of a few kilobytes a million times would be too slow.
    id: u32,
    events: Span<EventIdx>,
    depth: u16,
}

/// Scopes whose names differ only in numbers, by first event.
struct Family<'a> {
    name: String,
    scopes: Vec<Scope<'a>>,
    numbered: bool,
}

/// The scopes of a device.
pub struct Scopes<'a> {
    device: &'a DeviceTrace,
    families: Vec<Family<'a>>,
}

impl<'a> Scopes<'a> {
    /// Puts the scopes into families.
    pub fn new(
        device: &'a DeviceTrace,
        stacks: &'a Stacks,
        watch: Watch<'_>,
    ) -> Result<Scopes<'a>, Stopped> {
        let families = followed(families(&device.annotations, stacks, watch)?);
        Ok(Scopes { device, families })
    }

    /// The steps that call themselves steps.
    pub fn numbered(&self) -> Option<Vec<Step>> {
        let trains = self.optimizer_moments();
        self.largest_named(&trains, |family| match trains.len() {
            0 | 1 => family.covered() >= COVERED_BY_STEPS,
            n => family.inside_and_marked(&trains).1 * 2 >= n,
        })
    }

    /// The same, also if the scopes are only of something that happens now and then.
    pub fn numbered_anyhow(&self) -> Option<Vec<Step>> {
        let any = || self.largest_named(&self.optimizer_moments(), |_| true);
        self.numbered().or_else(any)
    }

    /// Of the families that call themselves steps, the one that covers most. Those that have the
    /// optimizer's steps inside go first, unless they cover little else.
    fn largest_named(
        &self,
        trains: &[EventIdx],
        is_one: impl Fn(&Family<'a>) -> bool,
    ) -> Option<Vec<Step>> {
        let has_training = |family: &Family<'_>| {
            let (inside, _) = family.inside_and_marked(trains);
            inside * 2 >= trains.len() && family.covered() >= COVERED_BY_STEPS
        };
        let families = self.families.iter();
        families
            .filter(|f| f.numbered && f.says_step() && f.counts_up() && is_one(f))
            .min_by_key(|f| {
                (
                    f.scopes.len() < MIN_SCOPES,
                    !has_training(f),
                    Reverse(f.events()),
                    (f.depth(), f.scopes.len()),
                    &f.name,
                )
            })
            .map(|family| enclosed(self.device, family))
    }

    /// When the optimizer that ends the cycle steps.
    fn optimizer_moments(&self) -> Vec<EventIdx> {
        let family = self.optimizer_of_the_cycle();
        family.map(Family::recorded).unwrap_or_default()
    }

    /// How many optimizer steps there were; `None` if no scope shows it.
    pub fn optimizer_steps(&self) -> Option<usize> {
        let optimizers = self.optimizers();
        let n: usize = optimizers.map(|f| f.scopes.len()).sum();
        (n > 0).then_some(n)
    }

    /// Steps from the optimizer that ends the cycle; otherwise from scopes that repeat.
    pub fn repeating(&self) -> Option<Vec<Step>> {
        if let Some(steps) = self.up_to_each_optimizer_step() {
            return Some(steps);
        }
        let repeating = self
            .families
            .iter()
            .filter(|f| f.scopes.len() >= MIN_SCOPES && f.is_apart() && f.covered() >= COVERED)
            .filter(|f| !f.is_of_torch())
            .filter(|f| !f.numbered || f.counts_up())
            .min_by_key(|f| (!f.numbered, f.depth(), Reverse(f.events()), &f.name));
        repeating.map(|family| enclosed(self.device, family))
    }

    fn optimizers(&self) -> impl Iterator<Item = &Family<'a>> {
        let families = self.families.iter();
        families.filter(|f| f.is_of_an_optimizer())
    }

    /// Steps from the optimizer that ends the cycle.
    pub fn up_to_each_optimizer_step(&self) -> Option<Vec<Step>> {
        let family = self.optimizer_of_the_cycle()?;
        let steps = up_to_each(self.device, family, self.cleared_by(family));
        (steps.len() > 1).then_some(steps)
    }

    /// The scopes in which an optimizer clears its gradients.
    fn cleared_by(&self, optimizer: &Family<'a>) -> Option<&Family<'a>> {
        let class = optimizer.name.strip_prefix("Optimizer.step#")?;
        let class = class.strip_suffix(".step")?;
        let name = format!("Optimizer.zero_grad#{class}.zero_grad");
        self.families.iter().find(|family| family.name == name)
    }

    /// The replays of a CUDA graph that follow the optimizer's steps.
    pub fn replayed(&self) -> Option<Vec<Step>> {
        replays::after(self.device, &self.up_to_each_optimizer_step()?)
    }

    /// The scopes of the optimizer that ends the cycle.
    fn optimizer_of_the_cycle(&self) -> Option<&Family<'a>> {
        let most = self.optimizers().map(|f| f.scopes.len()).max()?;
        // An optimizer that runs only now and then (a tenth as often as the most frequent one)
        // marks no steps. Of the others, the least frequent one closes a cycle: a discriminator may
        // step five times for each step of the generator.
        self.optimizers()
            .filter(|f| f.scopes.len() * 10 >= most && f.scopes.len() > 1)
            .min_by_key(|f| (f.scopes.len(), Reverse(f.scopes[0].events.start())))
    }
}

/// The name of a family: the scopes' name with each run of digits replaced by `#`.
pub fn family_name(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    let mut in_number = false;
    for c in name.chars() {
        if !c.is_ascii_digit() {
            pattern.push(c);
        } else if !in_number {
            pattern.push('#');
        }
        in_number = c.is_ascii_digit();
    }
    pattern
}

fn families<'a>(
    annotations: &[Annotation],
    stacks: &'a Stacks,
    watch: Watch<'_>,
) -> Result<Vec<Family<'a>>, Stopped> {
    let mut families: Vec<Family<'a>> = Vec::new();
    let mut by_name: FxHashMap<StrIdx, (u32, u32)> = FxHashMap::default();
    let mut ids: FxHashMap<&'a str, u32> = FxHashMap::default();
    let mut by_pattern: FxHashMap<String, u32> = FxHashMap::default();
    for (at, annotation) in annotations.iter().enumerate() {
        watch.at_row(at, || 0)?;
        let name = stacks.str(annotation.name);
        // Work that depends on the length of the name is done once for each name.
        let (id, family) = *by_name.entry(annotation.name).or_insert_with(|| {
            let next = ids.len() as u32;
            let id = *ids.entry(name).or_insert(next);
            let pattern = family_name(name);
            let next = families.len() as u32;
            let family = *by_pattern.entry(pattern).or_insert_with_key(|pattern| {
                families.push(Family {
                    numbered: pattern != name,
                    name: pattern.clone(),
                    scopes: Vec::new(),
                });
                next
            });
            (id, family)
        });
        let family = &mut families[family as usize];
        let events = annotation.events;
        match family.scopes.last_mut() {
            // This is another thread's scope of the same step.
            Some(last) if last.id == id && last.events.overlaps(events) => {
                let end = last.events.end().max(events.end());
                last.events = Span::new(last.events.start(), end);
            }
            _ => family.scopes.push(Scope {
                name,
                id,
                events,
                depth: annotation.depth,
            }),
        }
    }
    families.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(families)
}

/// The families, where an optimizer that takes the place of another one (SGD after Adam) is the
/// same family: a program changes its optimizer between two steps.
fn followed(families: Vec<Family<'_>>) -> Vec<Family<'_>> {
    let (mut optimizers, mut all): (Vec<_>, Vec<_>) = families
        .into_iter()
        .partition(|f| f.is_of_an_optimizer() && f.scopes.len() >= MIN_SCOPES);
    optimizers.sort_by_key(|f| f.scopes[0].events.start());
    let mut one_after_the_other = optimizers.windows(2).map(|pair| {
        let last = pair[0].scopes.last().expect("a family has scopes");
        last.events.end() <= pair[1].scopes[0].events.start()
    });
    if one_after_the_other.all(|follows| follows) {
        let rest = optimizers.split_off(optimizers.len().min(1));
        if let Some(first) = optimizers.first_mut() {
            first.scopes.extend(rest.into_iter().flat_map(|f| f.scopes));
        }
    }
    all.append(&mut optimizers);
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

impl Family<'_> {
    fn is_of_an_optimizer(&self) -> bool {
        self.name.starts_with("Optimizer.step#")
    }

    fn says_step(&self) -> bool {
        let name = self.name.to_lowercase();
        (name.contains("step") || name.contains("iter")) && !name.contains("micro")
    }

    /// Whether PyTorch itself opens the scopes, as parts of something: an optimizer's step, a
    /// collective, the compiler's tries of a kernel (`… (dynamo_timed)`).
    fn is_of_torch(&self) -> bool {
        let begins = ["Optimizer.", "nccl:"];
        begins.iter().any(|part| self.name.starts_with(part))
            || self.name.ends_with(" (dynamo_timed)")
    }

    /// The most common depth: the first scopes may lie inside scopes of another thread.
    fn depth(&self) -> u16 {
        let mut depths: Vec<u16> = self.scopes.iter().map(|s| s.depth).collect();
        depths.sort_unstable();
        depths[depths.len() / 2]
    }

    /// Whether most of the scopes have distinct names. Numbers that start again mark parts of
    /// steps.
    fn counts_up(&self) -> bool {
        let mut names: Vec<u32> = self.scopes.iter().map(|s| s.id).collect();
        names.sort_unstable();
        names.dedup();
        names.len() > 1 && names.len() * 2 > self.scopes.len() && self.is_apart()
    }

    fn is_apart(&self) -> bool {
        let mut neighbours = self.scopes.windows(2);
        neighbours.all(|w| w[0].events.end() <= w[1].events.start())
    }

    /// When the scopes begin that did not end before the first event.
    fn recorded(&self) -> Vec<EventIdx> {
        let scopes = self.scopes.iter();
        let recorded = scopes.filter(|scope| scope.events.end() > EventIdx(0));
        recorded.map(|scope| scope.events.start()).collect()
    }

    /// How many of these moments lie in a scope; and how many do, or are the first one in a gap
    /// after a scope. If most gaps have none, the others are left out: they lie behind steps that
    /// no scope marks, as where a profiler marks some now and then.
    fn inside_and_marked(&self, moments: &[EventIdx]) -> (usize, usize) {
        let (mut inside, mut gaps, mut done) = (0, 0, 0);
        for (index, scope) in self.scopes.iter().enumerate() {
            let first = moments.partition_point(|&at| at < scope.events.start());
            // What allocates nothing may have no events: it lies in a scope that ends there.
            let after = moments.partition_point(|&at| at <= scope.events.end());
            inside += after - first.max(done).min(after);
            done = after;
            let next = self.scopes.get(index + 1).map(|next| next.events.start());
            let in_gap = moments.get(after);
            gaps += usize::from(in_gap.is_some_and(|&at| next.is_none_or(|next| at < next)));
        }
        let marked = if gaps * 2 > self.scopes.len() {
            gaps
        } else {
            0
        };
        (inside, inside + marked)
    }

    /// Whether the last scope is no step: `prof.step()` ends a step and opens the next one, also
    /// after the last step. Then each scope begins where the one before it ends, and only the last
    /// one allocates nothing. The first one that a ring still holds may be cut.
    fn is_opened_in_vain(&self, device: &DeviceTrace) -> bool {
        let allocates = |scope: &Scope<'_>| {
            let events = scope.events.start().index()..scope.events.end().index();
            device.events.action[events].contains(&Action::Alloc)
        };
        let gone = |scope: &Scope<'_>| scope.events.end() == EventIdx(0);
        let scopes = &self.scopes[self.scopes.partition_point(gone)..];
        let [_, inner @ .., last] = scopes else {
            return false;
        };
        let follows = |w: &[Scope<'_>]| w[0].events.end() == w[1].events.start();
        self.numbered
            && inner.len() + 2 >= MIN_SCOPES
            && scopes.windows(2).all(follows)
            && !allocates(last)
            && inner.iter().all(allocates)
    }

    /// Events inside the scopes.
    fn events(&self) -> u64 {
        let len = |s: &Scope<'_>| u64::from(s.events.end().0 - s.events.start().0);
        self.scopes.iter().map(len).sum()
    }

    /// Share of the events from the first scope to the last that lie in scopes.
    fn covered(&self) -> f64 {
        match (self.scopes.first(), self.scopes.last()) {
            (Some(first), Some(last)) => {
                let all = last.events.end().0.saturating_sub(first.events.start().0);
                self.events() as f64 / f64::from(all.max(1))
            }
            _ => 0.0,
        }
    }
}

/// Makes a step of each scope. Steps that ended before the first event (a ring that wrapped) are
/// left out, because nothing is known of them; the others keep their number. So is what
/// [`Family::is_opened_in_vain`] says of the last scope.
fn enclosed(device: &DeviceTrace, family: &Family<'_>) -> Vec<Step> {
    let n = family.scopes.len() - usize::from(family.is_opened_in_vain(device));
    let scopes = family.scopes[..n].iter().enumerate();
    let recorded = scopes.filter(|(_, scope)| scope.events.end() > EventIdx(0));
    recorded
        .take(MAX_STEPS)
        .map(|(index, scope)| Step {
            index: index as u32,
            name: clipped(scope.name, STEP_NAME).into_owned(),
            events: scope.events,
        })
        .collect()
}

/// Makes a step up to the end of each optimizer step, including what belongs directly to it: the
/// following scopes without an allocation in between (`Optimizer.zero_grad`), and the frees after
/// them. An iteration whose optimizer's step was left out is a step, too.
fn up_to_each(device: &DeviceTrace, family: &Family<'_>, clears: Option<&Family<'_>>) -> Vec<Step> {
    let scopes = hooks::joined(device, runs(family));
    let mut skipped = left_out(device, &scopes, family, clears)
        .into_iter()
        .peekable();
    let mut steps: Vec<Step> = Vec::new();
    let (mut start, mut index) = (EventIdx(0), 0);
    for (at, &(scope, name)) in scopes.iter().enumerate() {
        let limit = match scopes.get(at + 1) {
            Some((next, _)) => next.start(),
            None => EventIdx(device.events.len()),
        };
        let end = tail(device, scope.end(), limit).max(start);
        let within = std::iter::from_fn(|| skipped.next_if(|&begin| begin < end));
        for end in within.chain([end]) {
            // Optimizer steps from before the first event keep their number. Frees that follow the
            // last of them are no step.
            if scope.end() > EventIdx(0) && steps.len() < MAX_STEPS {
                let name = name.trim_start_matches("Optimizer.");
                let name = clipped(name, STEP_NAME - "4294967295 ".len());
                steps.push(Step {
                    index,
                    name: format!("{name} {index}"),
                    events: Span::new(start, end),
                });
            }
            (start, index) = (end, index + 1);
        }
    }
    steps
}

/// Where iterations begin that follow one without an optimizer's step. There are none if several
/// scopes are one step.
fn left_out(
    device: &DeviceTrace,
    scopes: &[(Span<EventIdx>, &str)],
    family: &Family<'_>,
    clears: Option<&Family<'_>>,
) -> Vec<EventIdx> {
    let Some(clears) = clears.filter(|_| scopes.len() == family.scopes.len()) else {
        return Vec::new();
    };
    let steps: Vec<Span<EventIdx>> = scopes.iter().map(|(events, _)| *events).collect();
    let clears: Vec<Span<EventIdx>> = clears.scopes.iter().map(|scope| scope.events).collect();
    skipped::begins(device, &steps, &clears)
}

/// The scopes, where scopes that follow each other directly are joined: two optimizers of one class
/// step one after the other. If the gaps hold next to nothing, the optimizer calls the program (as
/// L-BFGS does), and each scope is a step.
fn runs<'a>(family: &Family<'a>) -> Vec<(Span<EventIdx>, &'a str)> {
    let between = |from: EventIdx, to: EventIdx| to.0.saturating_sub(from.0);
    let most = |counts: &mut dyn Iterator<Item = u32>| counts.max().unwrap_or(0);
    let pairs = family.scopes.windows(2);
    let mut gaps = pairs.map(|w| between(w[0].events.end(), w[1].events.start()));
    let longest = most(&mut gaps);
    let mut lengths = family
        .scopes
        .iter()
        .map(|s| between(s.events.start(), s.events.end()));
    let works_between = longest.saturating_mul(MUCH_IN_A_GAP) >= most(&mut lengths);
    let mut runs: Vec<(Span<EventIdx>, &'a str)> = Vec::new();
    for scope in &family.scopes {
        let events = scope.events;
        match runs.last_mut() {
            // A forward and a backward pass would take far more events than this gap.
            Some((last, _))
                if works_between && between(last.end(), events.start()) * 20 < longest =>
            {
                *last = Span::new(last.start(), events.end().max(last.end()));
            }
            _ => runs.push((events, scope.name)),
        }
    }
    runs
}

/// The first allocation from `from` on.
fn tail(device: &DeviceTrace, from: EventIdx, limit: EventIdx) -> EventIdx {
    let mut end = from;
    while end < limit && device.events.action[end.index()] != Action::Alloc {
        end = EventIdx(end.0 + 1);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_out_of_names() {
        let check = |name: &str, expected: &str| assert_eq!(family_name(name), expected);
        check("## step 12 ##", "## step # ##");
        check("ProfilerStep#7", "ProfilerStep##");
        check("Optimizer.step#AdamW.step", "Optimizer.step#AdamW.step");
    }

    /// The steps of scopes as (name, start, end, depth) over `n` marks.
    fn steps_of(n: u32, scopes: &[(&str, u32, u32, u16)]) -> Vec<Step> {
        let mut builder = crate::testing::TraceBuilder::default();
        (0..n).for_each(|_| builder.mark());
        let mut trace = builder.finish();
        for &(name, start, end, depth) in scopes {
            let name = trace.stacks.strings.push(name);
            trace.devices[0].annotations.push(Annotation {
                name,
                events: Span::new(EventIdx(start), EventIdx(end)),
                depth,
            });
        }
        trace.devices[0]
            .annotations
            .sort_by_key(|a| (a.events.start(), a.depth));
        let scopes = Scopes::new(&trace.devices[0], &trace.stacks, Watch::nobody());
        let scopes = scopes.unwrap();
        let steps = scopes.numbered().or_else(|| scopes.repeating());
        let steps = steps.or_else(|| scopes.numbered_anyhow());
        steps.unwrap_or_default()
    }

    /// Steps as `name start..end`.
    fn check(n: u32, scopes: &[(&str, u32, u32, u16)], expected: &[&str]) {
        let steps = steps_of(n, scopes);
        let shown: Vec<String> = steps
            .iter()
            .map(|s| format!("{} {}..{}", s.name, s.events.start(), s.events.end()))
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn steps_go_before_epochs_and_micro_batches() {
        check(
            40,
            &[
                ("epoch 0", 0, 20, 0),
                ("step 0", 0, 10, 1),
                ("microbatch 0", 0, 4, 2),
                ("microbatch 1", 4, 8, 2),
                ("step 1", 10, 20, 1),
                ("microbatch 0", 10, 14, 2),
                ("microbatch 1", 14, 18, 2),
                ("epoch 1", 20, 40, 0),
                ("step 2", 20, 30, 1),
                ("step 3", 30, 40, 1),
            ],
            &[
                "step 0 0..10",
                "step 1 10..20",
                "step 2 20..30",
                "step 3 30..40",
            ],
        );
    }

    #[test]
    fn scopes_of_several_threads_are_one_step() {
        check(
            20,
            &[
                ("step 0", 0, 9, 0),
                ("step 0", 1, 10, 0),
                ("step 1", 10, 19, 0),
                ("step 1", 11, 20, 0),
            ],
            &["step 0 0..10", "step 1 10..20"],
        );
    }

    #[test]
    fn two_optimizers_of_one_class_make_one_step() {
        check(
            100,
            &[
                ("Optimizer.step#Adam.step", 40, 44, 0),
                ("Optimizer.step#Adam.step", 45, 49, 0),
                ("Optimizer.step#Adam.step", 90, 94, 0),
                ("Optimizer.step#Adam.step", 95, 99, 0),
            ],
            &["step#Adam.step 0 0..90", "step#Adam.step 1 90..100"],
        );
    }

    #[test]
    fn an_optimizer_that_calls_the_program_steps_as_often_as_it_is_called() {
        check(
            100,
            &[
                ("Optimizer.step#LBFGS.step", 5, 35, 0),
                ("Optimizer.step#LBFGS.step", 35, 65, 0),
                ("Optimizer.step#LBFGS.step", 67, 97, 0),
            ],
            &[
                "step#LBFGS.step 0 0..35",
                "step#LBFGS.step 1 35..67",
                "step#LBFGS.step 2 67..100",
            ],
        );
    }

    #[test]
    fn an_optimizer_that_takes_the_place_of_another_one_goes_on_with_its_steps() {
        let name = |at| match at {
            0..3 => "Optimizer.step#SGD.step",
            _ => "Optimizer.step#AdamW.step",
        };
        let scopes: Vec<_> = (0..6)
            .map(|at| (name(at), 10 * at + 8, 10 * at + 10, 0))
            .collect();
        let steps = steps_of(60, &scopes);
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names[2..4], ["step#SGD.step 2", "step#AdamW.step 3"]);
        assert_eq!(steps.len(), 6);
    }

    #[test]
    fn what_the_compiler_tries_is_no_step() {
        let scope = |at: u32| {
            (
                "CachingAutotuner.benchmark_all_configs (dynamo_timed)",
                4 * at,
                4 * at + 4,
                0,
            )
        };
        check(40, &[scope(0), scope(1), scope(2), scope(3)], &[]);
    }

    #[test]
    fn the_rarer_optimizer_closes_the_cycle() {
        check(
            60,
            &[
                ("Optimizer.step#D.step", 5, 6, 0),
                ("Optimizer.step#D.step", 15, 16, 0),
                ("Optimizer.step#G.step", 25, 26, 0),
                ("Optimizer.step#D.step", 35, 36, 0),
                ("Optimizer.step#D.step", 45, 46, 0),
                ("Optimizer.step#G.step", 55, 56, 0),
            ],
            &["step#G.step 0 0..55", "step#G.step 1 55..60"],
        );
    }

    #[test]
    fn a_ring_that_wrapped_keeps_the_numbers() {
        check(
            20,
            &[
                ("step 0", 0, 0, 0),
                ("step 1", 0, 8, 0),
                ("step 2", 8, 20, 0),
            ],
            &["step 1 0..8", "step 2 8..20"],
        );
    }

    /// `a` allocates and `.` does not; the scopes of steps begin at these events, the last one
    /// included. `gap`: so many events lie between two scopes.
    #[test]
    fn a_scope_that_is_opened_after_the_last_step_is_no_step() {
        let check = |events: &str, starts: &[u32], gap: u32, expected: usize| {
            let mut builder = crate::testing::TraceBuilder::default();
            for event in events.chars() {
                match event {
                    'a' => drop(builder.alloc(crate::testing::block_of(crate::units::Bytes(4)))),
                    _ => builder.mark(),
                }
            }
            let mut trace = builder.finish();
            let n = trace.devices[0].events.len();
            let ends = starts[1..].iter().map(|start| start - gap).chain([n]);
            for (number, (&start, end)) in starts.iter().zip(ends).enumerate() {
                let name = trace.stacks.strings.push(&format!("ProfilerStep#{number}"));
                trace.devices[0].annotations.push(Annotation {
                    name,
                    events: Span::new(EventIdx(start), EventIdx(end)),
                    depth: 0,
                });
            }
            let scopes = Scopes::new(&trace.devices[0], &trace.stacks, Watch::nobody());
            let steps = scopes.unwrap().numbered().unwrap_or_default();
            assert_eq!(steps.len(), expected, "{events} {starts:?}");
        };
        check("aaaaaa", &[0, 2, 4, 6], 0, 3);
        // What is given back when the function of the loop returns.
        check("aaaaaa.", &[0, 2, 4, 6], 0, 3);
        // It has work, and the recording ends in it.
        check("aaaaaaa", &[0, 2, 4, 6], 0, 4);
        // Other steps allocate nothing, either.
        check("aa..aa..", &[0, 2, 4, 6], 0, 4);
        // The begin of a ring.
        check(".aaaa", &[0, 1, 3, 5], 0, 3);
        check(".aaaa", &[0, 0, 1, 3, 5], 0, 3);
        check("aaaaaa", &[0, 2, 4, 6], 1, 4);
    }

    #[test]
    fn frees_after_a_scope_from_before_a_ring_are_no_step() {
        check(
            100,
            &[
                ("Optimizer.step#A.step", 0, 0, 0),
                ("Optimizer.step#A.step", 40, 44, 0),
                ("Optimizer.step#A.step", 90, 94, 0),
            ],
            &["step#A.step 1 40..90", "step#A.step 2 90..100"],
        );
    }

    #[test]
    fn rare_scopes_that_cover_little_mark_nothing() {
        check(
            100,
            &[
                ("save", 10, 11, 0),
                ("save", 50, 51, 0),
                ("save", 90, 91, 0),
            ],
            &[],
        );
    }

    /// Scopes that come again: name (`*` is the number), events from one to the next, events in it,
    /// depth, first event.
    type Rows<'a> = &'a [(&'a str, u32, u32, u16, u32)];

    /// Which scopes mark the steps of 240 events, and how many.
    fn taken(rows: Rows<'_>) -> (String, usize) {
        let scopes = rows.iter().flat_map(|&(name, every, len, depth, first)| {
            let starts = (0_u32..).map(move |i| (i, first + i * every));
            let starts = starts.take_while(move |(_, start)| start + len <= 240);
            starts.map(move |(i, start)| {
                let name = name.replace('*', &i.to_string());
                (name, start, start + len, depth)
            })
        });
        let scopes: Vec<(String, u32, u32, u16)> = scopes.collect();
        let scopes: Vec<(&str, u32, u32, u16)> = scopes
            .iter()
            .map(|(name, start, end, depth)| (name.as_str(), *start, *end, *depth))
            .collect();
        let steps = steps_of(240, &scopes);
        (family_name(&steps[0].name), steps.len())
    }

    #[test]
    fn the_scopes_of_the_training_are_the_steps() {
        const TRAIN: (&str, u32, u32, u16, u32) = ("train_step_*", 10, 6, 0, 0);
        const OPTIMIZER: (&str, u32, u32, u16, u32) = ("Optimizer.step#A.step", 10, 1, 1, 4);
        let by_optimizer = ("#A.step #", 24);
        let cases: &[(Rows<'_>, (&str, usize))] = &[
            // Evaluations now and then, one after each step, and longer ones than the step.
            (
                &[TRAIN, OPTIMIZER, ("val_step_*", 40, 3, 0, 6)],
                ("train_step_#", 24),
            ),
            (&[TRAIN, ("val_step_*", 40, 3, 0, 6)], ("train_step_#", 24)),
            (
                &[TRAIN, OPTIMIZER, ("val_step_*", 10, 3, 0, 6)],
                ("train_step_#", 24),
            ),
            (
                &[
                    ("train_step_*", 10, 3, 0, 0),
                    ("val_step_*", 10, 6, 0, 4),
                    ("Optimizer.step#A.step", 10, 1, 1, 1),
                ],
                ("train_step_#", 24),
            ),
            // Only what happens now and then is numbered.
            (&[OPTIMIZER, ("save_step_*", 60, 2, 0, 58)], by_optimizer),
            (&[OPTIMIZER, ("step *", 100, 10, 0, 0)], by_optimizer),
            (&[OPTIMIZER, ("val_step_*", 2, 1, 0, 200)], by_optimizer),
            (
                &[("save_step_*", 60, 2, 0, 58), ("batch *", 10, 8, 0, 0)],
                ("batch #", 24),
            ),
            (&[("save_step_*", 60, 2, 0, 58)], ("save_step_#", 4)),
            // A part of each step, and what is around several.
            (
                &[OPTIMIZER, ("forward_step_*", 10, 2, 0, 0)],
                ("forward_step_#", 24),
            ),
            (
                &[OPTIMIZER, ("optimizer_step_*", 10, 2, 0, 4)],
                ("optimizer_step_#", 24),
            ),
            (
                &[
                    ("iteration *", 60, 58, 0, 0),
                    ("train_step_*", 10, 6, 1, 0),
                    OPTIMIZER,
                ],
                ("iteration #", 4),
            ),
            (
                &[("ProfilerStep#*", 10, 10, 0, 0), TRAIN, OPTIMIZER],
                ("ProfilerStep##", 24),
            ),
        ];
        for (rows, (name, count)) in cases {
            let (taken, n) = taken(rows);
            assert_eq!(
                (taken.ends_with(name), n),
                (true, *count),
                "{taken}: {rows:?}"
            );
        }
    }

    /// A profiler marks three of eight steps, and again.
    #[test]
    fn scopes_of_some_steps_are_not_the_steps() {
        let (name, n) = taken(&[
            ("ProfilerStep#1*", 80, 10, 0, 0),
            ("ProfilerStep#2*", 80, 10, 0, 10),
            ("ProfilerStep#3*", 80, 10, 0, 20),
            ("Optimizer.step#A.step", 10, 1, 1, 4),
        ]);
        assert!(name.ends_with("#A.step #") && n == 24, "{n} of {name}");
    }
}
