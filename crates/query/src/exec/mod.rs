//! The operators of a read, one a file.
//!
//! - [`BaseScanExec`]: the base, filtered by Lance, less what newer rows hide.
//! - [`SsTableScanExec`]: an SSTable less what it and newer rows hide.
//! - [`MemtableScanExec`]: a memtable at S.
//! - [`ConcatExec`]: sources one after the other.

mod base_scan;
mod concat;
mod memtable_scan;
mod properties;
mod sstable_scan;

pub(crate) use base_scan::BaseScanExec;
pub(crate) use concat::ConcatExec;
pub(crate) use memtable_scan::MemtableScanExec;
pub(crate) use sstable_scan::SsTableScanExec;
