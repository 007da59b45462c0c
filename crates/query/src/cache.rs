//! What reads of a table share: keys of immutable sources, and what newer rows hide of them.
//!
//! Owns: [`ReadCache`]. SSTables and base versions never change, so their keys are read once; a shadow is
//! caught up by whoever needs it next, so it is kept as long as its source is read. Does not own: deciding
//! who hides whom (`headwater_engine::shadow`). What it holds counts against the memory budget (B2), and is
//! let go when the budget is used up.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_engine::budget::{Charge, MemoryBudget};
use headwater_engine::shadow::{Shadow, SourceKeys};
use headwater_engine::snapshot::Lineage;
use headwater_format::coord::ShardId;
use headwater_format::key::KeySchema;
use headwater_lance::{BaseVersion, LanceTable, SsTableFiles};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::base_keys::BaseKeys;
use crate::error::QueryError;

type Cell<T> = Arc<OnceCell<Arc<T>>>;
/// The shard, and the directory of an SSTable of it.
type SsTableName = (ShardId, String);

/// Shared by all reads of one table in this process.
#[derive(Debug)]
pub struct ReadCache {
    entries: Mutex<Entries>,
    charge: Charge,
    budget: Arc<MemoryBudget>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Of the newest base version that was read.
    base: Option<(u64, Cell<BaseKeys>)>,
    /// Shadows on it, by the shard that casts them and whose `Seq`s they are in.
    on_base: BTreeMap<(ShardId, Lineage), Arc<Shadow>>,
    sstables: BTreeMap<SsTableName, Cell<SourceKeys>>,
    on_sstables: BTreeMap<(SsTableName, Lineage), Arc<Shadow>>,
}

impl ReadCache {
    /// Empty; what it will hold is charged to `budget`.
    pub fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { entries: Mutex::default(), charge: budget.charge(0), budget: Arc::clone(budget) }
    }

    /// The keys of a base version; read by the first who asks.
    pub(crate) async fn base_keys(
        &self,
        table: &LanceTable,
        base: &BaseVersion,
        key: &KeySchema,
    ) -> Result<Arc<BaseKeys>, QueryError> {
        let version = base.dataset.version_id();
        let cell = {
            let mut entries = self.entries.lock();
            match &entries.base {
                Some((cached, cell)) if *cached == version => Arc::clone(cell),
                // An older version than the cached one: someone reads on with an old snapshot.
                Some((cached, _)) if *cached > version => Cell::default(),
                _ => {
                    entries.on_base.clear();
                    let cell = Cell::default();
                    entries.base = Some((version, Arc::clone(&cell)));
                    cell
                }
            }
        };
        let keys = cell.get_or_try_init(|| async { BaseKeys::read(table, base, key).await.map(Arc::new) });
        keys.await.cloned()
    }

    /// The keys of an SSTable; read by the first who asks.
    pub(crate) async fn sstable_keys(
        &self,
        shard: ShardId,
        name: &str,
        files: &SsTableFiles,
        key: &KeySchema,
    ) -> Result<Arc<SourceKeys>, QueryError> {
        let cell = self.entries.lock().sstables.entry((shard, name.to_owned())).or_default().clone();
        Ok(cell.get_or_try_init(|| async { files.keys(key).await.map(Arc::new) }).await.cloned()?)
    }

    /// The keys of an SSTable, if they were read before.
    pub(crate) fn known_sstable_keys(&self, shard: ShardId, name: &str) -> Option<Arc<SourceKeys>> {
        self.entries.lock().sstables.get(&(shard, name.to_owned()))?.get().cloned()
    }

    /// The shadow that rows of `shard` cast on the base version whose keys are `keys`.
    pub(crate) fn shadow_on_base(
        &self,
        shard: ShardId,
        lineage: Lineage,
        keys: &Arc<BaseKeys>,
    ) -> Arc<Shadow> {
        let fresh = || Arc::new(Shadow::new(Arc::clone(&keys.keys)));
        let mut entries = self.entries.lock();
        let current = entries.base.as_ref().and_then(|(_, cell)| cell.get());
        if !current.is_some_and(|current| Arc::ptr_eq(current, keys)) {
            return fresh();
        }
        Arc::clone(entries.on_base.entry((shard, lineage)).or_insert_with(fresh))
    }

    /// The shadow that newer rows of `shard` cast on its SSTable `name`, whose keys are `keys`.
    pub(crate) fn shadow_on_sstable(
        &self,
        shard: ShardId,
        lineage: Lineage,
        name: &str,
        keys: &Arc<SourceKeys>,
    ) -> Arc<Shadow> {
        let fresh = || Arc::new(Shadow::new(Arc::clone(keys)));
        let mut entries = self.entries.lock();
        let place = ((shard, name.to_owned()), lineage);
        Arc::clone(entries.on_sstables.entry(place).or_insert_with(fresh))
    }

    /// Forgets SSTables of `shard` that are not among `named`, and shadows of other lineages than `lineage`,
    /// but for a later one's: who reads on with an old snapshot takes nothing from the others.
    pub(crate) fn retain(&self, shard: ShardId, lineage: Lineage, named: &[&str]) {
        let mut entries = self.entries.lock();
        let stays = |name: &SsTableName| name.0 != shard || named.contains(&name.1.as_str());
        let current = |kept: Lineage| kept == lineage || kept.succeeds(lineage);
        entries.sstables.retain(|name, _| stays(name));
        entries.on_sstables.retain(|(name, kept), _| stays(name) && (name.0 != shard || current(*kept)));
        entries.on_base.retain(|(of, kept), _| *of != shard || current(*kept));
    }

    /// Resident bytes.
    pub fn bytes(&self) -> u64 {
        let entries = self.entries.lock();
        let base = entries.base.as_ref().and_then(|(_, cell)| cell.get()).map_or(0, |keys| keys.bytes());
        let sstables = entries.sstables.values().filter_map(|cell| cell.get()).map(|keys| keys.bytes());
        let shadows =
            entries.on_base.values().chain(entries.on_sstables.values()).map(|shadow| shadow.bytes());
        base + sstables.sum::<u64>() + shadows.sum::<u64>()
    }

    /// Charges what is held now. Over the budget everything is let go: what can be read again must not keep
    /// writers waiting for memory (L6). Reads under way keep what they use.
    pub(crate) fn recharge(&self) {
        self.charge.set(self.bytes());
        if self.budget.over() {
            *self.entries.lock() = Entries::default();
            self.charge.set(0);
        }
    }
}
