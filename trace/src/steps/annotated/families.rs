//! Families of scopes: those whose names differ only in numbers, and what each says of itself.

use crate::median;
use crate::optimizer::is_step_scope;
use crate::span::Span;
use crate::stacks::{FxHashMap, Stacks, StrIdx};
use crate::trace::{Action, Annotation, DeviceTrace};
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};

/// Bytes of a scope in its family.
pub(in super::super) const PER_SCOPE: usize = 96;
/// A family needs this many scopes, unless its name says step.
pub(super) const MIN_SCOPES: usize = 3;

/// A scope, or several of one name that overlap (threads that each open it).
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) name: &'a str,
    /// Equal for equal names: comparing names of a few kilobytes a million times would be too slow.
    id: u32,
    pub(super) events: Span<EventIdx>,
    depth: u16,
}

/// Scopes whose names differ only in numbers, by first event.
pub(super) struct Family<'a> {
    pub(super) name: String,
    pub(super) scopes: Vec<Scope<'a>>,
    pub(super) numbered: bool,
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

pub(super) fn families<'a>(
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
pub(super) fn followed(families: Vec<Family<'_>>) -> Vec<Family<'_>> {
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
    pub(super) fn is_of_an_optimizer(&self) -> bool {
        is_step_scope(&self.name)
    }

    pub(super) fn says_step(&self) -> bool {
        let name = self.name.to_lowercase();
        (name.contains("step") || name.contains("iter")) && !name.contains("micro")
    }

    /// Whether PyTorch itself opens the scopes, as parts of something: an optimizer's step, a
    /// collective, the compiler's tries of a kernel (`… (dynamo_timed)`).
    pub(super) fn is_of_torch(&self) -> bool {
        let begins = ["Optimizer.", "nccl:"];
        begins.iter().any(|part| self.name.starts_with(part))
            || self.name.ends_with(" (dynamo_timed)")
    }

    /// The usual depth: the first scopes may lie inside scopes of another thread.
    pub(super) fn depth(&self) -> u16 {
        median::upper(self.scopes.iter().map(|s| s.depth)).unwrap_or(0)
    }

    /// Whether most of the scopes have distinct names. Numbers that start again mark parts of
    /// steps.
    pub(super) fn counts_up(&self) -> bool {
        let mut names: Vec<u32> = self.scopes.iter().map(|s| s.id).collect();
        names.sort_unstable();
        names.dedup();
        names.len() > 1 && names.len() * 2 > self.scopes.len() && self.is_apart()
    }

    pub(super) fn is_apart(&self) -> bool {
        let mut neighbours = self.scopes.windows(2);
        neighbours.all(|w| w[0].events.end() <= w[1].events.start())
    }

    /// When the scopes begin that did not end before the first event.
    pub(super) fn recorded(&self) -> Vec<EventIdx> {
        let scopes = self.scopes.iter();
        let recorded = scopes.filter(|scope| scope.events.end() > EventIdx(0));
        recorded.map(|scope| scope.events.start()).collect()
    }

    /// How many of these moments lie in a scope; and how many do, or are the first one in a gap
    /// after a scope. If most gaps have none, the others are left out: they lie behind steps that
    /// no scope marks, as where a profiler marks some now and then.
    pub(super) fn inside_and_marked(&self, moments: &[EventIdx]) -> (usize, usize) {
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
    pub(super) fn is_opened_in_vain(&self, device: &DeviceTrace) -> bool {
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
    pub(super) fn events(&self) -> u64 {
        let len = |s: &Scope<'_>| u64::from(s.events.len());
        self.scopes.iter().map(len).sum()
    }

    /// Share of the events from the first scope to the last that lie in scopes.
    pub(super) fn covered(&self) -> f64 {
        match (self.scopes.first(), self.scopes.last()) {
            (Some(first), Some(last)) => {
                let all = last.events.end().0.saturating_sub(first.events.start().0);
                self.events() as f64 / f64::from(all.max(1))
            }
            _ => 0.0,
        }
    }
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
}
