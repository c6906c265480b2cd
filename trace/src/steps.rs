//! Training steps: from annotations, else from what repeats.

use crate::span::Span;
use crate::stacks::{FxHashMap, Stacks, StrIdx};
use crate::trace::{Action, Annotation, DeviceTrace, Step, StepSource};
use crate::units::EventIdx;

/// Finds the steps of a device and notes where they come from.
pub fn find(device: &mut DeviceTrace, stacks: &Stacks) {
    if let Some(steps) = from_annotations(device, stacks) {
        device.steps = steps;
        device.step_source = StepSource::Annotations;
    }
}

/// A set of scopes that could be the steps.
struct Family<'a> {
    scopes: Vec<&'a Annotation>,
    numbered: bool,
}

/// Scopes whose names differ only in a number (`## step 7 ##`, `ProfilerStep#7`), else optimizer
/// steps, else any scope that repeats.
fn from_annotations(device: &DeviceTrace, stacks: &Stacks) -> Option<Vec<Step>> {
    let mut families: FxHashMap<String, Family<'_>> = FxHashMap::default();
    for scope in &device.annotations {
        let name = stacks.str(scope.name);
        let pattern = without_numbers(name);
        let numbered = pattern != name;
        let family = families.entry(pattern).or_insert_with(|| Family {
            scopes: Vec::new(),
            numbered,
        });
        family.scopes.push(scope);
    }
    let mut numbered: Vec<&Family<'_>> = families
        .values()
        .filter(|f| f.numbered && counts_up(f, stacks))
        .collect();
    // The outermost numbered family: micro-batches are numbered too, inside steps.
    numbered.sort_by_key(|f| (f.scopes[0].depth, f.scopes.len()));
    if let Some(family) = numbered.first() {
        return Some(enclosed(family, stacks));
    }
    let optimizer = families
        .iter()
        .filter(|(name, f)| name.starts_with("Optimizer.step#") && f.scopes.len() > 1)
        .max_by_key(|(name, f)| (f.scopes.len(), (*name).clone()));
    if let Some((_, family)) = optimizer {
        return Some(up_to_each(device, family, stacks));
    }
    let repeating = families
        .iter()
        .filter(|(_, f)| f.scopes.len() > 1 && f.scopes.iter().all(|s| !s.events.is_empty()))
        .min_by_key(|(name, f)| {
            (
                f.scopes[0].depth,
                std::cmp::Reverse(covered(f)),
                (*name).clone(),
            )
        });
    repeating.map(|(_, family)| enclosed(family, stacks))
}

/// Events inside a family's scopes.
fn covered(family: &Family<'_>) -> u64 {
    let len = |s: &&Annotation| u64::from(s.events.end().0 - s.events.start().0);
    family.scopes.iter().map(len).sum()
}

/// The name with each run of digits replaced by `#`.
fn without_numbers(name: &str) -> String {
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

/// Whether a family's scopes are distinct and follow each other without overlap.
fn counts_up(family: &Family<'_>, stacks: &Stacks) -> bool {
    let mut names: Vec<&str> = family.scopes.iter().map(|s| stacks.str(s.name)).collect();
    names.sort_unstable();
    names.dedup();
    let distinct = names.len() > 1 && names.len() * 2 > family.scopes.len();
    let apart = family
        .scopes
        .windows(2)
        .all(|w| w[0].events.end() <= w[1].events.start());
    distinct && apart
}

/// A step per scope. Steps that ended before the first event (a ring that wrapped) are left out:
/// nothing is known of them; the others keep their number.
fn enclosed(family: &Family<'_>, stacks: &Stacks) -> Vec<Step> {
    let step = |(index, scope): (usize, &&Annotation)| Step {
        index: index as u32,
        name: stacks.str(scope.name).to_owned(),
        events: scope.events,
    };
    let recorded = |(_, scope): &(usize, &&Annotation)| scope.events.end() > EventIdx(0);
    family
        .scopes
        .iter()
        .enumerate()
        .filter(recorded)
        .map(step)
        .collect()
}

/// A step up to the end of each optimizer step, and of what directly belongs to it: the following
/// scopes without an allocation in between (`Optimizer.zero_grad`), and the frees after them.
fn up_to_each(device: &DeviceTrace, family: &Family<'_>, stacks: &Stacks) -> Vec<Step> {
    let mut steps = Vec::with_capacity(family.scopes.len());
    let mut start = EventIdx(0);
    for (index, scope) in family.scopes.iter().enumerate() {
        let limit = match family.scopes.get(index + 1) {
            Some(next) => next.events.start(),
            None => EventIdx(device.events.len()),
        };
        let end = tail(device, scope.events.end(), limit).max(start);
        steps.push(Step {
            index: index as u32,
            name: format!("{} {index}", name_of_optimizer(stacks, scope.name)),
            events: Span::new(start, end),
        });
        start = end;
    }
    steps
}

fn name_of_optimizer(stacks: &Stacks, name: StrIdx) -> &str {
    stacks.str(name).trim_start_matches("Optimizer.")
}

/// The first allocation from `from` on that lies outside `Optimizer.zero_grad` and the like.
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
        let check = |name: &str, expected: &str| assert_eq!(without_numbers(name), expected);
        check("## step 12 ##", "## step # ##");
        check("ProfilerStep#7", "ProfilerStep##");
        check("Optimizer.step#AdamW.step", "Optimizer.step#AdamW.step");
    }
}
