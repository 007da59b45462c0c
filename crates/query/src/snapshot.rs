//! What one read sees of a table.
//!
//! Owns: [`ReadSnapshot`] and the capture rule: its sources are exactly the base and, per shard, the
//! generations after those that are part of the base, without a gap (P6). Does not own: how old a snapshot
//! may be (`headwater_engine::snapshot` says so when its memtables are asked for).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use futures::FutureExt;
use futures::future::try_join_all;
use headwater_engine::memtable::MemtableView;
use headwater_engine::snapshot::{Lineage, ShardSnapshot, Unchanged};
use headwater_engine::table::TableError;
use headwater_format::coord::{Generation, Seq, ShardId};
use headwater_format::schema::schema_difference;
use headwater_format::shard_manifest::SsTable;
use headwater_lance::{BaseVersion, LanceTable, SsTableFiles};
use headwater_store::env::{EnvExt, EnvRef};
use tokio::sync::OnceCell;

use crate::cache::ReadCache;
use crate::error::QueryError;
use crate::masks::Masks;

/// One base version, and per shard one view of its SSTables and memtables. Cheap to clone; reads the same for
/// as long as it may be used.
#[derive(Clone, Debug)]
pub struct ReadSnapshot {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    table: Arc<LanceTable>,
    base: BaseVersion,
    shards: Vec<ShardSources>,
    cache: Arc<ReadCache>,
    env: EnvRef,
    masks: OnceCell<Arc<Masks>>,
}

/// The sources of one shard that are not part of the base.
#[derive(Debug)]
pub(crate) struct ShardSources {
    pub snapshot: ShardSnapshot,
    /// Ascending by generation.
    pub sstables: Vec<SsTable>,
    /// The base they are read over: they must have its columns (P15).
    base: BaseVersion,
    files: OnceCell<Vec<Arc<SsTableFiles>>>,
}

