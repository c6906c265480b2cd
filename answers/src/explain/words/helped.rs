//! What would have helped.

use super::leaking::leaking;
use super::limit::{ABOUT, is_known};
use crate::cards::markdown::code;
use api::explain::{Basis, Cause, Leaks, OutOfMemory, Refusal, Remedy, WholePass};
use api::leaks::Verdict;
use trace::categories::{Category, Named};
use trace::failing::Saved;
use trace::phases::Phase;
use trace::steps::Word;
use trace::units::Bytes;
use trace::what_if::Change;

/// What is known of what may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replays<'a> {
    /// How much of what was in use is taken to grow with the batch.
    pub grows: Bytes,
    /// What lowers the largest part of what was in use: a sentence.
    pub lowers: Option<&'a str>,
    /// Whether replay gives the failure, so that changes were tried.
    pub fails: bool,
    /// Whether segments expanded already.
    pub expands: bool,
    /// What waits for a backward pass.
    pub saved: Saved,
    /// What the device's steps are.
    pub step: Word,
}

/// What would have got past it: first what ends the cause, then what only gets past.
pub fn helped(oom: &OutOfMemory, leaks: &Leaks, replays: Replays<'_>) -> String {
    if let Some(hopeless) = hopeless(oom) {
        return hopeless;
    }
    if !replays.fails {
        let too_much = oom.whole_pass.as_ref().filter(|pass| pass.is_too_much);
        let needs = too_much.map(|pass| needs_more(pass, replays.step));
        let sentences = [
            Some(
                "Which change would have got past it cannot be computed: replayed under its own \
                 settings, the recording does not fail at this request."
                    .to_owned(),
            ),
            needs,
            Some(in_general(oom.cause, !replays.expands).to_owned()),
        ];
        return sentences
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ");
    }
    let mut sentences = Vec::new();
    let is = |kind: Kind| oom.remedies.iter().filter(move |r| Kind::of(r) == kind);
    if let Some(remedy) = is(Kind::Leak).next() {
        sentences.push(format!(
            "Fix the leak at {}: had what leaks been given back at the end of each {}, the \
             program would have got past this with {} reserved, {} below the limit (computed).",
            leaking(leaks),
            replays.step.one(),
            remedy.peak_reserved,
            remedy.left
        ));
    } else if leaks.verdict == Verdict::Leak && oom.leaked > Bytes::ZERO {
        sentences.push(format!(
            "There is a leak to fix at {}, but without it memory would have run out all the same \
             (computed).",
            leaking(leaks)
        ));
    }
    let settings = settings(
        oom,
        leaks,
        replays.step,
        &is(Kind::Setting).collect::<Vec<_>>(),
    );
    let batch = match is(Kind::Batch).next() {
        Some(remedy) => batch(oom, remedy, leaks, replays.step),
        None if lasts(oom) => format!(
            "A smaller batch would save little: only {} of what was in use grow with it.",
            replays.grows
        ),
        // A recording without modules does not show what an activation is.
        None if replays.grows.0 * 4 < oom.held.allocated.0 => format!(
            "What a smaller batch would save cannot be estimated: only {} of what was in use are \
             known to grow with it.",
            replays.grows
        ),
        None => "A quarter of the batch would not have been enough (estimated).".to_owned(),
    };
    sentences.extend(in_order(oom, settings, batch, replays.step));
    sentences.extend(kept_for_backward(oom, replays.saved));
    sentences.extend(replays.lowers.map(str::to_owned));
    sentences.push(what_came_next(oom, replays.lowers.is_some()).to_owned());
    sentences.join(" ")
}

/// That the request would not have fitted had the process held nothing else: what it held is not to
/// blame then, and to hold less of it would not have helped.
fn hopeless(oom: &OutOfMemory) -> Option<String> {
    let free = oom.free.filter(|_| oom.refused_by == Refusal::Device)?;
    let all = free.saturating_add(oom.held.reserved);
    let is_hopeless = oom.remedies.is_empty() && oom.asked > all;
    is_hopeless.then(|| {
        format!(
            "Nothing that the process held: with nothing else in memory the request would not have \
             fitted either, since the device had {all} for this process. If the card is larger, \
             other processes held the rest; the message of the error lists them. Else the request \
             itself has to be smaller."
        )
    })
}

/// Where the step needs more than there is, a setting only puts off the end.
fn in_order(oom: &OutOfMemory, settings: String, batch: String, step: Word) -> Vec<String> {
    match &oom.whole_pass {
        Some(pass) if pass.is_too_much => vec![batch, settings, needs_more(pass, step)],
        _ if oom.outgrown.is_some() => {
            let unknown = format!(
                "How much this {} needs in all is not known: what only gets past this request may \
                 run out later in it.",
                step.one()
            );
            vec![batch, settings, unknown]
        }
        Some(pass) if is_about_the_limit(oom, pass) => {
            let about = format!(
                "All of this {} needs about {} (estimated), about as much as the limit: what only \
                 gets past this request may run out later in it.",
                step.one(),
                pass.least
            );
            vec![settings, batch, about]
        }
        _ => vec![settings, batch],
    }
}

