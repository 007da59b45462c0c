//! A full or read-only disk: a typed error that says so, nothing lost, nothing half-published; writing goes
//! on, with the same handle, when space returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::{fmt, io};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use headwater::{Connection, Error, OpenOptions, ReadLevel, ShardError, Sharding, Table};
use lance_io::object_store::WrappingObjectStore;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::support::{Home, expected, inspect, options, read, rows, schema, text};

/// A disk that can fill up and can be made read-only.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<AtomicU8>);

const WRITABLE: u8 = 0;
const FULL: u8 = 1;
const READ_ONLY: u8 = 2;
/// Full when the last file of an SSTable comes: everything else of it is there.
const FULL_AT_THE_LAST_FILE: u8 = 3;

impl Disk {
    fn set(&self, state: u8) {
        self.0.store(state, Ordering::SeqCst);
    }

    fn check(&self, path: &Path) -> Result<()> {
        let last_file = || path.as_ref().contains("_gen_") && path.as_ref().contains("/_versions/");
        let kind = match self.0.load(Ordering::SeqCst) {
            FULL_AT_THE_LAST_FILE if last_file() => io::ErrorKind::StorageFull,
            FULL => io::ErrorKind::StorageFull,
            READ_ONLY => io::ErrorKind::ReadOnlyFilesystem,
            _ => return Ok(()),
        };
        Err(object_store::Error::Generic { store: "disk", source: Box::new(io::Error::from(kind)) })
    }
}

impl WrappingObjectStore for Disk {
    fn wrap(&self, _prefix: &str, original: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(OnDisk { disk: self.clone(), inner: original })
    }

    fn wrap_paginated(
        &self,
        _prefix: &str,
        original: Arc<dyn PaginatedListStore>,
    ) -> Option<Arc<dyn PaginatedListStore>> {
        Some(original)
    }
}

#[derive(Debug)]
struct OnDisk {
    disk: Disk,
    inner: Arc<dyn ObjectStore>,
}

