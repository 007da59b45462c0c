//! Names of SSTable directories that were begun here and will never be published.
//!
//! Owns: [`FailedAttempts`]. Does not own: deleting them (`table_io`). Only names that this process drew and
//! was told an error for: others may be in the middle of writing theirs (P10).

use std::collections::BTreeSet;

use headwater_format::coord::ShardId;
use parking_lot::Mutex;

/// Directories to delete, by shard and name.
#[derive(Debug, Default)]
pub(crate) struct FailedAttempts {
    names: Mutex<BTreeSet<(ShardId, String)>>,
}

impl FailedAttempts {
    /// An attempt failed.
    pub(crate) fn add(&self, shard: ShardId, name: &str) {
        self.names.lock().insert((shard, name.to_owned()));
    }

    /// Its directory is gone, or is not ours to delete.
    pub(crate) fn forget(&self, shard: ShardId, name: &str) {
        self.names.lock().remove(&(shard, name.to_owned()));
    }

    /// The failed attempts at `shard`.
    pub(crate) fn of(&self, shard: ShardId) -> Vec<String> {
        let names = self.names.lock();
        names.iter().filter(|(of, _)| *of == shard).map(|(_, name)| name.clone()).collect()
    }
}
