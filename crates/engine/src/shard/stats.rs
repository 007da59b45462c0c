//! What a shard tells about itself. Works in every state, poisoned ones included.

use std::collections::BTreeMap;

use headwater_format::coord::{Epoch, Generation, ManifestVersion, Seq, ShardId, WalPosition};
use serde::Serialize;

use crate::shard::histogram::Histogram;

/// Whether a shard serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardStatus {
    /// Reads and writes.
    Serving,
    /// Flushing for the last time; reads only.
    Closing,
    /// Closed in order.
    Closed,
    /// Another writer has the shard.
    Fenced,
    /// Stopped by a failure; reopen.
    Poisoned,
}

/// Counters since open: sums, and how times and sizes were distributed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Puts and deletes accepted.
    pub puts: u64,
    /// Rows accepted, tombstones included.
    pub rows: u64,
    /// Payload bytes accepted.
    pub payload_bytes: u64,
    /// WAL entries written, sentinels excepted.
    pub wal_entries: u64,
    /// Bytes of these entries.
    pub wal_bytes: u64,
    /// Freezes by reason.
    pub freezes: BTreeMap<String, u64>,
    /// SSTables published.
    pub flushes: u64,
    /// Flush attempts that failed and were tried again.
    pub flush_failures: u64,
    /// Looks for a successor's claim, while writing, that storage did not answer.
    pub look_failures: u64,
    /// WAL entries replayed at open.
    pub replayed_entries: u64,
    /// Rows replayed at open.
    pub replayed_rows: u64,
    /// Memtables frozen while replaying.
    pub replay_rotations: u64,
    /// Puts that had to wait for memory or for flushes.
    pub backpressure_waits: u64,
    /// Conditional writes refused because their condition did not hold.
    pub failed_conditions: u64,
    /// Writes answered with an earlier one's acknowledgement, because they had its client token.
    pub repeated_tokens: u64,
    /// From the moment a put was ordered to its acknowledgement, in microseconds.
    pub ack_us: Histogram,
    /// Puts that went out together as one WAL entry.
    pub group_puts: Histogram,
    /// Flush attempts that ended in a published SSTable, in microseconds.
    pub flush_us: Histogram,
}

/// A moment of a shard's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardStats {
    /// The shard.
    pub shard: ShardId,
    /// This writer's epoch.
    pub epoch: Epoch,
    /// Whether it serves.
    pub status: ShardStatus,
    /// The error that stopped it, or the last one of a flush that is being retried.
    pub last_error: Option<String>,
    /// Newest manifest version known.
    pub manifest_version: ManifestVersion,
    /// Generation of the active memtable.
    pub active_generation: Generation,
    /// Rows in the active memtable; none once the shard has stopped, as in the next two.
    pub active_rows: u64,
    /// Frozen memtables waiting for their flush.
    pub frozen: usize,
    /// Resident bytes of all memtables of the shard.
    pub memtable_bytes: u64,
    /// Those of them that are indexes, the key index included.
    pub index_bytes: u64,
    /// SSTables that the newest manifest known names.
    pub sstables: usize,
    /// Rows with a `Seq` below this are durable.
    pub durable: Seq,
    /// The `Seq` the next row gets.
    pub next_seq: Seq,
    /// Where the next WAL entry goes.
    pub next_position: WalPosition,
    /// The replay cursor: entries above it are replayed after a crash.
    pub replay_after: WalPosition,
    /// Sums since open.
    pub counters: Counters,
}
