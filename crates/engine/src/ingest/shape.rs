//! Shaping: from the batch a caller has to the storage schema.
//!
//! Owns: [`Ingest`]. Does not own: sizes and copies (`compact`), null checks (`nulls`), key extraction
//! (`keys`).

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, FieldRef, Schema, SchemaRef};
use headwater_format::key::KeySchema;
use headwater_format::schema::{SchemaError, storage_schema, to_storage};

use super::compact;
use super::error::InvalidInput;
use super::keys;
use super::limits::IngestLimits;
use super::nulls;
use super::prepared::PreparedBatch;
use super::types::{relabel, same_type};
use crate::memtable::BatchKeys;

/// Prepares batches for one table. Cheap to share; holds no rows.
#[derive(Clone, Debug)]
pub struct Ingest {
    schema: SchemaRef,
    columns: Arc<[Column]>,
    key: Option<KeySchema>,
    limits: IngestLimits,
}

/// A column of the base table.
#[derive(Debug)]
struct Column {
    field: FieldRef,
    in_key: bool,
}

/// What the rows of a batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Rows to be upserted.
    Rows,
    /// Keys to be deleted.
    Deletes,
}

impl Ingest {
    /// Ingest for the base table with the logical schema `base`.
    ///
    /// # Errors [`InvalidInput`] when the schema cannot carry a shard: a column called `_tombstone`, a key
    /// that is nullable, nested or of an unsupported type. Checked at open, before anything is claimed.
    pub fn new(base: &Schema, limits: IngestLimits) -> Result<Self, InvalidInput> {
        let key = KeySchema::from_schema(base)?;
        let in_key =
            |index| key.as_ref().is_some_and(|key| key.columns().iter().any(|one| one.index == index));
        let columns = base.fields().iter().enumerate();
        let columns =
            columns.map(|(index, field)| Column { field: Arc::clone(field), in_key: in_key(index) });
        Ok(Self { schema: storage_schema(base)?, columns: columns.collect(), key, limits })
    }

    /// The storage schema: the base's columns and `_tombstone`.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The key, when the table has one.
    pub fn key(&self) -> Option<&KeySchema> {
        self.key.as_ref()
    }

    /// Prepares rows to be upserted (appended, on a table without a key). Columns go by name, in any order;
    /// metadata of their fields is ignored; nullable columns outside the key may be left out and are null
    /// then.
    ///
    /// # Errors [`InvalidInput`] names the column, and the row for a null that may not be, or the limit the
    /// batch exceeds.
    pub fn rows(&self, batch: RecordBatch) -> Result<PreparedBatch, InvalidInput> {
        self.limits.check_rows(batch.num_rows())?;
        self.shape(batch, Kind::Rows)
    }

    /// Prepares deletes: `keys` has exactly the key columns, in any order. Keys that are not in the table are
    /// fine.
    ///
    /// # Errors
    /// As [`Ingest::rows`]; [`InvalidInput::NoKey`] on a table without a key.
    pub fn deletes(&self, keys: RecordBatch) -> Result<PreparedBatch, InvalidInput> {
        if self.key.is_none() {
            return Err(InvalidInput::NoKey);
        }
        self.limits.check_rows(keys.num_rows())?;
        self.shape(keys, Kind::Deletes)
    }

    /// Prepares rows as a WAL entry holds them: the storage schema, `_tombstone` possibly missing (then no
    /// row is a delete). Limits do not apply, what is durable was accepted.
    ///
    /// # Errors
    /// [`InvalidInput`] when they are not rows of this table.
    pub fn stored(&self, batch: RecordBatch) -> Result<PreparedBatch, InvalidInput> {
        let shaped = to_storage(&batch, &self.schema).map_err(|error| match error {
            SchemaError::Differs { difference } => InvalidInput::OtherSchema { difference },
            other => InvalidInput::OtherSchema { difference: other.to_string() },
        })?;
        let (_, columns, rows) = shaped.into_parts();
        drop(batch);
        self.finish(columns, rows)
    }

