//! The write tier itself: flush, spec, statistics.
//!
//! Owns: what the protocol says of them. Does not own: the tier (`headwater`).

use arrow_array::RecordBatch;
use headwater::{INCARNATION, ReadLevel, Table};
use headwater_format::shard_manifest::ShardStatus;
use serde_json::{Value, json};

use crate::bodies::changes::{ShardingSpec, WriteSpec};
use crate::error::{Again, ApiError};

/// Makes every row acknowledged before part of an SSTable, whoever wrote it; says which generation each shard
/// sealed.
///
/// # Errors
/// 503 when a shard could not; the others are flushed all the same.
pub async fn flush(name: &str, table: &Table) -> Result<Value, ApiError> {
    let failed = |error: &headwater::Error| ApiError::tier(name, error, Again::Harmless);
    table.open_shards().await.map_err(|error| failed(&error))?;
    let sealed = table.flush().await.map_err(|error| failed(&error))?;
    let sealed = sealed
        .into_iter()
        .map(|(shard, generation)| json!({ "shard_id": shard.to_string(), "generation": generation.get() }));
    Ok(json!({ "generations": sealed.collect::<Vec<_>>() }))
}

/// What the tier records about itself. `resolved`: with the names of all indexes where it maintains them all,
/// for clients that know no "all".
///
/// # Errors
/// What storage says.
pub async fn spec(name: &str, table: &Table, resolved: bool) -> Result<WriteSpec, ApiError> {
    let recorded = table.mem_wal();
    let maintained = match (recorded.maintain_all, resolved) {
        (false, _) => Some(recorded.maintained.clone()),
        (true, false) => None,
        (true, true) => {
            let indexes =
                table.indexes().await.map_err(|error| ApiError::tier(name, &error, Again::Harmless))?;
            Some(indexes.into_iter().map(|index| index.name).collect())
        }
    };
    let mut defaults = recorded.writer_defaults.clone();
    defaults.remove(INCARNATION);
    Ok(WriteSpec {
        sharding: ShardingSpec::from(&recorded.sharding),
        maintained_indexes: maintained,
        writer_config_defaults: defaults,
    })
}

/// Shards, their SSTables that are not part of the base, and their memtables. `generations`: what the list of
/// SSTables is called.
///
/// # Errors
/// What storage says.
pub async fn stats(
    name: &str,
    table: &Table,
    with_rows: bool,
    generations: &str,
) -> Result<Vec<Value>, ApiError> {
    let failed = |error: &headwater::Error| ApiError::tier(name, error, Again::Harmless);
    let recorded = table.tier().await.map_err(|error| failed(&error))?;
    let here = table.snapshot(ReadLevel::Durable).await.map_err(|error| failed(&error))?;
    let mut shards = Vec::new();
    for shard in recorded.shards {
        let manifest = shard.manifest.map_err(|error| ApiError::table(name, &error, Again::Harmless))?;
        let Some(manifest) = manifest else { continue };
        let compacted = recorded.mem_wal.compacted(shard.id);
        let sstables =
            manifest.sstables.iter().filter(|sstable| sstable.generation > compacted).map(|sstable| {
                let mut entry = json!({
                    "generation": sstable.generation.get(),
                    "bytes": sstable.in_memory_bytes.unwrap_or_default(),
                });
                if let (true, Some(rows), Some(entry)) =
                    (with_rows, sstable.physical_rows, entry.as_object_mut())
                {
                    entry.insert("rows".to_owned(), rows.into());
                }
                entry
            });
        let active = manifest.status == ShardStatus::Active;
        let mut entry = json!({
            "shard_id": shard.id.to_string(),
            "status": if active { "Active" } else { "Sealed" },
            "writer_epoch": manifest.writer_epoch.get(),
            "manifest_version": manifest.version.get(),
            "current_generation": manifest.current_generation.get(),
            "replay_after_wal_entry_position": manifest.replay_after.get(),
            "wal_entry_position_last_seen": manifest.last_seen.get(),
            generations: sstables.collect::<Vec<_>>(),
            "compacting": false,
        });
        let snapshot = here.shards().iter().find(|(id, _)| *id == shard.id).map(|(_, snapshot)| snapshot);
        if let (Some(snapshot), Some(entry)) = (snapshot, entry.as_object_mut()) {
            let views =
                snapshot.memtables().map_err(|error| ApiError::shard(name, &error, Again::Harmless))?;
            let memtables = views.iter().map(|view| {
                let batches = view.batches();
                json!({
                    "generation": view.generation().get(),
                    "rows": view.rows(),
                    "bytes": batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>(),
                    "batches": batches.len(),
                    "indexes": [],
                })
            });
            entry.insert("memtables".to_owned(), memtables.collect());
        }
        shards.push(entry);
    }
    Ok(shards)
}
