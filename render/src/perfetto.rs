//! Chrome's trace-event JSON: one process per device, with counters, steps and allocations.

use super::{LONGEST_NAME, Source, TableError};
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};
use trace::clip::clipped;
use trace::levels::GivenBack;
use trace::stacks::Stacks;
use trace::trace::{BlockIdx, DeviceTrace, Series};
use trace::units::{Bytes, EventIdx};
use trace::watch::Watch;

/// The largest number of buckets for the counters of a device. Each bucket keeps the lowest, the
/// highest and the last level of each series, with their moments, so that no peak is lost.
const BUCKETS: u32 = 20_000;

/// The largest number of allocations that are drawn for a device, the largest ones: viewers can
/// show tens of thousands of slices, not millions.
const SLICES: usize = 30_000;

/// The thread that steps are drawn on.
const STEPS: u32 = 1;

/// Bytes that writing takes, beside the list of a device's blocks.
const WORK: usize = 1 << 20;

/// Writes the trace. `watch` learns what memory that takes.
pub fn write(source: Source<'_>, watch: Watch<'_>, out: impl Write) -> Result<(), TableError> {
    let mut out = Events {
        out: BufWriter::with_capacity(1 << 16, out),
        first: true,
        watch,
        written: 0,
    };
    out.out.write_all(b"{\"traceEvents\":[")?;
    let mut left_out = Vec::new();
    for device in source.trace.with_pinned() {
        let held = WORK + device.blocks.len() * size_of::<BlockIdx>();
        watch.look(held)?;
        out.watch = watch.beside(held);
        left_out.push(write_device(source, device, &mut out)?);
    }
    let about = json!({
        "tool": "tidemark", "run": source.name, "counters_in": "bytes",
        "allocations": left_out,
    });
    write!(
        out.out,
        "],\"displayTimeUnit\":\"ms\",\"otherData\":{about}}}"
    )?;
    Ok(out.out.flush()?)
}

struct Events<'w, W: Write> {
    out: BufWriter<W>,
    first: bool,
    watch: Watch<'w>,
    written: usize,
}

impl<W: Write> Events<'_, W> {
    fn push(&mut self, event: &Value) -> Result<(), TableError> {
        self.watch.at_row(self.written, || 0)?;
        self.written += 1;
        if !std::mem::take(&mut self.first) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut self.out, event).map_err(io::Error::from)?;
        Ok(())
    }
}

/// The time of an event in microseconds; if the file has no times, the number of the event.
fn time(device: &DeviceTrace, event: u32) -> i64 {
    let times = &device.events.time;
    let Some(last) = times.len().checked_sub(1) else {
        return 0;
    };
    match times.get(last).0 {
        0 => i64::from(event),
        _ => times.get((event as usize).min(last)).0,
    }
}

/// Returns what was left out, for the head of the file.
fn write_device(
    source: Source<'_>,
    device: &DeviceTrace,
    out: &mut Events<'_, impl Write>,
) -> Result<Value, TableError> {
    let pid = device.device;
    let slices = largest(device);
    let all = device.blocks.len();
    let told = match slices.len() == all {
        true => format!("all {all} allocations"),
        false => format!("the largest {} of {all} allocations", slices.len()),
    };
    let name = format!("{}: {}", pid.name(), source.name);
    out.push(&json!({ "ph": "M", "pid": pid, "name": "process_name", "args": { "name": name } }))?;
    out.push(&json!({
        "ph": "M", "pid": pid, "tid": STEPS, "name": "thread_name", "args": { "name": "steps" },
    }))?;
    out.push(&json!({
        "ph": "M", "pid": pid, "name": "process_labels", "args": { "labels": told },
    }))?;
    write_counters(device, out)?;
    for step in &device.steps {
        let (start, end) = (step.events.start().0, step.events.end().0);
        let (from, to) = (time(device, start), time(device, end.saturating_sub(1)));
        out.push(&json!({
            "ph": "X", "pid": pid, "tid": STEPS, "name": step.name, "cat": "step",
            "ts": from, "dur": (to - from).max(0),
            "args": { "first_event": start, "end_event": end },
        }))?;
    }
    let mut shown = 0;
    for &block in &slices {
        shown += device.blocks.kind(block).size.get();
        write_slice(source, device, block, out)?;
    }
    let total: u64 = (0..all as u32)
        .map(|block| device.blocks.kind(BlockIdx(block)).size.get())
        .sum();
    Ok(json!({
        "device": pid, "shown": slices.len(), "left_out": all - slices.len(),
        "bytes_shown": shown, "bytes_left_out": total - shown,
    }))
}

