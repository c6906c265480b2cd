//! Iterations whose optimizer's step was left out.
//!
//! A scaler of gradients leaves out the optimizer's step if they are not finite. Then no scope
//! shows the end of the iteration, and it looks like a part of the next one. But each iteration
//! clears its gradients once, and `zero_grad` has a scope, too.

use crate::median;
use crate::span::Span;
use crate::trace::{Action, DeviceTrace};
use crate::units::EventIdx;

/// So many of the steps, or more, clear the gradients once.
const USUAL: f64 = 0.5;
/// An iteration allocates at least this share of what a usual step allocates.
const LONG: f64 = 0.7;

/// Where iterations begin that follow one whose step was left out, given the scopes of the
/// optimizer's steps and those in which it clears the gradients.
pub fn begins(
    device: &DeviceTrace,
    steps: &[Span<EventIdx>],
    clears: &[Span<EventIdx>],
) -> Vec<EventIdx> {
    let recorded = |scope: &&Span<EventIdx>| scope.end() > EventIdx(0);
    let steps: Vec<Span<EventIdx>> = steps.iter().filter(recorded).copied().collect();
    let clears: Vec<Span<EventIdx>> = clears.iter().filter(recorded).copied().collect();
    let Some(gaps) = gaps(device, &steps, &clears) else {
        return Vec::new();
    };
    // What comes before the first step sets up the model, too, or its begin is lost.
    let [_, later @ ..] = gaps.as_slice() else {
        return Vec::new();
    };
    let usual = || later.iter().filter(|gap| gap.clears.len() == 1);
    let before = median::upper(usual().map(|gap| gap.clears[0].saturating_sub(gap.first)));
    let length = median::upper(usual().map(|gap| gap.last.saturating_sub(gap.first)));
    let (Some(before), Some(length)) = (before, length) else {
        return Vec::new();
    };
    let each = later.iter().all(|gap| !gap.clears.is_empty());
    if !each || (usual().count() as f64) < USUAL * later.len() as f64 {
        return Vec::new();
    }
    let firsts = gaps.iter().filter(|gap| !gap.ran_out);
    let firsts = firsts.flat_map(|gap| gap.cut(before, length));
    let event = |alloc: usize| device.blocks.alloc.get(alloc).copied().map(EventIdx);
    firsts.filter_map(event).collect()
}

/// What is allocated from the end of an optimizer's step to the next one: positions of blocks.
struct Gap {
    first: usize,
    /// The first ones after the gradients are cleared.
    clears: Vec<usize>,
    last: usize,
    /// Whether memory ran out: then something was tried again.
    ran_out: bool,
}

/// The gaps before the steps; `None` if gradients are cleared in a step.
fn gaps(
    device: &DeviceTrace,
    steps: &[Span<EventIdx>],
    clears: &[Span<EventIdx>],
) -> Option<Vec<Gap>> {
    let alloc = |event: EventIdx| {
        let before = device.blocks.made_before(event);
        device.blocks.nth_made(before).index()
    };
    let (mut gaps, mut from, mut rest) = (Vec::new(), EventIdx(0), clears);
    for step in steps {
        // Of scopes without events at one place, the step's is the first.
        let begun = rest.partition_point(|clear| clear.start() < step.start());
        let (here, after) = rest.split_at(begun);
        let mut inside = after.iter().take(1);
        if inside.any(|clear| clear.start() < step.end()) {
            return None;
        }
        gaps.push(Gap {
            first: alloc(from),
            clears: here.iter().map(|clear| alloc(clear.start())).collect(),
            last: alloc(step.start()),
            ran_out: {
                let until = step.start().index().max(from.index());
                device.events.action[from.index()..until].contains(&Action::Oom)
            },
        });
        (from, rest) = (step.end(), after);
    }
    Some(gaps)
}

impl Gap {
    /// Where the iterations in it begin, but for the first one, if an iteration makes so many
    /// allocations `before` it clears its gradients. Nowhere, if one of them would be too short
    /// beside the usual `length`.
    fn cut(&self, before: usize, length: usize) -> Vec<usize> {
        let later = self.clears.iter().skip(1);
        let cuts: Vec<usize> = later.map(|clear| clear.saturating_sub(before)).collect();
        let first = self
            .clears
            .first()
            .map(|clear| clear.saturating_sub(before));
        let ends = first.into_iter().chain(cuts.iter().copied());
        let ends: Vec<usize> = ends.chain([self.last]).collect();
        let is_long =
            |pair: &[usize]| pair[1].saturating_sub(pair[0]) as f64 >= LONG * length.max(1) as f64;
        match ends.windows(2).all(is_long) {
            true => cuts,
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TraceBuilder, block_of};
    use crate::units::Bytes;

    /// `a` allocates, at `o` memory runs out, gradients are cleared at `z`, and `s` is a step of
    /// the optimizer. Returns the program with a `|` where an iteration begins after one without.
    fn marked(program: &str) -> String {
        let mut builder = TraceBuilder::default();
        let (mut at, mut events) = (0, Vec::new());
        let (mut steps, mut clears) = (Vec::new(), Vec::new());
        for what in program.chars() {
            events.push(at);
            let here = Span::new(EventIdx(at), EventIdx(at));
            match what {
                'a' => drop(builder.alloc(block_of(Bytes(512)))),
                'o' => builder.out_of_memory(Bytes(512)),
                'z' => clears.push(here),
                _ => steps.push(here),
            }
            at += u32::from("ao".contains(what));
        }
        let trace = builder.finish();
        let begins = begins(&trace.devices[0], &steps, &clears);
        let chars = program.chars().zip(events).map(|(what, event)| match what {
            'a' if begins.contains(&EventIdx(event)) => "|a".to_owned(),
            what => what.to_string(),
        });
        chars.collect()
    }

    #[test]
    fn an_iteration_without_the_optimizers_step_is_one() {
        let check = |expected: &str| {
            assert_eq!(marked(&expected.replace('|', "")), expected);
        };
        // Gradients are cleared first, in the middle, or after the step.
        for (usual, skipped) in [
            ("zaaaas", "zaaaa"),
            ("aazaas", "aazaa"),
            ("aaaasz", "aaaaz"),
        ] {
            let five = usual.repeat(5);
            check(&format!("{five}{skipped}|{usual}{usual}").replace("|z", "z|"));
            check(&format!("{five}{skipped}|{skipped}|{usual}{usual}").replace("|z", "z|"));
            if !usual.ends_with('z') {
                check(&format!("aaa{skipped}|{usual}{five}").replace("|z", "z|"));
            }
            check(&five);
        }
    }

    #[test]
    fn gradients_that_are_cleared_twice_are_no_iterations() {
        let check = |program: &str| assert_eq!(marked(program), program);
        check(&"zaaaazs".repeat(6));
        check(&"zaazaas".repeat(6));
        check(&format!("z{}zaazaaaaas", "zaaaaas".repeat(6)));
        // Memory ran out, and the iteration is tried again.
        check(&format!("{}zaaaozaaaas", "zaaaas".repeat(6)));
    }
}
