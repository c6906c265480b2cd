//! Tests of the reader, by what is tested.

mod chunks;
mod layouts;
mod limits;
mod mutations;
mod pages;
mod pickle_writer;
mod refusals;
mod shapes;

use super::{Limits, ReadError, read};
use crate::snapshot::Snapshot;
use crate::stacks::StackIdx;
use pickle_writer::{Dialect, Py, pickle};
use std::fmt::Write;
use std::rc::Rc;

fn text(text: &str) -> Py {
    Py::Str(text.to_owned())
}

fn int(n: i128) -> Py {
    Py::Int(n)
}

fn list(items: Vec<Py>) -> Py {
    Py::List(items)
}

fn dict(fields: Vec<(&str, Py)>) -> Py {
    let fields = fields.into_iter();
    Py::Dict(fields.map(|(key, value)| (key.to_owned(), value)).collect())
}

fn shared(object: Py) -> Py {
    Py::Shared(Rc::new(object))
}

/// An event of a known action, with these further fields.
fn event(more: Vec<(&str, Py)>) -> Py {
    dict([vec![("action", text("alloc")), ("size", int(512))], more].concat())
}

/// A snapshot of one device with these events.
fn trace(events: Vec<Py>) -> Py {
    dict(vec![
        ("segments", list(vec![])),
        ("device_traces", list(vec![list(events)])),
    ])
}

/// Reads `root` as CPython 3.12 would write it.
fn try_read(root: &Py) -> Result<Snapshot, ReadError> {
    read(&pickle(root, Dialect::cpython(4)), Limits::default())
}

fn read_all(root: &Py) -> Snapshot {
    try_read(root).unwrap()
}

/// A snapshot as lines of text.
// long because it is the format of a line per kind of row, nothing shared between them.
fn describe(snapshot: &Snapshot) -> String {
    let stacks = &snapshot.stacks;
    let stack = |idx: StackIdx| {
        let frames: Vec<String> = stacks
            .frames(idx)
            .iter()
            .map(|&frame| stacks.frame(frame))
            .map(|frame| format!("{}:{}", stacks.str(frame.name), frame.line))
            .collect();
        match frames.is_empty() {
            true => "-".to_owned(),
            false => frames.join("<"),
        }
    };
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").unwrap();
    for segment in &snapshot.segments {
        let expandable = if segment.is_expandable {
            " expandable"
        } else {
            ""
        };
        line(format!(
            "segment {}:{:#x} {} allocated {} {:?} stream {} pool ({}, {}){expandable}",
            segment.device,
            segment.addr.0,
            segment.total_size.0,
            segment.allocated_size.0,
            segment.pool_size,
            segment.stream,
            segment.pool.0,
            segment.pool.1,
        ));
        for block in &snapshot.blocks[segment.blocks.clone()] {
            line(format!(
                " block {:#x} {} of {} {:?} {}",
                block.addr.0,
                block.size.0,
                block.requested.0,
                block.state,
                stack(block.stack),
            ));
        }
    }
    let devices = snapshot.devices.iter().enumerate();
    let devices = devices.map(|(device, events)| (format!("device {device}"), events));
    let has_host = !snapshot.host.kind.is_empty();
    let host = has_host.then(|| ("host".to_owned(), &snapshot.host));
    for (name, events) in devices.chain(host) {
        line(name);
        for (row, &kind) in events.kind.iter().enumerate() {
            let kind = &snapshot.kinds[kind as usize];
            let mut text = format!(
                " {:?} {:#x} {} stream {} {}",
                kind.action,
                events.addr.get(row),
                kind.size.0,
                kind.stream,
                stack(kind.stack),
            );
            let time = events.time.get(row).0;
            if time != 0 {
                write!(text, " @{time}").unwrap();
            }
            if kind.forward_stack != StackIdx::NONE {
                write!(text, " forward {}", stack(kind.forward_stack)).unwrap();
            }
            for words in [kind.compile_context, kind.metadata].into_iter().flatten() {
                write!(text, " {:?}", stacks.str(words)).unwrap();
            }
            if let Some(pool) = kind.pool {
                write!(text, " pool ({}, {})", pool.0, pool.1).unwrap();
            }
            line(text);
        }
    }
    for annotation in &snapshot.annotations {
        let (stage, device) = (annotation.stage, annotation.device);
        let name = stacks.str(annotation.name);
        line(format!(
            "{stage:?} {name} on {device} @{}",
            annotation.time.0
        ));
    }
    for (name, value) in &snapshot.settings {
        line(format!("setting {name}={value}"));
    }
    for (key, count) in &snapshot.unknown_keys {
        line(format!("unknown {key}: {count}"));
    }
    for (action, count) in &snapshot.unknown_actions {
        line(format!("unknown action {action}: {count}"));
    }
    out
}
