//! An object store in memory that adds time to each request, and counts them.
//!
//! Owns: [`Bucket`], the same for both sides: it is handed to Lance (and so to Headwater) as a wrapper and
//! answers in place of whatever store it was to wrap, so a table outlives the sessions that opened it. Tables
//! lie at [`URI`]. It also counts what is read beside data. Does not own: counting by class and kind
//! (`headwater-store`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use headwater_store::{Meter, MeterSnapshot, metered};
use lance_io::object_store::WrappingObjectStore;
use object_store::list::PaginatedListStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};

/// The one table of a bucket.
pub const URI: &str = "memory://bench/table.lance";
/// The place that table is in.
pub const ROOT_URI: &str = "memory://bench";
/// Its path in the store.
const ROOT: &str = "bench/table.lance";

/// See the module.
#[derive(Debug)]
pub struct Bucket {
    view: Arc<dyn ObjectStore>,
    delay: Delay,
    meter: Arc<Meter>,
    metadata: Arc<AtomicU64>,
}

impl Bucket {
    /// An empty, instantly answering bucket.
    pub fn new() -> Arc<Self> {
        let (delay, meter) = (Delay::default(), Arc::new(Meter::new()));
        let metadata = Arc::new(AtomicU64::new(0));
        let asked = Arc::clone(&metadata);
        let slow = Arc::new(Slow { inner: Arc::new(InMemory::new()), delay: delay.clone(), metadata: asked });
        let view = metered(slow, Path::from(ROOT), Arc::clone(&meter));
        Arc::new(Self { view, delay, meter, metadata })
    }

    /// Milliseconds each request takes from now on.
    pub fn set_delay(&self, ms: u64) {
        self.delay.0.store(ms, Ordering::Relaxed);
    }

    /// Every request since the bucket was made, by class and kind.
    pub fn requests(&self) -> MeterSnapshot {
        self.meter.snapshot()
    }

    /// Reads and listings since the bucket was made, but for those of data files: manifests, hints, WAL
    /// entries, indexes, key sidecars, bloom filters.
    pub fn metadata_reads(&self) -> u64 {
        self.metadata.load(Ordering::Relaxed)
    }

    /// The store as both sides see it.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.view
    }
}

impl WrappingObjectStore for Bucket {
    fn wrap(&self, _prefix: &str, _original: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.view)
    }

    fn wrap_paginated(
        &self,
        _prefix: &str,
        _original: Arc<dyn PaginatedListStore>,
    ) -> Option<Arc<dyn PaginatedListStore>> {
        None
    }
}

/// Shared, so that it can be changed while requests run.
#[derive(Clone, Debug, Default)]
struct Delay(Arc<AtomicU64>);

impl Delay {
    async fn pass(&self) {
        let ms = self.0.load(Ordering::Relaxed);
        if ms > 0 {
            // Tokio's timers are a millisecond coarse: a request would take 20 or 21, as its beginning fell.
            let slept = tokio::task::spawn_blocking(move || thread::sleep(Duration::from_millis(ms))).await;
            // It cannot panic, and nobody cancels it.
            debug_assert!(slept.is_ok());
        }
    }
}

#[derive(Debug)]
struct Slow {
    inner: Arc<dyn ObjectStore>,
    delay: Delay,
    metadata: Arc<AtomicU64>,
}

impl Slow {
    /// Counts a read of `location`, unless it is a data file: a file in a `data` directory.
    fn reads(&self, location: Option<&Path>) {
        let is_data = location.is_some_and(|path| path.parts().any(|part| part.as_ref() == "data"));
        if !is_data {
            self.metadata.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slow({})", self.inner)
    }
}

// `get_ranges` is left to its default, which makes its reads through `get_opts`.
#[async_trait]
impl ObjectStore for Slow {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.delay.pass().await;
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.delay.pass().await;
        let upload = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(SlowUpload { upload, delay: self.delay.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.reads(Some(location));
        self.delay.pass().await;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let delay = self.delay.clone();
        let paced = locations.then(move |location| {
            let delay = delay.clone();
            async move {
                delay.pass().await;
                location
            }
        });
        self.inner.delete_stream(paced.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.reads(prefix);
        let (listed, delay) = (self.inner.list(prefix), self.delay.clone());
        let late = async move {
            delay.pass().await;
            listed
        };
        stream::once(late).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.reads(prefix);
        self.delay.pass().await;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.delay.pass().await;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.delay.pass().await;
        self.inner.rename_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct SlowUpload {
    upload: Box<dyn MultipartUpload>,
    delay: Delay,
}

#[async_trait]
impl MultipartUpload for SlowUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, delay) = (self.upload.put_part(data), self.delay.clone());
        Box::pin(async move {
            delay.pass().await;
            part.await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.delay.pass().await;
        self.upload.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.delay.pass().await;
        self.upload.abort().await
    }
}
