//! Bands over the plot: the steps, and annotations nested in lanes by depth.

use super::mountain::Frame;
use super::plot::PxRect;
use super::scene::{Anchor, Scene, Text, fits, fitted};
use super::uncovered::uncovered;
use crate::format::count;
use api::contents::PhaseMark;
use api::timeline::{AnnotationMark, Marks};
use trace::phases::Phase;
use trace::span::Span;
use trace::trace::Step;
use trace::units::EventIdx;

/// Narrower annotations are not drawn, CSS pixels.
const HIDE_BELOW_CSS: f64 = 2.0;
/// If steps are narrower than this on average, one band is drawn that says how many there are, CSS
/// pixels.
const MERGE_STEPS_BELOW_CSS: f64 = 3.0;
/// Font of lane labels, CSS pixels.
const FONT_CSS: f64 = 10.5;

/// The end of the name of an inferred pass.
const INFERRED: &str = " (inferred)";

/// The largest number of lanes for annotations.
pub const MAX_LANES: u16 = 5;

/// How many lanes a device's annotations need.
pub fn lanes_needed(marks: &Marks) -> u16 {
    let deepest = marks.annotations.iter().map(|a| a.depth).max();
    deepest.map_or(0, |d| (d + 1).min(MAX_LANES))
}

/// The marks without annotations that only repeat the step band, and without lanes that are empty
/// then.
pub fn without_steps(marks: &Marks) -> Marks {
    let is_step = |annotation: &AnnotationMark| {
        let at = marks
            .steps
            .partition_point(|s| s.events.start() < annotation.events.start());
        marks
            .steps
            .get(at)
            .is_some_and(|s| s.events == annotation.events)
    };
    let mut marks_left = marks.clone();
    marks_left
        .annotations
        .retain(|annotation| !is_step(annotation));
    let shallowest = marks_left.annotations.iter().map(|a| a.depth).min();
    for annotation in &mut marks_left.annotations {
        annotation.depth -= shallowest.unwrap_or(0);
    }
    marks_left
}

/// The marks with an extra lane for phases above their annotations.
pub fn with_phases(marks: &Marks, phases: &[PhaseMark]) -> Marks {
    let mut marks = marks.clone();
    if phases.is_empty() {
        return marks;
    }
    for annotation in &mut marks.annotations {
        annotation.depth += 1;
    }
    let passes = phases.iter().map(|mark| AnnotationMark {
        name: phase_name(mark.phase).to_owned(),
        events: mark.events,
        depth: 0,
    });
    marks.annotations.extend(passes);
    marks
}

/// The name of a phase. It is inferred from the stacks.
pub const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Setup => "setup (inferred)",
        Phase::Forward => "forward (inferred)",
        Phase::Backward => "backward (inferred)",
        Phase::Optimizer => "optimizer (inferred)",
        Phase::Other => "other",
        Phase::Unknown => "unknown",
    }
}

pub use trace::redact::{bare_step_name as step_name, step_in_words as plain_step_name};

/// Adds steps and annotations.
pub fn draw(scene: &mut Scene, marks: &Marks, frame: Frame<'_>) {
    draw_steps(scene, &marks.steps, frame);
    draw_annotations(scene, &marks.annotations, frame);
}

/// Where an interval of events lies on screen.
fn extent(events: Span<EventIdx>, frame: Frame<'_>) -> (i32, i32) {
    let x = |event: EventIdx| frame.columns.x_of(f64::from(event.0));
    (x(events.start()), x(events.end()))
}

/// The steps that reach into the window.
pub fn visible_steps(steps: &[Step], from: f64, to: f64) -> &[Step] {
    let first = steps.partition_point(|s| f64::from(s.events.end().0) <= from);
    let end = steps.partition_point(|s| f64::from(s.events.start().0) < to);
    &steps[first..end.max(first)]
}

