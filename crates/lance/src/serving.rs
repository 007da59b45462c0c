//! Which shards serve a value.
//!
//! Owns: [`Serving`], the value of a shard, and [`RecordedValues`], so that looking for the shards of n
//! values reads O(n) manifests. Does not own: what follows from the answer (`resolve`).
//!
//! A shard serves the value its manifest records. The reference picks any id and leaves the values empty:
//! such a shard serves the value its rows evaluate to, when it is one. Once they are all in the base, what
//! they were still tells, as long as no other shard serves the value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::try_join_all;
use futures::lock::Mutex;
use headwater_engine::table::{SsTableReader, TableError};
use headwater_format::coord::ShardId;
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};

use crate::mem_wal::MemWal;
use crate::sharding::{ShardValue, Sharding};
use crate::table::LanceTable;

/// Manifests read at once.
const PARALLEL_READS: usize = 16;

/// What the manifests of shards record about the rows they take. That never changes once it is recorded, so
/// it is read once. Held while manifests are read: of callers that look at once, one reads.
#[derive(Debug, Default)]
pub(crate) struct RecordedValues {
    by_shard: Mutex<BTreeMap<ShardId, Recorded>>,
}

/// The sharding spec and the field values of one manifest.
#[derive(Clone, Debug)]
struct Recorded {
    spec_id: u32,
    values: BTreeMap<String, Vec<u8>>,
}

impl Recorded {
    /// What `manifest` records; `None` when it records no values.
    fn of(manifest: &ShardManifest) -> Option<Self> {
        let values = manifest.shard_field_values.clone();
        (!values.is_empty()).then_some(Self { spec_id: manifest.shard_spec_id, values })
    }

    /// The value, if it is one under the sharding of `mem_wal`.
    fn value(&self, mem_wal: &MemWal) -> Option<ShardValue> {
        (self.spec_id == mem_wal.spec_id).then(|| mem_wal.sharding.value_of(&self.values)).flatten()
    }
}

impl RecordedValues {
    /// Remembers what `manifest` records, if it records anything.
    pub(crate) async fn learn(&self, manifest: &ShardManifest) {
        if let Some(recorded) = Recorded::of(manifest) {
            self.by_shard.lock().await.insert(manifest.shard_id, recorded);
        }
    }
}

/// The value `manifest` records under the sharding of `mem_wal`.
pub(crate) fn recorded_value(mem_wal: &MemWal, manifest: &ShardManifest) -> Option<ShardValue> {
    Recorded::of(manifest)?.value(mem_wal)
}

/// What a shard serves.
#[derive(Debug)]
pub(crate) enum Serves {
    /// Rows of this value.
    Value(ShardValue),
    /// It records no value and has no rows outside the base; those it had last were of this value.
    Last(ShardValue),
    /// Nothing that could be told.
    Nothing,
    /// Its rows fit no sharding of the table. Says why, for people.
    Unfit(String),
}

/// The shards that serve one value.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    /// Those that take a writer.
    active: Vec<Arc<ShardManifest>>,
    /// Those that take a writer and only served the value last. One of them goes on with it when no other
    /// shard does, rather than a new one beside it: its writer of old may still be there.
    last: Vec<Arc<ShardManifest>>,
    /// Those that are being dropped and have rows that are not in the base. One without such rows is over,
    /// and in nobody's way.
    sealed: Vec<ShardId>,
    /// What is wrong with a shard whose rows fit no sharding: some may be of this value.
    unfit: Option<String>,
}

impl Serving {
    /// Whether some shard has rows that fit no sharding of the table, so that no row can be routed.
    pub(crate) fn is_unfit(&self) -> bool {
        self.unfit.is_some()
    }

    /// The one shard that serves `value`; `None` when there is none yet. Of several that have no row outside
    /// the base any will do: the one with the smallest id, so that two processes agree.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when several do (they are named), the one that does is being dropped, or rows
    /// of a shard fit no sharding.
    pub(crate) fn only(&self, value: &ShardValue) -> Result<Option<&Arc<ShardManifest>>, TableError> {
        if let Some(reason) = &self.unfit {
            return Err(TableError::invalid(reason.clone()));
        }
        match (self.active.as_slice(), self.sealed.as_slice()) {
            ([manifest], _) => Ok(Some(manifest)),
            ([], []) => Ok(self.last.iter().min_by_key(|manifest| manifest.shard_id)),
            ([], sealed) => Err(TableError::invalid(format!(
                "shard {} of {value} is sealed: it is being dropped and takes no writer",
                list(sealed.iter().copied())
            ))),
            (several, _) => Err(TableError::invalid(format!(
                "shards {} all serve {value}: rows of one key could be in either, so none is written; \
                 fold them into the base and remove all but one",
                list(several.iter().map(|manifest| manifest.shard_id))
            ))),
        }
    }
}

