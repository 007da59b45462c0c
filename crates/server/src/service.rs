//! What the server serves: databases, and the tables of them that are open.
//!
//! Owns: [`Service`]: each table is opened once and kept, one opening at a time; making, dropping, and giving
//! a table its write tier exclude each other and every first use of it. When the server stops it takes no
//! more writes, flushes what it holds, and closes its writers. Does not own: HTTP (`routes`), what is done
//! with a table (`tables`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use headwater::{EnvRef, MemoryBudget, OpenOptions, TableStats};
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

use crate::error::ApiError;
use crate::names::{DatabaseId, TableId};
use crate::storage::Storage;
use crate::tables::OpenTable;

/// Bytes all tables together may keep in memory, unless the options bring a budget.
const MEMORY_BYTES: u64 = 1 << 30;

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
            return Ok(open);
        }
        let mut place = Arc::clone(&slot).write_owned().await;
        if let Some(open) = place.clone() {
            return Ok(open);
        }
        let opened = OpenTable::open(id, self.storage.uri(id), &self.options, &self.env).await;
        match opened {
            Ok(open) => {
                let open = Arc::new(open);
                *place = Some(Arc::clone(&open));
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
        let mut place = self.exclusive(id).await;
        if let Some(open) = place.take() {
            open.abandon().await;
        }
        self.storage.remove(id).await
    }

    /// Forgets an open table, so that the next request opens it again: it was found to be gone.
    pub async fn close(&self, id: &TableId) {
        if let Some(open) = self.exclusive(id).await.take() {
            open.abandon().await;
        }
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
        let open: Vec<Arc<OpenTable>> =
            join_all(slots.iter().map(|slot| async { slot.read().await.clone() }))
                .await
                .into_iter()
                .flatten()
                .collect();
        let closing = join_all(open.iter().map(|table| table.close()));
        let flushed = tokio::select! {
            biased;
            closed = closing => closed.into_iter().all(|closed| closed),
            () = self.env.sleep(deadline) => false,
        };
        if !flushed {
            join_all(open.iter().map(|table| table.abandon())).await;
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
