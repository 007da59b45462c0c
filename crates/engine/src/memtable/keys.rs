//! Keys of a batch in the form the key index compares them.
//!
//! Owns: [`BatchKeys`] and the hash. Does not own: which columns are the key (`headwater_format::key`). Built
//! on the caller's task, so that the conductor only probes. Equality of keys is equality of these values,
//! exactly.

use std::hash::{BuildHasher, Hasher};

use arrow_array::{Array, BinaryArray, LargeBinaryArray};
use foldhash::fast::FixedState;

/// Fixed, so that runs with the same seed do the same (no ambient randomness).
const HASH_SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// Odd, with well-spread bits: the multiplier of the integer hash.
const HASH_FACTOR: u64 = 0xd1b5_4a32_d192_ed03;

/// The keys of a batch, row by row.
#[derive(Clone, Debug)]
pub enum BatchKeys {
    /// The table has no key: every row is kept.
    None,
    /// One integer or Boolean key column, as 64 bits.
    Ints(IntKeys),
    /// One text or binary key column, or the encoded bytes of a composite key.
    Bytes(ByteKeys),
}

impl BatchKeys {
    /// How many keys; none for a table without a key.
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Ints(keys) => keys.values.len(),
            Self::Bytes(keys) => keys.hashes.len(),
        }
    }

    /// Whether the table has a key.
    pub fn is_keyed(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Integer keys.
#[derive(Clone, Debug)]
pub struct IntKeys {
    values: Vec<u64>,
}

impl IntKeys {
    /// Signed values are sign-extended, so that equal keys are equal numbers whatever their width.
    pub fn new(values: Vec<u64>) -> Self {
        Self { values }
    }

    pub(crate) fn values(&self) -> &[u64] {
        &self.values
    }
}

/// Byte-string keys with their hashes.
#[derive(Clone, Debug)]
pub struct ByteKeys {
    values: ByteValues,
    hashes: Vec<u64>,
}

#[derive(Clone, Debug)]
enum ByteValues {
    Short(BinaryArray),
    Long(LargeBinaryArray),
}

impl ByteKeys {
    /// Keys with 32-bit offsets. None of them is null.
    pub fn short(values: BinaryArray) -> Self {
        let hashes = (0..values.len()).map(|row| KeyHash::Exact.bytes(values.value(row))).collect();
        Self { values: ByteValues::Short(values), hashes }
    }

    /// Keys with 64-bit offsets. None of them is null.
    pub fn long(values: LargeBinaryArray) -> Self {
        let hashes = (0..values.len()).map(|row| KeyHash::Exact.bytes(values.value(row))).collect();
        Self { values: ByteValues::Long(values), hashes }
    }

    /// The key of `row`.
    pub(crate) fn value(&self, row: usize) -> Option<&[u8]> {
        match &self.values {
            ByteValues::Short(values) if row < values.len() => Some(values.value(row)),
            ByteValues::Long(values) if row < values.len() => Some(values.value(row)),
            _ => None,
        }
    }

    /// All keys in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.hashes.len()).filter_map(|row| self.value(row))
    }

    /// The hash of `row`'s key under [`KeyHash::Exact`].
    pub(crate) fn hash(&self, row: usize) -> Option<u64> {
        self.hashes.get(row).copied()
    }

    /// The hashes of all keys under [`KeyHash::Exact`].
    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Bytes of all keys.
    pub(crate) fn value_bytes(&self) -> u64 {
        match &self.values {
            ByteValues::Short(values) => ends(values.value_offsets().iter().map(|end| i64::from(*end))),
            ByteValues::Long(values) => ends(values.value_offsets().iter().copied()),
        }
    }
}

fn ends(mut offsets: impl DoubleEndedIterator<Item = i64>) -> u64 {
    let first = offsets.next().unwrap_or_default();
    let last = offsets.next_back().unwrap_or(first);
    u64::try_from(last - first).unwrap_or_default()
}

/// How keys are hashed. Nothing but speed hangs on it: keys are compared exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeyHash {
    /// The real one.
    #[default]
    Exact,
    /// Every key has one hash: tests prove with it that nobody relies on the hash.
    #[cfg(test)]
    AllCollide,
}

impl KeyHash {
    /// Hash of an integer key: a folded multiplication.
    #[inline]
    pub(crate) fn int(self, key: u64) -> u64 {
        let product = u128::from(key ^ HASH_SEED) * u128::from(HASH_FACTOR);
        self.settle((product as u64) ^ ((product >> 64) as u64))
    }

    /// Hash of a byte-string key.
    #[inline]
    pub(crate) fn bytes(self, key: &[u8]) -> u64 {
        let mut hasher = FixedState::with_seed(HASH_SEED).build_hasher();
        hasher.write(key);
        self.settle(hasher.finish())
    }

    /// The hash this variant uses for a key whose exact hash is `hash`.
    #[inline]
    pub(crate) fn settle(self, hash: u64) -> u64 {
        match self {
            Self::Exact => hash,
            #[cfg(test)]
            Self::AllCollide => 7,
        }
    }
}