fn draw_steps(scene: &mut Scene, steps: &[Step], frame: Frame<'_>) {
    let (lane, layout, palette) = (frame.layout.steps, frame.layout, frame.palette);
    if lane.height() == 0 {
        return;
    }
    let (from, to) = frame.columns.window();
    let visible = visible_steps(steps, from, to);
    let (Some(first), Some(last)) = (visible.first(), visible.last()) else {
        return;
    };
    let inner = PxRect {
        y0: lane.y0 + layout.px(2.0),
        y1: lane.y1 - layout.px(1.0),
        ..lane
    };
    let (x0, x1) = (extent(first.events, frame).0, extent(last.events, frame).1);
    if f64::from(x1 - x0) < MERGE_STEPS_BELOW_CSS * layout.scale * visible.len() as f64 {
        let rect = PxRect { x0, x1, ..inner };
        scene.fill(rect, palette.surface_raised);
        let text = format!("{} steps: zoom in to see them", count(visible.len() as u64));
        return label(scene, rect, &text, frame);
    }
    let labels = step_labels(visible, frame);
    // No edge goes through a number that is wider than its step.
    let is_free = |x: i32| {
        let said = |(step, text): &(&Step, String)| {
            let x0 = extent(step.events, frame).0;
            x0 < x && x < x0 + label_width(text, frame)
        };
        !labels.iter().any(said)
    };
    for step in visible {
        let (x0, x1) = extent(step.events, frame);
        let rect = PxRect { x0, x1, ..inner };
        let odd = if step.index % 2 == 1 { 0.55 } else { 0.0 };
        scene.fill(rect, palette.surface_raised.mixed(palette.line, odd));
        if is_free(x0) {
            let x1 = (x0 + layout.px(1.0)).min(x1);
            scene.fill(PxRect { x1, ..rect }, palette.line_strong);
        }
        if x1 - x0 >= layout.px(28.0) {
            // A line through the picture at a boundary, if steps are wide enough for it to help.
            let plot = layout.plot;
            let rule = PxRect {
                x0,
                x1: x0 + layout.px(0.5),
                y0: plot.y0,
                y1: plot.y1,
            };
            scene.fill(rule, palette.text.with_alpha(0.14));
        }
    }
    for (step, text) in &labels {
        let (x0, x1) = (extent(step.events, frame).0, inner.x1);
        label(scene, PxRect { x0, x1, ..inner }, text, frame);
    }
}

/// What the band says of these steps: the names of all, if there is room for all. Otherwise the
/// numbers of all, or of each second, fifth, tenth …, and the name of the first, which tells what
/// is counted. Names beside numbers would look as if they stood for different things.
fn step_labels<'a>(steps: &'a [Step], frame: Frame<'_>) -> Vec<(&'a Step, String)> {
    let width = |text: &str| label_width(text, frame);
    let (from, to) = frame.columns.window();
    let is_whole = |step: &&Step| {
        from <= f64::from(step.events.start().0) && f64::from(step.events.end().0) <= to
    };
    let fits = |step: &Step| {
        let (x0, x1) = extent(step.events, frame);
        width(step_name(&step.name)) <= x1 - x0
    };
    if steps.iter().filter(is_whole).all(fits) {
        let wide = steps.iter().filter(|step| fits(step));
        return wide
            .map(|step| (step, step_name(&step.name).to_owned()))
            .collect();
    }
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
        return Vec::new();
    };
    let all = extent(last.events, frame).1 - extent(first.events, frame).0;
    let widest = steps
        .iter()
        .map(|step| width(&number(step).to_string()))
        .max();
    let every = every(widest.unwrap_or(0), all / steps.len() as i32);
    let mut counted = steps
        .iter()
        .filter(|step| number(step).is_multiple_of(every))
        .peekable();
    let mut said = Vec::new();
    let mut free = i32::MIN;
    while let Some(step) = counted.next() {
        let x0 = extent(step.events, frame).0;
        let next = counted
            .peek()
            .map_or(frame.layout.steps.x1, |next| extent(next.events, frame).0);
        let name = Some(step_name(&step.name).to_owned()).filter(|_| said.is_empty());
        let mut texts = name.into_iter().chain([number(step).to_string()]);
        let text = texts.find(|text| width(text.as_str()) <= next - x0);
        if let Some(text) = text.filter(|_| x0 >= free) {
            free = x0 + width(&text);
            said.push((step, text));
        }
    }
    said
}

/// The room that a label takes, with space on both sides.
fn label_width(text: &str, frame: Frame<'_>) -> i32 {
    super::scene::text_width(text, FONT_CSS * frame.layout.scale) + frame.layout.px(8.0)
}

