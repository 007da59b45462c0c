//! The engine's seam to tables, on Lance.
//!
//! Owns: how [`TableIo`] is answered, and what becomes of a failed attempt's files. Does not own: the files
//! of an SSTable (`sstable`). Keeps P10: a rejected attempt deletes only its own names.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use headwater_engine::memtable::FrozenMemtable;
use headwater_engine::table::{BaseTable, SsTableReader, TableError, TableIo, WrittenSsTable};
use headwater_format::coord::ShardId;
use headwater_format::path::{parse_sstable_name, shard_dir, sstable_dir};
use headwater_format::schema::schema_difference;
use headwater_format::shard_manifest::SsTable;
use headwater_store::{Register, RetryPolicy};

use crate::error;
use crate::pin::BaseVersion;
use crate::schema::TableSchema;
use crate::sstable::{self, Layout, OpenFiles, SsTableFiles};
use crate::table::LanceTable;
use crate::verify::FileFinding;

/// Data files whose sizes are looked at to explain an error.
const FILES_OF_AN_ERROR: usize = 1024;

impl LanceTable {
    /// The open SSTable, from the cache or from storage.
    ///
    /// # Errors
    /// [`TableError::NotFound`] when a file is missing, [`TableError::Corrupt`] when one cannot be read;
    /// [`TableError::SchemaChanged`] when it has other columns than the newest version of the base that is
    /// known.
    pub async fn sstable_files(
        &self,
        shard: ShardId,
        sstable: &SsTable,
    ) -> Result<Arc<SsTableFiles>, TableError> {
        let (_, schema) = self.known();
        self.open_as(&schema, shard, sstable).await
    }

    /// The open SSTable, for a read that has pinned `base`.
    ///
    /// # Errors
    /// As [`Self::sstable_files`], by the columns of `base`.
    pub async fn sstable_files_over(
        &self,
        base: &BaseVersion,
        shard: ShardId,
        sstable: &SsTable,
    ) -> Result<Arc<SsTableFiles>, TableError> {
        self.open_as(&base.schema, shard, sstable).await
    }

    /// An open SSTable was opened over some version of the base, and its columns may be others by now (P15).
    async fn open_as(
        &self,
        schema: &Arc<TableSchema>,
        shard: ShardId,
        sstable: &SsTable,
    ) -> Result<Arc<SsTableFiles>, TableError> {
        let layout = self.layout(shard, sstable)?;
        let open = match self.readers.get(shard, &sstable.path) {
            Some(open) => open,
            None => {
                let opened = Arc::new(SsTableFiles::open(&self.open_files(schema), layout).await?);
                self.readers.insert(shard, &sstable.path, opened)
            }
        };
        open.check_columns(schema)?;
        Ok(open)
    }

    /// Refuses a shard with SSTables of other columns than the table has now: reads refuse such a table, so
    /// that rows written to it would be added to what nobody can read (P15). Whatever else is wrong is told
    /// by those who cannot do without: opening the shard, or reading the SSTable.
    ///
    /// # Errors
    /// [`TableError::SchemaChanged`] then.
    pub async fn check_columns(&self, shard: ShardId) -> Result<(), TableError> {
        let Ok(Some(mem_wal)) = self.mem_wal().await else { return Ok(()) };
        let Ok(Some(manifest)) = self.newest_manifest(shard).await else { return Ok(()) };
        let compacted = mem_wal.compacted(shard);
        let mut unfolded = manifest.sstables.iter().filter(|sstable| sstable.generation > compacted);
        // Columns change between two of them, if at all.
        let (oldest, newest) = (unfolded.next(), unfolded.next_back());
        let (_, schema) = self.known();
        for sstable in oldest.into_iter().chain(newest) {
            let layout = self.layout(shard, sstable)?;
            let difference = sstable::column_difference(&self.open_files(&schema), &layout).await;
            if let Ok(Some(difference)) = difference {
                let reason = format!("shard {shard} takes no rows, for none could be read: {difference}");
                return Err(TableError::SchemaChanged { reason });
            }
        }
        Ok(())
    }

    fn layout(&self, shard: ShardId, sstable: &SsTable) -> Result<Layout, TableError> {
        Layout::new(&self.base, shard, &sstable.path, sstable.generation).map_err(|error| {
            TableError::Corrupt {
                path: shard_dir(shard),
                reason: format!("its manifest names a wrong directory: {error}"),
            }
        })
    }

    /// What opening SSTables of a table with this schema needs.
    fn open_files<'a>(&'a self, schema: &'a Arc<TableSchema>) -> OpenFiles<'a> {
        OpenFiles {
            store: &self.object_store,
            scheduler: &self.scheduler,
            cache: &self.sstable_cache,
            schema,
        }
    }

    /// The schema of the base, which must be that of `frozen`: a generation of another one would serve wrong
    /// columns (P15). The version held may be old, so the newest one is asked before anything is refused.
    async fn schema_for(&self, frozen: &FrozenMemtable) -> Result<Arc<TableSchema>, TableError> {
        let (_, held) = self.known();
        if schema_difference(&held.storage, frozen.schema()).is_none() {
            return Ok(held);
        }
        let (_, newest) = self.refresh().await?;
        match schema_difference(&newest.storage, frozen.schema()) {
            None => Ok(newest),
            Some(difference) => {
                let reason = format!(
                    "generation {} has not the schema of the table any more: {difference}; writing \
                     generations over a schema change is not supported yet: its rows stay in the WAL until \
                     the table is restored to a version with the former schema",
                    frozen.generation()
                );
                Err(TableError::SchemaChanged { reason })
            }
        }
    }