impl fmt::Display for OnDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for OnDisk {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.disk.check(path)?;
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.disk.check(path)?;
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    async fn get_ranges(&self, path: &Path, ranges: &[std::ops::Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(path, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.disk.check(to)?;
        self.inner.copy_opts(from, to, options).await
    }
}

/// A table on a disk of the test's own.
struct OnOwnDisk {
    home: Home,
    disk: Disk,
}

impl OnOwnDisk {
    fn new() -> Self {
        Self { home: Home::new(), disk: Disk::default() }
    }

    /// Lance writes `file://` behind the back of its object stores; not so this scheme.
    fn uri(&self) -> String {
        format!("file-object-store://{}", self.home.path().display())
    }

    fn options(&self) -> OpenOptions {
        let connection = Connection::default().with_wrapper(Arc::new(self.disk.clone()));
        OpenOptions { connection, ..options() }
    }

    async fn create(&self) -> Table {
        let key = ["id".to_owned()];
        Table::create(&self.uri(), &schema(), &key, &Sharding::Unsharded, self.options()).await.unwrap()
    }

    async fn open(&self) -> Table {
        Table::open(&self.uri(), self.options()).await.unwrap()
    }
}

fn says(error: &Error, words: &[&str]) {
    let text = text(error).to_lowercase();
    assert!(words.iter().any(|word| text.contains(word)), "{text} says one of {words:?}");
}

const FULL_WORDS: [&str; 2] = ["no space", "no storage space"];
const READ_ONLY_WORDS: [&str; 2] = ["read-only", "read only"];

#[tokio::test(flavor = "multi_thread")]
async fn a_put_on_a_full_disk_fails_with_the_reason_and_nothing_acknowledged_is_lost() {
    let table_on = OnOwnDisk::new();
    let table = table_on.create().await;
    table.put(rows(&[(1, "a")])).await.unwrap();
    table_on.disk.set(FULL);
    let error = table.put(rows(&[(2, "b")])).await.unwrap_err();
    says(&error, &FULL_WORDS);
    assert!(error.to_string().contains("_mem_wal"), "{error} says where");

    let error = table.snapshot(ReadLevel::Durable).await.unwrap_err();
    assert!(matches!(error.shard_error(), Some(ShardError::Poisoned { .. })), "no rows left out: {error}");
    let error = table.put(rows(&[(3, "c")])).await.unwrap_err();
    says(&error, &FULL_WORDS);
    assert_eq!(table.stats().shards.len(), 1, "the shard is told of while it cannot be opened");

    table_on.disk.set(WRITABLE);
    table.put(rows(&[(3, "c")])).await.expect("the next write opens the shard again");
    let mut found = read(&table).await;
    // The refused row may have been written before the refusal, or not: for good either way (P2).
    found.remove(&2);
    assert_eq!(found, expected(&[(1, "a"), (3, "c")]));
    table.close().await.expect("nothing is left of the failure");
}

/// Whoever sends writes one after the other, and looks at their tickets later, finds no gap.
#[tokio::test(flavor = "multi_thread")]
async fn no_write_is_acknowledged_behind_one_whose_failure_was_not_looked_at() {
    let table_on = OnOwnDisk::new();
    let table = table_on.create().await;
    table.put(rows(&[(1, "a")])).await.unwrap();
    table_on.disk.set(FULL);
    let failing = table.put_nowait(rows(&[(2, "b")])).await.unwrap();
    while table.snapshot(ReadLevel::Durable).await.is_ok() {}
    table_on.disk.set(WRITABLE);
    let error = table.put(rows(&[(3, "c")])).await.unwrap_err();
    assert!(matches!(error.shard_error(), Some(ShardError::Poisoned { .. })), "{error}");
    failing.await.unwrap_err();
    table.put(rows(&[(4, "d")])).await.expect("the failure is known now");
    assert_eq!(read(&table).await, expected(&[(1, "a"), (4, "d")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_whose_shard_could_not_be_opened_again_says_so_when_it_is_closed() {
    let table_on = OnOwnDisk::new();
    let table = table_on.create().await;
    table.put(rows(&[(1, "a")])).await.unwrap();
    table_on.disk.set(FULL);
    for row in [(2, "b"), (3, "c")] {
        says(&table.put(rows(&[row])).await.unwrap_err(), &FULL_WORDS);
    }
    says(&table.close().await.unwrap_err(), &FULL_WORDS);
}

/// P7: what another process claimed after the failure is its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_was_taken_over_after_the_failure_is_not_taken_back() {
    let table_on = OnOwnDisk::new();
    let older = table_on.create().await;
    older.put(rows(&[(1, "a")])).await.unwrap();
    table_on.disk.set(FULL);
    older.put(rows(&[(2, "b")])).await.unwrap_err();
    table_on.disk.set(WRITABLE);
    let newer = table_on.open().await;
    newer.put(rows(&[(3, "c")])).await.unwrap();
    for _ in 0..2 {
        let error = older.put(rows(&[(4, "stale")])).await.unwrap_err();
        assert!(matches!(error.shard_error(), Some(ShardError::Fenced { .. })), "{error}");
    }
    newer.put(rows(&[(5, "e")])).await.expect("the newer writer was left alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_on_a_full_disk_is_tried_again_until_space_returns() {
    let table_on = OnOwnDisk::new();
    let table = table_on.create().await;
    table.put(rows(&[(1, "a"), (2, "b")])).await.unwrap();
    table_on.disk.set(FULL);
    let mut flush = Box::pin(table.flush());
    loop {
        assert!(futures::poll!(flush.as_mut()).is_pending(), "a failing flush is no flush");
        let report = inspect(&table_on.uri()).await;
        assert!(report.shards[0].sstables.is_empty(), "nothing half-published");
        let failures: u64 = table.stats().shards.values().map(|shard| shard.counters.flush_failures).sum();
        if failures >= 2 {
            break;
        }
    }
    let stats = table.stats();
    let last = stats.shards.values().find_map(|shard| shard.last_error.clone()).unwrap().to_lowercase();
    assert!(FULL_WORDS.iter().any(|word| last.contains(word)), "{last}");
    table_on.disk.set(WRITABLE);
    assert_eq!(flush.await.unwrap().len(), 1);
    assert_eq!(read(&table).await, expected(&[(1, "a"), (2, "b")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn flushes_that_fail_late_leave_no_directory_each() {
    let table_on = OnOwnDisk::new();
    let table = table_on.create().await;
    table.put(rows(&[(1, "a"), (2, "b")])).await.unwrap();
    let shard = *table.stats().shards.keys().next().unwrap();
    table_on.disk.set(FULL_AT_THE_LAST_FILE);
    let mut flush = Box::pin(table.flush());
    while table.stats().shards[&shard].counters.flush_failures < 3 {
        assert!(futures::poll!(flush.as_mut()).is_pending(), "a failing flush is no flush");
        tokio::task::yield_now().await;
    }
    table_on.disk.set(WRITABLE);
    flush.await.unwrap();
    assert_eq!(table.files().list_generations(shard).await.unwrap().len(), 1, "the one that was published");
    assert_eq!(read(&table).await, expected(&[(1, "a"), (2, "b")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_on_a_full_disk_reports_it_and_the_rows_are_replayed_later() {
    let table_on = OnOwnDisk::new();
    let table = table_on.create().await;
    table.put(rows(&[(1, "a")])).await.unwrap();
    table_on.disk.set(FULL);
    let error = table.close().await.unwrap_err();
    says(&error, &FULL_WORDS);
    table_on.disk.set(WRITABLE);
    let table = table_on.open().await;
    table.open_shards().await.unwrap();
    assert_eq!(read(&table).await, expected(&[(1, "a")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_disk_refuses_init_and_claims_and_says_so() {
    let table_on = OnOwnDisk::new();
    let table = table_on.create().await;
    table.put(rows(&[(1, "a")])).await.unwrap();
    table.abandon();
    table_on.disk.set(READ_ONLY);
    let table = table_on.open().await;
    let error = table.put(rows(&[(2, "b")])).await.unwrap_err();
    says(&error, &READ_ONLY_WORDS);
    let error = table.open_shards().await.unwrap_err();
    says(&error, &READ_ONLY_WORDS);
    let elsewhere = OnOwnDisk::new();
    elsewhere.disk.set(READ_ONLY);
    let key = ["id".to_owned()];
    let error =
        Table::create(&elsewhere.uri(), &schema(), &key, &Sharding::Unsharded, elsewhere.options()).await;
    says(&error.unwrap_err(), &READ_ONLY_WORDS);

    table_on.disk.set(WRITABLE);
    table.put(rows(&[(2, "b")])).await.expect("the same handle opens the shard once it can");
    assert_eq!(read(&table).await, expected(&[(1, "a"), (2, "b")]));
}
