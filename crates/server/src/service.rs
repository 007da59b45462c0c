//! What the server serves: databases, and the tables of them that are open.
//!
//! Owns: [`Service`]: each table is opened once and kept while it is used, one opening at a time; making,
//! dropping, and giving a table its write tier exclude each other and every first use of it, and so does
//! closing one that nobody uses: a request that comes meanwhile waits, and opens it again. A table is in use
//! while anybody but its slot holds it. When the server stops it takes no more writes, flushes what it holds,
//! and closes its writers. Does not own: which tables are closed when (`idle`), HTTP (`routes`), what is done
//! with a table (`tables`).

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::{Either, join_all, select};
use futures::{FutureExt, StreamExt, stream};
use headwater::{EnvRef, MemoryBudget, OpenOptions, TableStats};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedRwLockWriteGuard, RwLock};

use crate::error::ApiError;
use crate::idle::{self, Keep, Open};
use crate::names::{DatabaseId, TableId};
use crate::storage::Storage;
use crate::tables::OpenTable;

/// Bytes all tables together may keep in memory, unless the options bring a budget.
const MEMORY_BYTES: u64 = 1 << 30;

/// Unused tables that are closed at once.
const CLOSING: usize = 8;
/// How long closing an unused one may take: requests wait for it.
const CLOSE: Duration = Duration::from_secs(30);

/// Where a table is kept while it is open.
type Slot = Arc<RwLock<Option<Arc<OpenTable>>>>;

/// The right to change whether a table is open, and what it is.
pub type Exclusive = OwnedRwLockWriteGuard<Option<Arc<OpenTable>>>;

/// All databases of one place.
#[derive(Debug)]
pub struct Service {
    storage: Storage,
    options: OpenOptions,
    env: EnvRef,
    slots: Mutex<BTreeMap<TableId, Slot>>,
    /// How many tables may be open.
    most: AtomicUsize,
    /// Tells that more are.
    full: Notify,
    draining: AtomicBool,
}

impl Service {
    /// Serves what is at `data`, a path or the URI of an object store. Tables are opened with `options`; they
    /// share its connection, and one memory budget.
    ///
    /// # Errors
    /// What is wrong with the address, or what storage says.
    pub async fn new(data: &str, options: OpenOptions, env: EnvRef) -> Result<Arc<Self>, ApiError> {
        let storage = Storage::open(data, &options).await?;
        let memory = options.memory.clone().unwrap_or_else(|| MemoryBudget::new(MEMORY_BYTES));
        let options = OpenOptions { memory: Some(memory), env: Some(Arc::clone(&env)), ..options };
        Ok(Arc::new(Self {
            storage,
            options,
            env,
            slots: Mutex::default(),
            most: AtomicUsize::new(usize::MAX),
            full: Notify::new(),
            draining: AtomicBool::new(false),
        }))
    }

    /// Clock and tasks.
    pub fn env(&self) -> &EnvRef {
        &self.env
    }

    /// What tables are opened with.
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Where everything is.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Names of the tables of a database, in their order.
    ///
    /// # Errors
    /// What storage says.
    pub async fn tables(&self, database: &DatabaseId) -> Result<Vec<String>, ApiError> {
        self.storage.tables(database).await
    }

    /// The table, opened by whoever asks first.
    ///
    /// # Errors
    /// 404 when there is none; otherwise what storage says.
    pub async fn table(&self, id: &TableId) -> Result<Arc<OpenTable>, ApiError> {
        let slot = self.slot(id);
        if let Some(open) = slot.read().await.clone() {
            open.touch();
            return Ok(open);
        }
        let mut place = Arc::clone(&slot).write_owned().await;
        if let Some(open) = place.clone() {
            open.touch();
            return Ok(open);
        }
        let opened = OpenTable::open(id, self.storage.uri(id), &self.options, &self.env).await;
        match opened {
            Ok(open) => {
                let open = Arc::new(open);
                *place = Some(Arc::clone(&open));
                drop(place);
                if self.open_tables() > self.most.load(Ordering::Relaxed) {
                    self.full.notify_one();
                }
                Ok(open)
            }
            Err(error) => {
                drop(place);
                self.forget(id, slot);
                Err(error)
            }
        }
    }

    /// Waits until nobody opens or changes the table.
    pub async fn exclusive(&self, id: &TableId) -> Exclusive {
        self.slot(id).write_owned().await
    }

    /// Takes a table away, with every row of its write tier; fine when there is none.
    ///
    /// # Errors
    /// What storage says; part of the table may be gone then, and dropping it again goes on.
    pub async fn drop_table(&self, id: &TableId) -> Result<(), ApiError> {
        let slot = self.slot(id);
        let mut place = Arc::clone(&slot).write_owned().await;
        if let Some(open) = place.take() {
            open.abandon().await;
        }
        let removed = self.storage.remove(id).await;
        drop(place);
        self.forget(id, slot);
        removed
    }

