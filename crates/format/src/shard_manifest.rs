//! The shard manifest: who owns a shard, what of its WAL is covered, which SSTables it has.
//!
//! Owns: [`ShardManifest`], its protobuf bytes and its validation. Does not own: how versions follow each
//! other (the register in `headwater-store`), nor what an update may change (`headwater-engine`). Keeps P9
//! and P11 readable: generations ascend, and each is below the next one to publish.
//!
//! # Bytes
//! The `ShardManifest` message of the Lance table format, plus two fields of ours, which describe only the
//! version that carries them: tag 1000, `write_id`, 16 bytes; tag 1001, `token_floor`, a message of a
//! position (tag 1), a time (tag 2) and steps from entry to entry (tag 3). Readers that do not
//! know them drop them. Unknown tags are ignored.
//!
//! The wire order is ours too: `shard_id` goes out last. Protobuf does not care, and so every strict prefix
//! of what we wrote is refused, because a manifest without its shard id is none. **What cannot be caught:** a
//! manifest in tag order (as the reference writes it) cut exactly before its shard field values or its
//! status, which then reads as one without values or as active. Neither format carries a checksum, so a
//! flipped bit inside a value passes as well.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use crate::coord::{Epoch, Generation, ManifestVersion, ShardId, WalPosition};

/// Entries a token floor lists at most: a byte or two each, in every version of the manifest.
const MAX_LISTED_ENTRIES: usize = 4_096;

mod wire;

#[cfg(test)]
mod tests;

/// One version of a shard's manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardManifest {
    /// Its version: 1, 2, 3, … and equal to what its file name says.
    pub version: ManifestVersion,
    /// The shard it describes.
    pub shard_id: ShardId,
    /// The sharding spec the shard belongs to; 0 = made by hand.
    pub shard_spec_id: u32,
    /// Shard field id → value as raw little-endian scalar bytes (text: its UTF-8 bytes). The reference leaves
    /// it empty.
    pub shard_field_values: BTreeMap<String, Vec<u8>>,
    /// Epoch of the writer that owns the shard; 0 = never claimed.
    pub writer_epoch: Epoch,
    /// Every WAL entry up to here is covered by published SSTables (P11); 0 = none is.
    pub replay_after: WalPosition,
    /// A WAL position known to exist, where looking for the tip may begin. A hint; never below `replay_after`
    /// in what we write, but the reference does not promise it.
    pub last_seen: WalPosition,
    /// The next generation to publish, from 1.
    pub current_generation: Generation,
    /// Published SSTables that were not collected yet, ascending by generation.
    pub sstables: Vec<SsTable>,
    /// Whether writers may claim it.
    pub status: ShardStatus,
    /// Makes the bytes of this version unique, so that a writer recognises its own. Absent in what others
    /// wrote.
    pub write_id: Option<Uuid>,
    /// Where the log below the replay cursor still tells of client tokens; none when it need not be read for
    /// them. Absent in what others wrote.
    pub token_floor: Option<TokenFloor>,
}

/// Which covered WAL entries carry client tokens that were alive when this was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFloor {
    /// The first of them. From here to the replay cursor a missing entry is no hole: its rows are in
    /// SSTables.
    pub position: WalPosition,
    /// All of them, ascending, the first among them. Empty when there are too many to list: it may then be
    /// any from the first to the replay cursor.
    pub entries: Vec<WalPosition>,
    /// When the youngest of their tokens was accepted, by its writer's clock, in milliseconds since 1970:
    /// once it has expired, so have all.
    pub newest_ms: u64,
}

impl TokenFloor {
    /// Of these entries, if there are any; `newest_ms` as in the field.
    pub fn of(entries: BTreeSet<WalPosition>, newest_ms: u64) -> Option<Self> {
        let position = *entries.first()?;
        let listed = entries.len() <= MAX_LISTED_ENTRIES;
        let entries = if listed { entries.into_iter().collect() } else { Vec::new() };
        Some(Self { position, entries, newest_ms })
    }

    /// The entries to read for tokens, ascending, none above the replay cursor `covered`.
    pub fn to_read(&self, covered: WalPosition) -> impl Iterator<Item = WalPosition> + Send {
        let end = if self.entries.is_empty() { covered.get() } else { 0 };
        let any = (self.position.get()..=end).map(WalPosition::new);
        let listed = self.entries.iter().copied().take_while(move |entry| *entry <= covered);
        any.chain(listed)
    }
}

