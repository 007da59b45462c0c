//! An object store layer that refuses some requests and holds the answer of others.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use headwater_lance::{Connection, LanceTable};
use lance_io::object_store::WrappingObjectStore;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{ObjectStore, Result};
use tokio::sync::Notify;

use crate::layer::{Ask, Watch, failure, watched};
use crate::support::{Place, env, options};

/// What stands in the way of requests.
#[derive(Clone, Debug, Default)]
pub struct Hurdles {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    full_for: Mutex<Option<&'static str>>,
    no_deletes: Mutex<bool>,
    held: Mutex<Option<&'static str>>,
    reached: Notify,
    released: Notify,
}

impl Hurdles {
    /// Opens the table of `place` behind the hurdles. Lance goes around wrappers on `file://`, not so here.
    pub async fn table(&self, place: &Place) -> Arc<LanceTable> {
        let connection = Connection::default().with_wrapper(Arc::new(self.clone()));
        let uri = format!("file-object-store://{}", place.uri());
        LanceTable::open_with(&connection, &uri, &options(), env()).await.unwrap()
    }

    /// The disk is full for objects whose path contains `part`; for none with `None`.
    pub fn full_for(&self, part: Option<&'static str>) {
        *self.state.full_for.lock().unwrap() = part;
    }

    /// Deleting fails, or works again.
    pub fn no_deletes(&self, refused: bool) {
        *self.state.no_deletes.lock().unwrap() = refused;
    }

    /// Holds the answer of the next read of an object whose path ends so, until [`Self::release`].
    pub fn hold_read(&self, end: &'static str) {
        *self.state.held.lock().unwrap() = Some(end);
    }

    /// Waits until an answer is held.
    pub async fn reached(&self) {
        self.state.reached.notified().await;
    }

    /// Lets the held answer go.
    pub fn release(&self) {
        self.state.released.notify_one();
    }
}

#[async_trait]
impl Watch for Hurdles {
    fn asked(&self, what: Ask, path: &Path) -> Result<()> {
        let writes = matches!(what, Ask::Put | Ask::Copy);
        let full = self.state.full_for.lock().unwrap().is_some_and(|part| path.as_ref().contains(part));
        if writes && full { Err(failure(std::io::ErrorKind::StorageFull)) } else { Ok(()) }
    }

    async fn answered(&self, path: &Path) {
        let held = {
            let mut held = self.state.held.lock().unwrap();
            held.take_if(|end| path.as_ref().ends_with(*end)).is_some()
        };
        if held {
            self.state.reached.notify_one();
            self.state.released.notified().await;
        }
    }

    fn refuses_deletes(&self) -> bool {
        *self.state.no_deletes.lock().unwrap()
    }
}

impl WrappingObjectStore for Hurdles {
    fn wrap(&self, _store_prefix: &str, original: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        watched(original, self.clone())
    }

    fn wrap_paginated(
        &self,
        _store_prefix: &str,
        original: Arc<dyn PaginatedListStore>,
    ) -> Option<Arc<dyn PaginatedListStore>> {
        Some(original)
    }
}
