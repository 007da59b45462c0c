//! What reads of a table share: keys of SSTables, the key index of the base, what newer rows hide of both.
//!
//! Owns: [`ReadCache`]. SSTables and base versions never change, so each is opened and its keys are read
//! once; a shadow is caught up by whoever needs it next, so it is kept as long as its source is read. Does
//! not own: deciding who hides whom (`headwater_engine::shadow`). Everything held counts against the memory
//! budget by itself (B2), and is let go when the budget is used up.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use datafusion::execution::TaskContext;
use datafusion::prelude::SessionConfig;
use headwater_engine::budget::{Charge, MemoryBudget};
use headwater_engine::shadow::{Shadow, SourceKeys};
use headwater_engine::snapshot::Lineage;
use headwater_format::coord::{ManifestVersion, ShardId};
use headwater_format::key::KeySchema;
use headwater_lance::{BaseVersion, LanceTable, SsTableFiles};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::base::{BaseLookup, OnBase};
use crate::bounded::bounded;
use crate::error::QueryError;
use crate::masks::{MaskCut, Masks};
use crate::newer::Newer;
use crate::snapshot::ReadSnapshot;
use crate::sql::SqlSettings;

/// Reads by key of an SSTable after which its keys are read into memory rather than looked up on storage.
const PROBES_BEFORE_KEYS: u32 = 2;

/// The keys of an SSTable, charged.
pub(crate) type SsTableKeys = Charged<SourceKeys>;

type Cell<T> = Arc<OnceCell<Arc<T>>>;
/// The shard, and the directory of an SSTable of it.
type SsTableName = (ShardId, String);

/// Shared by all reads of one table in this process.
#[derive(Debug)]
pub struct ReadCache {
    entries: Mutex<Entries>,
    budget: Arc<MemoryBudget>,
    /// What queries run in.
    context: OnceCell<Arc<TaskContext>>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Of the newest base version that was read.
    base: Option<(u64, Cell<BaseLookup>)>,
    /// Shadows on the base, by the shard that casts them and the lineage of its `Seq`s.
    on_base: BTreeMap<(ShardId, Lineage), Arc<OnBase>>,
    sstables: BTreeMap<SsTableName, SsTableEntry>,
    on_sstables: BTreeMap<(SsTableName, Lineage), Arc<Charged<Shadow>>>,
    /// Of which manifest shards have been told to [`ReadCache::retain`].
    retained: BTreeMap<ShardId, (Lineage, ManifestVersion)>,
    /// Of the last snapshot that was read.
    masks: Option<(MaskCut, Arc<Masks>)>,
}

#[derive(Debug, Default)]
struct SsTableEntry {
    keys: Cell<SsTableKeys>,
    probes: AtomicU32,
}

/// Something whose memory is charged.
#[derive(Debug)]
pub(crate) struct Charged<T> {
    value: T,
    charge: Charge,
}

impl<T> Charged<T> {
    /// Charges `bytes` from now on.
    pub(crate) fn settle(&self, bytes: u64) {
        if self.charge.bytes() != bytes {
            self.charge.set(bytes);
        }
    }
}

