//! The loops of a recording that a reader can choose as steps: epochs, batches, layers, tokens.

use super::MIN_STEPS;
use super::annotated::Scopes;
use super::beside::call_a_request;
use super::calls::ContextIdx;
use super::loops::{Analysis, Loop};
use super::mark::Mark;
use super::word::Word;
use crate::code::{file_name, slashed};
use crate::span::Span;
use crate::stacks::Stacks;
use crate::trace::{DeviceTrace, Step, StepSource, Trace};
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};
use serde::{Deserialize, Serialize};

/// The key of the steps that annotations mark.
pub const ANNOTATED: &str = "annotations";
/// The key of the optimizer's steps, as its scopes mark them.
pub const OPTIMIZER: &str = "optimizer-steps";
/// A loop must cover this share of the allocations to be listed.
const WORTH_LISTING: f64 = 0.1;
/// Loops listed at most.
pub const MOST_CHOICES: usize = 8;

/// A loop that can be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Level))]
pub struct LoopChoice {
    /// Names it in a link and on the command line: equal in another trace of the same program.
    pub key: String,
    /// In the words people use: `epochs`, `steps`, `layers`.
    pub label: String,
    /// Where it stands, such as `train.py:54 in train`; empty for annotations.
    pub place: String,
    /// Iterations in all.
    pub count: u32,
    /// Share of the allocations that lie in it.
    pub share: f64,
    /// Whether its iterations are the device's steps.
    pub chosen: bool,
}

// A share is a number.
impl Eq for LoopChoice {}

/// No choice has this key or label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no level is called {key}; there are: {known}")]
pub struct UnknownLoop {
    /// The key or label in the question.
    pub key: String,
    /// The words that exist, each with its key.
    pub known: String,
}

/// The loops of a device that can be chosen, the outermost first. There are none if the search
/// takes more memory than [`memory_needed`].
pub fn of_device(device: &DeviceTrace, stacks: &Stacks) -> Vec<LoopChoice> {
    Watch::undisturbed(|watch| of_device_while(device, stacks, watch))
}

/// The same, with a `watch` that may stop it.
///
/// # Errors
/// [`Stopped`].
pub fn of_device_while(
    device: &DeviceTrace,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<Vec<LoopChoice>, Stopped> {
    let choices = within_limits(device, stacks, watch)?.into_iter();
    Ok(choices.map(|(choice, _)| choice).collect())
}

/// The most memory that the search for loops takes, bytes: several times what it takes for any
/// program at hand. A file that was made to need more has no loops.
pub fn memory_needed(device: &DeviceTrace, stacks: &Stacks) -> usize {
    const PER_BLOCK: usize = 24;
    const PER_NAME: usize = 512;
    const ANY: usize = 8 << 20;
    let names = stacks.len() + stacks.n_frames();
    let scopes = super::memory_of_scopes(device);
    ANY + scopes + device.blocks.len() * PER_BLOCK + names * PER_NAME
}

fn within_limits(
    device: &DeviceTrace,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<Vec<(LoopChoice, Vec<Step>)>, Stopped> {
    let most = memory_needed(device, stacks);
    let found = watch.within(most, |watch| with_steps(device, stacks, watch))?;
    Ok(found.unwrap_or_default())
}

/// The choice that is called this: by its key, or by its word.
pub fn called<'l>(choices: &'l [LoopChoice], name: &str) -> Option<&'l LoopChoice> {
    let by_key = choices.iter().find(|choice| choice.key == name);
    by_key.or_else(|| choices.iter().find(|choice| choice.label == name))
}

/// Whether a device has a choice that is called this.
///
/// # Errors
/// When none has: what may be said instead.
pub fn check(trace: &Trace, name: &str) -> Result<(), UnknownLoop> {
    let of = |device| of_device(device, &trace.stacks);
    let all: Vec<Vec<LoopChoice>> = trace.devices.iter().map(of).collect();
    match all.iter().any(|choices| called(choices, name).is_some()) {
        true => Ok(()),
        false => Err(unknown(name, all.iter().flatten())),
    }
}

