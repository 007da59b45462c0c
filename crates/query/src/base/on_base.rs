//! What the rows of one shard hide of one base version.
//!
//! Owns: [`OnBase`], a shadow with the version it is of: catching it up to a snapshot, and carrying it over
//! to a later version, where only fragments that are new to it are looked through. Does not own: where it is
//! kept (`cache`). One reader at a time looks for keys; the others find them found.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_engine::budget::{Charge, MemoryBudget};
use headwater_engine::error::ShardError;
use headwater_engine::shadow::{BaseShadow, HiddenRows};
use lance::Dataset;
use lance_core::utils::deletion::DeletionVector;
use lance_table::format::Fragment;
use roaring::RoaringBitmap;
use tokio::sync::Mutex;

use super::lookup::BaseLookup;
use crate::error::QueryError;
use crate::newer::Newer;
use crate::snapshot::ReadSnapshot;

/// A shadow on the base, charged to the memory budget.
#[derive(Debug)]
pub(crate) struct OnBase {
    dataset: Arc<Dataset>,
    shadow: BaseShadow,
    resolving: Mutex<()>,
    charge: Charge,
}

/// Fragments of a later version.
#[derive(Default)]
struct Survivors {
    /// Those that were there before, with the rows deleted since.
    same: BTreeMap<u32, Option<Arc<DeletionVector>>>,
    /// The others.
    new: RoaringBitmap,
}

impl Survivors {
    fn has(&self, address: u64) -> bool {
        match self.same.get(&((address >> 32) as u32)) {
            Some(deleted) => !deleted.as_ref().is_some_and(|deleted| deleted.contains(address as u32)),
            None => false,
        }
    }
}

impl OnBase {
    /// Nothing is known yet.
    pub(crate) fn new(lookup: &BaseLookup, budget: &Arc<MemoryBudget>) -> Self {
        Self::over(lookup, BaseShadow::default(), budget)
    }

    fn over(lookup: &BaseLookup, shadow: BaseShadow, budget: &Arc<MemoryBudget>) -> Self {
        let charge = budget.charge(shadow.bytes());
        Self { dataset: Arc::clone(&lookup.base.dataset), shadow, resolving: Mutex::default(), charge }
    }

    /// Bytes charged.
    pub(crate) fn bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// The version of the base it is of.
    pub(crate) fn version(&self) -> u64 {
        self.dataset.version_id()
    }

    /// To be held while it is carried over, so that one reader does that.
    pub(crate) fn turn(&self) -> &Mutex<()> {
        &self.resolving
    }

    /// The rows of the base that `newer` hides, found where they were not known. `lookup` is of its version.
    pub(crate) async fn hidden(
        self: &Arc<Self>,
        snapshot: &ReadSnapshot,
        lookup: &BaseLookup,
        newer: &Arc<Newer>,
    ) -> Result<Arc<HiddenRows>, QueryError> {
        let _turn = self.resolving.lock().await;
        let (this, rows) = (Arc::clone(self), Arc::clone(newer));
        let tail = snapshot.blocking(move || this.shadow.tail(&rows.runs(), rows.seq)).await?;
        let failed = |error: ShardError| QueryError::shard(newer.shard, error);
        if let Some(tail) = tail.map_err(failed)? {
            let found = lookup.find(&tail.keys, None).await?;
            self.shadow.feed(&tail, found).map_err(failed)?;
            self.charge.set(self.shadow.bytes());
        }
        Ok(self.shadow.hidden(newer.seq))
    }

    /// Itself for the later version of `lookup`; `None` when it has to be found out anew.
    pub(crate) async fn carried(
        self: &Arc<Self>,
        snapshot: &ReadSnapshot,
        lookup: &BaseLookup,
        newer: &Arc<Newer>,
    ) -> Result<Option<Self>, QueryError> {
        let survivors = self.survivors(&lookup.base.dataset).await.map_err(|error| lookup.failed(error))?;
        let (this, rows, new) = (Arc::clone(self), Arc::clone(newer), survivors.new.clone());
        let carried = snapshot.blocking(move || {
            let runs = rows.runs();
            let Some(shadow) = this.shadow.carried(&runs, |row| survivors.has(row)) else { return Ok(None) };
            let keys = shadow.accounted(&runs)?;
            Ok(Some((shadow, keys)))
        });
        let carried = carried.await?.map_err(|error: ShardError| QueryError::shard(newer.shard, error))?;
        let Some((shadow, keys)) = carried else { return Ok(None) };
        shadow.add(lookup.find(&keys, Some(&new)).await?);
        Ok(Some(Self::over(lookup, shadow, self.charge.budget())))
    }

    /// Which fragments of `later` are as they were. A row that was deleted before may be live again after a
    /// restore, and was not looked at, so its fragment counts as new.
    async fn survivors(&self, later: &Dataset) -> lance::Result<Survivors> {
        let before: BTreeMap<u64, &Fragment> =
            self.dataset.fragments().iter().map(|fragment| (fragment.id, fragment)).collect();
        let mut survivors = Survivors::default();
        for fragment in later.fragments().iter() {
            let number = fragment.id as u32;
            let known = before.get(&fragment.id);
            let known =
                known.filter(|known| known.files == fragment.files && known.overlays == fragment.overlays);
            let Some(known) = known else {
                survivors.new.insert(number);
                continue;
            };
            if known.deletion_file == fragment.deletion_file {
                survivors.same.insert(number, None);
                continue;
            }
            let earlier = deleted(&self.dataset, fragment.id).await?;
            let deleted = deleted(later, fragment.id).await?;
            let has = |row: u32| deleted.as_ref().is_some_and(|deleted| deleted.contains(row));
            if earlier.is_none_or(|earlier| earlier.to_sorted_iter().all(has)) {
                survivors.same.insert(number, deleted);
            } else {
                survivors.new.insert(number);
            }
        }
        Ok(survivors)
    }
}

async fn deleted(dataset: &Dataset, fragment: u64) -> lance::Result<Option<Arc<DeletionVector>>> {
    match dataset.get_fragment(fragment as usize) {
        Some(fragment) => fragment.get_deletion_vector().await,
        None => Ok(None),
    }
}