/// Whether what a pass needs is estimated, and too near to the limit to tell whether it fits.
fn is_about_the_limit(oom: &OutOfMemory, pass: &WholePass) -> bool {
    let is_near = |limit: Bytes| pass.least + limit / ABOUT >= limit;
    pass.times_as_large.is_some() && !pass.is_too_much && oom.limit_at_least.is_some_and(is_near)
}

/// What the recording does not show, or what helps in general where nothing got past it. What
/// `lowers` the largest category was said before.
fn what_came_next(oom: &OutOfMemory, lowers: bool) -> &'static str {
    match (oom.remedies.is_empty(), oom.phase) {
        // Expandable segments were tried, or in use.
        (true, _) if matches!(oom.cause, Cause::Demand | Cause::NotKnown) && lasts(oom) => {
            "What lowers demand: sharding or a lower precision of what lasts, or an optimizer with \
             a smaller state."
        }
        (true, _) if !lowers => in_general(oom.cause, false),
        (_, Phase::Forward) => {
            "What would have been asked for next was not recorded; within a forward pass memory \
             still grows, so take more than the least that helps."
        }
        _ => "What would have been asked for next was not recorded.",
    }
}

/// Whether three quarters of what was in use are the model, its gradients and its optimizer.
fn lasts(oom: &OutOfMemory) -> bool {
    use Category::{Gradient, OptimizerState, Parameter};
    let lasting = [Parameter, Gradient, OptimizerState].map(Named::Ours);
    let categories = oom.held.categories.iter();
    let lasting = categories.filter(|c| lasting.contains(&c.category));
    let bytes: Bytes = lasting.map(|c| c.bytes).sum();
    bytes.0 * 4 >= oom.held.allocated.0 * 3
}

/// That what gets past one request is not enough for the rest of its step.
fn needs_more(pass: &WholePass, step: Word) -> String {
    let (one, many, need) = (step.one(), step.many(), pass.least);
    if pass.times_as_large.is_some() {
        return format!("All of this {one} needs about {need} (estimated), more than the limit.");
    }
    format!(
        "If this {one} is like the {many} before, it needs about {need} in all (computed from \
         their peaks), more than the limit: what only gets past this request runs out later in it."
    )
}

/// That forward passes keep what no backward pass may ask for: several since the last one, or no
/// backward pass was recorded at all.
fn kept_for_backward(oom: &OutOfMemory, saved: Saved) -> Option<String> {
    let bytes = saved.bytes;
    let is_much = bytes.0 * 2 >= oom.held.allocated.0;
    // A larger batch alone says why more waits.
    let larger = oom.whole_pass.as_ref().and_then(|pass| pass.times_as_large);
    if saved
        .times()
        .zip(larger)
        .is_some_and(|(waits, larger)| waits <= larger)
    {
        return None;
    }
    match (saved.usual, saved.times()) {
        (_, Some(times)) => Some(format!(
            "Since the last backward pass, forward passes have kept {bytes} of activations for \
             another one, {times:.1} times as much as waited for any before: if none is to follow, \
             as in an evaluation, `torch.no_grad()` keeps none of it."
        )),
        (None, _) if is_much => Some(format!(
            "No backward pass was recorded before this: if none is to follow, `torch.no_grad()` \
             keeps none of these {bytes} of activations."
        )),
        _ => None,
    }
}

/// What a remedy changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Leak,
    Setting,
    Batch,
}

impl Kind {
    fn of(remedy: &Remedy) -> Kind {
        match (remedy.basis, remedy.change.as_str()) {
            (Basis::Estimated, _) => Kind::Batch,
            (_, "no leaks") => Kind::Leak,
            _ => Kind::Setting,
        }
    }
}

fn settings(oom: &OutOfMemory, leaks: &Leaks, step: Word, found: &[&Remedy]) -> String {
    let Some(first) = found.first() else {
        // What would have been enough under the largest limit that fits may be too little under the
        // smallest.
        let needed = oom.held.allocated + oom.asked;
        let may_fit = oom.limit_below.is_some_and(|below| needed < below);
        if may_fit && !is_known(oom) {
            return depends_on_limit(&oom.settings_perhaps);
        }
        let in_pieces = oom.room.as_ref().is_some_and(|room| room.free >= oom.asked);
        // Of memory in pieces, a setting may help that is not told, because it does not in all
        // readings of the recording.
        let gets_past = match oom.cause {
            Cause::Fragmentation | Cause::NotKnown => "is sure to get past it",
            _ if in_pieces || may_fit => "is sure to get past it",
            _ => "gets past it: the memory was in use, not in pieces",
        };
        return format!("No allocator setting that was tried {gets_past}.");
    };
    let begin = match first.change.as_str() {
        Change::DEFAULTS => "Without settings, by its defaults, the allocator gets".to_owned(),
        conf => format!(
            "{} alone gets",
            code(&format!("PYTORCH_CUDA_ALLOC_CONF={conf}"))
        ),
    };
    let others = found[1..].iter().map(|remedy| named(&remedy.change));
    let others = match others.collect::<Vec<_>>() {
        others if others.is_empty() => String::new(),
        others => format!("; so does {}", others.join(", or ")),
    };
    // Without a limit, the allocator would reserve more before it gives cached memory back.
    let under = oom.limit_at_least;
    let passes = under.is_some_and(|least| first.peak_reserved > least);
    let under = under.map_or_else(String::new, |least| format!(" under a limit of {least}"));
    // A limit is checked with the size of a segment of the usual kind.
    let passes = match passes {
        true => ", which the pages of expandable segments may pass by a little",
        false => "",
    };
    format!(
        "{begin} past it with {} reserved{under}{passes} (computed){others}{}.",
        first.peak_reserved,
        postpones(leaks, step, first)
    )
}

