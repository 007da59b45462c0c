//! Reading a table that is open for writing.
//!
//! Owns: the reads of [`Table`]. Each sees every row that was acknowledged before, whoever wrote it, in every
//! shard that is known here; what others commit to the base, and shards others make, it sees within
//! `reads.base_refresh_ms`, or at once after [`Table::refresh`]. Does not own: how a snapshot is taken and
//! read (`reading`).

use arrow_array::RecordBatch;
use headwater_engine::snapshot::ReadLevel;
use headwater_query::{
    GetRequest, QueryError, QueryRequest, ReadSnapshot, ScanRequest, SendableRecordBatchStream,
};

use crate::error::Error;
use crate::pins::SnapshotToken;
use crate::reading::Freshness;
use crate::table::Table;

impl Table {
    /// One consistent view of the whole table: a base version that was the newest within the last
    /// `reads.base_refresh_ms`, and every shard, written here or elsewhere. [`ReadLevel::Pending`] adds rows
    /// of this process that are on their way to storage. A shard this process lost to another writer is read
    /// from storage, as that writer left it. Rows of shards written elsewhere are kept in memory for the next
    /// read.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Shard`] when a shard serves no reads or its WAL cannot be read;
    /// [`Error::Table`] when the base cannot.
    pub async fn read(&self, level: ReadLevel) -> Result<ReadSnapshot, Error> {
        self.reading.read(level, Freshness::ACKNOWLEDGED).await
    }

    /// Streams live rows: see [`ReadSnapshot::scan`]. Waits for the first of them.
    ///
    /// # Errors
    /// As [`Table::read`] and [`ReadSnapshot::scan`].
    pub async fn scan(&self, request: &ScanRequest) -> Result<SendableRecordBatchStream, Error> {
        self.reading.scan(request, Freshness::ACKNOWLEDGED).await
    }

    /// Streams what a query asks for: filtered, computed and ordered rows, or those nearest to some vectors.
    /// Waits for the first of them. See [`QueryRequest`] and [`ReadSnapshot::query`].
    ///
    /// # Errors
    /// As [`Table::read`] and [`ReadSnapshot::query`].
    pub async fn query(&self, request: &QueryRequest) -> Result<SendableRecordBatchStream, Error> {
        self.reading.query(request, Freshness::ACKNOWLEDGED).await
    }

    /// The plan of a query, for people: see [`ReadSnapshot::explain_query`].
    ///
    /// # Errors
    /// As [`Table::query`].
    pub async fn explain_query(&self, request: &QueryRequest, verbose: bool) -> Result<String, Error> {
        self.reading.explain_query(request, verbose, Freshness::ACKNOWLEDGED).await
    }

    /// Runs a query for its plan with what each step took: see [`ReadSnapshot::analyze_query`].
    ///
    /// # Errors
    /// As [`Table::query`].
    pub async fn analyze_query(&self, request: &QueryRequest) -> Result<String, Error> {
        self.reading.analyze_query(request, Freshness::ACKNOWLEDGED).await
    }

    /// The live rows of some keys: see [`ReadSnapshot::get`].
    ///
    /// # Errors
    /// As [`Table::read`] and [`ReadSnapshot::get`].
    pub async fn get(&self, request: &GetRequest) -> Result<RecordBatch, Error> {
        self.reading.get(request, Freshness::ACKNOWLEDGED).await
    }

    /// How many live rows there are, or how many of them a SQL condition keeps.
    ///
    /// # Errors
    /// As [`Table::read`] and [`ReadSnapshot::count`].
    pub async fn count(&self, filter: Option<&str>) -> Result<u64, Error> {
        self.reading.count(filter, Freshness::ACKNOWLEDGED).await
    }

    /// Asks storage for the newest base version and which shards there are. Reads do so by themselves when
    /// they were last asked for longer than `reads.base_refresh_ms` ago; what this process commits they see
    /// at once anyway.
    ///
    /// # Errors
    /// [`Error::Table`] when storage does not answer, or the table is not what it was opened as.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.reading.refresh().await
    }

    /// One version of the base alone, by its number: as it was, without rows of the write tier, which are of
    /// now. [`ReadSnapshot::is_base_only`] and the plan say so.
    ///
    /// # Errors
    /// [`Error::Table`] when there is no such version any more, or storage does not answer.
    pub async fn read_version(&self, version: u64) -> Result<ReadSnapshot, Error> {
        self.shards.check_open()?;
        self.reading.read_version(version).await
    }

    /// Takes a snapshot and keeps it, to be read again by its token: by this process, through this open
    /// table. It is let go by [`Table::release`], by closing the table, or after
    /// `reads.snapshot_max_age_ms`; until then the memtables it was taken over stay in memory.
    ///
    /// # Errors
    /// [`Error::TooManySnapshots`] when `reads.max_pinned_snapshots` are pinned; otherwise as
    /// [`Table::read`].
    pub async fn pin(&self) -> Result<SnapshotToken, Error> {
        self.reading.pin(Freshness::ACKNOWLEDGED).await
    }

    /// The pinned snapshot of a token. It reads the same each time (P6).
    ///
    /// # Errors
    /// [`Error::SnapshotExpired`] when it is too old; [`Error::NoSuchSnapshot`] when it was released, or the
    /// token is of another open table.
    pub fn at(&self, token: &SnapshotToken) -> Result<ReadSnapshot, Error> {
        self.shards.check_open()?;
        self.reading.pins.at(token)
    }

    /// Lets go of a pinned snapshot. Whether it was still pinned.
    pub fn release(&self, token: &SnapshotToken) -> bool {
        self.reading.pins.release(token)
    }

    /// A read's error, with the table it was about.
    pub fn read_failed(&self, error: impl Into<QueryError>) -> Error {
        self.reading.failed(error.into())
    }
}