/// Makes the iterations of another loop, chosen by key or label, the device's steps.
///
/// # Errors
/// When no choice has this name.
pub fn recut(device: &mut DeviceTrace, stacks: &Stacks, name: &str) -> Result<(), UnknownLoop> {
    let choices = Watch::undisturbed(|watch| within_limits(device, stacks, watch));
    let (choices, mut steps): (Vec<LoopChoice>, Vec<Vec<Step>>) = choices.into_iter().unzip();
    let choice = called(&choices, name).ok_or_else(|| unknown(name, choices.iter()))?;
    device.step_source = match [ANNOTATED, OPTIMIZER].contains(&choice.key.as_str()) {
        true => StepSource::Annotations,
        false => StepSource::Inferred,
    };
    let at = choices.iter().position(|other| other.key == choice.key);
    device.steps = at.map_or_else(Vec::new, |at| steps.swap_remove(at));
    Ok(())
}

/// Says which choices there are, each once: `epochs (train.main), steps (train.main-2)`.
fn unknown<'l>(name: &str, choices: impl Iterator<Item = &'l LoopChoice>) -> UnknownLoop {
    let mut known: Vec<String> = Vec::new();
    for choice in choices {
        let choice = match choice.label == choice.key {
            true => choice.key.clone(),
            false => format!("{} ({})", choice.label, choice.key),
        };
        if !known.contains(&choice) {
            known.push(choice);
        }
    }
    UnknownLoop {
        key: name.to_owned(),
        known: match known.is_empty() {
            true => "none".to_owned(),
            false => known.join(", "),
        },
    }
}

/// The same for every device of a trace that has such a loop. The pinned memory of the host follows
/// its devices.
///
/// # Errors
/// When none has.
pub fn recut_all(trace: &mut Trace, name: &str) -> Result<(), UnknownLoop> {
    let mut any = false;
    for device in &mut trace.devices {
        any |= recut(device, &trace.stacks, name).is_ok();
    }
    if !any {
        check(trace, name)?;
    }
    if let Some(pinned) = &mut trace.pinned {
        super::take_steps(pinned, &trace.devices);
    }
    Ok(())
}

/// The loops inside of `n_steps` steps whose iterations hold all of the backward passes: the
/// micro-batches of gradient accumulation. Returns the iterations of each loop, the fewest first.
pub(crate) fn micro_batches(
    device: &DeviceTrace,
    stacks: &Stacks,
    n_steps: usize,
    watch: Watch<'_>,
) -> Result<Vec<Vec<Span<EventIdx>>>, Stopped> {
    let Some(analysis) = Analysis::new(device, stacks, watch)? else {
        return Ok(Vec::new());
    };
    let trains = |one: &Loop| {
        analysis.total.backward > 0 && one.work.backward * 10 >= analysis.total.backward * 9
    };
    let loops = analysis.loops()?.into_iter();
    let mut found: Vec<Vec<Span<EventIdx>>> = loops
        .filter(|one| one.iterations.len() > n_steps && trains(one))
        .map(|one| analysis.steps(&one.iterations, Word::MicroBatch))
        .map(|parts| parts.iter().map(|part| part.events).collect())
        .collect();
    found.sort_by_key(Vec::len);
    Ok(found)
}

/// `epochs: 2 · steps: 24 · layers: 192`.
pub fn in_words(choices: &[LoopChoice]) -> String {
    let words: Vec<String> = choices
        .iter()
        .map(|l| format!("{}: {}", l.label, l.count))
        .collect();
    words.join(" · ")
}

