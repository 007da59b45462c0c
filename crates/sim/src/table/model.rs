//! The model of a table behind a shard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use headwater_engine::memtable::FrozenMemtable;
use headwater_engine::table::{BaseTable, SsTableReader, TableError, TableIo, WrittenSsTable};
use headwater_format::coord::ShardId;
use headwater_format::key::KeySchema;
use headwater_format::path::{parse_sstable_name, shard_dir};
use headwater_format::shard_manifest::SsTable;

use super::files::Files;
use super::reader::ModelSsTable;
use super::sstable::{Contents, FileNames, decode_batches, encode_batches};

/// The one file of a model base: its rows, and with them its schema.
const BASE: &str = "data/base.arrow";

/// A table in model files, as one process sees it.
#[derive(Debug)]
pub struct ModelTables {
    files: Files,
    trusting: bool,
    warmed: AtomicU64,
}

impl ModelTables {
    /// The table below the root of `files`.
    pub fn new(files: Files) -> Self {
        Self { files, trusting: false, warmed: AtomicU64::new(0) }
    }

    /// The same table, writing SSTables of memtables that are not complete without a word: what lance#9035
    /// had.
    #[must_use]
    pub fn trusting(mut self) -> Self {
        self.trusting = true;
        self
    }

    /// Creates the table with the rows of `base`, unless it is there.
    ///
    /// # Errors
    /// What storage said.
    pub async fn create(files: &Files, base: &RecordBatch) -> Result<(), TableError> {
        match files.read(BASE).await {
            Err(TableError::NotFound { .. }) => {}
            there => return there.map(|_| ()),
        }
        let bytes = encode_batches(&base.schema(), std::slice::from_ref(base))?;
        files.write(BASE, &bytes).await?;
        Ok(())
    }

    /// The rows of the base.
    ///
    /// # Errors
    /// What storage said.
    pub async fn base_rows(&self) -> Result<Vec<RecordBatch>, TableError> {
        Ok(decode_batches(BASE, &self.files.read(BASE).await?)?.1)
    }

    /// How often a flush asked to warm caches.
    pub fn warmed(&self) -> u64 {
        self.warmed.load(Ordering::SeqCst)
    }

    async fn key(&self) -> Result<Option<KeySchema>, TableError> {
        let base = self.base().await?;
        KeySchema::from_schema(&base.schema).map_err(|error| TableError::invalid(error.to_string()))
    }
}

#[async_trait]
impl TableIo for ModelTables {
    async fn base(&self) -> Result<BaseTable, TableError> {
        let (schema, _) = decode_batches(BASE, &self.files.read(BASE).await?)?;
        Ok(BaseTable { version: 1, schema })
    }

    async fn write_sstable(
        &self,
        shard: ShardId,
        name: &str,
        frozen: &FrozenMemtable,
    ) -> Result<WrittenSsTable, TableError> {
        if !self.trusting {
            frozen.check_complete()?;
        }
        let names = FileNames::new(shard, name);
        let Contents { files, manifest } = Contents::new(&names, frozen)?;
        let writes = files.iter().map(|(path, bytes)| self.files.write(path, bytes));
        let sizes = futures::future::try_join_all(writes).await?;
        let bytes = serde_json::to_vec(&manifest).map_err(|error| TableError::invalid(error.to_string()))?;
        let last = self.files.write(&names.manifest(), &bytes).await?;
        Ok(WrittenSsTable {
            physical_rows: u64::from(manifest.physical_rows),
            replaced_rows: u64::from(manifest.replaced_rows),
            file_bytes: sizes.iter().sum::<u64>() + last,
        })
    }

    async fn open_sstable(
        &self,
        shard: ShardId,
        sstable: &SsTable,
    ) -> Result<Arc<dyn SsTableReader>, TableError> {
        let key = self.key().await?;
        let names = FileNames::new(shard, &sstable.path);
        Ok(Arc::new(ModelSsTable::open(&self.files, &names, key).await?))
    }

    async fn list_generations(&self, shard: ShardId) -> Result<Vec<String>, TableError> {
        let mut names = self.files.directories(&shard_dir(shard)).await?;
        names.retain(|name| parse_sstable_name(name).is_some());
        Ok(names)
    }

    async fn warm(&self, shard: ShardId, sstable: &SsTable) -> Result<(), TableError> {
        self.warmed.fetch_add(1, Ordering::SeqCst);
        self.files.read(&FileNames::new(shard, &sstable.path).manifest()).await?;
        Ok(())
    }
}
