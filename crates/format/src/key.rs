//! Keys: which columns they are, and the two encodings the format has for them.
//!
//! Owns: [`KeySchema`], the order-preserving bytes of a composite key, the hash a bloom filter takes. Does
//! not own: the in-memory key index (`headwater-engine`), the `_pk_index` file (`headwater-lance`), the
//! filter ([`crate::bloom`]). Keeps P4 exact: the bytes of two keys are equal iff the keys are, and order as
//! the keys do; a hash decides nothing.
//!
//! A key column is a top-level leaf that is never null. A table without one is append-only: every row is
//! kept.

use std::fmt;
use std::hash::Hasher;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use siphasher::sip::SipHasher13;

use crate::path::parse_decimal;
use crate::schema::{FIELD_ID, KEY_LEGACY, KEY_POSITION};

mod decode;
mod values;

#[cfg(test)]
mod tests;

use values::KeyValues;

/// The key of a table: its columns in key order, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySchema {
    columns: Vec<KeyColumn>,
    /// That of the key columns alone.
    schema: SchemaRef,
}

/// One column of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Its index among the top-level fields of the schema the key was read from.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its Arrow type.
    pub data_type: DataType,
    /// Its type as a key column.
    pub key_type: KeyType,
}

/// The types a key column can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// One byte, signed.
    Int8,
    /// Two bytes, signed.
    Int16,
    /// Four bytes, signed.
    Int32,
    /// Eight bytes, signed.
    Int64,
    /// One byte, unsigned.
    UInt8,
    /// Two bytes, unsigned.
    UInt16,
    /// Four bytes, unsigned.
    UInt32,
    /// Eight bytes, unsigned.
    UInt64,
    /// True or false.
    Boolean,
    /// Text with 32-bit offsets.
    Utf8,
    /// Text with 64-bit offsets.
    LargeUtf8,
    /// Bytes with 32-bit offsets.
    Binary,
    /// Bytes with 64-bit offsets.
    LargeBinary,
}

impl KeyType {
    /// The key type of an Arrow type, if it can be one.
    pub fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8 => Self::Int8,
            DataType::Int16 => Self::Int16,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::UInt8 => Self::UInt8,
            DataType::UInt16 => Self::UInt16,
            DataType::UInt32 => Self::UInt32,
            DataType::UInt64 => Self::UInt64,
            DataType::Boolean => Self::Boolean,
            DataType::Utf8 => Self::Utf8,
            DataType::LargeUtf8 => Self::LargeUtf8,
            DataType::Binary => Self::Binary,
            DataType::LargeBinary => Self::LargeBinary,
            _ => return None,
        })
    }

    /// Whether values have a fixed width of at most eight bytes: integers and Boolean.
    pub const fn is_fixed_width(self) -> bool {
        !matches!(self, Self::Utf8 | Self::LargeUtf8 | Self::Binary | Self::LargeBinary)
    }

    /// Whether the reference's writer hashes values of this type into `bloom_filter.bin`. For the others a
    /// filter *it* wrote answers "absent" for keys that are there.
    pub const fn is_hashed_by_reference(self) -> bool {
        matches!(self, Self::Int32 | Self::Int64 | Self::Utf8 | Self::Binary)
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a schema has no usable key, or a batch no usable key values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A key column is nullable.
    #[error("key column {column} is nullable")]
    Nullable {
        /// The column.
        column: String,
    },
    /// A key marker sits below the top level, or on a column with children.
    #[error("key column {column} is nested")]
    Nested {
        /// The column, with dots.
        column: String,
    },
    /// A key column has a type that keys cannot have.
    #[error(
        "key column {column} has type {data_type}; a key can be of an integer type, Boolean, Utf8, \
         LargeUtf8, Binary or LargeBinary"
    )]
    UnsupportedType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// Places in the key are not 1, 2, 3, …
    #[error("key column {column} has place {position:?}: {reason}")]
    Position {
        /// The column.
        column: String,
        /// The place as its metadata has it.
        position: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A batch lacks a key column.
    #[error("key column {column} is missing")]
    Missing {
        /// The column.
        column: String,
    },
    /// A batch has a key column of another type.
    #[error("key column {column} has type {found} instead of {expected}")]
    WrongType {
        /// The column.
        column: String,
        /// What the table has.
        expected: DataType,
        /// What the batch has.
        found: DataType,
    },
    /// A key value is null.
    #[error("key column {column} is null in row {row}")]
    Null {
        /// The column.
        column: String,
        /// The first such row of the batch, from 0.
        row: usize,
    },
    /// Arrow refuses the key columns as a batch.
    #[error("key columns are no batch: {reason}")]
    Refused {
        /// What Arrow said.
        reason: String,
    },
    /// The encoded keys of one batch do not fit in 2 GiB.
    #[error("the keys of one batch encode to more than 2 GiB")]
    TooLarge,
}