impl ReadSnapshot {
    /// Puts a pinned base version and views of all shards together. `cache` belongs to the table.
    ///
    /// # Errors
    /// [`QueryError::Gap`] when a generation is in neither, so that base and shard have to be looked at
    /// again; [`QueryError::Table`] when the base has other columns than rows in memory.
    pub fn new(
        table: Arc<LanceTable>,
        base: BaseVersion,
        shards: Vec<ShardSnapshot>,
        cache: Arc<ReadCache>,
        env: EnvRef,
    ) -> Result<Self, QueryError> {
        let shards: Result<Vec<_>, QueryError> = shards
            .into_iter()
            .map(|snapshot| {
                check_columns(&base, &snapshot)?;
                ShardSources::over(&base, snapshot)
            })
            .collect();
        let inner = Inner { table, base, shards: shards?, cache, env, masks: OnceCell::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A version of the base alone, [pinned by its number](LanceTable::pin_version). Rows of the write tier
    /// are not part of it: none is known to belong to an older version.
    pub fn of_base(table: Arc<LanceTable>, base: BaseVersion, cache: Arc<ReadCache>, env: EnvRef) -> Self {
        let inner = Inner { table, base, shards: Vec::new(), cache, env, masks: OnceCell::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Whether it is a version of the base alone, asked for by its number.
    pub fn is_base_only(&self) -> bool {
        self.inner.base.by_number
    }

    /// Version of the base it reads.
    pub fn base_version(&self) -> u64 {
        self.inner.base.dataset.version_id()
    }

    /// The columns rows come with.
    pub fn schema(&self) -> &SchemaRef {
        &self.inner.base.columns
    }

    /// The cut of each shard: rows with a smaller `Seq` are read.
    pub fn cuts(&self) -> BTreeMap<ShardId, Seq> {
        self.inner.shards.iter().map(|shard| (shard.snapshot.shard(), shard.snapshot.seq())).collect()
    }

    /// The condition that a key of `shard` was not written since; one that never holds unless this process
    /// writes the shard.
    pub fn unchanged(&self, shard: ShardId) -> Unchanged {
        let shard = self.inner.shards.iter().find(|sources| sources.snapshot.shard() == shard);
        shard.map_or(Unchanged::Unknown, |shard| shard.snapshot.unchanged())
    }

    /// The bytes each memtable it keeps is charged for. Snapshots share memtables: the same one is named the
    /// same in all of them.
    pub fn memtables(&self) -> BTreeMap<(ShardId, Lineage, Generation), u64> {
        let shards = self.inner.shards.iter().map(|shard| &shard.snapshot);
        let of_shard = |shard: &ShardSnapshot| {
            let (id, lineage) = (shard.shard(), shard.lineage());
            let memtables = shard.charged_bytes();
            memtables.map(|(generation, bytes)| ((id, lineage, generation), bytes)).collect::<Vec<_>>()
        };
        shards.flat_map(of_shard).collect()
    }

    /// Names of what it reads from storage: the base version, and the directory of each SSTable.
    pub fn source_names(&self) -> BTreeSet<String> {
        let sstables = self.inner.shards.iter().flat_map(|shard| {
            let id = shard.snapshot.shard();
            shard.sstables.iter().map(move |sstable| format!("{id}/{}", sstable.path))
        });
        sstables.chain([format!("base version {}", self.base_version())]).collect()
    }

    pub(crate) fn table(&self) -> &Arc<LanceTable> {
        &self.inner.table
    }

    pub(crate) fn base(&self) -> &BaseVersion {
        &self.inner.base
    }

    pub(crate) fn shards(&self) -> &[ShardSources] {
        &self.inner.shards
    }

    pub(crate) fn cache(&self) -> &Arc<ReadCache> {
        &self.inner.cache
    }

    pub(crate) fn env(&self) -> &EnvRef {
        &self.inner.env
    }

    /// What of each source newer rows hide. Found out once per snapshot.
    pub(crate) async fn masks(&self) -> Result<&Arc<Masks>, QueryError> {
        // Boxed: the types of Lance's scanners are so deep that whoever spawns a read would have to raise the
        // compiler's recursion limit.
        let found = self.inner.masks.get_or_try_init(|| Masks::of(self).boxed()).await;
        match found {
            Ok(masks) => Ok(masks),
            Err(error) => Err(self.explained(error).await),
        }
    }

    /// `error`, with the file of the base that is damaged.
    pub(crate) async fn explained(&self, error: QueryError) -> QueryError {
        match error {
            QueryError::Table(error) => self.table().name_damaged(self.base(), error).await.into(),
            other => other,
        }
    }

    /// Runs `work` where it keeps no other task waiting.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, QueryError> {
        self.env().blocking(work).await.map_err(|failed| {
            let path = self.table().uri().to_owned();
            TableError::Unavailable { path, reason: failed.to_string() }.into()
        })
    }
}

/// Rows in memory have the columns the table had when its writer opened it (P15).
fn check_columns(base: &BaseVersion, snapshot: &ShardSnapshot) -> Result<(), QueryError> {
    let shard = snapshot.shard();
    for view in snapshot.memtables().map_err(|error| QueryError::shard(shard, error))? {
        if let Some(difference) = schema_difference(&base.storage, view.schema()) {
            let reason = format!(
                "shard {shard} has rows in memory of other columns than the table has now: {difference}; \
                 reading over a schema change is not supported yet: close its writer and open it again"
            );
            return Err(TableError::SchemaChanged { reason }.into());
        }
    }
    Ok(())
}

impl ShardSources {
    fn over(base: &BaseVersion, snapshot: ShardSnapshot) -> Result<Self, QueryError> {
        let shard = snapshot.shard();
        let compacted = base.mem_wal.compacted(shard);
        let failed = |error| QueryError::shard(shard, error);
        let sstables = snapshot.sstables().map_err(failed)?.iter();
        let sstables: Vec<SsTable> =
            sstables.filter(|sstable| sstable.generation > compacted).cloned().collect();
        let memtables = snapshot.memtables().map_err(failed)?.iter().map(MemtableView::generation);
        let found = sstables.iter().map(|sstable| sstable.generation).chain(memtables);
        let mut expected = compacted.next();
        // Memtables may still be here of generations that are part of the base already.
        for generation in found.filter(|generation| *generation > compacted) {
            if generation != expected {
                return Err(QueryError::Gap { shard, missing: expected });
            }
            expected = expected.next();
        }
        Ok(Self { snapshot, sstables, base: base.clone(), files: OnceCell::new() })
    }

    /// The memtables that are not part of the base.
    pub(crate) fn views(&self, compacted: Generation) -> Result<&[MemtableView], QueryError> {
        let all = self.snapshot.memtables();
        let all = all.map_err(|error| QueryError::shard(self.snapshot.shard(), error))?;
        let first = all.partition_point(|view| view.generation() <= compacted);
        Ok(all.get(first..).unwrap_or_default())
    }

    /// [`Self::views`], to keep.
    pub(crate) fn memtables(&self, compacted: Generation) -> Result<Vec<MemtableView>, QueryError> {
        self.views(compacted).map(<[MemtableView]>::to_vec)
    }

    /// Its SSTables, open, and of the base's columns. Opened once.
    pub(crate) async fn open(&self, table: &LanceTable) -> Result<Vec<Arc<SsTableFiles>>, QueryError> {
        let shard = self.snapshot.shard();
        let open = || async {
            let sstables = self.sstables.iter();
            let open = sstables.map(|sstable| table.sstable_files_over(&self.base, shard, sstable));
            Ok::<_, QueryError>(try_join_all(open).await?)
        };
        self.files.get_or_try_init(open).await.cloned()
    }
}
