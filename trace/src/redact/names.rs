//! What each kind of text becomes: it stays if it is known, otherwise it becomes a stand-in.

use super::{Key, known, native};
use crate::steps::{Word, family_name};
use crate::trace::Step;
use crate::units::EventIdx;

/// File endings that are kept: they tell which files are Python.
const ENDINGS: [&str; 14] = [
    ".py", ".pyx", ".pyi", ".ipynb", ".so", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp",
    ".rs", ".o",
];

/// A longer run of digits is no count: it may be a telephone number.
const COUNT_DIGITS: usize = 6;

impl Key {
    /// The file of a frame.
    pub fn file(&self, path: &str) -> String {
        if let Some(shown) = known::file(path) {
            return shown;
        }
        let path = path.replace('\\', "/");
        let (installed, path) = match known::installed(&path) {
            Some(tail) => (known::INSTALLED, tail),
            None => ("", path.as_str()),
        };
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let ending = ENDINGS.into_iter().find(|ending| name.ends_with(ending));
        let stem = format!("file-{}", self.word(name));
        // Notebooks and `exec` have names in brackets, which shows that they are Python.
        let file = match name.starts_with('<') {
            true => format!("<{stem}>"),
            false => format!("{stem}{}", ending.unwrap_or_default()),
        };
        if directory.is_empty() {
            return format!("{installed}{file}");
        }
        // Allocations of an optimizer are recognised by this folder.
        let optim = match directory.split('/').any(|part| part == "optim") {
            true => "/optim",
            false => "",
        };
        format!(
            "{installed}directory-{}{optim}/{file}",
            self.word(directory)
        )
    }

    /// The function of a frame in a file.
    pub fn function(&self, name: &str, file: &str) -> String {
        if is_told(name, file) {
            return name.to_owned();
        }
        // Names of C++ are recognised by their colons.
        let native = if name.contains("::") { "native::" } else { "" };
        format!("{native}function-{}", self.word(name))
    }

    /// A named scope. Its numbers stay, because they show which scopes belong together.
    pub fn scope(&self, name: &str) -> String {
        if known::scope(name) {
            return name.to_owned();
        }
        let numbers = name.split(|c: char| !c.is_ascii_digit());
        let counts = numbers.filter(|n| (1..=COUNT_DIGITS).contains(&n.len()));
        let word = format!("scope-{}", self.word(&family_name(name)));
        counts.fold(word, |text, count| text + " " + count)
    }

    /// Metadata of a block or an event.
    pub fn metadata(&self, text: &str) -> String {
        self.unless(known::metadata(text), "metadata", text)
    }

    /// The compile context of a block.
    pub fn context(&self, text: &str) -> String {
        self.unless(known::context(text), "context", text)
    }

    /// Name and value of an allocator setting.
    pub fn setting(&self, name: &str, value: &str) -> (String, String) {
        let is_known = known::setting(name);
        (
            self.unless(is_known, "setting", name),
            self.unless(is_known && known::value(value), "value", value),
        )
    }

    fn unless(&self, is_known: bool, kind: &str, text: &str) -> String {
        match is_known || text.is_empty() {
            true => text.to_owned(),
            false => format!("{kind}-{}", self.word(text)),
        }
    }
}

/// Whether the name of a function in a file is shown.
pub(super) fn is_told(name: &str, file: &str) -> bool {
    known::function(name, file) || native::is_known(name)
}

/// The name of a step, if it is a known one: `ProfilerStep#3`, `request 3`. Otherwise its number.
pub fn step(step: &Step) -> String {
    match known::scope(&step.name) || Word::named(&step.name, step.index) {
        true => step.name.clone(),
        false => format!("step {}", step.index),
    }
}

/// A step's name without the marks that people put around it in a profile: `## step 3 ##`.
pub fn bare_step_name(name: &str) -> &str {
    let bare = name.trim_matches(['#', ' ']);
    if bare.is_empty() { name } else { bare }
}

/// What a step is called in a sentence: `step 3`, `request 3`. Names of the program's own scopes
/// may be anything, and a name without a number is the name of every step: both are left out.
pub fn step_in_words(step: &Step) -> String {
    let known = self::step(step);
    match known.contains(|c: char| c.is_ascii_digit()) {
        true => bare_step_name(&known).to_owned(),
        false => format!("step {}", step.index),
    }
}

/// Where among the steps an event lies: `in request 3`; `after step 17` where the step that
/// followed did not finish, so that it is none of them; `before step 0`. Without steps, the event.
pub fn place_in_words(steps: &[Step], event: EventIdx) -> String {
    let begun = steps.partition_point(|step| step.events.start() <= event);
    let (word, step) = match (begun.checked_sub(1), steps.first()) {
        (Some(last), _) if steps[last].events.contains(event) => ("in", &steps[last]),
        (Some(last), _) => ("after", &steps[last]),
        (None, Some(first)) => ("before", first),
        (None, None) => return format!("at event {}", event.0),
    };
    format!("{word} {}", step_in_words(step))
}

/// The number of a step in its name; its position where the name has none.
pub fn step_number(step: &Step) -> u32 {
    let name = step_in_words(step);
    numbered(&name).map_or(step.index, |(_, number)| number)
}

/// The number at the end of a step's name, and the word before it.
pub fn numbered(name: &str) -> Option<(&str, u32)> {
    let name = bare_step_name(name);
    let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
    Some((word, name[word.len()..].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Span;

    fn steps(names: &[&str]) -> Vec<Step> {
        let step = |(index, name): (usize, &&str)| Step {
            index: index as u32,
            name: (*name).to_owned(),
            events: Span::new(EventIdx(index as u32), EventIdx(index as u32 + 1)),
        };
        names.iter().enumerate().map(step).collect()
    }

    #[test]
    fn an_event_is_placed_by_the_programs_own_numbers() {
        let check = |names: &[&str], event: u32, words: &str| {
            // The step at a position is one event long and two events after the one before it.
            let mut steps = steps(names);
            for (step, start) in steps.iter_mut().zip((1..).step_by(2)) {
                step.events = Span::new(EventIdx(start), EventIdx(start + 1));
            }
            assert_eq!(place_in_words(&steps, EventIdx(event)), words);
        };
        let profiler = ["ProfilerStep#10", "ProfilerStep#11"];
        check(&profiler, 3, "in ProfilerStep#11");
        // The next one did not finish.
        check(&profiler, 4, "after ProfilerStep#11");
        check(&profiler, 2, "after ProfilerStep#10");
        check(&profiler, 0, "before ProfilerStep#10");
        check(&["request 0"], 1, "in request 0");
        check(&["## step 7 ##"], 1, "in step 7");
        check(&["our secret request 7"], 1, "in step 0");
        check(&["forward"], 9, "after step 0");
        check(&[], 9, "at event 9");
        let numbers =
            |names: &[&str]| -> Vec<u32> { steps(names).iter().map(step_number).collect() };
        assert_eq!(numbers(&profiler), [10, 11]);
        assert_eq!(numbers(&["forward", "our secret request 7"]), [0, 1]);
    }
}