    fn shape(&self, batch: RecordBatch, kind: Kind) -> Result<PreparedBatch, InvalidInput> {
        let rows = batch.num_rows();
        let places = self.places(batch.schema_ref(), kind)?;
        // The batch is taken apart, so that its arrays can be cut to size when nobody else has them.
        let (_, given, _) = batch.into_parts();
        let mut given: Vec<Option<ArrayRef>> = given.into_iter().map(Some).collect();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.columns.len() + 1);
        for (column, place) in self.columns.iter().zip(places) {
            let array = place.and_then(|place| given.get_mut(place)).and_then(Option::take);
            columns.push(match array {
                Some(array) => column.take(array)?,
                None => new_null_array(column.field.data_type(), rows),
            });
        }
        let payload = compact::logical_bytes(&columns);
        self.limits.check_bytes(payload)?;
        let marks = match kind {
            Kind::Rows => BooleanBuffer::new_unset(rows),
            Kind::Deletes => BooleanBuffer::new_set(rows),
        };
        columns.push(Arc::new(BooleanArray::new(marks, None)));
        self.finish(columns, rows)
    }

    /// For each column of the table, its place in a batch of schema `given`; none = left out, and may be.
    fn places(&self, given: &Schema, kind: Kind) -> Result<Vec<Option<usize>>, InvalidInput> {
        let mut places: Vec<Option<usize>> = vec![None; self.columns.len()];
        for (place, field) in given.fields().iter().enumerate() {
            // Usually the columns come in the table's own order.
            let is_it = |column: &Column| column.field.name() == field.name();
            let index = match self.columns.get(place) {
                Some(column) if is_it(column) => Some(place),
                _ => self.columns.iter().position(is_it),
            };
            let column = index.and_then(|index| self.columns.get(index));
            let wanted = column.is_some_and(|column| kind == Kind::Rows || column.in_key);
            let Some(slot) = index.filter(|_| wanted).and_then(|index| places.get_mut(index)) else {
                return Err(self.unknown(field.name(), kind));
            };
            if slot.replace(place).is_some() {
                return Err(InvalidInput::DuplicateColumn { column: field.name().clone() });
            }
        }
        for (column, _) in self.columns.iter().zip(&places).filter(|(_, place)| place.is_none()) {
            let why = match kind {
                _ if column.in_key => "part of the key",
                Kind::Rows if !column.field.is_nullable() => "not nullable",
                _ => continue,
            };
            return Err(InvalidInput::MissingColumn { column: column.field.name().clone(), why });
        }
        Ok(places)
    }

    fn unknown(&self, column: &str, kind: Kind) -> InvalidInput {
        let wanted = self.columns.iter().filter(|column| kind == Kind::Rows || column.in_key);
        let names: Vec<&str> = wanted.map(|column| column.field.name().as_str()).collect();
        let what = match kind {
            Kind::Rows => "columns",
            Kind::Deletes => "for deletes the key columns",
        };
        InvalidInput::UnknownColumn {
            column: column.to_owned(),
            expected: format!("{what} {}", names.join(", ")),
        }
    }

    /// Keys, sizes and the batch of columns in the storage schema.
    fn finish(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<PreparedBatch, InvalidInput> {
        let malformed = |error: ArrowError| InvalidInput::MalformedBatch { reason: error.to_string() };
        let payload_bytes = compact::logical_bytes(columns.iter().take(self.columns.len()));
        let needed = payload_bytes + rows.div_ceil(8) as u64;
        let (columns, resident_bytes) = compact::compacted(columns, needed).map_err(malformed)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows)).with_match_field_names(false);
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options).map_err(malformed)?;
        let (keys, key_bytes) = match &self.key {
            Some(key) => keys::extract(key, &batch)?,
            None => (BatchKeys::None, 0),
        };
        Ok(PreparedBatch { batch, keys, payload_bytes, key_bytes, resident_bytes })
    }
}

impl Column {
    /// `array` as data of this column: checked for type and nulls.
    fn take(&self, array: ArrayRef) -> Result<ArrayRef, InvalidInput> {
        let (name, expected) = (self.field.name(), self.field.data_type());
        if !same_type(expected, array.data_type()) {
            let (expected, found) = (expected.clone(), array.data_type().clone());
            return Err(InvalidInput::WrongType { column: name.clone(), expected, found });
        }
        if !self.field.is_nullable()
            && let Some(row) = nulls::first_null(&array)
        {
            let column = name.clone();
            return Err(match self.in_key {
                true => InvalidInput::NullKey { column, row },
                false => InvalidInput::NullValue { column, row },
            });
        }
        if let Some((column, row)) = nulls::first_forbidden(name, &self.field, &array) {
            return Err(InvalidInput::NullValue { column, row });
        }
        if array.data_type() == expected {
            return Ok(array);
        }
        relabel(&array, expected)
            .map_err(|error| InvalidInput::Malformed { column: name.clone(), reason: error.to_string() })
    }
}