/// A published SSTable. Absent numbers are unknown, not zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsTable {
    /// Its generation, from 1.
    pub generation: Generation,
    /// Name of its directory, relative to the shard's.
    pub path: String,
    /// Payload bytes of its rows as the memtable counted them.
    pub in_memory_bytes: Option<u64>,
    /// Rows in its data file, replaced ones included.
    pub physical_rows: Option<u64>,
    /// Payload bytes of the key columns over all physical rows; absent without a key.
    pub primary_key_bytes: Option<u64>,
}

/// Whether writers may claim a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShardStatus {
    /// Writers may claim it.
    #[default]
    Active,
    /// Being dropped; refuses claims.
    Sealed,
}

/// Why bytes are no shard manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Not the protobuf message; cut short, most likely.
    #[error("undecodable shard manifest: {reason}")]
    Undecodable {
        /// What the decoder said.
        reason: String,
    },
    /// A field that every manifest has is absent; cut short, most likely.
    #[error("shard manifest without {field}")]
    Missing {
        /// Name of the field.
        field: &'static str,
    },
    /// A field holds what it cannot hold.
    #[error("shard manifest with an invalid {field}: {reason}")]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl ShardManifest {
    /// Version 1 of a shard nobody has claimed: epoch 0, nothing covered, generation 1 to come.
    pub fn fresh(
        shard_id: ShardId,
        shard_spec_id: u32,
        shard_field_values: BTreeMap<String, Vec<u8>>,
        write_id: Option<Uuid>,
    ) -> Self {
        Self {
            version: ManifestVersion::new(1),
            shard_id,
            shard_spec_id,
            shard_field_values,
            writer_epoch: Epoch::ZERO,
            replay_after: WalPosition::ZERO,
            last_seen: WalPosition::ZERO,
            current_generation: Generation::new(1),
            sstables: Vec::new(),
            status: ShardStatus::Active,
            write_id,
            token_floor: None,
        }
    }

    /// Its bytes. The same manifest always gives the same bytes. Does not validate: see
    /// [`ShardManifest::validate`].
    pub fn encode(&self) -> Bytes {
        let (body, tail) = wire::Manifest::split(self);
        let mut bytes = Vec::with_capacity(body.encoded_len().saturating_add(tail.encoded_len()));
        bytes.extend_from_slice(&body.encode_to_vec());
        bytes.extend_from_slice(&tail.encode_to_vec());
        Bytes::from(bytes)
    }

    /// The manifest whose bytes these are, validated.
    ///
    /// # Errors
    /// [`ManifestError`]; the module's head says which damage cannot be seen.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        let wire = wire::Manifest::decode(bytes)
            .map_err(|error| ManifestError::Undecodable { reason: error.to_string() })?;
        let manifest = wire.into_manifest()?;
        manifest.validate()?;
        Ok(manifest)
    }

    /// Checks what holds for every manifest by itself: version, generations and a token floor count from 1,
    /// SSTables ascend below `current_generation` and their paths are names of one directory.
    ///
    /// # Errors
    /// [`ManifestError::Missing`] or [`ManifestError::Invalid`], naming the first field at fault.
    pub fn validate(&self) -> Result<(), ManifestError> {
        if self.version == ManifestVersion::ZERO {
            return Err(ManifestError::Missing { field: "version" });
        }
        if self.current_generation == Generation::ZERO {
            return Err(ManifestError::Missing { field: "current_generation" });
        }
        if self.token_floor.as_ref().is_some_and(|floor| floor.position == WalPosition::ZERO) {
            return Err(ManifestError::Missing { field: "token_floor.position" });
        }
        let mut previous = Generation::ZERO;
        for sstable in &self.sstables {
            self.validate_sstable(sstable, previous)?;
            previous = sstable.generation;
        }
        Ok(())
    }

    fn validate_sstable(&self, sstable: &SsTable, previous: Generation) -> Result<(), ManifestError> {
        let generation = sstable.generation;
        let invalid = |reason| Err(ManifestError::Invalid { field: "sstables", reason });
        if generation == Generation::ZERO {
            return invalid(format!("{:?} has generation 0, which is the base table", sstable.path));
        }
        if generation <= previous {
            return invalid(format!("generation {generation} after generation {previous}"));
        }
        if generation >= self.current_generation {
            let current = self.current_generation;
            return invalid(format!("generation {generation} although {current} is the next to publish"));
        }
        let path = sstable.path.as_str();
        if matches!(path, "" | "." | "..") || path.contains(['/', '\\', '\0']) {
            return invalid(format!(
                "generation {generation} has the path {path:?}, which is no directory name"
            ));
        }
        Ok(())
    }
}
