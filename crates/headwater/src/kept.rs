//! What reads of a table keep from one to the next.
//!
//! Owns: [`Kept`]: a follower of each shard that others write, the last listing of shards, the last snapshot
//! where one may be handed out again. Does not own: what a follower holds (`engine::shard::Follower`), when a
//! snapshot is taken (`reading`). All of it can be read again, so it is let go as soon as a writer of the
//! process waits for memory (L6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headwater_engine::budget::MemoryBudget;
use headwater_engine::error::ShardError;
use headwater_engine::shard::Follower;
use headwater_format::coord::ShardId;
use headwater_query::ReadSnapshot;
use headwater_store::env::{EnvRef, Task};
use parking_lot::Mutex;

/// See the module.
#[derive(Debug)]
pub(crate) struct Kept {
    inner: Arc<Inner>,
    /// Lets go under pressure.
    pressed: Option<Task>,
}

#[derive(Debug, Default)]
struct Inner {
    followers: Mutex<BTreeMap<ShardId, Arc<Follower>>>,
    /// Shards on storage, and when they were asked for.
    listed: Mutex<Option<(Duration, BTreeSet<ShardId>)>>,
    /// The snapshot whose capture began last, and when that was.
    last: Mutex<Option<(Duration, ReadSnapshot)>>,
}

impl Kept {
    /// Nothing yet.
    pub fn new(env: &EnvRef, budget: &MemoryBudget) -> Self {
        let inner = Arc::new(Inner::default());
        let (held, mut pressure) = (Arc::clone(&inner), budget.pressure());
        let let_go = async move {
            while pressure.changed().await.is_ok() {
                held.let_go();
            }
        };
        Self { inner, pressed: Some(env.spawn("let go of reads", Box::pin(let_go))) }
    }

    /// The follower of a shard; `open` makes it for the first read.
    pub fn follower(
        &self,
        shard: ShardId,
        open: impl FnOnce() -> Result<Follower, ShardError>,
    ) -> Result<Arc<Follower>, ShardError> {
        let mut followers = self.inner.followers.lock();
        if let Some(follower) = followers.get(&shard) {
            return Ok(Arc::clone(follower));
        }
        let follower = Arc::new(open()?);
        followers.insert(shard, Arc::clone(&follower));
        Ok(follower)
    }

    /// All followers there are.
    pub fn followers(&self) -> Vec<Arc<Follower>> {
        self.inner.followers.lock().values().cloned().collect()
    }

    /// Forgets the followers of shards that are not among `shards`.
    pub fn retain(&self, shards: &BTreeSet<ShardId>) {
        self.inner.followers.lock().retain(|shard, _| shards.contains(shard));
    }

    /// The shards that were on storage at `since` or later, if that is known.
    pub fn listed_since(&self, since: Duration) -> Option<BTreeSet<ShardId>> {
        let listed = self.inner.listed.lock();
        listed.as_ref().filter(|(asked, _)| *asked >= since).map(|(_, shards)| shards.clone())
    }

    /// Remembers which shards are on storage; they were asked for at `asked`.
    pub fn list(&self, asked: Duration, shards: BTreeSet<ShardId>) {
        *self.inner.listed.lock() = Some((asked, shards));
    }

    /// Forgets which shards are on storage.
    pub fn forget_listing(&self) {
        self.inner.listed.lock().take();
    }

    /// The last snapshot, if its capture began after `since`.
    pub fn snapshot_since(&self, since: Duration) -> Option<ReadSnapshot> {
        let last = self.inner.last.lock();
        last.as_ref().filter(|(began, _)| *began > since).map(|(_, snapshot)| snapshot.clone())
    }

    /// Keeps a snapshot, unless a later one is kept: readers never go back in time (P6).
    pub fn keep(&self, began: Duration, snapshot: &ReadSnapshot) {
        let mut last = self.inner.last.lock();
        if last.as_ref().is_none_or(|(kept, _)| *kept <= began) {
            *last = Some((began, snapshot.clone()));
        }
    }

    /// Forgets the last snapshot.
    pub fn forget_snapshot(&self) {
        self.inner.last.lock().take();
    }
}

impl Inner {
    fn let_go(&self) {
        self.last.lock().take();
        for follower in self.followers.lock().values() {
            follower.let_go();
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(task) = self.pressed.take() {
            task.cancel();
        }
    }
}
