//! What tells leaks apart that are named by one line of the program.

use super::{LeakGroup, LeakReport};
use crate::site::{is_module_call, is_python};
use crate::stacks::{Frame, StackIdx, Stacks, StrIdx};
use std::collections::HashSet;

impl LeakReport {
    /// For each group, the innermost Python frame that it has and others do not that are named by
    /// the same frame. `None` where no other is named so, or where nothing differs.
    pub fn told_apart(&self, stacks: &Stacks) -> Vec<Option<Frame>> {
        let groups = self.groups.iter();
        groups
            .map(|group| told_apart(group, &self.groups, stacks))
            .collect()
    }
}

fn told_apart(group: &LeakGroup, groups: &[LeakGroup], stacks: &Stacks) -> Option<Frame> {
    let name = group.frame?;
    let others = groups
        .iter()
        .filter(|other| other.site != group.site && other.frame == Some(name));
    let mut of_others: HashSet<(StrIdx, StrIdx)> = HashSet::new();
    let mut is_alone = true;
    for other in others {
        is_alone = false;
        of_others.extend(python(stacks, other.stack).map(function));
    }
    if is_alone {
        return None;
    }
    let differs = |frame: &Frame| !of_others.contains(&function(*frame));
    // Others may be called by what this one is made in.
    let innermost = || python(stacks, group.stack).next();
    let found = python(stacks, group.stack).find(differs).or_else(innermost);
    found.filter(|frame| *frame != name)
}

/// The frames of functions, innermost first, without PyTorch's wrappers of modules.
fn python(stacks: &Stacks, stack: StackIdx) -> impl Iterator<Item = Frame> + '_ {
    let frames = stacks.frames(stack).iter();
    let frames = frames.map(|&frame| stacks.frame(frame));
    frames.filter(|&frame| is_python(stacks, frame) && !is_module_call(stacks, frame))
}

fn function(frame: Frame) -> (StrIdx, StrIdx) {
    (frame.filename, frame.name)
}
