//! Giving a table its write tier: one base commit that adds the MemWAL index entry and the key index.
//!
//! Owns: [`LanceTable::init_mem_wal`], all its checks, the sweep of dropped shards, and the incarnation, with
//! what a table initialised elsewhere lacks. Does not own: the details message (`mem_wal`), which column the
//! key index is on (`key_index`). The commits add nothing that needs a reader or writer feature flag, so
//! older Lance and LanceDB go on writing the base. Keeps P10 (only garbage is deleted) and P16: a commit goes
//! onto the version it was planned on, or is planned again.

use headwater_engine::table::{TableError, TableIo};
use headwater_format::coord::{Generation, ShardId};
use headwater_format::path::{parse_sstable_name, shard_dir};
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use lance::Dataset;
use lance::dataset::transaction::Operation;
use lance_table::format::IndexMetadata;
use lance_table::system_index::mem_wal::{load_mem_wal_index_details, new_mem_wal_index_meta};
use uuid::Uuid;

use crate::commit::ATTEMPTS;
use crate::error;
use crate::key_index::{self, Built};
use crate::mem_wal::{INCARNATION, MemWal, WriterSpec, fresh_details};
use crate::schema::{TableSchema, check_supported};
use crate::sharding::Sharding;
use crate::table::{LanceTable, mem_wal_entry};

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
        self.init_mem_wal_for(sharding, &WriterSpec::default()).await
    }

    /// [`Self::init_mem_wal`], recording what `writers` says for those who will write the table.
    ///
    /// # Errors
    /// As [`Self::init_mem_wal`]; [`TableError::Invalid`] for an index to maintain that there is not.
    pub async fn init_mem_wal_for(
        &self,
        sharding: &Sharding,
        writers: &WriterSpec,
    ) -> Result<MemWal, TableError> {
        let incarnation = self.env.uuid();
        let (mut lost, mut built) = (None, None);
        for _ in 0..ATTEMPTS {
            let (dataset, schema) = self.refresh().await?;
            if let Some(found) = self.initialised(&dataset).await? {
                return self.conclude(found, incarnation).await;
            }
            self.check_init(&dataset, &schema, sharding).await?;
            self.check_named(writers).await?;
            built = self.build_key_index(&dataset, &schema, built).await?;
            let operation = self.plan_init(&dataset, (sharding, writers), incarnation, built.as_ref())?;
            if let Some(dataset) = self.try_commit(&dataset, &schema, operation, &mut lost).await? {
                let found = self.initialised(&dataset).await?;
                let found = found.ok_or_else(|| self.busy(None))?;
                return self.conclude(found, incarnation).await;
            }
        }
        Err(self.busy(lost))
    }

    /// The write tier a version of the base records.
    pub(crate) async fn initialised(&self, dataset: &Dataset) -> Result<Option<MemWal>, TableError> {
        let details = self.details(dataset).await?;
        details.map(|details| MemWal::read(&details, dataset.schema())).transpose()
    }

    /// The own incarnation is proof that the own commit is the one that counts, lost answers included.
    async fn conclude(&self, found: MemWal, incarnation: Uuid) -> Result<MemWal, TableError> {
        if found.incarnation != Some(incarnation) {
            return Err(TableError::invalid("the table is initialised already"));
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

    async fn check_named(&self, writers: &WriterSpec) -> Result<(), TableError> {
        let Some(names) = &writers.maintained else { return Ok(()) };
        let indexes = self.indexes().await?;
        let unknown = names.iter().find(|name| indexes.iter().all(|index| index.name != **name));
        let Some(name) = unknown else { return Ok(()) };
        let known: Vec<&str> = indexes.iter().map(|index| index.name.as_str()).collect();
        Err(TableError::invalid(format!(
            "there is no index {name:?} to maintain; the table has [{}]: create it first, or leave it out",
            known.join(", ")
        )))
    }

    /// Refuses shards of an earlier write tier that hold rows or may be written. Of those that are sealed and
    /// have no row outside the base it deletes the SSTables nothing names any more; their manifests and their
    /// WAL stay, for they are what stops a writer of theirs that has slept until now (P7, P10).
    async fn sweep_old_shards(&self) -> Result<(), TableError> {
        let (mut garbage, mut kept) = (Vec::new(), Vec::new());
        for shard in self.shards().await? {
            let against = match &shard.manifest {
                Ok(Some(manifest)) => self.unfolded(manifest).await,
                Ok(None) => self.without_manifest(shard.id).await?,
                Err(error) => Some(error.to_string()),
            };
            match (against, shard.manifest) {
                (Some(against), _) => kept.push(format!("{} ({against})", shard.id)),
                (None, Ok(Some(manifest))) => garbage.extend(self.unnamed_sstables(&manifest).await?),
                (None, _) => {}
            }
        }
        if !kept.is_empty() {
            return Err(TableError::invalid(format!(
                "shards of an earlier write tier lie under _mem_wal/: {}; \
                 fold their rows into the base, or remove the directories to discard them",
                kept.join(", ")
            )));
        }
        for (shard, name) in garbage {
            self.remove_sstable(shard, &name).await?;
        }
        Ok(())
    }

    /// What speaks against going on over a shard that has no manifest, for people. On local disk an empty
    /// directory is left of a shard whose files somebody removed.
    async fn without_manifest(&self, shard: ShardId) -> Result<Option<String>, TableError> {
        let objects = self.store.list(&shard_dir(shard)).await.map_err(error::of_store)?;
        Ok((!objects.is_empty()).then(|| "no manifest".to_owned()))
    }

    /// SSTable directories of generations before the current one that the newest manifest does not name.
    async fn unnamed_sstables(&self, manifest: &ShardManifest) -> Result<Vec<(ShardId, String)>, TableError> {
        let found = self.list_generations(manifest.shard_id).await?;
        let unnamed = found.into_iter().filter(|name| {
            parse_sstable_name(name).is_some_and(|(_, generation)| generation < manifest.current_generation)
                && manifest.sstables.iter().all(|named| named.path != *name)
        });
        Ok(unnamed.map(|name| (manifest.shard_id, name)).collect())
    }

    /// What speaks against going on over a shard, for people.
    async fn unfolded(&self, manifest: &ShardManifest) -> Option<String> {
        match self.unfolded_row_count(manifest, Generation::ZERO).await {
            Ok(0) if manifest.status == ShardStatus::Sealed => None,
            Ok(rows) => Some(format!("{rows} rows not in the base")),
            Err(error) => Some(error.to_string()),
        }
    }

    /// The B-tree on the key, durable and not committed yet; `None` when the table needs none.
    async fn build_key_index(
        &self,
        dataset: &Dataset,
        schema: &TableSchema,
        earlier: Option<Built>,
    ) -> Result<Option<Built>, TableError> {
        let Some(key) = &schema.key else { return Ok(None) };
        let built = key_index::build(dataset, key, earlier).await?;
        if let Some(built) = &built {
            self.sync(&format!("_indices/{}", built.index.uuid)).await?;
        }
        Ok(built)
    }

    fn plan_init(
        &self,
        dataset: &Dataset,
        (sharding, writers): (&Sharding, &WriterSpec),
        incarnation: Uuid,
        key_index: Option<&Built>,
    ) -> Result<Operation, TableError> {
        let details = fresh_details(sharding, writers, dataset.schema(), incarnation)?;
        let entry = new_mem_wal_index_meta(dataset.version_id(), details);
        let entry = entry.map_err(|error| error::of_table(&self.uri, error))?;
        let new_indices = key_index.map(|built| built.index.clone()).into_iter().chain([entry]).collect();
        Ok(Operation::CreateIndex { new_indices, removed_indices: Vec::new() })
    }

    /// The incarnation of the table. One that was initialised elsewhere and has none gets it now, and in the
    /// same commit the B-tree on its key that shadows, lookups and compaction live on, unless it has one. No
    /// other index is touched.
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
        let (mut lost, mut built) = (None, None);
        for _ in 0..ATTEMPTS {
            let (dataset, schema) = self.refresh().await?;
            check_supported(dataset.schema(), schema.file_version)?;
            let entry = mem_wal_entry(&dataset).await.map_err(|error| error::of_table(&self.uri, error))?;
            let Some(entry) = entry else {
                return Err(TableError::invalid("the table has no write tier any more"));
            };
            let found = self.initialised(&dataset).await?.and_then(|found| found.incarnation);
            if let Some(incarnation) = found {
                self.sync("_versions").await?;
                self.learn_incarnation(incarnation);
                return Ok(incarnation);
            }
            built = self.build_key_index(&dataset, &schema, built).await?;
            let operation = self.add_incarnation(&dataset, entry, fresh, built.as_ref())?;
            self.try_commit(&dataset, &schema, operation, &mut lost).await?;
        }
        Err(self.busy(lost))
    }

    fn add_incarnation(
        &self,
        dataset: &Dataset,
        entry: IndexMetadata,
        incarnation: Uuid,
        key_index: Option<&Built>,
    ) -> Result<Operation, TableError> {
        let rewritten = || -> lance_core::Result<IndexMetadata> {
            let mut details = load_mem_wal_index_details(entry.clone())?;
            details.writer_config_defaults.insert(INCARNATION.to_owned(), incarnation.to_string());
            new_mem_wal_index_meta(dataset.version_id(), details)
        };
        let rewritten = rewritten().map_err(|error| error::of_table(&self.uri, error))?;
        let new_indices = key_index.map(|built| built.index.clone()).into_iter().chain([rewritten]).collect();
        Ok(Operation::CreateIndex { new_indices, removed_indices: vec![entry] })
    }
}
