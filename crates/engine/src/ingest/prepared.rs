//! A batch that is ready for WAL and memtable.
//!
//! Owns: [`PreparedBatch`]. Made by `Ingest` only.

use arrow_array::RecordBatch;

use crate::memtable::BatchKeys;

/// Rows in the storage schema with their keys and sizes. Cheap to clone but for the keys.
#[derive(Clone, Debug)]
pub struct PreparedBatch {
    /// The rows: storage schema, `_tombstone` last.
    pub batch: RecordBatch,
    /// Their keys; `BatchKeys::None` on a table without a key.
    pub keys: BatchKeys,
    /// Logical bytes of the rows: what they take as Arrow buffers cut to size, `_tombstone` not counted.
    pub payload_bytes: u64,
    /// Logical bytes of the key values; 0 without a key.
    pub key_bytes: u64,
    /// Bytes of all buffers the rows hold on to.
    pub resident_bytes: u64,
}

impl PreparedBatch {
    /// How many rows.
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Whether there is nothing to write: such a batch is acknowledged at once.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0
    }
}
