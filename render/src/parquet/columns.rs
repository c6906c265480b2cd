//! A Parquet file of named columns. Every cell may be empty: what cannot be known is NULL and not
//! zero.

use super::super::TableError;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

/// Bytes of distinct text after which a group of rows ends. All of it fits into the dictionary of
/// a column, so a text that many rows have is written once.
pub const GROUP_TEXT: usize = 8 << 20;

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 64 bits, with a sign.
    Number,
    /// 64 bits, floating-point.
    Real,
    /// UTF-8.
    Text,
}

/// The cells of one column.
pub enum Cells {
    /// Of [`Kind::Number`].
    Numbers(Vec<Option<i64>>),
    /// Of [`Kind::Real`].
    Reals(Vec<Option<f64>>),
    /// Of [`Kind::Text`].
    Texts(Vec<Option<ByteArray>>),
}

/// How a column gets its cells from rows.
pub enum Value<R> {
    /// A number.
    Number(fn(&R) -> Option<i64>),
    /// A floating-point number.
    Real(fn(&R) -> Option<f64>),
    /// A text.
    Text(fn(&R) -> Option<String>),
}

impl<R> Value<R> {
    /// What the cells are.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Number(_) => Kind::Number,
            Value::Real(_) => Kind::Real,
            Value::Text(_) => Kind::Text,
        }
    }

    /// The cells of these rows.
    pub fn cells(&self, rows: &[R]) -> Cells {
        match self {
            Value::Number(of) => Cells::Numbers(rows.iter().map(of).collect()),
            Value::Real(of) => Cells::Reals(rows.iter().map(of).collect()),
            Value::Text(of) => {
                let texts = rows.iter().map(|row| of(row).map(text));
                Cells::Texts(texts.collect())
            }
        }
    }
}

/// A text as a cell.
pub fn text(text: String) -> ByteArray {
    ByteArray::from(text.into_bytes())
}

/// A file that is written.
pub struct Table<W: Write + Send>(SerializedFileWriter<W>);

impl<W: Write + Send> Table<W> {
    /// Begins a file. `about`: what else is said in it.
    pub fn new<'c>(
        out: W,
        name: &str,
        columns: impl Iterator<Item = (&'c str, Kind)>,
        about: &[(&str, &str)],
    ) -> Result<Table<W>, TableError> {
        let about = about.iter();
        let about = about.map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_dictionary_page_size_limit(2 * GROUP_TEXT)
            .set_created_by("tidemark".to_owned())
            .set_key_value_metadata(Some(about.collect()));
        let fields = columns.map(|(name, kind)| field(name, kind).map(Arc::new));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder(name).with_fields(fields).build()?;
        let properties = Arc::new(properties.build());
        let writer = SerializedFileWriter::new(out, Arc::new(schema), properties)?;
        Ok(Table(writer))
    }

    /// Writes rows: the cells of every column, in their order.
    pub fn rows(&mut self, columns: impl Iterator<Item = Cells>) -> Result<(), TableError> {
        let mut group = self.0.next_row_group()?;
        for cells in columns {
            match cells {
                Cells::Numbers(cells) => column::<Int64Type, _>(&mut group, cells)?,
                Cells::Reals(cells) => column::<DoubleType, _>(&mut group, cells)?,
                Cells::Texts(cells) => column::<ByteArrayType, _>(&mut group, cells)?,
            }
        }
        group.close()?;
        Ok(())
    }

    /// Writes the end of the file.
    pub fn finish(self) -> Result<(), TableError> {
        self.0.close()?;
        Ok(())
    }
}

fn field(name: &str, kind: Kind) -> Result<Type, TableError> {
    let (physical, logical) = match kind {
        Kind::Number => (Physical::INT64, None),
        Kind::Real => (Physical::DOUBLE, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let field = Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical);
    Ok(field.build()?)
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: Vec<Option<T::T>>,
) -> Result<(), TableError> {
    let Some(mut writer) = group.next_column()? else {
        return Ok(());
    };
    // A level says of each row whether it has a value.
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.into_iter().flatten().collect();
    let typed = writer.typed::<T>();
    typed.write_batch(&values, Some(&levels), None)?;
    writer.close()?;
    Ok(())
}
