//! Growth inside a step that ends with it: parts of a step (micro-batches) that each leave
//! something behind, all of it given back together when the step ends.
//!
//! A view at the ends of steps misses it, yet the peak grows with the number of parts. Many things
//! nest in a step and accumulate for good reason: layers keep activations until the backward pass
//! takes them one by one, gradients fill until they are zeroed. So all of these must hold:
//!
//! * the scopes are a family (names differ only in a number) with at least [`MIN_PARTS`] in each
//!   step, and cover most of its events: they are the step's work, not a piece of it;
//! * the site adds to what is alive with nearly every part after the first, in every step looked
//!   at, and about as much each time;
//! * what accumulated goes in one sweep near the step's end: not one by one between allocations,
//!   as a backward pass does.

use super::judge::{self, Finding};
use super::survivors::{Ends, Survey};
use super::{LeakGroup, MIN_BYTES, Pattern, View};
use crate::span::Span;
use crate::stacks::{FxHashMap, StrIdx};
use crate::steps::family_name;
use crate::trace::{Annotation, Step};
use crate::units::EventIdx;

/// Parts of a step that it takes: the first differs, three must grow.
const MIN_PARTS: usize = 4;
/// Share of a step's events that must lie in its parts.
const COVERED: f64 = 0.6;
/// Steps looked at, the last ones: each costs a pass over its blocks.
const MAX_STEPS: usize = 3;
/// Share of a part's own peak that a leak may be; parts that keep more are building something up.
const MOST_KEPT: f64 = 0.5;

/// A family of scopes that are the parts of steps.
struct Parts<'a> {
    name: StrIdx,
    /// Per step looked at: its position among the steps, and its parts.
    steps: Vec<(usize, &'a Step, Vec<&'a Annotation>)>,
}

/// Groups that accumulate within steps.
pub fn find(view: &View<'_>, steps: &[&Step]) -> Vec<LeakGroup> {
    let mut groups: Vec<LeakGroup> = Vec::new();
    for parts in parts(view, steps) {
        groups.extend(of_parts(view, &parts));
        if !groups.is_empty() {
            break;
        }
    }
    groups
}

