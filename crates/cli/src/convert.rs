//! Which file columns fit a table, and making them fit without losing anything.
//!
//! Owns: [`Fit`]. A column is taken when its type is the table's, or when every value of its type is a value
//! of the table's: wider integers and floats, finer timestamps of the same zone, wider decimals, other
//! encodings of text and bytes, lists, structs and maps of such. Metadata of nested fields does not count:
//! the table's carry their ids. Anything else is refused by name: nothing is cast silently at a loss.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::input::InputError;

/// How the columns of one file become columns of the table.
#[derive(Debug)]
pub struct Fit {
    file: Arc<str>,
    /// For each column taken its place in the file, in the order of the table.
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl Fit {
    /// How a file with `columns` fits `table`.
    ///
    /// # Errors
    /// [`InputError`] naming the first column the table does not have, a column it needs and the
    /// file does not have, or one whose type would lose values.
    pub fn new(file: &Arc<str>, columns: &Schema, table: &Schema) -> Result<Self, InputError> {
        for field in columns.fields() {
            if table.field_with_name(field.name()).is_err() {
                let known: Vec<&str> = table.fields().iter().map(|field| field.name().as_str()).collect();
                let reason = format!("the table has no such column; it has {}", known.join(", "));
                return Err(InputError::of_column(file, field.name(), reason));
            }
        }
        let (mut taken, mut fields) = (Vec::new(), Vec::new());
        for field in table.fields() {
            let Ok(index) = columns.index_of(field.name()) else {
                if field.is_nullable() {
                    continue;
                }
                return Err(InputError::of_column(
                    file,
                    field.name(),
                    "the table needs this column; the file lacks it",
                ));
            };
            let from = columns.field(index).data_type();
            if !fits(from, field.data_type()) {
                let reason = format!(
                    "it is {from} in the file and {} in the table, and values could be lost",
                    field.data_type()
                );
                return Err(InputError::of_column(file, field.name(), reason));
            }
            taken.push(index);
            fields.push(field.clone());
        }
        Ok(Self { file: file.clone(), columns: taken, schema: Arc::new(Schema::new(fields)) })
    }

    /// The rows of `batch` as rows of the table; `first` is the place of its first row in the file.
    ///
    /// # Errors
    /// [`InputError`] naming row and column of a null where none may be, or of a value out of range.
    pub fn apply(&self, batch: &RecordBatch, first: u64) -> Result<RecordBatch, InputError> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for (index, field) in self.columns.iter().zip(self.schema.fields()) {
            let column = self.convert(batch.column(*index), field, first)?;
            if !field.is_nullable()
                && let Some(row) = first_null(&column)
            {
                return Err(self.at(first, row, field, "null, where the table takes none"));
            }
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(|error| {
            InputError { row: Some(first), ..InputError::of_file(&self.file, error.to_string()) }
        })
    }

    /// The rows of `batch` up to the first one the table does not take, and what is wrong with that one.
    ///
    /// # Errors
    /// What [`Fit::apply`] says, when it is about no row.
    pub fn rows_before_fault(
        &self,
        batch: &RecordBatch,
        first: u64,
    ) -> Result<(RecordBatch, Option<InputError>), InputError> {
        let (mut batch, mut fault) = (batch.clone(), None);
        loop {
            let error = match self.apply(&batch, first) {
                Ok(rows) => return Ok((rows, fault)),
                Err(error) => error,
            };
            let good = error.row.and_then(|row| usize::try_from(row.checked_sub(first)?).ok());
            match good {
                // Another column may have a worse row further up: look again.
                Some(good) if good < batch.num_rows() => batch = batch.slice(0, good),
                _ => return Err(error),
            }
            fault = Some(error);
        }
    }

    fn convert(&self, column: &ArrayRef, field: &Field, first: u64) -> Result<ArrayRef, InputError> {
        if column.data_type() == field.data_type() {
            return Ok(column.clone());
        }
        let error = match cast(column, field.data_type()) {
            Ok(column) => return Ok(column),
            Err(error) => error,
        };
        // Rare: one value out of range, such as a year 300,000 in nanoseconds. Find it.
        let row = (0..column.len()).find(|row| cast(&column.slice(*row, 1), field.data_type()).is_err());
        Err(self.at(first, row.unwrap_or_default(), field, &error.to_string()))
    }

    fn at(&self, first: u64, row: usize, field: &Field, reason: &str) -> InputError {
        InputError {
            row: Some(first + row as u64),
            ..InputError::of_column(&self.file, field.name(), reason)
        }
    }
}

fn cast(column: &dyn Array, to: &DataType) -> Result<ArrayRef, arrow_schema::ArrowError> {
    cast_with_options(column, to, &CastOptions { safe: false, ..CastOptions::default() })
}

fn first_null(column: &dyn Array) -> Option<usize> {
    (column.null_count() > 0).then(|| (0..column.len()).find(|row| column.is_null(*row))).flatten()
}

/// Whether every value of `from` is a value of `to` (a timestamp may be out of range in a finer unit; that is
/// an error of its row).
pub fn fits(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Decimal128, Decimal256, Dictionary, FixedSizeBinary, FixedSizeList, LargeBinary,
        LargeList, LargeUtf8, List, Map, Null, Struct, Timestamp, Utf8, Utf8View,
    };
    match (from, to) {
        _ if from == to => true,
        (Null, _) => true,
        (Dictionary(_, values), _) => fits(values, to),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Binary | LargeBinary | BinaryView | FixedSizeBinary(_), Binary | LargeBinary | BinaryView) => true,
        (Timestamp(coarse, from_zone), Timestamp(fine, to_zone)) => {
            from_zone == to_zone && rank(*coarse) <= rank(*fine)
        }
        (Decimal128(p, s) | Decimal256(p, s), Decimal128(to_p, to_s) | Decimal256(to_p, to_s)) => {
            s <= to_s && i16::from(*p) - i16::from(*s) <= i16::from(*to_p) - i16::from(*to_s)
        }
        (List(from) | LargeList(from) | FixedSizeList(from, _), List(to) | LargeList(to)) => {
            fits(from.data_type(), to.data_type())
        }
        (List(from) | LargeList(from), FixedSizeList(to, _)) => fits(from.data_type(), to.data_type()),
        (FixedSizeList(from, n), FixedSizeList(to, m)) => n == m && fits(from.data_type(), to.data_type()),
        (Struct(from), Struct(to)) => {
            let same = |(a, b): (&Arc<Field>, &Arc<Field>)| {
                a.name() == b.name() && fits(a.data_type(), b.data_type())
            };
            from.len() == to.len() && from.iter().zip(to).all(same)
        }
        // What the key and the value of a map are called differs from writer to writer.
        (Map(from, sorted), Map(to, to_sorted)) => match (from.data_type(), to.data_type()) {
            (Struct(from), Struct(to)) if sorted == to_sorted && from.len() == to.len() => {
                from.iter().zip(to).all(|(from, to)| fits(from.data_type(), to.data_type()))
            }
            _ => false,
        },
        _ => number_fits(from, to),
    }
}

/// Widening of numbers.
fn number_fits(from: &DataType, to: &DataType) -> bool {
    use DataType::{Float16, Float32, Float64};
    match (integer(from), integer(to), to) {
        // A sign bit takes one bit away from the value.
        (Some((signed, bits)), Some((to_signed, to_bits)), _) => match (signed, to_signed) {
            (true, false) => false,
            (false, true) => bits < to_bits,
            _ => bits <= to_bits,
        },
        // Floats hold integers exactly up to the width of their mantissa.
        (Some((_, bits)), None, Float32) => bits <= 16,
        (Some((_, bits)), None, Float64) => bits <= 32,
        _ => matches!((from, to), (Float16, Float32 | Float64) | (Float32, Float64)),
    }
}

/// Whether signed, and how many bits.
fn integer(data_type: &DataType) -> Option<(bool, u32)> {
    let bits = data_type.primitive_width()? as u32 * 8;
    match data_type {
        _ if data_type.is_signed_integer() => Some((true, bits)),
        _ if data_type.is_unsigned_integer() => Some((false, bits)),
        _ => None,
    }
}

fn rank(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

#[cfg(test)]
mod tests;
