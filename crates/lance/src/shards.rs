//! The shards of a table: what lies under `_mem_wal/`, and which shard serves a value.
//!
//! Owns: [`LanceTable::shards`], [`LanceTable::resolve_shard`], and how much of a shard is not in the base
//! yet. Does not own: claiming a shard (the engine).
//!
//! A shard we create has an id that two processes agree on, so that version 1 of its manifest, put if absent,
//! decides. The reference picks any id and may leave the values empty: such a shard is adopted when all its
//! rows that are not in the base evaluate to one value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::RecordBatch;
use headwater_engine::error::ShardError;
use headwater_engine::manifest::create_shard;
use headwater_engine::table::{SsTableReader, TableError};
use headwater_format::coord::{Generation, ShardId};
use headwater_format::path::{MEM_WAL_DIR, manifest_dir, parse_shard_name, wal_path};
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_format::wal_entry::{self, WalBody};
use headwater_store::Register;
use lance::Dataset;
use lance::index::DatasetIndexExt;
use uuid::Uuid;

use crate::error;
use crate::key_index::is_btree;
use crate::mem_wal::MemWal;
use crate::schema::check_supported;
use crate::sharding::{ShardValue, Sharding, made_by_hand};
use crate::table::LanceTable;

/// A directory under `_mem_wal/` that is named like a shard.
#[derive(Debug)]
pub struct ShardInfo {
    /// Its id.
    pub id: ShardId,
    /// Its newest manifest; `None` when it has none at all, so is a left-over; the error when it cannot be
    /// read.
    pub manifest: Result<Option<Arc<ShardManifest>>, TableError>,
}

impl ShardInfo {
    /// The field values its manifest records; empty in shards the reference made.
    pub fn values(&self) -> BTreeMap<String, Vec<u8>> {
        match &self.manifest {
            Ok(Some(manifest)) => manifest.shard_field_values.clone(),
            _ => BTreeMap::new(),
        }
    }
}

impl LanceTable {
    /// All shards of the table, by id. Lists `_mem_wal/` and reads the newest manifest of each.
    ///
    /// # Errors
    /// What storage said to the listing; trouble with one shard is in its [`ShardInfo`].
    pub async fn shards(&self) -> Result<Vec<ShardInfo>, TableError> {
        let names = self.store.list_dirs(MEM_WAL_DIR).await.map_err(error::of_store)?;
        let ids: BTreeSet<ShardId> = names.iter().filter_map(|name| parse_shard_name(name)).collect();
        let mut shards = Vec::with_capacity(ids.len());
        for id in ids {
            let register: Register<ShardManifest> = Register::for_shard(self.store.clone(), id);
            let manifest = register.load().await.map_err(error::of_store);
            shards.push(ShardInfo { id, manifest });
        }
        Ok(shards)
    }

    /// The shard that serves `value`: the one ACTIVE shard of it, or a new one.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when several shards serve the value (they are named; the table is then
    /// read-only), the value's shard is sealed, a shard belongs to another sharding spec, rows of one shard
    /// have several values, or the table has a column or a named index that this version cannot write;
    /// [`TableError::Corrupt`] when a shard's manifest cannot be read; otherwise what storage said.
    pub async fn resolve_shard(&self, mem_wal: &MemWal, value: &ShardValue) -> Result<ShardId, TableError> {
        if mem_wal.sharding == Sharding::Manual {
            return Err(made_by_hand());
        }
        let (dataset, schema) = self.known();
        check_supported(dataset.schema(), schema.file_version)?;
        self.check_maintained(&dataset, mem_wal).await?;
        let incarnation = self.ensure_incarnation(mem_wal).await?;
        let (mut active, mut sealed) = (Vec::new(), Vec::new());
        for shard in self.shards().await? {
            let Some(manifest) = shard.manifest? else { continue };
            if self.value_of(mem_wal, &manifest).await?.as_ref() != Some(value) {
                continue;
            }
            match manifest.status {
                ShardStatus::Active => active.push(manifest.shard_id),
                ShardStatus::Sealed => sealed.push(manifest.shard_id),
            }
        }
        match (active.as_slice(), sealed.as_slice()) {
            ([shard], _) => Ok(*shard),
            ([], []) => self.create_shard_of(mem_wal, incarnation, value).await,
            ([], sealed) => Err(TableError::invalid(format!(
                "shard {} of {value} is sealed: it is being dropped and takes no writer",
                list(sealed)
            ))),
            (several, _) => Err(TableError::invalid(format!(
                "shards {} all serve {value}: rows of one key could be in either, so none is written; \
                 fold them into the base and remove all but one",
                list(several)
            ))),
        }
    }

    /// Refuses a table that names vector or full-text indexes its writers must maintain: this version
    /// maintains none, and searches through such an index would silently miss the rows of our SSTables. A
    /// named B-tree only makes lookups faster, and an index that is gone is skipped.
    async fn check_maintained(&self, dataset: &Dataset, mem_wal: &MemWal) -> Result<(), TableError> {
        if mem_wal.maintain_all || mem_wal.maintained.is_empty() {
            return Ok(());
        }
        let indexes = dataset.load_indices().await.map_err(|error| error::of_table(&self.uri, error))?;
        let named = indexes.iter().filter(|index| mem_wal.maintained.contains(&index.name));
        let missed: BTreeSet<&str> =
            named.filter(|index| !is_btree(index)).map(|index| index.name.as_str()).collect();
        if missed.is_empty() {
            return Ok(());
        }
        Err(TableError::invalid(format!(
            "writers of the table must maintain the indexes {}, which this version cannot: \
             searches would miss new rows",
            missed.into_iter().collect::<Vec<_>>().join(", ")
        )))
    }

