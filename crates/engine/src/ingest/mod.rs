//! Ingest: what callers hand in becomes what the memtable and the WAL hold.
//!
//! Owns: shaping batches to the storage schema (columns by name, fills, `_tombstone`), checking types, nulls
//! and sizes, extracting keys, copying small slices that pin large parents. Does not own: order, durability,
//! or any state of the shard: everything here runs on the caller's task, so that the conductor's work per
//! batch is small. A batch is refused whole, before anything is inserted (P3), with an error that names
//! column and row (P14).

pub(crate) mod compact;
mod error;
mod keys;
mod limits;
mod nulls;
mod prepared;
mod shape;
mod types;

pub use error::InvalidInput;
pub use keys::{batch_keys, key_column};
pub use limits::IngestLimits;
pub use prepared::PreparedBatch;
pub use shape::Ingest;
