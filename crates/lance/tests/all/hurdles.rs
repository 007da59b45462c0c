//! An object store layer that refuses some requests and holds the answer of others.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use headwater_lance::{Connection, LanceTable};
use lance_io::object_store::WrappingObjectStore;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use tokio::sync::Notify;

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

    fn check_put(&self, path: &Path) -> Result<()> {
        let full = self.state.full_for.lock().unwrap().is_some_and(|part| path.as_ref().contains(part));
        if full { Err(failure(std::io::ErrorKind::StorageFull)) } else { Ok(()) }
    }

    async fn hold(&self, path: &Path) {
        let held = {
            let mut held = self.state.held.lock().unwrap();
            held.take_if(|end| path.as_ref().ends_with(*end)).is_some()
        };
        if held {
            self.state.reached.notify_one();
            self.state.released.notified().await;
        }
    }
}

fn failure(kind: std::io::ErrorKind) -> Error {
    Error::Generic { store: "hurdles", source: Box::new(std::io::Error::from(kind)) }
}

impl WrappingObjectStore for Hurdles {
    fn wrap(&self, _store_prefix: &str, original: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(Hurdled { inner: original, hurdles: self.clone() })
    }

    fn wrap_paginated(
        &self,
        _store_prefix: &str,
        original: Arc<dyn PaginatedListStore>,
    ) -> Option<Arc<dyn PaginatedListStore>> {
        Some(original)
    }
}

#[derive(Debug)]
struct Hurdled {
    inner: Arc<dyn ObjectStore>,
    hurdles: Hurdles,
}

impl fmt::Display for Hurdled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hurdled {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Hurdled {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.hurdles.check_put(location)?;
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.hurdles.check_put(location)?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let head = options.head;
        let answer = self.inner.get_opts(location, options).await;
        if !head {
            self.hurdles.hold(location).await;
        }
        answer
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let answer = self.inner.get_ranges(location, ranges).await;
        self.hurdles.hold(location).await;
        answer
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if *self.hurdles.state.no_deletes.lock().unwrap() {
            let refused = |_| Err(failure(std::io::ErrorKind::ReadOnlyFilesystem));
            return locations.map(refused).boxed();
        }
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.hurdles.check_put(to)?;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}
