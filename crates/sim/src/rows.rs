//! Rows that say who wrote them: generated, and recognised again wherever they are read.
//!
//! Owns: the schemas of simulated tables and the meaning of their columns. Every row carries the number of
//! the put it belongs to, its place in that put, and a check over both and the key, so that a row made of
//! parts of two rows is noticed. Called by scenarios, the auditor and the history checker.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use headwater_format::key::KeySchema;
use headwater_format::schema::{FIELD_ID, KEY_POSITION, TOMBSTONE};
use headwater_store::env::Trace;

/// Shape of the key of a simulated table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyShape {
    /// One Int64 column.
    Int,
    /// One text column.
    Text,
    /// A text and an Int32 column.
    Composite,
    /// No key: append-only.
    None,
}

/// One row as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// Number of the key.
    pub key: u32,
    /// Which put wrote it; none for a tombstone.
    pub written: Option<Written>,
}

/// Which row of which put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Written {
    /// Number of the put.
    pub op: u64,
    /// Place in the put, from 0.
    pub part: u32,
}

impl Row {
    /// A hash for sums over sets of live rows.
    pub fn digest(&self) -> u64 {
        let mut trace = Trace::default();
        trace.feed(u64::from(self.key));
        if let Some(written) = self.written {
            trace.feed(written.op);
            trace.feed(u64::from(written.part));
        }
        trace.value()
    }
}

/// A simulated table: its schema, and how rows look in it.
#[derive(Clone, Debug)]
pub struct Rows {
    shape: KeyShape,
    schema: SchemaRef,
    key: Option<KeySchema>,
}

/// A batch does not hold rows this table could have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row}: {reason}")]
pub struct WrongRow {
    /// Its place in the batch.
    pub row: usize,
    /// What is wrong.
    pub reason: String,
}

impl Rows {
    /// The table with a key of `shape`.
    ///
    /// # Panics
    /// Never: every shape has a valid key.
    pub fn new(shape: KeyShape) -> Self {
        let mut fields = key_fields(shape);
        for (name, data_type) in [
            ("op", DataType::Int64),
            ("part", DataType::Int32),
            ("check", DataType::Int64),
            ("pad", DataType::Utf8),
        ] {
            fields.push(Field::new(name, data_type, name == "pad"));
        }
        let numbered = fields.into_iter().enumerate().map(|(id, field)| {
            let mut metadata = field.metadata().clone();
            metadata.insert(FIELD_ID.to_owned(), id.to_string());
            field.with_metadata(metadata)
        });
        let metadata = HashMap::from([("owner".to_owned(), "sim".to_owned())]);
        let schema = Arc::new(Schema::new(numbered.collect::<Vec<_>>()).with_metadata(metadata));
        let key = KeySchema::from_schema(&schema).unwrap_or_else(|error| unreachable!("{error}"));
        Self { shape, schema, key }
    }

    /// The logical schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The key, if the table has one.
    pub fn key(&self) -> Option<&KeySchema> {
        self.key.as_ref()
    }

    /// Shape of the key.
    pub fn shape(&self) -> KeyShape {
        self.shape
    }