/// Settings, inside of a sentence.
fn named(change: &str) -> String {
    match change {
        Change::DEFAULTS => format!("the allocator with its {}", Change::DEFAULTS),
        conf => code(conf),
    }
}

/// That no settings help for sure, with those that would under the largest limit.
fn depends_on_limit(perhaps: &[String]) -> String {
    let begin = "No allocator setting that was tried is sure to get past it. That depends on the \
                 limit, which the recording does not tell exactly:";
    let perhaps: Vec<String> = perhaps.iter().map(|change| named(change)).collect();
    match perhaps.is_empty() {
        true => format!("{begin} ask *What if* with the one that was set."),
        false => format!(
            "{begin} under the largest one that fits it, {} would get past it (computed). Ask \
             *What if* with the one that was set.",
            perhaps.join(", or ")
        ),
    }
}

fn batch(oom: &OutOfMemory, remedy: &Remedy, leaks: &Leaks, step: Word) -> String {
    let past = format!(
        "A batch {} as large gets past it with about {} reserved (estimated: what grows with the \
         batch shrinks, all else stays){}.",
        share(&remedy.change),
        remedy.peak_reserved,
        postpones(leaks, step, remedy)
    );
    match oom.whole_pass.as_ref().and_then(|pass| whole(pass, remedy)) {
        Some(whole) => format!("{past} {whole}"),
        None => past,
    }
}

/// `1/2` of `1/2 of the batch`.
fn share(change: &str) -> &str {
    change.split(' ').next().unwrap_or_default()
}

/// How large a batch a whole pass is likely to have room for, if that is less than what gets past:
/// it is never more.
fn whole(pass: &WholePass, past: &Remedy) -> Option<String> {
    match (&pass.batch, pass.with_batch) {
        (Some(batch), Some(need)) if *batch != past.change => {
            let what = match pass.times_as_large {
                Some(_) => "it",
                None => "one like the largest before",
            };
            Some(format!(
                "For the whole pass rather take {}: {what} then needs about {need} (estimated).",
                share(batch)
            ))
        }
        _ => None,
    }
}

/// Whether the leak goes on, and for how long the remaining memory lasts.
fn postpones(leaks: &Leaks, step: Word, remedy: &Remedy) -> String {
    if leaks.verdict != Verdict::Leak {
        return String::new();
    }
    let (one, many) = (step.one(), step.many());
    let Some(low) = remedy.steps_until_full else {
        return ", but that does not end the leak".to_owned();
    };
    let high = remedy.steps_until_full_at_most.unwrap_or(low);
    let like = "if they are like those before";
    let fills = match (low, high) {
        (0, 0) => format!("the next {one}, if it is like those before"),
        (0, high) => format!(
            "the next {one}, or up to {} later, {like}",
            step.counted(high as usize)
        ),
        (1, 1) => format!("about one more {one}, {like}"),
        (low, high) if low >= high => format!("about {low} more {many}, {like}"),
        (low, high) => format!("{low} to {high} more {many}, {like}"),
    };
    format!(", but the leak fills what is left in {fills}")
}

/// General advice against a cause, without numbers. Expandable segments are no advice where they
/// were in use, or did not help.
fn in_general(cause: Cause, may_expand: bool) -> &'static str {
    match cause {
        Cause::Leak => "End the leak first: everything else only postpones the failure.",
        Cause::Fragmentation if !may_expand => {
            "Against fragmentation: sizes that do not vary from step to step (padding to a few \
             lengths)."
        }
        Cause::Fragmentation => {
            "Against fragmentation: `expandable_segments:True`, and sizes that do not vary from \
             step to step (padding to a few lengths)."
        }
        Cause::NotKnown if may_expand => {
            "Against fragmentation: `expandable_segments:True`. What lowers demand: a smaller \
             batch or sequence with gradient accumulation, activation checkpointing or offloading."
        }
        Cause::Demand | Cause::NotKnown => {
            "What lowers demand: a smaller batch or sequence with gradient accumulation, \
             activation checkpointing or offloading, sharding or a lower precision of what lasts."
        }
    }
}
