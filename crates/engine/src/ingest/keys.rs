//! Keys of shaped rows, in the form the key index takes them.
//!
//! Owns: [`extract`]. Does not own: which columns are the key, or the encoding of composite keys
//! (`headwater_format::key`).

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, BinaryArray, LargeBinaryArray, RecordBatch};
use arrow_schema::DataType;
use headwater_format::key::{KeyError, KeySchema};

use super::compact;
use super::error::InvalidInput;
use super::nulls;
use crate::memtable::{BatchKeys, ByteKeys, IntKeys};

/// The keys of rows that are in the storage schema already, or of their key columns alone.
///
/// # Errors
/// [`InvalidInput`] when a key column is missing, of another type, or null.
pub fn batch_keys(key: &KeySchema, batch: &RecordBatch) -> Result<BatchKeys, InvalidInput> {
    if let Some(column) = key.single()
        && let Some(keys) = single(values(&column.name, batch)?)
    {
        return Ok(keys);
    }
    extract(key, batch).map(|(keys, _)| keys)
}

/// A key column of `batch`, without a null.
fn values<'a>(column: &str, batch: &'a RecordBatch) -> Result<&'a ArrayRef, InvalidInput> {
    let array = batch.column_by_name(column);
    let array = array.ok_or_else(|| KeyError::Missing { column: column.to_owned() })?;
    match nulls::first_null(array) {
        Some(row) => Err(InvalidInput::NullKey { column: column.to_owned(), row }),
        None => Ok(array),
    }
}

/// The values that the key column at `place` has in `keys`, which are of a table with this key. `None` when
/// they are not.
pub fn key_column(key: &KeySchema, keys: &BatchKeys, place: usize) -> Option<ArrayRef> {
    match (keys, key.single()) {
        (BatchKeys::Ints(keys), Some(column)) => column.from_bits(keys.values().iter().copied()),
        (BatchKeys::Bytes(keys), Some(column)) => column.from_bytes(keys.iter()),
        (BatchKeys::Bytes(keys), None) => key.decode(place, keys.iter()),
        _ => None,
    }
}

/// Keys of `batch` and their logical bytes.
pub(super) fn extract(key: &KeySchema, batch: &RecordBatch) -> Result<(BatchKeys, u64), InvalidInput> {
    let mut bytes = 0;
    let mut columns = Vec::with_capacity(key.columns().len());
    for column in key.columns() {
        let array = values(&column.name, batch)?;
        bytes += compact::value_bytes(array);
        columns.push(array);
    }
    let single = match columns.as_slice() {
        [array] => single(array),
        _ => None,
    };
    let keys = match single {
        Some(keys) => keys,
        None => BatchKeys::Bytes(ByteKeys::short(key.encode(batch)?)),
    };
    Ok((keys, bytes))
}

/// Keys of a table with one key column. None for a type that is compared by its encoding.
fn single(array: &ArrayRef) -> Option<BatchKeys> {
    let keys = match array.data_type() {
        DataType::Int8 => ints::<Int8Type>(array, |value| i64::from(value) as u64),
        DataType::Int16 => ints::<Int16Type>(array, |value| i64::from(value) as u64),
        DataType::Int32 => ints::<Int32Type>(array, |value| i64::from(value) as u64),
        DataType::Int64 => ints::<Int64Type>(array, |value| value as u64),
        DataType::UInt8 => ints::<UInt8Type>(array, u64::from),
        DataType::UInt16 => ints::<UInt16Type>(array, u64::from),
        DataType::UInt32 => ints::<UInt32Type>(array, u64::from),
        DataType::UInt64 => ints::<UInt64Type>(array, |value| value),
        DataType::Boolean => {
            let values = array.as_boolean().values().iter().map(u64::from);
            BatchKeys::Ints(IntKeys::new(values.collect()))
        }
        DataType::Utf8 => {
            BatchKeys::Bytes(ByteKeys::short(BinaryArray::from(array.as_string::<i32>().clone())))
        }
        DataType::LargeUtf8 => {
            BatchKeys::Bytes(ByteKeys::long(LargeBinaryArray::from(array.as_string::<i64>().clone())))
        }
        DataType::Binary => BatchKeys::Bytes(ByteKeys::short(array.as_binary::<i32>().clone())),
        DataType::LargeBinary => BatchKeys::Bytes(ByteKeys::long(array.as_binary::<i64>().clone())),
        _ => return None,
    };
    Some(keys)
}

fn ints<T: ArrowPrimitiveType>(array: &ArrayRef, widen: impl Fn(T::Native) -> u64) -> BatchKeys {
    let values = array.as_primitive::<T>().values().iter().map(|value| widen(*value));
    BatchKeys::Ints(IntKeys::new(values.collect()))
}
