//! Removes names of people, machines and projects from a trace, for links that strangers open.
//!
//! Only text that is known to be harmless is shown ([`known`]): names of PyTorch and its
//! companions, of Python and of CUDA, sizes, counts, settings with plain values. Every other text
//! becomes a stand-in that says only what kind of thing it is. With one [`Key`], the same text has
//! the same stand-in in every place and in every run, so comparisons and groups stay the same.
//! Another key gives other stand-ins.
//!
//! | text | becomes |
//! |---|---|
//! | file of a frame | itself from `site-packages/` on, when known; else `directory-…/file-….py` |
//! | function of a frame | itself in a known file, or when PyTorch asks for it; else `function-…` |
//! | named scope | itself when PyTorch writes it or its words are plain; else `scope-…` |
//! | step | the same; else `step 0`, `step 1` … |
//! | metadata, compile context | itself when it is a category, a shape, a number; else a stand-in |
//! | allocator setting | itself when known, with its value when that is plain; else stand-ins |
//! | finding about the data | itself when it is one of our own sentences; else its kind |
//! | time | counted from the first event |
//!
//! Only texts and times change. Every index keeps its meaning, so that a selection, a band and a
//! leak are the same in both traces. Pictures, details and leaks are made from the redacted trace,
//! so they cannot show more than it does.

mod changes;
mod key;
mod known;
mod names;
mod native;
mod notes;

pub use changes::{Change, Changes, What, changes};
pub use key::Key;
pub use names::{bare_step_name, numbered, place_in_words, step, step_in_words, step_number};
pub use notes::note;

use crate::stacks::{FxHashMap, StrIdx, Strings};
use crate::time::TimeColumn;
use crate::trace::{DeviceTrace, Trace};
use crate::units::Micros;

/// Replaces every text that may name a person or a thing, and counts time from the first event.
pub fn trace(trace: &mut Trace, key: Key) {
    let mut renaming = Renaming {
        old: std::mem::take(&mut trace.stacks.strings),
        new: Strings::default(),
        done: FxHashMap::default(),
    };
    for frame in trace.stacks.all_frames_mut() {
        let file = renaming.old.get(frame.filename).to_owned();
        // The same name may be PyTorch's in one file and the user's in another.
        let role = match names::is_told(renaming.old.get(frame.name), &file) {
            true => Role::KnownFunction,
            false => Role::Function,
        };
        frame.name = renaming.of(role, frame.name, |name| key.function(name, &file));
        frame.filename = renaming.of(Role::File, frame.filename, |file| key.file(file));
    }
    for device in trace.with_pinned_mut() {
        device_texts(device, key, &mut renaming);
    }
    trace.stacks.strings = renaming.new;
    for (name, value) in &mut trace.format.settings {
        (*name, *value) = key.setting(name, value);
    }
    for finding in &mut trace.quality {
        *finding = note(finding);
    }
    let start = trace.with_pinned().filter_map(|d| span(&d.events.time));
    let start = start.map(|(first, _)| first).min().unwrap_or_default();
    for device in trace.with_pinned_mut() {
        if span(&device.events.time).is_some() {
            let times = device.events.time.iter();
            device.events.time = times.map(|time| since(start, time)).collect();
        }
    }
}

/// Times of a device are counted from the start of its run.
pub fn since(start: Micros, time: Micros) -> Micros {
    Micros(time.0.saturating_sub(start.0))
}

/// First and last time, if there are times: a file without times has only zeros.
fn span(times: &TimeColumn) -> Option<(Micros, Micros)> {
    let last = times.len().checked_sub(1)?;
    let span = (times.get(0), times.get(last));
    (span != (Micros(0), Micros(0))).then_some(span)
}

/// What a string is used for. If it has several uses, it becomes several strings.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Role {
    File,
    Function,
    KnownFunction,
    Scope,
    Metadata,
    Context,
}

/// The new strings so far, by the old ones.
struct Renaming {
    old: Strings,
    new: Strings,
    done: FxHashMap<(Role, StrIdx), StrIdx>,
}

impl Renaming {
    fn of(&mut self, role: Role, string: StrIdx, rename: impl FnOnce(&str) -> String) -> StrIdx {
        let Renaming { old, new, done } = self;
        let entry = done.entry((role, string));
        *entry.or_insert_with(|| new.push(&rename(old.get(string))))
    }
}

fn device_texts(device: &mut DeviceTrace, key: Key, renaming: &mut Renaming) {
    for scope in &mut device.annotations {
        scope.name = renaming.of(Role::Scope, scope.name, |name| key.scope(name));
    }
    for step in &mut device.steps {
        step.name = names::step(step);
    }
    let kinds = device.blocks.kinds.iter_mut();
    let of_blocks = kinds.map(|kind| (&mut kind.compile_context, &mut kind.metadata));
    for (context, metadata) in of_blocks {
        if let Some(text) = context {
            *text = renaming.of(Role::Context, *text, |text| key.context(text));
        }
        if let Some(text) = metadata {
            *text = renaming.of(Role::Metadata, *text, |text| key.metadata(text));
        }
    }
    let others = device.events.others.iter_mut();
    for text in others.flat_map(|other| &mut other.metadata) {
        *text = renaming.of(Role::Metadata, *text, |text| key.metadata(text));
    }
}

#[cfg(test)]
mod tests;
