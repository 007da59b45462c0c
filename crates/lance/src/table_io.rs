//! The engine's seam to tables, on Lance.

use std::sync::Arc;

use async_trait::async_trait;
use headwater_engine::memtable::FrozenMemtable;
use headwater_engine::table::{BaseTable, SsTableReader, TableError, TableIo, WrittenSsTable};
use headwater_format::coord::ShardId;
use headwater_format::path::{parse_sstable_name, shard_dir};
use headwater_format::shard_manifest::SsTable;

use crate::error;
use crate::mem_wal::MemWal;
use crate::sstable::{self, Layout, OpenFiles, SsTableFiles};
use crate::table::LanceTable;

impl LanceTable {
    /// The open SSTable, from the cache or from storage.
    pub(crate) async fn sstable_files(
        &self,
        shard: ShardId,
        sstable: &SsTable,
    ) -> Result<Arc<SsTableFiles>, TableError> {
        let layout = Layout::new(&self.base, shard, &sstable.path, sstable.generation).map_err(|error| {
            TableError::Corrupt {
                path: shard_dir(shard),
                reason: format!("its manifest names a wrong directory: {error}"),
            }
        })?;
        if let Some(open) = self.readers.get(shard, &sstable.path) {
            return Ok(open);
        }
        let (_, schema) = self.known();
        let open = OpenFiles {
            store: &self.object_store,
            scheduler: &self.scheduler,
            cache: &self.sstable_cache,
            schema: &schema,
        };
        let opened = Arc::new(SsTableFiles::open(&open, layout).await?);
        Ok(self.readers.insert(shard, &sstable.path, opened))
    }
}

#[async_trait]
impl TableIo for LanceTable {
    async fn base(&self) -> Result<BaseTable, TableError> {
        let (dataset, schema) = self.refresh().await.map_err(|error| match error {
            TableError::NotFound { path } => TableError::invalid(format!("the table at {path} is gone")),
            other => other,
        })?;
        let Some(details) = self.details(&dataset).await? else {
            return Err(TableError::invalid(format!(
                "the table at {} has no write tier (any more): initialise it before writing",
                self.uri
            )));
        };
        let found = MemWal::read(&details, dataset.schema())?.incarnation;
        match (self.incarnation(), found) {
            (Some(known), found) if found != Some(known) => Err(TableError::invalid(format!(
                "the write tier of the table at {} was made anew since this process opened it: \
                 open the table again",
                self.uri
            ))),
            (_, found) => {
                if let Some(found) = found {
                    self.learn_incarnation(found);
                }
                let logical = Arc::clone(&schema.logical);
                Ok(BaseTable { version: dataset.version_id(), schema: logical })
            }
        }
    }

    async fn write_sstable(
        &self,
        shard: ShardId,
        name: &str,
        frozen: &FrozenMemtable,
    ) -> Result<WrittenSsTable, TableError> {
        let layout = Layout::new(&self.base, shard, name, frozen.generation())?;
        let directory = layout.relative().to_owned();
        let (_, schema) = self.known();
        let target = sstable::Target { store: &self.object_store, layout, schema: &schema, env: &self.env };
        let written = sstable::write(&target, frozen).await?;
        self.sync(&directory).await?;
        Ok(written)
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
