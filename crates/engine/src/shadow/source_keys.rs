//! The keys of an immutable source, in memory.
//!
//! Owns: [`SourceKeys`] and how it is built. Does not own: where the rows lie; rows are known by number, from
//! 0, in the order their keys came.

use std::ops::Range;

use headwater_format::coord::RowOffset;

use crate::hold::{Violation, hold};
use crate::memtable::{BatchKeys, KeyHash, KeyIndex};

/// Rows handed on at once when one source shades another.
const RUN_ROWS: u32 = 64 << 10;

/// Which row is the last with a key, exactly: it has replaced those before it. Built once, never changed.
#[derive(Debug)]
pub struct SourceKeys {
    keys: KeyIndex,
    rows: u32,
}

/// Takes keys in row order.
#[derive(Debug)]
pub struct SourceKeysBuilder {
    built: SourceKeys,
}

impl Default for SourceKeysBuilder {
    fn default() -> Self {
        Self { built: SourceKeys { keys: KeyIndex::new(KeyHash::default()), rows: 0 } }
    }
}

impl SourceKeysBuilder {
    /// The keys of the next rows.
    ///
    /// # Errors
    /// [`Violation`] when there are more rows than numbers, or keys change their form.
    pub fn push(&mut self, keys: &BatchKeys) -> Result<(), Violation> {
        let SourceKeys { keys: index, rows } = &mut self.built;
        let end = u32::try_from(keys.len()).ok().and_then(|more| rows.checked_add(more));
        let Some(end) = end.filter(|end| *end < u32::MAX) else {
            return Err(Violation::new("P4", format!("{} keys do not fit after {rows}", keys.len())));
        };
        index.add(*rows, keys, |_, _| Ok(()))?;
        *rows = end;
        Ok(())
    }

    /// The index of all keys pushed.
    pub fn finish(self) -> SourceKeys {
        self.built
    }
}

impl SourceKeys {
    /// How many rows.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The last row with the key that `keys` has at `row`.
    pub fn newest(&self, keys: &BatchKeys, row: usize) -> Option<RowOffset> {
        self.keys.newest(keys, row)
    }

    /// The keys of the rows in `range`, in pieces, each with the number of its first row.
    pub(crate) fn pieces(&self, range: Range<u32>) -> impl Iterator<Item = (u32, BatchKeys)> + '_ {
        let (start, end) = (range.start, range.end.min(self.rows));
        let starts = (start..end).step_by(RUN_ROWS as usize);
        starts.map(move |first| (first, self.keys.rows(first..end.min(first.saturating_add(RUN_ROWS)))))
    }

    /// Resident bytes.
    pub fn bytes(&self) -> u64 {
        self.keys.bytes()
    }

    /// Checks that there are as many keys as the source has rows (P9: a key sidecar has every row).
    ///
    /// # Errors
    /// [`Violation`] naming both counts.
    pub fn check_rows(&self, rows: u64) -> Result<(), Violation> {
        hold!(P9, u64::from(self.rows) == rows, "{} keys for {rows} rows", self.rows);
        Ok(())
    }
}
