//! The protobuf messages of a shard manifest, tag by tag, and their way to and from [`ShardManifest`].
//!
//! Owns: the wire types. Does not own: validation beyond what the types need. Called by the parent module
//! only.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{ManifestError, ShardManifest, ShardStatus, SsTable, TokenFloor};
use crate::coord::{Epoch, Generation, ManifestVersion, ShardId, WalPosition};

const STATUS_ACTIVE: i32 = 0;
const STATUS_SEALED: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Manifest {
    #[prost(uint64, tag = "1")]
    version: u64,
    #[prost(uint64, tag = "2")]
    writer_epoch: u64,
    #[prost(uint64, tag = "3")]
    replay_after_wal_entry_position: u64,
    #[prost(uint64, tag = "4")]
    wal_entry_position_last_seen: u64,
    #[prost(uint64, tag = "6")]
    current_generation: u64,
    #[prost(message, repeated, tag = "8")]
    sstables: Vec<Table>,
    #[prost(uint32, tag = "10")]
    shard_spec_id: u32,
    #[prost(message, optional, tag = "11")]
    shard_id: Option<Id>,
    #[prost(message, repeated, tag = "14")]
    shard_field_entries: Vec<FieldEntry>,
    #[prost(int32, tag = "15")]
    status: i32,
    #[prost(bytes = "vec", optional, tag = "1000")]
    write_id: Option<Vec<u8>>,
    #[prost(message, optional, tag = "1001")]
    token_floor: Option<Floor>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Floor {
    #[prost(uint64, tag = "1")]
    position: u64,
    #[prost(uint64, tag = "2")]
    newest_ms: u64,
    /// How far each listed entry is from the one before; the first from `position`.
    #[prost(uint64, repeated, tag = "3")]
    steps: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Id {
    #[prost(bytes = "vec", tag = "1")]
    uuid: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FieldEntry {
    #[prost(string, tag = "1")]
    field_id: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Table {
    #[prost(uint64, tag = "1")]
    generation: u64,
    #[prost(string, tag = "2")]
    path: String,
    #[prost(uint64, optional, tag = "3")]
    in_memory_bytes: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    physical_rows: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    primary_key_bytes: Option<u64>,
}

impl Manifest {
    /// Everything but the shard id, and the shard id alone: one message after the other is one message in
    /// protobuf, and so the id comes last.
    pub(super) fn split(manifest: &ShardManifest) -> (Self, Self) {
        let body = Self {
            version: manifest.version.get(),
            writer_epoch: manifest.writer_epoch.get(),
            replay_after_wal_entry_position: manifest.replay_after.get(),
            wal_entry_position_last_seen: manifest.last_seen.get(),
            current_generation: manifest.current_generation.get(),
            sstables: manifest.sstables.iter().map(Table::from).collect(),
            shard_spec_id: manifest.shard_spec_id,
            shard_id: None,
            shard_field_entries: manifest.shard_field_values.iter().map(FieldEntry::from).collect(),
            status: match manifest.status {
                ShardStatus::Active => STATUS_ACTIVE,
                ShardStatus::Sealed => STATUS_SEALED,
            },
            write_id: manifest.write_id.map(|id| id.as_bytes().to_vec()),
            token_floor: manifest.token_floor.as_ref().map(Floor::from),
        };
        let id = Id { uuid: manifest.shard_id.uuid().as_bytes().to_vec() };
        (body, Self { shard_id: Some(id), ..Self::default() })
    }

    pub(super) fn into_manifest(self) -> Result<ShardManifest, ManifestError> {
        let Some(shard_id) = self.shard_id else {
            return Err(ManifestError::Missing { field: "shard_id" });
        };
        let write_id = self.write_id.map(|bytes| uuid("write_id", &bytes)).transpose()?;
        Ok(ShardManifest {
            version: ManifestVersion::new(self.version),
            shard_id: ShardId::new(uuid("shard_id", &shard_id.uuid)?),
            shard_spec_id: self.shard_spec_id,
            shard_field_values: field_values(self.shard_field_entries)?,
            writer_epoch: Epoch::new(self.writer_epoch),
            replay_after: WalPosition::new(self.replay_after_wal_entry_position),
            last_seen: WalPosition::new(self.wal_entry_position_last_seen),
            current_generation: Generation::new(self.current_generation),
            sstables: self.sstables.into_iter().map(SsTable::from).collect(),
            status: status(self.status)?,
            write_id,
            token_floor: self.token_floor.map(TokenFloor::from),
        })
    }
}

impl From<&TokenFloor> for Floor {
    fn from(floor: &TokenFloor) -> Self {
        let mut last = floor.position.get();
        let step =
            |entry: &WalPosition| entry.get().saturating_sub(std::mem::replace(&mut last, entry.get()));
        let steps = floor.entries.iter().map(step).collect();
        Self { position: floor.position.get(), newest_ms: floor.newest_ms, steps }
    }
}

impl From<Floor> for TokenFloor {
    fn from(floor: Floor) -> Self {
        let mut last = floor.position;
        let entries = floor.steps.iter().map(|step| {
            last = last.saturating_add(*step);
            WalPosition::new(last)
        });
        let entries = entries.collect();
        Self { position: WalPosition::new(floor.position), entries, newest_ms: floor.newest_ms }
    }
}

fn uuid(field: &'static str, bytes: &[u8]) -> Result<Uuid, ManifestError> {
    let reason = || format!("{} bytes instead of 16", bytes.len());
    Uuid::from_slice(bytes).map_err(|_| ManifestError::Invalid { field, reason: reason() })
}

fn status(number: i32) -> Result<ShardStatus, ManifestError> {
    match number {
        STATUS_ACTIVE => Ok(ShardStatus::Active),
        STATUS_SEALED => Ok(ShardStatus::Sealed),
        unknown => {
            Err(ManifestError::Invalid { field: "status", reason: format!("unknown status {unknown}") })
        }
    }
}

fn field_values(entries: Vec<FieldEntry>) -> Result<BTreeMap<String, Vec<u8>>, ManifestError> {
    let mut values = BTreeMap::new();
    for entry in entries {
        if let Some(_earlier) = values.insert(entry.field_id.clone(), entry.value) {
            let reason = format!("two values for {:?}", entry.field_id);
            return Err(ManifestError::Invalid { field: "shard_field_entries", reason });
        }
    }
    Ok(values)
}

impl From<(&String, &Vec<u8>)> for FieldEntry {
    fn from((field_id, value): (&String, &Vec<u8>)) -> Self {
        Self { field_id: field_id.clone(), value: value.clone() }
    }
}

impl From<&SsTable> for Table {
    fn from(sstable: &SsTable) -> Self {
        Self {
            generation: sstable.generation.get(),
            path: sstable.path.clone(),
            in_memory_bytes: sstable.in_memory_bytes,
            physical_rows: sstable.physical_rows,
            primary_key_bytes: sstable.primary_key_bytes,
        }
    }
}

impl From<Table> for SsTable {
    fn from(table: Table) -> Self {
        Self {
            generation: Generation::new(table.generation),
            path: table.path,
            in_memory_bytes: table.in_memory_bytes,
            physical_rows: table.physical_rows,
            primary_key_bytes: table.primary_key_bytes,
        }
    }
}