    /// Forgets an open table, so that the next request opens it again: it was found to be gone.
    pub async fn close(&self, id: &TableId) {
        let slot = self.slot(id);
        let mut place = Arc::clone(&slot).write_owned().await;
        if let Some(open) = place.take() {
            open.abandon().await;
        }
        drop(place);
        self.forget(id, slot);
    }

    /// Closes, from now on, tables that nobody uses, as `keep` says.
    pub fn keep_open(self: &Arc<Self>, keep: Keep) {
        self.most.store(keep.most, Ordering::Relaxed);
        let (service, env) = (Arc::downgrade(self), Arc::clone(&self.env));
        let watch = async move {
            while let Some(service) = service.upgrade() {
                service.close_unused(&keep).await;
                let pause = env.sleep(keep.pause());
                // Held while it waits for a table too many, and no longer than a pause.
                select(pause, pin!(service.full.notified())).await;
            }
        };
        self.env.spawn("closing unused tables", watch.boxed()).detach();
    }

    /// Closes those tables that nobody uses and `keep` does not keep.
    async fn close_unused(&self, keep: &Keep) {
        let slots: Vec<(TableId, Slot)> =
            self.slots.lock().iter().map(|(id, slot)| (id.clone(), Arc::clone(slot))).collect();
        let open = slots.iter().filter_map(|(id, slot)| {
            let place = slot.try_read().ok()?;
            let table = place.as_ref()?;
            let in_use = Arc::strong_count(table) > 1;
            if in_use {
                table.touch();
            }
            Some(Open { used: (!in_use).then(|| table.used()), table: id.clone() })
        });
        let chosen = idle::choose(open.collect(), keep, self.env.now());
        drop(slots);
        stream::iter(chosen).for_each_concurrent(CLOSING, |id| self.close_if_unused(id)).await;
    }

    /// Flushes and closes a table, unless somebody has come to use it. What cannot be flushed stays in the
    /// WAL, where every acknowledged row is (P1).
    async fn close_if_unused(&self, id: TableId) {
        let slot = self.slot(&id);
        let Ok(mut place) = Arc::clone(&slot).try_write_owned() else { return };
        let unused = |table: &mut Arc<OpenTable>| Arc::strong_count(table) == 1 && !self.is_draining();
        if let Some(table) = place.take_if(unused) {
            let in_time = select(Box::pin(table.close()), self.env.sleep(CLOSE)).await;
            let closed = matches!(in_time, Either::Left((true, _)));
            drop(in_time);
            if !closed {
                table.abandon().await;
            }
            tracing::debug!(target: "headwater::server", table = id.name(), "closed: nobody uses it");
        }
        drop(place);
        self.forget(&id, slot);
    }

    /// How many tables are open.
    pub fn open_tables(&self) -> usize {
        // One that cannot be looked at is being opened, changed or closed.
        let is_open = |slot: &&Slot| slot.try_read().map_or(true, |place| place.is_some());
        self.slots.lock().values().filter(is_open).count()
    }

    /// Whether writes are refused because the server is about to stop.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Refuses writes from now on, flushes what tables hold in memory, and closes their writers, within
    /// `deadline`. What cannot be flushed in time stays in the WAL, where every acknowledged row is, and is
    /// replayed by the next writer. Says whether everything was flushed.
    pub async fn drain(&self, deadline: Duration) -> bool {
        self.draining.store(true, Ordering::Release);
        let slots: Vec<Slot> = self.slots.lock().values().cloned().collect();
        // A table that is just being opened or closed is waited for, no longer than for any flush.
        let closing = join_all(slots.iter().map(|slot| async {
            let open = slot.read().await.clone();
            match open {
                Some(table) => table.close().await,
                None => true,
            }
        }));
        let flushed = tokio::select! {
            biased;
            closed = closing => closed.into_iter().all(|closed| closed),
            () = self.env.sleep(deadline) => false,
        };
        if !flushed {
            let open = slots.iter().filter_map(|slot| slot.try_read().ok()?.clone());
            join_all(open.map(|table| async move { table.abandon().await })).await;
        }
        flushed
    }

    /// The tables with a write tier that are open now, for whoever counts. One that is just being opened or
    /// changed is not among them.
    pub fn tiers(&self) -> Vec<(TableId, TableStats)> {
        let slots = self.slots.lock();
        let open = slots.iter().filter_map(|(id, slot)| Some((id.clone(), slot.try_read().ok()?.clone()?)));
        open.filter_map(|(id, table)| Some((id, table.stats()?))).collect()
    }

    fn slot(&self, id: &TableId) -> Slot {
        Arc::clone(self.slots.lock().entry(id.clone()).or_default())
    }

    /// Names of tables there are not are not kept.
    fn forget(&self, id: &TableId, slot: Slot) {
        let mut slots = self.slots.lock();
        // Held by the map and here: whoever else wants it has to take the map's lock first.
        if Arc::strong_count(&slot) == 2 && slot.try_read().is_ok_and(|open| open.is_none()) {
            slots.remove(id);
        }
    }
}
