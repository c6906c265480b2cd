//! From the tables to the [`Snapshot`], once the document is complete.

use super::ReadErrorKind;
use super::builder::{Builder, Result};
use super::keys::{KEYS, Key};
use super::values::{MAX_DEVICES, Table, Value};
use crate::clip::CUT;
use crate::snapshot::{KeysSeen, RawEvents, Snapshot};
use crate::stacks::StrIdx;
use crate::time::TimeColumn;
use std::ops::Range;

/// Entries of `allocator_settings` that are looked at; PyTorch writes 24.
const MAX_SETTINGS: usize = 1024;

/// Bytes of one setting's name or text that are kept.
const MAX_SETTING_TEXT: usize = 1024;

impl Builder {
    /// The snapshot, given the document's root.
    pub fn finish(mut self, root: Value) -> Result<Snapshot> {
        let top = match root {
            Value::Dict(root) => std::mem::take(&mut self.dicts[root as usize]),
            // `torch.cuda.memory_snapshot()` returns the list of segments alone.
            Value::Rows(Table::Segment, _) => {
                vec![(StrIdx(Key::Segments as u32), root)]
            }
            _ => {
                return Err(ReadErrorKind::Shape(
                    "the file holds no dictionary at the top, and no list of segments",
                ));
            }
        };
        // As in Python, the last of equal keys counts; `None` is as good as absent.
        let find = |key| {
            top.iter()
                .rev()
                .find(|(name, _)| Key::at(name.0) == Some(key))
                .map(|(_, value)| *value)
                .filter(|value| *value != Value::None)
        };
        if find(Key::Segments).is_none() && find(Key::DeviceTraces).is_none() {
            return Err(ReadErrorKind::Shape(
                "the dictionary has neither `segments` nor `device_traces`",
            ));
        }
        let keep = match find(Key::Segments) {
            Some(Value::Rows(Table::Segment, rows)) => rows.range(),
            None | Some(Value::OpenList(_)) => 0..0,
            Some(_) => return Err(ReadErrorKind::Shape("`segments` is no list of segments")),
        };
        let ranges = self.device_ranges(find(Key::DeviceTraces))?;
        let annotations = match find(Key::ExternalAnnotations) {
            Some(Value::Rows(Table::Annotation, rows)) => self.annotations[rows.range()].to_vec(),
            _ => Vec::new(),
        };
        let mut settings = Settings::default();
        if let Some(value) = find(Key::AllocatorSettings) {
            self.flatten("", value, 0, &mut settings);
        }
        let settings = settings.named;
        let host_entries = self.count(find(Key::HostSegments)) + self.count(find(Key::HostTraces));
        for (key, value) in &top {
            match Key::at(key.0) {
                Some(_) if *value == Value::None => {}
                Some(known) => self.keys_seen |= known.bit(),
                None => self.unknown.count(*key),
            }
        }
        let capture_reuse = KEYS[Key::CaptureReuse as usize];
        if settings.iter().any(|(name, _)| name == capture_reuse) {
            self.keys_seen |= Key::CaptureReuse.bit();
        }
        Ok(Snapshot {
            pickle_protocol: None,
            settings,
            unknown_keys: self.unknown_keys(),
            stacks: self.interner.stacks,
            kinds: self.kinds,
            devices: split(self.events, &ranges),
            segments: self.segments[keep].to_vec(),
            blocks: self.blocks,
            annotations,
            host_entries,
            keys_seen: KeysSeen(self.keys_seen),
            trailing_bytes: 0,
        })
    }

    fn unknown_keys(&self) -> Vec<(String, u64)> {
        let text = |s: StrIdx| self.interner.stacks.str(s).to_owned();
        let unknown = self.unknown.counts.iter();
        let mut keys: Vec<_> = unknown.map(|(key, count)| (text(*key), *count)).collect();
        keys.sort();
        if self.unknown.others > 0 {
            keys.push((CUT.to_owned(), self.unknown.others));
        }
        keys
    }

