//! The open shards of a table: each is opened once, when it is first needed.
//!
//! Owns: which shards this process writes, finding the shard of a value, opening (which claims the shard),
//! closing. Does not own: adoption and creation of shards (`headwater-lance` decides, before the claim and
//! again after it), the life inside one (`engine::shard`). Several first writes to one shard share one
//! opening; one that failed may be tried again by the next write.
//!
//! A shard that stopped stays where it is, so that flushes, snapshots, stats and `close` tell of the
//! failure (P14), until the next write. That one opens it again under three conditions. The failure is one
//! that opening can cure: storage that failed or left an outcome unknown. Everybody who wrote before has
//! looked at the ticket, so that what is acknowledged of a sequence of writes is an unbroken beginning of it.
//! And nobody else has claimed the shard since: a fenced writer stays fenced (P7), for two processes that
//! take a shard back from each other both get nowhere. After any other failure the table has to be opened
//! again, which is for people to decide.

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

/// Where the open shard of an id is. While one that failed has no successor yet, it stands here for it.
#[derive(Debug, Default)]
struct Place {
    open: OnceCell<Arc<Shard>>,
    failed: Mutex<Option<Arc<Shard>>>,
}

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

impl Common {
    /// What a shard is built from.
    pub fn parts(&self) -> ShardParts {
        ShardParts {
            store: self.lance.store().clone(),
            table: self.lance.clone(),
            env: self.env.clone(),
            budget: self.budget.clone(),
            indexes: self.indexes.clone(),
            plants: self.plants,
        }
    }
}

/// The open shards of one table.
#[derive(Debug)]
pub(crate) struct Shards {
    common: Arc<Common>,
    ids: Mutex<BTreeMap<ShardValue, IdCell>>,
    shards: Mutex<BTreeMap<ShardId, Arc<Place>>>,
    closed: AtomicBool,
}

impl Shards {
    pub fn new(common: Arc<Common>) -> Self {
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
        let id = *cell.get_or_try_init(|| self.find(value)).await?;
        self.of_id(id).await
    }

    /// The shard of `value`, claimed, and after the claim still the only one: until then others could make a
    /// second one, or write to it.
    async fn find(&self, value: &ShardValue) -> Result<ShardId, Error> {
        let Common { lance, mem_wal, .. } = self.common();
        let failed = |error| Error::table(self.uri(), error);
        let id = lance.resolve_shard(mem_wal, value).await.map_err(failed)?;
        let shard = self.of_id(id).await?;
        lance.confirm_shard(mem_wal, value, id, shard.epoch()).await.map_err(failed)?;
        Ok(id)
    }

    /// Makes the manifest of an open shard, found on storage without values, record what its rows tell, while
    /// they do: they will be folded into the base.
    pub async fn adopt(&self, id: ShardId, shard: &Shard) -> Result<(), Error> {
        let Common { lance, mem_wal, .. } = self.common();
        let adopted = lance.adopt_shard(mem_wal, id, shard.epoch()).await;
        adopted.map_err(|error| Error::table(self.uri(), error))
    }

    /// The open shard `id`, claimed by the first caller, and by the first one after a failure that opening
    /// the shard again can cure.
    pub async fn of_id(&self, id: ShardId) -> Result<Arc<Shard>, Error> {
        self.check_open()?;
        let place = self.place(id);
        let shard = place.open.get_or_try_init(|| self.open(id, &place)).await?.clone();
        // Not before the successor is there, so that the shard is never missing from a snapshot.
        place.failed.lock().take();
        Ok(shard)
    }

    /// The place of shard `id`: a new one when the shard there stopped and is to be opened again.
    fn place(&self, id: ShardId) -> Arc<Place> {
        let mut shards = self.shards.lock();
        let place = shards.entry(id).or_default();
        if let Some(shard) = place.open.get().filter(|shard| shard.may_reopen()) {
            let failed = Mutex::new(Some(shard.clone()));
            *place = Arc::new(Place { open: OnceCell::new(), failed });
        }
        place.clone()
    }

    async fn open(&self, id: ShardId, place: &Place) -> Result<Arc<Shard>, Error> {
        self.check_open()?;
        let readable = self.common.lance.check_columns(id).await;
        readable.map_err(|error| Error::table(self.uri(), error))?;
        let failed = place.failed.lock().clone();
        let opened = match failed {
            None => self.claim(id).await,
            Some(failed) => failed.reopen().await,
        };
        opened.map(Arc::new).map_err(|error| Error::shard(self.uri(), id, error))
    }

    async fn claim(&self, id: ShardId) -> Result<Shard, ShardError> {
        let common = &self.common;
        Shard::open(id, common.parts(), common.settings.clone()).await
    }

    /// The shards open now, by id; those that stopped and are not open again among them.
    pub fn open_now(&self) -> Vec<(ShardId, Arc<Shard>)> {
        let places = self.shards.lock();
        places.iter().filter_map(|(id, place)| Some((*id, place.shard()?))).collect()
    }

    /// Closes every shard, those still being opened included. All are closed whatever happens; the first
    /// error by shard id is handed back. Their stats stay.
    pub async fn close(&self) -> Result<(), Error> {
        self.closed.store(true, Ordering::SeqCst);
        let places = self.shards.lock().clone();
        let ends = join_all(places.into_iter().map(|(id, place)| async move {
            // An opening under way is waited for; one that has not begun is refused.
            let _: Result<_, ()> = place.open.get_or_try_init(|| async { Err(()) }).await;
            Some((id, place.shard()?.close().await))
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

impl Place {
    fn shard(&self) -> Option<Arc<Shard>> {
        self.open.get().cloned().or_else(|| self.failed.lock().clone())
    }
}
