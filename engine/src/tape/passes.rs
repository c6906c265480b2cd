//! The backward passes that are running: a node of one can start another, as a reentrant checkpoint
//! does. The inner pass ends before the node that started it.
//!
//! A pass that an exception ended, which the program caught, looks like one that started another.
//! Only what comes later tells them apart: a pass that goes on runs its hooks. So a pass that still
//! waits for hooks when those around it end is dead.

use std::collections::VecDeque;

use super::ahead::{Ahead, Next};
use crate::offload::PostHook;

/// More passes than this are not kept. PyTorch itself continues on another thread after 60.
const MOST_NESTED: usize = 100;

/// One backward pass.
#[derive(Debug)]
struct Pass<H> {
    graph: u64,
    /// The running node.
    node: u64,
    /// Whether a post-hook has run since the last unpack; then the next unpack is for another node.
    node_done: bool,
    hooks: VecDeque<H>,
    /// Whether the offloader's clean-up runs at its end.
    has_callback: bool,
    /// Whether something was packed since its last call, so that its node recomputes.
    recomputes: bool,
}

impl<H> Pass<H> {
    /// Whether it waits for a hook, or recomputes.
    fn is_open(&self) -> bool {
        !self.hooks.is_empty() || self.recomputes
    }
}

/// What passes leave when they end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ended {
    /// Hooks that did not run.
    pub hooks_left: usize,
    /// Whether the offloader's clean-up has to run.
    pub has_callback: bool,
}

/// All of them, the innermost last.
#[derive(Debug)]
pub struct Passes<H = PostHook> {
    stack: Vec<Pass<H>>,
    /// How many nodes there were. The node numbers in a recording count Python wrapper objects,
    /// which come and go within one node. The only question is whether two restores belong to the
    /// same node. They do if no post-hook of their pass ran between them, and only then, because
    /// hooks run when their node is done.
    nodes: u64,
}

impl<H> Default for Passes<H> {
    fn default() -> Passes<H> {
        Passes {
            stack: Vec::new(),
            nodes: 0,
        }
    }
}

impl<H> Passes<H> {
    /// Something is unpacked in pass `graph`, so the passes inside it are over.
    ///
    /// A pass that is not known yet is inside the innermost one if that still waits for a hook, or
    /// recomputes. Else `backward()` has returned, and was called again.
    pub fn unpack(&mut self, graph: u64) -> Ended {
        let known = self.stack.iter().rposition(|pass| pass.graph == graph);
        let ended = match known {
            Some(at) => self.end_from(at + 1),
            None if self.stack.last().is_some_and(|pass| pass.recomputes) => Ended::default(),
            None => self.end_done(),
        };
        if known.is_none() {
            self.begin(graph);
        }
        let pass = self.stack.last_mut().expect("it is there or began");
        if pass.node_done {
            self.nodes += 1;
            pass.node = self.nodes;
        }
        pass.node_done = false;
        pass.recomputes = false;
        ended
    }

    fn begin(&mut self, graph: u64) {
        if self.stack.len() == MOST_NESTED {
            self.stack.remove(0);
        }
        self.stack.push(Pass {
            graph,
            node: 0,
            node_done: true,
            hooks: VecDeque::new(),
            has_callback: false,
            recomputes: false,
        });
    }

    /// Something is packed. Within a backward pass this is a recompute.
    pub fn pack(&mut self) {
        if let Some(pass) = self.stack.last_mut() {
            pass.recomputes = true;
        }
    }

    /// A hook runs: the next one of the innermost pass that has hooks, so that the passes inside it
    /// are over.
    pub fn hook(&mut self) -> Option<(H, Ended)> {
        let at = self.stack.iter().rposition(|pass| !pass.hooks.is_empty())?;
        let ended = self.end_from(at + 1);
        let pass = &mut self.stack[at];
        pass.node_done = true;
        pass.recomputes = false;
        Some((pass.hooks.pop_front()?, ended))
    }

    /// `backward()` has returned, so every hook of the innermost pass has run.
    pub fn end_all(&mut self) -> Ended {
        let hooks_left = self.stack.last().map_or(0, |pass| pass.hooks.len());
        let innermost = self.stack.pop().is_some_and(|pass| pass.has_callback);
        let outer = self.end_from(0);
        Ended {
            hooks_left,
            has_callback: innermost || outer.has_callback,
        }
    }

    /// The context is entered on line `at`: before a forward pass, or while a node recomputes or a
    /// hook of the program evaluates something.
    pub fn enter(&mut self, at: usize, ahead: &Ahead) -> Ended {
        match ahead.next(at) {
            Next::Hook | Next::BackwardEnd => Ended::default(),
            Next::Unpack => self.end_from(self.finished_from(at, ahead)),
            Next::Mark => self.end_or_die(ahead),
        }
    }

    /// The context is left on line `at`: as after [`Passes::enter`], or by an exception.
    pub fn exit(&mut self, at: usize, ahead: &Ahead) -> Ended {
        match ahead.next(at) {
            Next::Hook | Next::BackwardEnd => Ended::default(),
            // The recorder would have said that `backward()` returned, so an exception ended it.
            Next::Unpack if ahead.has_backward_end() => {
                self.stack.truncate(self.finished_from(at, ahead));
                Ended::default()
            }
            Next::Unpack => self.end_from(self.finished_from(at, ahead)),
            Next::Mark => self.end_or_die(ahead),
        }
    }

