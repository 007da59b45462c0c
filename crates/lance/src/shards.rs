//! The shards of a table: what lies under `_mem_wal/`.
//!
//! Owns: [`LanceTable::shards`], and which rows of a shard are not in the base yet. Does not own: which shard
//! serves a value (`serving`, `resolve`), claiming a shard (the engine).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::RecordBatch;
use headwater_engine::table::{SsTableReader, TableError};
use headwater_format::coord::{Generation, ShardId};
use headwater_format::path::{MEM_WAL_DIR, parse_shard_name, wal_path};
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry::{self, WalBody};
use headwater_store::Register;

use crate::error;
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
    /// Ids of everything under `_mem_wal/` that is named like a shard. One listing.
    ///
    /// # Errors
    /// What storage said.
    pub async fn shard_ids(&self) -> Result<BTreeSet<ShardId>, TableError> {
        let names = self.store.list_dirs(MEM_WAL_DIR).await.map_err(error::of_store)?;
        Ok(names.iter().filter_map(|name| parse_shard_name(name)).collect())
    }

    /// All shards of the table, by id. Lists `_mem_wal/` and reads the newest manifest of each.
    ///
    /// # Errors
    /// What storage said to the listing; trouble with one shard is in its [`ShardInfo`].
    pub async fn shards(&self) -> Result<Vec<ShardInfo>, TableError> {
        let mut shards = Vec::new();
        for id in self.shard_ids().await? {
            shards.push(ShardInfo { id, manifest: self.newest_manifest(id).await });
        }
        Ok(shards)
    }

    /// The newest manifest of a shard; `None` when it has none at all, so is a left-over.
    pub(crate) async fn newest_manifest(
        &self,
        shard: ShardId,
    ) -> Result<Option<Arc<ShardManifest>>, TableError> {
        let register: Register<ShardManifest> = Register::for_shard(self.store.clone(), shard);
        register.load().await.map_err(error::of_store)
    }

    /// All rows of a shard that are not in the base: of its SSTables above `compacted` (the newest row of
    /// each key), then of its WAL after the replay cursor.
    pub(crate) async fn unfolded_rows(
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
