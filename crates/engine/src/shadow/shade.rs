//! Which rows of a source were replaced, and by which `Seq`.
//!
//! Owns: [`Shadow`]: marks over the rows of one source, fed in `Seq` order. A reader that needs S catches it
//! up to S first: lag costs time, never rows. Marks are written once, so a reader at an older S reads on
//! undisturbed (P6).

use std::sync::Arc;

use headwater_format::coord::{RowOffset, Seq};
use parking_lot::Mutex;
use roaring::RoaringBitmap;

use super::runs::{Run, number};
use super::source_keys::SourceKeys;
use crate::error::ShardError;
use crate::hold::hold;
use crate::memtable::{BatchKeys, Marks};

/// The shadow that the rows of one shard cast on one older source.
#[derive(Debug)]
pub struct Shadow {
    keys: Arc<SourceKeys>,
    marks: Marks,
    /// Rows below this number of the shard's order are accounted for; none at first.
    fed: Mutex<Option<i64>>,
    last: Mutex<Option<(Seq, Arc<RoaringBitmap>)>>,
}

impl Shadow {
    /// Nothing is replaced yet.
    pub fn new(keys: Arc<SourceKeys>) -> Self {
        let mut marks = Marks::default();
        marks.grow(keys.rows());
        Self { keys, marks, fed: Mutex::new(None), last: Mutex::new(None) }
    }

    /// The keys of the source.
    pub fn keys(&self) -> &Arc<SourceKeys> {
        &self.keys
    }

    /// Accounts for all rows of `runs` below `through`: `runs` are all sources newer than this one, ascending
    /// and without gaps. Rows accounted for before are skipped, so it costs what is new.
    ///
    /// # Errors
    /// [`ShardError::Internal`] when there is a gap (P8).
    pub fn catch_up(&self, runs: &[Run<'_>], through: Seq) -> Result<(), ShardError> {
        let through = number(through);
        let mut fed = self.fed.lock();
        let Some(first) = runs.first() else { return Ok(()) };
        let mut next = fed.unwrap_or(first.order.start);
        for run in runs {
            let (start, end) = (run.order.start, run.order.end.min(through));
            let follows = start <= next || next >= through;
            hold!(P8, follows, "a shadow was fed up to {next}, rows from {start} follow");
            run.walk(next..end, |keys, first, step| self.mark(keys, first, step))?;
            next = next.max(end);
        }
        *fed = Some(next);
        Ok(())
    }

    fn mark(&self, keys: &BatchKeys, first: Seq, step: u64) {
        for row in 0..keys.len() {
            let by = first.plus(row as u64 * step);
            for replaced in self.keys.all(keys, row) {
                if !self.marks.supersede(replaced.get(), by) {
                    // The others were replaced together with it.
                    break;
                }
            }
        }
    }

    /// The rows replaced below `at`, for a shadow that was caught up to `at`.
    pub fn hidden(&self, at: Seq) -> Arc<RoaringBitmap> {
        if let Some((seq, hidden)) = &*self.last.lock()
            && *seq == at
        {
            return Arc::clone(hidden);
        }
        let hidden: Arc<RoaringBitmap> = Arc::new(self.marks.replaced_before(self.keys.rows(), at).collect());
        *self.last.lock() = Some((at, Arc::clone(&hidden)));
        hidden
    }

    /// Whether `row` was replaced below `at`, for a shadow that was caught up to `at`.
    pub fn hides(&self, row: RowOffset, at: Seq) -> bool {
        self.marks.superseded_by(row.get()) < at
    }

    /// Resident bytes, the keys not among them.
    pub fn bytes(&self) -> u64 {
        self.marks.bytes()
            + self.last.lock().as_ref().map_or(0, |(_, hidden)| hidden.serialized_size() as u64)
    }
}