    /// Nothing can be running, as the program says. Where a recorder writes no line when
    /// `backward()` returns, a pass without hooks has returned; else it would have ended before.
    pub fn end_or_die(&mut self, ahead: &Ahead) -> Ended {
        let ended = match ahead.has_backward_end() {
            true => Ended::default(),
            false => self.end_from(0),
        };
        self.die();
        ended
    }

    /// An exception has ended all passes: neither hooks nor callbacks run.
    pub fn die(&mut self) {
        self.stack.clear();
    }

    /// Ends the innermost passes that wait for no hook.
    fn end_done(&mut self) -> Ended {
        let waits = |pass: &Pass<H>| !pass.hooks.is_empty();
        let last = self.stack.iter().rposition(waits);
        self.end_from(last.map_or(0, |last| last + 1))
    }

    /// From where on passes are done and do not come again after line `at`.
    fn finished_from(&self, at: usize, ahead: &Ahead) -> usize {
        let goes_on = |pass: &Pass<H>| pass.is_open() || ahead.unpacks_after(at, pass.graph);
        let last = self.stack.iter().rposition(goes_on);
        last.map_or(0, |last| last + 1)
    }

    /// Ends all passes from here on. Those that still wait for a hook were dead.
    fn end_from(&mut self, at: usize) -> Ended {
        let ended = self.stack.drain(at..);
        let has_callback = |pass: Pass<H>| pass.hooks.is_empty() && pass.has_callback;
        Ended {
            hooks_left: 0,
            has_callback: ended.map(has_callback).fold(false, |any, one| any | one),
        }
    }

    /// The running pass.
    pub fn graph(&self) -> u64 {
        self.stack.last().map_or(0, |pass| pass.graph)
    }

    /// The running node.
    pub fn node(&self) -> u64 {
        self.stack.last().map_or(0, |pass| pass.node)
    }

    /// The running node gets a hook.
    pub fn register(&mut self, hook: H) {
        if let Some(pass) = self.stack.last_mut() {
            pass.hooks.push_back(hook);
        }
    }

    /// The running pass gets the offloader's clean-up.
    pub fn queue_callback(&mut self) {
        if let Some(pass) = self.stack.last_mut() {
            pass.has_callback = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `0a` unpacks in pass 0 and registers hook `a`, `0` unpacks something that needs no hook, `p`
    /// packs, `c` queues the clean-up, `h` runs a hook, `x` raises, `.` ends everything. The answer
    /// has the hooks in the order in which they ran, `!` for a clean-up, and `?` for a hook that
    /// was left or was not there.
    fn ran(script: &str) -> String {
        let mut passes: Passes<char> = Passes::default();
        let mut ran = String::new();
        for call in script.split_whitespace() {
            let mut letters = call.chars();
            let (ended, hook) = match letters.next().unwrap() {
                'p' => {
                    passes.pack();
                    continue;
                }
                'c' => {
                    passes.queue_callback();
                    continue;
                }
                'x' => {
                    passes.die();
                    continue;
                }
                'h' => match passes.hook() {
                    Some((hook, ended)) => (ended, hook.to_string()),
                    None => (Ended::default(), "?".to_owned()),
                },
                '.' => (passes.end_all(), String::new()),
                graph => {
                    let ended = passes.unpack(graph.to_digit(10).unwrap().into());
                    letters.for_each(|hook| passes.register(hook));
                    (ended, String::new())
                }
            };
            ran += &"?".repeat(ended.hooks_left);
            ran += if ended.has_callback { "!" } else { "" };
            ran += &hook;
        }
        ran
    }

    #[test]
    fn hooks_run_within_their_own_pass() {
        let check = |script, expected| assert_eq!(ran(script), expected, "{script}");
        check("0a 0b h h .", "ab");
        // The inner pass ends before the hook of the node that started it.
        check("0a p 1b h 1c h h .", "bca");
        check("0a p 1b p 2c h h h .", "cba");
        // Its clean-up runs at its own end, not at that of the outer one.
        check("0a p 1b c h h .", "b!a");
        check("0a c p 1b h h .", "ba!");
        // Without hooks and recomputes, the pass before was over.
        check("0a c h 1b h .", "a!b");
        check("0 c p 1b h .", "b!");
        check("0a .", "?");
        check("h .", "?");
        // An exception leaves no hook and no clean-up.
        check("0a c p 1b x 2c h .", "c");
        // So it was where a pass has hooks left when another one that began later returns.
        check("0a c 1b h .", "b");
        check("0a c p 1b c h .", "b!");
        check("0a c 1b 2d h 1 h .", "db");
    }

    #[test]
    fn restores_belong_to_one_node_until_a_hook_of_their_pass_runs() {
        let check = |script: &str, expected: &[u64]| {
            let mut passes: Passes<()> = Passes::default();
            let mut nodes = Vec::new();
            for call in script.chars() {
                if let Some(graph) = call.to_digit(10) {
                    passes.unpack(graph.into());
                    passes.register(());
                    nodes.push(passes.node());
                } else {
                    passes.hook();
                }
            }
            assert_eq!(nodes, expected, "{script}");
        };
        check("00hh0h", &[1, 1, 2]);
        check("01h0hh", &[1, 2, 1]);
        check("01h1hh0h", &[1, 2, 3, 4]);
    }

    #[test]
    fn passes_that_nothing_ends_do_not_add_up() {
        let mut passes: Passes<()> = Passes::default();
        for graph in 0..10_000 {
            passes.unpack(graph);
            passes.register(());
        }
        assert_eq!(passes.stack.len(), MOST_NESTED);
    }
}
