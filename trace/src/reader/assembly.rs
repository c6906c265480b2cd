//! Makes the [`Snapshot`] from the tables, once the document is complete.

use super::ReadErrorKind;
use super::builder::{Builder, UnknownWords};
use super::keys::{KEYS, Key};
use super::values::{MAX_DEVICES, Result, Table, Value};
use crate::address::AddressColumn;
use crate::clip::{CUT, clipped};
use crate::device::DeviceIdx;
use crate::snapshot::{KeysSeen, RawEvents, RawSegment, Snapshot};
use crate::stacks::StrIdx;
use crate::time::TimeColumn;
use crate::units::Micros;
use std::ops::Range;

/// How many entries of `allocator_settings` are looked at; PyTorch writes 24.
pub const MAX_SETTINGS: usize = 256;

/// Bytes of one setting's text that are kept.
const MAX_SETTING_TEXT: usize = 1024;

/// Bytes of one part of a setting's name that are kept.
const MAX_SETTING_NAME: usize = 128;

impl Builder {
    /// The snapshot, given the document's root.
    pub fn finish(mut self, root: Value) -> Result<Snapshot> {
        let top = self.top(root)?;
        let find = |key: Key| Some(top[key as usize]).filter(|value| *value != Value::None);
        if find(Key::Segments).is_none() && find(Key::DeviceTraces).is_none() {
            return Err(self.relative(root));
        }
        let keep = match find(Key::Segments) {
            Some(Value::Rows(Table::Segment, rows)) => rows.range(),
            None | Some(Value::OpenList(_)) => 0..0,
            Some(_) => return Err(ReadErrorKind::Shape("`segments` is not a list of segments")),
        };
        let (host_segments, unread) = self.host_segments(find(Key::HostSegments));
        cut_vec(&mut self.segments, &keep);
        self.segments.extend(host_segments);
        self.check_blocks()?;
        let mut ranges = self.device_ranges(find(Key::DeviceTraces))?;
        let n_devices = ranges.len();
        let (host, unread_events) = self.host_ranges(find(Key::HostTraces));
        ranges.extend(host);
        check_apart(&ranges)?;
        let keep = match find(Key::ExternalAnnotations) {
            Some(Value::Rows(Table::Annotation, rows)) => rows.range(),
            _ => 0..0,
        };
        cut_vec(&mut self.annotations, &keep);
        let mut settings = Settings::default();
        if let Some(value) = find(Key::AllocatorSettings) {
            self.flatten("", value, 0, &mut settings);
        }
        let settings = settings.named;
        for key in Key::ALL.iter().filter(|&&key| find(key).is_some()) {
            self.keys_seen |= key.bit();
        }
        for key in [Key::CaptureReuse, Key::MaxCachedSize] {
            let is_set = settings.iter().any(|(name, _)| name == KEYS[key as usize]);
            self.keys_seen |= if is_set { key.bit() } else { 0 };
        }
        let unknown_keys = self.listed(&self.unknown);
        let unknown_actions = self.listed(&self.unknown_actions);
        let mut devices = split(self.events, &ranges);
        let host = devices.split_off(n_devices);
        Ok(Snapshot {
            pickle_protocol: None,
            settings,
            unknown_keys,
            unknown_actions,
            stacks: self.interner.stacks,
            kinds: self.kinds,
            devices,
            segments: self.segments,
            blocks: self.blocks,
            annotations: self.annotations,
            host: by_time(host),
            host_unread: unread + unread_events,
            keys_seen: KeysSeen(self.keys_seen),
            trailing_bytes: 0,
        })
    }

    /// The values of the known keys at the top.
    fn top(&mut self, root: Value) -> Result<[Value; KEYS.len()]> {
        let mut top = [Value::None; KEYS.len()];
        match root {
            // As in Python, the last of equal keys counts. `None` counts as absent.
            Value::Dict(root) => {
                for (key, value) in self.dicts.iter(root) {
                    match Key::at(key.0) {
                        Some(known) => top[known as usize] = value,
                        None => self.unknown.count(key),
                    }
                }
                Ok(top)
            }
            // An empty dictionary, or one that looks like a part of a snapshot: no known key.
            Value::OpenDict(_) | Value::Row(..) => Ok(top),
            // `torch.cuda.memory_snapshot()` returns only the list of segments.
            Value::Rows(Table::Segment, _) => {
                top[Key::Segments as usize] = root;
                Ok(top)
            }
            _ => Err(self.relative(root)),
        }
    }

