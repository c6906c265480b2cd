//! Why memory ran out.

use super::leaking::{by_whom, leaking, rate, told};
use super::limit::is_known;
use crate::cards::capital;
use crate::cards::markdown::code;
use api::contents::CategoryBytes;
use api::explain::{Cause, Leaks, OutOfMemory, Refusal, Room, WholePass};
use api::leaks::Verdict;
use trace::oom::NEVER_GIVEN;
use trace::steps::Word;
use trace::units::Bytes;
use trace::units::size::of_between;

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
            "the device had {free} free{}, and the process {} reserved",
            kept_back(oom),
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

/// Why a device that was full had as much free as was needed.
fn kept_back(oom: &OutOfMemory) -> &'static str {
    let needed = oom.segment.unwrap_or(oom.asked);
    let is_kept = |free: Bytes| free >= needed && free < needed.saturating_add(NEVER_GIVEN);
    match oom.free.is_some_and(is_kept) {
        true => " (the driver never hands out the last of it)",
        false => "",
    }
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

/// ` of 2.01 GiB`, as exactly as the recording shows it, or the replay of it.
fn limit(oom: &OutOfMemory) -> String {
    let told = match (oom.limit_at_least, oom.limit_below) {
        (Some(least), Some(below)) => format!(" {}", of_between(least, below)),
        (_, Some(below)) => format!(" of at most {below}"),
        _ => String::new(),
    };
    match oom.is_limit_narrowed {
        true => {
            told + " (computed: the recording fits larger ones, under which the replay does not \
                    fail here)"
        }
        false => told,
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
        (Cause::NotKnown, Some(room)) => not_known(oom, room, step),
        _ => {
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

/// That nobody can tell whether there was too little, or it lay in pieces.
fn not_known(oom: &OutOfMemory, room: &Room, step: Word) -> String {
    let in_use = oom.held.reserved.saturating_sub(room.free);
    let needed = match (room.free >= oom.asked, oom.segment) {
        (false, Some(segment)) => segment,
        _ => oom.asked,
    };
    let is_enough = |least: Bytes| in_use + needed <= least.max(oom.held.reserved);
    let because = match oom.outgrown {
        Some(taken) => format!("this {} {}", step.one(), outgrown(taken)),
        None if oom.limit_at_least.is_none_or(is_enough) => return nearly_all(oom, room),
        None => "it depends on the limit, which the recording does not tell exactly".to_owned(),
    };
    let larger = match (oom.outgrown, &oom.whole_pass) {
        (None, Some(pass)) => larger(pass),
        _ => None,
    };
    let larger = larger.map_or_else(String::new, |larger| {
        format!(" This {} {larger}.", step.one())
    });
    format!(
        "Whether the program needed more than there was, or memory only lay in pieces, cannot be \
         told: {because}. {} were in use, mostly {}{}; {} of what was reserved were not, but in \
         pieces of {}.{larger}",
        oom.held.allocated,
        mostly(oom),
        asked_for_by(oom),
        room.free,
        pieces(oom, room)
    )
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
