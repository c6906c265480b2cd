//! What is alive at a moment, and what came and went between two, in a sentence.

use ::timeline::format::{self, count};
use ::timeline::lanes::step_name;
use api::alive::{Alive, Changes};
use trace::units::EventIdx;

/// What a field says whose text is no event.
pub const NO_EVENT: &str = "Not an event: type its number, such as 1,234.";

/// The event that a typed text stands for; `None` for an empty field.
///
/// # Errors
/// [`NO_EVENT`] where the text is not one number, with or without marks between its thousands.
pub fn event_of(text: &str, last: EventIdx) -> Result<Option<EventIdx>, &'static str> {
    let is_mark = |c: char| ",.'’_".contains(c) || c.is_whitespace();
    let groups: Vec<&str> = text.trim().split(is_mark).collect();
    let is_whole = |group: &&str| group.chars().all(|c| c.is_ascii_digit());
    let are_thousands = groups[1..].iter().all(|group| group.len() == 3);
    match groups[..] {
        [""] => Ok(None),
        _ if !are_thousands || groups[0].is_empty() || !groups.iter().all(is_whole) => {
            Err(NO_EVENT)
        }
        _ => {
            let event = groups.concat().parse().unwrap_or(u32::MAX);
            Ok(Some(EventIdx(event).min(last)))
        }
    }
}

/// The moment of an answer about a recording with so many events.
pub fn moment_of(alive: &Alive, events: u32) -> String {
    match alive.event {
        Some(event) => format!("after event {}", count(u64::from(event.0))),
        None if events > 0 => "before the first event".to_owned(),
        None => "in the recorded state".to_owned(),
    }
}

/// How much is alive at a moment of a recording with so many events, or that nothing is.
pub fn summary(alive: &Alive, events: u32) -> String {
    let moment = moment_of(alive, events);
    let place = match &alive.step {
        Some(step) => format!("{moment}, in {}", step_name(step)),
        None => moment,
    };
    if alive.total.count == 0 {
        return format!("Nothing is allocated {place}.");
    }
    format!(
        "{} allocated {place}, in {}",
        format::with_exact(alive.total.bytes.get()),
        format::plural(alive.total.count, "block"),
    )
}

/// How much more is alive at the later of two moments, and what only lived between them.
pub fn came_and_went(changes: &Changes) -> String {
    let (from, to) = (changes.allocated_from.0, changes.allocated_to.0);
    let change = match to >= from {
        true => format!("+{}", format::bytes(to - from)),
        false => format!("−{}", format::bytes(from - to)),
    };
    format!(
        "From event {} to event {}: {} to {} ({change}). {} came and went in between ({}).",
        count(u64::from(changes.from.0)),
        count(u64::from(changes.to.0)),
        changes.allocated_from,
        changes.allocated_to,
        format::plural(changes.passed.count, "block"),
        changes.passed.bytes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::alive::Tally;
    use trace::alive::Dimension;

    #[test]
    fn a_sentence_names_its_moment() {
        let told = |event: Option<u32>, step: Option<&str>, events: u32| {
            let alive = Alive {
                event: event.map(EventIdx),
                step: step.map(str::to_owned),
                by: Dimension::Site,
                total: Tally::default(),
                groups: Vec::new(),
                groups_left_out: 0,
                tree: Vec::new(),
                tree_left_out: 0,
            };
            summary(&alive, events)
        };
        let check = |said: String, place: &str| {
            assert_eq!(said, format!("Nothing is allocated {place}."));
        };
        check(told(Some(1234), None, 2000), "after event 1,234");
        check(told(None, None, 2000), "before the first event");
        check(told(None, None, 0), "in the recorded state");
        let in_step = told(Some(7), Some("3"), 2000);
        assert!(in_step.starts_with("Nothing is allocated after event 7, in "));
    }

    #[test]
    fn an_event_is_read_however_it_is_grouped() {
        let last = EventIdx(11_027_734);
        let check = |text: &str, expected: Result<Option<u32>, &'static str>| {
            let event = event_of(text, last).map(|event| event.map(|event| event.0));
            assert_eq!(event, expected, "{text}");
        };
        check("1,234,567", Ok(Some(1_234_567)));
        check("1 234", Ok(Some(1234)));
        check(" 99999999999 ", Ok(Some(last.0)));
        check(" ", Ok(None));
        // What is left of these without their letters and signs would be another event.
        for text in ["the end", "1e3", "-1", "1.5", ",5", "12,", "event 12"] {
            check(text, Err(NO_EVENT));
        }
    }
}
