//! The storage schema of a shard: the base's own columns, widened so that a delete fits in, plus
//! `_tombstone`.
//!
//! Owns: the names of schema and field metadata, [`storage_schema`] and its inverse [`logical_schema`],
//! [`schema_difference`], [`to_storage`]. Does not own: keys ([`crate::key`]), WAL entries
//! ([`crate::wal_entry`]). Keeps P15: a column is its field id; names and ids travel in the fields.
//!
//! A delete is a row with the key, nulls elsewhere and `_tombstone` = true. So every top-level field outside
//! the key is nullable in storage, while the logical schema, the users' contract, stays as it was. Metadata
//! of the schema itself stays exactly the base's own; what we add sits on the `_tombstone` field, where the
//! reference ignores it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use crate::key::{KeyError, KeySchema};
use crate::wal_entry;

#[cfg(test)]
mod tests;

/// Name of the column that tells a delete from a row; last in the storage schema, Boolean, not null.
pub const TOMBSTONE: &str = "_tombstone";
/// Field metadata: the Lance field id, decimal.
pub const FIELD_ID: &str = "lance:field_id";
/// Field metadata: place in the key, "1", "2", …
pub const KEY_POSITION: &str = "lance-schema:unenforced-primary-key:position";
/// Field metadata: the older key marker, "true"; such columns come after those with a place, by field id.
pub const KEY_LEGACY: &str = "lance-schema:unenforced-primary-key";
/// Metadata of the `_tombstone` field: the version of our additions, "1".
pub const TOMBSTONE_MARK: &str = "headwater:tombstone";
/// Metadata of the `_tombstone` field: indexes of the top-level fields that are nullable in storage only,
/// ascending, decimal, with commas; absent when there is none.
pub const REQUIRED: &str = "headwater:required";

const TOMBSTONE_VERSION: &str = "1";

/// Why a schema cannot be the base of a shard, or a batch not be brought to the storage schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A column has a name the format needs for itself.
    #[error("column name {column:?} is reserved")]
    ReservedColumn {
        /// The column.
        column: String,
    },
    /// The schema's own metadata uses a key that WAL entries need for themselves.
    #[error("schema metadata key {key:?} is reserved")]
    ReservedMetadata {
        /// The key.
        key: String,
    },
    /// Two top-level columns share a name.
    #[error("two columns are called {column:?}")]
    DuplicateColumn {
        /// The name.
        column: String,
    },
    /// The key columns are not such as a key can have.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A batch has another schema than the storage schema.
    #[error("schema differs: {difference}")]
    Differs {
        /// The first difference.
        difference: String,
    },
}

/// The storage schema of a base table: top-level fields outside the key made nullable, `_tombstone` appended;
/// field and schema metadata as the base has them.
///
/// # Errors
/// [`SchemaError`] when the base has a column `_tombstone`, two columns of one name, reserved schema
/// metadata, or a key that is none.
pub fn storage_schema(base: &Schema) -> Result<SchemaRef, SchemaError> {
    check_names(base)?;
    let key = KeySchema::from_schema(base)?;
    let in_key =
        |index| key.as_ref().is_some_and(|key| key.columns().iter().any(|column| column.index == index));
    let mut required = Vec::new();
    let mut fields: Vec<FieldRef> = Vec::with_capacity(base.fields().len() + 1);
    for (index, field) in base.fields().iter().enumerate() {
        if field.is_nullable() || in_key(index) {
            fields.push(Arc::clone(field));
        } else {
            required.push(index.to_string());
            fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
        }
    }
    let mut marks = HashMap::from([(TOMBSTONE_MARK.to_owned(), TOMBSTONE_VERSION.to_owned())]);
    if !required.is_empty() {
        marks.insert(REQUIRED.to_owned(), required.join(","));
    }
    fields.push(Arc::new(Field::new(TOMBSTONE, DataType::Boolean, false).with_metadata(marks)));
    Ok(Arc::new(Schema::new_with_metadata(fields, base.metadata().clone())))
}

fn check_names(base: &Schema) -> Result<(), SchemaError> {
    if base.column_with_name(TOMBSTONE).is_some() {
        return Err(SchemaError::ReservedColumn { column: TOMBSTONE.to_owned() });
    }
    let mut names: Vec<&str> = base.fields().iter().map(|field| field.name().as_str()).collect();
    names.sort_unstable();
    let twice = names.iter().zip(names.iter().skip(1)).find(|(one, next)| one == next);
    if let Some((column, _)) = twice {
        return Err(SchemaError::DuplicateColumn { column: (*column).to_owned() });
    }
    let reserved = wal_entry::RESERVED_METADATA.iter().find(|key| base.metadata().contains_key(**key));
    reserved.map_or(Ok(()), |key| Err(SchemaError::ReservedMetadata { key: (*key).to_owned() }))
}

