//! A table that is only read.
//!
//! Owns: [`Reader`] and [`ReadOptions`]. Claims nothing and writes nothing: it follows what writers elsewhere
//! do, as often as it is told to. Does not own: how a snapshot is taken and read (`reading`).

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use headwater_engine::snapshot::ReadLevel;
use headwater_format::key::KeySchema;
use headwater_query::{
    GetRequest, QueryError, QueryRequest, ReadSnapshot, ScanRequest, SendableRecordBatchStream,
};
use headwater_store::MeterSnapshot;

use crate::error::Error;
use crate::options::OpenOptions;
use crate::pins::{PinnedSnapshots, SnapshotToken};
use crate::reading::{Freshness, Reading};
use crate::shards::Common;
use crate::table::open_common;

/// How a table is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// How old what is read may be: storage is asked for news only when it was last asked longer ago. Zero:
    /// before each read.
    pub poll: Duration,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { poll: Duration::from_secs(1) }
    }
}

/// A table open for reading. Many tasks may use it at once; they share what is read.
///
/// Every row acknowledged anywhere is seen within the poll interval, and at once by [`Reader::strong`].
/// Shards that others make, and what others commit to the base, are seen up to `reads.base_refresh_ms` later,
/// and at once by a strong read. What its reads show never goes back in time (P6).
#[derive(Debug)]
pub struct Reader {
    common: Arc<Common>,
    reading: Reading,
    poll: Duration,
}

impl Reader {
    /// Opens a table whose write tier was initialised, here or elsewhere. The memory budget of `options`
    /// bounds the rows kept that writers have not flushed, and the keys kept of SSTables and base.
    ///
    /// # Errors
    /// As [`Table::open`](crate::Table::open).
    pub async fn open(uri: &str, options: OpenOptions, read: ReadOptions) -> Result<Self, Error> {
        let common = open_common(uri, options).await?;
        Ok(Self { reading: Reading::new(Arc::clone(&common), None), common, poll: read.poll })
    }

    /// Address the table was opened at.
    pub fn uri(&self) -> &str {
        self.common.lance.uri()
    }

    /// The schema of the rows.
    pub fn schema(&self) -> SchemaRef {
        self.common.lance.schema()
    }

    /// The key; none on an append-only table.
    pub fn key(&self) -> Option<&KeySchema> {
        self.common.lance.key()
    }

    /// One consistent view of the whole table, at most the poll interval old.
    ///
    /// # Errors
    /// [`Error::Shard`] when the WAL of a shard cannot be read, or what its writer has not flushed does not
    /// fit into memory; [`Error::Table`] when the base cannot be read.
    pub async fn read(&self) -> Result<ReadSnapshot, Error> {
        self.reading.read(ReadLevel::Durable, self.freshness()).await
    }

    fn freshness(&self) -> Freshness {
        Freshness::Within(self.poll)
    }

    /// As [`Reader::read`], with every row that was acknowledged before this was called, and the newest base
    /// version.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub async fn strong(&self) -> Result<ReadSnapshot, Error> {
        self.reading.read(ReadLevel::Durable, Freshness::Strong).await
    }

    /// Streams live rows: see [`ReadSnapshot::scan`]. Waits for the first of them.
    ///
    /// # Errors
    /// As [`Reader::read`] and [`ReadSnapshot::scan`].
    pub async fn scan(&self, request: &ScanRequest) -> Result<SendableRecordBatchStream, Error> {
        self.reading.scan(request, self.freshness()).await
    }

    /// Streams what a query asks for: see [`Table::query`](crate::Table::query).
    ///
    /// # Errors
    /// As [`Reader::read`] and [`ReadSnapshot::query`].
    pub async fn query(&self, request: &QueryRequest) -> Result<SendableRecordBatchStream, Error> {
        self.reading.query(request, self.freshness()).await
    }

    /// The plan of a query, for people: see [`ReadSnapshot::explain_query`].
    ///
    /// # Errors
    /// As [`Reader::query`].
    pub async fn explain_query(&self, request: &QueryRequest, verbose: bool) -> Result<String, Error> {
        self.reading.explain_query(request, verbose, self.freshness()).await
    }

    /// Runs a query for its plan with what each step took: see [`ReadSnapshot::analyze_query`].
    ///
    /// # Errors
    /// As [`Reader::query`].
    pub async fn analyze_query(&self, request: &QueryRequest) -> Result<String, Error> {
        self.reading.analyze_query(request, self.freshness()).await
    }

    /// The live rows of some keys: see [`ReadSnapshot::get`].
    ///
    /// # Errors
    /// As [`Reader::read`] and [`ReadSnapshot::get`].
    pub async fn get(&self, request: &GetRequest) -> Result<RecordBatch, Error> {
        self.reading.get(request, self.freshness()).await
    }

    /// How many live rows there are, or how many of them a SQL condition keeps.
    ///
    /// # Errors
    /// As [`Reader::read`] and [`ReadSnapshot::count`].
    pub async fn count(&self, filter: Option<&str>) -> Result<u64, Error> {
        self.reading.count(filter, self.freshness()).await
    }

    /// One version of the base alone, by its number: see [`Table::read_version`](crate::Table::read_version).
    ///
    /// # Errors
    /// [`Error::Table`] when there is no such version any more, or storage does not answer.
    pub async fn read_version(&self, version: u64) -> Result<ReadSnapshot, Error> {
        self.reading.read_version(version).await
    }

    /// Takes a snapshot, as [`Reader::strong`] does, and keeps it: see [`Table::pin`](crate::Table::pin).
    ///
    /// # Errors
    /// [`Error::TooManySnapshots`]; otherwise as [`Reader::read`].
    pub async fn pin(&self) -> Result<SnapshotToken, Error> {
        self.reading.pin(Freshness::Strong).await
    }

    /// The pinned snapshot of a token: see [`Table::at`](crate::Table::at).
    ///
    /// # Errors
    /// [`Error::SnapshotExpired`], [`Error::NoSuchSnapshot`].
    pub fn at(&self, token: &SnapshotToken) -> Result<ReadSnapshot, Error> {
        self.reading.pins.at(token)
    }

    /// Lets go of a pinned snapshot. Whether it was still pinned.
    pub fn release(&self, token: &SnapshotToken) -> bool {
        self.reading.pins.release(token)
    }

    /// How many snapshots are pinned, how old the oldest is, and what they keep in memory.
    pub fn pinned(&self) -> PinnedSnapshots {
        self.reading.pins.stats()
    }

    /// A read's error, with the table it was about.
    pub fn read_failed(&self, error: impl Into<QueryError>) -> Error {
        self.reading.failed(error.into())
    }

    /// Object-store requests since the table was opened, by class and kind of object.
    pub fn requests(&self) -> MeterSnapshot {
        self.common.lance.store().meter().snapshot()
    }
}
