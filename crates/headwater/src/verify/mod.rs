//! Whether what is on storage is what the invariants say, without claiming or writing anything.
//!
//! One file a family of rules; each judges values that were read before, so that it can be read by itself.
//!
//! - [`report`]: the findings as plain serializable data; their JSON form is a contract.
//! - `run`: walks the table, shard by shard; looks again at a shard that moved meanwhile.
//! - `manifests`: every version of a shard manifest (P8, and P7 and P11 from one version to the next).
//! - `wal`: every WAL entry (P8, P7, P15).
//! - `generations`: SSTables, generation tags and the replay cursor against each other (P11).
//! - `sstables`: every SSTable the newest manifest names (P9).
//! - `base`: the base and the shards against each other (P16).

mod base;
mod generations;
mod manifests;
pub mod report;
mod run;
mod sstables;
mod wal;

pub use report::VerifyReport;
pub use run::{Progress, verify};
