//! Files that are near to a snapshot and are none: what they are, and what to do instead.

use super::ReadErrorKind;
use super::builder::{Builder, NO_STRING};
use super::keys::Key;
use super::values::{Table, Value};
use crate::clip::clipped;
use crate::stacks::StrIdx;

/// What a trace of `torch.profiler` is told. Its key is `traceEvents`, as in the trace event format
/// of Chrome.
const PROFILE: &str = "the file is a trace of torch.profiler, which has no addresses: record with \
                       torch.cuda.memory._record_memory_history() and \
                       torch.cuda.memory._dump_snapshot()";

/// What the counters of `torch.cuda.memory_stats()` are told.
const COUNTERS: &str = "the file holds counters, as torch.cuda.memory_stats() gives them, and no \
                        blocks: torch.cuda.memory._dump_snapshot() writes a snapshot";

/// What an `OrderedDict` and its like are told. Python makes them by a call, and nothing is called
/// here, however harmless it is.
pub const COLLECTION: &str = "an object of Python's `collections`, such as an OrderedDict, which \
                              no snapshot holds; torch.cuda.memory_stats() gives one, of counters";

/// What `export_memory_timeline` of `torch.profiler` writes: numbers without keys.
const TIMELINE: &str = "the file is a list of lists of numbers, such as export_memory_timeline of \
                        torch.profiler writes, without addresses and stacks: record with \
                        torch.cuda.memory._record_memory_history() and \
                        torch.cuda.memory._dump_snapshot()";

/// Names of keys that are told where nothing is known of a file.
const NAMED: usize = 4;

/// Values and keys that are looked at: the same large dictionary may stand in a list very often.
const LOOKED_AT: usize = 64;

/// Bytes of a key that are told.
const NAME_BYTES: usize = 40;

/// What a document is that has this key at its top, if that alone says it.
pub fn of_key(key: &str) -> Option<&'static str> {
    match key {
        "traceEvents" => Some(PROFILE),
        "allocated_bytes.all.current" | "num_alloc_retries" => Some(COUNTERS),
        "nbformat" => Some("the file is a notebook: drop what one of its cells dumped"),
        _ => None,
    }
}

impl Builder {
    /// Why a well-formed document is no snapshot.
    pub(super) fn relative(&self, root: Value) -> ReadErrorKind {
        let told = match root {
            Value::Dict(index) => self.relative_dict(index),
            Value::List(index) => self.relative_list(index),
            Value::Rows(Table::Event, _) => Some(part()),
            _ => None,
        };
        told.unwrap_or(match root {
            Value::Dict(_) | Value::OpenDict(_) | Value::Row(..) => {
                ReadErrorKind::Shape("the dictionary has neither `segments` nor `device_traces`")
            }
            _ => ReadErrorKind::Shape(
                "the file holds no dictionary at the top, and no list of segments",
            ),
        })
    }

    fn relative_dict(&self, index: u32) -> Option<ReadErrorKind> {
        let name = |key: StrIdx| self.interner.stacks.str(key);
        let entries = || self.dicts.iter(index);
        if let Some(told) = entries().find_map(|(key, _)| of_key(name(key))) {
            return Some(ReadErrorKind::Shape(told));
        }
        let shown = |key| match name(key) {
            NO_STRING => NO_STRING.to_owned(),
            name => format!("`{}`", clipped(name, NAME_BYTES).escape_debug()),
        };
        let mut first = entries().take(LOOKED_AT);
        if let Some((key, _)) = first.find(|(_, value)| self.is_snapshot(*value)) {
            return Some(inside(&format!("under {}", shown(key))));
        }
        let names: Vec<String> = entries()
            .map(|(key, _)| shown(key))
            .take(NAMED + 1)
            .collect();
        let more = if names.len() > NAMED { ", …" } else { "" };
        let names = names.get(..NAMED).unwrap_or(&names);
        (!names.is_empty()).then(|| {
            ReadErrorKind::Foreign(format!(
                "the dictionary has neither `segments` nor `device_traces`, but {}{more}",
                names.join(", ")
            ))
        })
    }

    fn relative_list(&self, index: u32) -> Option<ReadErrorKind> {
        let items = || {
            let items = self.lists.iter(index).map(|(_, item)| item);
            items.take(LOOKED_AT)
        };
        if let Some(at) = items().position(|item| self.is_snapshot(item)) {
            return Some(inside(&format!("as item {at} of a list")));
        }
        if items().any(|item| matches!(item, Value::Rows(Table::Event, _))) {
            return Some(part());
        }
        let is_numbers = |item| match item {
            Value::Pair(_) => true,
            Value::List(index) => self.lists.iter(index).take(LOOKED_AT).all(|(_, item)| {
                matches!(
                    item,
                    Value::Int(_) | Value::Float(_) | Value::Str(_) | Value::List(_)
                )
            }),
            _ => false,
        };
        items()
            .all(is_numbers)
            .then_some(ReadErrorKind::Shape(TIMELINE))
    }

    /// Whether a value is a dictionary with the keys of a snapshot.
    fn is_snapshot(&self, value: Value) -> bool {
        let Value::Dict(index) = value else {
            return false;
        };
        let is_key = |key: StrIdx| {
            let known = Key::at(key.0);
            known == Some(Key::Segments) || known == Some(Key::DeviceTraces)
        };
        let keys = self.dicts.iter(index).map(|(key, _)| key);
        keys.take(LOOKED_AT).any(is_key)
    }
}

/// A snapshot that lies in something else.
fn inside(place: &str) -> ReadErrorKind {
    ReadErrorKind::Foreign(format!(
        "one lies in it, {place}: write that dictionary alone, as \
         torch.cuda.memory._dump_snapshot() does"
    ))
}

/// A part of a snapshot that lies alone.
fn part() -> ReadErrorKind {
    ReadErrorKind::Shape(
        "the file holds only a list of events: write the whole dictionary that \
         torch.cuda.memory._snapshot() gives",
    )
}