/// The number in a step's name, or its own. The first step of a recording that begins late may be
/// called `step 100`.
fn number(step: &Step) -> u64 {
    let name = step_name(&step.name);
    let before = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[before..].parse().unwrap_or(step.index.into())
}

/// Each how many-th step has a label: 1, 2, 5, 10 …, so that labels of a width have room.
fn every(label: i32, step: i32) -> u64 {
    let (label, step) = (i64::from(label), i64::from(step));
    let mut every = 1_i64;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle().take(18) {
        if every * step >= label {
            break;
        }
        every = (every as f64 * factor) as i64;
    }
    every as u64
}

fn label(scene: &mut Scene, rect: PxRect, text: &str, frame: Frame<'_>) {
    let size = FONT_CSS * frame.layout.scale;
    let pad = frame.layout.px(4.0);
    let Some(text) = fitted(text, size, rect.width() - 2 * pad) else {
        return;
    };
    scene.texts.push(Text {
        x: rect.x0 + pad,
        y: (rect.y0 + rect.y1) / 2,
        anchor: Anchor::Left,
        size,
        colour: frame.palette.muted,
        text,
    });
}

/// Draws scopes, each only where no later one lies over it. Scopes nest, so ordinary ones lie side
/// by side in their lane. But a file may have thousands over one another.
fn draw_annotations(scene: &mut Scene, annotations: &[AnnotationMark], frame: Frame<'_>) {
    let area = frame.layout.annotations;
    if area.height() == 0 {
        return;
    }
    let narrowest = frame.layout.px(HIDE_BELOW_CSS);
    let placed = annotations.iter().filter_map(|annotation| {
        let (x0, x1) = extent(annotation.events, frame);
        let rect = lane_rect(area, frame.layout.lane_height, annotation.depth, x0, x1)?;
        (x1 - x0 >= narrowest).then_some((annotation, rect))
    });
    let placed: Vec<(&AnnotationMark, PxRect)> = placed.collect();
    let stretches = placed
        .iter()
        .map(|(annotation, rect)| (annotation.depth, rect.x0..rect.x1));
    let seen = uncovered(&stretches.collect::<Vec<_>>());
    for ((annotation, rect), parts) in placed.into_iter().zip(seen) {
        // The first of the widest.
        let Some(widest) = parts.iter().rev().max_by_key(|part| part.len()) else {
            continue;
        };
        let tint = frame.palette.groups[name_hash(&annotation.name) % frame.palette.groups.len()];
        let edge = rect.x0 + frame.layout.px(1.0);
        for part in &parts {
            let (x0, x1) = (part.start, part.end);
            scene.fill(
                PxRect { x0, x1, ..rect },
                tint.mixed(frame.palette.surface, 0.72),
            );
            let x1 = edge.min(x1);
            scene.fill(PxRect { x0, x1, ..rect }, tint);
        }
        let (x0, x1) = (widest.start, widest.end);
        let room = PxRect { x0, x1, ..rect };
        label(scene, room, in_room(&annotation.name, room, frame), frame);
    }
}

/// The name; if it does not fit, without the word "inferred".
fn in_room<'a>(name: &'a str, rect: PxRect, frame: Frame<'_>) -> &'a str {
    let size = FONT_CSS * frame.layout.scale;
    let room = rect.width() - frame.layout.px(8.0);
    match name.strip_suffix(INFERRED) {
        Some(bare) if !fits(name, size, room) => bare,
        _ => name,
    }
}

fn lane_rect(area: PxRect, lane: i32, depth: u16, x0: i32, x1: i32) -> Option<PxRect> {
    let y0 = area.y0 + i32::from(depth) * lane;
    let rect = PxRect {
        x0,
        y0,
        x1,
        y1: y0 + lane - 1,
    };
    (rect.y1 <= area.y1 && x0 < x1).then_some(rect)
}

/// The same name has the same colour everywhere.
fn name_hash(name: &str) -> usize {
    // FNV-1a: the hash of std may change between releases, but a colour should not.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash as usize
}

