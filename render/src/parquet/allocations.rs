//! A row for each allocation of a run.
//!
//! A group of rows is in memory until it is written. Its distinct texts are there once, and a group
//! ends when they are long, so a file with long names has more groups and needs no more memory.

use super::super::{Source, TableError};
use super::columns::{Cells, GROUP_TEXT, Kind, Table, text};
use crate::{LONGEST_NAME, LONGEST_STACK, MOST_FRAMES};
use api::timeline::TensorDetail;
use parquet::data_type::ByteArray;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use trace::clip::{CUT, clipped};
use trace::stacks::{StackIdx, Stacks};
use trace::trace::{BlockIdx, BlockKind, DeviceTrace, Origin, PoolSize};
use trace::units::EventIdx;
use trace::watch::Watch;

/// The most rows of a group.
const GROUP: usize = 1 << 16;
/// Bytes that a row takes while its group is written: itself, and its cell of one column.
const PER_ROW: usize = 512;
/// Bytes for the end of the file that a group takes: the writer keeps numbers about each column.
const PER_GROUP: usize = 48 << 10;

/// One allocation.
struct Row<'t> {
    run: &'t ByteArray,
    device: &'t DeviceTrace,
    block: BlockIdx,
    kind: &'t BlockKind,
    tensor: Option<TensorDetail>,
}

impl Row<'_> {
    /// An event's index; `None` if it means "never".
    fn event(&self, event: u32) -> Option<i64> {
        (event < self.device.events.len()).then_some(i64::from(event))
    }

    fn time(&self, event: u32) -> Option<i64> {
        self.event(event)
            .map(|at| self.device.events.time.get(at as usize).0)
    }

    fn alloc(&self) -> u32 {
        match self.block.0 >= self.device.blocks.n_preexisting {
            true => self.device.blocks.alloc[self.block.index()],
            // Never, as far as the trace shows.
            false => u32::MAX,
        }
    }

    /// `u32::MAX` if the trace does not show it.
    fn free_requested(&self) -> u32 {
        let given_back = self.device.given_back(self.block).event();
        given_back.map_or(u32::MAX, |event| event.0)
    }

    fn free_completed(&self) -> u32 {
        self.device.blocks.free_completed[self.block.index()]
    }
}

