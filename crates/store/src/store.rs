//! One table's objects: get, put, list, delete with bounded retries, metered.
//!
//! Owns: [`Store`]. Does not own: put-if-absent (`put_once`), versions (`register`), what failures mean
//! (`error`). Paths are relative to the table root. A body shorter than its object's announced size is tried
//! again, never handed out. Called by `register`, the engine and `headwater-lance`.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use crate::durable_read::DurableRead;
use crate::env::EnvRef;
use crate::error::{Failure, ShortBody, StoreError};
use crate::meter::{Kind, Meter, Request};
use crate::retry::{Attempts, RetryPolicy};

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectInfo {
    /// Path relative to the store's root.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
}

/// The objects below one root. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<dyn ObjectStore>,
    root: Path,
    env: EnvRef,
    retry: RetryPolicy,
    meter: Arc<Meter>,
}

impl Store {
    /// The objects of `inner` below `root` (a table), with a meter of its own.
    pub fn new(inner: Arc<dyn ObjectStore>, root: Path, env: EnvRef, retry: RetryPolicy) -> Self {
        Self { inner, root, env, retry, meter: Arc::new(Meter::new()) }
    }

    /// The same objects, counted by `meter`.
    #[must_use]
    pub fn with_meter(self, meter: Arc<Meter>) -> Self {
        Self { meter, ..self }
    }

    /// The same objects, retried as `retry` says.
    #[must_use]
    pub fn with_retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// Counts every request made through this store and its clones.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// Where time, tasks and chance come from.
    pub fn env(&self) -> &EnvRef {
        &self.env
    }

    /// The path in [`Self::inner`] all paths are relative to.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The backend, unmetered and without retries of ours.
    pub fn inner(&self) -> &Arc<dyn ObjectStore> {
        &self.inner
    }

    /// How often and how long calls are retried.
    pub fn retry(&self) -> RetryPolicy {
        self.retry
    }

    /// The path in [`Self::inner`] of `path`; empty means the root.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when `path` has empty, `.` or `..` segments or characters no store takes.
    pub fn full_path(&self, path: &str) -> Result<Path, StoreError> {
        let below = Path::parse(path).map_err(|error| StoreError::invalid(path, error.to_string()))?;
        Ok(self.root.parts().chain(below.parts()).collect())
    }

    /// The whole object at `path`, or `None` when there is none (its directory may be missing too).
    ///
    /// # Errors
    /// Any but [`StoreError::Corrupt`], which is for callers that know what the bytes should be.
    pub async fn get(&self, path: &str) -> Result<Option<Bytes>, StoreError> {
        let full = self.full_path(path)?;
        let read = || self.read_whole(path, &full, GetOptions::default());
        absent_as_none(self.retried(Request::Get, path, 0, read).await)
    }

    /// As [`Self::get`], and what comes back stays, a power cut notwithstanding: see [`DurableRead`].
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn get_durable(&self, path: &str) -> Result<Option<Bytes>, StoreError> {
        let full = self.full_path(path)?;
        let read = || self.read_whole(path, &full, DurableRead::options());
        absent_as_none(self.retried(Request::Get, path, 0, read).await)
    }