    /// The rows of each device's trace.
    fn device_ranges(&self, traces: Option<Value>) -> Result<Vec<Range<usize>>> {
        let shape = ReadErrorKind::Shape("`device_traces` is no list of lists of events");
        let lists = match traces {
            None | Some(Value::OpenList(_)) => return Ok(Vec::new()),
            Some(Value::List(index)) => &self.lists[index as usize],
            Some(_) => return Err(shape),
        };
        if lists.len() > MAX_DEVICES as usize {
            return Err(ReadErrorKind::Limit(
                "number of devices",
                u64::from(MAX_DEVICES),
            ));
        }
        lists
            .iter()
            .map(|value| match value {
                Value::Rows(Table::Event, rows) => Ok(rows.range()),
                Value::OpenList(_) | Value::None => Ok(0..0),
                _ => Err(shape.clone()),
            })
            .collect()
    }

    fn count(&self, value: Option<Value>) -> u64 {
        match value {
            Some(Value::Rows(_, rows)) => rows.range().len() as u64,
            Some(Value::List(index)) => self.lists[index as usize]
                .iter()
                .map(|&item| match item {
                    Value::OpenList(_) => 0,
                    Value::List(_) | Value::Rows(..) => self.count_inner(item),
                    _ => 1,
                })
                .sum(),
            _ => 0,
        }
    }

    /// `host_traces` is a list of lists on some versions.
    fn count_inner(&self, value: Value) -> u64 {
        match value {
            Value::Rows(_, rows) => rows.range().len() as u64,
            Value::List(index) => self.lists[index as usize].len() as u64,
            _ => 1,
        }
    }

    /// `allocator_settings` as `name = text`, nested names joined by a dot.
    ///
    /// A hostile dictionary may hold itself many times over, or very long names many times.
    fn flatten(&self, name: &str, value: Value, depth: u32, out: &mut Settings) {
        if out.visited >= MAX_SETTINGS {
            return;
        }
        out.visited += 1;
        let text = match value {
            Value::Dict(index) if depth < 4 => {
                for (key, value) in &self.dicts[index as usize] {
                    let key = clipped(self.interner.stacks.str(*key));
                    if name.is_empty() {
                        self.flatten(key, *value, depth + 1, out);
                    } else {
                        self.flatten(&format!("{name}.{key}"), *value, depth + 1, out);
                    }
                    if out.visited >= MAX_SETTINGS {
                        return;
                    }
                }
                return;
            }
            Value::None => "None".to_owned(),
            Value::Bool(b) => b.to_string(),
            Value::Int(n) => n.to_string(),
            Value::Big(n) => n.to_string(),
            Value::Float(x) => x.to_string(),
            Value::Str(s) => clipped(self.interner.stacks.str(s)).to_owned(),
            _ => return,
        };
        out.set(name, text);
    }
}

#[derive(Default)]
struct Settings {
    named: Vec<(String, String)>,
    visited: usize,
}

impl Settings {
    fn set(&mut self, name: &str, text: String) {
        match self.named.iter_mut().find(|(known, _)| known == name) {
            Some((_, before)) => *before = text,
            None => self.named.push((name.to_owned(), text)),
        }
    }
}

/// The start of a text that is too long to show.
fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_SETTING_TEXT)]
}

/// One event table per device.
fn split(mut events: RawEvents, ranges: &[Range<usize>]) -> Vec<RawEvents> {
    // Usually one device has all events, so the columns of the busiest are cut to size, not
    // copied: a second copy would double the peak of memory.
    let busiest = (0..ranges.len()).max_by_key(|&device| ranges[device].len());
    let mut devices: Vec<RawEvents> = ranges
        .iter()
        .enumerate()
        .map(|(device, range)| match busiest {
            Some(busiest) if device == busiest => RawEvents::default(),
            _ => RawEvents {
                kind: events.kind[range.clone()].to_vec(),
                addr: events.addr[range.clone()].to_vec(),
                time: cut(&events.time, range),
            },
        })
        .collect();
    if let Some(busiest) = busiest {
        let range = ranges[busiest].clone();
        if range.len() < events.kind.len() {
            events.time = cut(&events.time, &range);
            cut_vec(&mut events.kind, &range);
            cut_vec(&mut events.addr, &range);
        }
        devices[busiest] = events;
    }
    devices
}

fn cut_vec<T>(column: &mut Vec<T>, range: &Range<usize>) {
    column.truncate(range.end);
    column.drain(..range.start);
}

fn cut(column: &TimeColumn, range: &Range<usize>) -> TimeColumn {
    let mut part = TimeColumn::default();
    let rows = column.iter().skip(range.start).take(range.len());
    rows.for_each(|time| part.push(time));
    part
}
