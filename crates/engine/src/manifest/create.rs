//! Creating a shard: manifest version 1, put if absent. Called when a table is initialised or first written.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_format::coord::{Epoch, Generation, ManifestVersion, ShardId, WalPosition};
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_store::Store;
use headwater_store::register::{Register, RegisterWrite};

use crate::error::ShardError;

/// Creates `shard` with epoch 0 and the field values that route rows to it. Of several processes that create
/// the same shard at once one wins; all are handed the manifest that is there then.
///
/// # Errors
/// [`ShardError::Conflict`] when a shard of that id exists with another spec or other values; otherwise what
/// storage said.
pub async fn create_shard(
    store: &Store,
    shard: ShardId,
    spec_id: u32,
    values: BTreeMap<String, Vec<u8>>,
) -> Result<Arc<ShardManifest>, ShardError> {
    let register: Register<ShardManifest> = Register::for_shard(store.clone(), shard);
    if let Some(existing) = register.load().await? {
        return same_shard(existing, spec_id, &values);
    }
    let first = ShardManifest {
        version: ManifestVersion::new(1),
        shard_id: shard,
        shard_spec_id: spec_id,
        shard_field_values: values,
        writer_epoch: Epoch::ZERO,
        replay_after: WalPosition::ZERO,
        last_seen: WalPosition::ZERO,
        current_generation: Generation::new(1),
        sstables: Vec::new(),
        status: ShardStatus::Active,
        write_id: Some(store.env().uuid()),
        token_floor: None,
    };
    match register.write(&first).await? {
        RegisterWrite::Written => Ok(Arc::new(first)),
        RegisterWrite::Lost { latest } => same_shard(latest, spec_id, &first.shard_field_values),
        RegisterWrite::Unknown { source } => Err(ShardError::UnknownOutcome {
            path: headwater_format::path::manifest_path(shard, first.version),
            reason: crate::error::chain(&source),
        }),
    }
}

fn same_shard(
    existing: Arc<ShardManifest>,
    spec_id: u32,
    values: &BTreeMap<String, Vec<u8>>,
) -> Result<Arc<ShardManifest>, ShardError> {
    if existing.shard_spec_id == spec_id && existing.shard_field_values == *values {
        return Ok(existing);
    }
    Err(ShardError::Conflict {
        shard: existing.shard_id,
        reason: format!(
            "it exists with sharding spec {} and other field values than spec {spec_id} asks for",
            existing.shard_spec_id
        ),
    })
}
