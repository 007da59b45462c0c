//! The rows of one shard that are not part of the base, in the order of their `Seq`s.
//!
//! Owns: [`Newer`], what shadows are fed from.

use std::sync::Arc;

use headwater_engine::memtable::MemtableView;
use headwater_engine::shadow::Run;
use headwater_engine::snapshot::Lineage;
use headwater_format::coord::{Seq, ShardId};

use crate::cache::SsTableKeys;

/// All of a shard that a snapshot sees and that may hide rows of an older source.
#[derive(Debug)]
pub(crate) struct Newer {
    pub shard: ShardId,
    /// Whose `Seq`s these are.
    pub lineage: Lineage,
    /// The cut.
    pub seq: Seq,
    /// Ascending by generation.
    pub memtables: Vec<MemtableView>,
    /// Keys of its SSTables, ascending by generation.
    pub sstables: Vec<Arc<SsTableKeys>>,
}

impl Newer {
    /// All rows in their order. SSTables lie directly below the memtables, one below the other.
    pub(crate) fn runs(&self) -> Vec<Run<'_>> {
        let memtables: Vec<Run<'_>> = self.memtables.iter().map(Run::memtable).collect();
        let mut end = memtables.first().map_or(1, |run| run.order.start);
        let mut runs = Vec::with_capacity(self.sstables.len() + memtables.len());
        for keys in self.sstables.iter().rev() {
            let run = Run::source(keys, end);
            end = run.order.start;
            runs.push(run);
        }
        runs.reverse();
        runs.extend(memtables);
        runs
    }

    /// Whether there are any rows.
    pub(crate) fn has_rows(&self) -> bool {
        self.sstables.iter().any(|keys| keys.rows() > 0) || self.memtables.iter().any(|view| view.rows() > 0)
    }
}