impl LanceTable {
    /// The shards that serve `value` now. One listing, and the manifests of those shards whose values are not
    /// known to be others.
    ///
    /// # Errors
    /// [`TableError::Corrupt`] when a manifest cannot be read; otherwise what storage said.
    pub(crate) async fn serving(&self, mem_wal: &MemWal, value: &ShardValue) -> Result<Serving, TableError> {
        let mut serving = Serving::default();
        for manifest in self.candidates(mem_wal, value).await? {
            let active = manifest.status == ShardStatus::Active;
            match self.serves(mem_wal, &manifest).await? {
                Serves::Value(found) if found == *value && active => serving.active.push(manifest),
                Serves::Last(found) if found == *value && active => serving.last.push(manifest),
                Serves::Value(found) if found == *value => {
                    let compacted = mem_wal.compacted(manifest.shard_id);
                    if self.unfolded_row_count(&manifest, compacted).await? > 0 {
                        serving.sealed.push(manifest.shard_id);
                    }
                }
                Serves::Value(_) | Serves::Last(_) | Serves::Nothing => {}
                Serves::Unfit(reason) => serving.unfit = Some(reason),
            }
        }
        Ok(serving)
    }

    /// The newest manifests of the shards that may serve `value`.
    async fn candidates(
        &self,
        mem_wal: &MemWal,
        value: &ShardValue,
    ) -> Result<Vec<Arc<ShardManifest>>, TableError> {
        let (mut unread, mut matching) = (Vec::new(), Vec::new());
        let ids = self.shard_ids().await?;
        let mut recorded = self.recorded.by_shard.lock().await;
        for id in ids {
            match recorded.get(&id).map(|recorded| recorded.value(mem_wal)) {
                None | Some(None) => unread.push(id),
                // Its values are known for good, its status is not.
                Some(Some(found)) if found == *value => matching.push(id),
                Some(Some(_)) => {}
            }
        }
        let mut manifests = Vec::new();
        for some in unread.chunks(PARALLEL_READS) {
            let read = try_join_all(some.iter().map(|id| self.newest_manifest(*id))).await?;
            for manifest in read.into_iter().flatten() {
                recorded.extend(Recorded::of(&manifest).map(|found| (manifest.shard_id, found)));
                manifests.push(manifest);
            }
        }
        drop(recorded);
        let read = try_join_all(matching.into_iter().map(|id| self.newest_manifest(id))).await?;
        manifests.extend(read.into_iter().flatten());
        manifests.sort_by_key(|manifest| manifest.shard_id);
        Ok(manifests)
    }

    /// What a shard serves: what its manifest records, else what its rows evaluate to. Rows that are not in
    /// the base must all have one value; when there are none, those of its last SSTable tell.
    pub(crate) async fn serves(
        &self,
        mem_wal: &MemWal,
        manifest: &ShardManifest,
    ) -> Result<Serves, TableError> {
        let (shard, spec) = (manifest.shard_id, manifest.shard_spec_id);
        if spec == mem_wal.spec_id {
            if let Some(recorded) = recorded_value(mem_wal, manifest) {
                return Ok(Serves::Value(recorded));
            }
            if mem_wal.sharding == Sharding::Unsharded {
                return Ok(Serves::Value(ShardValue::Unsharded));
            }
        }
        let mut values = BTreeSet::new();
        for batch in self.unfolded_rows(manifest, mem_wal.compacted(shard)).await? {
            values.extend(mem_wal.sharding.values(&batch)?);
        }
        if spec != mem_wal.spec_id && !values.is_empty() {
            return Ok(Serves::Unfit(format!(
                "shard {shard} has rows and belongs to sharding spec {spec}, the table has spec {}",
                mem_wal.spec_id
            )));
        }
        if values.len() > 1 {
            return Ok(Serves::Unfit(format!(
                "shard {shard} has rows of {} values: it fits no sharding of the table and cannot be written",
                values.len()
            )));
        }
        match values.pop_first() {
            Some(value) => Ok(Serves::Value(value)),
            None if spec == mem_wal.spec_id => self.served_last(mem_wal, manifest).await,
            None => Ok(Serves::Nothing),
        }
    }

    /// What a shard without rows outside the base served last, as far as that can still be told.
    async fn served_last(&self, mem_wal: &MemWal, manifest: &ShardManifest) -> Result<Serves, TableError> {
        let newest = manifest.sstables.iter().max_by_key(|sstable| sstable.generation);
        let Some(newest) = newest else { return Ok(Serves::Nothing) };
        let read = match self.sstable_files(manifest.shard_id, newest).await {
            Ok(files) => files.scan().await,
            Err(error) => Err(error),
        };
        let rows = match read {
            Ok(rows) => rows,
            // Its rows are in the base: it may be collected, or be of a schema the table had once.
            Err(
                TableError::NotFound { .. } | TableError::Invalid { .. } | TableError::SchemaChanged { .. },
            ) => return Ok(Serves::Nothing),
            Err(error) => return Err(error),
        };
        let mut values = BTreeSet::new();
        for batch in rows {
            values.extend(mem_wal.sharding.values(&batch)?);
        }
        let value = values.pop_first().filter(|_| values.is_empty());
        Ok(value.map_or(Serves::Nothing, Serves::Last))
    }
}

fn list(shards: impl Iterator<Item = ShardId>) -> String {
    shards.map(|shard| shard.to_string()).collect::<Vec<_>>().join(", ")
}
