//! The key index: key → newest row of that key in one memtable, by exact comparison.
//!
//! Owns: a log of keys by row offset and a hash table of offsets into it. Does not own: what happens to the
//! row that was newest before (`marks`). The table keeps no keys, so it costs five bytes a bucket; the log is
//! kept in segments, so it never holds twice what it needs. Keeps P4 (never decided by a hash alone).

use std::ops::Range;

use arrow_array::LargeBinaryArray;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use headwater_format::coord::RowOffset;

use super::keys::{BatchKeys, ByteKeys, IntKeys, KeyHash};
use crate::hold::{Violation, hold};

/// Keys of one segment of the log.
const SEGMENT_ROWS: usize = 1024;

/// Newest row by key. Rows are added in order.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    log: KeyLog,
    newest: HashTable<u32>,
    hash: KeyHash,
}

/// Keys by row offset. Which form is decided by the first keys; `Empty` before.
#[derive(Debug)]
enum KeyLog {
    Empty,
    Ints(IntLog),
    Bytes(ByteLog),
}

impl KeyIndex {
    /// An empty index.
    pub(crate) fn new(hash: KeyHash) -> Self {
        Self { log: KeyLog::Empty, newest: HashTable::new(), hash }
    }

    /// Adds the rows of `keys`, which start at offset `first`; calls `replaced(offset, older)` for each row
    /// whose key has an older row here.
    ///
    /// # Errors [`Violation`] when the keys are of another form than the earlier ones or `replaced` says so;
    /// nothing may be added after that.
    pub(crate) fn add(
        &mut self,
        first: u32,
        keys: &BatchKeys,
        mut replaced: impl FnMut(u32, u32) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let hash = self.hash;
        self.take_form(keys);
        match (&mut self.log, keys) {
            (KeyLog::Ints(log), BatchKeys::Ints(keys)) => {
                for (offset, &key) in (first..).zip(keys.values()) {
                    let entry = self.newest.entry(
                        hash.int(key),
                        |&row| log.get(row) == Some(key),
                        |&row| hash.int(log.get(row).unwrap_or_default()),
                    );
                    let older = exchange(entry, offset);
                    log.push(key);
                    if let Some(older) = older {
                        replaced(offset, older)?;
                    }
                }
                Ok(())
            }
            (KeyLog::Bytes(log), BatchKeys::Bytes(keys)) => {
                log.admit(keys.value_bytes())?;
                for ((offset, &exact), row) in (first..).zip(keys.hashes()).zip(0..) {
                    let Some(key) = keys.value(row) else { break };
                    let entry = self.newest.entry(
                        hash.settle(exact),
                        |&row| log.get(row) == Some(key),
                        |&row| hash.bytes(log.get(row).unwrap_or_default()),
                    );
                    let older = exchange(entry, offset);
                    log.push(key);
                    if let Some(older) = older {
                        replaced(offset, older)?;
                    }
                }
                Ok(())
            }
            (_, keys) => {
                hold!(
                    P4,
                    keys.is_empty(),
                    "keys of a batch at row {first} have another form than earlier ones"
                );
                Ok(())
            }
        }
    }