/// The choices with their steps.
fn with_steps(
    device: &DeviceTrace,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<Vec<(LoopChoice, Vec<Step>)>, Stopped> {
    let watch = watch.beside(super::memory_of_scopes(device));
    let scopes = Scopes::new(device, stacks, watch)?;
    let of_scopes = |key: &str, label: &str, steps: Option<Vec<Step>>| {
        steps.filter(|s| s.len() > 1).map(|steps| {
            let choice = LoopChoice {
                key: key.to_owned(),
                label: label.to_owned(),
                place: String::new(),
                count: steps.len() as u32,
                share: covered(device, &steps),
                chosen: false,
            };
            (choice, steps)
        })
    };
    let mut choices = Vec::new();
    let numbered = scopes.numbered_anyhow();
    choices.extend(of_scopes(ANNOTATED, "annotated steps", numbered));
    let optimizer = scopes.up_to_each_optimizer_step();
    choices.extend(of_scopes(OPTIMIZER, "optimizer steps", optimizer));
    if let Some(analysis) = Analysis::new(device, stacks, watch)? {
        of_loops(&analysis, stacks, &mut choices)?;
    }
    // Several readings of one loop are one choice. Annotated steps are preferred, otherwise the
    // loop.
    let is_loop = |l: &LoopChoice| l.key != OPTIMIZER && l.key != ANNOTATED;
    let counts = choices.iter().filter(|(l, _)| is_loop(l));
    let counts: Vec<u32> = counts.map(|(l, _)| l.count).collect();
    choices.retain(|(l, _)| l.key != OPTIMIZER || !counts.contains(&l.count));
    let annotated = choices.iter().find(|(l, _)| l.key == ANNOTATED);
    let annotated = annotated.map(|(l, _)| l.count);
    choices.retain(|(l, _)| l.label != Word::Step.many() || Some(l.count) != annotated);
    let now = |steps: &[Step]| {
        steps.len() == device.steps.len()
            && steps.first().map(|s| s.events) == device.steps.first().map(|s| s.events)
    };
    let exactly = |steps: &[Step]| {
        let events = |of: &[Step]| of.iter().map(|s| s.events).collect::<Vec<_>>();
        now(steps) && events(steps) == events(&device.steps)
    };
    // Of several readings of one loop, the one that is the steps stays; or one with a word.
    choices.sort_by_key(|(l, steps)| (!exactly(steps), !now(steps), l.label == l.place));
    let mut choices = each_once(choices);
    choices.sort_by(|(a, _), (b, _)| a.count.cmp(&b.count).then(b.share.total_cmp(&a.share)));
    choices.truncate(MOST_CHOICES);
    let exact = choices.iter().position(|(_, steps)| exactly(steps));
    let chosen = exact.or_else(|| choices.iter().position(|(_, steps)| now(steps)));
    if let Some(chosen) = chosen {
        let (choice, steps) = &mut choices[chosen];
        choice.chosen = !device.steps.is_empty();
        // Another device may have shown what they are.
        if choice.label == Word::Token.many() && Word::of(&device.steps) == Word::Request {
            choice.label = Word::Request.many().to_owned();
            steps.iter_mut().for_each(call_a_request);
        }
    }
    tell_apart(choices.iter_mut().map(|(choice, _)| choice).collect());
    Ok(choices)
}

/// Choices without those that are one before them again. It keeps the first key of both, so that
/// this is the same in other recordings.
fn each_once(choices: Vec<(LoopChoice, Vec<Step>)>) -> Vec<(LoopChoice, Vec<Step>)> {
    let mut kept: Vec<(LoopChoice, Vec<Step>)> = Vec::new();
    for (choice, steps) in choices {
        let is_before = |(other, others): &&mut (LoopChoice, Vec<Step>)| {
            is_again(&choice, &steps, other, others)
        };
        match kept.iter_mut().find(is_before) {
            None => kept.push((choice, steps)),
            Some((before, _)) if before.place.is_empty() => {}
            Some((before, _)) => {
                let order = |key: &str| (key.len(), key.to_owned());
                before.key = std::cmp::min_by_key(choice.key, before.key.clone(), |k| order(k));
            }
        }
    }
    kept
}

/// Whether a choice is another one again: a loop of the same place; or of the same function, or of
/// scopes, whose iterations are at the same time.
fn is_again(choice: &LoopChoice, steps: &[Step], other: &LoopChoice, others: &[Step]) -> bool {
    fn function(choice: &LoopChoice) -> Option<(&str, &str)> {
        let (place, name) = choice.place.rsplit_once(" in ")?;
        Some((place.rsplit_once(':')?.0, name))
    }
    let is_of_it = function(choice) == function(other) || other.key == ANNOTATED;
    let overlap = |(one, other): (&Step, &Step)| one.events.overlaps(other.events);
    choice.count == other.count
        && (choice.place == other.place || is_of_it && steps.iter().zip(others).all(overlap))
}

/// Gives loops that are the same in words their places, or what else it takes: a label chooses a
/// choice, so no two may have the same.
fn tell_apart(mut choices: Vec<&mut LoopChoice>) {
    let labels: Vec<String> = choices.iter().map(|choice| choice.label.clone()).collect();
    for choice in &mut choices {
        let alike = labels.iter().filter(|label| **label == choice.label);
        if alike.count() > 1 && !choice.place.is_empty() && choice.label != choice.place {
            choice.label = format!("{} at {}", choice.label, choice.place);
        }
    }
    for at in 1..choices.len() {
        let (before, rest) = choices.split_at_mut(at);
        if before.iter().any(|choice| choice.label == rest[0].label) {
            rest[0].label = format!("{} ({})", rest[0].label, rest[0].key);
        }
    }
}

fn covered(device: &DeviceTrace, steps: &[Step]) -> f64 {
    let allocs = |step: &Step| device.blocks.allocated_in(step.events).len();
    let inside: usize = steps.iter().map(allocs).sum();
    let all = device.blocks.made().len();
    inside as f64 / all.max(1) as f64
}

/// A key that selects one choice only: that of the second loop of a function ends in `-2`, and so
/// on.
fn not_taken(key: String, choices: &[(LoopChoice, Vec<Step>)]) -> String {
    let is_free = |key: &String| choices.iter().all(|(choice, _)| choice.key != *key);
    let numbered = (2..).map(|n| format!("{key}-{n}"));
    let mut keys = std::iter::once(key.clone()).chain(numbered);
    keys.find(is_free).unwrap_or(key)
}

fn of_loops(
    analysis: &Analysis<'_>,
    stacks: &Stacks,
    choices: &mut Vec<(LoopChoice, Vec<Step>)>,
) -> Result<(), Stopped> {
    let loops = analysis.loops()?;
    let chosen = analysis.choose(&loops).map(|i| loops[i].clone());
    let all = analysis.walk.of_alloc.len().max(1) as f64;
    // The size of a loop is known without work, so it is tested first.
    let listed = |loops: &[Loop], i: usize| {
        f64::from(loops[i].allocs) >= WORTH_LISTING * all && analysis.is_best_beat(loops, i)
    };
    let mut shown: Vec<Loop> = Vec::new();
    let is_large = |one: &Loop| f64::from(one.allocs) >= WORTH_LISTING * all;
    let mut around: Vec<Loop> = Vec::new();
    for (index, one) in loops.iter().enumerate() {
        let is_chosen = chosen.as_ref().is_some_and(|c| c.is_same(one));
        if is_chosen || listed(&loops, index) {
            shown.push(one.clone());
        } else if is_large(one) && analysis.is_around(&loops, one) {
            around.push(one.clone());
        }
    }
    // After the others, so that their keys stay the same.
    shown.append(&mut around);
    let inner = analysis.inner_loops()?;
    let best = (0..inner.len()).filter(|&i| listed(&inner, i));
    // The largest loop in a module, and the largest in an optimizer.
    for in_optimizer in [false, true] {
        let here = best
            .clone()
            .filter(|&i| analysis.calls.context(inner[i].owner).place.in_optimizer == in_optimizer);
        shown.extend(
            here.max_by_key(|&i| inner[i].allocs)
                .map(|i| inner[i].clone()),
        );
    }
    for one in &shown {
        let (key, place) = named(analysis, stacks, one);
        let key = not_taken(key, choices);
        let word = word(analysis, stacks, one, (&loops, chosen.as_ref()));
        let steps = analysis.steps(&one.iterations, word.unwrap_or(Word::Step));
        let choice = LoopChoice {
            key,
            label: word.map_or_else(|| place.clone(), |word| word.many().to_owned()),
            place,
            count: one.iterations.len() as u32,
            share: f64::from(one.allocs) / all,
            chosen: false,
        };
        choices.push((choice, steps));
    }
    Ok(())
}

/// The key and the place of a loop. If a function is called once for each iteration, the loop is
/// not in it but in its caller.
fn named(analysis: &Analysis<'_>, stacks: &Stacks, one: &Loop) -> (String, String) {
    const ONCE: [&str; 4] = ["step", "forward", "__call__", "closure"];
    let region = &analysis.regions[one.region];
    let (ways, calls) = (&analysis.ways, &analysis.calls);
    let marks = Mark::of(region, one.region, one.beat, ways, calls);
    let mark = marks.iter().find(|mark| mark.turn == one.turn);
    let spots = region.spots.iter().map(|&s| calls.spot(s).line);
    let line = match marks.iter().any(|mark| mark.turn > 0) {
        true => mark.map(|mark| mark.line(calls)),
        false => spots.min(),
    };
    let (mut context, mut line) = (region.context, line.unwrap_or(0));
    // Each call of a module is an iteration of its caller.
    while context != one.owner
        && let Some(caller) = analysis.calls.context(context).parent
    {
        (context, line) = (caller, analysis.calls.context(context).called_at);
    }
    let entered = mark.is_some_and(|mark| mark.starts_at_entry(ways));
    let name = |c| {
        let function = analysis.calls.context(c).function;
        stacks.str(analysis.frames.function(function).name)
    };
    let this = analysis.calls.context(context);
    if let Some(caller) = this.parent
        && entered
        && ONCE.iter().any(|part| name(context).contains(part))
        && (analysis.can_own(caller) || this.place.in_module)
    {
        (context, line) = (caller, this.called_at);
    }
    let frame = analysis
        .frames
        .function(analysis.calls.context(context).function);
    let file = file_name(stacks.str(frame.filename));
    let plain = |text: &str| {
        let keep = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        text.chars().filter(keep).collect::<String>()
    };
    let key = format!(
        "{}.{}",
        plain(file.trim_end_matches(".py")),
        plain(name(context))
    );
    (key, format!("{file}:{line} in {}", name(context)))
}

/// The word for a loop, if there is one, beside the others of the recording.
pub(super) fn word(
    analysis: &Analysis<'_>,
    stacks: &Stacks,
    one: &Loop,
    (others, chosen): (&[Loop], Option<&Loop>),
) -> Option<Word> {
    let context = analysis.calls.context(one.owner);
    // A closure that an optimizer calls runs the forward pass, so its layers come first.
    if context.place.in_module {
        return Some(Word::Layer);
    }
    if context.place.in_optimizer {
        return Some(Word::Parameter);
    }
    let named = |parts: &[&str]| says(analysis, stacks, one.owner, parts);
    let chosen = chosen?;
    let makes_tokens = |one: &Loop| makes_tokens(analysis, stacks, one, chosen);
    // A line that is passed twice looks like a loop in its own function, so that one must be long.
    let inside = || {
        let others = others.iter().filter(|_| one.work.backward == 0);
        others.filter(|other| {
            let (inner, outer) = (other.iterations.len(), one.iterations.len());
            let is_other = other.owner != one.owner && inner > outer;
            (is_other || inner >= MIN_STEPS * outer) && analysis.calls.is_in(other.owner, one.owner)
        })
    };
    // Around a loop over tokens there can only be a loop over requests.
    let is_around_tokens = || inside().any(makes_tokens);
    let is_around_denoising = || inside().any(|other| denoises(analysis, stacks, other.owner));
    let updates = || {
        let rounds = analysis.rounds(others, one);
        rounds.is_some_and(|rounds| analysis.update_another_model(&rounds))
    };
    let trains = analysis.total.backward > 0;
    let (n, steps) = (one.iterations.len(), chosen.iterations.len());
    let word = match n.cmp(&steps) {
        std::cmp::Ordering::Equal if one.is_same(chosen) && trains => Word::Step,
        std::cmp::Ordering::Less
            if trains
                && one.work.backward * 5 >= analysis.total.backward * 3
                && one.each(|work| work.backward > 0)
                && !updates() =>
        {
            Word::Epoch
        }
        std::cmp::Ordering::Greater
            if trains
                && one.work.backward * 10 >= chosen.work.backward * 9
                && !one.each(|work| work.optimizer > 0)
                && !one.trains_or_fails() =>
        {
            Word::MicroBatch
        }
        _ if named(&["serve", "request", "handle"]) || is_around_tokens() => Word::Request,
        _ if makes_tokens(one) => Word::Token,
        _ if is_around_denoising() => Word::Image,
        _ if denoises(analysis, stacks, one.owner) => Word::DenoisingStep,
        _ if one.is_same(chosen) => Word::Iteration,
        _ => return None,
    };
    Some(word)
}

/// Whether a loop's function, or a caller in the same file, is called after tokens. What trains
/// makes none, whatever it is called: but a counterfactual, or an attack. Nor does what calls no
/// module, if others do, and if no graph stands for it: but noise for each weight.
fn makes_tokens(analysis: &Analysis<'_>, stacks: &Stacks, one: &Loop, chosen: &Loop) -> bool {
    if one.work.forward == 0 && analysis.total.forward > 0 && !analysis.has_graph {
        return false;
    }
    let callers = std::iter::successors(Some(one.owner), |&c| analysis.calls.context(c).parent);
    let file = |c| file_of(analysis, stacks, c);
    let here = callers.filter(|&c| file(c) == file(one.owner));
    let mut named = here.filter(|&c| says(analysis, stacks, c, &["generate", "decode"]));
    let trains = |c| chosen.work.backward > 0 && analysis.calls.is_in(chosen.owner, c);
    named.any(|c| !trains(c))
}

/// Whether a context's function is called after diffusion, or is of a package for it.
fn denoises(analysis: &Analysis<'_>, stacks: &Stacks, context: ContextIdx) -> bool {
    const PACKAGE: &str = "/diffusers/pipelines/";
    let file = slashed(file_of(analysis, stacks, context));
    says(analysis, stacks, context, &["denois", "p_sample", "diffus"]) || file.contains(PACKAGE)
}

/// Whether the name of a context's function has one of these parts.
fn says(analysis: &Analysis<'_>, stacks: &Stacks, context: ContextIdx, parts: &[&str]) -> bool {
    let function = analysis.calls.context(context).function;
    let name = stacks.str(analysis.frames.function(function).name);
    let name = name.to_lowercase();
    parts.iter().any(|part| name.contains(part))
}

/// The file in which a context's function stands.
fn file_of<'s>(analysis: &Analysis<'_>, stacks: &'s Stacks, context: ContextIdx) -> &'s str {
    let function = analysis.calls.context(context).function;
    stacks.str(analysis.frames.function(function).filename)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_choices_have_the_same_label() {
        let check = |choices: &[(&str, &str, &str)], expected: &[&str]| {
            let choice = |&(key, label, place): &(&str, &str, &str)| LoopChoice {
                key: key.to_owned(),
                label: label.to_owned(),
                place: place.to_owned(),
                count: 2,
                share: 1.0,
                chosen: false,
            };
            let mut choices: Vec<LoopChoice> = choices.iter().map(choice).collect();
            tell_apart(choices.iter_mut().collect());
            let labels: Vec<&str> = choices.iter().map(|choice| choice.label.as_str()).collect();
            assert_eq!(labels, expected);
        };
        let (outer, inner) = ("a.py:5 in decode", "a.py:9 in decode");
        check(
            &[
                ("a.serve", "requests", "a.py:1 in serve"),
                ("a.decode", "tokens", outer),
            ],
            &["requests", "tokens"],
        );
        check(
            &[
                ("a.decode", "tokens", outer),
                ("a.decode-2", "tokens", inner),
            ],
            &["tokens at a.py:5 in decode", "tokens at a.py:9 in decode"],
        );
        check(
            &[
                ("a.decode", "tokens", outer),
                ("a.decode-2", "tokens", outer),
            ],
            &[
                "tokens at a.py:5 in decode",
                "tokens at a.py:5 in decode (a.decode-2)",
            ],
        );
        check(
            &[("a.f", outer, outer), ("a.f-2", outer, outer)],
            &[outer, "a.py:5 in decode (a.f-2)"],
        );
    }
}