    /// Deletes the directories of failed attempts at `shard`, this one's and earlier ones'. What cannot be
    /// deleted now is tried again with the next attempt; what this process leaves behind is a left-over.
    async fn discard_attempts(&self, shard: ShardId) {
        for name in self.failed_attempts.of(shard) {
            match self.discard_attempt(shard, &name).await {
                Ok(()) => self.failed_attempts.forget(shard, &name),
                Err(error) => {
                    tracing::warn!(%shard, sstable = name, %error, "cannot delete what a failed flush left");
                    // Storage that does not do this one now will not do the others.
                    return;
                }
            }
        }
    }

    async fn discard_attempt(&self, shard: ShardId, name: &str) -> Result<(), TableError> {
        // Storage that just failed is asked once: the flush that waits for this is the retry.
        let once = RetryPolicy { max_attempts: 1, ..self.store.retry() };
        let store = self.store.clone().with_retry(once);
        let manifest = Register::for_shard(store, shard).load().await.map_err(error::of_store)?;
        let named = manifest.is_some_and(|manifest| manifest.sstables.iter().any(|named| named.path == name));
        // Names are drawn at random, so another writer's may be the same: what a manifest names stays (P10).
        if named { Ok(()) } else { self.remove_sstable(shard, name).await }
    }

    /// Deletes the SSTable directory `name` of `shard`, which the caller knows that nothing names or will
    /// name.
    pub(crate) async fn remove_sstable(&self, shard: ShardId, name: &str) -> Result<(), TableError> {
        let path = sstable_dir(shard, name);
        let directory = path.split('/').fold(self.base.clone(), |above, part| above.join(part));
        match self.object_store.remove_dir_all(directory).await {
            Ok(()) => Ok(()),
            Err(error) => match error::of_table(&path, error) {
                TableError::NotFound { .. } => Ok(()),
                other => Err(other),
            },
        }
    }
}

impl LanceTable {
    /// What Lance said while the base was read, in the words of the table seam.
    pub fn base_error(&self, error: lance_core::Error) -> TableError {
        let said = error.to_string();
        match error::of_table(&self.uri, error) {
            // The version was open, so it is a file of it that is gone, not the table.
            TableError::NotFound { path } => TableError::Corrupt {
                path,
                reason: format!("a file that its newest version names is missing: {said}"),
            },
            other => other,
        }
    }

    /// `error` of a read of a base version, with the data file that is damaged where one can be told by its
    /// size.
    pub fn name_damaged<'a>(&'a self, base: &'a BaseVersion, error: TableError) -> BoxFuture<'a, TableError> {
        async move {
            // Storage that does not answer and a range that a file does not have look alike.
            let (TableError::Corrupt { path, .. } | TableError::Unavailable { path, .. }) = &error else {
                return error;
            };
            if *path != self.uri {
                return error;
            }
            let damaged = self.check_data(&base.dataset, FILES_OF_AN_ERROR).await.ok();
            match damaged.and_then(|found| found.into_iter().next()) {
                Some(FileFinding { path, found, .. }) => {
                    TableError::Corrupt { path: format!("{}/{path}", self.uri), reason: found }
                }
                None => error,
            }
        }
        .boxed()
    }
}

#[async_trait]
impl TableIo for LanceTable {
    async fn base(&self) -> Result<BaseTable, TableError> {
        let (dataset, schema, _) = self.current_write_tier().await?;
        Ok(BaseTable { version: dataset.version_id(), schema: Arc::clone(&schema.logical) })
    }

    async fn write_sstable(
        &self,
        shard: ShardId,
        name: &str,
        frozen: &FrozenMemtable,
    ) -> Result<WrittenSsTable, TableError> {
        let layout = Layout::new(&self.base, shard, name, frozen.generation())?;
        frozen.check_complete()?;
        let schema = self.schema_for(frozen).await?;
        let directory = layout.relative().to_owned();
        let target = sstable::Target { store: &self.object_store, layout, schema: &schema, env: &self.env };
        let mut written = sstable::write(&target, frozen).await;
        if written.is_ok()
            && let Err(error) = self.sync(&directory).await
        {
            written = Err(error);
        }
        if written.is_err() {
            // The caller never publishes a name it got an error for, and the next attempt has another one.
            self.failed_attempts.add(shard, name);
        }
        // A full disk needs the room before the next attempt can do better.
        self.discard_attempts(shard).await;
        written
    }

    async fn open_sstable(
        &self,
        shard: ShardId,
        sstable: &SsTable,
    ) -> Result<Arc<dyn SsTableReader>, TableError> {
        Ok(self.sstable_files(shard, sstable).await?)
    }

    async fn list_generations(&self, shard: ShardId) -> Result<Vec<String>, TableError> {
        let names = self.store.list_dirs(&shard_dir(shard)).await.map_err(error::of_store)?;
        Ok(names.into_iter().filter(|name| parse_sstable_name(name).is_some()).collect())
    }

    async fn warm(&self, shard: ShardId, sstable: &SsTable) -> Result<(), TableError> {
        self.sstable_files(shard, sstable).await.map(|_| ())
    }
}