    /// Adds the key that `keys` has at `row` under the next number, unless it is here; whether it was not.
    /// For an index that nothing else is added to: numbers count different keys.
    ///
    /// # Errors [`Violation`] as [`Self::add`].
    pub(crate) fn add_new(&mut self, keys: &BatchKeys, row: usize) -> Result<bool, Violation> {
        let (hash, number) = (self.hash, self.newest.len() as u32);
        self.take_form(keys);
        match (&mut self.log, keys) {
            (KeyLog::Ints(log), BatchKeys::Ints(keys)) => {
                let Some(&key) = keys.values().get(row) else { return Ok(false) };
                let entry = self.newest.entry(
                    hash.int(key),
                    |&row| log.get(row) == Some(key),
                    |&row| hash.int(log.get(row).unwrap_or_default()),
                );
                let Entry::Vacant(entry) = entry else { return Ok(false) };
                entry.insert(number);
                log.push(key);
            }
            (KeyLog::Bytes(log), BatchKeys::Bytes(keys)) => {
                let (Some(key), Some(exact)) = (keys.value(row), keys.hash(row)) else { return Ok(false) };
                log.admit(key.len() as u64)?;
                let entry = self.newest.entry(
                    hash.settle(exact),
                    |&row| log.get(row) == Some(key),
                    |&row| hash.bytes(log.get(row).unwrap_or_default()),
                );
                let Entry::Vacant(entry) = entry else { return Ok(false) };
                entry.insert(number);
                log.push(key);
            }
            (_, keys) => {
                hold!(P4, keys.is_empty(), "key {number} has another form than those before");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The first keys decide the form of all.
    fn take_form(&mut self, keys: &BatchKeys) {
        if let KeyLog::Empty = self.log {
            match keys {
                BatchKeys::None => {}
                BatchKeys::Ints(_) => self.log = KeyLog::Ints(IntLog::default()),
                BatchKeys::Bytes(_) => self.log = KeyLog::Bytes(ByteLog::default()),
            }
        }
    }

    /// The newest row with the key that `keys` has at `row`.
    pub(crate) fn newest(&self, keys: &BatchKeys, row: usize) -> Option<RowOffset> {
        let found = match (&self.log, keys) {
            (KeyLog::Ints(log), BatchKeys::Ints(keys)) => {
                let key = *keys.values().get(row)?;
                self.newest.find(self.hash.int(key), |&row| log.get(row) == Some(key))
            }
            (KeyLog::Bytes(log), BatchKeys::Bytes(keys)) => {
                let (key, exact) = (keys.value(row)?, keys.hash(row)?);
                self.newest.find(self.hash.settle(exact), |&row| log.get(row) == Some(key))
            }
            _ => None,
        };
        found.copied().map(RowOffset::new)
    }

    /// The keys of the rows in `range`, in order.
    pub(crate) fn rows(&self, range: Range<u32>) -> BatchKeys {
        match &self.log {
            KeyLog::Empty => BatchKeys::None,
            KeyLog::Ints(log) => {
                BatchKeys::Ints(IntKeys::new(range.filter_map(|row| log.get(row)).collect()))
            }
            KeyLog::Bytes(log) => {
                let keys = range.filter_map(|row| log.get(row));
                BatchKeys::Bytes(ByteKeys::long(LargeBinaryArray::from_iter_values(keys)))
            }
        }
    }

    /// How many different keys.
    pub(crate) fn distinct(&self) -> usize {
        self.newest.len()
    }

    /// Resident bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let log = match &self.log {
            KeyLog::Empty => 0,
            KeyLog::Ints(log) => log.bytes(),
            KeyLog::Bytes(log) => log.bytes(),
        };
        log + self.newest.allocation_size() as u64
    }
}

/// Makes `offset` the newest row of the entry's key; the one it was before.
#[inline]
fn exchange(entry: Entry<'_, u32>, offset: u32) -> Option<u32> {
    match entry {
        Entry::Occupied(mut entry) => Some(std::mem::replace(entry.get_mut(), offset)),
        Entry::Vacant(entry) => {
            entry.insert(offset);
            None
        }
    }
}

/// Integer keys by row offset.
#[derive(Debug, Default)]
struct IntLog {
    segments: Vec<Vec<u64>>,
}

impl IntLog {
    #[inline]
    fn get(&self, row: u32) -> Option<u64> {
        let row = row as usize;
        self.segments.get(row / SEGMENT_ROWS)?.get(row % SEGMENT_ROWS).copied()
    }

    #[inline]
    fn push(&mut self, key: u64) {
        match self.segments.last_mut() {
            Some(segment) if segment.len() < SEGMENT_ROWS => segment.push(key),
            _ => {
                let mut segment = Vec::with_capacity(SEGMENT_ROWS);
                segment.push(key);
                self.segments.push(segment);
            }
        }
    }

    fn bytes(&self) -> u64 {
        let keys = self.segments.len() * SEGMENT_ROWS * size_of::<u64>();
        (keys + self.segments.capacity() * size_of::<Vec<u64>>()) as u64
    }
}

/// Byte-string keys by row offset.
#[derive(Debug, Default)]
struct ByteLog {
    segments: Vec<ByteSegment>,
    /// Bytes held by segments that are full.
    full: u64,
}

#[derive(Debug, Default)]
struct ByteSegment {
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<u32>,
}

impl ByteSegment {
    #[inline]
    fn get(&self, row: usize) -> Option<&[u8]> {
        let end = *self.ends.get(row)? as usize;
        let start = row.checked_sub(1).and_then(|row| self.ends.get(row)).map_or(0, |end| *end as usize);
        self.bytes.get(start..end)
    }

    fn held(&self) -> u64 {
        (self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()) as u64
    }
}

impl ByteLog {
    /// Whether `more` bytes of keys fit wherever they go.
    fn admit(&self, more: u64) -> Result<(), Violation> {
        let last = self.segments.last().map_or(0, |segment| segment.bytes.len() as u64);
        let most = u64::from(u32::MAX);
        hold!(P4, last + more <= most, "{last} and {more} bytes of keys in {SEGMENT_ROWS} neighbouring rows");
        Ok(())
    }

    #[inline]
    fn get(&self, row: u32) -> Option<&[u8]> {
        let row = row as usize;
        self.segments.get(row / SEGMENT_ROWS)?.get(row % SEGMENT_ROWS)
    }

    #[inline]
    fn push(&mut self, key: &[u8]) {
        if self.segments.last().is_none_or(|segment| segment.ends.len() == SEGMENT_ROWS) {
            if let Some(last) = self.segments.last_mut() {
                last.bytes.shrink_to_fit();
                last.ends.shrink_to_fit();
                self.full += last.held();
            }
            self.segments.push(ByteSegment::default());
        }
        if let Some(segment) = self.segments.last_mut() {
            segment.bytes.extend_from_slice(key);
            segment.ends.push(segment.bytes.len() as u32);
        }
    }

    fn bytes(&self) -> u64 {
        let last = self.segments.last().map_or(0, ByteSegment::held);
        self.full + last + (self.segments.capacity() * size_of::<ByteSegment>()) as u64
    }
}
