//! Key values back from the forms they are compared in.
//!
//! Owns: the inverse of the encoding of a composite key, of one column at a time, and of the 64 bits of an
//! integer. Called by whoever asks an index of Lance, which wants values, for keys it has as bytes.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Int8Array, Int16Array, Int32Array, Int64Array, LargeBinaryArray,
    LargeStringArray, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};

use super::values::{NOT_NULL, SIGN, ZERO, ZERO_ESCAPE};
use super::{KeyColumn, KeySchema, KeyType};

impl KeyColumn {
    /// Values whose 64 bits, signed ones sign-extended, are `bits`. `None` for text and bytes.
    pub fn from_bits(&self, bits: impl IntoIterator<Item = u64>) -> Option<ArrayRef> {
        let bits = bits.into_iter();
        Some(match self.key_type {
            KeyType::Int8 => Arc::new(Int8Array::from_iter_values(bits.map(|bits| bits as i8))),
            KeyType::Int16 => Arc::new(Int16Array::from_iter_values(bits.map(|bits| bits as i16))),
            KeyType::Int32 => Arc::new(Int32Array::from_iter_values(bits.map(|bits| bits as i32))),
            KeyType::Int64 => Arc::new(Int64Array::from_iter_values(bits.map(u64::cast_signed))),
            KeyType::UInt8 => Arc::new(UInt8Array::from_iter_values(bits.map(|bits| bits as u8))),
            KeyType::UInt16 => Arc::new(UInt16Array::from_iter_values(bits.map(|bits| bits as u16))),
            KeyType::UInt32 => Arc::new(UInt32Array::from_iter_values(bits.map(|bits| bits as u32))),
            KeyType::UInt64 => Arc::new(UInt64Array::from_iter_values(bits)),
            KeyType::Boolean => Arc::new(bits.map(|bits| Some(bits != 0)).collect::<BooleanArray>()),
            KeyType::Utf8 | KeyType::LargeUtf8 | KeyType::Binary | KeyType::LargeBinary => return None,
        })
    }

    /// Values whose bytes are `values`. `None` for integers, and for text that is none.
    pub fn from_bytes<'a>(&self, values: impl IntoIterator<Item = &'a [u8]>) -> Option<ArrayRef> {
        let values = values.into_iter();
        let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).ok();
        Some(match self.key_type {
            KeyType::Utf8 => {
                Arc::new(values.map(|value| text(value).map(Some)).collect::<Option<StringArray>>()?)
            }
            KeyType::LargeUtf8 => {
                Arc::new(values.map(|value| text(value).map(Some)).collect::<Option<LargeStringArray>>()?)
            }
            KeyType::Binary => Arc::new(BinaryArray::from_iter_values(values)),
            KeyType::LargeBinary => Arc::new(LargeBinaryArray::from_iter_values(values)),
            _ => return None,
        })
    }
}

impl KeySchema {
    /// The values that the key column at `place` has in encoded keys. `None` when they are no encoded keys.
    pub fn decode<'a>(&self, place: usize, keys: impl IntoIterator<Item = &'a [u8]>) -> Option<ArrayRef> {
        let (column, before) = (self.columns().get(place)?, self.columns().get(..place)?);
        let part = |key: &'a [u8]| {
            let rest = before.iter().try_fold(key, |rest, column| Some(split(column.key_type, rest)?.1))?;
            Some(split(column.key_type, rest)?.0)
        };
        let parts: Vec<&[u8]> = keys.into_iter().map(part).collect::<Option<_>>()?;
        if !column.key_type.is_fixed_width() {
            let values: Vec<Vec<u8>> = parts.into_iter().map(unescape).collect();
            return column.from_bytes(values.iter().map(Vec::as_slice));
        }
        column.from_bits(parts.into_iter().map(|part| bits(column.key_type, part)))
    }
}

/// The encoded value at the start of `key`, without its marks, and what follows it.
fn split(key_type: KeyType, key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mark, rest) = key.split_first()?;
    if *mark != NOT_NULL {
        return None;
    }
    match key_type {
        KeyType::Boolean => rest.split_at_checked(1),
        of if of.is_fixed_width() => rest.split_at_checked(size_of::<u64>()),
        _ => {
            let mut end = 0;
            loop {
                match rest.get(end..)? {
                    [ZERO, ZERO, after @ ..] => return Some((rest.get(..end)?, after)),
                    [ZERO, _, ..] => end += 2,
                    [_, ..] => end += 1,
                    [] => return None,
                }
            }
        }
    }
}

fn unescape(value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [byte, after @ ..] = rest {
        bytes.push(*byte);
        rest = match after {
            [ZERO_ESCAPE, after @ ..] if *byte == ZERO => after,
            after => after,
        };
    }
    bytes
}

fn bits(key_type: KeyType, value: &[u8]) -> u64 {
    let big_endian = value.iter().fold(0, |bits, byte| (bits << 8) | u64::from(*byte));
    match key_type {
        KeyType::Int8 | KeyType::Int16 | KeyType::Int32 | KeyType::Int64 => big_endian ^ SIGN,
        _ => big_endian,
    }
}
