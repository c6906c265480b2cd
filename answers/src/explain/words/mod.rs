//! Why memory ran out and what would have helped: the first few sentences that a person needs.
//! Places in them are marked as code, in Markdown.

#[cfg(test)]
mod tests;

use crate::cards::capital;
use crate::cards::markdown::code;
use api::contents::CategoryBytes;
use api::explain::{
    Basis, Cause, LeakExplained, Leaks, OutOfMemory, Refusal, Remedy, Room, WholePass,
};
use api::frames::FrameText;
use api::leaks::{Pattern, Verdict};
use trace::categories::{Category, Named};
use trace::code::module;
use trace::failing::Saved;
use trace::phases::Phase;
use trace::steps::Word;
use trace::units::Bytes;
use trace::units::size::of_between;
use trace::what_if::Change;

/// Where and by whom memory was requested, as far as that is known.
pub struct Request<'a> {
    /// The most that was in use before at one time.
    pub peak_before: Bytes,
    /// `in step 3, in the backward pass`; may be empty.
    pub place: &'a str,
    /// The operation.
    pub operation: Option<&'a str>,
    /// The line of the program that called it.
    pub line: Option<&'a str>,
    /// Whether the recording tells its size rounded up to a division of a power of two.
    pub is_rounded: bool,
    /// The state that the optimizer had made in this step, if it was the optimizer that asked.
    pub optimizer_made: Bytes,
    /// What the device's steps are.
    pub step: Word,
}

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

/// Why it failed.
pub fn why(oom: &OutOfMemory, leaks: &Leaks, request: &Request<'_>) -> String {
    let mut sentences = vec![refused(oom, request)];
    sentences.extend(lowered(oom, request.peak_before));
    sentences.push(cause(oom, leaks, request.step));
    sentences.extend(contributed(oom, leaks, request.step));
    sentences.extend(state(request.optimizer_made));
    sentences.extend(match oom.retries_before {
        None | Some(0) => None,
        Some(1) => Some("The cache had been emptied for a request once before.".to_owned()),
        Some(n) => Some(format!(
            "The cache had been emptied for a request {n} times before."
        )),
    });
    sentences.join(" ")
}

/// That the optimizer was making its state.
fn state(made: Bytes) -> Option<String> {
    (made > Bytes::ZERO).then(|| {
        format!(
            "The optimizer was making its state, of which {made} were there; it makes as much for \
             each weight that has a gradient."
        )
    })
}

/// That the program went on, if so many steps ran to their end after the last failure.
pub fn went_on(steps: usize, step: Word) -> Option<String> {
    (steps > 0).then(|| {
        let steps = step.counted(steps);
        format!("The program went on: {steps} ran to the end after its last failure.")
    })
}

/// Who asked for how much, and what refused it.
fn refused(oom: &OutOfMemory, request: &Request<'_>) -> String {
    let asked = oom.asked;
    let free = oom.free.unwrap_or_default();
    let asker = match (request.operation, request.line) {
        (Some(operation), Some(line)) => format!("{}, called by {},", code(operation), code(line)),
        (Some(one), None) | (None, Some(one)) => code(one),
        (None, None) => "the program".to_owned(),
    };
    let up_to = if request.is_rounded { "up to " } else { "" };
    let begin = match request.place {
        "" => format!("{asker} asked for {up_to}{asked}"),
        place => format!("{place}, {asker} asked for {up_to}{asked}"),
    };
    let refusal = match oom.refused_by {
        Refusal::Device => format!(
            "the device had {free} free, and the process {} reserved",
            oom.held.reserved
        ),
        Refusal::NotKnown => format!(
            "the process had {} reserved; the recording does not say what the device had free",
            oom.held.reserved
        ),
        Refusal::ProcessLimit => format!(
            "a memory limit of the process{}, as `set_per_process_memory_fraction` sets one, \
             refused it; the device had {free} free",
            limit(oom)
        ),
    };
    format!("{}: {refusal}.", capital(&begin))
}

