//! What tells stacks apart whose headline is the same line: who called it.

use super::labels::frame_label;
use crate::site;
use crate::stacks::{FrameIdx, FxHashMap, StackIdx, Stacks};

/// How far out from the headline a difference is looked for, frames. Stacks of a hostile file can
/// be very deep.
const FAR: usize = 64;
/// How many callers one name may have.
const MOST: usize = 2;
/// More stacks with the same headline than this are not told apart.
const MOST_ALIKE: usize = 4096;

/// For each stack, the callers that distinguish it from the others with the same headline,
/// innermost first: `forward model.py:80`, or `step model.py:9, train.py:30`. Where the headline is
/// a framework's, or nothing distinguishes it, the program's own innermost call. Callers are always
/// of the program or of its models: what a framework calls inside of itself tells nobody anything.
/// Empty if there is no such call, or nothing to tell apart.
pub fn callers(stacks: &Stacks, all: &[StackIdx], labels: &[&str]) -> Vec<String> {
    let mut alike: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for (at, &label) in labels.iter().enumerate() {
        alike.entry(label).or_default().push(at);
    }
    let mut found = vec![Vec::new(); all.len()];
    for set in alike.into_values().filter(|set| set.len() <= MOST_ALIKE) {
        let outer: Vec<Vec<FrameIdx>> = set
            .iter()
            .map(|&at| outer_frames(stacks, all[at]))
            .collect();
        let members = (0..set.len()).collect();
        split(&outer, members, 0, &mut |member, frame| {
            found[set[member]].push(frame);
        });
        for (&at, outer) in set.iter().zip(&outer) {
            let needs_one = set.len() > 1 || is_of_framework(stacks, all[at]);
            if needs_one && found[at].is_empty() {
                found[at].extend(outer.first());
            }
        }
    }
    let name = |frames: &Vec<FrameIdx>| {
        let names = frames.iter().map(|&f| frame_label(stacks, stacks.frame(f)));
        names.collect::<Vec<_>>().join(", ")
    };
    found.iter().map(name).collect()
}

fn is_of_framework(stacks: &Stacks, stack: StackIdx) -> bool {
    let headline = stacks.headline(stack);
    headline.is_some_and(|frame| site::is_framework(stacks, frame))
}

/// The program's own frames around the headline, innermost first.
fn outer_frames(stacks: &Stacks, stack: StackIdx) -> Vec<FrameIdx> {
    let headline = stacks.headline(stack);
    let frames = stacks.frames(stack).iter();
    let outside = frames.skip_while(|&&f| Some(stacks.frame(f)) != headline);
    outside
        .skip(1)
        .take(FAR)
        .copied()
        .filter(|&f| !site::is_framework(stacks, stacks.frame(f)))
        .collect()
}

/// Gives each member the frame in which it first differs from the others, and then looks further
/// out among those that have the same one.
fn split(
    outer: &[Vec<FrameIdx>],
    members: Vec<usize>,
    named: usize,
    name: &mut impl FnMut(usize, FrameIdx),
) {
    if members.len() < 2 || named == MOST {
        return;
    }
    let differ = |&depth: &usize| {
        let mut frames = members.iter().map(|&member| outer[member].get(depth));
        let first = frames.next();
        frames.any(|frame| Some(frame) != first)
    };
    let Some(depth) = (0..FAR).find(differ) else {
        return;
    };
    let mut parts: FxHashMap<Option<FrameIdx>, Vec<usize>> = FxHashMap::default();
    for member in members {
        let frame = outer[member].get(depth).copied();
        if let Some(frame) = frame {
            name(member, frame);
        }
        parts.entry(frame).or_default().push(member);
    }
    for part in parts.into_values() {
        split(outer, part, named + 1, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::Frame;

    /// Stacks as lists of lines, innermost first, each `function file:line`.
    fn check(given: &[&[&str]], expected: &[&str]) {
        let mut stacks = Stacks::default();
        let all: Vec<StackIdx> = given
            .iter()
            .map(|lines| pushed(&mut stacks, lines))
            .collect();
        let labels: Vec<String> = all
            .iter()
            .map(|&stack| super::super::stack_label(&stacks, stack))
            .collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        assert_eq!(callers(&stacks, &all, &labels), expected, "{given:?}");
    }

    fn pushed(stacks: &mut Stacks, lines: &[&str]) -> StackIdx {
        let frames = lines.iter().map(|text| {
            let (name, place) = text.split_once(' ').expect("function file:line");
            let (file, line) = place.split_once(':').expect("file:line");
            let known = (0..stacks.n_frames() as u32).map(FrameIdx).find(|&idx| {
                let frame = stacks.frame(idx);
                stacks.str(frame.name) == name
                    && stacks.str(frame.filename) == file
                    && frame.line.to_string() == line
            });
            known.unwrap_or_else(|| {
                let frame = Frame {
                    name: stacks.strings.push(name),
                    filename: stacks.strings.push(file),
                    line: line.parse().expect("a number"),
                };
                stacks.push_frame(frame)
            })
        });
        let frames: Vec<FrameIdx> = frames.collect();
        stacks.push_stack(&frames)
    }

    const MODULE: &str = "call /lib/python3.11/site-packages/torch/nn/modules/module.py:9";

    #[test]
    fn a_caller_is_named_where_the_line_is_the_same() {
        check(
            &[
                &["norm m.py:6", MODULE, "q m.py:20"],
                &["norm m.py:6", MODULE, "k m.py:21"],
                &["mlp m.py:7", MODULE, "layer m.py:30"],
            ],
            &["q m.py:20", "k m.py:21", ""],
        );
    }

    #[test]
    fn callers_that_are_the_same_are_passed_over() {
        check(
            &[
                &["norm m.py:6", "layer m.py:30", "warm_up t.py:1"],
                &["norm m.py:6", "layer m.py:30", "train t.py:2"],
            ],
            &["warm_up t.py:1", "train t.py:2"],
        );
    }

    #[test]
    fn two_callers_are_named_if_one_is_not_enough() {
        check(
            &[
                &["norm m.py:6", "q m.py:20", "train t.py:1"],
                &["norm m.py:6", "q m.py:20", "test t.py:2"],
                &["norm m.py:6", "k m.py:21", "train t.py:1"],
            ],
            &[
                "q m.py:20, train t.py:1",
                "q m.py:20, test t.py:2",
                "k m.py:21",
            ],
        );
    }

    #[test]
    fn calls_inside_of_a_framework_are_never_named() {
        let other = "call /lib/python3.11/site-packages/torch/nn/modules/module.py:11";
        check(
            &[
                &["norm m.py:6", MODULE, "train t.py:1"],
                &["norm m.py:6", other, "train t.py:1"],
            ],
            &["train t.py:1", "train t.py:1"],
        );
        // A framework's line is the only one of its name; another has no caller in the program.
        check(
            &[
                &[MODULE, other, "train t.py:1"],
                &["main t.py:2", "<module> t.py:9"],
                &[
                    "init /lib/python3.11/site-packages/torch/optim/adam.py:7",
                    other,
                ],
            ],
            &["train t.py:1", "", ""],
        );
    }

    #[test]
    fn one_that_was_called_from_nowhere_needs_no_caller() {
        check(
            &[&["norm m.py:6"], &["norm m.py:6", "train t.py:1"]],
            &["", "train t.py:1"],
        );
    }
}
