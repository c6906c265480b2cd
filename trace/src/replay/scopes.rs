//! Annotations: named scopes as half-open intervals of events.
//!
//! START and END are paired by name and nesting. A scope belongs to every device of the process,
//! since it says what the program did at that time. Events are ordered by index and times are only
//! labels. So an end lies after the last event whose time is not later.

use crate::snapshot::{RawAnnotation, Stage};
use crate::span::Span;
use crate::trace::{Annotation, Events};
use crate::units::EventIdx;

/// The scopes of a process, placed among the events of one of its devices; sorted by first event,
/// outer scopes first.
pub fn of_device(raw: &[RawAnnotation], events: &Events) -> Vec<Annotation> {
    let n_events = events.len();
    // Without times (torch before 2.2) nothing can be placed.
    let timed = n_events > 0 && events.time.get(n_events as usize - 1).0 != 0;
    if !timed {
        return Vec::new();
    }
    let at = |annotation: &RawAnnotation| EventIdx(events.time.first_after(annotation.time) as u32);
    let mut open: Vec<(RawAnnotation, EventIdx)> = Vec::new();
    let mut scopes = Vec::new();
    for annotation in raw {
        match annotation.stage {
            // A program nests only a few scopes. Scopes that open and never end must not cost more
            // and more.
            Stage::Start if open.len() >= MAX_OPEN => {}
            Stage::Start => open.push((*annotation, at(annotation))),
            Stage::End => {
                let start = open
                    .iter()
                    .rposition(|(start, _)| start.name == annotation.name);
                let (start, depth) = match start {
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

/// The largest number of scopes that are open at one moment, in all threads together.
const MAX_OPEN: usize = 1024;

fn scope(annotation: &RawAnnotation, start: EventIdx, end: EventIdx, depth: usize) -> Annotation {
    Annotation {
        name: annotation.name,
        events: Span::new(start, end),
        depth: u16::try_from(depth).unwrap_or(u16::MAX),
    }
}
