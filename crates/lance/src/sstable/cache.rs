//! Open SSTables, so that a query opens none that was open before.
//!
//! Owns: [`ReaderCache`]. SSTables are immutable and their names are never reused, so an entry is never
//! stale; the least recently used one goes when there are too many.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_format::coord::ShardId;
use parking_lot::Mutex;

use super::reader::SsTableFiles;

/// Open SSTables kept at most. Each holds a file's column metadata and the page table of its sidecar.
const CAPACITY: usize = 512;

/// Open SSTables by shard and directory name.
#[derive(Debug, Default)]
pub(crate) struct ReaderCache {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_name: BTreeMap<(ShardId, String), (u64, Arc<SsTableFiles>)>,
    uses: u64,
}

impl ReaderCache {
    /// The open SSTable, if it is here.
    pub(crate) fn get(&self, shard: ShardId, name: &str) -> Option<Arc<SsTableFiles>> {
        let mut entries = self.entries.lock();
        entries.uses = entries.uses.saturating_add(1);
        let now = entries.uses;
        let (last_use, reader) = entries.by_name.get_mut(&(shard, name.to_owned()))?;
        *last_use = now;
        Some(Arc::clone(reader))
    }

    /// Keeps an open SSTable; returns the one that was kept before, if two were opened at once.
    pub(crate) fn insert(&self, shard: ShardId, name: &str, reader: Arc<SsTableFiles>) -> Arc<SsTableFiles> {
        let mut entries = self.entries.lock();
        entries.uses = entries.uses.saturating_add(1);
        let now = entries.uses;
        let kept = entries.by_name.entry((shard, name.to_owned())).or_insert((now, reader));
        kept.0 = now;
        let reader = Arc::clone(&kept.1);
        if entries.by_name.len() > CAPACITY {
            let oldest = entries.by_name.iter().min_by_key(|(_, (last_use, _))| *last_use);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                entries.by_name.remove(&name);
            }
        }
        reader
    }
}