    /// The words as text, in alphabetical order, and how often each occurred.
    fn listed(&self, unknown: &UnknownWords) -> Vec<(String, u64)> {
        let text = |s: StrIdx| self.interner.stacks.str(s).to_owned();
        let counts = unknown.counts.iter();
        let mut words: Vec<_> = counts.map(|(word, count)| (text(*word), *count)).collect();
        words.sort();
        if unknown.others > 0 {
            words.push((CUT.to_owned(), unknown.others));
        }
        words
    }

    /// Refuses segments that share blocks: with them a few bytes could describe very many blocks.
    fn check_blocks(&self) -> Result<()> {
        let shape = ReadErrorKind::Shape("two segments share their blocks");
        let with_blocks = self.segments.iter().filter(|s| !s.blocks.is_empty());
        let mut in_order: Vec<&Range<usize>> = with_blocks.map(|s| &s.blocks).collect();
        // A pickle may have the host's segments before those of the devices.
        in_order.sort_unstable_by_key(|blocks| blocks.start);
        match are_apart(&in_order) {
            true => Ok(()),
            false => Err(shape),
        }
    }

    /// The segments of pinned memory, and how many entries are something else.
    fn host_segments(&self, value: Option<Value>) -> (Vec<RawSegment>, u64) {
        let rows = match value {
            Some(Value::Rows(Table::Segment, rows)) => rows.range(),
            other => return (Vec::new(), self.count(other)),
        };
        let segments = self.segments[rows].iter().map(|segment| RawSegment {
            device: DeviceIdx::PINNED,
            ..segment.clone()
        });
        (segments.collect(), 0)
    }

    /// The rows of `host_traces`, which is a list of events, and how many entries are something
    /// else.
    fn host_ranges(&self, value: Option<Value>) -> (Vec<Range<usize>>, u64) {
        match value {
            Some(Value::Rows(Table::Event, rows)) => (vec![rows.range()], 0),
            Some(Value::List(index)) if self.lists.len(index) <= MAX_DEVICES as usize => {
                let mut ranges = Vec::new();
                let mut unread = 0;
                for (_, item) in self.lists.iter(index) {
                    match item {
                        Value::Rows(Table::Event, rows) => ranges.push(rows.range()),
                        Value::OpenList(_) | Value::None => {}
                        other => unread += self.count_inner(other),
                    }
                }
                (ranges, unread)
            }
            other => (Vec::new(), self.count(other)),
        }
    }

    /// The rows of each device's trace.
    fn device_ranges(&self, traces: Option<Value>) -> Result<Vec<Range<usize>>> {
        let shape = ReadErrorKind::Shape("`device_traces` is not a list of lists of events");
        let lists = match traces {
            None | Some(Value::OpenList(_)) => return Ok(Vec::new()),
            Some(Value::List(index)) => index,
            Some(_) => return Err(shape),
        };
        if self.lists.len(lists) > MAX_DEVICES as usize {
            return Err(ReadErrorKind::Limit(
                "number of devices",
                u64::from(MAX_DEVICES),
            ));
        }
        let range = |(_, value)| match value {
            Value::Rows(Table::Event, rows) => Ok(rows.range()),
            Value::OpenList(_) | Value::None => Ok(0..0),
            _ => Err(shape.clone()),
        };
        self.lists.iter(lists).map(range).collect()
    }

    fn count(&self, value: Option<Value>) -> u64 {
        match value {
            Some(Value::Rows(_, rows)) => rows.range().len() as u64,
            Some(Value::List(index)) => {
                let items = self.lists.iter(index);
                let counts = items.map(|(_, item)| match item {
                    Value::OpenList(_) => 0,
                    Value::List(_) | Value::Rows(..) => self.count_inner(item),
                    _ => 1,
                });
                counts.sum()
            }
            _ => 0,
        }
    }

