//! How memory accumulates: in which rhythm, why it stays and until when, in words.

use super::report::{Cycle, LeakGroup, Pattern};
use crate::units::Bytes;

/// When a group grows, in brackets; nothing if it does in every step. Where chance decides, its
/// rate is a mean, which has an error; this is told if the rate is that of one group `alone`.
pub(super) fn rhythm(group: &LeakGroup, alone: bool, many: &str) -> String {
    match group.pattern {
        Pattern::EveryNth(_) if let Some(Cycle { times, periods }) = group.cycle => {
            format!(" ({times} times in {periods} {many})")
        }
        Pattern::EveryNth(n) if group.uneven => {
            let error = match alone {
                true => format!(": ± {}", Bytes(group.slope_error.round() as u64)),
                false => String::new(),
            };
            format!(" (once in {n} {many} on average, at uneven distances{error})")
        }
        Pattern::EveryNth(n) => format!(" (once in {n} {many})"),
        Pattern::Enlarged => " (in a buffer that is enlarged again and again)".to_owned(),
        _ => String::new(),
    }
}

/// What has accumulated in all, in brackets, where it did so faster at first; else nothing.
pub(super) fn more_at_first(groups: &[LeakGroup]) -> String {
    let across = || groups.iter().filter(|group| !group.is_within());
    let all: u64 = across().map(|group| group.live_bytes.0).sum();
    let slowed = across().filter(|group| group.slowed);
    let slowed: u64 = slowed.map(|group| group.live_bytes.0).sum();
    // A small place does not make it more.
    match slowed > all / 10 {
        true => format!(" (more at first: {} in all)", Bytes(all)),
        false => String::new(),
    }
}

/// Follows "8.00 MiB a step accumulate over 12 steps": ` and are never given back`; or another verb
/// of `them`, which are a part of the bytes.
pub(super) fn stays(groups: &[LeakGroup], are: &str) -> String {
    let across = || groups.iter().filter(|group| !group.is_within());
    let [given_back, all] = counts(groups);
    let when = match all - given_back {
        0 => "given back only after the last one".to_owned(),
        // Few are what a function's variables held.
        _ if given_back * 2 <= all => "never given back".to_owned(),
        rest => format!("given back only after the last one, all but {rest} of {all} blocks"),
    };
    // A queue is emptied, only not as fast as it is filled.
    let drained = across().filter(|group| group.is_drained);
    let drained: f64 = drained.map(|group| group.bytes_per_step).sum();
    match drained > 0.0 {
        _ if given_back == all => format!("{are}{when}"),
        true if across().all(|group| group.is_drained) => {
            " because more are added than are given back".to_owned()
        }
        true => format!(
            "{are}{when}, but for {}, of which more are added than are given back",
            Bytes(drained.round() as u64)
        ),
        false => format!("{are}{when}"),
    }
}

/// How many blocks are given back after the last step, and how many there are.
pub(super) fn counts(groups: &[LeakGroup]) -> [u64; 2] {
    let of: [fn(&LeakGroup) -> u64; 2] = [|group| group.given_back, |group| group.live_count];
    let across = || groups.iter().filter(|group| !group.is_within());
    of.map(|count| across().map(count).sum())
}