impl<T> Deref for Charged<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl ReadCache {
    /// Empty; what it will hold is charged to `budget`.
    pub fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { entries: Mutex::default(), budget: Arc::clone(budget), context: OnceCell::new() }
    }

    /// What all queries of the table run in: together they hold no more memory than the default of
    /// [`SqlSettings`].
    pub(crate) async fn context(&self) -> Result<Arc<TaskContext>, QueryError> {
        let make =
            || async { Ok(bounded(SessionConfig::new(), SqlSettings::default().memory_bytes)?.task_ctx()) };
        self.context.get_or_try_init(make).await.cloned()
    }

    /// The key index of a base version; opened by the first who asks.
    pub(crate) async fn lookup(
        &self,
        table: &Arc<LanceTable>,
        base: &BaseVersion,
        key: &KeySchema,
    ) -> Result<Arc<BaseLookup>, QueryError> {
        let version = base.dataset.version_id();
        let cell = {
            let mut entries = self.entries.lock();
            match &entries.base {
                Some((cached, cell)) if *cached == version => Arc::clone(cell),
                // An older version than the cached one: someone reads on with an old snapshot.
                Some((cached, _)) if *cached > version => Cell::default(),
                _ => Arc::clone(&entries.base.insert((version, Cell::default())).1),
            }
        };
        let open = || async { BaseLookup::open(table, base, key).await.map(Arc::new) };
        cell.get_or_try_init(open).await.cloned()
    }

    /// The shadow that the rows of `newer` cast on the base version of `lookup`; carried over from an earlier
    /// version where there is one.
    pub(crate) async fn on_base(
        &self,
        snapshot: &ReadSnapshot,
        lookup: &BaseLookup,
        newer: &Arc<Newer>,
    ) -> Result<Arc<OnBase>, QueryError> {
        let fresh = || Arc::new(OnBase::new(lookup, &self.budget));
        let (place, version) = ((newer.shard, newer.lineage), lookup.base.dataset.version_id());
        let known = Arc::clone(self.entries.lock().on_base.entry(place).or_insert_with(fresh));
        if known.version() >= version {
            return Ok(if known.version() == version { known } else { fresh() });
        }
        let _turn = known.turn().lock().await;
        let now = self.entries.lock().on_base.get(&place).cloned();
        if let Some(now) = now.filter(|now| now.version() == version) {
            return Ok(now);
        }
        let carried = known.carried(snapshot, lookup, newer).await?;
        let carried = carried.map_or_else(fresh, Arc::new);
        self.entries.lock().on_base.insert(place, Arc::clone(&carried));
        Ok(carried)
    }

    /// The keys of an SSTable; read by the first who asks.
    pub(crate) async fn sstable_keys(
        &self,
        shard: ShardId,
        name: &str,
        files: &SsTableFiles,
        key: &KeySchema,
    ) -> Result<Arc<SsTableKeys>, QueryError> {
        let cell = self.entries.lock().sstables.entry((shard, name.to_owned())).or_default().keys.clone();
        let read = || async {
            let keys = files.keys(key).await?;
            let charge = self.budget.charge(keys.bytes());
            Ok::<_, QueryError>(Arc::new(Charged { value: keys, charge }))
        };
        cell.get_or_try_init(read).await.cloned()
    }

    /// The keys of an SSTable for a read of a few keys, if they are here or are worth reading by now.
    pub(crate) async fn sstable_keys_if_worth(
        &self,
        shard: ShardId,
        name: &str,
        files: &SsTableFiles,
        key: &KeySchema,
    ) -> Result<Option<Arc<SsTableKeys>>, QueryError> {
        {
            let mut entries = self.entries.lock();
            let entry = entries.sstables.entry((shard, name.to_owned())).or_default();
            if let Some(keys) = entry.keys.get() {
                return Ok(Some(Arc::clone(keys)));
            }
            let probes = entry.probes.fetch_add(1, Ordering::Relaxed);
            if probes < PROBES_BEFORE_KEYS || self.budget.over() {
                return Ok(None);
            }
        }
        self.sstable_keys(shard, name, files, key).await.map(Some)
    }

    /// The shadow that newer rows of `shard` cast on its SSTable `name`.
    pub(crate) fn shadow_on_sstable(
        &self,
        shard: ShardId,
        lineage: Lineage,
        name: &str,
    ) -> Arc<Charged<Shadow>> {
        let fresh = || Arc::new(Charged { value: Shadow::default(), charge: self.budget.charge(0) });
        let place = ((shard, name.to_owned()), lineage);
        Arc::clone(self.entries.lock().on_sstables.entry(place).or_insert_with(fresh))
    }

    /// Forgets SSTables of `shard` that are not among `named`, which are those of a version of its manifest,
    /// and what other lineages hid.
    pub(crate) fn retain(&self, shard: ShardId, lineage: Lineage, version: ManifestVersion, named: &[&str]) {
        let mut entries = self.entries.lock();
        let before = entries.retained.insert(shard, (lineage, version));
        if before == Some((lineage, version)) {
            return;
        }
        let stays = |name: &SsTableName| name.0 != shard || named.contains(&name.1.as_str());
        let current = |of: Lineage| of == lineage || of.succeeds(lineage);
        entries.sstables.retain(|name, _| stays(name));
        entries.on_sstables.retain(|(name, of), _| stays(name) && (name.0 != shard || current(*of)));
        entries.on_base.retain(|(id, of), _| *id != shard || current(*of));
    }

    /// The masks of the last snapshot that was read, if they were the same.
    pub(crate) fn masks(&self, cut: &MaskCut) -> Option<Arc<Masks>> {
        let entries = self.entries.lock();
        entries.masks.as_ref().filter(|(known, _)| known == cut).map(|(_, masks)| Arc::clone(masks))
    }

    /// Keeps the masks of a snapshot for the next one.
    pub(crate) fn keep_masks(&self, cut: MaskCut, masks: &Arc<Masks>) {
        self.entries.lock().masks = Some((cut, Arc::clone(masks)));
    }

    /// Bytes held: keys of SSTables, and shadows on SSTables and base.
    pub fn bytes(&self) -> u64 {
        let entries = self.entries.lock();
        let keys = entries.sstables.values().filter_map(|sstable| sstable.keys.get());
        let keys: u64 = keys.map(|keys| keys.charge.bytes()).sum();
        let on_sstables: u64 = entries.on_sstables.values().map(|shadow| shadow.charge.bytes()).sum();
        let on_base: u64 = entries.on_base.values().map(|shadow| shadow.bytes()).sum();
        keys + on_sstables + on_base
    }

    /// Over the budget everything is let go: what can be read again must not keep writers waiting for memory
    /// (L6). Reads under way keep what they use.
    pub(crate) fn let_go_if_over(&self) {
        if self.budget.over() {
            let gone = std::mem::take(&mut *self.entries.lock());
            drop(gone);
        }
    }
}
