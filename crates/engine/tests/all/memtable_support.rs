//! Small tables of every kind of key, and reading rows back as plain values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, LargeBinaryArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use headwater_engine::budget::MemoryBudget;
use headwater_engine::ingest::{Ingest, IngestLimits, PreparedBatch};
use headwater_engine::memtable::Memtable;
use headwater_engine::settings::ShardSettings;
use headwater_format::coord::{Generation, Seq};
use headwater_format::schema::KEY_POSITION;

/// Which columns are the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `id: int64`.
    Int,
    /// `name: utf8`.
    Text,
    /// `blob: large_binary`.
    Binary,
    /// `name: utf8`, `part: int32`.
    Composite,
    /// None.
    Absent,
}

/// A key (whatever its columns, a number stands for it), the value, and whether it is a delete.
pub type Row = (i64, Option<String>, bool);

/// A table with a key of some kind and one required text column `value`.
#[derive(Clone, Debug)]
pub struct Table {
    pub key: Key,
    pub ingest: Ingest,
}

pub fn key_field(name: &str, data_type: DataType, position: usize) -> Field {
    let mark = HashMap::from([(KEY_POSITION.to_owned(), position.to_string())]);
    Field::new(name, data_type, false).with_metadata(mark)
}

pub fn limits() -> IngestLimits {
    IngestLimits::from(&ShardSettings::default())
}

impl Table {
    pub fn new(key: Key) -> Self {
        let mut fields = match key {
            Key::Int => vec![key_field("id", DataType::Int64, 1)],
            Key::Text => vec![key_field("name", DataType::Utf8, 1)],
            Key::Binary => vec![key_field("blob", DataType::LargeBinary, 1)],
            Key::Composite => {
                vec![key_field("name", DataType::Utf8, 1), key_field("part", DataType::Int32, 2)]
            }
            Key::Absent => vec![Field::new("id", DataType::Int64, false)],
        };
        fields.push(Field::new("value", DataType::Utf8, false));
        let ingest = Ingest::new(&Schema::new(fields), limits()).unwrap();
        Self { key, ingest }
    }

    fn key_columns(&self, keys: &[i64]) -> Vec<(&'static str, ArrayRef)> {
        let keys = keys.iter().copied();
        match self.key {
            Key::Int | Key::Absent => vec![("id", Arc::new(Int64Array::from_iter_values(keys)))],
            Key::Text => {
                let names = keys.map(|key| format!("key number {key}"));
                vec![("name", Arc::new(StringArray::from_iter_values(names)))]
            }
            Key::Binary => {
                let blobs = keys.map(|key| key.to_le_bytes());
                vec![("blob", Arc::new(LargeBinaryArray::from_iter_values(blobs)))]
            }
            Key::Composite => {
                let names = keys.clone().map(|key| format!("name {}", key % 5));
                let parts = keys.map(|key| i32::try_from(key / 5).unwrap());
                vec![
                    ("name", Arc::new(StringArray::from_iter_values(names)) as ArrayRef),
                    ("part", Arc::new(Int32Array::from_iter_values(parts))),
                ]
            }
        }
    }

    pub fn rows(&self, rows: &[(i64, &str)]) -> PreparedBatch {
        let keys: Vec<i64> = rows.iter().map(|(key, _)| *key).collect();
        let mut columns = self.key_columns(&keys);
        let values = StringArray::from_iter_values(rows.iter().map(|(_, value)| *value));
        columns.push(("value", Arc::new(values)));
        self.ingest.rows(RecordBatch::try_from_iter(columns).unwrap()).unwrap()
    }

    pub fn deletes(&self, keys: &[i64]) -> PreparedBatch {
        let columns = RecordBatch::try_from_iter(self.key_columns(keys)).unwrap();
        self.ingest.deletes(columns).unwrap()
    }

    pub fn memtable(&self, generation: u64, first: u64) -> Memtable {
        let (schema, key) = (self.ingest.schema().clone(), self.ingest.key().cloned());
        let charge = MemoryBudget::new(1 << 40).charge(0);
        Memtable::new(Generation::new(generation), schema, key, Seq::new(first), Vec::new(), charge)
    }

    /// Rows of batches in the storage schema, or in the logical one (then no row is a delete).
    pub fn read(&self, batches: &[RecordBatch]) -> Vec<Row> {
        batches.iter().flat_map(|batch| self.read_one(batch)).collect()
    }

    fn read_one(&self, batch: &RecordBatch) -> Vec<Row> {
        let column = |name: &str| batch.column_by_name(name).unwrap().clone();
        let value = column("value");
        let values = value.as_string::<i32>();
        let tombstones = batch.column_by_name("_tombstone").map(|column| column.as_boolean().clone());
        let key = |row: usize| match self.key {
            Key::Int | Key::Absent => column("id").as_primitive::<Int64Type>().value(row),
            Key::Text => {
                let names = column("name");
                names.as_string::<i32>().value(row).rsplit(' ').next().unwrap().parse().unwrap()
            }
            Key::Binary => {
                let blobs = column("blob");
                i64::from_le_bytes(blobs.as_binary::<i64>().value(row).try_into().unwrap())
            }
            Key::Composite => {
                let (names, parts) = (column("name"), column("part"));
                let name: i64 = names.as_string::<i32>().value(row)[5..].parse().unwrap();
                i64::from(parts.as_primitive::<Int32Type>().value(row)) * 5 + name
            }
        };
        (0..batch.num_rows())
            .map(|row| {
                let text = values.is_valid(row).then(|| values.value(row).to_owned());
                (key(row), text, tombstones.as_ref().is_some_and(|column| column.value(row)))
            })
            .collect()
    }
}

/// A row that is no delete.
pub fn row(key: i64, value: &str) -> Row {
    (key, Some(value.to_owned()), false)
}

/// A delete.
pub fn gone(key: i64) -> Row {
    (key, None, true)
}
