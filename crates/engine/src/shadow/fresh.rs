//! Keys of newer rows that have to be looked for in an older source.
//!
//! Owns: [`FreshKeys`]: each key once, with the first row that has it. Keys are compared exactly (P4). Takes
//! memory for the keys that came, whatever the size of the source they are looked for in.

use std::ops::Range;

use headwater_format::coord::Seq;

use super::runs::Run;
use crate::error::ShardError;
use crate::hold::Violation;
use crate::memtable::{BatchKeys, KeyHash, KeyIndex};

/// Different keys, in the order of their first rows.
#[derive(Debug)]
pub struct FreshKeys {
    keys: KeyIndex,
    first: Vec<Seq>,
}

impl Default for FreshKeys {
    fn default() -> Self {
        Self { keys: KeyIndex::new(KeyHash::default()), first: Vec::new() }
    }
}

impl FreshKeys {
    /// The keys of the rows of `runs` with numbers in `range` that no row below `range` has. `runs` ascend
    /// and have all rows below `range` that were not part of the source.
    pub(super) fn of(runs: &[Run<'_>], range: &Range<i64>) -> Result<Self, ShardError> {
        let mut fresh = Self::default();
        for (place, run) in runs.iter().enumerate() {
            let older = runs.get(..place).unwrap_or_default();
            // Runs within the range need not be asked: their keys are here.
            let older: Vec<&Run<'_>> = older.iter().filter(|older| older.order.start < range.start).collect();
            run.walk(range.clone(), |keys, first, step| {
                let mut rows: Vec<usize> = (0..keys.len()).collect();
                run.leave_out_replacing(first, &mut rows);
                for older in &older {
                    older.leave_out_known(keys, &mut rows);
                }
                for row in rows {
                    fresh.add(keys, row, first.plus(row as u64 * step))?;
                }
                Ok(())
            })?;
        }
        Ok(fresh)
    }

    fn add(&mut self, keys: &BatchKeys, row: usize, by: Seq) -> Result<(), Violation> {
        if self.keys.add_new(keys, row)? {
            self.first.push(by);
        }
        Ok(())
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The keys numbered `range`.
    pub fn keys(&self, range: Range<u32>) -> BatchKeys {
        self.keys.rows(range)
    }

    /// `Seq` of the first row with the key that `keys` has at `row`; [`Seq::ZERO`] when that row has none.
    pub fn first(&self, keys: &BatchKeys, row: usize) -> Option<Seq> {
        self.first.get(self.keys.newest(keys, row)?.get() as usize).copied()
    }
}
