//! What `inspect` found, as plain data.
//!
//! Owns: the JSON contract of `headwater inspect --format json`: fields are added, never renamed or removed.
//! All sizes are bytes; paths are relative to the table's root.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// A table and its write tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableReport {
    /// Address of the table.
    pub table: String,
    /// Version of the base.
    pub base_version: u64,
    /// Names of the key columns, in key order; empty on an append-only table.
    pub key: Vec<String>,
    /// How rows are spread; none when the table has no write tier (shards below may be left from an earlier
    /// one).
    pub sharding: Option<ShardingReport>,
    /// Every shard directory found.
    pub shards: Vec<ShardReport>,
    /// Objects under `_mem_wal/` that belong to no shard.
    pub left_overs: Vec<LeftOver>,
}

/// How rows are spread over shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ShardingReport {
    /// One shard takes every row.
    Unsharded,
    /// By the hash of a column.
    Bucket {
        /// The column.
        column: String,
        /// Number of shards.
        num_buckets: u32,
    },
    /// A shard for each value of a column.
    Identity {
        /// The column.
        column: String,
    },
    /// Shards are made by hand.
    Manual,
}

/// One shard directory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShardReport {
    /// Id of the shard.
    pub id: String,
    /// The values rows of this shard have, by field; empty when the manifest records none.
    pub values: BTreeMap<String, Value>,
    /// The newest manifest; none when there is none that can be read.
    pub manifest: Option<ManifestReport>,
    /// The WAL.
    pub wal: WalReport,
    /// SSTables the manifest names, ascending.
    pub sstables: Vec<SsTableReport>,
    /// Objects nothing names: staging files, unknown names, SSTable directories no manifest names.
    pub left_overs: Vec<LeftOver>,
    /// What is wrong on storage.
    pub problems: Vec<Problem>,
}

/// The newest manifest of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ManifestReport {
    /// Its version.
    pub version: u64,
    /// Epoch of the writer that owns the shard.
    pub writer_epoch: u64,
    /// WAL entries up to this position are in SSTables; replay starts behind it.
    pub replay_after: u64,
    /// A hint where the end of the WAL is.
    pub last_seen: u64,
    /// The generation published next.
    pub current_generation: u64,
    /// `active`, or `sealed` while the shard is being dropped.
    pub status: String,
}

/// The WAL of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WalReport {
    /// Entries on storage, sentinels included.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Position of the first one on storage.
    pub first: Option<u64>,
    /// Position of the last one on storage.
    pub last: Option<u64>,
    /// How many of them are fence sentinels.
    pub sentinels: u64,
    /// Rows in all entries, tombstones included.
    pub rows: u64,
    /// Entries behind the replay cursor: what the next writer replays.
    pub unflushed_entries: u64,
    /// Rows in those.
    pub unflushed_rows: u64,
}

/// An SSTable a manifest names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SsTableReport {
    /// Its generation.
    pub generation: u64,
    /// Name of its directory, as the manifest has it.
    pub path: String,
    /// Rows in its data file, replaced ones included, when recorded.
    pub physical_rows: Option<u64>,
    /// Bytes its rows had in memory, when recorded.
    pub in_memory_bytes: Option<u64>,
    /// Bytes of its keys, when recorded; none without a key.
    pub primary_key_bytes: Option<u64>,
    /// Bytes of all its files on storage.
    pub file_bytes: u64,
    /// Number of its files on storage.
    pub files: u64,
}

/// Objects nothing names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOver {
    /// Path of the object, or of the directory.
    pub path: String,
    /// Its bytes, or those of all files in it.
    pub bytes: u64,
    /// Why it is one.
    pub why: String,
}

/// Something wrong on storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where.
    pub path: String,
    /// What.
    pub reason: String,
}
