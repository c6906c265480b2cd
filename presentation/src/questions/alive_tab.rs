//! What is alive at a moment, and what came and went between two, in a sentence.

use ::timeline::format::{self, count};
use ::timeline::lanes::step_name;
use api::alive::{Alive, Changes};
use trace::units::EventIdx;

/// The event that a typed text or a key stands for.
pub fn event_of(text: &str, last: EventIdx) -> Option<EventIdx> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let event: u64 = digits.parse().ok()?;
    Some(EventIdx(event.min(u64::from(last.0)) as u32))
}

/// How much is alive at a moment, or that nothing is.
pub fn summary(alive: &Alive) -> String {
    let event = alive.event.map(|event| count(u64::from(event.0)));
    let place = match (event, &alive.step) {
        (Some(event), Some(step)) => format!("after event {event}, in {}", step_name(step)),
        (Some(event), None) => format!("after event {event}"),
        (None, _) => "in the recorded state".to_owned(),
    };
    if alive.total.count == 0 {
        return format!("Nothing is allocated {place}.");
    }
    format!(
        "{} ({}) allocated {place}, in {}",
        alive.total.bytes,
        format::exact_bytes(alive.total.bytes.get()),
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

    #[test]
    fn an_event_is_read_however_it_is_grouped() {
        let last = EventIdx(11_027_734);
        assert_eq!(event_of("1,234,567", last), Some(EventIdx(1_234_567)));
        assert_eq!(event_of(" 99999999999 ", last), Some(last));
        assert_eq!(event_of("the end", last), None);
    }
}
