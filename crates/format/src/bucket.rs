//! The bucket function: which of `n` shards a value belongs to.
//!
//! Owns: [`bucket`] for one array. Does not own: sharding specs, or which shard serves a bucket.
//! Every writer of a table must agree on it bit by bit, or two shards get rows of one key.
//!
//! A 32-bit Murmur3-like hash with seed 0 over words of the value; bucket = (hash & 0x7fff_ffff) mod n; null
//! → 0.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayAccessor};
use arrow_schema::{DataType, TimeUnit};

#[cfg(test)]
mod tests;

/// How many buckets a table can have.
pub const BUCKETS: std::ops::RangeInclusive<u32> = 1..=1024;

const SEED: u32 = 0;
const POSITIVE: u32 = 0x7fff_ffff;
const NAN_32: u32 = 0x7fc0_0000;
const NAN_64: u64 = 0x7ff8_0000_0000_0000;

/// Why there are no buckets for an array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// Not in [`BUCKETS`].
    #[error("{num_buckets} buckets; there can be 1 to 1024")]
    NumBuckets {
        /// How many were asked for.
        num_buckets: u32,
    },
    /// The type cannot be bucketed.
    #[error(
        "values of type {data_type} have no bucket; a bucket column can be of an integer type, Boolean, \
         Float32, Float64, Date32, a time or timestamp type, Utf8 or LargeUtf8"
    )]
    UnsupportedType {
        /// The type.
        data_type: DataType,
    },
}

/// Whether values of the type have buckets.
pub fn is_supported(data_type: &DataType) -> bool {
    hashes(arrow_array::new_empty_array(data_type).as_ref()).is_some()
}

/// The bucket of each value of `array`, below `num_buckets`.
///
/// # Errors
/// [`BucketError`] for a number of buckets outside [`BUCKETS`] or an unsupported type.
pub fn bucket(array: &dyn Array, num_buckets: u32) -> Result<Vec<u32>, BucketError> {
    if !BUCKETS.contains(&num_buckets) {
        return Err(BucketError::NumBuckets { num_buckets });
    }
    let unsupported = || BucketError::UnsupportedType { data_type: array.data_type().clone() };
    let hashes = hashes(array).ok_or_else(unsupported)?;
    Ok(hashes.into_iter().map(|hash| (hash & POSITIVE) % num_buckets).collect())
}

/// The hash of each value; `None` for an unsupported type.
fn hashes(array: &dyn Array) -> Option<Vec<u32>> {
    match array.data_type() {
        DataType::Boolean => Some(each(array.as_boolean_opt()?, |value| word(u32::from(value)))),
        DataType::Int8 => narrow::<Int8Type>(array, |value| i32::from(value).cast_unsigned()),
        DataType::Int16 => narrow::<Int16Type>(array, |value| i32::from(value).cast_unsigned()),
        DataType::Int32 => narrow::<Int32Type>(array, i32::cast_unsigned),
        DataType::UInt8 => narrow::<UInt8Type>(array, u32::from),
        DataType::UInt16 => narrow::<UInt16Type>(array, u32::from),
        DataType::UInt32 => narrow::<UInt32Type>(array, |value| value),
        DataType::Date32 => narrow::<Date32Type>(array, i32::cast_unsigned),
        DataType::Time32(TimeUnit::Second) => narrow::<Time32SecondType>(array, i32::cast_unsigned),
        DataType::Time32(TimeUnit::Millisecond) => narrow::<Time32MillisecondType>(array, i32::cast_unsigned),
        DataType::Float32 => narrow::<Float32Type>(array, bits_32),
        DataType::Int64 => wide::<Int64Type>(array, i64::cast_unsigned),
        DataType::UInt64 => wide::<UInt64Type>(array, |value| value),
        DataType::Float64 => wide::<Float64Type>(array, bits_64),
        DataType::Time64(TimeUnit::Microsecond) => wide::<Time64MicrosecondType>(array, i64::cast_unsigned),
        DataType::Time64(TimeUnit::Nanosecond) => wide::<Time64NanosecondType>(array, i64::cast_unsigned),
        DataType::Timestamp(TimeUnit::Second, _) => wide::<TimestampSecondType>(array, i64::cast_unsigned),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            wide::<TimestampMillisecondType>(array, i64::cast_unsigned)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            wide::<TimestampMicrosecondType>(array, i64::cast_unsigned)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            wide::<TimestampNanosecondType>(array, i64::cast_unsigned)
        }
        DataType::Utf8 => Some(each(array.as_string_opt::<i32>()?, text)),
        DataType::LargeUtf8 => Some(each(array.as_string_opt::<i64>()?, text)),
        _ => None,
    }
}

fn narrow<T: ArrowPrimitiveType>(array: &dyn Array, bits: impl Fn(T::Native) -> u32) -> Option<Vec<u32>> {
    Some(each(array.as_primitive_opt::<T>()?, |value| word(bits(value))))
}

fn wide<T: ArrowPrimitiveType>(array: &dyn Array, bits: impl Fn(T::Native) -> u64) -> Option<Vec<u32>> {
    Some(each(array.as_primitive_opt::<T>()?, |value| double_word(bits(value))))
}

fn each<A: ArrayAccessor>(array: A, hash: impl Fn(A::Item) -> u32) -> Vec<u32> {
    (0..array.len()).map(|row| if array.is_null(row) { SEED } else { hash(array.value(row)) }).collect()
}

fn bits_32(value: f32) -> u32 {
    match value {
        _ if value.is_nan() => NAN_32,
        0.0 => 0,
        _ => value.to_bits(),
    }
}

fn bits_64(value: f64) -> u64 {
    match value {
        _ if value.is_nan() => NAN_64,
        0.0 => 0,
        _ => value.to_bits(),
    }
}

fn word(value: u32) -> u32 {
    finish(mix(SEED, value), 4)
}

fn double_word(value: u64) -> u32 {
    let (low, high) = (value as u32, (value >> 32) as u32);
    finish(mix(mix(SEED, low), high), 8)
}

fn text(value: &str) -> u32 {
    let (words, rest) = value.as_bytes().as_chunks::<4>();
    let hash = words.iter().fold(SEED, |hash, bytes| mix(hash, u32::from_le_bytes(*bytes)));
    let signed = |byte: &u8| i32::from(byte.cast_signed()).cast_unsigned();
    let hash = rest.iter().fold(hash, |hash, byte| mix(hash, signed(byte)));
    // The length counts modulo 2^32, as every step here does.
    finish(hash, value.len() as u32)
}

fn mix(hash: u32, word: u32) -> u32 {
    let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

fn finish(hash: u32, length: u32) -> u32 {
    let hash = hash ^ length;
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}
