//! What is on storage, for people and scripts, without claiming anything.
//!
//! - [`report`]: the findings as plain serializable data; their JSON form is a contract.
//! - `files`: what each object under `_mem_wal/` is, by its name alone.
//! - `walk`: the files of a local table, staging left-overs included.
//! - `read`: puts the two together and looks into manifests and WAL entries.

mod files;
mod read;
pub mod report;
mod walk;

pub use read::inspect;
pub use report::TableReport;
