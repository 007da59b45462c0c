//! Log lines of a shard in one place, so that their fields have one name each.

use headwater_format::coord::{Epoch, Generation, ShardId};

use crate::error::ShardError;
use crate::freeze::FreezeReason;

pub(super) fn frozen(shard: ShardId, generation: Generation, rows: u64, reason: FreezeReason) {
    tracing::debug!(%shard, %generation, rows, %reason, "memtable frozen");
}

pub(super) fn published(shard: ShardId, generation: Generation, version: u64) {
    tracing::info!(%shard, %generation, version, "generation published");
}

pub(super) fn flush_failed(shard: ShardId, generation: Generation, error: &ShardError, wait_ms: u64) {
    tracing::warn!(%shard, %generation, %error, wait_ms, "flush failed; it is tried again");
}

pub(super) fn look_failed(shard: ShardId, error: &ShardError) {
    tracing::warn!(%shard, %error, "cannot look for a successor's claim; it is tried again");
}

pub(super) fn stopped(shard: ShardId, epoch: Epoch, error: &ShardError) {
    // Every caller is told; the log only says when.
    tracing::info!(%shard, %epoch, %error, "writer stopped");
}

pub(super) fn opened(shard: ShardId, epoch: Epoch, entries: u64, rows: u64) {
    tracing::info!(%shard, %epoch, entries, rows, "shard opened; WAL replayed");
}