/// That there had been more room before than there was now.
fn lowered(oom: &OutOfMemory, peak_before: Bytes) -> Option<String> {
    let since = match oom.refused_by {
        Refusal::ProcessLimit => "the limit was set, or lowered, since then",
        Refusal::Device => "the device had more room for it then",
        Refusal::NotKnown => return None,
    };
    let is_more = oom.limit_below.is_some_and(|below| peak_before >= below);
    is_more.then(|| format!("Before, up to {peak_before} had been in use: {since}."))
}

/// ` of 2.01 GiB`, as exactly as the recording shows it.
fn limit(oom: &OutOfMemory) -> String {
    match (oom.limit_at_least, oom.limit_below) {
        (Some(least), Some(below)) => format!(" {}", of_between(least, below)),
        (_, Some(below)) => format!(" of at most {below}"),
        _ => String::new(),
    }
}

fn cause(oom: &OutOfMemory, leaks: &Leaks, step: Word) -> String {
    let in_use = oom.held.allocated;
    match (oom.cause, &oom.room) {
        (Cause::Leak, _) => format!(
            "The cause is a leak: {} of the {in_use} in use had been left behind{}{}.",
            oom.leaked,
            rate(leaks, step),
            most_of_it(leaks)
        ),
        (Cause::Fragmentation, Some(room)) => format!(
            "The cause is fragmentation: {} of the {} reserved were not in use, but in pieces of \
             {}{}{}.",
            room.free,
            oom.held.reserved,
            pieces(oom, room),
            match is_known(oom) || room.free < oom.asked {
                true => short(oom),
                false => String::new(),
            },
            pinned(room)
        ),
        _ => {
            if let Some(room) = oom.room.as_ref().filter(|room| room.free >= oom.asked)
                && !is_known_to_need_more(oom)
                && oom.outgrown.is_none()
            {
                return nearly_all(oom, room);
            }
            let free = oom.held.reserved.saturating_sub(in_use);
            let larger = oom.whole_pass.as_ref().and_then(larger);
            let larger = larger.or_else(|| oom.outgrown.map(outgrown));
            let larger = larger.map_or_else(String::new, |larger| {
                format!(", for this {} {larger}", step.one())
            });
            format!(
                "The program needed more than there was{larger}: {in_use} were in use, mostly \
                 {}{}; only {free} of what was reserved were free{}.",
                mostly(oom),
                asked_for_by(oom),
                short(oom)
            )
        }
    }
}

/// Whether the whole pass is known to have needed more, or its optimizer.
fn is_known_to_need_more(oom: &OutOfMemory) -> bool {
    let is_too_much = oom.whole_pass.as_ref().map(|pass| pass.is_too_much);
    is_too_much == Some(true) || oom.phase == Phase::Optimizer
}

/// That there was little left, and that it lay in pieces: which of both it was, nobody can tell.
fn nearly_all(oom: &OutOfMemory, room: &Room) -> String {
    format!(
        "Nearly all of the {} reserved was in use: {}, mostly {}{}. The {} that were not lay in \
         pieces of {}.",
        oom.held.reserved,
        oom.held.allocated,
        mostly(oom),
        asked_for_by(oom),
        room.free,
        pieces(oom, room)
    )
}

/// `, most of it made by …`.
fn most_of_it(leaks: &Leaks) -> String {
    let Some(first) = told(leaks) else {
        return String::new();
    };
    let share = first.bytes_per_step / leaks.rate.max(1.0);
    let how = match share {
        share if share > 0.9 => "made by",
        share if share > 0.5 => "most of it made by",
        _ => "the largest part made by",
    };
    format!(", {how} {}", leaking(leaks))
}