/// How the values of a column are computed.
enum Column {
    Number(fn(&Row<'_>) -> Option<i64>),
    Text(fn(&Row<'_>) -> Option<String>),
    /// The run: the same in every row, as in the other tables.
    Run,
    /// The stack, innermost frame first, joined by semicolons.
    Stack(fn(&Row<'_>) -> StackIdx),
}

/// The columns, by name.
const COLUMNS: [(&str, Column); 25] = [
    ("run", Column::Run),
    (
        "device",
        Column::Number(|r| Some(i64::from(r.device.device.0))),
    ),
    ("block", Column::Number(|r| Some(i64::from(r.block.0)))),
    (
        "address",
        Column::Number(|r| Some(r.device.blocks.addr[r.block.index()].0 as i64)),
    ),
    (
        "requested_bytes",
        Column::Number(|r| Some(r.kind.requested.get() as i64)),
    ),
    (
        "size_bytes",
        Column::Number(|r| Some(r.kind.size.get() as i64)),
    ),
    ("alloc_event", Column::Number(|r| r.event(r.alloc()))),
    ("alloc_us", Column::Number(|r| r.time(r.alloc()))),
    (
        "free_requested_event",
        Column::Number(|r| r.event(r.free_requested())),
    ),
    (
        "free_requested_us",
        Column::Number(|r| r.time(r.free_requested())),
    ),
    (
        "free_completed_event",
        Column::Number(|r| r.event(r.free_completed())),
    ),
    (
        "free_completed_us",
        Column::Number(|r| r.time(r.free_completed())),
    ),
    ("stream", Column::Number(|r| Some(r.kind.stream as i64))),
    ("origin", Column::Text(|r| Some(origin(r).to_owned()))),
    ("pool", Column::Text(|r| Some(pool(r.kind)))),
    ("step", Column::Text(step)),
    ("alloc_stack", Column::Stack(|r| r.kind.alloc_stack)),
    ("free_stack", Column::Stack(|r| r.kind.free_stack)),
    (
        "tensor",
        Column::Text(|r| Some(r.tensor.as_ref()?.name.clone())),
    ),
    ("op", Column::Text(|r| Some(r.tensor.as_ref()?.op.clone()))),
    (
        "module",
        Column::Text(|r| Some(r.tensor.as_ref()?.module.clone())),
    ),
    ("shape", Column::Text(|r| Some(shape(r.tensor.as_ref()?)))),
    ("dtype", Column::Text(|r| r.tensor.as_ref()?.dtype.clone())),
    (
        "role",
        Column::Text(|r| Some(r.tensor.as_ref()?.role.clone())),
    ),
    ("owner", Column::Text(|r| r.tensor.as_ref()?.owner.clone())),
];

impl Column {
    fn kind(&self) -> Kind {
        match self {
            Column::Number(_) => Kind::Number,
            Column::Text(_) | Column::Run | Column::Stack(_) => Kind::Text,
        }
    }

    fn cells(&self, rows: &[Row<'_>], stacks: &StackTexts<'_>) -> Cells {
        match self {
            Column::Number(of) => Cells::Numbers(rows.iter().map(of).collect()),
            Column::Text(of) => {
                let texts = rows.iter().map(|row| of(row).map(text));
                Cells::Texts(texts.collect())
            }
            Column::Run => Cells::Texts(rows.iter().map(|row| Some(row.run.clone())).collect()),
            Column::Stack(of) => {
                let texts = rows.iter().map(|row| stacks.text(of(row)));
                Cells::Texts(texts.collect())
            }
        }
    }
}

/// Whether a file has these columns.
pub fn is_of_this_version(file: File) -> bool {
    let Ok(reader) = SerializedFileReader::new(file) else {
        return false;
    };
    let fields = reader.metadata().file_metadata().schema().get_fields();
    let names = fields.iter().map(|field| field.name());
    names.eq(COLUMNS.iter().map(|(name, _)| *name))
}

/// Writes the table. `watch` learns what memory that takes.
pub fn write(
    source: Source<'_>,
    watch: Watch<'_>,
    out: impl Write + Send,
) -> Result<(), TableError> {
    let columns = COLUMNS.iter().map(|(name, column)| (*name, column.kind()));
    let run = text(source.run.to_string());
    let about = [("run", source.run.as_str()), ("name", source.name)];
    let mut table = Table::new(out, "allocations", columns, &about)?;
    let mut stacks = StackTexts::new(&source.trace.stacks);
    let mut groups = 0;
    for device in source.trace.with_pinned() {
        let n = device.blocks.len() as u32;
        let mut next = 0;
        while next < n {
            // The texts themselves, as the dictionary of a column, and packed.
            let group = 3 * (GROUP_TEXT + 2 * LONGEST_STACK) + GROUP * PER_ROW;
            watch.look(group + groups * PER_GROUP)?;
            groups += 1;
            stacks.forget();
            let mut rows: Vec<Row<'_>> = Vec::new();
            while next < n && rows.len() < GROUP && stacks.bytes < GROUP_TEXT {
                watch.at_row(rows.len(), || group + groups * PER_GROUP)?;
                let row = row(source, &run, device, BlockIdx(next));
                stacks.bytes += row.tensor.as_ref().map_or(0, tensor_text);
                stacks.add(row.kind.alloc_stack);
                stacks.add(row.kind.free_stack);
                rows.push(row);
                next += 1;
            }
            let columns = COLUMNS.iter();
            table.rows(columns.map(|(_, column)| column.cells(&rows, &stacks)))?;
        }
    }
    table.finish()
}

fn row<'t>(
    source: Source<'t>,
    run: &'t ByteArray,
    device: &'t DeviceTrace,
    block: BlockIdx,
) -> Row<'t> {
    let blocks = &device.blocks;
    let seen = block.0 >= blocks.n_preexisting;
    let event = seen.then(|| EventIdx(blocks.alloc[block.index()]));
    let addr = blocks.addr[block.index()];
    Row {
        run,
        device,
        block,
        kind: blocks.kind(block),
        tensor: source.tensors.and_then(|find| find(event, addr)),
    }
}

/// Bytes of what is known of a tensor.
fn tensor_text(tensor: &TensorDetail) -> usize {
    let texts = [&tensor.name, &tensor.op, &tensor.module, &tensor.role];
    texts.iter().map(|text| text.len()).sum()
}

/// The stacks of a group as text, each written out once.
struct StackTexts<'t> {
    stacks: &'t Stacks,
    known: HashMap<StackIdx, Option<ByteArray>>,
    /// Bytes of the texts of the group.
    bytes: usize,
}

impl<'t> StackTexts<'t> {
    fn new(stacks: &'t Stacks) -> StackTexts<'t> {
        StackTexts {
            stacks,
            known: HashMap::new(),
            bytes: 0,
        }
    }

    /// Begins with the next group.
    fn forget(&mut self) {
        self.known.clear();
        self.bytes = 0;
    }

    fn add(&mut self, stack: StackIdx) {
        let stacks = self.stacks;
        let bytes = &mut self.bytes;
        self.known.entry(stack).or_insert_with(|| {
            let joined = stack_text(stacks, stack);
            *bytes += joined.len();
            (!joined.is_empty()).then(|| text(joined))
        });
    }

    fn text(&self, stack: StackIdx) -> Option<ByteArray> {
        self.known.get(&stack).cloned().flatten()
    }
}

/// The frames of a stack, innermost first. As in every answer, long names and long stacks are cut,
/// and the cut is marked: a few kilobytes of a file can stand for stacks of gigabytes.
fn stack_text(stacks: &Stacks, stack: StackIdx) -> String {
    let frames = stacks.frames(stack);
    let mut joined = String::new();
    for (at, &frame) in frames.iter().enumerate() {
        if at > 0 {
            joined.push_str("; ");
        }
        if at == MOST_FRAMES || joined.len() > LONGEST_STACK {
            joined.push_str(CUT);
            break;
        }
        let frame = stacks.frame(frame);
        let [name, file] =
            [frame.name, frame.filename].map(|text| clipped(stacks.str(text), LONGEST_NAME));
        // Writing into a text never fails.
        let _ = write!(joined, "{name} ({file}:{})", frame.line);
    }
    joined
}

fn origin(row: &Row<'_>) -> &'static str {
    let origin = row.device.blocks.origin(row.block, row.device.events.len());
    match origin {
        Origin::FreedInWindow => "freed_in_window",
        Origin::Preexisting => "preexisting",
        Origin::Allocated => "allocated",
    }
}

fn pool(kind: &BlockKind) -> String {
    let size = match kind.pool_size {
        PoolSize::Small => "small",
        PoolSize::Large => "large",
    };
    match (kind.pool.0, kind.pool.1) {
        (0, 0) => size.to_owned(),
        (a, b) => format!("{size} ({a}, {b})"),
    }
}

fn step(row: &Row<'_>) -> Option<String> {
    let event = EventIdx(row.event(row.alloc())? as u32);
    let steps = &row.device.steps;
    let after = steps.partition_point(|step| step.events.start() <= event);
    let step = steps.get(after.checked_sub(1)?)?;
    step.events.contains(event).then(|| step.name.clone())
}

fn shape(tensor: &TensorDetail) -> String {
    let sizes: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    sizes.join("x")
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::ids::RunId;
    use parquet::record::RowAccessor;
    use trace::trace::Trace;

    fn of_run<'t>(trace: &'t Trace, run: &'t RunId) -> Source<'t> {
        Source {
            trace,
            tensors: None,
            run,
            name: "a run",
        }
    }

    #[test]
    fn the_table_reads_back_block_by_block() {
        let trace = trace::testing::training_run(3000);
        let mut bytes = Vec::new();
        let run = "run_a".parse().unwrap();
        let source = of_run(&trace, &run);
        write(source, Watch::nobody(), &mut bytes).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let device = &trace.devices[0];
        let rows = reader.get_row_iter(None).unwrap();
        let mut n = 0;
        for (at, row) in rows.enumerate() {
            let row = row.unwrap();
            assert_eq!(row.get_string(0).unwrap(), "run_a");
            let block = BlockIdx(at as u32);
            assert_eq!(row.get_long(2).unwrap(), at as i64);
            let size = device.blocks.kind(block).size.get();
            assert_eq!(row.get_long(5).unwrap(), size as i64);
            let preexisting = block.0 < device.blocks.n_preexisting;
            assert_eq!(row.get_long(6).is_err(), preexisting, "NULL, not zero");
            assert!(row.get_string(18).is_err(), "an upload knows no tensors");
            n += 1;
        }
        assert_eq!(n, device.blocks.len());
        assert_eq!(
            reader
                .metadata()
                .file_metadata()
                .schema()
                .get_fields()
                .len(),
            COLUMNS.len()
        );
    }

    #[test]
    fn a_table_of_other_columns_is_of_another_version() {
        let trace = trace::testing::training_run(300);
        let run = "run_a".parse().unwrap();
        let file = |write: &dyn Fn(&File) -> Result<(), TableError>| {
            let file = tempfile::tempfile().unwrap();
            write(&file).unwrap();
            is_of_this_version(file)
        };
        assert!(file(&|out| write(
            of_run(&trace, &run),
            Watch::nobody(),
            out
        )));
        assert!(!file(&|out| crate::write_leaks(&[], out)));
        assert!(!file(&|_| Ok(())), "an empty file");
    }

    #[test]
    fn a_free_that_was_requested_before_the_trace_is_null_and_not_event_0() {
        let trace = trace::testing::given_back_before();
        let mut bytes = Vec::new();
        let run = "run_a".parse().unwrap();
        let source = of_run(&trace, &run);
        write(source, Watch::nobody(), &mut bytes).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
        // Requested event and time, completed event.
        let cells = rows.map(|row| [8, 9, 10].map(|column| row.get_long(column).ok()));
        let cells: Vec<[Option<i64>; 3]> = cells.collect();
        let never = [None; 3];
        let time = |event: usize| trace.devices[0].events.time.get(event).0;
        let at_0 = [Some(0), Some(time(0)), Some(1)];
        assert_eq!(cells, [[None, None, Some(2)], at_0, never, never]);
    }

    /// Blocks whose stacks share names of 4 KiB, each stack with a frame of its own.
    fn of_long_stacks(blocks: u32, frames: usize) -> Trace {
        let mut trace = trace::testing::training_run(100);
        let stacks = &mut trace.stacks;
        let mut frame = |name: &str| {
            let name = stacks.strings.push(name);
            stacks.push_frame(trace::stacks::Frame {
                name,
                filename: name,
                line: 1,
            })
        };
        let shared = vec![frame(&"n".repeat(4096)); frames];
        let own: Vec<_> = (0..blocks).map(|at| frame(&format!("f{at}"))).collect();
        let device = &mut trace.devices[0];
        let kind = device.blocks.kinds[0];
        for (block, own) in own.into_iter().enumerate() {
            let mut members = vec![own];
            members.extend_from_slice(&shared);
            let mut kind = kind;
            kind.alloc_stack = trace.stacks.push_stack(&members);
            let at = block % device.blocks.len();
            device.blocks.kind[at] = trace::trace::KindIdx(device.blocks.kinds.len() as u32);
            device.blocks.kinds.push(kind);
        }
        trace
    }

    #[test]
    fn long_stacks_are_cut_and_make_smaller_groups() {
        let trace = of_long_stacks(50, 40_000);
        let run = "run_a".parse().unwrap();
        let source = of_run(&trace, &run);
        let (mut bytes, most) = (Vec::new(), std::cell::Cell::new(0));
        let go_on = |held| {
            most.set(most.get().max(held));
            true
        };
        write(source, Watch::new(&go_on), &mut bytes).unwrap();
        assert!(most.get() < 64 << 20, "{} bytes", most.get());
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        assert!(reader.metadata().num_row_groups() > 1);
        let longest = LONGEST_STACK + 3 * LONGEST_NAME;
        let mut cut = 0;
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let Ok(stack) = row.get_string(16) else {
                continue;
            };
            assert!(stack.len() <= longest, "{} bytes", stack.len());
            cut += usize::from(stack.ends_with(CUT));
        }
        assert!(cut > 10, "{cut}");
    }

    #[test]
    fn a_table_ends_when_it_is_stopped() {
        let trace = trace::testing::training_run(3000);
        let run = "run_a".parse().unwrap();
        let source = of_run(&trace, &run);
        let stopped = write(source, Watch::new(&|_| false), Vec::new());
        assert!(
            matches!(stopped, Err(TableError::Stopped(_))),
            "{stopped:?}"
        );
    }
}
