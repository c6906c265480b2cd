//! A row for each allocation of a run.

use super::super::{Source, TableError};
use super::columns::{Cells, Kind, Table, text};
use api::timeline::TensorDetail;
use parquet::data_type::ByteArray;
use std::collections::HashMap;
use std::io::Write;
use trace::stacks::{StackIdx, Stacks};
use trace::trace::{BlockIdx, BlockKind, DeviceTrace, Origin, PoolSize};
use trace::units::EventIdx;

/// Rows of a group: this many are in memory at once.
const GROUP: u32 = 1 << 16;

/// One allocation.
struct Row<'t> {
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

    fn free_requested(&self) -> u32 {
        self.device.blocks.free_requested[self.block.index()]
    }

    fn free_completed(&self) -> u32 {
        self.device.blocks.free_completed[self.block.index()]
    }
}

/// How the values of a column are computed.
enum Column {
    Number(fn(&Row<'_>) -> Option<i64>),
    Text(fn(&Row<'_>) -> Option<String>),
    /// The stack, innermost frame first, joined by semicolons.
    Stack(fn(&Row<'_>) -> StackIdx),
}

/// The columns, by name.
const COLUMNS: [(&str, Column); 24] = [
    (
        "device",
        Column::Number(|r| Some(i64::from(r.device.device))),
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
            Column::Text(_) | Column::Stack(_) => Kind::Text,
        }
    }

    fn cells(&self, rows: &[Row<'_>], stacks: &mut StackTexts<'_>) -> Cells {
        match self {
            Column::Number(of) => Cells::Numbers(rows.iter().map(of).collect()),
            Column::Text(of) => {
                let texts = rows.iter().map(|row| of(row).map(text));
                Cells::Texts(texts.collect())
            }
            Column::Stack(of) => {
                let texts = rows.iter().map(|row| stacks.text(of(row)));
                Cells::Texts(texts.collect())
            }
        }
    }
}

/// Writes the table.
pub fn write(source: Source<'_>, out: impl Write + Send) -> Result<(), TableError> {
    let columns = COLUMNS.iter().map(|(name, column)| (*name, column.kind()));
    let mut table = Table::new(out, "allocations", columns, &[("run", source.name)])?;
    let mut stacks = StackTexts {
        stacks: &source.trace.stacks,
        known: HashMap::new(),
    };
    for device in &source.trace.devices {
        let n = device.blocks.len() as u32;
        for from in (0..n).step_by(GROUP as usize) {
            let blocks = from..(from + GROUP).min(n);
            let rows: Vec<Row<'_>> = blocks.map(|b| row(source, device, BlockIdx(b))).collect();
            let columns = COLUMNS.iter();
            table.rows(columns.map(|(_, column)| column.cells(&rows, &mut stacks)))?;
        }
    }
    table.finish()
}

fn row<'t>(source: Source<'t>, device: &'t DeviceTrace, block: BlockIdx) -> Row<'t> {
    let blocks = &device.blocks;
    let seen = block.0 >= blocks.n_preexisting;
    let event = seen.then(|| EventIdx(blocks.alloc[block.index()]));
    let addr = blocks.addr[block.index()];
    Row {
        device,
        block,
        kind: blocks.kind(block),
        tensor: source.tensors.and_then(|find| find(event, addr)),
    }
}

/// Stacks as text, each written out once.
struct StackTexts<'t> {
    stacks: &'t Stacks,
    known: HashMap<StackIdx, Option<ByteArray>>,
}

impl StackTexts<'_> {
    fn text(&mut self, stack: StackIdx) -> Option<ByteArray> {
        let stacks = self.stacks;
        let known = self.known.entry(stack).or_insert_with(|| {
            let frames = stacks.frames(stack).iter().map(|&frame| {
                let frame = stacks.frame(frame);
                let (name, file) = (stacks.str(frame.name), stacks.str(frame.filename));
                format!("{name} ({file}:{})", frame.line)
            });
            let joined = frames.collect::<Vec<String>>().join("; ");
            (!joined.is_empty()).then(|| text(joined))
        });
        known.clone()
    }
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
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn the_table_reads_back_block_by_block() {
        let trace = trace::testing::training_run(3000);
        let mut bytes = Vec::new();
        let source = Source {
            trace: &trace,
            tensors: None,
            name: "a run",
        };
        write(source, &mut bytes).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let device = &trace.devices[0];
        let rows = reader.get_row_iter(None).unwrap();
        let mut n = 0;
        for (at, row) in rows.enumerate() {
            let row = row.unwrap();
            let block = BlockIdx(at as u32);
            assert_eq!(row.get_long(1).unwrap(), at as i64);
            let size = device.blocks.kind(block).size.get();
            assert_eq!(row.get_long(4).unwrap(), size as i64);
            let preexisting = block.0 < device.blocks.n_preexisting;
            assert_eq!(row.get_long(5).is_err(), preexisting, "NULL, not zero");
            assert!(row.get_string(17).is_err(), "an upload knows no tensors");
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
}