/// `2.00 MiB at most`: how large the pieces are that the free memory lies in. A request is not
/// served by the pool of another size or stream.
fn pieces(oom: &OutOfMemory, room: &Room) -> String {
    let elsewhere = match room.largest_gap >= oom.asked {
        true => " in other pools",
        false => "",
    };
    format!("{} at most{elsewhere}", room.largest_gap)
}

/// What pins most of the free memory, if it pins more than half.
fn pinned(room: &Room) -> String {
    let free: Bytes = room.pins.iter().map(|pin| pin.free).sum();
    match room.pins.first() {
        Some(first) if free.0 * 2 > room.free.0 => format!(
            "; {free} lie in segments that a few blocks keep from being given back, the most \
             behind {} of {}",
            first.used,
            code(&first.place)
        ),
        _ => String::new(),
    }
}

/// What was not the cause but contributed.
fn contributed(oom: &OutOfMemory, leaks: &Leaks, step: Word) -> Option<String> {
    let leaked = || match (leaks.verdict, oom.leaked) {
        (Verdict::Leak, leaked) if leaked > Bytes::ZERO => Some(format!(
            "A leak had its part: {leaked} had been left behind{}{}.",
            by_whom(leaks, step),
            most_of_it(leaks)
        )),
        _ => None,
    };
    match (oom.cause, &oom.room) {
        (Cause::Leak, Some(room)) if room.free >= oom.asked => Some(format!(
            "Fragmentation had its part: {} were reserved and not in use, more than was asked \
             for, but in pieces of {}.",
            room.free,
            pieces(oom, room)
        )),
        (Cause::Leak, _) => None,
        _ => leaked(),
    }
}

/// `, asked for by …`: the place that holds most.
fn asked_for_by(oom: &OutOfMemory) -> String {
    match oom.held.places.first() {
        Some(first) if first.frame.is_some() => format!(
            ", the largest part asked for by {} ({})",
            code(&first.place),
            first.bytes
        ),
        _ => String::new(),
    }
}

/// `, and it was short by up to 12 MiB`.
fn short(oom: &OutOfMemory) -> String {
    let (Some(segment), Some(least)) = (oom.segment, oom.limit_at_least) else {
        return String::new();
    };
    let by = match is_known(oom) {
        true => "by",
        false => "by up to",
    };
    // A small request needs a segment that is much larger.
    let of = match segment > oom.asked + Bytes::mib(2) {
        true => format!(" of the segment of {segment} that the request needed"),
        false => String::new(),
    };
    match (oom.held.reserved + segment).saturating_sub(least) {
        Bytes::ZERO => String::new(),
        short => format!(", and it was short {by} {short}{of}"),
    }
}

/// Whether it is known to the byte what the process could reserve.
fn is_known(oom: &OutOfMemory) -> bool {
    match (oom.limit_at_least, oom.limit_below) {
        (Some(least), Some(below)) => below.saturating_sub(least) <= Bytes(1),
        _ => false,
    }
}

/// `activations (1.54 GiB) and temporaries (190 MiB)`: the two largest, if the second is large.
fn mostly(oom: &OutOfMemory) -> String {
    let named = |c: &CategoryBytes| format!("{} ({})", c.category.label(), c.bytes);
    let is_large = |c: &&CategoryBytes| c.bytes.0 * 10 >= oom.held.allocated.0;
    let large = oom.held.categories.iter().filter(is_large).take(2);
    match large.map(named).collect::<Vec<_>>() {
        none if none.is_empty() => "many small things".to_owned(),
        some => some.join(" and "),
    }
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
        _ => vec![settings, batch],
    }
}

