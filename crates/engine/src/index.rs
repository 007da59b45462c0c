//! The seam to search indexes a memtable carries besides its key index.
//!
//! Owns: [`MemIndex`], [`MemIndexFactory`]. Does not own: any index kind (scalar, full text, vector live in a
//! crate of their own; `headwater-sim` has a slow model index). A flush waits until every index has applied
//! every row of the frozen memtable (P9, lance#9035).

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use headwater_format::coord::{Generation, RowOffset};

/// Builds the indexes of a new memtable.
pub trait MemIndexFactory: std::fmt::Debug + Send + Sync + 'static {
    /// A fresh, empty index for the memtable of `generation`, whose rows have `schema` (the storage schema).
    ///
    /// # Errors
    /// [`IndexError`] when no index of this kind can be built on the schema; checked at open, before any
    /// claim.
    fn create(&self, generation: Generation, schema: &SchemaRef) -> Result<Arc<dyn MemIndex>, IndexError>;
}

/// One index over the rows of one memtable. Rows are applied in order, by one task.
#[async_trait]
pub trait MemIndex: std::fmt::Debug + Send + Sync {
    /// Which kind on which columns.
    fn describe(&self) -> IndexDescription;

    /// Applies the rows of `batch`, which start at `first` in the memtable. Called in order, without gaps
    /// (P8).
    ///
    /// # Errors
    /// [`IndexError`]: the shard is poisoned, for a later flush could never be complete.
    async fn apply(&self, first: RowOffset, batch: &RecordBatch) -> Result<(), IndexError>;

    /// How many rows of the memtable are applied: those with offsets below this number.
    fn applied(&self) -> RowOffset;

    /// Resident bytes.
    fn memory(&self) -> usize;
}

/// Which kind on which columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDescription {
    /// Name of the index.
    pub name: String,
    /// Its kind, for people: `key`, `btree`, `full text`, `vector`.
    pub kind: String,
    /// The columns it covers.
    pub columns: Vec<String>,
}

/// An index cannot be built or cannot take a row.
#[derive(Debug, thiserror::Error)]
#[error("index {index}: {reason}")]
pub struct IndexError {
    /// Name of the index.
    pub index: String,
    /// What is wrong.
    pub reason: String,
}
