//! The shard of a value: found, created or adopted.
//!
//! Owns: [`LanceTable::resolve_shard`] before a shard is claimed, [`LanceTable::confirm_shard`] and
//! [`LanceTable::adopt_shard`] after. Does not own: which shards serve a value (`serving`), the claim (the
//! engine). Keeps P7: what a caller remembers of the base decides nothing, it is read again.
//!
//! A shard we create has an id that two processes agree on, so that version 1 of its manifest, put if absent,
//! decides. A shard of the reference is adopted under its own id. Until it is claimed its writer may go on
//! and write rows of another value, so its value is recorded after the claim: the compare-and-swap goes onto
//! the manifest its rows were looked at under, and with the epoch still ours nobody else has written any.

use std::collections::BTreeSet;
use std::sync::Arc;

use headwater_engine::error::ShardError;
use headwater_engine::manifest::create_shard;
use headwater_engine::table::TableError;
use headwater_format::coord::{Epoch, ShardId};
use headwater_format::path::{manifest_dir, shard_dir};
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_store::{Register, RegisterWrite};
use lance::Dataset;
use lance::index::DatasetIndexExt;
use uuid::Uuid;

use crate::error;
use crate::key_index::is_btree;
use crate::mem_wal::MemWal;
use crate::schema::{TableSchema, check_supported};
use crate::serving::{Serves, recorded_value};
use crate::sharding::{ShardValue, Sharding, made_by_hand};
use crate::table::LanceTable;

/// Manifest changes by others that recording a value survives.
const ATTEMPTS: u32 = 16;

impl LanceTable {
    /// The shard that serves `value`: the one ACTIVE shard of it, or a new one. `routed` is what the caller
    /// spreads rows by; everything else is read again. Call [`Self::confirm_shard`] after claiming it.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when the table has no write tier any more, another one than `routed`, or
    /// spreads rows another way; several shards serve the value (they are named; the table is then
    /// read-only), the value's shard is sealed, a shard with rows belongs to another sharding spec, rows of
    /// one shard have several values, or the table has a column or a named index that this version cannot
    /// write; [`TableError::Corrupt`] when a shard's manifest cannot be read; otherwise what storage said.
    pub async fn resolve_shard(&self, routed: &MemWal, value: &ShardValue) -> Result<ShardId, TableError> {
        let (dataset, schema, mem_wal) = self.write_tier(routed).await?;
        check_supported(dataset.schema(), schema.file_version)?;
        self.check_maintained(&dataset, &mem_wal).await?;
        let incarnation = self.ensure_incarnation(&mem_wal).await?;
        match self.serving(&mem_wal, value).await?.only(value)? {
            Some(manifest) => Ok(manifest.shard_id),
            None => self.create_shard_of(&mem_wal, incarnation, value).await,
        }
    }

    /// Looks again, after this process claimed `shard` as `epoch` and before it writes to it, whether it is
    /// the one shard of `value`, and makes its manifest record that. Until the claim, others could make a
    /// second shard of the value, or write rows of another value to this one.
    ///
    /// # Errors
    /// As [`Self::resolve_shard`]; [`TableError::Unavailable`] when the shard does not serve the value any
    /// more, or storage does not say whether the value was recorded: resolve again.
    pub async fn confirm_shard(
        &self,
        routed: &MemWal,
        value: &ShardValue,
        shard: ShardId,
        epoch: Epoch,
    ) -> Result<(), TableError> {
        for _ in 0..ATTEMPTS {
            let (_, _, mem_wal) = self.write_tier(routed).await?;
            let serving = self.serving(&mem_wal, value).await?;
            let manifest = serving.only(value)?.filter(|manifest| manifest.shard_id == shard);
            let Some(manifest) = manifest else {
                return Err(changed(shard, format!("it does not serve {value} any more")));
            };
            // Whoever claimed it since looks for themselves, and the log tells our writer.
            if manifest.writer_epoch != epoch || recorded_value(&mem_wal, manifest).is_some() {
                return Ok(());
            }
            if self.record(&mem_wal, manifest, value).await? {
                return Ok(());
            }
        }
        Err(changed(shard, format!("its manifest changed {ATTEMPTS} times while its value was recorded")))
    }

