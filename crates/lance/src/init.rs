//! Giving a table its write tier: one base commit that adds the MemWAL index entry and the key index.
//!
//! Owns: [`LanceTable::init_mem_wal`], all its checks, and the incarnation. Does not own: the details message
//! (`mem_wal`), which column the key index is on (`key_index`). The commit adds nothing that needs a reader
//! or writer feature flag, so older Lance and LanceDB go on writing the base. Keeps P16: the commit goes onto
//! the version it was planned on, or is planned again.

use headwater_engine::table::TableError;
use headwater_format::coord::Generation;
use headwater_format::path::shard_dir;
use headwater_format::shard_manifest::ShardStatus;
use lance::Dataset;
use lance::dataset::transaction::Operation;
use lance_table::format::IndexMetadata;
use lance_table::system_index::mem_wal::{load_mem_wal_index_details, new_mem_wal_index_meta};
use uuid::Uuid;

use crate::commit::{Outcome, commit_onto};
use crate::error;
use crate::key_index;
use crate::mem_wal::{INCARNATION, MemWal, fresh_details};
use crate::schema::{TableSchema, check_supported};
use crate::sharding::Sharding;
use crate::shards::ShardInfo;
use crate::table::{LanceTable, mem_wal_entry};

/// Plans tried when other commits get in between.
const ATTEMPTS: u32 = 16;

impl LanceTable {
    /// Gives the table its write tier: records `sharding` and a new incarnation in the base, and builds the
    /// B-tree on the key there. Of several that try at once one wins; the others are told that it is
    /// initialised.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when it is initialised already, a shard column is not a key column, a column
    /// is a blob or called `_tombstone`, or shards of an earlier write tier lie under `_mem_wal/` (they are
    /// listed with the rows that are only there); otherwise what storage said.
    pub async fn init_mem_wal(&self, sharding: &Sharding) -> Result<MemWal, TableError> {
        let incarnation = self.env.uuid();
        let mut unknown = None;
        for _ in 0..ATTEMPTS {
            let (dataset, schema) = self.refresh().await?;
            if let Some(found) = self.initialised(&dataset).await? {
                return self.conclude(found, incarnation).await;
            }
            self.check_init(&dataset, &schema, sharding).await?;
            match self.commit_init(&dataset, &schema, sharding, incarnation).await? {
                Outcome::Committed(dataset) => {
                    self.adopt(&dataset, &schema);
                    let found = self.initialised(&dataset).await?;
                    let found = found.ok_or_else(|| self.busy(None))?;
                    return self.conclude(found, incarnation).await;
                }
                Outcome::Moved => {}
                Outcome::Unknown(error) => unknown = Some(error),
            }
        }
        Err(self.busy(unknown))
    }

    async fn initialised(&self, dataset: &Dataset) -> Result<Option<MemWal>, TableError> {
        let details = self.details(dataset).await?;
        details.map(|details| MemWal::read(&details, dataset.schema())).transpose()
    }

    /// The own incarnation is proof that the own commit is the one that counts, lost answers included.
    async fn conclude(&self, found: MemWal, incarnation: Uuid) -> Result<MemWal, TableError> {
        if found.incarnation != Some(incarnation) {
            return Err(TableError::invalid(format!("the table at {} is initialised already", self.uri)));
        }
        self.sync("_versions").await?;
        self.learn_incarnation(incarnation);
        Ok(found)
    }

    async fn check_init(
        &self,
        dataset: &Dataset,
        schema: &TableSchema,
        sharding: &Sharding,
    ) -> Result<(), TableError> {
        check_supported(dataset.schema(), schema.file_version)?;
        sharding.check(&schema.logical, schema.key.as_ref())?;
        self.sweep_old_shards().await
    }

    /// Refuses shards of an earlier write tier that hold rows or may be written; removes those that are
    /// sealed and have no row outside the base.
    async fn sweep_old_shards(&self) -> Result<(), TableError> {
        let (mut drained, mut kept) = (Vec::new(), Vec::new());
        for shard in self.shards().await? {
            let objects = self.store.list(&shard_dir(shard.id)).await.map_err(error::of_store)?;
            if objects.is_empty() {
                continue;
            }
            match self.unfolded(&shard).await {
                Some(description) => kept.push(format!("{} ({description})", shard.id)),
                None => drained.extend(objects),
            }
        }
        if !kept.is_empty() {
            return Err(TableError::invalid(format!(
                "shards of an earlier write tier lie under _mem_wal/: {}; \
                 fold their rows into the base, or remove the directories to discard them",
                kept.join(", ")
            )));
        }
        for object in drained {
            self.store.delete(&object.path).await.map_err(error::of_store)?;
        }
        Ok(())
    }

