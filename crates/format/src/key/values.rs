//! Values of one key column, read once, so that encoding and hashing a row costs no dispatch on 13 array
//! types.
//!
//! Owns: the bytes one value contributes to a key's encoding and hash. Called by the parent module only,
//! which has checked that there are no nulls.

use std::hash::Hasher;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, LargeBinaryArray, LargeStringArray, StringArray,
};

use super::KeyType;

pub(super) const NOT_NULL: u8 = 0x01;
pub(super) const ZERO: u8 = 0x00;
pub(super) const ZERO_ESCAPE: u8 = 0xFF;
const TEXT_END: u8 = 0xFF;
pub(super) const SIGN: u64 = 1 << 63;

pub(super) enum KeyValues<'a> {
    Signed { values: Vec<i64>, width: usize },
    Unsigned { values: Vec<u64>, width: usize },
    Boolean(&'a BooleanArray),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
}

impl<'a> KeyValues<'a> {
    /// `None` when `array` is not of `key_type`.
    pub(super) fn new(key_type: KeyType, array: &'a ArrayRef) -> Option<Self> {
        let any = array.as_any();
        Some(match key_type {
            KeyType::Int8 => signed::<Int8Type>(array)?,
            KeyType::Int16 => signed::<Int16Type>(array)?,
            KeyType::Int32 => signed::<Int32Type>(array)?,
            KeyType::Int64 => signed::<Int64Type>(array)?,
            KeyType::UInt8 => unsigned::<UInt8Type>(array)?,
            KeyType::UInt16 => unsigned::<UInt16Type>(array)?,
            KeyType::UInt32 => unsigned::<UInt32Type>(array)?,
            KeyType::UInt64 => unsigned::<UInt64Type>(array)?,
            KeyType::Boolean => Self::Boolean(any.downcast_ref()?),
            KeyType::Utf8 => Self::Text(any.downcast_ref()?),
            KeyType::LargeUtf8 => Self::LargeText(any.downcast_ref()?),
            KeyType::Binary => Self::Binary(any.downcast_ref()?),
            KeyType::LargeBinary => Self::LargeBinary(any.downcast_ref()?),
        })
    }

    /// Appends the order-preserving bytes of the value in `row`.
    pub(super) fn encode(&self, row: usize, out: &mut Vec<u8>) {
        out.push(NOT_NULL);
        match self {
            Self::Signed { values, .. } => {
                let flipped = at(values, row).cast_unsigned() ^ SIGN;
                out.extend_from_slice(&flipped.to_be_bytes());
            }
            Self::Unsigned { values, .. } => out.extend_from_slice(&at(values, row).to_be_bytes()),
            Self::Boolean(array) => out.push(u8::from(array.value(row))),
            Self::Text(array) => encode_bytes(array.value(row).as_bytes(), out),
            Self::LargeText(array) => encode_bytes(array.value(row).as_bytes(), out),
            Self::Binary(array) => encode_bytes(array.value(row), out),
            Self::LargeBinary(array) => encode_bytes(array.value(row), out),
        }
    }

    /// Feeds the value in `row` to `hasher`. Only raw bytes are written: what `Hash` does with lengths and
    /// text is not ours to rely on.
    pub(super) fn hash(&self, row: usize, hasher: &mut impl Hasher) {
        hasher.write(&[ZERO]);
        match self {
            Self::Signed { values, width } => hash_fixed(at(values, row).to_le_bytes(), *width, hasher),
            Self::Unsigned { values, width } => hash_fixed(at(values, row).to_le_bytes(), *width, hasher),
            Self::Boolean(array) => hasher.write(&[u8::from(array.value(row))]),
            Self::Text(array) => hash_text(array.value(row), hasher),
            Self::LargeText(array) => hash_text(array.value(row), hasher),
            Self::Binary(array) => hash_binary(array.value(row), hasher),
            Self::LargeBinary(array) => hash_binary(array.value(row), hasher),
        }
    }
}

fn signed<'a, T>(array: &ArrayRef) -> Option<KeyValues<'a>>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i64>,
{
    let values = array.as_primitive_opt::<T>()?.values().iter().map(|value| (*value).into()).collect();
    Some(KeyValues::Signed { values, width: size_of::<T::Native>() })
}

fn unsigned<'a, T>(array: &ArrayRef) -> Option<KeyValues<'a>>
where
    T: ArrowPrimitiveType,
    T::Native: Into<u64>,
{
    let values = array.as_primitive_opt::<T>()?.values().iter().map(|value| (*value).into()).collect();
    Some(KeyValues::Unsigned { values, width: size_of::<T::Native>() })
}

/// Rows come from `0..num_rows` of the same batch, so there always is a value.
fn at<T: Copy + Default>(values: &[T], row: usize) -> T {
    values.get(row).copied().unwrap_or_default()
}

fn encode_bytes(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        out.push(*byte);
        if *byte == ZERO {
            out.push(ZERO_ESCAPE);
        }
    }
    out.extend_from_slice(&[ZERO, ZERO]);
}

fn hash_fixed(little_endian: [u8; 8], width: usize, hasher: &mut impl Hasher) {
    hasher.write(little_endian.get(..width).unwrap_or_default());
}

fn hash_text(value: &str, hasher: &mut impl Hasher) {
    hasher.write(value.as_bytes());
    hasher.write(&[TEXT_END]);
}

fn hash_binary(value: &[u8], hasher: &mut impl Hasher) {
    let length = u64::try_from(value.len()).unwrap_or(u64::MAX);
    hasher.write(&length.to_le_bytes());
    hasher.write(value);
}