/// The logical schema under a storage schema made by [`storage_schema`]: without `_tombstone`, and with the
/// nullability it took away. Where the `_tombstone` field lacks our metadata (entries of the reference),
/// fields stay nullable.
pub fn logical_schema(storage: &Schema) -> SchemaRef {
    let mark = storage.field_with_name(TOMBSTONE).ok().and_then(|field| field.metadata().get(REQUIRED));
    let required: Vec<usize> =
        mark.map_or_else(Vec::new, |text| text.split(',').flat_map(str::parse).collect());
    let fields: Vec<FieldRef> = storage
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, field)| field.name() != TOMBSTONE)
        .map(|(index, field)| match required.contains(&index) {
            true => Arc::new(field.as_ref().clone().with_nullable(false)),
            false => Arc::clone(field),
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, storage.metadata().clone()))
}

/// The first difference between the storage schema of the base and `other` (of a WAL entry or an SSTable),
/// for people; `None` when rows of `other` can be taken as they are: same columns in the same order, same
/// names, types and nullability at every level, same field ids where both sides have them. `other` may lack
/// `_tombstone`, which then reads as false, and its id may be any; other field metadata and schema metadata
/// do not count.
pub fn schema_difference(base_storage: &Schema, other: &Schema) -> Option<String> {
    let lacks_tombstone = other.column_with_name(TOMBSTONE).is_none();
    let expected =
        base_storage.fields().iter().filter(|field| !(lacks_tombstone && field.name() == TOMBSTONE));
    let expected: Vec<&FieldRef> = expected.collect();
    let found: Vec<&FieldRef> = other.fields().iter().collect();
    fields_difference("", &expected, &found)
}

fn fields_difference(parent: &str, expected: &[&FieldRef], found: &[&FieldRef]) -> Option<String> {
    for (one, other) in expected.iter().zip(found) {
        if let Some(difference) = field_difference(parent, one, other) {
            return Some(difference);
        }
    }
    if let Some(missing) = expected.get(found.len()) {
        return Some(format!("column {parent}{} is missing", missing.name()));
    }
    let extra = found.get(expected.len())?;
    Some(format!("column {parent}{} is not in the table", extra.name()))
}

fn field_difference(parent: &str, expected: &Field, found: &Field) -> Option<String> {
    let (name, found_name) = (expected.name(), found.name());
    if name != found_name {
        return Some(format!("column {parent}{found_name} where the table has {parent}{name}"));
    }
    let ids = (expected.metadata().get(FIELD_ID), found.metadata().get(FIELD_ID));
    if let (Some(one), Some(other)) = ids
        && one != other
        && name != TOMBSTONE
    {
        return Some(format!("column {parent}{name} has field id {other}, in the table {one}"));
    }
    if let Some(difference) =
        type_difference(&format!("{parent}{name}"), expected.data_type(), found.data_type())
    {
        return Some(difference);
    }
    let nullable = |field: &Field| if field.is_nullable() { "nullable" } else { "not null" };
    (expected.is_nullable() != found.is_nullable())
        .then(|| format!("column {parent}{name} is {}, in the table {}", nullable(found), nullable(expected)))
}

fn type_difference(path: &str, expected: &DataType, found: &DataType) -> Option<String> {
    let parent = format!("{path}.");
    let one_below = |one, other| field_difference(&parent, one, other);
    match (expected, found) {
        (DataType::Struct(one), DataType::Struct(other)) => struct_difference(&parent, one, other),
        (DataType::List(one), DataType::List(other))
        | (DataType::LargeList(one), DataType::LargeList(other))
        | (DataType::ListView(one), DataType::ListView(other))
        | (DataType::LargeListView(one), DataType::LargeListView(other)) => one_below(one, other),
        (DataType::FixedSizeList(one, length), DataType::FixedSizeList(other, found_length))
            if length == found_length =>
        {
            one_below(one, other)
        }
        (DataType::Map(one, sorted), DataType::Map(other, found_sorted)) if sorted == found_sorted => {
            one_below(one, other)
        }
        (one, other) if one == other => None,
        (one, other) => Some(format!("column {path} has type {other}, in the table {one}")),
    }
}

fn struct_difference(parent: &str, expected: &Fields, found: &Fields) -> Option<String> {
    let expected: Vec<&FieldRef> = expected.iter().collect();
    let found: Vec<&FieldRef> = found.iter().collect();
    fields_difference(parent, &expected, &found)
}

/// `batch` under exactly the schema `storage`, `_tombstone` = false added when it lacks the column. Shares
/// the buffers.
///
/// # Errors
/// [`SchemaError::Differs`] when [`schema_difference`] finds one, or a column holds what `storage` does not
/// allow.
pub fn to_storage(batch: &RecordBatch, storage: &SchemaRef) -> Result<RecordBatch, SchemaError> {
    if let Some(difference) = schema_difference(storage, batch.schema_ref()) {
        return Err(SchemaError::Differs { difference });
    }
    let rows = batch.num_rows();
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    if columns.len() < storage.fields().len() {
        columns.push(Arc::new(BooleanArray::new(BooleanBuffer::new_unset(rows), None)));
    }
    // NOTE: field metadata inside nested types may differ (ids on one side only); it says nothing about the
    // data.
    let options = RecordBatchOptions::new().with_row_count(Some(rows)).with_match_field_names(false);
    RecordBatch::try_new_with_options(Arc::clone(storage), columns, &options)
        .map_err(|error| SchemaError::Differs { difference: error.to_string() })
}
