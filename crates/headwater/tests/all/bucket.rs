//! An object store in memory that counts what is read of it, and can hold reads of data back.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::stream::BoxStream;
use headwater::{Connection, OpenOptions, Sharding, Table};
use lance::Dataset;
use lance::dataset::WriteParams;
use lance_io::object_store::{ObjectStoreParams, WrappingObjectStore};
use object_store::list::PaginatedListStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::support::{options, schema};

/// Where its one table is.
pub const URI: &str = "memory://bucket/table.lance";

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Reads and listings of anything but data files.
    pub metadata: Vec<String>,
    /// Reads of data files.
    pub data: u64,
    /// Bytes of data files.
    pub bytes: u64,
}

/// See the module. Clones are the same bucket.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    inner: Arc<InMemory>,
    metadata: Arc<Mutex<Vec<String>>>,
    data: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Bucket {
    pub fn new() -> Self {
        Self::default()
    }

    fn connection(&self) -> Connection {
        Connection::default().with_wrapper(Arc::new(self.clone()))
    }

    /// To open the table with; caches are shared with nobody.
    pub fn options(&self) -> OpenOptions {
        OpenOptions { connection: self.connection(), ..options() }
    }

    pub async fn create(&self, sharding: &Sharding) -> Table {
        self.create_with(sharding, self.options()).await
    }

    pub async fn create_with(&self, sharding: &Sharding, options: OpenOptions) -> Table {
        Table::create(URI, &schema(), &["id".to_owned()], sharding, options).await.unwrap()
    }

    /// For Lance itself.
    pub fn write_params(&self, params: WriteParams) -> WriteParams {
        let wrapper: Arc<dyn WrappingObjectStore> = Arc::new(self.clone());
        let store = ObjectStoreParams { object_store_wrapper: Some(wrapper), ..ObjectStoreParams::default() };
        WriteParams { store_params: Some(store), ..params }
    }

    /// The base as Lance sees it.
    pub async fn dataset(&self) -> Dataset {
        let params = self.write_params(WriteParams::default()).store_params.unwrap();
        let builder = lance::dataset::builder::DatasetBuilder::from_uri(URI).with_store_params(params);
        builder.load().await.unwrap()
    }

    /// What `work` read.
    pub async fn read_by<T>(&self, work: impl Future<Output = T>) -> (T, Read) {
        let before = self.read();
        let done = work.await;
        let now = self.read();
        let metadata = now.metadata.get(before.metadata.len()..).unwrap().to_vec();
        (done, Read { metadata, data: now.data - before.data, bytes: now.bytes - before.bytes })
    }

    /// All that was read so far.
    pub fn read(&self) -> Read {
        let metadata = self.metadata.lock().unwrap().clone();
        Read { metadata, data: self.data.load(Ordering::SeqCst), bytes: self.bytes.load(Ordering::SeqCst) }
    }

    /// Whether it is of a data file.
    fn asked(&self, what: &str, path: Option<&Path>) -> bool {
        let is_data = path.is_some_and(|path| path.parts().any(|part| part.as_ref() == "data"));
        if is_data {
            self.data.fetch_add(1, Ordering::SeqCst);
        } else {
            let path = path.map(Path::to_string).unwrap_or_default();
            self.metadata.lock().unwrap().push(format!("{what} {path}"));
        }
        is_data
    }
}

impl WrappingObjectStore for Bucket {
    fn wrap(&self, _prefix: &str, _original: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(self.clone())
    }

    fn wrap_paginated(
        &self,
        _prefix: &str,
        _original: Arc<dyn PaginatedListStore>,
    ) -> Option<Arc<dyn PaginatedListStore>> {
        None
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bucket")
    }
}

// `get_ranges` is left to its default, which makes its reads through `get_opts`.
#[async_trait]
impl ObjectStore for Bucket {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let is_data = self.asked("get", Some(path));
        // As storage does, which is elsewhere: whoever waits lets others run.
        tokio::task::yield_now().await;
        let answer = self.inner.get_opts(path, options).await?;
        if is_data {
            self.bytes.fetch_add(answer.range.end - answer.range.start, Ordering::SeqCst);
        }
        Ok(answer)
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.asked("list", prefix);
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.asked("list", prefix);
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
