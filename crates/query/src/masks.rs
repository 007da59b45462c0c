//! What of each source newer rows hide, for one snapshot.
//!
//! Owns: [`Masks`]. Shadows are caught up to the snapshot's S first, off the caller's thread: the cost is
//! that of the rows that came since the last read. Does not own: rows an SSTable hides itself (its deletion
//! vector, its tombstones).

use std::sync::Arc;

use headwater_engine::memtable::MemtableView;
use headwater_engine::shadow::{Run, Shadow, SourceKeys};
use headwater_engine::table::TableError;
use headwater_format::coord::Seq;
use headwater_format::key::KeySchema;
use headwater_store::env::EnvExt;
use roaring::RoaringBitmap;

use crate::base_keys::{BaseKeys, BaseRows};
use crate::error::QueryError;
use crate::snapshot::{ReadSnapshot, ShardSources};

/// Hidden rows of one snapshot's sources.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    /// Of the base.
    pub base: Arc<BaseRows>,
    /// Of the SSTables, in the order of the snapshot's shards and their SSTables.
    pub sstables: Vec<Vec<Arc<RoaringBitmap>>>,
}

/// What one shard's shadows are computed from.
struct Shading {
    seq: Seq,
    memtables: Vec<MemtableView>,
    /// Keys of its SSTables, ascending, with the shadow on each.
    sstables: Vec<(Arc<SourceKeys>, Arc<Shadow>)>,
    on_base: Option<Arc<Shadow>>,
}

impl Masks {
    /// Of `snapshot`. A table without a key hides nothing.
    pub(crate) async fn of(snapshot: &ReadSnapshot) -> Result<Self, QueryError> {
        let Some(key) = &snapshot.base().key else {
            let none = |shard: &ShardSources| vec![Arc::default(); shard.sstables.len()];
            return Ok(Self { base: Arc::default(), sstables: snapshot.shards().iter().map(none).collect() });
        };
        let base = base_keys(snapshot, key).await?;
        let mut shadings = Vec::with_capacity(snapshot.shards().len());
        for shard in snapshot.shards() {
            shadings.push(Shading::prepare(snapshot, shard, key, base.as_ref()).await?);
        }
        let masks = snapshot.env().blocking(move || Self::compute(&shadings, base.as_ref())).await;
        let masks = masks.map_err(|failed| unavailable(snapshot, &failed))??;
        snapshot.cache().recharge();
        Ok(masks)
    }

    fn compute(shadings: &[Shading], base: Option<&Arc<BaseKeys>>) -> Result<Self, QueryError> {
        let mut masks = Self::default();
        let mut hidden = RoaringBitmap::new();
        for shading in shadings {
            let (sstables, on_base) = shading.compute()?;
            masks.sstables.push(sstables);
            if let Some(on_base) = on_base {
                hidden |= &*on_base;
            }
        }
        masks.base = Arc::new(base.map(|base| base.rows(hidden.iter())).unwrap_or_default());
        Ok(masks)
    }

    /// How many rows of the base are hidden.
    pub(crate) fn base_rows(&self) -> u64 {
        self.base.values().map(RoaringBitmap::len).sum()
    }
}

/// The keys of the base, if there is a row that could hide one of its rows.
async fn base_keys(snapshot: &ReadSnapshot, key: &KeySchema) -> Result<Option<Arc<BaseKeys>>, QueryError> {
    let base = snapshot.base();
    let mut fresh = false;
    for shard in snapshot.shards() {
        let memtables = shard.memtables(base.mem_wal.compacted(shard.snapshot.shard()))?;
        fresh |= !shard.sstables.is_empty() || memtables.iter().any(|view| view.rows() > 0);
    }
    if !fresh || base.dataset.fragments().is_empty() {
        return Ok(None);
    }
    snapshot.cache().base_keys(snapshot.table(), base, key).await.map(Some)
}

impl Shading {
    async fn prepare(
        snapshot: &ReadSnapshot,
        shard: &ShardSources,
        key: &KeySchema,
        base: Option<&Arc<BaseKeys>>,
    ) -> Result<Self, QueryError> {
        let (id, lineage, cache) = (shard.snapshot.shard(), shard.snapshot.lineage(), snapshot.cache());
        let names: Vec<&str> = shard.sstables.iter().map(|sstable| sstable.path.as_str()).collect();
        cache.retain(id, lineage, &names);
        let files = shard.open(snapshot.table()).await?;
        let keys = names.iter().zip(&files).map(|(name, files)| cache.sstable_keys(id, name, files, key));
        let keys = futures::future::try_join_all(keys).await?;
        let shaded = names.iter().zip(keys).map(|(name, keys)| {
            let shadow = cache.shadow_on_sstable(id, lineage, name, &keys);
            (keys, shadow)
        });
        Ok(Self {
            seq: shard.snapshot.seq(),
            memtables: shard.memtables(snapshot.base().mem_wal.compacted(id))?,
            sstables: shaded.collect(),
            on_base: base.map(|keys| cache.shadow_on_base(id, lineage, keys)),
        })
    }

    /// Hidden rows of each SSTable, and of the base.
    #[expect(clippy::type_complexity, reason = "one tuple, taken apart at once")]
    fn compute(&self) -> Result<(Vec<Arc<RoaringBitmap>>, Option<Arc<RoaringBitmap>>), QueryError> {
        let runs = self.runs();
        let failed = |error: headwater_engine::ShardError| QueryError::execution(error);
        let mut hidden = Vec::with_capacity(self.sstables.len());
        for (place, (_, shadow)) in self.sstables.iter().enumerate() {
            shadow.catch_up(runs.get(place + 1..).unwrap_or_default(), self.seq).map_err(failed)?;
            hidden.push(shadow.hidden(self.seq));
        }
        let Some(shadow) = &self.on_base else { return Ok((hidden, None)) };
        shadow.catch_up(&runs, self.seq).map_err(failed)?;
        Ok((hidden, Some(shadow.hidden(self.seq))))
    }

    /// All rows of the shard in their order. SSTables lie directly below the memtables, one below the other.
    fn runs(&self) -> Vec<Run<'_>> {
        let memtables: Vec<Run<'_>> = self.memtables.iter().map(Run::memtable).collect();
        let mut end = memtables.first().map_or(1, |run| run.order.start);
        let mut runs = Vec::with_capacity(self.sstables.len() + memtables.len());
        for (keys, _) in self.sstables.iter().rev() {
            let run = Run::source(keys, end);
            end = run.order.start;
            runs.push(run);
        }
        runs.reverse();
        runs.extend(memtables);
        runs
    }
}

fn unavailable(snapshot: &ReadSnapshot, failed: &impl std::fmt::Display) -> QueryError {
    let path = snapshot.table().uri().to_owned();
    TableError::Unavailable { path, reason: failed.to_string() }.into()
}
