//! Taking the write tier away from a table.
//!
//! Owns: [`LanceTable::disable_mem_wal`]: shards are sealed first, so that nobody claims one again, then the
//! base forgets the tier. Only shards without a row outside the base are sealed, and only while the caller
//! has claimed them: a claim stops every earlier writer, so no row can come in between (P7). Manifests and
//! WAL stay, for they are what stops a writer that has slept until now (P10). Does not own: claiming and
//! closing shards (`headwater`).

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_engine::table::TableError;
use headwater_format::coord::{Epoch, ShardId};
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_store::Register;
use headwater_store::register::RegisterWrite;
use lance::dataset::transaction::Operation;

use crate::commit::ATTEMPTS;
use crate::error;
use crate::table::{LanceTable, mem_wal_entry};

impl LanceTable {
    /// Refuses when a shard holds rows that are not in the base: they would be lost with the tier.
    ///
    /// # Errors
    /// [`TableError::Invalid`] with the shards and their rows; otherwise what storage said.
    pub async fn check_folded(&self) -> Result<(), TableError> {
        self.folded_shards().await.map(|_| ())
    }

    /// Takes the write tier away. `claimed`: the epoch the caller has claimed each active shard with. Its
    /// writers must be closed.
    ///
    /// # Errors [`TableError::Invalid`] when a shard holds rows that are not in the base, or was claimed by
    /// somebody else; otherwise what storage said. Shards that were sealed stay sealed; asking again goes on.
    pub async fn disable_mem_wal(&self, claimed: &BTreeMap<ShardId, Epoch>) -> Result<(), TableError> {
        let active = self.folded_shards().await?;
        let foreign = active.iter().find(|shard| claimed.get(&shard.shard_id) != Some(&shard.writer_epoch));
        if let Some(shard) = foreign {
            return Err(TableError::invalid(format!(
                "shard {} is written by another process: stop it first",
                shard.shard_id
            )));
        }
        for shard in &active {
            self.seal_shard(shard).await?;
        }
        self.forget_mem_wal().await
    }

    /// The shards that take a writer, all of them without rows outside the base.
    async fn folded_shards(&self) -> Result<Vec<Arc<ShardManifest>>, TableError> {
        let (_, _, mem_wal) = self.current_write_tier().await?;
        let (mut active, mut unfolded) = (Vec::new(), Vec::new());
        for shard in self.shards().await? {
            let Some(manifest) = shard.manifest? else { continue };
            let rows = self.unfolded_row_count(&manifest, mem_wal.compacted(shard.id)).await?;
            if rows > 0 {
                unfolded.push(format!("{} ({rows} rows)", shard.id));
            }
            if manifest.status == ShardStatus::Active {
                active.push(manifest);
            }
        }
        if unfolded.is_empty() {
            return Ok(active);
        }
        Err(TableError::invalid(format!(
            "shards hold rows that are not in the base and would be lost: {}; fold them into the base first",
            unfolded.join(", ")
        )))
    }

    /// Makes a shard refuse writers, for good.
    async fn seal_shard(&self, latest: &ShardManifest) -> Result<(), TableError> {
        let mut next = latest.clone();
        next.version = latest.version.next();
        next.writer_epoch = latest.writer_epoch.next();
        next.last_seen = latest.last_seen.max(latest.replay_after);
        next.status = ShardStatus::Sealed;
        next.write_id = Some(self.env.uuid());
        let register: Register<ShardManifest> = Register::for_shard(self.store.clone(), latest.shard_id);
        match register.write(&next).await.map_err(error::of_store)? {
            RegisterWrite::Written => Ok(()),
            RegisterWrite::Lost { .. } => Err(TableError::invalid(format!(
                "shard {} was changed by another process meanwhile: stop it first",
                latest.shard_id
            ))),
            RegisterWrite::Unknown { source } => Err(error::of_store(source)),
        }
    }

    /// Commits a version of the base without the tier.
    async fn forget_mem_wal(&self) -> Result<(), TableError> {
        let mut lost = None;
        for _ in 0..ATTEMPTS {
            let (dataset, schema) = self.refresh().await?;
            let entry = mem_wal_entry(&dataset).await.map_err(|error| error::of_table(&self.uri, error))?;
            let Some(entry) = entry else { return self.sync("_versions").await };
            let operation = Operation::CreateIndex { new_indices: Vec::new(), removed_indices: vec![entry] };
            if self.try_commit(&dataset, &schema, operation, &mut lost).await?.is_some() {
                return self.sync("_versions").await;
            }
        }
        Err(self.busy(lost))
    }
}
