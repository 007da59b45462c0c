//! The open shards of a table: each is opened once, when it is first needed.
//!
//! Owns: which shards this process writes, finding the shard of a value, opening (which claims the shard),
//! closing. Does not own: adoption and creation of shards (`headwater-lance` decides), the life inside one
//! (`engine::shard`). Several first writes to one shard share one opening; one that failed may be tried again
//! by the next write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use headwater_engine::budget::MemoryBudget;
use headwater_engine::error::ShardError;
use headwater_engine::index::MemIndexFactory;
use headwater_engine::plants::Plants;
use headwater_engine::settings::ShardSettings;
use headwater_engine::shard::{Shard, ShardParts};
use headwater_format::coord::ShardId;
use headwater_lance::{LanceTable, MemWal, ShardValue};
use headwater_store::env::EnvRef;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::error::Error;

type ShardCell = Arc<OnceCell<Arc<Shard>>>;
type IdCell = Arc<OnceCell<ShardId>>;

/// What every shard of a table is opened with.
#[derive(Debug)]
pub(crate) struct Common {
    pub lance: Arc<LanceTable>,
    pub mem_wal: MemWal,
    pub env: EnvRef,
    pub budget: Arc<MemoryBudget>,
    pub settings: ShardSettings,
    pub indexes: Vec<Arc<dyn MemIndexFactory>>,
    pub plants: Plants,
}

/// The open shards of one table.
#[derive(Debug)]
pub(crate) struct Shards {
    common: Common,
    ids: Mutex<BTreeMap<ShardValue, IdCell>>,
    shards: Mutex<BTreeMap<ShardId, ShardCell>>,
    closed: AtomicBool,
}

impl Shards {
    pub fn new(common: Common) -> Self {
        Self {
            common,
            ids: Mutex::new(BTreeMap::new()),
            shards: Mutex::new(BTreeMap::new()),
            closed: AtomicBool::new(false),
        }
    }

    pub fn common(&self) -> &Common {
        &self.common
    }

    /// The open shard of `value`; found, created or adopted, and claimed, by the first caller.
    pub async fn of_value(&self, value: &ShardValue) -> Result<Arc<Shard>, Error> {
        self.check_open()?;
        let cell = self.ids.lock().entry(value.clone()).or_default().clone();
        let resolve = || async { self.common.lance.resolve_shard(&self.common.mem_wal, value).await };
        let id = *cell.get_or_try_init(resolve).await.map_err(|error| Error::table(self.uri(), error))?;
        self.of_id(id).await
    }

    /// The open shard `id`, claimed by the first caller.
    pub async fn of_id(&self, id: ShardId) -> Result<Arc<Shard>, Error> {
        self.check_open()?;
        let cell = self.shards.lock().entry(id).or_default().clone();
        cell.get_or_try_init(|| self.open(id)).await.cloned()
    }

    async fn open(&self, id: ShardId) -> Result<Arc<Shard>, Error> {
        let common = &self.common;
        self.check_open()?;
        let parts = ShardParts {
            store: common.lance.store().clone(),
            table: common.lance.clone(),
            env: common.env.clone(),
            budget: common.budget.clone(),
            indexes: common.indexes.clone(),
            plants: common.plants,
        };
        let shard = Shard::open(id, parts, common.settings.clone()).await;
        shard.map(Arc::new).map_err(|error| Error::shard(self.uri(), id, error))
    }

    /// The shards open now, by id.
    pub fn open_now(&self) -> Vec<(ShardId, Arc<Shard>)> {
        let cells = self.shards.lock();
        cells.iter().filter_map(|(id, cell)| Some((*id, cell.get()?.clone()))).collect()
    }

    /// Closes every shard, those still being opened included. All are closed whatever happens; the first
    /// error by shard id is handed back. Their stats stay.
    pub async fn close(&self) -> Result<(), Error> {
        self.closed.store(true, Ordering::SeqCst);
        let cells = self.shards.lock().clone();
        let ends = join_all(cells.into_iter().map(|(id, cell)| async move {
            // An opening under way is waited for; one that has not begun is refused.
            let shard = cell.get_or_try_init(|| async { Err(()) }).await.ok()?;
            Some((id, shard.close().await))
        }))
        .await;
        let first = ends.into_iter().flatten().find_map(|(id, end)| Some((id, end.err()?)));
        match first {
            None => Ok(()),
            Some((id, error)) => Err(self.shard_failed(id, error)),
        }
    }

    /// Lets go of every shard without flushing it: acknowledged rows stay in the WAL for the next writer.
    pub fn abandon(&self) {
        self.closed.store(true, Ordering::SeqCst);
        drop(std::mem::take(&mut *self.shards.lock()));
    }

    pub fn shard_failed(&self, id: ShardId, error: ShardError) -> Error {
        Error::shard(self.uri(), id, error)
    }

    pub fn uri(&self) -> &str {
        self.common.lance.uri()
    }

    pub fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Closed { table: self.uri().to_owned() });
        }
        Ok(())
    }
}
