//! One row for each allocation, in columns that every dataframe library reads.

use super::{Source, TableError};
use api::timeline::TensorDetail;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use trace::stacks::{StackIdx, Stacks};
use trace::trace::{BlockIdx, BlockKind, DeviceTrace, Origin, PoolSize};
use trace::units::EventIdx;

/// Rows of a group: what is in memory at once.
const GROUP: u32 = 1 << 16;

/// One allocation.
struct Row<'t> {
    device: &'t DeviceTrace,
    block: BlockIdx,
    kind: &'t BlockKind,
    tensor: Option<TensorDetail>,
}

impl Row<'_> {
    /// An event's index, unless it says "never".
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
            // Never, as far as the trace can tell.
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

/// How a column gets its values.
enum Column {
    Number(fn(&Row<'_>) -> Option<i64>),
    Text(fn(&Row<'_>) -> Option<String>),
    /// The stack, innermost frame first, joined by semicolons.
    Stack(fn(&Row<'_>) -> StackIdx),
}

/// The columns, by name.
// Every one may be empty: what cannot be known is NULL and not zero.
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

/// Writes the table.
pub fn write(source: Source<'_>, out: impl Write + Send) -> Result<(), TableError> {
    let about = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("tidemark".to_owned())
        .set_key_value_metadata(Some(vec![about("run", source.name)]));
    let properties = Arc::new(properties.build());
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema()?), properties)?;
    let mut stacks = StackTexts {
        stacks: &source.trace.stacks,
        known: HashMap::new(),
    };
    for device in &source.trace.devices {
        let n = device.blocks.len() as u32;
        for from in (0..n).step_by(GROUP as usize) {
            let blocks = from..(from + GROUP).min(n);
            let rows: Vec<Row<'_>> = blocks.map(|b| row(source, device, BlockIdx(b))).collect();
            let mut group = writer.next_row_group()?;
            for (_, column) in &COLUMNS {
                write_column(&mut group, column, &rows, &mut stacks)?;
            }
            group.close()?;
        }
    }
    writer.close()?;
    Ok(())
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

fn schema() -> Result<Type, TableError> {
    let field = |(name, column): &(&str, Column)| {
        let physical = match column {
            Column::Number(_) => Physical::INT64,
            Column::Text(_) | Column::Stack(_) => Physical::BYTE_ARRAY,
        };
        let logical = (physical == Physical::BYTE_ARRAY).then_some(LogicalType::String);
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        field.build().map(Arc::new)
    };
    let fields = COLUMNS.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder("allocations").with_fields(fields);
    Ok(schema.build()?)
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Column,
    rows: &[Row<'_>],
    stacks: &mut StackTexts<'_>,
) -> Result<(), TableError> {
    let Some(mut writer) = group.next_column()? else {
        return Ok(());
    };
    match column {
        Column::Number(value) => {
            let (values, levels) = present(rows.iter().map(value));
            let typed = writer.typed::<Int64Type>();
            typed.write_batch(&values, Some(&levels), None)?;
        }
        Column::Text(value) => {
            let texts = rows.iter().map(|row| value(row).map(ByteArray::from_text));
            let (values, levels) = present(texts);
            let typed = writer.typed::<ByteArrayType>();
            typed.write_batch(&values, Some(&levels), None)?;
        }
        Column::Stack(stack) => {
            let (values, levels) = present(rows.iter().map(|row| stacks.text(stack(row))));
            let typed = writer.typed::<ByteArrayType>();
            typed.write_batch(&values, Some(&levels), None)?;
        }
    }
    writer.close()?;
    Ok(())
}

/// The values that there are, and for each row whether it has one.
fn present<T>(values: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let (mut there, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        there.extend(value);
    }
    (there, levels)
}

trait FromText {
    fn from_text(text: String) -> Self;
}

impl FromText for ByteArray {
    fn from_text(text: String) -> ByteArray {
        ByteArray::from(text.into_bytes())
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
        let text = self.known.entry(stack).or_insert_with(|| {
            let frames = stacks.frames(stack).iter().map(|&frame| {
                let frame = stacks.frame(frame);
                let (name, file) = (stacks.str(frame.name), stacks.str(frame.filename));
                format!("{name} ({file}:{})", frame.line)
            });
            let text = frames.collect::<Vec<String>>().join("; ");
            (!text.is_empty()).then(|| ByteArray::from_text(text))
        });
        text.clone()
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
