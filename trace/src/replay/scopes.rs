//! Annotations: named scopes as half-open intervals of events.
//!
//! START and END are paired by name, nesting and device; by name and nesting where the program went
//! on to another device in between. A scope belongs to every device of the process, since it says
//! what the program did at that time. But threads that each drive a device of their own do the same
//! things at the same time: then each device has the scopes of its own thread. Events are ordered
//! by index and times are only labels. So an end lies after the last event whose time is not later.

use crate::device::DeviceIdx;
use crate::snapshot::{RawAnnotation, Stage};
use crate::span::Span;
use crate::stacks::{FxHashMap, StrIdx, Strings};
use crate::trace::{Annotation, Events};
use crate::units::{EventIdx, Micros};
use std::collections::BTreeSet;

/// The scopes of a process, placed among the events of one of its devices; sorted by first event,
/// outer scopes first.
pub fn of_device(
    raw: &[RawAnnotation],
    device: DeviceIdx,
    strings: &Strings,
    events: &Events,
) -> Vec<Annotation> {
    let n_events = events.len();
    // Without times (torch before 2.2) nothing can be placed.
    let timed = n_events > 0 && events.time.get(n_events as usize - 1).0 != 0;
    if !timed {
        return Vec::new();
    }
    let at = |annotation: &RawAnnotation| EventIdx(events.time.first_after(annotation.time) as u32);
    let mut open: Vec<(RawAnnotation, EventIdx)> = Vec::new();
    let mut scopes = Vec::new();
    let others = of_other_threads(raw, device, strings);
    let is_other = |annotation: &RawAnnotation| {
        annotation.device != device && others.contains(family(strings, annotation))
    };
    for annotation in raw.iter().filter(|annotation| !is_other(annotation)) {
        match annotation.stage {
            // A program nests only a few scopes. Scopes that open and never end must not cost more
            // and more.
            Stage::Start if open.len() >= MAX_OPEN => {}
            Stage::Start => open.push((*annotation, at(annotation))),
            Stage::End => {
                let is_named = |start: &RawAnnotation| start.name == annotation.name;
                let is_its = |start: &RawAnnotation| start.device == annotation.device;
                let of_device = open.iter().rposition(|(s, _)| is_named(s) && is_its(s));
                let of_any = || open.iter().rposition(|(s, _)| is_named(s));
                let (start, depth) = match of_device.or_else(of_any) {
                    Some(index) => (open.remove(index).1, index),
                    // The start was overwritten in the ring, so the scope began before the first
                    // event.
                    None => (EventIdx(0), open.len()),
                };
                let end = at(annotation).max(start);
                scopes.push(scope(annotation, start, end, depth));
            }
        }
    }
    // Still open when the snapshot was taken.
    for (depth, (annotation, start)) in open.iter().enumerate() {
        scopes.push(scope(annotation, *start, EventIdx(n_events), depth));
    }
    scopes.sort_by_key(|s| (s.events.start(), s.depth));
    scopes
}

/// What scopes of one kind have in common: `ProfilerStep#3` and `ProfilerStep#4`.
fn family<'s>(strings: &'s Strings, annotation: &RawAnnotation) -> &'s str {
    let name = strings.get(annotation.name);
    let number = name.find(|c: char| c.is_ascii_digit());
    &name[..number.unwrap_or(name.len())]
}

/// The families of which a device has scopes of its own, while another thread has the same ones for
/// its own device: scopes of the two overlap in time, and neither lies within the other. One thread
/// that goes from device to device cannot do that.
fn of_other_threads<'s>(
    raw: &[RawAnnotation],
    device: DeviceIdx,
    strings: &'s Strings,
) -> BTreeSet<&'s str> {
    let is_own = |annotation: &&RawAnnotation| annotation.device == device;
    let n_own = raw.iter().filter(is_own).count();
    if n_own == 0 || n_own == raw.len() {
        return BTreeSet::new();
    }
    let own = raw.iter().filter(is_own);
    let mut own: BTreeSet<&str> = own.map(|annotation| family(strings, annotation)).collect();
    let mut open: FxHashMap<(StrIdx, DeviceIdx), Vec<Micros>> = FxHashMap::default();
    let mut whole: FxHashMap<&str, Vec<(Micros, Micros, DeviceIdx)>> = FxHashMap::default();
    for annotation in raw {
        let family = family(strings, annotation);
        let starts = open
            .entry((annotation.name, annotation.device))
            .or_default();
        match annotation.stage {
            Stage::Start => starts.push(annotation.time),
            Stage::End => {
                let scopes = whole.entry(family).or_default();
                let start = starts.pop();
                scopes.extend(start.map(|start| (start, annotation.time, annotation.device)));
            }
        }
    }
    own.retain(|family| {
        let scopes = whole.get_mut(family);
        scopes.is_some_and(|scopes| {
            scopes.sort_unstable();
            scopes
                .windows(2)
                .any(|pair| are_of_two_threads(pair[0], pair[1]))
        })
    });
    own
}