    /// What speaks against removing a shard, for people.
    async fn unfolded(&self, shard: &ShardInfo) -> Option<String> {
        let manifest = match &shard.manifest {
            Ok(Some(manifest)) => manifest,
            Ok(None) => return Some("no manifest".to_owned()),
            Err(error) => return Some(error.to_string()),
        };
        match self.unfolded_row_count(manifest, Generation::ZERO).await {
            Ok(0) if manifest.status == ShardStatus::Sealed => None,
            Ok(rows) => Some(format!("{rows} rows not in the base")),
            Err(error) => Some(error.to_string()),
        }
    }

    async fn commit_init(
        &self,
        dataset: &Dataset,
        schema: &TableSchema,
        sharding: &Sharding,
        incarnation: Uuid,
    ) -> Result<Outcome, TableError> {
        let mut new_indices = Vec::with_capacity(2);
        if let Some(key) = &schema.key
            && let Some(index) = key_index::build(dataset, key).await?
        {
            self.sync(&format!("_indices/{}", index.uuid)).await?;
            new_indices.push(index);
        }
        let details = fresh_details(sharding, dataset.schema(), incarnation)?;
        let entry = new_mem_wal_index_meta(dataset.version_id(), details);
        new_indices.push(entry.map_err(|error| error::of_table(&self.uri, error))?);
        let operation = Operation::CreateIndex { new_indices, removed_indices: Vec::new() };
        commit_onto(dataset, &self.commit_handler, operation).await
    }

    /// The incarnation of the table; one that was initialised elsewhere and has none gets it now.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when the table lost its write tier meanwhile, or cannot have one of ours;
    /// otherwise what storage said.
    pub(crate) async fn ensure_incarnation(&self, mem_wal: &MemWal) -> Result<Uuid, TableError> {
        if let Some(incarnation) = mem_wal.incarnation {
            self.learn_incarnation(incarnation);
            return Ok(incarnation);
        }
        let fresh = self.env.uuid();
        let mut unknown = None;
        for _ in 0..ATTEMPTS {
            let (dataset, schema) = self.refresh().await?;
            check_supported(dataset.schema(), schema.file_version)?;
            let entry = mem_wal_entry(&dataset).await.map_err(|error| error::of_table(&self.uri, error))?;
            let Some(entry) = entry else {
                return Err(TableError::invalid(format!(
                    "the table at {} has no write tier any more",
                    self.uri
                )));
            };
            let found = self.initialised(&dataset).await?.and_then(|found| found.incarnation);
            if let Some(incarnation) = found {
                self.sync("_versions").await?;
                self.learn_incarnation(incarnation);
                return Ok(incarnation);
            }
            let operation = self.add_incarnation(&dataset, entry, fresh)?;
            match commit_onto(&dataset, &self.commit_handler, operation).await? {
                Outcome::Committed(dataset) => self.adopt(&dataset, &schema),
                Outcome::Moved => {}
                Outcome::Unknown(error) => unknown = Some(error),
            }
        }
        Err(self.busy(unknown))
    }

    fn add_incarnation(
        &self,
        dataset: &Dataset,
        entry: IndexMetadata,
        incarnation: Uuid,
    ) -> Result<Operation, TableError> {
        let rewritten = || -> lance_core::Result<IndexMetadata> {
            let mut details = load_mem_wal_index_details(entry.clone())?;
            details.writer_config_defaults.insert(INCARNATION.to_owned(), incarnation.to_string());
            new_mem_wal_index_meta(dataset.version_id(), details)
        };
        let rewritten = rewritten().map_err(|error| error::of_table(&self.uri, error))?;
        Ok(Operation::CreateIndex { new_indices: vec![rewritten], removed_indices: vec![entry] })
    }

    fn busy(&self, last: Option<TableError>) -> TableError {
        last.unwrap_or_else(|| TableError::Unavailable {
            path: self.uri.clone(),
            reason: format!("other commits got in between {ATTEMPTS} times: try again"),
        })
    }
}