/// Families of scopes that make up the last steps, fewest scopes first.
fn parts<'a>(view: &View<'a>, steps: &[&'a Step]) -> Vec<Parts<'a>> {
    let skip = steps.len().saturating_sub(MAX_STEPS);
    let mut families: FxHashMap<String, Parts<'a>> = FxHashMap::default();
    for (index, &step) in steps.iter().enumerate().skip(skip) {
        let annotations = &view.device.annotations;
        let from = annotations.partition_point(|a| a.events.start() < step.events.start());
        let inside = annotations[from..]
            .iter()
            .take_while(|a| a.events.start() < step.events.end())
            .filter(|a| a.events.end() <= step.events.end() && a.events != step.events);
        for scope in inside {
            let name = family_name(view.stacks.str(scope.name));
            let family = families.entry(name).or_insert_with(|| Parts {
                name: scope.name,
                steps: Vec::new(),
            });
            match family.steps.last_mut() {
                Some((at, _, scopes)) if *at == index => scopes.push(scope),
                _ => family.steps.push((index, step, vec![scope])),
            }
        }
    }
    let looked_at = steps.len() - skip;
    let mut found: Vec<Parts<'a>> = families
        .into_values()
        .filter(|f| f.steps.len() == looked_at && f.steps.iter().all(|(_, s, p)| is_work(s, p)))
        .collect();
    found.sort_by_key(|f| {
        (
            f.steps.iter().map(|(_, _, p)| p.len()).sum::<usize>(),
            f.name,
        )
    });
    found
}

/// Whether scopes are the work of a step, one after another.
fn is_work(step: &Step, parts: &[&Annotation]) -> bool {
    let len = |events: Span<EventIdx>| f64::from(events.end().0 - events.start().0);
    let apart = parts
        .windows(2)
        .all(|w| w[0].events.end() <= w[1].events.start());
    let covered: f64 = parts.iter().map(|p| len(p.events)).sum();
    parts.len() >= MIN_PARTS && apart && covered >= COVERED * len(step.events)
}

fn of_parts(view: &View<'_>, parts: &Parts<'_>) -> Vec<LeakGroup> {
    let mut seen: FxHashMap<usize, usize> = FxHashMap::default();
    let mut last = None;
    for (index, step, scopes) in &parts.steps {
        let ends = Ends::new(scopes.iter().map(|s| s.events.end().0).collect());
        let survey = Survey::new(
            &view.device.blocks,
            view.sites,
            &ends,
            step.events.start().0,
        );
        let inner = View {
            ends: &ends,
            survey: &survey,
            ..*view
        };
        let grown = grown(&inner, step, scopes);
        for (site, _) in &grown {
            *seen.entry(*site).or_default() += 1;
        }
        let groups = inner.groups(&grown);
        let sites: Vec<usize> = grown.iter().map(|(site, _)| *site).collect();
        last = Some((*index, sites, groups));
    }
    let Some((index, sites, groups)) = last else {
        return Vec::new();
    };
    let steps = parts.steps.len();
    let first_step = (index + 1 - steps) as u32;
    let in_all = |site: &usize| seen.get(site) == Some(&steps);
    let groups = sites.iter().zip(groups).filter(|(site, _)| in_all(site));
    groups
        .map(|(_, group)| LeakGroup {
            pattern: Pattern::WithinStep,
            scope: Some(parts.name),
            first_step,
            last_step: index as u32,
            ..group
        })
        .collect()
}

/// Sites that add with every part of one step and are swept away near its end.
fn grown(view: &View<'_>, step: &Step, scopes: &[&Annotation]) -> Vec<(usize, judge::Growth)> {
    let found = super::findings(view.survey);
    let mut grown: Vec<(usize, judge::Growth)> = found
        .into_iter()
        .filter_map(|(site, finding)| match finding {
            Finding::Grows(growth) if growth.pattern == Pattern::EveryStep => Some((site, growth)),
            _ => None,
        })
        .collect();
    grown.retain(|(site, _)| is_swept(view, step, *site));
    let kept: f64 = grown.iter().map(|(_, g)| g.bytes_per_growth).sum();
    // A part that keeps most of what it ever had is building something up for later.
    let rise = largest_rise(view, scopes) as f64;
    match kept >= MIN_BYTES.0 as f64 && kept <= MOST_KEPT * rise {
        true => grown,
        false => Vec::new(),
    }
}

/// How far allocated rises above where it was when a part begins: the median over the parts.
fn largest_rise(view: &View<'_>, scopes: &[&Annotation]) -> u64 {
    let mut rises: Vec<u64> = scopes
        .iter()
        .map(|scope| {
            let before = view.device.levels_before(scope.events.start());
            let peak = view.device.allocated_peak(scope.events);
            let allocated = before.get(crate::trace::Series::Allocated);
            peak.saturating_sub(allocated).0
        })
        .collect();
    rises.sort_unstable();
    rises[rises.len() / 2]
}

/// Whether what a site keeps to the last part is given back in one sweep: with fewer allocations
/// between the first and the last free than there are blocks.
fn is_swept(view: &View<'_>, step: &Step, site: usize) -> bool {
    let last_end = *view.ends.as_slice().last().expect("a step has parts");
    let blocks = &view.device.blocks;
    let (mut first_free, mut last_free, mut n) = (u32::MAX, 0, 0_u32);
    for index in blocks.allocated_in(Span::new(step.events.start(), EventIdx(last_end))) {
        let freed = blocks.free_requested[index as usize];
        let kind = blocks.kind[index as usize].index();
        if freed >= last_end && view.sites.of_kind[kind] as usize == site {
            n += 1;
            first_free = first_free.min(freed);
            last_free = last_free.max(freed);
        }
    }
    if last_free >= view.device.events.len() {
        return false;
    }
    let between = blocks.allocated_in(Span::new(EventIdx(first_free), EventIdx(last_free)));
    (between.len() as u32) < n
}