    async fn create_shard_of(
        &self,
        mem_wal: &MemWal,
        incarnation: Uuid,
        value: &ShardValue,
    ) -> Result<ShardId, TableError> {
        let shard = shard_id(incarnation, mem_wal.spec_id, value);
        let manifest = create_shard(&self.store, shard, mem_wal.spec_id, value.to_entries())
            .await
            .map_err(|error| of_shard(shard, error))?;
        match manifest.status {
            ShardStatus::Active => Ok(shard),
            ShardStatus::Sealed => {
                Err(TableError::invalid(format!("shard {shard} of {value} is sealed: it is being dropped")))
            }
        }
    }

    /// The value a shard serves: what its manifest records, else what its rows evaluate to; `None` when it
    /// records none and has no rows outside the base.
    async fn value_of(
        &self,
        mem_wal: &MemWal,
        manifest: &ShardManifest,
    ) -> Result<Option<ShardValue>, TableError> {
        let shard = manifest.shard_id;
        let recorded = mem_wal.sharding.value_of(&manifest.shard_field_values);
        if manifest.shard_spec_id == mem_wal.spec_id {
            if recorded.is_some() {
                return Ok(recorded);
            }
            if mem_wal.sharding == Sharding::Unsharded {
                return Ok(Some(ShardValue::Unsharded));
            }
        }
        let mut values = BTreeSet::new();
        let compacted = mem_wal.compacted(shard);
        for batch in self.unfolded_rows(manifest, compacted).await? {
            values.extend(mem_wal.sharding.values(&batch)?);
        }
        if manifest.shard_spec_id != mem_wal.spec_id && !values.is_empty() {
            return Err(TableError::invalid(format!(
                "shard {shard} has rows and belongs to sharding spec {}, the table has spec {}",
                manifest.shard_spec_id, mem_wal.spec_id
            )));
        }
        if values.len() > 1 {
            return Err(TableError::invalid(format!(
                "shard {shard} has rows of {} values: it fits no sharding of the table and cannot be written",
                values.len()
            )));
        }
        Ok(values.pop_first())
    }

    /// All rows of a shard that are not in the base: of its SSTables above `compacted` (the newest row of
    /// each key), then of its WAL after the replay cursor.
    async fn unfolded_rows(
        &self,
        manifest: &ShardManifest,
        compacted: Generation,
    ) -> Result<Vec<RecordBatch>, TableError> {
        let mut rows = Vec::new();
        for sstable in manifest.sstables.iter().filter(|sstable| sstable.generation > compacted) {
            rows.extend(self.sstable_files(manifest.shard_id, sstable).await?.scan().await?);
        }
        rows.extend(self.wal_rows(manifest).await?);
        Ok(rows)
    }

    /// How many rows of a shard are not in the base, replaced ones included.
    pub(crate) async fn unfolded_row_count(
        &self,
        manifest: &ShardManifest,
        compacted: Generation,
    ) -> Result<u64, TableError> {
        let mut rows: u64 = 0;
        for sstable in manifest.sstables.iter().filter(|sstable| sstable.generation > compacted) {
            let counted = match sstable.physical_rows {
                Some(rows) => rows,
                None => self.sstable_files(manifest.shard_id, sstable).await?.physical_rows(),
            };
            rows = rows.saturating_add(counted);
        }
        let wal = self.wal_rows(manifest).await?;
        Ok(wal.iter().fold(rows, |rows, batch| rows.saturating_add(batch.num_rows() as u64)))
    }

    /// Rows of the WAL after the replay cursor, up to the first missing entry.
    async fn wal_rows(&self, manifest: &ShardManifest) -> Result<Vec<RecordBatch>, TableError> {
        let mut rows = Vec::new();
        let mut position = manifest.replay_after.next();
        loop {
            let path = wal_path(manifest.shard_id, position);
            let Some(bytes) = self.store.get(&path).await.map_err(error::of_store)? else { return Ok(rows) };
            let entry = wal_entry::decode(bytes)
                .map_err(|error| TableError::Corrupt { path, reason: error.to_string() })?;
            if let WalBody::Rows { batches, .. } = entry.body {
                rows.extend(batches);
            }
            position = position.next();
        }
    }
}

/// The id of a shard of ours: a hash of the incarnation, the sharding spec and the value.
pub(crate) fn shard_id(incarnation: Uuid, spec_id: u32, value: &ShardValue) -> ShardId {
    let mut name = spec_id.to_le_bytes().to_vec();
    for (field, bytes) in value.to_entries() {
        for part in [field.as_bytes(), bytes.as_slice()] {
            name.extend_from_slice(&(part.len() as u64).to_le_bytes());
            name.extend_from_slice(part);
        }
    }
    ShardId::new(Uuid::new_v5(&incarnation, &name))
}

fn list(shards: &[ShardId]) -> String {
    shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn of_shard(shard: ShardId, error: ShardError) -> TableError {
    match error {
        ShardError::Corrupt { path, reason } => TableError::Corrupt { path, reason },
        ShardError::Unavailable { reason } => TableError::Unavailable { path: manifest_dir(shard), reason },
        ShardError::UnknownOutcome { path, reason } => TableError::Unavailable { path, reason },
        other => TableError::invalid(other.to_string()),
    }
}
