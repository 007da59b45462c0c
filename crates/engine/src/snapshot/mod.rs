//! A consistent cut of one shard.

mod shard_snapshot;

pub use shard_snapshot::{ReadLevel, ShardSnapshot, SnapshotLimits};