/// What the recording does not show, or what helps in general where nothing got past it. What
/// `lowers` the largest category was said before.
fn what_came_next(oom: &OutOfMemory, lowers: bool) -> &'static str {
    match (oom.remedies.is_empty(), oom.phase) {
        // Expandable segments were tried, or in use.
        (true, _) if oom.cause == Cause::Demand && lasts(oom) => {
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

/// `asked for 15 times as much at the same lines as the largest before`.
fn larger(pass: &WholePass) -> Option<String> {
    let times = pass.times_as_large?;
    Some(format!(
        "asked for {} times as much at the same lines as the largest before",
        match times {
            times if times < 10.0 => format!("{times:.1}"),
            times => format!("{times:.0}"),
        }
    ))
}

/// `had taken 330 MiB by then, more than any whole one before`.
fn outgrown(taken: Bytes) -> String {
    format!("had taken {taken} by then, more than any whole one before")
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
        let in_pieces = oom.room.as_ref().is_some_and(|room| room.free >= oom.asked);
        // What would have been enough under the largest limit that fits may be too little under the
        // smallest.
        let needed = oom.held.allocated + oom.asked;
        let may_fit = oom.limit_below.is_some_and(|below| needed < below);
        if !in_pieces && may_fit && !is_known(oom) {
            return "No allocator setting that was tried is sure to get past it. That depends on \
                    the limit, which the recording does not tell exactly: ask *What if* with the \
                    one that was set."
                .to_owned();
        }
        // Of memory in pieces, a setting may help that is not told, because it does not in all
        // readings of the recording.
        let gets_past = match oom.cause {
            Cause::Fragmentation => "is sure to get past it",
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
    let others = found[1..]
        .iter()
        .map(|remedy| match remedy.change.as_str() {
            Change::DEFAULTS => format!("the allocator with its {}", Change::DEFAULTS),
            conf => code(conf),
        });
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

/// How large a batch a whole pass is likely to have room for, if that is less than what gets past.
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
    let fills = match remedy.steps_until_full {
        None => return ", but that does not end the leak".to_owned(),
        Some(0) => format!("the next {one}"),
        Some(1) => format!("one more {one}"),
        Some(n) => format!("{n} more {many}"),
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
        Cause::Demand => {
            "What lowers demand: a smaller batch or sequence with gradient accumulation, \
             activation checkpointing or offloading, sharding or a lower precision of what lasts."
        }
    }
}

/// The leak that is told: its place, its rate and what that is counted by belong together.
fn told(leaks: &Leaks) -> Option<&LeakExplained> {
    leaks.groups.first()
}

/// Where the leak is that is told: the place, and the program's line that led there if it is
/// another one.
fn leaking(leaks: &Leaks) -> String {
    let Some(first) = told(leaks) else {
        return "leaks".to_owned();
    };
    format!("{}{}", code(&first.place), called_by(first))
}

/// The program's line that led to a place in a package.
pub(super) fn called_by(leak: &LeakExplained) -> String {
    let caller = leak.caller.as_ref();
    caller.map_or_else(String::new, |frame| format!(" (called by {})", line(frame)))
}

/// `, in …`: what tells a leak from others that are named by the same line.
pub(super) fn made_in(leak: &LeakExplained) -> String {
    let frame = leak.made_in.as_ref();
    frame.map_or_else(String::new, |frame| format!(", in {}", line(frame)))
}

/// A line of code.
fn line(frame: &FrameText) -> String {
    let module = module(&frame.filename);
    code(&format!("{} {module}:{}", frame.name, frame.line))
}

/// ` by earlier steps`, unless it grows within steps.
fn by_whom(leaks: &Leaks, step: Word) -> String {
    match told(leaks) {
        Some(first) if first.pattern == Pattern::WithinStep => String::new(),
        _ => format!(" by earlier {}", step.many()),
    }
}

/// ` by earlier steps, 8.00 MiB more with each`; for growth within steps, with each part of one.
fn rate(leaks: &Leaks, step: Word) -> String {
    let rate = Bytes(leaks.rate.max(0.0).round() as u64);
    match told(leaks) {
        Some(first) if first.pattern == Pattern::WithinStep => {
            let each = first.counted_by.trim_start_matches("a ");
            format!(", {rate} more with each {each}")
        }
        _ => format!("{}, {rate} more with each", by_whom(leaks, step)),
    }
}
