//! Newer rows in `Seq` order.
//!
//! Owns: [`Run`]. An SSTable published before the shard was opened has no `Seq`s of this process: its rows
//! count below every row that was replayed, in (generation, offset) order. So rows are ordered by signed
//! numbers here, and what lies below the first `Seq` is below every S.

use std::ops::Range;

use headwater_format::coord::{RowOffset, Seq};

use super::source_keys::SourceKeys;
use crate::error::ShardError;
use crate::hold::{Violation, hold};
use crate::ingest::InvalidInput;
use crate::memtable::{BatchKeys, MemtableView};

/// The first `Seq` of a shard, as a number.
const FIRST: i64 = 1;

/// The rows of one newer source.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Where they stand in the order of the shard: `Seq`s as numbers, or numbers below the first `Seq`.
    pub order: Range<i64>,
    /// The rows.
    pub rows: RunRows<'a>,
}

/// Where the keys of a run come from.
#[derive(Clone, Copy, Debug)]
pub enum RunRows<'a> {
    /// A memtable.
    Memtable(&'a MemtableView),
    /// An SSTable.
    Source(&'a SourceKeys),
}

impl<'a> Run<'a> {
    /// The rows of a memtable.
    pub fn memtable(view: &'a MemtableView) -> Self {
        let order = number(view.first_seq())..number(view.end_seq());
        Self { order, rows: RunRows::Memtable(view) }
    }

    /// The rows of an SSTable after which the row numbered `end` comes.
    pub fn source(keys: &'a SourceKeys, end: i64) -> Self {
        let order = end.saturating_sub(i64::from(keys.rows()))..end;
        Self { order, rows: RunRows::Source(keys) }
    }

    /// Calls `each` with the keys of the rows in `range` and the `Seq` of the first of them, or [`Seq::ZERO`]
    /// for rows that have none, in order; `step` is 1 where `Seq`s count up and 0 where there are none.
    pub(crate) fn walk(
        &self,
        range: Range<i64>,
        mut each: impl FnMut(&BatchKeys, Seq, u64) -> Result<(), Violation>,
    ) -> Result<(), ShardError> {
        let (from, to) = (range.start.max(self.order.start), range.end.min(self.order.end));
        match self.rows {
            RunRows::Memtable(view) => {
                let keys = view.keys(seq(from)..seq(to)).map_err(|error| unusable(&error))?;
                for (first, keys) in &keys {
                    each(keys, *first, 1)?;
                }
            }
            RunRows::Source(source) => {
                let row = |at: i64| u32::try_from(at - self.order.start).unwrap_or(u32::MAX);
                let before = from..to.min(FIRST);
                let after = from.max(FIRST)..to;
                for (part, step) in [(before, 0), (after, 1)].into_iter().filter(|(part, _)| !part.is_empty())
                {
                    for (first, keys) in source.pieces(row(part.start)..row(part.end)) {
                        each(&keys, seq(self.order.start + i64::from(first)), step)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Leaves out of `rows`, which count from the row with Seq `first` of this run, those that replaced an
    /// older row of the run, where the run knows that.
    pub(super) fn leave_out_replacing(&self, first: Seq, rows: &mut Vec<usize>) {
        let RunRows::Memtable(view) = self.rows else { return };
        let skipped = first.get().saturating_sub(view.first_seq().get());
        rows.retain(|row| {
            let offset = u32::try_from(skipped + *row as u64).unwrap_or(u32::MAX);
            view.predecessor(RowOffset::new(offset)).is_none()
        });
    }

    /// Leaves out of `rows` of `keys` those whose key this run has.
    pub(super) fn leave_out_known(&self, keys: &BatchKeys, rows: &mut Vec<usize>) {
        match self.rows {
            RunRows::Memtable(view) => view.leave_out_known(keys, rows),
            RunRows::Source(source) => rows.retain(|row| source.newest(keys, *row).is_none()),
        }
    }
}

/// The numbers of the rows of `runs` below `through` that follow those below `fed` (none: no row was fed).
/// `runs` ascend.
pub(super) fn unaccounted(runs: &[Run<'_>], fed: Option<i64>, through: i64) -> Result<Range<i64>, Violation> {
    let next = fed.or_else(|| Some(runs.first()?.order.start)).unwrap_or(through);
    let mut end = next;
    for run in runs.iter().take_while(|run| run.order.start < through) {
        let start = run.order.start;
        hold!(P8, start <= end, "a shadow was fed up to {end}, rows from {start} follow");
        end = end.max(run.order.end.min(through));
    }
    Ok(next..end)
}

/// A `Seq` as a number in the order of the shard.
pub(crate) fn number(seq: Seq) -> i64 {
    i64::try_from(seq.get()).unwrap_or(i64::MAX)
}

fn seq(number: i64) -> Seq {
    Seq::new(u64::try_from(number).unwrap_or(0))
}

fn unusable(error: &InvalidInput) -> ShardError {
    Violation::new("P4", format!("rows of a memtable have no usable key: {error}")).into()
}