    /// Whether there is an object at `path`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn exists(&self, path: &str) -> Result<bool, StoreError> {
        let full = self.full_path(path)?;
        let head = self.retried(Request::Head, path, 0, || self.inner.head(&full)).await;
        Ok(absent_as_none(head)?.is_some())
    }

    /// Writes `path`, replacing what is there. For objects that are hints: nothing is said about who wins.
    ///
    /// # Errors
    /// Any; after [`StoreError::Unavailable`] the write may or may not have been applied.
    pub async fn put(&self, path: &str, bytes: Bytes) -> Result<(), StoreError> {
        let full = self.full_path(path)?;
        let put = || self.write_whole(&full, &bytes, PutMode::Overwrite);
        let done = self.retried(Request::Put, path, bytes.len() as u64, put).await;
        done.map_err(Failure::into_error)
    }

    /// Deletes `path`. Deleting what is not there is fine.
    ///
    /// # Errors
    /// Any; after [`StoreError::Unavailable`] the object may or may not be gone.
    pub async fn delete(&self, path: &str) -> Result<(), StoreError> {
        let full = self.full_path(path)?;
        let done = self.retried(Request::Delete, path, 0, || self.inner.delete(&full)).await;
        absent_as_none(done).map(|_| ())
    }

    /// All objects below the directory `prefix` (empty: all), at any depth, sorted by path. A missing
    /// directory is empty. Staging files of the local backend are not shown.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, StoreError> {
        let full = self.full_path(prefix)?;
        let list = || self.inner.list(Some(&full)).try_collect::<Vec<_>>();
        let found = absent_as_none(self.retried(Request::List, prefix, 0, list).await)?.unwrap_or_default();
        let mut objects: Vec<_> = found
            .into_iter()
            .filter_map(|meta| Some(ObjectInfo { path: self.relative(&meta.location)?, size: meta.size }))
            .collect();
        objects.sort_unstable();
        objects.dedup();
        Ok(objects)
    }

    /// Names of the directories directly below the directory `prefix` (empty: the root), sorted.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn list_dirs(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let full = self.full_path(prefix)?;
        let list = || self.inner.list_with_delimiter(Some(&full));
        let found = absent_as_none(self.retried(Request::List, prefix, 0, list).await)?;
        let dirs = found.map(|found| found.common_prefixes).unwrap_or_default();
        let mut names: Vec<_> = dirs.iter().filter_map(|dir| dir.filename().map(str::to_owned)).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn relative(&self, location: &Path) -> Option<String> {
        let below: Path = location.prefix_match(&self.root)?.collect();
        Some(below.to_string())
    }

    /// Makes requests until one is answered, while attempts and time are left.
    async fn retried<T, F>(
        &self,
        request: Request,
        path: &str,
        sends: u64,
        make: impl Fn() -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let mut attempts = Attempts::new(self.env.as_ref(), self.retry);
        loop {
            let failure = match self.attempt(request, path, sends, &mut attempts, make()).await {
                Ok(done) => return Ok(done),
                Err(failure @ (Failure::Missing(_) | Failure::Refused(_))) => return Err(failure),
                Err(failure @ (Failure::Exists(_) | Failure::NotSynced(_) | Failure::Ambiguous(_))) => {
                    failure
                }
            };
            tracing::debug!(path, attempts = attempts.made(), ?failure, "storage request failed");
            if !attempts.pause().await {
                return Err(failure);
            }
        }
    }

    /// One request: counted, given limited time, its failure sorted.
    async fn attempt<T>(
        &self,
        request: Request,
        path: &str,
        sends: u64,
        attempts: &mut Attempts<'_>,
        answer: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        let kind = Kind::of(path);
        self.meter.sent(request, kind, sends);
        let failure = match attempts.run(answer).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(said)) => Failure::of(path, attempts.made(), said),
            Err(no_answer) => Failure::unanswered(path, attempts.made(), no_answer),
        };
        if !matches!(failure, Failure::Missing(_) | Failure::Exists(_)) {
            self.meter.failed(request, kind);
        }
        Err(failure)
    }

    /// One put-if-absent of `path`.
    pub(crate) async fn create_attempt(
        &self,
        path: &str,
        full: &Path,
        bytes: &Bytes,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), Failure> {
        let create = self.write_whole(full, bytes, PutMode::Create);
        self.attempt(Request::Put, path, bytes.len() as u64, attempts, create).await
    }

    /// One read of `path` that proves that it stays.
    pub(crate) async fn durable_get_attempt(
        &self,
        path: &str,
        full: &Path,
        attempts: &mut Attempts<'_>,
    ) -> Result<Bytes, Failure> {
        let read = self.read_whole(path, full, DurableRead::options());
        self.attempt(Request::Get, path, 0, attempts, read).await
    }

    async fn write_whole(&self, full: &Path, bytes: &Bytes, mode: PutMode) -> object_store::Result<()> {
        let options = PutOptions { mode, ..PutOptions::default() };
        self.inner.put_opts(full, bytes.clone().into(), options).await.map(|_| ())
    }

    /// Reads the object and checks its length against the announced one.
    async fn read_whole(&self, path: &str, full: &Path, options: GetOptions) -> object_store::Result<Bytes> {
        let answer = self.inner.get_opts(full, options).await?;
        let announced = answer.meta.size;
        let bytes = answer.bytes().await?;
        let received = bytes.len() as u64;
        self.meter.received(Request::Get, Kind::of(path), received);
        if received == announced {
            return Ok(bytes);
        }
        let source = Box::new(ShortBody { announced, received });
        Err(object_store::Error::Generic { store: "headwater", source })
    }
}

/// Turns "not there" into `None`.
fn absent_as_none<T>(answer: Result<T, Failure>) -> Result<Option<T>, StoreError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Missing(_)) => Ok(None),
        Err(failure) => Err(failure.into_error()),
    }
}
