//! The auditor: looks at storage after every change and says what must not be there.
//!
//! Owns: what can be judged from the objects alone, by our own reading of the format: WAL entries without
//! holes (P8) and with epochs that do not fall (P7); each shard manifest against the one before (versions,
//! epochs, generations, cursors); each newly named SSTable complete (P9) and computed at its cut (P4); and,
//! because nothing is compacted here, the physical rows of all SSTables equal to the rows of the WAL up to
//! the replay cursor, once each and in order (P11, P12). Does not own: what clients were told (`history`).

mod auditor;
mod manifest;
mod sstable;
mod wal;

#[cfg(test)]
mod tests;

pub use auditor::{Audit, Auditor};
pub use wal::{Entry, read_entry};
