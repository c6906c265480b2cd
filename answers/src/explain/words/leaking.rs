//! What leaks, and by how much, inside of a sentence.

use crate::cards::markdown::code;
use api::explain::{LeakExplained, Leaks};
use api::frames::FrameText;
use api::leaks::Pattern;
use trace::code::module;
use trace::steps::Word;
use trace::units::Bytes;

/// The leak that is told: its place, its rate and what that is counted by belong together.
pub(super) fn told(leaks: &Leaks) -> Option<&LeakExplained> {
    leaks.groups.first()
}

/// Where the leak is that is told: the place, and the program's line that led there if it is
/// another one.
pub(super) fn leaking(leaks: &Leaks) -> String {
    let Some(first) = told(leaks) else {
        return "leaks".to_owned();
    };
    format!("{}{}", code(&first.place), called_by(first))
}

/// The program's line that led to a place in a package.
pub fn called_by(leak: &LeakExplained) -> String {
    let caller = leak.caller.as_ref();
    caller.map_or_else(String::new, |frame| format!(" (called by {})", line(frame)))
}

/// `, in …`: what tells a leak from others that are named by the same line.
pub fn made_in(leak: &LeakExplained) -> String {
    let frame = leak.made_in.as_ref();
    frame.map_or_else(String::new, |frame| format!(", in {}", line(frame)))
}

/// A line of code.
fn line(frame: &FrameText) -> String {
    let module = module(&frame.filename);
    code(&format!("{} {module}:{}", frame.name, frame.line))
}

/// ` by earlier steps`, unless it grows within steps.
pub(super) fn by_whom(leaks: &Leaks, step: Word) -> String {
    match told(leaks) {
        Some(first) if first.pattern == Pattern::WithinStep => String::new(),
        _ => format!(" by earlier {}", step.many()),
    }
}

/// ` by earlier steps, 8.00 MiB more with each`; for growth within steps, with each part of one.
pub(super) fn rate(leaks: &Leaks, step: Word) -> String {
    let rate = Bytes(leaks.rate.max(0.0).round() as u64);
    match told(leaks) {
        Some(first) if first.pattern == Pattern::WithinStep => {
            let each = first.counted_by.trim_start_matches("a ");
            format!(", {rate} more with each {each}")
        }
        _ => format!("{}, {rate} more with each", by_whom(leaks, step)),
    }
}
