//! A backend that counts what others ask of it.
//!
//! Owns: [`metered`]. [`crate::Store`] counts its own requests; whoever writes through a backend directly
//! (Lance does) is counted by handing it this wrapper with the same [`Meter`]. Never put a metered backend
//! below a `Store` with the same meter: its requests would count twice.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};

use crate::meter::{Kind, Meter, Request};

/// `inner`, with every request below `root` (the table) counted by `meter`. Each part of a multipart write is
/// a put, as are its beginning and its end; a copy or rename is one put.
pub fn metered(inner: Arc<dyn ObjectStore>, root: Path, meter: Arc<Meter>) -> Arc<dyn ObjectStore> {
    Arc::new(Metered { inner, count: Count { root, meter } })
}

#[derive(Debug)]
struct Metered {
    inner: Arc<dyn ObjectStore>,
    count: Count,
}

#[derive(Clone, Debug)]
struct Count {
    root: Path,
    meter: Arc<Meter>,
}

impl Count {
    fn kind(&self, location: &Path) -> Kind {
        match location.prefix_match(&self.root) {
            Some(below) => Kind::of(below.collect::<Path>().as_ref()),
            None => Kind::Other,
        }
    }

    fn sent(&self, request: Request, location: &Path, bytes: u64) {
        self.meter.sent(request, self.kind(location), bytes);
    }

    fn ended<T>(&self, request: Request, location: &Path, answer: Result<T>) -> Result<T> {
        answer.inspect_err(|error| {
            let is_answer = matches!(
                error,
                Error::NotFound { .. }
                    | Error::AlreadyExists { .. }
                    | Error::Precondition { .. }
                    | Error::NotModified { .. }
            );
            if !is_answer {
                self.meter.failed(request, self.kind(location));
            }
        })
    }
}

impl fmt::Display for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metered({})", self.inner)
    }
}

// `get_ranges` is left to its default: it makes its reads through `get_opts`, where each one is counted.
#[async_trait]
impl ObjectStore for Metered {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.count.sent(Request::Put, location, payload.content_length() as u64);
        let answer = self.inner.put_opts(location, payload, options).await;
        self.count.ended(Request::Put, location, answer)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.count.sent(Request::Put, location, 0);
        let answer = self.inner.put_multipart_opts(location, options).await;
        let upload = self.count.ended(Request::Put, location, answer)?;
        Ok(Box::new(MeteredUpload { upload, location: location.clone(), count: self.count.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let request = if options.head { Request::Head } else { Request::Get };
        self.count.sent(request, location, 0);
        let answer = self.inner.get_opts(location, options).await;
        let answer = self.count.ended(request, location, answer)?;
        if request == Request::Get {
            let bytes = answer.range.end.saturating_sub(answer.range.start);
            self.count.meter.received(request, self.count.kind(location), bytes);
        }
        Ok(answer)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let count = self.count.clone();
        let counted = locations.inspect(move |location| {
            if let Ok(location) = location {
                count.sent(Request::Delete, location, 0);
            }
        });
        self.inner.delete_stream(counted.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.count.sent(Request::List, prefix.unwrap_or(&Path::default()), 0);
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.count.sent(Request::List, prefix.unwrap_or(&Path::default()), 0);
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let (at, whole) = (prefix, Path::default());
        self.count.sent(Request::List, at.unwrap_or(&whole), 0);
        let answer = self.inner.list_with_delimiter(prefix).await;
        self.count.ended(Request::List, at.unwrap_or(&whole), answer)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.count.sent(Request::Put, to, 0);
        let answer = self.inner.copy_opts(from, to, options).await;
        self.count.ended(Request::Put, to, answer)
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.count.sent(Request::Put, to, 0);
        let answer = self.inner.rename_opts(from, to, options).await;
        self.count.ended(Request::Put, to, answer)
    }
}

#[derive(Debug)]
struct MeteredUpload {
    upload: Box<dyn MultipartUpload>,
    location: Path,
    count: Count,
}

#[async_trait]
impl MultipartUpload for MeteredUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.count.sent(Request::Put, &self.location, data.content_length() as u64);
        let (part, count, location) = (self.upload.put_part(data), self.count.clone(), self.location.clone());
        Box::pin(async move { count.ended(Request::Put, &location, part.await) })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.count.sent(Request::Put, &self.location, 0);
        let answer = self.upload.complete().await;
        self.count.ended(Request::Put, &self.location, answer)
    }

    async fn abort(&mut self) -> Result<()> {
        self.count.sent(Request::Delete, &self.location, 0);
        let answer = self.upload.abort().await;
        self.count.ended(Request::Delete, &self.location, answer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutMode};

    use super::*;
    use crate::meter::Counts;

    #[test]
    fn what_goes_by_a_metered_backend_is_counted_by_kind_below_the_root() {
        let meter = Arc::new(Meter::new());
        let store = metered(Arc::new(InMemory::new()), Path::from("tables/t"), Arc::clone(&meter));
        let data = Path::from("tables/t/data/1.lance");
        let elsewhere = Path::from("tables/other/data/1.lance");
        futures::executor::block_on(async {
            store.put(&data, "hello".into()).await.unwrap();
            let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            assert!(store.put_opts(&data, "x".into(), create).await.is_err());
            store.put(&elsewhere, "hello".into()).await.unwrap();
            store.head(&data).await.unwrap();
            assert_eq!(store.get_range(&data, 1..3).await.unwrap(), "el");
            store.get_ranges(&data, &[0..1, 4..5]).await.unwrap();
            assert!(store.get(&Path::from("tables/t/data/2.lance")).await.is_err());
            let mut upload = store.put_multipart(&Path::from("tables/t/_versions/1")).await.unwrap();
            upload.put_part("abc".into()).await.unwrap();
            upload.complete().await.unwrap();
            store.delete(&data).await.unwrap();
            assert_eq!(store.list(Some(&Path::from("tables/t"))).count().await, 1);
        });
        let seen = meter.snapshot();
        let counts = |requests, bytes| Counts { requests, failed: 0, bytes };
        assert_eq!(seen.get(Request::Put, Kind::Base), counts(2 + 3, 6 + 3));
        assert_eq!(seen.get(Request::Put, Kind::Other), counts(1, 5));
        assert_eq!(seen.get(Request::Head, Kind::Base), counts(1, 0));
        // Two near ranges are read at once.
        assert_eq!(seen.get(Request::Get, Kind::Base), counts(3, 2 + 5));
        assert_eq!(seen.get(Request::Delete, Kind::Base), counts(1, 0));
        assert_eq!(seen.get(Request::List, Kind::Other), counts(1, 0));
    }
}
