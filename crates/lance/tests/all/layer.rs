//! An object store layer that shows every request to somebody, who may refuse it or hold its answer.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Put,
    Copy,
    Get,
    Head,
    List,
}

/// Who is shown the requests.
#[async_trait]
pub trait Watch: fmt::Debug + Send + Sync + 'static {
    /// Something is asked for; an error refuses it.
    fn asked(&self, what: Ask, path: &Path) -> Result<()>;

    /// The content of an object was read, and is not handed over before this returns.
    async fn answered(&self, _path: &Path) {}

    /// Whether nothing can be deleted.
    fn refuses_deletes(&self) -> bool {
        false
    }
}

/// `inner` behind `watch`.
pub fn watched(inner: Arc<dyn ObjectStore>, watch: impl Watch) -> Arc<dyn ObjectStore> {
    Arc::new(Layer { inner, watch: Box::new(watch) })
}

/// What storage says when it refuses something.
pub fn failure(kind: std::io::ErrorKind) -> Error {
    Error::Generic { store: "layer", source: Box::new(std::io::Error::from(kind)) }
}

#[derive(Debug)]
struct Layer {
    inner: Arc<dyn ObjectStore>,
    watch: Box<dyn Watch>,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with a layer", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Layer {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.watch.asked(Ask::Put, location)?;
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.watch.asked(Ask::Put, location)?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let head = options.head;
        self.watch.asked(if head { Ask::Head } else { Ask::Get }, location)?;
        let answer = self.inner.get_opts(location, options).await;
        if !head {
            self.watch.answered(location).await;
        }
        answer
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.watch.asked(Ask::Get, location)?;
        let answer = self.inner.get_ranges(location, ranges).await;
        self.watch.answered(location).await;
        answer
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.watch.refuses_deletes() {
            let refused = |_| Err(failure(std::io::ErrorKind::ReadOnlyFilesystem));
            return locations.map(refused).boxed();
        }
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.watch.asked(Ask::List, prefix.unwrap_or(&Path::default())) {
            Ok(()) => self.inner.list(prefix),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.watch.asked(Ask::List, prefix.unwrap_or(&Path::default()))?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.watch.asked(Ask::Copy, to)?;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}
