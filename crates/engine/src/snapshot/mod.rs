//! A consistent cut of one shard.

mod lineage;
mod shard_snapshot;
mod unchanged;

pub use lineage::Lineage;
pub use shard_snapshot::{ReadLevel, ShardSnapshot, SnapshotLimits};
pub use unchanged::Unchanged;