    fn count_inner(&self, value: Value) -> u64 {
        match value {
            Value::Rows(_, rows) => rows.range().len() as u64,
            Value::List(index) => self.lists.len(index) as u64,
            _ => 1,
        }
    }

    /// `allocator_settings` as `name = text`, nested names joined by a dot.
    ///
    /// A hostile dictionary may contain itself many times, or repeat very long names.
    fn flatten(&self, name: &str, value: Value, depth: u32, out: &mut Settings) {
        if out.visited >= MAX_SETTINGS {
            return;
        }
        out.visited += 1;
        let text = match value {
            Value::Dict(index) if depth < 4 => {
                for (key, value) in self.dicts.iter(index) {
                    let key = clipped(self.interner.stacks.str(key), MAX_SETTING_NAME);
                    if name.is_empty() {
                        self.flatten(&key, value, depth + 1, out);
                    } else {
                        self.flatten(&format!("{name}.{key}"), value, depth + 1, out);
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
            Value::Str(s) => clipped(self.interner.stacks.str(s), MAX_SETTING_TEXT).into_owned(),
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

/// Refuses shared ranges of events: with them a few bytes could claim the same events for very many
/// devices.
fn check_apart(ranges: &[Range<usize>]) -> Result<()> {
    let mut in_order: Vec<&Range<usize>> = ranges.iter().filter(|r| !r.is_empty()).collect();
    in_order.sort_unstable_by_key(|range| range.start);
    match are_apart(&in_order) {
        true => Ok(()),
        false => Err(ReadErrorKind::Shape("two devices share their events")),
    }
}

/// Whether no range begins before the one in front of it ends.
fn are_apart(in_order: &[&Range<usize>]) -> bool {
    in_order.windows(2).all(|two| two[0].end <= two[1].start)
}

/// Several lists of host events as one, ordered by time.
fn by_time(mut lists: Vec<RawEvents>) -> RawEvents {
    lists.retain(|list| !list.kind.is_empty());
    if lists.len() < 2 {
        return lists.pop().unwrap_or_default();
    }
    let rows = lists.iter().flat_map(|list| {
        let addresses = list.addr.iter();
        let columns = list.kind.iter().zip(addresses).zip(list.time.iter());
        columns.map(|((&kind, addr), time)| (time, kind, addr))
    });
    let mut rows: Vec<(Micros, u32, u64)> = rows.collect();
    rows.sort_by_key(|(time, ..)| *time);
    let mut all = RawEvents::default();
    for (time, kind, addr) in rows {
        all.kind.push(kind);
        all.addr.push(addr);
        all.time.push(time);
    }
    all
}

/// One event table per device.
fn split(mut events: RawEvents, ranges: &[Range<usize>]) -> Vec<RawEvents> {
    // Usually one device has all events. So the columns of the device with the most events are cut
    // to size, not copied: a second copy would double the peak of memory.
    let busiest = (0..ranges.len()).max_by_key(|&device| ranges[device].len());
    let mut devices: Vec<RawEvents> = ranges
        .iter()
        .enumerate()
        .map(|(device, range)| match busiest {
            Some(busiest) if device == busiest => RawEvents::default(),
            _ => events.part(range.clone()),
        })
        .collect();
    if let Some(busiest) = busiest {
        let range = ranges[busiest].clone();
        if range.len() < events.kind.len() {
            events.time = cut(&events.time, &range);
            cut_vec(&mut events.kind, &range);
            events.addr = cut_addresses(&events.addr, &range);
        }
        devices[busiest] = events;
    }
    // Columns that doubled are up to half empty. The busiest device's stay where they are.
    devices.iter_mut().for_each(RawEvents::shrink);
    devices
}

fn cut_vec<T>(column: &mut Vec<T>, range: &Range<usize>) {
    column.truncate(range.end);
    column.drain(..range.start);
}

fn cut_addresses(column: &AddressColumn, range: &Range<usize>) -> AddressColumn {
    let mut part = AddressColumn::default();
    column.rows(range.clone()).for_each(|addr| part.push(addr));
    part
}

fn cut(column: &TimeColumn, range: &Range<usize>) -> TimeColumn {
    let mut part = TimeColumn::default();
    let rows = column.iter().skip(range.start).take(range.len());
    rows.for_each(|time| part.push(time));
    part
}
