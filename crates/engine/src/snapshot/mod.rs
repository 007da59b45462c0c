//! A consistent cut of one shard.

mod shard_snapshot;
mod unchanged;

pub use shard_snapshot::{ReadLevel, ShardSnapshot, SnapshotLimits};
pub use unchanged::Unchanged;
