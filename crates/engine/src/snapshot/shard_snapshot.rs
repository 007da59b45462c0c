//! What one reader sees of a shard: memtables at one `Seq`, and the SSTables of one manifest version.
//!
//! Owns: nothing that changes. A snapshot reads the same before and after flush, compaction and collection
//! (P6), keeps its memtables in memory (they stay charged to the budget), and says so when it is too old. The
//! manifest and the memtables were taken under one lock, so no generation is missing and none is there twice
//! (P5).

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use headwater_format::coord::{Generation, Seq, ShardId};
use headwater_format::shard_manifest::{ShardManifest, SsTable};
use headwater_store::env::EnvRef;

use crate::error::ShardError;
use crate::memtable::MemtableView;
use crate::snapshot::{Lineage, Unchanged};

/// How fresh a read is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadLevel {
    /// Durable rows only (P2).
    #[default]
    Durable,
    /// Rows on their way to storage too; a crash may take them back.
    Pending,
}

/// When a snapshot expires.
#[derive(Clone, Debug)]
pub struct SnapshotLimits {
    /// The clock.
    pub env: EnvRef,
    /// When it was taken.
    pub taken: Duration,
    /// How long it may be used.
    pub max_age: Duration,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ShardSnapshot {
    shard: ShardId,
    seq: Seq,
    level: ReadLevel,
    manifest: Arc<ShardManifest>,
    memtables: Vec<MemtableView>,
    limits: SnapshotLimits,
    lineage: Lineage,
}

impl ShardSnapshot {
    /// Taken by the shard, under its lock, or by a follower.
    pub(crate) fn new(
        shard: ShardId,
        seq: Seq,
        level: ReadLevel,
        manifest: Arc<ShardManifest>,
        memtables: Vec<MemtableView>,
        limits: SnapshotLimits,
        lineage: Lineage,
    ) -> Self {
        Self { shard, seq, level, manifest, memtables, limits, lineage }
    }

    /// Whose `Seq`s it counts in: those of snapshots of one lineage are of one order.
    pub fn lineage(&self) -> Lineage {
        self.lineage
    }

    /// The condition that a write's keys are as this snapshot sees them. Unknown when it was read without a
    /// claim: only the writer knows its `Seq`s.
    pub fn unchanged(&self) -> Unchanged {
        match self.lineage {
            Lineage::Writer(epoch) => Unchanged::Since { seq: self.seq, epoch },
            Lineage::Follower { .. } => Unchanged::Unknown,
        }
    }

    /// The shard.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The cut: a row is live iff `seq < S <= superseded_by` and it is no tombstone.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// How fresh it is.
    pub fn level(&self) -> ReadLevel {
        self.level
    }

    /// The manifest version that names [`ShardSnapshot::sstables`]. Read files of it through those, which
    /// expire.
    pub fn manifest(&self) -> &Arc<ShardManifest> {
        &self.manifest
    }

    /// The published SSTables, ascending by generation. All are older than every memtable here: a generation
    /// that was published but not handed over yet is read from memory only (P5, P12).
    ///
    /// # Errors
    /// [`ShardError::SnapshotExpired`]: the files may be collected from then on.
    pub fn sstables(&self) -> Result<&[SsTable], ShardError> {
        self.check_age()?;
        let oldest = self.memtables.first().map_or(Generation::MAX, MemtableView::generation);
        let older = self.manifest.sstables.partition_point(|sstable| sstable.generation < oldest);
        Ok(self.manifest.sstables.get(..older).unwrap_or_default())
    }

    /// The memtables, ascending by generation, the active one last.
    ///
    /// # Errors
    /// [`ShardError::SnapshotExpired`].
    pub fn memtables(&self) -> Result<&[MemtableView], ShardError> {
        self.check_age()?;
        Ok(&self.memtables)
    }

    /// The bytes each memtable it keeps is charged for, however old it is.
    pub fn charged_bytes(&self) -> impl Iterator<Item = (Generation, u64)> {
        self.memtables.iter().map(|view| (view.generation(), view.charged_bytes()))
    }

    /// The live rows of the memtables, in `Seq` order, in the table's own schema. Rows of SSTables and base
    /// that these replace or delete are not looked at.
    ///
    /// # Errors
    /// [`ShardError::SnapshotExpired`]; [`ShardError::Internal`] if Arrow cannot cut the rows out.
    pub fn live_rows(&self) -> Result<Vec<RecordBatch>, ShardError> {
        let mut rows = Vec::new();
        for memtable in self.memtables()? {
            rows.extend(memtable.live(self.seq)?);
        }
        Ok(rows)
    }

    /// An error once the snapshot is too old: whichever tier is read, it says so (P6).
    fn check_age(&self) -> Result<(), ShardError> {
        let age = self.limits.env.now().saturating_sub(self.limits.taken);
        if age <= self.limits.max_age {
            return Ok(());
        }
        Err(ShardError::SnapshotExpired {
            shard: self.shard,
            age_ms: millis(age),
            max_age_ms: millis(self.limits.max_age),
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