    /// [`Self::confirm_shard`] for a shard that was found on storage and claimed as `epoch`, whatever it
    /// serves. A shard without rows to tell that from is left as it is, and so are all while rows of one fit
    /// no sharding: they are read and flushed, and no row is routed.
    ///
    /// # Errors
    /// As [`Self::confirm_shard`].
    pub async fn adopt_shard(&self, routed: &MemWal, shard: ShardId, epoch: Epoch) -> Result<(), TableError> {
        if routed.sharding == Sharding::Manual {
            return Ok(());
        }
        let Some(manifest) = self.newest_manifest(shard).await? else { return Ok(()) };
        if recorded_value(routed, &manifest).is_some() {
            return Ok(());
        }
        let (_, _, mem_wal) = self.write_tier(routed).await?;
        let Serves::Value(value) = self.serves(&mem_wal, &manifest).await? else { return Ok(()) };
        if self.serving(&mem_wal, &value).await?.is_unfit() {
            return Ok(());
        }
        self.confirm_shard(&mem_wal, &value, shard, epoch).await
    }

    /// The newest version of the base, its schema, and the write tier it records, which must be `routed`'s.
    async fn write_tier(&self, routed: &MemWal) -> Result<(Dataset, Arc<TableSchema>, MemWal), TableError> {
        let (dataset, schema, mem_wal) = self.current_write_tier().await?;
        if routed.incarnation.is_some_and(|known| mem_wal.incarnation != Some(known)) {
            return Err(self.made_anew());
        }
        if (&routed.sharding, routed.spec_id) != (&mem_wal.sharding, mem_wal.spec_id) {
            return Err(TableError::invalid(format!(
                "the table at {} spreads its rows another way since this process opened it: open it again",
                self.uri
            )));
        }
        if mem_wal.sharding == Sharding::Manual {
            return Err(made_by_hand());
        }
        Ok((dataset, schema, mem_wal))
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
            ShardStatus::Active => {
                self.recorded.learn(&manifest).await;
                Ok(shard)
            }
            ShardStatus::Sealed => {
                Err(TableError::invalid(format!("shard {shard} of {value} is sealed: it is being dropped")))
            }
        }
    }

    /// Records `value` as what the shard of `manifest` serves; whether that was the next version.
    async fn record(
        &self,
        mem_wal: &MemWal,
        manifest: &ShardManifest,
        value: &ShardValue,
    ) -> Result<bool, TableError> {
        let mut next = manifest.clone();
        next.version = manifest.version.next();
        next.shard_spec_id = mem_wal.spec_id;
        next.shard_field_values = value.to_entries();
        next.last_seen = manifest.last_seen.max(manifest.replay_after);
        next.write_id = Some(self.env.uuid());
        let register: Register<ShardManifest> = Register::for_shard(self.store.clone(), manifest.shard_id);
        match register.write(&next).await.map_err(error::of_store)? {
            RegisterWrite::Written => {
                self.recorded.learn(&next).await;
                Ok(true)
            }
            RegisterWrite::Lost { .. } => Ok(false),
            // Looking again tells: if it was written, the value is recorded.
            RegisterWrite::Unknown { source } => Err(error::of_store(source)),
        }
    }
}

/// The id of a shard of ours: a hash of the incarnation, the sharding spec and the value.
fn shard_id(incarnation: Uuid, spec_id: u32, value: &ShardValue) -> ShardId {
    let mut name = spec_id.to_le_bytes().to_vec();
    for (field, bytes) in value.to_entries() {
        for part in [field.as_bytes(), bytes.as_slice()] {
            name.extend_from_slice(&(part.len() as u64).to_le_bytes());
            name.extend_from_slice(part);
        }
    }
    ShardId::new(Uuid::new_v5(&incarnation, &name))
}

fn changed(shard: ShardId, reason: String) -> TableError {
    TableError::Unavailable { path: shard_dir(shard), reason }
}

fn of_shard(shard: ShardId, error: ShardError) -> TableError {
    match error {
        ShardError::Corrupt { path, reason } => TableError::Corrupt { path, reason },
        ShardError::Unavailable { reason } => TableError::Unavailable { path: manifest_dir(shard), reason },
        ShardError::UnknownOutcome { path, reason } => TableError::Unavailable { path, reason },
        other => TableError::invalid(other.to_string()),
    }
}