/// The annotation under a pixel of the lanes; if there are several, the shortest.
pub fn annotation_at<'a>(
    marks: &'a Marks,
    frame: Frame<'_>,
    x: i32,
    y: i32,
) -> Option<&'a AnnotationMark> {
    let area = frame.layout.annotations;
    if !area.contains(x, y) {
        return None;
    }
    let narrowest = frame.layout.px(HIDE_BELOW_CSS);
    marks
        .annotations
        .iter()
        .filter(|annotation| {
            let (x0, x1) = extent(annotation.events, frame);
            x1 - x0 >= narrowest
                && lane_rect(area, frame.layout.lane_height, annotation.depth, x0, x1)
                    .is_some_and(|rect| rect.contains(x, y))
        })
        .min_by_key(|a| a.events.len())
}

/// The step that an event lies in.
pub fn step_at(steps: &[Step], event: EventIdx) -> Option<&Step> {
    let next = steps.partition_point(|s| s.events.start() <= event);
    steps[..next].last().filter(|s| s.events.contains(event))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: u32, to: u32) -> Span<EventIdx> {
        Span::new(EventIdx(from), EventIdx(to))
    }

    fn annotation(name: &str, from: u32, to: u32, depth: u16) -> AnnotationMark {
        AnnotationMark {
            name: name.to_owned(),
            events: span(from, to),
            depth,
        }
    }

    #[test]
    fn passes_have_a_lane_of_their_own() {
        let marks = Marks {
            steps: vec![],
            annotations: vec![annotation("attention", 0, 50, 0)],
            annotations_left_out: 0,
            ooms: vec![],
            ooms_left_out: 0,
            capacity: None,
            stays: vec![],
            stays_left_out: 0,
        };
        assert_eq!(with_phases(&marks, &[]), marks);
        let forward = PhaseMark {
            phase: Phase::Forward,
            events: span(0, 80),
        };
        let with = with_phases(&marks, &[forward]);
        let expected = [
            annotation("attention", 0, 50, 1),
            annotation("forward (inferred)", 0, 80, 0),
        ];
        assert_eq!(with.annotations, expected);
        assert_eq!(lanes_needed(&with), 2);
    }

    #[test]
    fn labels_of_steps_leave_room_for_each_other() {
        let check = |label, step, expected| assert_eq!(every(label, step), expected, "{step}");
        check(20, 40, 1);
        check(20, 20, 1);
        check(20, 19, 2);
        check(20, 7, 5);
        check(20, 3, 10);
        check(20, 1, 20);
        let step = |name: &str| Step {
            index: 3,
            name: name.to_owned(),
            events: span(0, 100),
        };
        let numbers = ["## step 120 ##", "ProfilerStep#7", "epoch"].map(|name| number(&step(name)));
        assert_eq!(numbers, [120, 7, 3]);
    }

    #[test]
    fn annotations_that_are_the_steps_are_not_shown_twice() {
        let step = |index: u32| Step {
            index,
            name: format!("## step {index} ##"),
            events: span(index * 100, index * 100 + 100),
        };
        let marks = Marks {
            steps: vec![step(0), step(1)],
            annotations: vec![
                annotation("## step 0 ##", 0, 100, 0),
                annotation("forward", 0, 50, 1),
                annotation("## step 1 ##", 100, 200, 0),
            ],
            annotations_left_out: 0,
            ooms: vec![],
            ooms_left_out: 0,
            capacity: None,
            stays: vec![],
            stays_left_out: 0,
        };
        let left = without_steps(&marks);
        assert_eq!(left.annotations, vec![annotation("forward", 0, 50, 0)]);
        assert_eq!(lanes_needed(&left), 1);
        assert_eq!(step_name("## step 0 ##"), "step 0");
        let check = |name: &str, expected: &str| {
            let step = Step {
                name: name.to_owned(),
                index: 3,
                ..marks.steps[0].clone()
            };
            assert_eq!(plain_step_name(&step), expected);
        };
        check("request 3", "request 3");
        check("## step 7 ##", "step 7");
        check("ProfilerStep#7", "ProfilerStep#7");
        check("forward", "step 3");
        check("our secret request 7", "step 3");
        assert_eq!(
            step_at(&marks.steps, EventIdx(100)).map(|s| s.index),
            Some(1)
        );
        assert_eq!(visible_steps(&marks.steps, 10.0, 100.0).len(), 1);
    }
}
