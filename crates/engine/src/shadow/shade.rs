//! Which rows of an SSTable were replaced, and by which `Seq`.
//!
//! Owns: [`Shadow`]: the replaced rows of one SSTable, fed in `Seq` order through its key index. A reader
//! that needs S catches it up to S first: lag costs time, never rows.

use std::sync::Arc;

use headwater_format::coord::Seq;
use parking_lot::Mutex;
use roaring::RoaringBitmap;

use super::replaced::Replaced;
use super::runs::{Run, number, unaccounted};
use super::source_keys::SourceKeys;
use crate::error::ShardError;

/// The shadow that the newer rows of a shard cast on one of its SSTables. Empty at first.
#[derive(Debug, Default)]
pub struct Shadow {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Rows below this number of the shard's order are accounted for; none at first.
    fed: Option<i64>,
    /// Rows by offset.
    replaced: Replaced,
}

impl Shadow {
    /// Accounts for all rows of `runs` below `through`: `runs` are all sources newer than the SSTable, whose
    /// keys are `keys`, ascending and without gaps. Rows accounted for before are skipped, so it costs what
    /// is new.
    ///
    /// # Errors
    /// [`ShardError::Internal`] when there is a gap (P8).
    pub fn catch_up(&self, keys: &SourceKeys, runs: &[Run<'_>], through: Seq) -> Result<(), ShardError> {
        let State { fed, replaced } = &mut *self.state.lock();
        let new = unaccounted(runs, *fed, number(through))?;
        for run in runs {
            run.walk(new.clone(), |newer, first, step| {
                for row in 0..newer.len() {
                    // Older rows of the key were replaced inside the generation.
                    if let Some(older) = keys.newest(newer, row) {
                        replaced.add(u64::from(older.get()), first.plus(row as u64 * step))?;
                    }
                }
                Ok(())
            })?;
        }
        if !runs.is_empty() {
            *fed = Some(new.end);
        }
        Ok(())
    }

    /// Offsets of the rows replaced below `at`, for a shadow that was caught up to `at`.
    pub fn hidden(&self, at: Seq) -> Arc<RoaringBitmap> {
        self.state.lock().replaced.at(at).fragment(0).cloned().unwrap_or_default()
    }

    /// Resident bytes.
    pub fn bytes(&self) -> u64 {
        self.state.lock().replaced.bytes()
    }
}
