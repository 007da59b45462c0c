//! The seam to tables: what a shard needs of the base table and of SSTable files, in Arrow types only.
//!
//! Owns: [`TableIo`], [`SsTableReader`] and their errors. Does not own: any file format. `headwater-lance`
//! implements it on Lance, `headwater-sim` in memory over the fault store.
//! Keeps P9 (a named SSTable is complete) together with `flush`.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use headwater_format::coord::{RowOffset, ShardId};
use headwater_format::shard_manifest::SsTable;

use crate::memtable::FrozenMemtable;

/// The base table as a shard sees it.
#[derive(Clone, Debug)]
pub struct BaseTable {
    /// Version of the base this was read from.
    pub version: u64,
    /// The logical schema: fields carry `lance:field_id` and, for key columns, the key marker; no
    /// `_tombstone`. Schema metadata is the base's own.
    pub schema: SchemaRef,
}

/// What a written, not yet named SSTable consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenSsTable {
    /// Rows in the data file, replaced ones included.
    pub physical_rows: u64,
    /// Rows marked in the deletion vector: replaced inside the generation.
    pub replaced_rows: u64,
    /// Bytes of all its files.
    pub file_bytes: u64,
}

/// Access to the table behind a shard. All errors are typed ([`TableError`]); nothing panics (P14).
#[async_trait]
pub trait TableIo: std::fmt::Debug + Send + Sync + 'static {
    /// Version and schema of the base as of now.
    ///
    /// # Errors
    /// [`TableError::Unavailable`] when storage does not answer; [`TableError::Invalid`] when the table is
    /// gone, carries no MemWAL index any more, or is of another incarnation than when it was opened.
    async fn base(&self) -> Result<BaseTable, TableError>;

    /// Writes `frozen` as the SSTable directory `name` (`{8 hex}_gen_{generation}`) of `shard`: data file
    /// with all physical rows in insert order, deletion vector, key sidecar with every row, bloom filter,
    /// table manifest last. On return every file is durable and nothing names the directory yet. What a
    /// failed attempt leaves behind nothing will name; the next attempt uses a new name.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when `frozen` has no rows, or rows that are not durable or not applied to an
    /// index it carries ([`FrozenMemtable::check_complete`]); otherwise what storage said.
    async fn write_sstable(
        &self,
        shard: ShardId,
        name: &str,
        frozen: &FrozenMemtable,
    ) -> Result<WrittenSsTable, TableError>;

    /// Opens a published SSTable.
    ///
    /// # Errors
    /// [`TableError::NotFound`] when a file is missing, [`TableError::Corrupt`] when one cannot be read.
    async fn open_sstable(
        &self,
        shard: ShardId,
        sstable: &SsTable,
    ) -> Result<Arc<dyn SsTableReader>, TableError>;

    /// Names of all SSTable directories of `shard` on storage, named by a manifest or not, in no order.
    ///
    /// # Errors
    /// What storage said.
    async fn list_generations(&self, shard: ShardId) -> Result<Vec<String>, TableError>;

    /// Called once per flush, after the files are written and before the SSTable is published, so that caches
    /// are warm when readers move over. A failure is logged and stops nothing.
    ///
    /// # Errors
    /// Whatever went wrong; the caller only logs it.
    async fn warm(&self, shard: ShardId, sstable: &SsTable) -> Result<(), TableError>;
}

/// An open, immutable SSTable.
#[async_trait]
pub trait SsTableReader: std::fmt::Debug + Send + Sync {
    /// Rows in the data file, replaced ones included.
    fn physical_rows(&self) -> u64;

    /// For each row of `keys` (a batch of exactly the key columns, in key order), the offsets of all physical
    /// rows with that key, ascending, replaced ones included; empty when the key was never written. Exact.
    ///
    /// # Errors
    /// [`TableError::Invalid`] on a table without a key or columns of other types; otherwise what storage
    /// said.
    async fn find_keys(&self, keys: &RecordBatch) -> Result<Vec<Vec<RowOffset>>, TableError>;

    /// The physical rows at `offsets`, in that order, in the storage schema (`_tombstone` last).
    ///
    /// # Errors
    /// [`TableError::Invalid`] when an offset is out of range; otherwise what storage said.
    async fn read_rows(&self, offsets: &[RowOffset]) -> Result<RecordBatch, TableError>;

    /// The newest row of each key, tombstones included, in insert order, in the storage schema.
    ///
    /// # Errors
    /// What storage said.
    async fn scan(&self) -> Result<Vec<RecordBatch>, TableError>;
}

/// Why a table could not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TableError {
    /// The request itself is wrong; trying again will not help.
    #[error("{reason}")]
    Invalid {
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The table has other columns than the rows to be written; trying again will not help.
    #[error("{reason}")]
    SchemaChanged {
        /// What differs, and what to do.
        reason: String,
    },
    /// A file that should be there is not.
    #[error("not found: {path}")]
    NotFound {
        /// Path below the table.
        path: String,
    },
    /// A file is there but cannot be what its name says.
    #[error("corrupt file {path}: {reason}")]
    Corrupt {
        /// Path below the table.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Storage did not do it this time; trying again may help.
    #[error("storage unavailable at {path}: {reason}")]
    Unavailable {
        /// Path below the table.
        path: String,
        /// What storage said.
        reason: String,
    },
}

impl TableError {
    /// An [`TableError::Invalid`].
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }

    /// Whether trying again may help.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::NotFound { .. })
    }
}