impl KeySchema {
    /// The key a schema's field metadata describes; `None` when no field is marked.
    ///
    /// Columns with a place ("1", "2", …) come in that order; columns with the older marker follow, by field
    /// id.
    ///
    /// # Errors
    /// [`KeyError`] when a marked field is nullable, nested or of an unsupported type, or places have gaps or
    /// repeat.
    pub fn from_schema(schema: &Schema) -> Result<Option<Self>, KeyError> {
        let mut marked: Vec<(Place, KeyColumn)> = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            refuse_marks_below(field.name(), field)?;
            if let Some(place) = Place::of(index, field)? {
                marked.push((place, key_column(index, field)?));
            }
        }
        marked.sort_by_key(|(place, _)| *place);
        check_places(&marked)?;
        let columns: Vec<KeyColumn> = marked.into_iter().map(|(_, column)| column).collect();
        let field = |column: &KeyColumn| Field::new(&column.name, column.data_type.clone(), false);
        let schema = SchemaRef::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        Ok((!columns.is_empty()).then_some(Self { columns, schema }))
    }

    /// The key columns in key order; never empty.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// The column, when the key is a single one.
    pub fn single(&self) -> Option<&KeyColumn> {
        match self.columns.as_slice() {
            [column] => Some(column),
            _ => None,
        }
    }

    /// Schema of a batch of keys alone: the key columns in key order, not null, without metadata.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The key columns of `batch`, found by name, in key order and nothing else. Shares the buffers.
    ///
    /// # Errors
    /// [`KeyError::Missing`], [`KeyError::WrongType`] or [`KeyError::Null`].
    pub fn project(&self, batch: &RecordBatch) -> Result<RecordBatch, KeyError> {
        let arrays = self.arrays(batch)?.into_iter().map(ArrayRef::clone).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        // Types and nulls were checked above, so nothing is left for Arrow to refuse.
        RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), arrays, &options)
            .map_err(|error| KeyError::Refused { reason: error.to_string() })
    }

    /// The order-preserving bytes of each row's key: per column 0x01 (0x00 would be null), then eight bytes
    /// big-endian for integers (sign bit flipped if signed), one byte for Boolean, and for text and binary
    /// the bytes with 0x00 written as 0x00 0xFF, ended by 0x00 0x00.
    ///
    /// # Errors
    /// As [`KeySchema::project`]; [`KeyError::TooLarge`] past 2 GiB.
    pub fn encode(&self, batch: &RecordBatch) -> Result<BinaryArray, KeyError> {
        let columns = self.values(batch)?;
        let mut bytes: Vec<u8> = Vec::new();
        let mut offsets: Vec<i32> = Vec::with_capacity(batch.num_rows().saturating_add(1));
        offsets.push(0);
        for row in 0..batch.num_rows() {
            for column in &columns {
                column.encode(row, &mut bytes);
            }
            offsets.push(i32::try_from(bytes.len()).map_err(|_| KeyError::TooLarge)?);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        BinaryArray::try_new(offsets, Buffer::from_vec(bytes), None).map_err(|_| KeyError::TooLarge)
    }

    /// The hash of each row's key as `bloom_filter.bin` takes it: SipHash-1-3 with zero keys over, per
    /// column, one zero byte (not null) and the value: integers little-endian at their width, Boolean one
    /// byte, text its bytes and 0xFF, binary its length as u64 little-endian and its bytes.
    ///
    /// # Errors
    /// As [`KeySchema::project`].
    pub fn hashes(&self, batch: &RecordBatch) -> Result<Vec<u64>, KeyError> {
        let columns = self.values(batch)?;
        let hash = |row| {
            let mut hasher = SipHasher13::new();
            for column in &columns {
                column.hash(row, &mut hasher);
            }
            hasher.finish()
        };
        Ok((0..batch.num_rows()).map(hash).collect())
    }

    fn values<'a>(&self, batch: &'a RecordBatch) -> Result<Vec<KeyValues<'a>>, KeyError> {
        let arrays = self.arrays(batch)?;
        let values = |(column, array): (&KeyColumn, &'a ArrayRef)| {
            KeyValues::new(column.key_type, array).ok_or_else(|| column.wrong_type(array.data_type()))
        };
        self.columns.iter().zip(arrays).map(values).collect()
    }

    fn arrays<'a>(&self, batch: &'a RecordBatch) -> Result<Vec<&'a ArrayRef>, KeyError> {
        let array = |column: &KeyColumn| {
            let missing = || KeyError::Missing { column: column.name.clone() };
            let array = batch.column_by_name(&column.name).ok_or_else(missing)?;
            if array.data_type() != &column.data_type {
                return Err(column.wrong_type(array.data_type()));
            }
            match first_null(array) {
                Some(row) => Err(KeyError::Null { column: column.name.clone(), row }),
                None => Ok(array),
            }
        };
        self.columns.iter().map(array).collect()
    }
}