    /// The put `op` of one row per key.
    pub fn put(&self, op: u64, keys: &[u32]) -> RecordBatch {
        let parts = 0..keys.len() as u32;
        let checks = keys.iter().zip(parts.clone()).map(|(key, part)| check(*key, op, part));
        let mut columns = self.key_columns(keys);
        columns.push(Arc::new(Int64Array::from(vec![op as i64; keys.len()])));
        columns.push(Arc::new(Int32Array::from_iter_values(parts.map(|part| part as i32))));
        columns.push(Arc::new(Int64Array::from_iter_values(checks)));
        columns.push(Arc::new(StringArray::from_iter_values(keys.iter().map(|key| pad(*key, op)))));
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// Exactly the key columns of `keys`.
    pub fn keys(&self, keys: &[u32]) -> RecordBatch {
        let columns = self.key_columns(keys);
        let fields: Vec<_> = self.schema.fields().iter().take(columns.len()).cloned().collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn key_columns(&self, keys: &[u32]) -> Vec<ArrayRef> {
        let names = |prefix: &'static str, of: fn(u32) -> u32| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(keys.iter().map(|key| format!("{prefix}{}", of(*key)))))
        };
        match self.shape {
            KeyShape::Int | KeyShape::None => {
                vec![Arc::new(Int64Array::from_iter_values(keys.iter().map(|key| i64::from(*key) - 20)))]
            }
            KeyShape::Text => vec![names("key-", |key| key)],
            KeyShape::Composite => vec![
                names("r", |key| key % 3),
                Arc::new(Int32Array::from_iter_values(keys.iter().map(|key| (key / 3) as i32 - 5))),
            ],
        }
    }

    /// The rows of a batch in the logical or the storage schema.
    ///
    /// # Errors
    /// [`WrongRow`] when a row was never written like that.
    pub fn read(&self, batch: &RecordBatch) -> Result<Vec<Row>, WrongRow> {
        let tombstones = batch.column_by_name(TOMBSTONE).and_then(|column| column.as_boolean_opt().cloned());
        (0..batch.num_rows())
            .map(|row| {
                let dead = tombstones.as_ref().is_some_and(|tombstones| tombstones.value(row));
                self.read_row(batch, row, dead).map_err(|reason| WrongRow { row, reason })
            })
            .collect()
    }

    fn read_row(&self, batch: &RecordBatch, row: usize, dead: bool) -> Result<Row, String> {
        let key = self.read_key(batch, row)?;
        let op = int64(batch, "op", row)?;
        let part = int32(batch, "part", row)?;
        let sum = int64(batch, "check", row)?;
        let padding = text(batch, "pad", row)?;
        if dead {
            let empty = op.is_none() && part.is_none() && sum.is_none() && padding.is_none();
            return if empty {
                Ok(Row { key, written: None })
            } else {
                Err("a tombstone with values".to_owned())
            };
        }
        let (Some(op), Some(part), Some(sum), Some(padding)) = (op, part, sum, padding) else {
            return Err(format!("key {key}: a live row with nulls"));
        };
        let (op, part) = (op as u64, part as u32);
        if sum != check(key, op, part) || padding != pad(key, op) {
            return Err(format!("key {key}, put {op}, part {part}: the row's parts do not belong together"));
        }
        Ok(Row { key, written: Some(Written { op, part }) })
    }

    fn read_key(&self, batch: &RecordBatch, row: usize) -> Result<u32, String> {
        let number = |text: &str, prefix: &str| text.strip_prefix(prefix)?.parse::<u32>().ok();
        let key = match self.shape {
            KeyShape::Int | KeyShape::None => {
                int64(batch, "id", row)?.and_then(|id| u32::try_from(id + 20).ok())
            }
            KeyShape::Text => text(batch, "id", row)?.and_then(|id| number(&id, "key-")),
            KeyShape::Composite => {
                let region = text(batch, "region", row)?.and_then(|region| number(&region, "r"));
                let place = int32(batch, "num", row)?.and_then(|num| u32::try_from(num + 5).ok());
                region.zip(place).map(|(region, place)| place * 3 + region)
            }
        };
        key.ok_or_else(|| "no key this table could have".to_owned())
    }
}

fn key_fields(shape: KeyShape) -> Vec<Field> {
    let key = |name: &str, data_type: DataType, position: u32| {
        let metadata = HashMap::from([(KEY_POSITION.to_owned(), position.to_string())]);
        Field::new(name, data_type, false).with_metadata(metadata)
    };
    match shape {
        KeyShape::Int => vec![key("id", DataType::Int64, 1)],
        KeyShape::Text => vec![key("id", DataType::Utf8, 1)],
        KeyShape::Composite => vec![key("region", DataType::Utf8, 1), key("num", DataType::Int32, 2)],
        KeyShape::None => vec![Field::new("id", DataType::Int64, true)],
    }
}

fn check(key: u32, op: u64, part: u32) -> i64 {
    Row { key, written: Some(Written { op, part }) }.digest() as i64
}

fn pad(key: u32, op: u64) -> String {
    let length = (op.wrapping_mul(31).wrapping_add(u64::from(key)) % 40) as usize;
    "x".repeat(length)
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, String> {
    batch.column_by_name(name).ok_or_else(|| format!("no column {name}"))
}

fn int64(batch: &RecordBatch, name: &str, row: usize) -> Result<Option<i64>, String> {
    let column = column(batch, name)?;
    let values = column.as_primitive_opt::<Int64Type>().ok_or_else(|| format!("{name} is no Int64"))?;
    Ok(values.is_valid(row).then(|| values.value(row)))
}

fn int32(batch: &RecordBatch, name: &str, row: usize) -> Result<Option<i32>, String> {
    let column = column(batch, name)?;
    let values = column.as_primitive_opt::<Int32Type>().ok_or_else(|| format!("{name} is no Int32"))?;
    Ok(values.is_valid(row).then(|| values.value(row)))
}

fn text(batch: &RecordBatch, name: &str, row: usize) -> Result<Option<String>, String> {
    let column = column(batch, name)?;
    let values = column.as_string_opt::<i32>().ok_or_else(|| format!("{name} is no text"))?;
    Ok(values.is_valid(row).then(|| values.value(row).to_owned()))
}
