//! Reading a table that is open for writing.
//!
//! Owns: the reads of [`Table`]. They are strong: each sees every row that was acknowledged before, whoever
//! wrote it. Does not own: how a snapshot is taken and read (`reading`).

use std::time::Duration;

use arrow_array::RecordBatch;
use headwater_engine::snapshot::ReadLevel;
use headwater_query::{
    GetRequest, QueryError, QueryRequest, ReadSnapshot, ScanRequest, SendableRecordBatchStream,
};

use crate::error::Error;
use crate::table::Table;

impl Table {
    /// One consistent view of the whole table: the newest base version, and every shard, written here or
    /// elsewhere. [`ReadLevel::Pending`] adds rows of this process that are on their way to storage. A shard
    /// this process lost to another writer is read from storage, as that writer left it. Rows of shards
    /// written elsewhere are kept in memory for the next read.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Shard`] when a shard serves no reads or its WAL cannot be read;
    /// [`Error::Table`] when the base cannot.
    pub async fn read(&self, level: ReadLevel) -> Result<ReadSnapshot, Error> {
        self.reading.read(level, Duration::ZERO).await
    }

    /// Streams live rows: see [`ReadSnapshot::scan`]. Waits for the first of them.
    ///
    /// # Errors
    /// As [`Table::read`] and [`ReadSnapshot::scan`].
    pub async fn scan(&self, request: &ScanRequest) -> Result<SendableRecordBatchStream, Error> {
        self.reading.scan(request, Duration::ZERO).await
    }

    /// Streams what a query asks for: filtered, computed and ordered rows, or the nearest ones to some vectors.
    /// Waits for the first of them. See [`QueryRequest`] and [`ReadSnapshot::query`].
    ///
    /// # Errors
    /// As [`Table::read`] and [`ReadSnapshot::query`].
    pub async fn query(&self, request: &QueryRequest) -> Result<SendableRecordBatchStream, Error> {
        self.reading.query(request, Duration::ZERO).await
    }

    /// The plan of a query, for people: see [`ReadSnapshot::explain_query`].
    ///
    /// # Errors
    /// As [`Table::query`].
    pub async fn explain_query(&self, request: &QueryRequest, verbose: bool) -> Result<String, Error> {
        self.reading.explain_query(request, verbose, Duration::ZERO).await
    }

    /// Runs a query for its plan with what each step took: see [`ReadSnapshot::analyze_query`].
    ///
    /// # Errors
    /// As [`Table::query`].
    pub async fn analyze_query(&self, request: &QueryRequest) -> Result<String, Error> {
        self.reading.analyze_query(request, Duration::ZERO).await
    }

    /// The live rows of some keys: see [`ReadSnapshot::get`].
    ///
    /// # Errors
    /// As [`Table::read`] and [`ReadSnapshot::get`].
    pub async fn get(&self, request: &GetRequest) -> Result<RecordBatch, Error> {
        self.reading.get(request, Duration::ZERO).await
    }

    /// How many live rows there are, or how many of them a SQL condition keeps.
    ///
    /// # Errors
    /// As [`Table::read`] and [`ReadSnapshot::count`].
    pub async fn count(&self, filter: Option<&str>) -> Result<u64, Error> {
        self.reading.count(filter, Duration::ZERO).await
    }

    /// A read's error, with the table it was about.
    pub fn read_failed(&self, error: impl Into<QueryError>) -> Error {
        self.reading.failed(error.into())
    }
}