/// The largest blocks, in the order of their allocation.
fn largest(device: &DeviceTrace) -> Vec<BlockIdx> {
    let size = |block: &BlockIdx| device.blocks.kind(*block).size;
    let mut blocks: Vec<BlockIdx> = (0..device.blocks.len() as u32).map(BlockIdx).collect();
    if blocks.len() > SLICES {
        blocks.select_nth_unstable_by_key(SLICES, |block| std::cmp::Reverse(size(block)));
        blocks.truncate(SLICES);
        blocks.sort_unstable();
    }
    blocks
}

fn write_counters(
    device: &DeviceTrace,
    out: &mut Events<'_, impl Write>,
) -> Result<(), TableError> {
    let n = device.events.len();
    let width = n.div_ceil(BUCKETS).max(1);
    let mut levels = device.levels_before(EventIdx(0));
    for series in Series::ALL {
        push_level(device, (0, series, levels.get(series)), out)?;
    }
    let mut start = 0;
    while start < n {
        let end = (start + width).min(n);
        let mut lowest = Series::ALL.map(|series| (u32::MAX, series, Bytes(u64::MAX)));
        let mut highest = lowest;
        for event in start..end {
            levels.apply(device.effect(EventIdx(event)));
            for (at, series) in Series::ALL.into_iter().enumerate() {
                let level = levels.get(series);
                if event == start || level < lowest[at].2 {
                    lowest[at] = (event, series, level);
                }
                if event == start || level > highest[at].2 {
                    highest[at] = (event, series, level);
                }
            }
        }
        let last = Series::ALL.map(|series| (end - 1, series, levels.get(series)));
        let mut told: Vec<Told> = [lowest, highest, last].concat();
        told.sort_by_key(|(event, series, _)| (*event, *series as usize));
        told.dedup();
        for level in told {
            push_level(device, level, out)?;
        }
        start = end;
    }
    Ok(())
}

/// A level of a series after an event.
type Told = (u32, Series, Bytes);

fn push_level(
    device: &DeviceTrace,
    (event, series, level): Told,
    out: &mut Events<'_, impl Write>,
) -> Result<(), TableError> {
    let (pid, ts) = (device.device, time(device, event));
    out.push(&json!({
        "ph": "C", "pid": pid, "name": series.name(), "ts": ts, "args": { "bytes": level.get() },
    }))
}

fn write_slice(
    source: Source<'_>,
    device: &DeviceTrace,
    block: BlockIdx,
    out: &mut Events<'_, impl Write>,
) -> Result<(), TableError> {
    let (blocks, stacks) = (&device.blocks, &source.trace.stacks);
    let (at, n) = (block.index(), device.events.len());
    let kind = blocks.kind(block);
    let seen = block.0 >= blocks.n_preexisting;
    let from = if seen { blocks.alloc[at] } else { 0 };
    let given_back = device.given_back(block);
    let to = match given_back {
        GivenBack::Before => 0,
        GivenBack::At(event) => event.0,
        GivenBack::Never => n.saturating_sub(1),
    };
    let event = seen.then_some(EventIdx(blocks.alloc[at]));
    let tensor = source.tensors.and_then(|find| find(event, blocks.addr[at]));
    let name = match &tensor {
        Some(tensor) => tensor.name.clone(),
        None => headline(stacks, kind.alloc_stack),
    };
    let mut args = json!({
        "bytes": kind.size.get(), "requested": kind.requested.get(),
        "address": blocks.addr[at].to_string(), "stream": kind.stream,
        "before_the_trace": !seen, "freed": given_back != GivenBack::Never,
    });
    if given_back == GivenBack::Before {
        args["freed_before_the_trace"] = json!(true);
    }
    if let Some(tensor) = tensor {
        args["tensor"] = json!(tensor);
    }
    let (pid, id) = (device.device, format!("{}-{}", device.device, block.0));
    let begin = json!({
        "ph": "b", "cat": "allocation", "id": id, "pid": pid, "name": name,
        "ts": time(device, from), "args": args,
    });
    out.push(&begin)?;
    out.push(&json!({
        "ph": "e", "cat": "allocation", "id": id, "pid": pid, "name": name,
        "ts": time(device, to).max(time(device, from)),
    }))
}

