//! What comes later in a tape. A recording does not say when a backward pass ends; what follows
//! tells whether one was still running.

use std::collections::HashMap;

use super::line::Line;

/// The next line that says something about backward passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A post-hook runs, so a pass is running.
    Hook,
    /// A pass unpacks something.
    Unpack,
    /// `backward()` returns.
    BackwardEnd,
    /// A forward pass or a step begins or ends, or the tape does: no pass is running.
    Mark,
}

/// Both are found in one sweep from the end.
#[derive(Debug)]
pub struct Ahead {
    /// What comes next after each line.
    next: Vec<Next>,
    /// The last line on which each pass unpacks something.
    last_unpack: HashMap<u64, usize>,
    has_backward_end: bool,
}

impl Ahead {
    /// Reads all lines of a tape.
    pub fn new(lines: &[Line]) -> Ahead {
        let mut ahead = Ahead {
            next: vec![Next::Mark; lines.len()],
            last_unpack: HashMap::new(),
            has_backward_end: false,
        };
        let mut next = Next::Mark;
        for (at, line) in lines.iter().enumerate().rev() {
            ahead.next[at] = next;
            match line {
                Line::NodeHook { .. } => next = Next::Hook,
                Line::Unpack(unpack) => {
                    let Some(graph) = unpack.graph else { continue };
                    ahead.last_unpack.entry(graph).or_insert(at);
                    next = Next::Unpack;
                }
                Line::BackwardEnd { .. } => {
                    ahead.has_backward_end = true;
                    next = Next::BackwardEnd;
                }
                Line::Step {} | Line::StepEnd { .. } | Line::ForwardEnd { .. } => {
                    next = Next::Mark;
                }
                _ => {}
            }
        }
        ahead
    }

    /// What comes next after the line at `at`.
    pub fn next(&self, at: usize) -> Next {
        self.next[at]
    }

    /// Whether pass `graph` unpacks something after the line at `at`.
    pub fn unpacks_after(&self, at: usize, graph: u64) -> bool {
        self.last_unpack.get(&graph).is_some_and(|&last| last > at)
    }

    /// Whether the recorder writes a line when `backward()` returns.
    pub fn has_backward_end(&self) -> bool {
        self.has_backward_end
    }
}
