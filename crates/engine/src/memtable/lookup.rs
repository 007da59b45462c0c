//! The rows of a memtable by key, and who replaced whom: what the writer and every view share.
//!
//! Owns: [`Lookup`], the key index together with the marks. Does not own: the rows. The writer holds the lock
//! for the length of one batch, a reader for one question; a view reads marks without it, for marks it took
//! along stay right (see `marks`).

use headwater_format::coord::{RowOffset, Seq};

use super::key_index::KeyIndex;
use super::keys::{BatchKeys, KeyHash};
use super::marks::Marks;
use crate::hold::{Violation, hold};

/// Key index and marks of one memtable.
#[derive(Debug)]
pub(crate) struct Lookup {
    keys: KeyIndex,
    marks: Marks,
}

impl Lookup {
    /// Of no rows.
    pub(crate) fn new(hash: KeyHash) -> Self {
        Self { keys: KeyIndex::new(hash), marks: Marks::default() }
    }

    /// Adds the rows from `first` to `end` (exclusive), whose keys are `keys`; each replaces the newest
    /// earlier row of its key (P4). `seq` is the Seq of an offset.
    ///
    /// # Errors [`Violation`] when keys are of another form than before, or marks contradict the index.
    pub(crate) fn add(
        &mut self,
        first: u32,
        end: u32,
        keys: &BatchKeys,
        seq: impl Fn(u32) -> Seq,
    ) -> Result<(), Violation> {
        self.marks.grow(end);
        let marks = &self.marks;
        self.keys.add(first, keys, |offset, older| {
            let fresh = marks.supersede(older, seq(offset));
            hold!(P4, fresh, "row {older} was replaced already when row {offset} came");
            marks.set_predecessor(offset, older);
            Ok(())
        })
    }

    /// The newest row with the key that `keys` has at `row`.
    pub(crate) fn newest(&self, keys: &BatchKeys, row: usize) -> Option<RowOffset> {
        self.keys.newest(keys, row)
    }

    /// The newest row below `end` with the key that `keys` has at `row`: rows after it are followed back to
    /// what they replaced.
    pub(crate) fn newest_below(&self, keys: &BatchKeys, row: usize, end: u64) -> Option<RowOffset> {
        let mut offset = self.keys.newest(keys, row)?;
        while u64::from(offset.get()) >= end {
            offset = self.marks.predecessor(offset.get())?;
        }
        Some(offset)
    }

    /// Says that the rows of `keys`, which have Seqs from `first` on in a newer source, replace the rows of
    /// these keys; how many rows it marked.
    pub(crate) fn supersede_all(&self, keys: &BatchKeys, first: Seq) -> usize {
        let mut marked = 0;
        for row in 0..keys.len() {
            if let Some(offset) = self.keys.newest(keys, row) {
                marked += usize::from(self.marks.supersede(offset.get(), first.plus(row as u64)));
            }
        }
        marked
    }

    /// The row that `offset` replaced.
    pub(crate) fn predecessor(&self, offset: u32) -> Option<RowOffset> {
        self.marks.predecessor(offset)
    }

    /// The marks.
    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// How many different keys.
    pub(crate) fn distinct(&self) -> usize {
        self.keys.distinct()
    }

    /// Resident bytes of the key index.
    pub(crate) fn key_bytes(&self) -> u64 {
        self.keys.bytes()
    }

    /// Resident bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.keys.bytes() + self.marks.bytes()
    }
}