fn headline(stacks: &Stacks, stack: trace::stacks::StackIdx) -> String {
    match stacks.headline(stack) {
        Some(frame) => {
            let name = trace::code::function_name(stacks.str(frame.name));
            clipped(name, LONGEST_NAME).into_owned()
        }
        None => "no stack".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use trace::testing::{TraceBuilder, block_of};
    use trace::trace::Action;

    fn exported(events: u32) -> (trace::trace::Trace, Value) {
        let trace = trace::testing::training_run(events);
        let file = file_of(&trace);
        (trace, file)
    }

    fn file_of(trace: &trace::trace::Trace) -> Value {
        let mut bytes = Vec::new();
        let source = Source {
            trace,
            tensors: None,
            run: &"run_a".parse().unwrap(),
            name: "a run",
        };
        write(source, Watch::nobody(), &mut bytes).unwrap();
        serde_json::from_slice(&bytes).expect("it is JSON")
    }

    fn of_kind<'v>(file: &'v Value, ph: &str) -> Vec<&'v Value> {
        let events = file["traceEvents"].as_array().unwrap().iter();
        events.filter(|event| event["ph"] == ph).collect()
    }

    /// A recording in whose every bucket each series stands highest at another moment.
    fn of_full_buckets() -> trace::trace::Trace {
        let mut builder = TraceBuilder::default();
        for _ in 0..BUCKETS {
            let waits = builder.alloc(block_of(Bytes::mib(10)));
            builder.free_requested(waits);
            let meanwhile = builder.alloc(block_of(Bytes::mib(5)));
            builder.segment(Action::SegmentAlloc, Bytes::mib(20));
            builder.segment(Action::SegmentFree, Bytes::mib(20));
            builder.free_completed(waits);
            builder.free_completed(meanwhile);
        }
        builder.finish()
    }

    #[test]
    fn counters_reach_every_peak() {
        let check = |trace: &trace::trace::Trace| {
            let (device, file) = (&trace.devices[0], file_of(trace));
            for series in Series::ALL {
                let counters = of_kind(&file, "C").into_iter();
                let values = counters
                    .filter(|event| event["name"] == series.name())
                    .map(|event| event["args"]["bytes"].as_u64().unwrap());
                let expected = device.summary[series as usize].peak.get();
                assert_eq!(values.max(), Some(expected), "{series:?}");
            }
        };
        check(&trace::testing::training_run(2000));
        let full = of_full_buckets();
        check(&full);
        let peaks = full.devices[0].summary.map(|series| series.peak_event);
        let peaks: BTreeSet<_> = peaks.into_iter().collect();
        assert_eq!(
            peaks.len(),
            3,
            "requested and active stand highest together"
        );
    }

    #[test]
    fn a_free_that_was_requested_before_the_trace_ends_at_its_start_and_says_so() {
        let file = file_of(&trace::testing::given_back_before());
        let mut said = Vec::new();
        for begin in of_kind(&file, "b") {
            let args = &begin["args"];
            said.push((
                args["freed"] == true,
                args["freed_before_the_trace"] == true,
            ));
        }
        said.sort_unstable();
        let expected = [(false, false), (true, false), (true, true), (true, true)];
        assert_eq!(said, expected);
    }

    #[test]
    fn steps_and_allocations_begin_and_end() {
        let (trace, file) = exported(2000);
        let device = &trace.devices[0];
        assert_eq!(of_kind(&file, "X").len(), device.steps.len());
        let begins = of_kind(&file, "b").len();
        assert_eq!(
            (begins, begins),
            (device.blocks.len(), of_kind(&file, "e").len())
        );
        assert_eq!(file["otherData"]["allocations"][0]["left_out"], 0);
    }
}