/// Whether two scopes, the second beginning no sooner, can only be of two threads.
fn are_of_two_threads(
    (start, end, device): (Micros, Micros, DeviceIdx),
    (next, next_end, other): (Micros, Micros, DeviceIdx),
) -> bool {
    let is_within = start < next && next_end < end;
    device != other && next < end && !is_within
}

/// The largest number of scopes that are open at one moment, in all threads together.
const MAX_OPEN: usize = 1024;

fn scope(annotation: &RawAnnotation, start: EventIdx, end: EventIdx, depth: usize) -> Annotation {
    Annotation {
        name: annotation.name,
        events: Span::new(start, end),
        depth: u16::try_from(depth).unwrap_or(u16::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::TimeColumn;

    /// The scopes of a device whose events are 1 µs apart: `name first..end`.
    fn scopes(raw: &[(&str, u32, char, i64)], device: u32) -> Vec<String> {
        let mut strings = Strings::default();
        let raw: Vec<RawAnnotation> = raw
            .iter()
            .map(|&(name, device, stage, time)| RawAnnotation {
                name: (0..strings.len() as u32)
                    .map(StrIdx)
                    .find(|&known| strings.get(known) == name)
                    .unwrap_or_else(|| strings.push(name)),
                stage: if stage == '[' {
                    Stage::Start
                } else {
                    Stage::End
                },
                device: DeviceIdx(device),
                time: Micros(time),
            })
            .collect();
        let mut time = TimeColumn::default();
        (1..=100).for_each(|at| time.push(Micros(at)));
        let mut events = Events {
            time,
            ..Events::default()
        };
        events.action = vec![crate::trace::Action::Alloc; 100];
        let found = of_device(&raw, DeviceIdx(device), &strings, &events).into_iter();
        let told = found.map(|scope| {
            let name = strings.get(scope.name);
            format!(
                "{name} {}..{}",
                scope.events.start().0,
                scope.events.end().0
            )
        });
        told.collect()
    }

    #[test]
    fn each_thread_has_the_scopes_of_its_own_device() {
        let check = |raw: &[(&str, u32, char, i64)], device: u32, expected: &[&str]| {
            assert_eq!(scopes(raw, device), expected, "{raw:?} on {device}");
        };
        let threads = [
            ("step 0", 0, '[', 10),
            ("step 0", 1, '[', 12),
            ("load", 0, '[', 13),
            ("load", 0, ']', 14),
            ("step 0", 0, ']', 20),
            ("step 1", 0, '[', 20),
            ("step 0", 1, ']', 30),
            ("step 1", 1, '[', 31),
            ("step 1", 0, ']', 35),
            ("step 1", 1, ']', 50),
        ];
        check(
            &threads,
            0,
            &["step 0 10..20", "load 13..14", "step 1 20..35"],
        );
        // What only one thread does is shown with every device.
        check(
            &threads,
            1,
            &["step 0 12..30", "load 13..14", "step 1 31..50"],
        );
        // A device without scopes has those of all.
        assert_eq!(scopes(&threads, 2).len(), 5);
        // One thread that goes from device to device.
        let one = [
            ("step 0", 0, '[', 10),
            ("step 0", 1, ']', 20),
            ("step 1", 1, '[', 20),
            ("step 1", 1, ']', 30),
            ("step 2", 0, '[', 30),
            ("step 2", 0, ']', 40),
        ];
        let all = ["step 0 10..20", "step 1 20..30", "step 2 30..40"];
        check(&one, 0, &all);
        check(&one, 1, &all);
        // One within the other.
        let nested = [
            ("f", 0, '[', 10),
            ("f", 1, '[', 12),
            ("f", 1, ']', 14),
            ("f", 0, ']', 20),
        ];
        check(&nested, 1, &["f 10..20", "f 12..14"]);
    }
}