impl KeyColumn {
    fn wrong_type(&self, found: &DataType) -> KeyError {
        let expected = self.data_type.clone();
        KeyError::WrongType { column: self.name.clone(), expected, found: found.clone() }
    }
}

fn first_null(array: &ArrayRef) -> Option<usize> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0)?;
    (0..nulls.len()).find(|row| nulls.is_null(*row))
}

/// Where a column stands in the key; orders as the key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// An explicit place, from 1.
    At(u64),
    /// The older marker: after the explicit ones, by field id, then by index in the schema.
    After(i64, usize),
}

impl Place {
    fn of(index: usize, field: &Field) -> Result<Option<Self>, KeyError> {
        if let Some(text) = field.metadata().get(KEY_POSITION) {
            let wrong = || KeyError::Position {
                column: field.name().clone(),
                position: text.clone(),
                reason: "not a number from 1",
            };
            let place = parse_decimal(text).filter(|place| *place > 0).ok_or_else(wrong)?;
            return Ok(Some(Self::At(place)));
        }
        let truthy =
            |text: &String| matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "y" | "on");
        if !field.metadata().get(KEY_LEGACY).is_some_and(truthy) {
            return Ok(None);
        }
        let id = field.metadata().get(FIELD_ID).and_then(|id| id.parse().ok()).unwrap_or(i64::MAX);
        Ok(Some(Self::After(id, index)))
    }
}

fn check_places(marked: &[(Place, KeyColumn)]) -> Result<(), KeyError> {
    let mut next = 1;
    for (place, column) in marked {
        let Place::At(position) = place else { continue };
        let reason = match next {
            _ if *position < next => "another key column has it too",
            _ if *position > next => "places before it are not taken",
            _ => {
                next += 1;
                continue;
            }
        };
        return Err(KeyError::Position {
            column: column.name.clone(),
            position: position.to_string(),
            reason,
        });
    }
    Ok(())
}

fn key_column(index: usize, field: &Field) -> Result<KeyColumn, KeyError> {
    let name = field.name().clone();
    if field.data_type().is_nested() {
        return Err(KeyError::Nested { column: name });
    }
    let data_type = field.data_type().clone();
    let Some(key_type) = KeyType::of(&data_type) else {
        return Err(KeyError::UnsupportedType { column: name, data_type });
    };
    if field.is_nullable() {
        return Err(KeyError::Nullable { column: name });
    }
    Ok(KeyColumn { index, name, data_type, key_type })
}

fn refuse_marks_below(path: &str, field: &Field) -> Result<(), KeyError> {
    let below = |child: &Field| {
        let path = format!("{path}.{}", child.name());
        if Place::of(0, child)?.is_some() {
            return Err(KeyError::Nested { column: path });
        }
        refuse_marks_below(&path, child)
    };
    match field.data_type() {
        DataType::Struct(children) => children.iter().try_for_each(|child| below(child)),
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _) => below(child),
        _ => Ok(()),
    }
}
