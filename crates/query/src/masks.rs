//! What of each source newer rows hide, for one snapshot.
//!
//! Owns: [`Masks`]. Shadows are caught up to the snapshot's S first, off the caller's thread: the cost is
//! that of the rows that came since the last read, and nothing when none came. Does not own: rows an SSTable
//! hides itself (its deletion vector, its tombstones).

use std::sync::Arc;

use futures::future::try_join_all;
use headwater_engine::shadow::{HiddenRows, Shadow};
use headwater_engine::snapshot::Lineage;
use headwater_format::coord::{Generation, Seq, ShardId};
use headwater_format::key::KeySchema;
use roaring::RoaringBitmap;

use crate::base::BaseLookup;
use crate::cache::Charged;
use crate::error::QueryError;
use crate::newer::Newer;
use crate::snapshot::{ReadSnapshot, ShardSources};

/// Hidden rows of one snapshot's sources.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    /// Of the base.
    pub base: Arc<HiddenRows>,
    /// Of the SSTables, in the order of the snapshot's shards and their SSTables.
    pub sstables: Vec<Vec<Arc<RoaringBitmap>>>,
}

/// What masks depend on: two snapshots with the same have the same masks (P6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MaskCut {
    base: u64,
    shards: Vec<(ShardId, Lineage, Seq, Generation, usize)>,
}

impl MaskCut {
    fn of(snapshot: &ReadSnapshot) -> Self {
        let shard = |shard: &ShardSources| {
            let last = shard.sstables.last().map_or(Generation::ZERO, |sstable| sstable.generation);
            let id = shard.snapshot.shard();
            (id, shard.snapshot.lineage(), shard.snapshot.seq(), last, shard.sstables.len())
        };
        let shards = snapshot.shards().iter().map(shard).collect();
        Self { base: snapshot.base_version(), shards }
    }
}

/// What the masks of one shard's sources are computed from.
struct Shading {
    newer: Arc<Newer>,
    /// The shadow on each SSTable.
    shadows: Vec<Arc<Charged<Shadow>>>,
}

impl Masks {
    /// Of `snapshot`. A table without a key hides nothing.
    pub(crate) async fn of(snapshot: &ReadSnapshot) -> Result<Arc<Self>, QueryError> {
        let Some(key) = &snapshot.base().key else {
            let none = |shard: &ShardSources| vec![Arc::default(); shard.sstables.len()];
            let sstables = snapshot.shards().iter().map(none).collect();
            return Ok(Arc::new(Self { base: Arc::default(), sstables }));
        };
        let cut = MaskCut::of(snapshot);
        if let Some(known) = snapshot.cache().masks(&cut) {
            return Ok(known);
        }
        let shadings = snapshot.shards().iter().map(|shard| Shading::prepare(snapshot, shard, key));
        let shadings = Arc::new(try_join_all(shadings).await?);
        let shaded = Arc::clone(&shadings);
        let on_sstables = move || shaded.iter().map(Shading::on_sstables).collect::<Result<Vec<_>, _>>();
        let sstables = snapshot.blocking(on_sstables).await??;
        let base = on_base(snapshot, key, &shadings).await?;
        let masks = Arc::new(Self { base, sstables });
        snapshot.cache().keep_masks(cut, &masks);
        snapshot.cache().let_go_if_over();
        Ok(masks)
    }

    /// How many rows of the base are hidden.
    pub(crate) fn base_rows(&self) -> u64 {
        self.base.rows()
    }
}

/// The rows of the base that any shard hides. Shards have no key in common.
async fn on_base(
    snapshot: &ReadSnapshot,
    key: &KeySchema,
    shadings: &[Shading],
) -> Result<Arc<HiddenRows>, QueryError> {
    let fresh: Vec<&Shading> = shadings.iter().filter(|shading| shading.newer.has_rows()).collect();
    if fresh.is_empty() || snapshot.base().dataset.fragments().is_empty() {
        return Ok(Arc::default());
    }
    let lookup = snapshot.cache().lookup(snapshot.table(), snapshot.base(), key).await?;
    let hidden = fresh.into_iter().map(|shading| of_shard(snapshot, &lookup, &shading.newer));
    let mut hidden = try_join_all(hidden).await?.into_iter();
    let mut all = hidden.next().unwrap_or_default();
    for more in hidden.filter(|more| !more.is_empty()) {
        Arc::make_mut(&mut all).extend(&more);
    }
    Ok(all)
}

async fn of_shard(
    snapshot: &ReadSnapshot,
    lookup: &Arc<BaseLookup>,
    newer: &Arc<Newer>,
) -> Result<Arc<HiddenRows>, QueryError> {
    let on_base = snapshot.cache().on_base(snapshot, lookup, newer).await?;
    on_base.hidden(snapshot, lookup, newer).await
}

impl Shading {
    async fn prepare(
        snapshot: &ReadSnapshot,
        shard: &ShardSources,
        key: &KeySchema,
    ) -> Result<Self, QueryError> {
        let (id, lineage, cache) = (shard.snapshot.shard(), shard.snapshot.lineage(), snapshot.cache());
        let names: Vec<&str> = shard.sstables.iter().map(|sstable| sstable.path.as_str()).collect();
        cache.retain(id, lineage, shard.snapshot.manifest().version, &names);
        let files = shard.open(snapshot.table()).await?;
        let keys = names.iter().zip(&files).map(|(name, files)| cache.sstable_keys(id, name, files, key));
        let sstables = try_join_all(keys).await?;
        let shadows = names.iter().map(|name| cache.shadow_on_sstable(id, lineage, name)).collect();
        let memtables = shard.memtables(snapshot.base().mem_wal.compacted(id))?;
        let newer = Newer { shard: id, lineage, seq: shard.snapshot.seq(), memtables, sstables };
        Ok(Self { newer: Arc::new(newer), shadows })
    }

    /// Hidden rows of each SSTable.
    fn on_sstables(&self) -> Result<Vec<Arc<RoaringBitmap>>, QueryError> {
        let (runs, seq) = (self.newer.runs(), self.newer.seq);
        let shadows = self.shadows.iter().zip(&self.newer.sstables).zip(1..);
        let hidden = shadows.map(|((shadow, keys), place)| {
            let newer = runs.get(place..).unwrap_or_default();
            let failed = |error| QueryError::shard(self.newer.shard, error);
            shadow.catch_up(keys, newer, seq).map_err(failed)?;
            let hidden = shadow.hidden(seq);
            shadow.settle(shadow.bytes());
            Ok(hidden)
        });
        hidden.collect()
    }
}
